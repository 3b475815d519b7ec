//! KEYS and ARGV: a run has those that it was given, whatever the runs before it did to theirs.

mod support;

use support::{FakeHost, engine, finish};
use tollgate_eval::Engine;

/// What a script sees of its lists: all keys that they have, with their values, and whether they have a metatable.
const SHOW: &str = "
    local seen = {}
    for _, list in ipairs({KEYS, ARGV}) do
        local count = 0
        for key, value in pairs(list) do
            count = count + 1
            seen[#seen + 1] = type(key) .. ':' .. tostring(key) .. '=' .. tostring(value)
        end
        seen[#seen + 1] = count .. ' ' .. #list .. ' ' .. type(getmetatable(list)) .. ' ' .. tostring(list.extra)
    end
    return table.concat(seen, ' ')";

fn run(engine: &Engine, source: &str, keys: &[&str], arguments: &[&str]) -> String {
    let script = engine.compile(source.as_bytes(), "user_script").expect("a script");
    let mut run = engine.start(&script, keys, arguments);
    finish(&mut run, &mut FakeHost::default())
        .unwrap_or_else(|error| String::from_utf8_lossy(&error.message).into_owned())
}

#[test]
fn a_run_sees_nothing_of_what_another_did_to_its_lists() {
    let given: [(&[&str], &[&str]); 4] = [
        (&["k"], &["1", "2", "3"]),
        (&["other"], &["1", "2", "3"]),
        (&["k"], &["3", "2"]),
        (&[], &[]),
    ];
    for change in [
        "return 1",
        "ARGV[2] = 'x' KEYS[1] = 'y'",
        "ARGV[1] = nil KEYS[1] = nil",
        "ARGV[3] = nil",
        "ARGV[4] = 'more' KEYS[2] = 'more'",
        "ARGV[0] = 'zero' KEYS[-1] = 'less'",
        "ARGV.extra = 1 KEYS.extra = 1",
        "ARGV[1] = nil ARGV['1'] = '1' KEYS[1] = nil KEYS['1'] = 'k'",
        "for i = 1, 3 do ARGV[i] = nil end ARGV.a = '1' ARGV.b = '2' ARGV.c = '3'",
        "for i = 1, 3 do ARGV[i] = nil end KEYS[1] = nil ARGV.extra = '1' ARGV[1] = '1'",
        "ARGV[1] = 1 ARGV[2] = 2 ARGV[3] = 3",
        "ARGV[1] = {} ARGV[2] = true ARGV[3] = print",
        "setmetatable(ARGV, {__index = function() return 'leak' end}) setmetatable(KEYS, {__len = function() return 9 end})",
        "table.sort(ARGV, function(a, b) return a > b end)",
        "table.remove(ARGV) table.insert(KEYS, 'more')",
        "for i = 1, 10000 do ARGV[i] = i end for i = 4, 10000 do ARGV[i] = nil end ARGV[1] = '1' ARGV[2] = '2' ARGV[3] = '3'",
        "for i = 1, 10000 do ARGV['f' .. i] = i end for i = 1, 10000 do ARGV['f' .. i] = nil end",
        "ARGV[1] = string.rep('x', 1000000)",
        "KEYS[1] = 'y' error('ended')",
        "local co = coroutine.create(function() ARGV[1] = 'x' coroutine.yield() ARGV[2] = 'y' end) coroutine.resume(co)",
    ] {
        let engine = engine();
        for (keys, arguments) in given {
            let fresh = run(&support::engine(), SHOW, keys, arguments);
            run(&engine, change, &["k"], &["1", "2", "3"]);
            assert_eq!(run(&engine, SHOW, keys, arguments), fresh, "{change}");
            assert_eq!(run(&engine, SHOW, keys, arguments), fresh, "{change}");
        }
    }
}

#[test]
fn runs_that_take_turns_have_lists_of_their_own() {
    let engine = engine();
    let source = "for i = 1, 1e6 do if i % 1e5 == 0 then redis.call('COUNT') end end return {KEYS[1], ARGV[1]}";
    let script = engine.compile(source.as_bytes(), "user_script").expect("a script");
    for round in 0..2 {
        let mut hosts = [(); 3].map(|()| FakeHost::default());
        let names: Vec<String> = (0..3).map(|number| format!("{round}-{number}")).collect();
        let mut runs: Vec<_> = names.iter().map(|name| engine.start(&script, [name], [name])).collect();
        for (run, host) in runs.iter_mut().zip(&mut hosts) {
            assert!(matches!(
                run.resume(host, std::time::Duration::ZERO),
                tollgate_eval::Outcome::Yielded
            ));
        }
        for ((run, host), name) in runs.iter_mut().zip(&mut hosts).zip(&names) {
            assert_eq!(finish(run, host).expect("a reply"), format!("*2 ${name} ${name}"));
        }
    }
}
