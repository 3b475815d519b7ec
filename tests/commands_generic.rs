//! RENAME, RENAMENX and COPY beside a stock redis-server: the same commands, the same answers, in both protocols.

use tollgate_suite::{Check, Differential, Draw, Node, RedisServer, Trial, Value, skip_without};

/// Of one shard and of several.
const KEYS: &[&str] = &["a", "b", "{a}c", "d", "e"];

/// A time to live that ends while the test runs would not end at the same moment on both servers.
fn within_a_second(answered: &Value, expected: &Value) -> bool {
    match (answered, expected) {
        (Value::Int(answered), Value::Int(expected)) => answered.abs_diff(*expected) <= 1,
        _ => answered == expected,
    }
}

fn trial(draw: &mut Draw) -> Trial {
    let key = draw.of(KEYS).to_owned();
    let other = draw.of(KEYS).to_owned();
    let mut args: Vec<String> = match draw.below(16) {
        0..3 => vec!["RENAME".into(), key, other],
        3..5 => vec!["RENAMENX".into(), key, other],
        5..8 => {
            let mut args = vec![draw.of(&["COPY", "copy"]).into(), key, other];
            for _ in 0..draw.below(3) {
                match draw.below(5) {
                    0..2 => args.push(draw.of(&["REPLACE", "replace"]).into()),
                    2 if draw.one_in(4) => args.push(draw.of(&["DB", "nothing", ""]).into()),
                    3 if draw.one_in(4) => {
                        let db = draw.of(&["-1", "16", "a", "3000000000", "-9223372036854775808"]);
                        args.extend(["DB".into(), db.into()]);
                    }
                    _ => args.extend(["DB".into(), draw.of(&["0", "1", "1"]).into()]),
                }
            }
            args
        }
        8..11 => {
            let value = match draw.below(4) {
                0 => "12".into(),
                1 => "x".repeat(draw.of(&[60, 700, 400_000])),
                _ => draw.below(1000).to_string() + "v",
            };
            let mut args = vec!["SET".into(), key, value];
            if draw.one_in(3) {
                args.extend(["EX".into(), draw.of(&["1000000", "2000000"]).into()]);
            }
            args
        }
        11 => vec!["SELECT".into(), draw.of(&["0", "0", "1"]).into()],
        12 => vec!["TTL".into(), key],
        13 => vec!["OBJECT".into(), "ENCODING".into(), key],
        14 => vec!["STRLEN".into(), key],
        _ => vec![draw.of(&["GET", "GET", "DEL"]).into(), key],
    };
    if draw.one_in(80) {
        args.push("more".into());
    }
    let check = if args[0] == "TTL" {
        Check::Alike(within_a_second)
    } else {
        Check::Same
    };
    Trial::new(args).checked(check)
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("COPY", &["REPLACE", "DB"]),
    ("DEL", &[]),
    ("GET", &[]),
    ("OBJECT", &["ENCODING"]),
    ("RENAME", &[]),
    ("RENAMENX", &[]),
    ("SELECT", &[]),
    ("SET", &["EX"]),
    ("STRLEN", &[]),
    ("TTL", &[]),
];

#[test]
fn random_commands_on_keys_are_answered_as_by_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let mut differential = Differential::new(COMMANDS, trial);
    for (workers, seed) in [("1", 1), ("3", 3)] {
        let redis = RedisServer::start(&[]);
        let node = Node::start(&["--workers", workers]);
        let (mut reference, mut tested) = (redis.client(), node.client());
        differential.run(&mut reference, &mut tested, seed, 8_000);
        reference.hello3();
        tested.hello3();
        differential.run(&mut reference, &mut tested, seed + 1, 8_000);
    }
    differential.finish();
}

#[test]
fn renaming_and_copying_mint_no_tokens() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    let remaining = |client: &mut tollgate_suite::Client, key: &str| {
        client
            .command(&["RL.CHECK", key, "LIMIT", "5", "PER", "1h", "PEEK"])
            .items()[2]
            .int()
    };
    for _ in 0..4 {
        client.line("RL.CHECK used LIMIT 5 PER 1h");
    }
    client.line("RL.CHECK fresh LIMIT 5 PER 1h");
    let refused = "ERR a bucket cannot be copied: its tokens would be there twice";
    for command in ["COPY used more", "COPY used fresh REPLACE", "COPY used used DB 1"] {
        assert_eq!(client.line(command).error(), refused, "{command}");
    }
    assert_eq!(
        (remaining(&mut client, "used"), remaining(&mut client, "fresh")),
        (1, 4)
    );
    assert_eq!(client.line("RENAMENX fresh used").int(), 0);
    assert_eq!(client.line("RENAME used moved").text(), "OK");
    assert_eq!(client.line("EXISTS used").int(), 0);
    assert_eq!(remaining(&mut client, "moved"), 1);
    // Here and back again, as often as one likes.
    for _ in 0..10 {
        client.line("RENAME moved used");
        client.line("RENAME used moved");
    }
    assert_eq!(remaining(&mut client, "moved"), 1);
    assert_eq!(client.line("DBSIZE").int(), 2);
}
