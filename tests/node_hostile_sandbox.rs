//! Attempts to leave a trace, or to get out: what a script does ends with it.

use tollgate_suite::{Client, Node, Value};

fn eval(client: &mut Client, script: &str) -> Value {
    client.command(&["EVAL", script, "1", "key", "arg"])
}

/// Each tries to change what the next script sees, or to reach what it should not; all of them fail.
const ATTEMPTS: &[&str] = &[
    "leak = 1",
    "_G.leak = 1",
    "rawset(_G, 'leak', 1)",
    "_G['redis'] = nil",
    "redis = {}",
    "function redis_leak() end",
    "redis.call = function() return 'owned' end",
    "rawset(redis, 'call', function() return 'owned' end)",
    "redis.leak = 1",
    "server.pcall = nil",
    "setmetatable(redis, {__index = function() return 'owned' end})",
    "setmetatable(_G, {})",
    "setmetatable(_G, {__index = function() return 'owned' end})",
    "getmetatable(_G).__index = function() return 'owned' end",
    "getmetatable('').__index = function() return 'owned' end",
    "getmetatable('').__add = function() return 'owned' end",
    "getmetatable('').leak = 1",
    "rawset(getmetatable(''), '__index', nil)",
    "setmetatable('', {})",
    "string.leak = 1",
    "string.rep = function() return 'owned' end",
    "table.insert = nil",
    "math.random = function() return 4 end",
    "math.pi = 3",
    "cjson.encode = nil",
    "cjson.null.leak = 1",
    "cmsgpack.pack = nil",
    "struct.pack = nil",
    "bit.band = nil",
    "coroutine.wrap = nil",
    "os.clock = nil",
    "for name, library in pairs(_G) do if type(library) == 'table' then library.leak = 1 end end",
    "pcall = nil",
    "tostring = function() return 'owned' end",
    "table.insert(redis, 1)",
    "table.sort(_G)",
    "return getfenv(1)",
    "setfenv(1, {})",
    "return debug.getregistry()",
    "return debug.getinfo(1)",
    "return debug.sethook()",
    "return io.open('/etc/passwd')",
    "return os.execute('true')",
    "return os.getenv('PATH')",
    "os.exit(1)",
    "os.remove('/tmp/none')",
    "return require('os')",
    "return dofile('/etc/passwd')",
    "return loadfile('/etc/passwd')",
    "return package.loaded",
    "return newproxy(true)",
    "return string.dump(function() end)",
    "print('x')",
    "return buffer.create(10)",
    "return utf8.char(65)",
    "return task.wait()",
    "return coroutine.close(coroutine.create(function() end))",
    "return loadstring(string.char(3, 1, 2, 3))()",
    "return loadstring('\\27Lua' .. ('\\0'):rep(100))()",
    "return load(function() return nil end, 'x', 'b', {})().x",
    "return loadstring('leak = 1')()",
    "return loadstring('redis.call = nil')()",
    "return loadstring('return KEYS[1]')()",
    "coroutine.yield()",
    "coroutine.wrap(function() leak = 1 end)()",
    "coroutine.wrap(function() redis.call = nil end)()",
    "local c = coroutine.wrap(function() error('x') end) c()",
    "redis.call('EVAL', 'return 1', 0)",
    "redis.call('SCRIPT', 'KILL')",
    "redis.call('SCRIPT', 'FLUSH')",
    "redis.call('FLUSHALL')",
    "redis.call('MULTI')",
    "redis.call('SUBSCRIBE', 'c')",
    "redis.call('SHUTDOWN')",
    "redis.call('DEBUG', 'SEGFAULT')",
    "redis.call('AUTH', 'x')",
    "redis.call('HELLO', '3')",
    "redis.call('QUIT')",
    "redis.call('MONITOR')",
    "redis.call('BLPOP', 'nothing', 0)",
];

/// These succeed, but for themselves alone.
const OWN: &[&str] = &[
    "KEYS[1] = 'other' ARGV[1] = 'other' KEYS.leak = 1 return 1",
    "redis.setresp(3) return 1",
    "math.randomseed(7) return math.random(1000000)",
    "cjson.encode_max_depth(3) cjson.decode_max_depth(3) return 1",
    "cjson.encode_number_precision(3) return 1",
    "cjson.encode_sparse_array(true) cjson.encode_invalid_numbers(true) return 1",
    "local mine = setmetatable({}, {__index = function() return 'mine' end}) return mine.x",
    "collectgarbage() collectgarbage('stop') collectgarbage('setpause', 0) collectgarbage('step', 1000000) return 1",
    "redis.set_repl(redis.REPL_NONE) return 1",
    "redis.call('SELECT', 5) redis.call('SET', 'in five', 1) return 1",
    "local c = coroutine.create(function() coroutine.yield() end) coroutine.resume(c) return 1",
    "for i = 1, 100 do coroutine.wrap(function() coroutine.yield(redis.call) end)() end return 1",
    "local t = {} t.t = t setmetatable(t, t) t.__index = t return 1",
];

/// What any of them could have changed.
const SEEN: &str = "
local names = {}
for name, value in pairs(_G) do
  names[#names + 1] = name .. '=' .. type(value)
  if type(value) == 'table' and value ~= _G then
    for inner, member in pairs(value) do
      names[#names + 1] = name .. '.' .. inner .. '=' .. (type(member) == 'number' and member .. '' or type(member))
    end
  end
end
table.sort(names)
local s = {}
for name, value in pairs(getmetatable('').__index) do s[#s + 1] = name end
table.sort(s)
return {
  KEYS[1], ARGV[1], #KEYS, KEYS.leak == nil, redis.call('HGETALL', 'hash').map == nil, redis.call('DBSIZE'), redis.call('GET', 'key'),
  cjson.encode({1/3, {{{{1}}}}}), pcall(cjson.encode, {[5000] = 1}), pcall(cjson.encode, 1/0), cjson.decode('[[[[1]]]]')[1][1][1][1],
  ('x'):rep(3), ('x'):upper(), rawget(_G, 'leak') == nil, rawget(redis, 'leak') == nil, pcall(function() return nothing end),
  getmetatable(_G).__newindex == nil, pcall(function() return 'a' + 1 end), coroutine.running() ~= nil, table.concat(names, ' '), table.concat(s, ' '),
}";

#[test]
fn nothing_that_a_script_tries_is_seen_by_the_next() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers]);
        let mut client = node.client();
        client.line("SET key value");
        client.line("HSET hash a 1");
        // In the clean node that it will be compared with.
        let before = eval(&mut client, SEEN);
        assert_eq!(before.items()[0].text(), "key");
        let names = before.items().last().map(|names| names.text().to_owned());
        assert!(names.is_some_and(|names| names.contains("gsub")), "{before:?}");
        for attempt in ATTEMPTS {
            let reply = eval(&mut client, attempt);
            assert!(reply.is_error(), "{attempt}: {reply:?}");
            // Caught, it has no more effect.
            eval(&mut client, &format!("return {{pcall(function() {attempt} end)}}"));
            eval(
                &mut client,
                &format!("return {{coroutine.resume(coroutine.create(function() {attempt} end))}}"),
            );
            assert_eq!(eval(&mut client, SEEN), before, "after {attempt}");
        }
        for own in OWN {
            let reply = eval(&mut client, own);
            assert!(!reply.is_error(), "{own}: {reply:?}");
            assert_eq!(eval(&mut client, SEEN), before, "after {own}");
        }
        // Random numbers begin elsewhere each time; the seed of one run is not that of the next.
        let draws: Vec<i64> = (0..8)
            .map(|_| eval(&mut client, "return math.random(1000000)").int())
            .collect();
        let seeded = eval(&mut client, "math.randomseed(7) return math.random(1000000)").int();
        assert!(
            draws.windows(2).any(|pair| pair[0] != pair[1]) && draws[0] != seeded,
            "{draws:?}"
        );
        client.line("SELECT 5");
        assert_eq!(client.command(&["GET", "in five"]).text(), "1");
    }
}

#[test]
fn scripts_that_take_turns_see_their_own_settings() {
    let node = Node::start(&["--workers", "1", "--set", "script.budget_ms=20000"]);
    let address = node.listen();
    let runs: Vec<_> = (0..6)
        .map(|number| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let (resp, precision, seed) = (2 + number % 2, 2 + number, number.to_string());
                let script =
                    "redis.setresp(tonumber(ARGV[1])) cjson.encode_number_precision(ARGV[2]) math.randomseed(ARGV[3])
                              local first = math.random(1000000)
                              for i = 1, 3e6 do end
                              local kind = redis.call('HGETALL', 'none').map and 3 or 2
                              local text = cjson.encode(1 / 3)
                              for i = 1, 3e6 do end
                              return {kind, text, first, math.random(1000000)}";
                let args = [resp.to_string(), precision.to_string(), seed];
                let reply = client.command(&["EVAL", script, "0", &args[0], &args[1], &args[2]]);
                assert_eq!(reply.items()[0].int(), resp);
                assert_eq!(reply.items()[1].text().len() as i64, 2 + precision, "{reply:?}");
                // The same numbers alone.
                let alone = "math.randomseed(ARGV[1]) return {math.random(1000000), math.random(1000000)}";
                let alone = client.command(&["EVAL", alone, "0", &args[2]]);
                assert_eq!(alone.items(), &reply.items()[2..], "{reply:?}");
            })
        })
        .collect();
    runs.into_iter().for_each(|run| run.join().expect("its own settings"));
}
