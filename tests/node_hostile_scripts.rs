//! Scripts that want a worker for themselves: each is ended by its bounds, its writes are taken back, and meanwhile the other
//! connections of the same worker get their answers.

use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value, Watch};

const BUDGET_MS: u64 = 300;
/// How long until a script is ended whose budget is over, on a loaded machine.
const END_LIMIT: Duration = Duration::from_secs(8);

fn node(workers: &str) -> Node {
    Node::start(&["--workers", workers, "--set", &format!("script.budget_ms={BUDGET_MS}")])
}

fn eval(client: &mut Client, script: &str, keys: &[&str], args: &[&str]) -> Value {
    let count = keys.len().to_string();
    client.command(&[&["EVAL", script, &count], keys, args].concat())
}

/// Runs each, after it has written to a declared key and to one that is not; `ends` is how the error has to start. Without one, any end
/// is right, but it has to come.
fn run_all(workers: &str, scripts: &[&str], ends: Option<&str>) {
    let node = node(workers);
    let watchers = 2 * workers.parse::<usize>().expect("a number");
    let mut client = node.client();
    client.line("MSET declared kept other kept watch:0 seen");
    client.line("RPUSH list a b c");
    for script in scripts {
        let writes = match ends {
            Some(_) => {
                "redis.call('SET', KEYS[1], 'lost') redis.call('RPUSH', 'list', 'lost') redis.call('DEL', 'other') "
            }
            None => "",
        };
        let watch = Watch::start(node.listen(), watchers);
        let started = Instant::now();
        let reply = eval(&mut client, &format!("{writes}{script}"), &["declared"], &[]);
        let took = started.elapsed();
        let watched = watch.stop();
        println!(
            "{took:9.3?} {:6} answers, longest {:9.3?}: {script}",
            watched.answers, watched.longest
        );
        assert!(took < END_LIMIT, "{script}: {took:?}");
        if let Some(ends) = ends {
            assert!(reply.error().starts_with(ends), "{script}: {reply:?}");
        }
        // The longest stretch without an answer is the step that a run may not be interrupted in, several times that long on a loaded
        // machine.
        let least = took.as_millis() as usize / 600;
        assert!(watched.answers >= least, "{script}: {watched:?} in {took:?}");
        assert_eq!(client.line("GET declared").text(), "kept", "{script}");
        assert_eq!(client.line("GET other").text(), "kept", "{script}");
        assert_eq!(client.line("LLEN list").int(), 3, "{script}");
        assert_eq!(
            eval(&mut client, "return ARGV[1]", &[], &["well"]).text(),
            "well",
            "{script}"
        );
    }
}

/// Endless, in something that can be put aside.
const ENDLESS: &[&str] = &[
    "while true do end",
    "repeat until false",
    "for i = 1, 1e18 do end",
    "local function f(n) if n > 0 then return f(n - 1) end end while true do f(100) end",
    "pcall(function() while true do end end)",
    "while true do pcall(function() while true do end end) end",
    "local function f() pcall(f) while true do pcall(f) end end f()",
    "while true do pcall(error, {}) end",
    "coroutine.wrap(function() pcall(function() while true do end end) end)()",
    "local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
    "while true do coroutine.wrap(function() coroutine.yield() end)() end",
    "local function f() coroutine.wrap(f)() end while true do pcall(f) end",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function() return true end) end",
    "string.gsub('aaa', 'a', function() while true do end end)",
    "while true do string.gsub(('a'):rep(1000), '.', function(c) return c end) end",
    "table.foreach({1}, function() while true do end end)",
    "load(function() while true do end end)",
    "while true do loadstring('return 1')() end",
    "while true do redis.call('GET', 'declared') end",
    "while true do redis.call('SET', 'declared', 'x') redis.call('RPUSH', 'list', 'x') end",
    "while true do redis.pcall('NOSUCH') redis.pcall('GET') end",
    "while true do cjson.decode(cjson.encode({1, {2}})) end",
    "while true do cmsgpack.unpack(cmsgpack.pack({1, {2}})) end",
    "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.concat(t) end",
    "local s = ('x'):rep(1e5) local t = {} for i = 1, 1e4 do t[i] = s end while true do table.sort(t) end",
    "for w in (function() return true end) do end",
    "while true do setmetatable({}, {__index = function() return 1 end}).x = 1 end",
    "while true do redis.sha1hex(('x'):rep(1e5)) end",
];

#[test]
fn endless_scripts_are_stopped_at_their_budget() {
    run_all("1", ENDLESS, Some("ERR Script stopped after its budget of 300 ms"));
}

#[test]
fn endless_scripts_are_stopped_with_three_workers_too() {
    let some: Vec<&str> = ENDLESS.iter().copied().step_by(3).collect();
    run_all("3", &some, Some("ERR Script stopped after its budget of 300 ms"));
}

/// Endless, in something that cannot.
const STUCK: &[&str] = &[
    "return setmetatable({}, {__index = function() while true do end end}).x",
    "setmetatable({}, {__newindex = function() while true do end end}).x = 1",
    "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "local t = setmetatable({}, {__lt = function() while true do end end}) return t < t",
    "local t = setmetatable({}, {__eq = function() while true do end end}) return t == setmetatable({}, getmetatable(t))",
    "local t = setmetatable({}, {__concat = function() while true do end end}) return t .. 'x'",
    "local t = setmetatable({}, {__unm = function() while true do end end}) return -t",
    "local t = setmetatable({}, {__len = function() while true do end end}) return #t",
    "local t = setmetatable({}, {__add = function() while true do end end}) while true do pcall(function() return t + 1 end) end",
    "for x in setmetatable({}, {__iter = function() while true do end end}) do end",
    "xpcall(error, function() while true do end end)",
    "while true do pcall(function() return setmetatable({}, {__index = function() while true do end end}).y end) end",
    "coroutine.wrap(function() return setmetatable({}, {__index = function() while true do end end}).y end)()",
    "local s = ('a'):rep(1e6) while true do pcall(string.find, s, '.-b') end",
    "return string.find(('a'):rep(2e5), ('a*'):rep(30) .. 'b')",
    "return string.find(('a'):rep(2e5), ('a?'):rep(30) .. ('a'):rep(30) .. 'b')",
    "return string.gsub(('a'):rep(2e5), 'a*b', 'x')",
    "return string.match(('a'):rep(1e6), '(.-)%1b')",
    "return string.match(('('):rep(1e5), '%b()b')",
    "for w in string.gmatch(('a'):rep(1e6), 'a-b') do end",
    "return string.gsub('x', 'x', setmetatable({}, {__index = function() while true do end end}))",
    "return string.find(('a'):rep(1e6), '%f[b].-%f[c]') or string.find(('a'):rep(1e6), '.-.-.-b')",
];

#[test]
fn scripts_that_cannot_be_put_aside_are_stopped_after_a_step() {
    run_all(
        "1",
        STUCK,
        Some("ERR Script stopped after 50 ms in something that cannot be interrupted"),
    );
}

#[test]
fn scripts_that_cannot_be_put_aside_are_stopped_with_three_workers_too() {
    let some: Vec<&str> = STUCK.iter().copied().step_by(4).collect();
    run_all(
        "3",
        &some,
        Some("ERR Script stopped after 50 ms in something that cannot be interrupted"),
    );
}

/// Library functions at their worst, and recursion: however they end.
const WORST: &[&str] = &[
    "local s = ('a'):rep(1e6) return (s .. 'c'):find(s .. 'b', 1, true)",
    "local s = ('a'):rep(5e5) for i = 1, 100 do (s .. s .. 'c'):find(s .. 'b', 1, true) end",
    "return table.move({}, 1, 2e9, 2)",
    "return string.split(('a,'):rep(1e6), ',')",
    "return (('a,'):rep(1e6)):split(',')",
    "return table.create(1e9, 1)",
    "return string.rep('x', 1e10)",
    "return string.rep('', 1e18)",
    "local t = {} for i = 1, 1e6 do t[i] = -i end table.sort(t) return t[1]",
    "local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 1000 do table.insert(t, 1, 0) table.remove(t, 1) end",
    "local function f() return f() + 1 end return pcall(f)",
    "local function f() return pcall(f) end return f()",
    "local function f() return coroutine.wrap(f)() end return pcall(f)",
    "local function f(...) return f(1, ...) end return pcall(f)",
    "local function f() return setmetatable({}, {__index = f}).x end return pcall(f)",
    "local t = setmetatable({}, {}) getmetatable(t).__index = t return pcall(function() return t.x end)",
    "return pcall(unpack, {}, 1, 1e9)",
    "return pcall(unpack, {}, 0, 2147483647)",
    "return pcall(select, '#', unpack({}, 1, 7999))",
    "return pcall(string.char, unpack({}, 1, 7999))",
    "return pcall(string.format, ('%s'):rep(1e5), 1)",
    "return pcall(string.format, '%99.99f', 1e308)",
    "return tonumber(('1'):rep(1e7))",
    "return pcall(loadstring, ('('):rep(6e4))",
    "return pcall(loadstring, 'return ' .. ('{'):rep(6e4))",
    "return pcall(loadstring, 'return ' .. ('-'):rep(6e4) .. '1')",
    "return pcall(loadstring, 'return ' .. ('a.'):rep(3e4) .. 'a')",
    "return pcall(loadstring, 'return 1' .. ('+1'):rep(3e4))",
    "return pcall(loadstring, 'return a' .. ('..a'):rep(2e4))",
    "return pcall(loadstring, ('if a then else'):rep(4000) .. (' end'):rep(4000))",
    "return pcall(loadstring, ('function() return '):rep(4000))",
    "return pcall(loadstring, 'local ' .. ('a,'):rep(2e4) .. 'a')",
    "return pcall(loadstring, 'f' .. ('()'):rep(3e4))",
    "return pcall(loadstring, 'return `' .. ('{`'):rep(1e4))",
    "return pcall(cjson.decode, ('['):rep(1e6))",
    "return pcall(cjson.decode, ('{\"a\":'):rep(1e5))",
    "return pcall(cjson.decode, '[' .. ('1,'):rep(2e6) .. '1]')",
    "cjson.decode_max_depth(2147483647) return pcall(cjson.decode, ('['):rep(1e6))",
    "cjson.encode_max_depth(2147483647) local t = {} t[1] = t return pcall(cjson.encode, t)",
    "return pcall(cmsgpack.unpack, ('\\145'):rep(1e6))",
    "local t = {} t[1] = t t[2] = t return pcall(cmsgpack.pack, t)",
    "return pcall(struct.pack, ('i'):rep(1e6), 1)",
    "return pcall(struct.unpack, ('b'):rep(1e6), ('x'):rep(1e6))",
    "return pcall(struct.size, ('c2147483647'):rep(1e5))",
    "return pcall(redis.sha1hex, ('x'):rep(1.6e7))",
    "for i = 1, 20 do redis.log(redis.LOG_DEBUG, ('x'):rep(1e6)) end",
    "return math.random(0)",
    "return os.clock() < 0 or string.rep(('x'):rep(1e7), 1)",
];

#[test]
fn library_functions_at_their_worst_keep_nobody_waiting() {
    run_all("1", WORST, None);
}

/// Replies that are more work to write than they look.
const REPLIES: &[&str] = &[
    "local t = {} for i = 1, 2e5 do t[i] = t end return t",
    "local t = {} for i = 1, 9e5 do t[i] = t end return t",
    "local t = {} t[1] = t return t",
    "local t = {} t[1] = t t[2] = t return t",
    "local t = {} for i = 1, 1e5 do t[i] = {} end return t",
    "local t = {} for i = 1, 9e5 do t[i] = i end return t",
    "redis.setresp(3) local m = {} for i = 1, 1e5 do m[i] = true end m.x = {map = m} return {map = m}",
    "redis.setresp(3) local m = {} for i = 1, 3e5 do m['k' .. i] = 1 end for i = 1, 3e5 do m['k' .. i] = nil end m.x = {map = m} return {map = m}",
    "redis.setresp(3) local m = {} for i = 1, 3e5 do m['k' .. i] = 1 end for i = 1, 3e5 do m['k' .. i] = nil end m[{set = m}] = 1 return {set = m}",
    "return {err = ('x'):rep(1e7)}",
    "return {ok = ('\\r\\n'):rep(5e6)}",
    "error(('x'):rep(1e7))",
    "error({err = ('x'):rep(1e7)})",
    "local s = ('x'):rep(1e7) return {s, s, s, s, s, s, s, s, s, s}",
];

#[test]
fn replies_that_are_hard_to_write_keep_nobody_waiting() {
    let node = node("1");
    for script in REPLIES {
        let mut client = node.client();
        let watch = Watch::start(node.listen(), 2);
        let started = Instant::now();
        client.send(&["EVAL", script, "0"]);
        client.shutdown_write();
        let bytes = client.receive_to_end().len();
        let took = started.elapsed();
        let watched = watch.stop();
        println!(
            "{took:9.3?} {bytes:9} bytes, longest {:9.3?}: {script}",
            watched.longest
        );
        assert!(took < END_LIMIT, "{script}: {took:?}");
        assert!(bytes > 4, "{script}: {bytes} bytes");
        assert_eq!(eval(&mut node.client(), "return 1", &[], &[]).int(), 1);
    }
}

#[test]
fn many_endless_scripts_at_once_are_stopped_and_others_served() {
    const RUNS: usize = 8;
    // Of processor time: all budgets together, and what the watchers take, have to fit into a client's patience on a loaded machine.
    for node in Node::of_each_size(&["--set", "script.budget_ms=100"]) {
        let address = node.listen();
        let watch = Watch::start(address, 3);
        let started = Instant::now();
        let runs: Vec<_> = (0..RUNS)
            .map(|number| {
                std::thread::spawn(move || {
                    let script =
                        "redis.call('SET', KEYS[1], 'lost') while true do pcall(function() while true do end end) end";
                    eval(&mut Client::connect(address), script, &[&format!("key:{number}")], &[])
                })
            })
            .collect();
        for run in runs {
            let reply = run.join().unwrap();
            assert!(
                reply.error().starts_with("ERR Script stopped after its budget"),
                "{reply:?}"
            );
        }
        let (took, watched) = (started.elapsed(), watch.stop());
        println!("{took:?}, {watched:?}");
        assert!(watched.answers > 5, "{watched:?}");
        let mut client = node.client();
        assert_eq!(client.line("DBSIZE").int(), 3, "only what the watchers wrote");
        let hits = node
            .metric("tollgate_limit_hit_total{limit=\"script_budget_ms\"}")
            .unwrap();
        assert!(hits >= RUNS as f64, "{hits}");
    }
}
