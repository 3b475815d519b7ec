//! Strings and times to live, beside a stock redis-server: the same commands, the same answers, in both protocols.

use tollgate_suite::{Check, Differential, Draw, Node, RedisServer, Trial, Value, skip_without};

const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "10",
    "007",
    "+1",
    " 1",
    "1.5",
    "abc",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "a_longer_value_that_is_not_kept_with_its_header_in_redis",
    "12345678901234567890123",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "-3",
    "5",
    "100",
    "a",
    "",
    "1.0",
    "9223372036854775807",
    "-9223372036854775808",
];
/// Seconds far enough ahead that the time which tests take does not show in TTL, and times that have passed.
const SECONDS: &[&str] = &[
    "0",
    "-1",
    "1000000",
    "2000000",
    "3000000",
    "4000000",
    "a",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775",
];
const UNIX_SECONDS: &[&str] = &["0", "-1", "1", "4102444800", "4102444801", "x", "9223372036854775807"];
const CONDITIONS: &[&str] = &["NX", "XX", "GT", "LT", "lt", "xx"];

/// A random command on one of a few keys. The times are below the year 586,000, where the node's clock ends.
fn command(draw: &mut Draw) -> Vec<&'static str> {
    let key = draw.of(&["a", "b", "{a}c", "d"]);
    let mut command = match draw.below(32) {
        0 => vec!["GET", key],
        1 | 26..30 => {
            let mut command = vec!["SET", key, draw.of(VALUES)];
            for _ in 0..draw.of(&[0, 1, 1, 1, 2, 3]) {
                match draw.below(6) {
                    0 => command.push(draw.of(&["NX", "XX", "xx"])),
                    1 => command.push(draw.of(&["GET", "KEEPTTL", "get"])),
                    2 => command.extend(["EX", draw.of(SECONDS)]),
                    3 => command.extend([
                        "PX",
                        draw.of(&["0", "-5", "1000000000", "2000000000", "3000000000", "a"]),
                    ]),
                    4 => command.extend([
                        draw.of(&["EXAT", "PXAT"]),
                        draw.of(&["4102444800", "4102444800000", "0", "z"]),
                    ]),
                    _ => command.push(draw.of(&["nothing", "EX", "PXAT"])),
                }
            }
            command
        }
        2 => vec!["SETNX", key, draw.of(VALUES)],
        3 => vec!["SETEX", key, draw.of(SECONDS), draw.of(VALUES)],
        4 => vec!["PSETEX", key, draw.of(&["1000000000", "0", "-1", "b"]), draw.of(VALUES)],
        5 => vec!["GETSET", key, draw.of(VALUES)],
        6 => vec!["GETDEL", key],
        7 => {
            let mut command = vec!["GETEX", key];
            match draw.below(6) {
                0 => command.push(draw.of(&["PERSIST", "EX", "nothing"])),
                1 => command.extend(["EX", draw.of(SECONDS)]),
                2 => command.extend(["PXAT", draw.of(&["4102444800000", "0", "1"])]),
                3 => command.extend(["PERSIST", "EX", "5"]),
                _ => {}
            }
            command
        }
        8 => vec!["STRLEN", key],
        9 => vec![
            draw.of(&["GETRANGE", "SUBSTR"]),
            key,
            draw.of(NUMBERS),
            draw.of(NUMBERS),
        ],
        10 => vec!["APPEND", key, draw.of(VALUES)],
        11 => vec!["INCR", key],
        12 => vec!["DECR", key],
        13 => vec!["INCRBY", key, draw.of(NUMBERS)],
        14 => vec!["DECRBY", key, draw.of(NUMBERS)],
        15 => vec!["EXPIRE", key, draw.of(SECONDS)],
        16 => vec![
            "PEXPIRE",
            key,
            draw.of(&["1000000000", "2000000000", "0", "-1", "b", "9223372036854775807"]),
        ],
        17 | 30 => vec!["EXPIREAT", key, draw.of(UNIX_SECONDS)],
        18 | 31 => vec![
            "PEXPIREAT",
            key,
            draw.of(&["4102444800000", "4102444801000", "5", "-1", "c", "9000000000000000"]),
        ],
        19 => vec!["PERSIST", key],
        20 => vec!["TTL", key],
        21 => vec!["EXPIRETIME", key],
        22 => vec!["TYPE", key],
        23 => vec!["OBJECT", "ENCODING", key],
        24 => vec!["EXISTS", key],
        _ => vec![draw.of(&["DEL", "UNLINK"]), key],
    };
    if command[0].contains("EXPIRE") && !command[0].ends_with("TIME") && draw.below(2) == 0 {
        // Whether a time from now on is later than another depends on when the two servers are asked.
        let conditions = if command[0].ends_with("AT") {
            CONDITIONS
        } else {
            &CONDITIONS[..2]
        };
        command.push(draw.of(conditions));
        if draw.below(4) == 0 {
            command.push(draw.of(conditions));
        }
    }
    if draw.below(60) == 0 {
        command.push("more");
    } else if draw.below(60) == 0 {
        command.pop();
    }
    command
}

/// EXPIRETIME and TTL after a relative time are a second off when the two servers are asked in different seconds.
fn within_a_second(answered: &Value, expected: &Value) -> bool {
    match (answered, expected) {
        (Value::Int(answered), Value::Int(expected)) => answered.abs_diff(*expected) <= 1,
        _ => answered == expected,
    }
}

fn trial(draw: &mut Draw) -> Trial {
    let command = command(draw);
    let check = match command[0] {
        "EXPIRETIME" | "TTL" => Check::Alike(within_a_second),
        _ => Check::Same,
    };
    Trial::new(command).checked(check)
}

/// All commands that [`command`] makes, with their options.
const COMMANDS: &[(&str, &[&str])] = &[
    ("APPEND", &[]),
    ("DECR", &[]),
    ("DECRBY", &[]),
    ("DEL", &[]),
    ("EXISTS", &[]),
    ("EXPIRE", &["NX", "XX"]),
    ("EXPIREAT", &["NX", "XX", "GT", "LT"]),
    ("EXPIRETIME", &[]),
    ("GET", &[]),
    ("GETDEL", &[]),
    ("GETEX", &["EX", "PXAT", "PERSIST"]),
    ("GETRANGE", &[]),
    ("GETSET", &[]),
    ("INCR", &[]),
    ("INCRBY", &[]),
    ("OBJECT", &["ENCODING"]),
    ("PERSIST", &[]),
    ("PEXPIRE", &["NX", "XX"]),
    ("PEXPIREAT", &["NX", "XX", "GT", "LT"]),
    ("PSETEX", &[]),
    ("SET", &["NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT"]),
    ("SETEX", &[]),
    ("SETNX", &[]),
    ("STRLEN", &[]),
    ("SUBSTR", &[]),
    ("TTL", &[]),
    ("TYPE", &[]),
    ("UNLINK", &[]),
];

#[test]
fn random_commands_are_answered_as_by_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let mut differential = Differential::new(COMMANDS, trial);
    for workers in ["1", "3"] {
        let redis = RedisServer::start(&[]);
        let node = Node::start(&["--workers", workers]);
        let (mut reference, mut tested) = (redis.client(), node.client());
        differential.run(&mut reference, &mut tested, 1, 15_000);
        reference.hello3();
        tested.hello3();
        differential.run(&mut reference, &mut tested, 2, 15_000);
    }
    differential.finish();
}

#[test]
fn buckets_and_strings_share_the_keys() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(client.line("SET s 5").text(), "OK");
    assert_eq!(client.line("RL.CHECK s LIMIT 5 PER 1m").error(), wrong);
    assert_eq!(
        client.line("RL.CHECK s LIMIT 5 PER 1m POLICY sliding_log").error(),
        wrong
    );
    assert_eq!(client.line("CL.THROTTLE s 5 5 60").error(), wrong);
    assert_eq!(client.line("RL.REFUND s 1").error(), wrong);
    assert_eq!(client.line("RL.RESET s").error(), wrong);
    assert_eq!(client.line("GET s").text(), "5");
    assert_eq!(client.line("RL.CHECK b LIMIT 5 PER 1m").items()[0].int(), 1);
    for command in [
        "GET b",
        "INCR b",
        "APPEND b x",
        "GETDEL b",
        "GETEX b",
        "STRLEN b",
        "SET b 1 GET",
    ] {
        assert_eq!(client.line(command).error(), wrong, "{command}");
    }
    assert_eq!(client.line("RL.CHECK b LIMIT 5 PER 1m PEEK").items()[2].int(), 4);
    // In one pipeline, and so in one batch of checks.
    let replies =
        client.pipeline(&["a1", "s", "a2", "b", "s", "a3"].map(|key| vec!["RL.CHECK", key, "LIMIT", "5", "PER", "1m"]));
    let shown: Vec<bool> = replies.iter().map(Value::is_error).collect();
    assert_eq!(shown, [false, true, false, false, true, false]);
    assert_eq!(client.line("SET b x").text(), "OK");
    assert_eq!(client.line("TYPE b").text(), "string");
    assert_eq!(client.line("DEL b s").int(), 2);
    assert_eq!(client.line("RL.CHECK s LIMIT 5 PER 1m").items()[2].int(), 4);
    assert_eq!(client.line("TYPE s").text(), "bucket");
    assert_eq!(client.line("SCAN 0 TYPE string").items()[1].items().len(), 0);
    assert_eq!(client.line("DBSIZE").int(), 4);
}

#[test]
fn a_string_does_not_outgrow_its_bound() {
    let node = Node::start(&["--workers", "1", "--set", "limits.string_bytes=65536"]);
    let mut client = node.client();
    let half = "x".repeat(32_768);
    assert_eq!(client.command(&["APPEND", "s", &half]).int(), 32_768);
    assert_eq!(client.command(&["APPEND", "s", &half]).int(), 65_536);
    let refused = client.command(&["APPEND", "s", "x"]);
    assert_eq!(
        refused.error(),
        "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
    );
    assert_eq!(client.line("STRLEN s").int(), 65_536);
    let hits = || node.metric("tollgate_limit_hit_total{limit=\"string_bytes\"}");
    let started = std::time::Instant::now();
    while hits() != Some(1.0) {
        assert!(started.elapsed().as_secs() < 20, "{:?}", hits());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_string_expires_to_the_millisecond() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    for _ in 0..20 {
        client.line("SET k v PX 30");
        let left = client.line("PTTL k").int();
        assert!((1..=30).contains(&left), "{left}");
        std::thread::sleep(std::time::Duration::from_millis(31));
        assert!(client.line("GET k").is_null());
        assert_eq!(client.line("RL.CHECK k LIMIT 5 PER 1ms").items()[0].int(), 1);
        client.line("DEL k");
    }
}
