//! Hashes, beside a stock redis-server: the same commands, the same answers, in both protocols.

use tollgate_suite::{Check, Differential, Draw, Node, RedisServer, Servers, Trial, Value, skip_without};

/// One of them mostly holds a large hash, another a string.
const KEYS: &[&str] = &["h", "i", "h", "i", "large", "large", "text"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "5",
    "-3",
    "1",
    "2",
    "100",
    "x",
    "",
    "1.5",
    "nan",
    "inf",
    "9223372036854775807",
    "-9223372036854775808",
];
const FLOATS: &[&str] = &[
    "1",
    "0.1",
    "-0.3",
    "3.0e3",
    "1e-7",
    "0x10",
    "5.0e-324",
    "123456789.987654321",
    "1e4000",
    "-1e4000",
    "1e4932",
    "1e5000",
    " 1",
    "1 ",
    "x",
    "",
    "nan",
    "inf",
    "-Infinity",
];
const COUNTS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "20",
    "700",
    "2000",
    "-1",
    "-5",
    "-2000",
    "a",
    "1.0",
    "9223372036854775807",
    "-9223372036854775808",
];
/// Fields that a command on the large hash sets at once.
const LARGE_FIELDS: usize = 1300;

fn field(draw: &mut Draw) -> String {
    match draw.below(40) {
        0 => String::new(),
        1 => "f".repeat(65),
        2 => "f".repeat(64),
        3..8 => draw.below(20).to_string(),
        // Some of those that a large hash has.
        8..12 => format!("field:{}", draw.below(LARGE_FIELDS)),
        _ => format!("f{}", draw.below(12)),
    }
}

fn value(draw: &mut Draw) -> String {
    match draw.below(30) {
        0 => String::new(),
        1 => "v".repeat(65),
        2 => "v".repeat(64),
        3..12 => draw.of(NUMBERS).to_owned(),
        _ => format!("value {}", draw.below(1000)),
    }
}

fn trial(draw: &mut Draw) -> Trial {
    let key = draw.of(KEYS).to_owned();
    let fields = |draw: &mut Draw| -> Vec<String> { (0..1 + draw.below(4)).map(|_| field(draw)).collect() };
    let mut check = Check::Same;
    let mut command: Vec<String> = match draw.below(28) {
        0..4 => {
            let mut command = vec![draw.of(&["HSET", "HMSET", "hset"]).to_owned(), key];
            if command[1] == "large" && draw.one_in(6) {
                for number in 0..LARGE_FIELDS {
                    command.extend([format!("field:{number}"), value(draw)]);
                }
            }
            for _ in 0..1 + draw.below(6) {
                command.extend([field(draw), value(draw)]);
            }
            command
        }
        4 => vec!["HSETNX".to_owned(), key, field(draw), value(draw)],
        5 => vec!["HGET".to_owned(), key, field(draw)],
        6 => [vec!["HMGET".to_owned(), key], fields(draw)].concat(),
        7 => {
            check = Check::AsKept(2);
            vec!["HGETALL".to_owned(), key]
        }
        8 | 9 => {
            check = Check::AsKept(1);
            vec![draw.of(&["HKEYS", "HVALS"]).to_owned(), key]
        }
        10 => vec!["HLEN".to_owned(), key],
        11 => vec!["HEXISTS".to_owned(), key, field(draw)],
        12..14 => [vec!["HDEL".to_owned(), key], fields(draw)].concat(),
        14 | 15 => {
            // A field of its own most of the time, so that it is an integer.
            let field = if draw.one_in(3) {
                field(draw)
            } else {
                "count".to_owned()
            };
            vec!["HINCRBY".to_owned(), key, field, draw.of(NUMBERS).to_owned()]
        }
        16 => vec!["HSTRLEN".to_owned(), key, field(draw)],
        26 | 27 => {
            let field = if draw.one_in(3) {
                field(draw)
            } else {
                "float".to_owned()
            };
            vec!["HINCRBYFLOAT".to_owned(), key, field, draw.of(FLOATS).to_owned()]
        }
        17 | 18 => {
            check = Check::By(random_fields);
            let mut command = vec!["HRANDFIELD".to_owned(), key];
            if !draw.one_in(4) {
                command.push(draw.of(COUNTS).to_owned());
                if draw.one_in(2) {
                    command.push(
                        draw.of(&["WITHVALUES", "withvalues", "WITHVALUES", "nothing"])
                            .to_owned(),
                    );
                }
            }
            command
        }
        19..21 => {
            check = Check::Scan(2);
            let cursor = draw.of(&["0", "0", "0", "0", "", "+0", "17", "-1", "x", "18446744073709551616"]);
            let mut command = vec!["HSCAN".to_owned(), key, cursor.to_owned()];
            if draw.one_in(2) {
                let pattern = draw.of(&["f*", "*1*", "field:[0-4]?", "*", "nothing", ""]);
                command.extend(["MATCH".to_owned(), pattern.to_owned()]);
            }
            if draw.one_in(2) {
                let count = draw.of(&["40", "100", "300", "5000", "0", "-1", "x"]);
                command.extend([draw.of(&["COUNT", "count"]).to_owned(), count.to_owned()]);
            }
            command
        }
        21 => vec!["OBJECT".to_owned(), "ENCODING".to_owned(), key],
        22 => vec!["TYPE".to_owned(), key],
        23 => vec!["EXISTS".to_owned(), key],
        24 => vec!["DEL".to_owned(), draw.of(&["h", "i", "large"]).to_owned()],
        _ => vec!["SET".to_owned(), "text".to_owned(), "a string".to_owned()],
    };
    if !matches!(check, Check::Scan(_) | Check::By(_)) || command.len() > 4 {
        if draw.one_in(60) {
            command.push("more".to_owned());
        } else if draw.one_in(60) {
            command.pop();
        }
    }
    Trial::new(command).checked(check)
}

/// Both answer as many fields, those of the node exist, with their values, and none comes twice unless it may.
fn random_fields(servers: &mut Servers<'_>, args: &[Vec<u8>]) -> Result<Value, String> {
    let expected = servers.reference.command(args);
    let answered = servers.tested.command(args);
    let wrong = || format!("answered {answered:?}\n  where redis-server answers {expected:?}");
    let (Value::Array(items), Value::Array(wanted)) = (&answered, &expected) else {
        let is_alike = match (&answered, &expected) {
            (Value::Bulk(field), Value::Bulk(_)) => {
                servers.reference.command(&[b"HEXISTS", &args[1][..], field]).int() == 1
            }
            _ => answered == expected,
        };
        return if is_alike { Ok(answered) } else { Err(wrong()) };
    };
    if items.len() != wanted.len() || items.is_empty() {
        return if items.len() == wanted.len() {
            Ok(answered)
        } else {
            Err(wrong())
        };
    }
    let with_values = args.len() == 4;
    let pairs: Vec<(Value, Option<Value>)> = match (with_values, &items[0]) {
        (false, _) => items.iter().map(|field| (field.clone(), None)).collect(),
        (true, Value::Array(_)) => items
            .iter()
            .map(|pair| (pair.items()[0].clone(), Some(pair.items()[1].clone())))
            .collect(),
        (true, _) => items
            .chunks(2)
            .map(|pair| (pair[0].clone(), Some(pair[1].clone())))
            .collect(),
    };
    if with_values && matches!(wanted[0], Value::Array(_)) != matches!(items[0], Value::Array(_)) {
        return Err(wrong());
    }
    let mut ask = vec![b"HMGET".to_vec(), args[1].clone()];
    ask.extend(pairs.iter().map(|(field, _)| field.text().as_bytes().to_vec()));
    let values = servers.reference.command(&ask);
    let mut names: Vec<&[u8]> = ask[2..].iter().map(Vec::as_slice).collect();
    for ((field, value), kept) in pairs.iter().zip(values.items()) {
        if kept.is_null() || value.as_ref().is_some_and(|value| value != kept) {
            return Err(format!("answered {field:?} with {value:?}, which is {kept:?}"));
        }
    }
    names.sort_unstable();
    if !args[2].starts_with(b"-") && names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("a field came twice: {answered:?}"));
    }
    Ok(answered)
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("DEL", &[]),
    ("EXISTS", &[]),
    ("HDEL", &[]),
    ("HEXISTS", &[]),
    ("HGET", &[]),
    ("HGETALL", &[]),
    ("HINCRBY", &[]),
    ("HINCRBYFLOAT", &[]),
    ("HKEYS", &[]),
    ("HLEN", &[]),
    ("HMGET", &[]),
    ("HMSET", &[]),
    ("HRANDFIELD", &["WITHVALUES"]),
    ("HSCAN", &["MATCH", "COUNT"]),
    ("HSET", &[]),
    ("HSETNX", &[]),
    ("HSTRLEN", &[]),
    ("HVALS", &[]),
    ("OBJECT", &["ENCODING"]),
    ("SET", &[]),
    ("TYPE", &[]),
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
        differential.run(&mut reference, &mut tested, 1, 8_000);
        reference.hello3();
        tested.hello3();
        differential.run(&mut reference, &mut tested, 2, 8_000);
    }
    differential.finish();
}

#[test]
fn picks_and_patterns_have_bounds_that_are_counted() {
    let node = Node::start(&[
        "--workers",
        "2",
        "--set",
        "limits.random_picks=100",
        "--set",
        "limits.pattern_bytes=16",
    ]);
    let mut client = node.client();
    for key in ["a", "b", "c"] {
        client.line(&format!("HSET {key} f v"));
        assert_eq!(client.line(&format!("HRANDFIELD {key} -100")).items().len(), 100);
        let refused = client.line(&format!("HRANDFIELD {key} -101"));
        assert_eq!(refused.error(), "ERR too many random elements, at most 100");
        for ask in [format!("HSCAN {key} 0"), "SCAN 0".to_owned()] {
            let refused = client.line(&format!("{ask} MATCH 12345678901234567"));
            assert_eq!(refused.error(), "ERR pattern is longer than 16 bytes");
        }
    }
    let hits = |limit: &str| node.metric(&format!("tollgate_limit_hit_total{{limit=\"{limit}\"}}"));
    let started = std::time::Instant::now();
    while (hits("random_picks"), hits("pattern_bytes")) != (Some(3.0), Some(6.0)) {
        let now = (hits("random_picks"), hits("pattern_bytes"));
        assert!(started.elapsed().as_secs() < 20, "{now:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
