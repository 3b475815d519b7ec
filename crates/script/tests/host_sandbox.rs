//! Policies that misbehave: only the operation at fault fails, within its bounds, and everything else goes on.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use support::{COUNTER, check_body, fresh, host, host_with, params, run, source};
use tollgate_script::{Batch, Fault, PolicyHost, PolicyLimits, Progress, State, StateIn, Stored};

/// Far above any budget here, far below a hang.
const HANG: Duration = Duration::from_secs(20);

/// Runs a policy `bad` between good operations of the same VM, in `check` and then in `full_at`, twice each; returns the
/// faults.
fn faults_of(body: &str) -> Vec<Fault> {
    faults_within(body, PolicyLimits::default())
}

/// Bounds under which no busy machine makes a finite computation overrun its time.
const UNHURRIED: PolicyLimits = PolicyLimits {
    budget_us: 10_000_000,
    memory_bytes: 1 << 20,
    max_params: 100,
    policies_max: 10,
    state_bytes_max: 1000,
};

fn faults_within(body: &str, limits: PolicyLimits) -> Vec<Fault> {
    let in_check = check_body(&format!("if level > 0 then {body} end return true, 1, 0, level"));
    let in_full_at = check_body("return true, 1, 0, level").replace(
        "return 0 end",
        &format!("local now, cost = 1, 1 if level > 0 then {body} end return 0 end"),
    );
    let mut faults = Vec::new();
    for text in [in_check, in_full_at] {
        let mut host = host_with(&[("bad", &text), ("counter", COUNTER)], limits);
        let (bad, good) = (params(&mut host, "bad", 10), params(&mut host, "counter", 10));
        let mut batch = Batch::new();
        for _ in 0..2 {
            batch.clear();
            let before = fresh(&mut batch, good, 1);
            let state = batch.state(StateIn {
                params: Some(bad),
                fields: &[5.0],
            });
            let harmless = fresh(&mut batch, bad, 1);
            let op = batch.check(bad, state, 0, 1, false);
            let after = fresh(&mut batch, good, 2);
            let begin = Instant::now();
            run(&mut host, &mut batch);
            assert!(begin.elapsed() < HANG, "{body}");
            for ((op, state), used) in [(before, 1.0), (after, 2.0)] {
                assert_eq!(batch.outcome(op).unwrap().remaining, 10 - used as i64);
                assert_eq!(batch.state_after(state).fields(), [used]);
            }
            assert!(batch.outcome(harmless.0).is_ok());
            let unchanged = batch.state_after(state);
            assert_eq!((unchanged.fields(), unchanged.changed), (&[5.0][..], false));
            faults.push(batch.outcome(op).expect_err(body).fault);
        }
    }
    faults
}

#[test]
fn endless_loops_are_stopped() {
    for body in [
        "while true do end",
        "repeat until false",
        "for i = 1, math.huge do end",
        "local function f() return f() end return f()",
        "local function f() for _ in pairs({ 1 }) do f = f end end while true do f() end",
    ] {
        for fault in faults_of(body) {
            assert_eq!(fault, Fault::Budget { budget_us: 1_000 }, "{body}");
        }
    }
}

#[test]
fn memory_bombs_hit_the_cap_or_the_budget() {
    for body in [
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 1e9 do t[i] = { t } end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t = { t, buffer.create(60000) } end",
    ] {
        for fault in faults_of(body) {
            let stopped = matches!(fault, Fault::Memory { .. } | Fault::Budget { .. });
            assert!(stopped, "{body}: {fault:?}");
        }
    }
}

#[test]
fn one_large_step_hits_the_memory_cap() {
    let body = "local s = 'x' for i = 1, 30 do s = s .. s end";
    for fault in faults_within(body, UNHURRIED) {
        assert_eq!(fault, Fault::Memory { cap_bytes: 1 << 20 });
    }
}

#[test]
fn errors_name_the_line() {
    for (body, expected) in [
        ("error('too odd')", "bad.lua:2: too odd"),
        ("error('as is', 0)", "as is"),
        ("local x = nil + 1", "bad.lua:2: attempt to perform arithmetic"),
        ("assert(false, 'no')", "no"),
    ] {
        for fault in faults_within(body, UNHURRIED) {
            let Fault::Error(message) = &fault else {
                panic!("{body}: {fault:?}");
            };
            assert!(!message.contains('\n'), "one line: {message}");
            assert!(
                message.contains(expected.trim_start_matches("bad.lua:2: ")),
                "{message}"
            );
        }
    }
    for body in ["error({})", "error(nil)", "error(7)"] {
        faults_within(body, UNHURRIED);
    }
}

#[test]
fn deep_recursion_ends_at_the_stack_or_the_memory_cap() {
    for fault in faults_within("local function f() return 1 + f() end return f()", UNHURRIED) {
        match fault {
            Fault::Memory { .. } => {}
            Fault::Error(message) if message.contains("stack overflow") => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nothing_beyond_the_list_is_there() {
    for name in [
        "pcall",
        "xpcall",
        "coroutine",
        "string",
        "table",
        "os",
        "debug",
        "utf8",
        "vector",
        "print",
        "getfenv",
        "setfenv",
        "newproxy",
        "collectgarbage",
        "gcinfo",
        "loadstring",
        "load",
        "require",
        "dofile",
        "setmetatable",
        "getmetatable",
        "rawset",
        "unpack",
        "_G",
        "shared",
        "io",
        "integer",
    ] {
        let text = check_body(&format!("assert({name} == nil, 'there') return true, 1, 0, 1"));
        let mut host = host(&[("p", &text)]);
        let p = params(&mut host, "p", 1);
        host.check_one(p, None, 0, 1, false).expect(name);
    }
    for body in [
        "return ('x'):rep(10)",
        "return ('x').rep",
        "return math.random()",
        "return math.randomseed(1)",
        "return buffer.fromstring('x')",
        "return buffer.tostring(buffer.create(1))",
        "return buffer.create(65537)",
        "return buffer.create(-1)",
        "return buffer.create(1e300)",
        "return buffer.create(0/0)",
        "a_global = 1",
        "math.floor = nil",
        "math = nil",
        "buffer.create = nil",
        "limit.burst = 1e9",
        "limit.more = 1",
    ] {
        let text = check_body(&format!("local function f() {body} end f() return true, 1, 0, 1"));
        let mut host = host(&[("p", &text)]);
        let p = params(&mut host, "p", 1);
        let fault = host.check_one(p, None, 0, 1, false).expect_err(body);
        assert!(matches!(fault.fault, Fault::Error(_)), "{body}: {fault}");
    }
}

/// The compiler knows library functions by name and calls them without looking them up, where it may.
#[test]
fn the_compiler_offers_nothing_beyond_the_list() {
    for expression in [
        "table.insert({}, 1)",
        "table.unpack({ 1 })",
        "unpack({ 1 })",
        "string.sub('abc', 1, 2)",
        "string.byte('abc', 1)",
        "string.char(97)",
        "string.len('abc')",
        "setmetatable({}, {})",
        "getmetatable({})",
        "getmetatable('')",
        "rawset({}, 1, 1)",
        "vector.create(1, 2, 3)",
        "vector.magnitude(vector.create(1, 2, 3))",
        "integer.add(1, 2)",
        "integer.create(1)",
        "(table or math).insert({}, 1)",
    ] {
        let in_local = match expression.split_once('(') {
            Some((function, arguments)) if !function.is_empty() => {
                format!("local f = {function} local x = f({arguments} return true, 1, 0, 1")
            }
            _ => format!("local x = {expression} return true, 1, 0, 1"),
        };
        for body in [
            format!("local x = {expression} return true, 1, 0, 1"),
            format!("local x = ({expression}) == nil return true, 1, 0, if x then 1 else 0"),
            in_local,
        ] {
            let mut host = host(&[("p", &check_body(&body))]);
            let p = params(&mut host, "p", 1);
            let fault = host.check_one(p, None, 0, 1, false).expect_err(&body);
            assert!(matches!(fault.fault, Fault::Error(_)), "{body}: {fault}");
        }
    }
}

/// Values without a text of their own are shown as their type: no error tells where they are in memory.
#[test]
fn errors_hold_no_addresses() {
    for (body, expected) in [
        ("error({})", "table"),
        ("error(check)", "function"),
        ("error(buffer.create(1))", "buffer"),
        ("error(tostring({}))", "bad.lua:3: table"),
        ("error('a ' .. tostring(math.floor), 0)", "a function"),
        ("error(tostring(buffer.create(1)), 0)", "buffer"),
        ("local show = tostring error(show({}), 0)", "table"),
        (
            "error(tostring(7) .. tostring(nil) .. tostring(true) .. tostring('x'), 0)",
            "7niltruex",
        ),
    ] {
        let text = format!(
            "local check = function() end {}",
            check_body(&format!("\n{body} return true, 1, 0, 1"))
        );
        let mut host = host_with(&[("bad", &text)], UNHURRIED);
        let bad = params(&mut host, "bad", 1);
        let fault = host.check_one(bad, None, 0, 1, false).expect_err(body).fault;
        assert_eq!(fault, Fault::Error(expected.to_owned()), "{body}");
    }
}

#[test]
fn a_time_before_the_beginning_is_no_full_at() {
    for (full_at, shown) in [
        ("-1e308", "-1e+308"),
        ("-1", "-1"),
        ("-math.huge", "-inf"),
        ("0/0", "nan"),
    ] {
        let text = check_body("return true, 1, 0, 1").replace("return 0 end", &format!("return {full_at} end"));
        let mut host = host(&[("bad", &text)]);
        let bad = params(&mut host, "bad", 1);
        let expected = format!("full_at returned {shown} where a time in whole microseconds from 0 on is expected");
        let fault = host.check_one(bad, None, 0, 1, false).expect_err(full_at).fault;
        assert_eq!(fault, Fault::BadResult(expected), "{full_at}");
    }
}

#[test]
fn loading_a_file_cannot_leave_a_global_behind() {
    for text in [
        "leak = 1 return {}",
        "math.leak = 1 return {}",
        "buffer.create = 1 return {}",
    ] {
        let error = PolicyHost::new(&[source("p", text)], PolicyLimits::default()).unwrap_err();
        assert!(error.to_string().contains("readonly"), "{error}");
    }
}

/// A policy can count in a local variable of its file. That breaks its contract, but stays within the file.
#[test]
fn a_local_variable_of_one_file_is_invisible_to_others() {
    let counts = format!(
        "local seen = 0 {}",
        check_body("seen = seen + 1 return true, seen % 10, 0, seen")
    );
    let mut host = host(&[("a", &counts), ("b", &counts)]);
    let (a, b) = (params(&mut host, "a", 100), params(&mut host, "b", 100));
    for _ in 0..3 {
        host.check_one(a, None, 0, 1, false).unwrap();
    }
    let (_, state) = host.check_one(b, None, 0, 1, false).unwrap();
    assert_eq!(state, State::Numbers(&[1.0]));
}

#[test]
fn a_policy_that_hoards_memory_does_not_starve_others() {
    let hoards = format!(
        "local kept = {{}} {}",
        check_body("for i = 1, 1000 do kept[#kept + 1] = { i } end return true, 1, 0, level")
    );
    let mut host = host(&[("hoards", &hoards), ("counter", COUNTER)]);
    let (hoards, good) = (params(&mut host, "hoards", 10), params(&mut host, "counter", 10));
    let mut failed = 0;
    for _ in 0..200 {
        failed += u32::from(host.check_one(hoards, None, 0, 1, false).is_err());
        let (outcome, _) = host.check_one(good, None, 0, 1, false).unwrap();
        assert_eq!(outcome.remaining, 9);
    }
    assert!(failed < 100, "{failed}");
}

/// No call that cannot be interrupted takes long: each library function with its worst input, in an endless loop, is
/// stopped by the budget or fails at once.
#[test]
fn every_library_function_is_bounded_at_its_worst() {
    let calls = [
        "buffer.fill(b, 0, 1)",
        "buffer.copy(b, 0, b)",
        "buffer.copy(b, 1, b, 0, 65535)",
        "buffer.create(65536)",
        "buffer.writebits(b, 0, 32, 7)",
        "buffer.readbits(b, 0, 32)",
        "buffer.readf64(b, 0)",
        "tostring(1e308)",
        "tostring(t)",
        "tostring(s)",
        "tonumber(s)",
        "tonumber(s, 36)",
        "tonumber('0x' .. s)",
        "tonumber('1e' .. s)",
        "select('#', s, s)",
        "select(-1, s, s)",
        "rawequal(s, s2)",
        "rawlen(t)",
        "rawget(t, s)",
        "next(t, nil)",
        "pairs(t)",
        "type(s) == typeof(s)",
        "assert(s < s2 or s2 < s or s == s2)",
        "assert(s + 0 == s2 + 0)",
        "math.noise(1e300, 1e300, 1e300)",
        "math.fmod(1e308, 1e-308)",
        "math.pow(1e308, 1e308)",
        "math.sin(1e308)",
        "math.tan(1e308)",
        "math.frexp(5e-324)",
        "math.ldexp(1, 2^31)",
        "math.log(2, 1)",
        "math.max(s, s2)",
        "bit32.lrotate(1, 2^31)",
        "bit32.extract(1, 0, 32)",
        "bit32.replace(1, 1, 0, 32)",
        "bit32.arshift(1, 2^31)",
    ];
    for call in calls {
        let text = check_body(&format!(
            "local b, t, s = buffer.create(65536), {{}}, '1'
             for i = 1, 10000 do t[i] = i end
             for i = 1, 10000 do t[i] = nil end
             for i = 1, 17 do s = s .. s end
             local s2 = s .. '2'
             while true do local x = {call} end"
        ));
        // Statements need no value.
        let text =
            if call.starts_with("buffer.fill") || call.starts_with("buffer.copy") || call.starts_with("buffer.write") {
                text.replace("local x = ", "")
            } else {
                text
            };
        let mut host = host(&[("p", &text)]);
        let p = params(&mut host, "p", 1);
        for _ in 0..2 {
            let begin = Instant::now();
            let fault = host.check_one(p, None, 0, 1, false).expect_err(call).fault;
            let took = begin.elapsed();
            assert!(took < HANG, "{call}: {took:?}");
            if let Fault::Error(message) = &fault {
                assert!(
                    [
                        "invalid",
                        "attempt",
                        "too",
                        "out of",
                        "argument",
                        "expected",
                        "number",
                        "assertion"
                    ]
                    .iter()
                    .any(|word| message.contains(word)),
                    "{call}: {message}"
                );
            }
        }
    }
}

#[test]
fn a_batch_over_its_budget_pauses_between_operations() {
    let slow = check_body("for i = 1, cost do level = level + 1 end return true, 1, 0, level");
    let limits = PolicyLimits {
        budget_us: 20_000,
        ..PolicyLimits::default()
    };
    let mut host = host_with(&[("slow", &slow)], limits);
    let slow = params(&mut host, "slow", 10);
    // Find a cost that takes some milliseconds here.
    let mut cost = 10_000;
    loop {
        let begin = Instant::now();
        let stopped = host.check_one(slow, None, 0, cost, false).is_err();
        if stopped || begin.elapsed() > Duration::from_millis(2) {
            break;
        }
        cost *= 2;
    }
    let mut batch = Batch::new();
    let ops: Vec<_> = (0..64).map(|_| fresh(&mut batch, slow, cost)).collect();
    let mut pauses = 0;
    while host.run(&mut batch) == Progress::More {
        pauses += 1;
        // Another batch in between.
        let (outcome, _) = host.check_one(slow, None, 0, 1, false).unwrap();
        assert!(outcome.allowed);
    }
    assert!(pauses >= 2, "{pauses}");
    assert!(batch.time_us() >= 64 * 1_000, "{}", batch.time_us());
    for (op, state) in ops {
        // On a busy machine an operation may be stopped; it never leaves half a state.
        match batch.outcome(op) {
            Ok(_) => assert_eq!(batch.state_after(state).fields(), [cost as f64]),
            Err(fault) => {
                assert_eq!(fault.fault, Fault::Budget { budget_us: 20_000 });
                assert!(!batch.state_after(state).changed);
            }
        }
    }
}

#[test]
fn the_scratch_of_a_buffer_policy_holds_nothing_of_others() {
    let spies = "return { version = 1, fields = 'buffer', burst = 'none',
        max_bytes = function(limit) return limit.burst end,
        check = function(limit, now, cost, buf, len)
            for i = len, buffer.len(buf) - 1 do
                if buffer.readu8(buf, i) ~= 0 then error('something is left') end
            end
            buffer.fill(buf, 0, 255)
            return true, 1, 0, 3
        end,
        full_at = function(limit, buf, len) return 1 end }";
    let mut host = host(&[("spies", spies)]);
    let spies = params(&mut host, "spies", 1_000);
    for _ in 0..2 {
        let (_, state) = host.check_one(spies, None, 0, 1, false).unwrap();
        let bytes = match state {
            State::Bytes(bytes) => bytes.to_vec(),
            State::Numbers(_) => panic!("a buffer"),
        };
        assert_eq!(bytes, [255; 3]);
        let stored = Stored {
            params: spies,
            state: State::Bytes(&bytes),
        };
        host.check_one(spies, Some(stored), 0, 1, false).unwrap();
    }
}
