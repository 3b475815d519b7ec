//! Scripts that want all memory, large scripts and large arguments: bounded, and given back.

use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value, Watch, until, until_hit};

const MIB: f64 = 1_048_576.0;
/// Bytes of the largest script.
const SCRIPT_BYTES_MAX: usize = 1 << 18;
/// How long until memory is given back that a script held.
const BACK_LIMIT: Duration = Duration::from_secs(20);

fn eval(client: &mut Client, script: &str, args: &[&str]) -> Value {
    client.command(&[&["EVAL", script, "1", "declared"], args].concat())
}

fn script_bytes(node: &Node) -> f64 {
    node.metric("tollgate_script_memory_bytes").expect("a metric")
}

/// What VMs take that have done nothing, once that is published.
fn idle_script_bytes(node: &Node) -> f64 {
    until("the memory of scripts is published", || script_bytes(node) > 0.0);
    script_bytes(node)
}

fn resident_bytes(node: &Node) -> f64 {
    node.metric("process_resident_memory_bytes").expect("a metric")
}

/// Waits until the VMs of scripts hold at most this much more than `before`.
fn until_back(node: &Node, before: f64, more: f64, what: &str) {
    let started = Instant::now();
    loop {
        let bytes = script_bytes(node);
        if bytes <= before + more {
            return;
        }
        assert!(
            started.elapsed() < BACK_LIMIT,
            "{what}: {:.1} MiB, {:.1} before",
            bytes / MIB,
            before / MIB
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Each needs more than there is.
const GREEDY: &[&str] = &[
    "local s = 'x' while true do s = s .. s end",
    "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end",
    "local t = {} for i = 1, 1e9 do t[i] = {} end",
    "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
    "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
    "local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
    "local t = {} while true do t = {t, t, t} end",
    "local t = {1} while true do for i = 1, #t do t[#t + 1] = t[i] end end",
    "local s, t = ('x'):rep(1e6), {} for i = 1, 1e9 do t[i] = s:upper() .. i end",
    "local t = {} for i = 1, 1e9 do t[i] = cjson.decode('[1,2,3]') end",
    "local t = {} for i = 1, 1e9 do t[i] = redis.call('LRANGE', 'list', 0, -1) end",
    "local t = {} for i = 1, 1e9 do t[i] = loadstring('return ' .. i) end",
    "local function f(...) return f(1, ...) end return f()",
];

#[test]
fn greedy_scripts_are_stopped_and_their_memory_given_back() {
    let node = Node::start(&[
        "--workers",
        "1",
        "--set",
        "script.budget_ms=30000",
        "--set",
        "script.memory_bytes=16000000",
    ]);
    let mut client = node.client();
    client.line("SET declared kept");
    client.line("RPUSH list a b c d e f g h i j k l m n");
    let before = idle_script_bytes(&node);
    for script in GREEDY {
        let script = format!(
            "redis.call('SET', KEYS[1], 'lost') redis.call('DEL', 'list2', 'list') redis.call('RPUSH', 'list', 'x', 'y') {script}"
        );
        let watch = Watch::start(node.listen(), 2);
        let started = Instant::now();
        let reply = eval(&mut client, &script, &[]);
        let took = started.elapsed();
        let watched = watch.stop();
        println!(
            "{took:9.3?} {:5} answers, longest {:9.3?}: {script}",
            watched.answers, watched.longest
        );
        let is_memory = reply.is_error() && reply.error().starts_with("ERR Script needs more memory than its limit");
        // Its stack is bounded before memory is.
        let is_stack = reply.is_error() && script.contains("f(1, ...)") && reply.error().contains("stack overflow");
        assert!(is_memory || is_stack, "{script}: {reply:?}");
        if is_memory {
            assert_eq!(client.line("GET declared").text(), "kept", "{script}");
            assert_eq!(client.line("LLEN list").int(), 14, "{script}");
        } else {
            // What a script wrote before an error of its own stands, as in Redis.
            client.line("SET declared kept");
        }
        assert_eq!(
            eval(&mut client, "return #('x'):rep(5e6)", &[]).int(),
            5_000_000,
            "{script}"
        );
        until_back(&node, before, 2.0 * MIB, &script);
    }
    let hits = node
        .metric("tollgate_limit_hit_total{limit=\"script_memory_bytes\"}")
        .unwrap();
    assert!(hits >= GREEDY.len() as f64 - 1.0, "{hits}");
}

#[test]
fn memory_errors_that_a_script_catches_leave_a_node_as_it_was() {
    let node = Node::start(&[
        "--workers",
        "1",
        "--set",
        "script.budget_ms=3000",
        "--set",
        "script.memory_bytes=16000000",
    ]);
    let mut client = node.client();
    let before = idle_script_bytes(&node);
    for _ in 0..20 {
        let script = "local n = 0 for i = 1, 5 do local ok = pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end) \
                      if not ok then n = n + 1 end end return n";
        let reply = eval(&mut client, script, &[]);
        assert!(
            reply == Value::Int(5) || reply.error().starts_with("ERR Script needs more memory"),
            "{reply:?}"
        );
        assert_eq!(eval(&mut client, "return 1", &[]).int(), 1);
    }
    until_back(&node, before, 2.0 * MIB, "after memory errors");
}

#[test]
fn arguments_of_a_hundred_megabytes_are_given_back() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    assert_eq!(eval(&mut client, "return #ARGV[1]", &["x"]).int(), 1);
    let (before, resident) = (idle_script_bytes(&node), resident_bytes(&node));
    let large = "x".repeat(100_000_000);
    for round in 0..3 {
        let watch = Watch::start(node.listen(), 1);
        assert_eq!(eval(&mut client, "return #ARGV[1]", &[&large]).int(), 100_000_000);
        // What it makes of them counts.
        let reply = eval(&mut client, "return #(ARGV[1] .. 'x')", &[&large]);
        assert!(reply.error().starts_with("ERR Script needs more memory"), "{reply:?}");
        println!("round {round}: {:?}", watch.stop());
    }
    until_back(&node, before, 2.0 * MIB, "large arguments");
    // Buffers of the connection too.
    drop(client);
    let started = Instant::now();
    while resident_bytes(&node) > resident + 150.0 * MIB {
        let now = resident_bytes(&node);
        assert!(
            started.elapsed() < BACK_LIMIT,
            "{:.0} MiB, {:.0} before",
            now / MIB,
            resident / MIB
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn many_arguments_are_given_back() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    let before = idle_script_bytes(&node);
    let args: Vec<String> = (0..900_000).map(|number| format!("argument {number}")).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let watch = Watch::start(node.listen(), 1);
    let reply = eval(
        &mut client,
        "local n = 0 for _, a in ipairs(ARGV) do n = n + #a end return {n, #ARGV, ARGV[900000]}",
        &args,
    );
    // Taking so many arguments is one stretch.
    println!("{:?}", watch.stop_within(Duration::from_secs(6)));
    assert_eq!(reply.items()[1].int(), 900_000);
    assert_eq!(reply.items()[2].text(), "argument 899999");
    assert_eq!(eval(&mut client, "return unpack(ARGV)", &args).text(), "argument 0");
    // The table in which Luau has all strings shrinks by half a collection.
    until_back(&node, before, 8.0 * MIB, "many arguments");
}

#[test]
fn scripts_beyond_the_bound_are_refused_and_the_node_is_fine() {
    const LIMIT: usize = 6_000;
    let node = Node::start(&[
        "--workers",
        "1",
        "--set",
        &format!("limits.scripts={LIMIT}"),
        "--set",
        "limits.compiled_scripts=500",
    ]);
    let mut client = node.client();
    let watch = Watch::start(node.listen(), 1);
    let script = |number: usize| format!("return {{KEYS[1], ARGV[1], {number}}}");
    let mut shas = Vec::new();
    for start in (0..10_000).step_by(500) {
        let commands: Vec<Vec<String>> = (start..start + 500)
            .map(|number| vec!["SCRIPT".to_owned(), "LOAD".to_owned(), script(number)])
            .collect();
        for (number, reply) in client.pipeline(&commands).iter().enumerate() {
            match start + number < LIMIT {
                true => shas.push(reply.text().to_owned()),
                false => assert!(reply.error().starts_with("ERR too many scripts"), "{reply:?}"),
            }
        }
    }
    assert_eq!(shas.len(), LIMIT);
    // All are known, though fewer are kept compiled; those that are not kept run all the same.
    for start in (0..LIMIT).step_by(500) {
        let commands: Vec<Vec<&str>> = shas[start..start + 500]
            .iter()
            .map(|sha| vec!["EVALSHA", sha, "1", "k", "a"])
            .collect();
        for (number, reply) in client.pipeline(&commands).iter().enumerate() {
            assert_eq!(reply.items()[2].int() as usize, start + number);
        }
    }
    for number in LIMIT..LIMIT + 1_000 {
        assert_eq!(
            eval(&mut client, &script(number), &["a"]).items()[2].int() as usize,
            number
        );
    }
    println!("{:?}", watch.stop());
    until_hit(&node, "scripts", 4_000.0);
    until_hit(&node, "compiled_scripts", 10.0);
    assert_eq!(client.line("SCRIPT FLUSH").text(), "OK");
    assert!(
        client
            .command(&["EVALSHA", &shas[0], "0"])
            .error()
            .starts_with("NOSCRIPT")
    );
    assert_eq!(eval(&mut client, "return 1", &[]).int(), 1);
    assert_eq!(client.command(&["SCRIPT", "LOAD", &script(1)]).text(), shas[1]);
}

/// A script of nearly the largest size, of the same text, with a beginning and an end.
fn large_script(begin: &str, repeated: &str, end: &str) -> String {
    let count = (SCRIPT_BYTES_MAX - 100 - begin.len() - end.len()) / repeated.len();
    format!("{begin}{}{end}", repeated.repeat(count))
}

#[test]
fn large_scripts_are_compiled_or_refused() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    let before = idle_script_bytes(&node);
    let scripts = [
        large_script("return 7 --", "x", ""),
        large_script("local s = '", "x", "' return #s"),
        large_script("local n = 0 ", "n = n + 1 ", "return n"),
        large_script("local t = {", "1,", "} return #t"),
        large_script("local t = {", "{},", "} return #t"),
        large_script("local t = {", "a=1,", "} return t.a"),
        large_script("local t = {", "function()end,", "} return #t"),
        large_script("", "f(function() end) ", ""),
        large_script("return 1", "+1", ""),
        large_script("return 'a'", "..'a'", ""),
        large_script("return ", "(", "1"),
        large_script("return ", "{", "1"),
        large_script("return ", "-", "1"),
        large_script("return a", ".a", ""),
        large_script("f", "()", ""),
        large_script("", "do ", ""),
        large_script("", "if a then else", ""),
        large_script("if KEYS then ", " elseif a then ", " end"),
        large_script("", "while a do ", ""),
        large_script("", "function f() ", ""),
        large_script("", "local a ", ""),
        large_script("local a ", "a=a ", "return a"),
        large_script("", "goto x ", ""),
        large_script("return [", "=", "["),
        large_script("return '", "\\u{1F600}", "'"),
        large_script("", "\0", ""),
        large_script("return function() ", "return function() ", ""),
        large_script("local x: ", "{", ""),
        large_script("local x: a", "|a", ""),
        large_script("type a = ", "(a)->", "a"),
    ];
    for script in &scripts {
        let what = format!(
            "{}...{}",
            &script[..20].escape_debug(),
            &script[script.len() - 20..].escape_debug()
        );
        let watch = Watch::start(node.listen(), 1);
        let cpu = node.metric("process_cpu_seconds_total").unwrap();
        let started = Instant::now();
        let reply = eval(&mut client, script, &[]);
        let cpu = node.metric("process_cpu_seconds_total").unwrap() - cpu;
        let loaded = client.command(&["SCRIPT", "LOAD", script]);
        let took = started.elapsed();
        // Compiling is one stretch: some tenths of a second.
        let watched = watch.stop_within(Duration::from_secs(6));
        let mib = script_bytes(&node) / MIB;
        println!(
            "{took:9.3?} cpu {cpu:.3} s longest {:9.3?} {mib:6.1} MiB: {what}: {}",
            watched.longest,
            format!("{reply:?}").chars().take(90).collect::<String>()
        );
        if loaded.is_error() {
            assert!(
                loaded.error().starts_with("ERR Error compiling script"),
                "{what}: {loaded:?}"
            );
            assert_eq!(reply, loaded, "{what}");
        }
        assert_eq!(eval(&mut client, "return 1", &[]).int(), 1, "{what}");
        assert_eq!(client.line("SCRIPT FLUSH").text(), "OK");
        assert_eq!(eval(&mut client, "return 2", &[]).int(), 2, "{what}");
        until_back(&node, before, 4.0 * MIB, &what);
    }
    let too_large = format!("return 1 --{}", "x".repeat(1 << 20));
    for reply in [
        eval(&mut client, &too_large, &[]),
        client.command(&["SCRIPT", "LOAD", &too_large]),
    ] {
        assert!(reply.error().contains("bytes; a script may have 262144"), "{reply:?}");
    }
}

#[test]
fn compiled_scripts_are_bounded_in_memory() {
    let node = Node::start(&["--workers", "1", "--set", "limits.compiled_bytes=4000000"]);
    let mut client = node.client();
    // Compiled it is more than a megabyte.
    let script = |number: usize| format!("local t = {{{{{number}}},{}}} return t[1][1]", "{},".repeat(70_000));
    for number in 0..24 {
        assert_eq!(eval(&mut client, &script(number), &[]).int() as usize, number);
        if number % 4 == 3 {
            // What was thrown away is collected, and what is left published, a little later.
            until("the memory is within bounds", || script_bytes(&node) < 16.0 * MIB);
        }
    }
    until_hit(&node, "compiled_bytes", 2.0);
    for number in 0..4 {
        assert_eq!(eval(&mut client, &script(number), &[]).int() as usize, number);
    }
}

/// Sends a command and takes its reply as bytes: it is nested deeper than the client reads.
fn raw(node: &Node, args: &[&str]) -> String {
    let mut client = node.client();
    client.send(args);
    client.shutdown_write();
    String::from_utf8(client.receive_to_end()).expect("a reply in ASCII")
}

#[test]
fn replies_and_json_may_be_nested_a_thousand_deep() {
    let node = Node::start(&["--workers", "1"]);
    let nest = "local t = 7 for i = 1, tonumber(ARGV[1]) do t = {t} end ";
    let reply = raw(&node, &["EVAL", &format!("{nest} return t"), "0", "1000"]);
    assert_eq!(reply, format!("{}:7\r\n", "*1\r\n".repeat(1_000)));
    let reply = raw(&node, &["EVAL", &format!("{nest} return t"), "0", "50000"]);
    assert!(reply.ends_with("-ERR reached lua stack limit\r\n") && reply.starts_with("*1\r\n*1\r\n"));
    let mut client = node.client();
    let there_and_back = format!(
        "{nest} local text = cjson.encode(t) local d, n = cjson.decode(text), 0 while type(d) == 'table' do d = d[1] n = n + 1 end return {{#text, n, d}}"
    );
    let reply = client.command(&["EVAL", &there_and_back, "0", "1000"]);
    assert_eq!(
        reply,
        Value::Array(vec![Value::Int(2_001), Value::Int(1_000), Value::Int(7)])
    );
    let reply = client.command(&["EVAL", &there_and_back, "0", "1001"]);
    assert!(reply.error().contains("excessive nesting"), "{reply:?}");
    // cmsgpack stops at sixteen, as that of Redis does.
    let packed = format!(
        "{nest} local d, n = cmsgpack.unpack(cmsgpack.pack(t)), 0 while type(d) == 'table' do d = d[1] n = n + 1 end return n"
    );
    assert_eq!(client.command(&["EVAL", &packed, "0", "1000"]).int(), 16);
}
