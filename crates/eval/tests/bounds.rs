//! Worst inputs: what a run may take of its thread's time and of memory.

mod support;

use std::time::Duration;

use support::{FakeHost, SLICE, Text, engine, finish, start, watch};
use tollgate_eval::{Engine, EngineLimits, Failure, KillReason, Outcome};

/// What a run may take past its slice: the bound on steps that cannot be interrupted, and one call of a library.
const PAST_SLICE_MAX: Duration = Duration::from_millis(150);

const BUDGET: Duration = Duration::from_millis(300);

/// Each for ever, or for far longer than its budget, and in something that can be put aside.
const YIELDING: &[&str] = &[
    "while true do end",
    "repeat until false",
    "local function f() return f() end local n = 0 while true do n = n + 1 end",
    "for i = 1, 1e18 do end",
    "pcall(function() while true do end end)",
    "while true do pcall(error, 'x') end",
    "local function f() pcall(f) while true do end end f()",
    "coroutine.wrap(function() while true do end end)()",
    "local c = coroutine.wrap(function() coroutine.wrap(function() pcall(function() while true do end end) end)() end) c()",
    "local c = coroutine.wrap(function() while true do coroutine.yield(1) end end) while true do c() end",
    "while true do redis.call('GET', 'k') end",
    "while true do redis.pcall('NOSUCH') end",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "local t = {} for i = 1, 2e5 do t[i] = i % 7 end while true do table.sort(t, function(a, b) return a < b end) end",
    "string.gsub('aaa', 'a', function() while true do end end)",
    "table.foreach({1}, function() while true do end end)",
    "load(function() while true do end end)",
    "local s = ('x'):rep(1e5) local t = {} for i = 1, 1e4 do t[i] = s end while true do table.sort(t) end",
    "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.concat(t) end",
    "while true do math.random() end",
    "local t = {} while true do t = {t} if #t > 1 then break end t = t[1] end",
];

#[test]
fn endless_scripts_yield_and_go_on() {
    let engine = engine();
    for source in YIELDING {
        let mut run = start(&engine, source);
        let watched = watch(&mut run, &mut FakeHost::default(), BUDGET);
        assert!(
            matches!(watched.outcome, Outcome::Yielded),
            "{source}: {:?}",
            watched.outcome
        );
        assert!(watched.slices > 5, "{source}: {} slices", watched.slices);
        assert!(
            watched.longest < SLICE + PAST_SLICE_MAX,
            "{source}: {:?}",
            watched.longest
        );
        let error = run.kill(KillReason::Budget(BUDGET));
        assert_eq!(error.failure, Failure::Killed(KillReason::Budget(BUDGET)));
        assert_eq!(error.line, Some(1), "{source}");
        // The engine is as good as before.
        assert_eq!(
            finish(&mut start(&engine, "return 1"), &mut FakeHost::default()).unwrap(),
            ":1"
        );
    }
}

#[test]
fn a_run_that_was_put_aside_comes_to_its_end() {
    let engine = engine();
    let spin = "local function spin(n) for i = 1, n do end return n end ";
    for (source, reply) in [
        ("return spin(5e6)", ":5000000"),
        ("return {pcall(spin, 5e6)}", "*2 :1 :5000000"),
        (
            "return coroutine.wrap(function() spin(5e6) coroutine.yield(7) end)()",
            ":7",
        ),
        (
            "local c = coroutine.wrap(function() for i = 1, 3 do spin(3e6) coroutine.yield(i) end end) return {c(), c(), c()}",
            "*3 :1 :2 :3",
        ),
        (
            "local c = coroutine.create(function() spin(5e6) error('x', 0) end) return {coroutine.resume(c)}",
            "*2 _ $x",
        ),
        (
            "return coroutine.wrap(function() return coroutine.wrap(function() spin(5e6) return 8 end)() + spin(3e6) end)()",
            ":3000008",
        ),
        (
            "return {pcall(function() spin(5e6) error({err='E x'}) end)}",
            "*2 _ $E x",
        ),
        (
            "local t = {3,1,2} table.sort(t, function(a,b) spin(2e6) return a < b end) return t",
            "*3 :1 :2 :3",
        ),
        (
            "return (string.gsub('ab', '.', function(c) spin(3e6) return c .. c end))",
            "$aabb",
        ),
        ("spin(5e6) return {redis.call('COUNT', 1), KEYS[1]}", "*2 :1 $key1"),
    ] {
        let mut run = start(&engine, &format!("{spin}{source}"));
        let mut host = FakeHost::default();
        let first = run.resume(&mut host, SLICE);
        assert!(matches!(first, Outcome::Yielded), "{source}: {first:?}");
        // Another run in between sees its own.
        assert_eq!(
            finish(&mut start(&engine, "return ARGV[1]"), &mut host).unwrap(),
            "$arg1"
        );
        assert_eq!(finish(&mut run, &mut host).unwrap(), reply, "{source}");
    }
}

/// Deterministic work of many kinds, with its result.
const WORK: &[(&str, &str)] = &[
    (
        "local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end return fib(22)",
        ":17711",
    ),
    (
        "local t, x = {}, 7 for i = 1, 3000 do x = x * 16807 % 2147483647 t[i] = x end table.sort(t, function(a, b) return a < b end) \
         local s = 0 for i = 1, #t do s = (s * 31 + t[i]) % 1000003 end return s",
        ":",
    ),
    (
        "local function tree(d) if d == 0 then coroutine.yield(1) return end coroutine.wrap(function() tree(d - 1) end)() \
         local c = coroutine.create(function() tree(d - 1) end) while coroutine.status(c) ~= 'dead' do \
         local _, v = coroutine.resume(c) if v then coroutine.yield(v) end end end \
         local n, c = 0, coroutine.wrap(function() tree(7) end) for v in c do n = n + v end return n",
        ":",
    ),
    (
        "local n = 0 for i = 1, 3000 do local ok, e = pcall(function() if i % 3 == 0 then error({err = 'E ' .. i}) end return i end) \
         n = n + (ok and e or #e) end return n",
        ":",
    ),
    (
        "local s = ('abc '):rep(500) local n = 0 for i = 1, 5 do s = s:gsub('%a+', function(w) n = n + 1 return w:reverse() end) end return {n, #s}",
        "*2 :2500 :2000",
    ),
    (
        "local t = {} for i = 1, 2000 do t[#t + 1] = redis.call('ARGS', i, 'x')[1] end return #table.concat(t, ',')",
        ":8892",
    ),
];

#[test]
fn slices_of_any_length_come_to_the_same() {
    let engine = engine();
    let mut host = FakeHost::default();
    let whole: Vec<String> = WORK
        .iter()
        .map(|(source, reply)| {
            let mut run = start(&engine, source);
            let outcome = run.resume(&mut host, Duration::from_secs(20));
            assert!(matches!(outcome, Outcome::Finished), "{source}: {outcome:?}");
            let mut text = Text::default();
            run.write_reply(&mut text).unwrap();
            assert!(text.0.starts_with(reply), "{source}: {}", text.0);
            text.0
        })
        .collect();
    // Eight of each at a time, in turns of the shortest slices.
    let mut runs: Vec<_> = (0..8 * WORK.len())
        .map(|index| (index, start(&engine, WORK[index % WORK.len()].0)))
        .collect();
    let mut slices = 0;
    while !runs.is_empty() {
        runs.retain_mut(|(index, run)| {
            slices += 1;
            match run.resume(&mut host, Duration::ZERO) {
                Outcome::Yielded => true,
                Outcome::Finished => {
                    let mut text = Text::default();
                    run.write_reply(&mut text).unwrap();
                    assert_eq!(text.0, whole[*index % WORK.len()]);
                    false
                }
                outcome => panic!("{}: {outcome:?}", WORK[*index % WORK.len()].0),
            }
        });
    }
    assert!(slices > 16 * WORK.len(), "{slices} slices");
}

/// Too long, in something that cannot be put aside: ended, whatever the script has caught.
const STUCK: &[&str] = &[
    "setmetatable({}, {__index = function() while true do end end}).x = nil return setmetatable({}, {__index = function() while true do end end}).y",
    "while true do pcall(function() return setmetatable({}, {__index = function() while true do end end}).y end) end",
    "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "local m = {__lt = function() while true do end end} return setmetatable({}, m) < setmetatable({}, m)",
    "xpcall(error, function() while true do end end)",
    "local s = ('a'):rep(1e6) while true do pcall(string.find, s, '.-b') end",
    "return string.find(('a'):rep(2e5), ('a*'):rep(30) .. 'b')",
    "return string.gsub(('a'):rep(2e5), 'a*b', 'x')",
    "return string.match(('a'):rep(1e6), '(.-)%1b')",
    "for w in string.gmatch(('a'):rep(1e6), 'a-b') do end",
    "return string.gsub('x', 'x', setmetatable({}, {__index = function() while true do end end}))",
];

#[test]
fn what_cannot_be_put_aside_is_ended() {
    let engine = engine();
    for source in STUCK {
        let mut run = start(&engine, source);
        let watched = watch(&mut run, &mut FakeHost::default(), Duration::from_secs(5));
        match &watched.outcome {
            Outcome::Failed(error) => assert_eq!(error.failure, Failure::Step, "{source}: {error:?}"),
            other => panic!("{source}: {other:?}"),
        }
        assert!(
            watched.longest < SLICE + PAST_SLICE_MAX,
            "{source}: {:?}",
            watched.longest
        );
    }
}

/// Large inputs to every library function: whatever comes of it, in time.
const LARGE: &[&str] = &[
    "return #string.rep('x', 1.6e7)",
    "return pcall(string.rep, 'x', 3e7)",
    "local s = ('1'):rep(1e6) for i = 1, 1000 do tonumber(s) end",
    "local s = ('1'):rep(3e5) for i = 1, 1000 do tonumber(s) end",
    "local t = {} for i = 1, 5e4 do t[i] = i end for i = 1, 1000 do table.insert(t, 1, 0) table.remove(t, 1) end return #t",
    "return pcall(string.rep, 'x', 1e9)",
    "return pcall(string.rep, 'x', 2147483647)",
    "local s = ('a'):rep(1e6) return (s .. 'c'):find(s .. 'b', 1, true)",
    "local s = ('a'):rep(5e5) return (s .. s .. 'c'):find(s .. 'b', 1, true)",
    "local s = ('a'):rep(5e5) return (s .. s):find(s .. 'b')",
    "local s = ('a'):rep(1.6e7) return {s:upper() == s:lower(), s:reverse() == s, #s:sub(2)}",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 60 do t[i] = s end return pcall(table.concat, t)",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 20 do t[i] = s end return #table.concat(t)",
    "local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 50 do table.insert(t, 1, 0) table.remove(t, 1) end return #t",
    "local t = {} for i = 1, 1e6 do t[i] = i end return {table.maxn(t), #t, next(t)}",
    "local t = {} for i = 1, 1e6 do t[i] = -i end table.sort(t) return t[1]",
    "local s = ('x'):rep(1e5) local t = {} for i = 1, 300 do t[i] = s .. 'a' end table.sort(t) return #t",
    "return pcall(unpack, {}, 0, 2147483647)",
    "return pcall(unpack, {}, 1, 1e8)",
    "return select('#', unpack({}, 1, 7000))",
    "return pcall(string.byte, ('x'):rep(1.6e7), 1, -1)",
    "return tonumber(('1'):rep(1e7))",
    "return tonumber(('1'):rep(1e7), 2)",
    "return #string.format('%s%s', ('x'):rep(1e7), ('y'):rep(1e7))",
    "return #string.format('%q', ('\\0'):rep(1e6))",
    "return pcall(cjson.decode, ('['):rep(1e6))",
    "return pcall(cjson.decode, ('['):rep(1000) .. (']'):rep(1000))",
    "return pcall(cjson.decode, '[' .. ('1,'):rep(1e6) .. '1]')",
    "return pcall(cjson.decode, '\"' .. ('\\\\u0041'):rep(1e6) .. '\"')",
    "local t = {} for i = 1, 1e6 do t[i] = i end return pcall(cjson.encode, t)",
    "local t = {} t[1] = t return pcall(cjson.encode, t)",
    "local t = {} t[1] = t t[2] = t return pcall(cjson.encode, t)",
    "local t = {} for i = 1, 1000 do t = {t} end return #cjson.encode(t[1])",
    "cjson.encode_max_depth(2147483647) local t = {} for i = 1, 1e5 do t = {t} end return pcall(cjson.encode, t)",
    "cjson.encode_sparse_array(true, 0) return pcall(cjson.encode, {[2147483647] = 1})",
    "return pcall(cjson.encode, ('\\1'):rep(1e7))",
    "local t = {} t[1] = t t[2] = t return #cmsgpack.pack(t)",
    "local t = {} for i = 1, 1e6 do t[i] = i end return pcall(cmsgpack.pack, t)",
    "return pcall(cmsgpack.unpack, ('\\145'):rep(1e6))",
    "return pcall(cmsgpack.unpack, ('\\1'):rep(1e6))",
    "return pcall(cmsgpack.unpack, '\\221\\255\\255\\255\\255' .. ('\\1'):rep(1e6))",
    "return pcall(cmsgpack.unpack, '\\223\\255\\255\\255\\255')",
    "return pcall(struct.pack, 'c2147483647', 'x')",
    "return pcall(struct.pack, ('i'):rep(1e6), 1)",
    "return pcall(struct.unpack, ('b'):rep(1e6), ('x'):rep(1e6))",
    "return pcall(struct.pack, ('x'):rep(1.6e7))",
    "return pcall(struct.size, ('x'):rep(1.6e7))",
    "return pcall(struct.size, ('c2147483647'):rep(1e5))",
    "return #redis.sha1hex(('x'):rep(8e6))",
    "return pcall(loadstring, ('x = 1 '):rep(1e4))",
    "return pcall(loadstring, ('('):rep(6e4))",
    "return pcall(loadstring, ('{'):rep(6e4))",
    "return type(redis.call('LARGE', '500000'))",
    "redis.log(1, ('x'):rep(1e7)) return 1",
    "local t = {} for i = 1, 200 do t = setmetatable({}, {__index = t}) end return tostring(t.x)",
    "local t = setmetatable({}, {}) getmetatable(t).__index = t return pcall(function() return t.x end)",
    "local function f() return f() + 1 end return pcall(f)",
    "local function f() return pcall(f) end return f()",
    "local function f() return coroutine.wrap(f)() end return pcall(f)",
    "return {table.move == nil, string.split == nil, table.clone == nil, string.pack == nil}",
];

#[test]
fn large_inputs_are_bounded() {
    let engine = engine();
    for source in LARGE {
        // Absent functions are asked for by name.
        let source = source.replace("table.move == nil", "rawget(table, 'move') == nil");
        let mut run = start(&engine, &source);
        let watched = watch(&mut run, &mut FakeHost::default(), Duration::from_secs(10));
        assert!(
            !matches!(watched.outcome, Outcome::Yielded | Outcome::Retry),
            "{source}: {:?}",
            watched.outcome
        );
        assert!(
            watched.longest < SLICE + PAST_SLICE_MAX,
            "{source}: {:?}",
            watched.longest
        );
        if std::env::var_os("EVAL_BOUNDS_SHOW").is_some() && watched.longest > Duration::from_millis(5) {
            println!(
                "{:9.3?} {} slices, {:?}: {source}",
                watched.longest, watched.slices, watched.outcome
            );
        }
    }
}

#[test]
fn a_slice_ends_after_a_command_that_was_long() {
    let engine = engine();
    for source in [
        "for i = 1, 20 do redis.call('SLOW') end",
        // The clock is looked at after what may be long, not only now and then.
        "local t = {} for i = 1, 20 do t[i] = redis.pcall('SLOW') end",
    ] {
        let mut run = start(&engine, source);
        let watched = watch(&mut run, &mut FakeHost::default(), Duration::from_secs(10));
        assert!(matches!(watched.outcome, Outcome::Finished), "{:?}", watched.outcome);
        assert!(watched.slices >= 10, "{} slices", watched.slices);
    }
}

#[test]
fn what_is_written_outside_of_the_vm_is_bounded_while_it_is_written() {
    const TOO_LARGE: &str = "resulting string too large";
    let engine = Engine::new(EngineLimits {
        // More than what is written may have: the string has a bound of its own.
        memory_bytes: 256 << 20,
        ..EngineLimits::default()
    })
    .unwrap();
    let of = |source: &str| match watch(&mut start(&engine, source), &mut FakeHost::default(), BUDGET * 10).outcome {
        Outcome::Failed(error) => String::from_utf8_lossy(&error.message).into_owned(),
        other => panic!("{source}: {other:?}"),
    };
    for source in [
        "local t = {} for i = 1, 1000 do t[i] = ('\\0'):rep(10000) end return cjson.encode(t)",
        "return cjson.encode(('\\0'):rep(4e6))",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 20 do t[i] = s end return cjson.encode(t)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 20 do t[s .. i] = 1 end return cjson.encode(t)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 20 do t[i] = s end return cmsgpack.pack(t)",
        "local s = ('x'):rep(1e6) return cmsgpack.pack(s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s)",
        "local s = ('x'):rep(9e6) return struct.pack('c0c0', s, s)",
        "local s = ('x'):rep(9e6) return struct.pack('ss', s, s)",
    ] {
        let message = of(source);
        assert!(message.contains(TOO_LARGE), "{source}: {message}");
    }
    let fits =
        "local s = ('x'):rep(5e6) return #cjson.encode({s, s, s}) + #cmsgpack.pack(s, s) + #struct.pack('c0', s)";
    assert_eq!(
        finish(&mut start(&engine, fits), &mut FakeHost::default()).unwrap(),
        ":30000020"
    );
}

#[test]
fn memory_is_bounded_and_given_back() {
    let engine = Engine::new(EngineLimits {
        memory_bytes: 4 << 20,
        ..EngineLimits::default()
    })
    .unwrap();
    let before = engine.used_bytes();
    for source in [
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e7)",
        "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
        "local function f(...) return f(1, ...) end return f()",
    ] {
        let mut run = start(&engine, source);
        match watch(&mut run, &mut FakeHost::default(), Duration::from_secs(5)).outcome {
            Outcome::Failed(error) => assert_eq!(error.failure, Failure::Memory, "{source}: {error:?}"),
            other => panic!("{source}: {other:?}"),
        }
        drop(run);
        engine.collect();
        assert!(
            engine.used_bytes() < before + (1 << 20),
            "{source}: {}",
            engine.used_bytes()
        );
        assert_eq!(
            finish(&mut start(&engine, "return 1"), &mut FakeHost::default()).unwrap(),
            ":1"
        );
    }
    // What is garbage does not count.
    let churn = "local n = 0 for i = 1, 1e6 do n = n + #{i} end return n";
    assert_eq!(
        finish(&mut start(&engine, churn), &mut FakeHost::default()).unwrap(),
        ":1000000"
    );
}

#[test]
fn what_runs_leave_is_collected_in_steps() {
    let engine = engine();
    let before = engine.used_bytes();
    let mut run = start(&engine, "local t = {} for i = 1, 3e5 do t[i] = {i} end return #t");
    assert_eq!(finish(&mut run, &mut FakeHost::default()).unwrap(), ":300000");
    let full = engine.used_bytes();
    assert!(full > before + (8 << 20), "{full}");
    assert!(!engine.collect_some(SLICE), "a run is under way");
    drop(run);
    let mut steps = 0;
    while engine.collect_some(Duration::from_micros(200)) {
        steps += 1;
    }
    assert!(steps > 5, "{steps} steps");
    assert!(engine.used_bytes() < before + (1 << 20), "{}", engine.used_bytes());
    assert!(!engine.collect_some(SLICE), "there is nothing left");
    // A run that begins and ends in the middle of a collection.
    let large = "local t = {} for i = 1, 3e5 do t[i] = {i} end return #t";
    finish(&mut start(&engine, large), &mut FakeHost::default()).unwrap();
    for _ in 0..20 {
        let mut run = start(&engine, large);
        let _ = run.resume(&mut FakeHost::default(), Duration::from_secs(5));
        engine.collect_some(Duration::from_micros(200));
        drop(run);
        engine.collect_some(Duration::from_micros(200));
    }
    while engine.collect_some(SLICE) {}
    assert!(engine.used_bytes() < before + (1 << 20), "{}", engine.used_bytes());
    // Arguments count too, though no run has made them.
    let script = engine.compile(b"return #ARGV[1]", "user_script").unwrap();
    drop(engine.start(&script, &["k"], &["x".repeat(20 << 20)]));
    while engine.collect_some(SLICE) {}
    assert!(engine.used_bytes() < before + (1 << 20), "{}", engine.used_bytes());
}

#[test]
fn replies_are_bounded() {
    let engine = engine();
    let mut host = FakeHost::default();
    let deep = "local t = {} for i = 1, 8100 do t = {t} end return t";
    let reply = finish(&mut start(&engine, deep), &mut host).unwrap();
    // As Redis 7.0 counts.
    assert_eq!(reply.matches("*1").count(), 7995);
    assert!(reply.ends_with("-ERR reached lua stack limit"));
    for source in [
        "local t = {} for i = 1, 100 do t = {t, t} end return t",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end return t",
        "local t = {} for i = 1, 9e5 do t[i] = t end return t",
        "local m = {} for i = 1, 5e5 do m[i] = true end m.x = {map = m} return {map = m}",
        // A table of many places and few values.
        "local m = {} for i = 1, 5e5 do m['k' .. i] = 1 end for i = 1, 5e5 do m['k' .. i] = nil end m.x = {map = m} return {map = m}",
    ] {
        let mut run = start(&engine, source);
        loop {
            match run.resume(&mut host, SLICE) {
                Outcome::Yielded => {}
                outcome => break assert!(matches!(outcome, Outcome::Finished), "{source}: {outcome:?}"),
            }
        }
        let began = std::time::Instant::now();
        let error = run.write_reply(&mut Text::default()).unwrap_err();
        assert_eq!(error.failure, Failure::Reply, "{source}");
        assert!(
            began.elapsed() < Duration::from_secs(4),
            "{source}: {:?}",
            began.elapsed()
        );
    }
    let itself = "local t = {} t[1] = t return t";
    assert!(
        finish(&mut start(&engine, itself), &mut host)
            .unwrap()
            .contains("stack limit")
    );
}

#[test]
fn a_run_can_be_dropped_at_any_time() {
    let engine = engine();
    let mut host = FakeHost::default();
    for source in YIELDING.iter().chain(STUCK) {
        drop(start(&engine, source));
        let mut run = start(&engine, source);
        let _ = run.resume(&mut host, SLICE);
        drop(run);
    }
    let mut runs: Vec<_> = (0..100)
        .map(|_| start(&engine, "for i = 1, 1e5 do end return KEYS[1]"))
        .collect();
    for run in &mut runs {
        let _ = run.resume(&mut host, Duration::ZERO);
    }
    for run in &mut runs {
        let mut text = Text::default();
        loop {
            match run.resume(&mut host, SLICE) {
                Outcome::Yielded => {}
                outcome => break assert!(matches!(outcome, Outcome::Finished)),
            }
        }
        run.write_reply(&mut text).unwrap();
        assert_eq!(text.0, "$key1");
    }
}
