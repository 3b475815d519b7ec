//! Sets, beside a stock redis-server: the same commands, the same answers, in both protocols.
//!
//! Redis 7.0 keeps small sets of strings in a hashtable, where 7.2 has listpacks with an order: what that changes is tested from written
//! lists in `crates/commands`.

use tollgate_suite::{Check, Differential, Draw, Node, RedisServer, Servers, Trial, Value, skip_without};

/// Of several shards, where a node has some. Some mostly hold large sets, or sets of integers.
const KEYS: &[&str] = &["a", "b", "c", "ints", "ints2", "large", "large2", "none"];
const COUNTS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "20",
    "650",
    "2000",
    "x",
    "1.0",
    "9223372036854775807",
    "-9223372036854775808",
];
/// Members that a command on a large set adds at once.
const LARGE_MEMBERS: usize = 1300;

fn key(draw: &mut Draw) -> String {
    // The string is met seldom, as a command over many keys would mostly fail.
    match draw.below(24) {
        0 => "text".to_owned(),
        _ => draw.of(KEYS).to_owned(),
    }
}

fn member(draw: &mut Draw, key: &str) -> String {
    if key.contains("ints") && !draw.one_in(60) {
        return match draw.below(12) {
            0 => i64::MAX.to_string(),
            1 => i64::MIN.to_string(),
            _ => (draw.below(60) as i64 - 20).to_string(),
        };
    }
    match draw.below(40) {
        0 => String::new(),
        1 => "m".repeat(65),
        2 => "m".repeat(64),
        3 => "007".to_owned(),
        4..8 => draw.below(20).to_string(),
        8..14 => format!("member:{}", draw.below(LARGE_MEMBERS)),
        _ => format!("m{}", draw.below(12)),
    }
}

fn add(draw: &mut Draw, key: String) -> Vec<String> {
    let mut members = Vec::new();
    if key.contains("large") && draw.one_in(3) {
        let first = draw.below(300);
        members.extend((first..first + LARGE_MEMBERS).map(|number| format!("member:{number}")));
    } else if key.contains("ints2") && draw.one_in(8) {
        members.extend((0..LARGE_MEMBERS).map(|number| number.to_string()));
    }
    for _ in 0..1 + draw.below(8) {
        members.push(member(draw, &key));
    }
    [vec!["SADD".to_owned(), key], members].concat()
}

fn keys(draw: &mut Draw) -> Vec<String> {
    (0..draw.of(&[1, 1, 2, 2, 2, 3, 3, 5, 12])).map(|_| key(draw)).collect()
}

fn trial(draw: &mut Draw) -> Trial {
    let one = key(draw);
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    let mut check = Check::Same;
    let mut command = match draw.below(34) {
        0..6 => add(draw, one),
        6 | 7 => {
            let members: Vec<String> = (0..1 + draw.below(6)).map(|_| member(draw, &one)).collect();
            [words(&["SREM", &one]), members].concat()
        }
        8 => vec!["SISMEMBER".to_owned(), one.clone(), member(draw, &one)],
        9 => {
            let members: Vec<String> = (0..1 + draw.below(6)).map(|_| member(draw, &one)).collect();
            [words(&["SMISMEMBER", &one]), members].concat()
        }
        10 | 11 => {
            check = Check::AsKept(1);
            words(&["SMEMBERS", &one])
        }
        12 => words(&["SCARD", &one]),
        13 | 14 => {
            check = Check::By(pop);
            let mut command = words(&["SPOP", &one]);
            if draw.one_in(2) {
                command.push(draw.of(COUNTS).to_owned());
            }
            command
        }
        15 | 16 => {
            check = Check::By(random_members);
            let mut command = words(&["SRANDMEMBER", &one]);
            if draw.one_in(2) {
                command.push(draw.of(&[COUNTS, &["-1", "-5", "-2000"]].concat()).to_owned());
            }
            command
        }
        17 | 18 => {
            check = Check::Scan(1);
            let cursor = draw.of(&["0", "0", "0", "0", "", "+0", "17", "-1", "x"]);
            let mut command = words(&["SSCAN", &one, cursor]);
            if draw.one_in(2) {
                let pattern = draw.of(&["m*", "*1*", "member:[0-4]?", "*", "nothing", ""]);
                command.extend(words(&["MATCH", pattern]));
            }
            if draw.one_in(2) {
                command.extend(words(&["COUNT", draw.of(&["40", "100", "300", "5000", "0", "x"])]));
            }
            command
        }
        19 | 20 => {
            let member = member(draw, &one);
            vec!["SMOVE".to_owned(), one, key(draw), member]
        }
        21..24 => {
            check = Check::Unordered(1);
            [words(&[draw.of(&["SINTER", "SUNION", "SDIFF", "SDIFF"])]), keys(draw)].concat()
        }
        24..27 => {
            let name = draw.of(&["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE", "SDIFFSTORE"]);
            [words(&[name, &one]), keys(draw)].concat()
        }
        27 | 28 => {
            let keys = keys(draw);
            let count = match draw.below(12) {
                0 => draw.of(&["0", "-1", "x", "99"]).to_owned(),
                _ => keys.len().to_string(),
            };
            let mut command = [words(&["SINTERCARD", &count]), keys].concat();
            if draw.one_in(2) {
                command.extend(words(&["LIMIT", draw.of(&["0", "1", "2", "100", "5", "-1", "x"])]));
            }
            command
        }
        29 => {
            check = Check::Alike(encodings);
            words(&["OBJECT", "ENCODING", &one])
        }
        30 => words(&["TYPE", &one]),
        31 => words(&["EXISTS", &one]),
        32 => words(&["DEL", draw.of(KEYS)]),
        _ => words(&["SET", "text", "a string"]),
    };
    if matches!(check, Check::Same | Check::AsKept(_)) || command.len() > 4 {
        if draw.one_in(60) {
            command.push("more".to_owned());
        } else if draw.one_in(60) {
            command.pop();
        }
    }
    Trial::new(command).checked(check)
}

/// Redis 7.0 has no listpacks of sets.
fn encodings(answered: &Value, expected: &Value) -> bool {
    let is = |value: &Value, name: &str| matches!(value, Value::Bulk(text) if text == name.as_bytes());
    answered == expected || (is(answered, "listpack") && is(expected, "hashtable"))
}

/// What the reference says of the members that the node answers: each is one, and none comes twice unless it may.
fn check_members(servers: &mut Servers<'_>, key: &[u8], answered: &Value, distinct: bool) -> Result<(), String> {
    let members: Vec<&[u8]> = match answered {
        Value::Bulk(member) => vec![member],
        Value::Array(members) | Value::Set(members) => members.iter().map(|member| member.text().as_bytes()).collect(),
        _ => Vec::new(),
    };
    if members.is_empty() {
        return Ok(());
    }
    let ask = [&[b"SMISMEMBER", key], &members[..]].concat();
    let known = servers.reference.command(&ask);
    if let Some(at) = known.items().iter().position(|known| known.int() != 1) {
        return Err(format!("{} is no member", members[at].escape_ascii()));
    }
    let mut sorted = members.clone();
    sorted.sort_unstable();
    if distinct && sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("a member came twice: {answered:?}"));
    }
    Ok(())
}

/// The kind of an answer, and how many elements it has.
fn shape(answer: &Value) -> (&'static str, usize) {
    match answer {
        Value::Bulk(_) => ("bulk", 1),
        Value::Array(items) => ("array", items.len()),
        Value::Set(items) => ("set", items.len()),
        Value::Error(_) => ("error", 0),
        _ => ("null", 0),
    }
}

fn random_members(servers: &mut Servers<'_>, args: &[Vec<u8>]) -> Result<Value, String> {
    let expected = servers.reference.command(args);
    let answered = servers.tested.command(args);
    if shape(&answered) != shape(&expected) || (answered.is_error() && answered != expected) {
        return Err(format!(
            "answered {answered:?}\n  where redis-server answers {expected:?}"
        ));
    }
    let distinct = !args.last().is_some_and(|count| count.starts_with(b"-"));
    check_members(servers, &args[1], &answered, distinct)?;
    Ok(answered)
}

/// The reference loses the members that the node has taken, so that both hold the same again.
fn pop(servers: &mut Servers<'_>, args: &[Vec<u8>]) -> Result<Value, String> {
    let answered = servers.tested.command(args);
    let kind = shape(&answered);
    if kind.1 == 0 {
        // Nothing is taken, there or here.
        let expected = servers.reference.command(args);
        return match answered == expected {
            true => Ok(answered),
            false => Err(format!(
                "answered {answered:?}\n  where redis-server answers {expected:?}"
            )),
        };
    }
    check_members(servers, &args[1], &answered, true)?;
    let members = servers.reference.command(&[b"SCARD", &args[1][..]]).int() as usize;
    let count = args.get(2).map(|count| String::from_utf8_lossy(count).parse::<usize>());
    let expected = match count {
        None => 1,
        Some(count) => count.map_err(|_| "a count that is none".to_owned())?.min(members),
    };
    if kind.1 != expected {
        return Err(format!("answered {} members of {members}", kind.1));
    }
    let mut remove = vec![b"SREM".to_vec(), args[1].clone()];
    match &answered {
        Value::Bulk(member) => remove.push(member.clone()),
        members => remove.extend(members.items().iter().map(|member| member.text().as_bytes().to_vec())),
    }
    servers.reference.command(&remove);
    Ok(answered)
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("DEL", &[]),
    ("EXISTS", &[]),
    ("OBJECT", &["ENCODING"]),
    ("SADD", &[]),
    ("SCARD", &[]),
    ("SDIFF", &[]),
    ("SDIFFSTORE", &[]),
    ("SET", &[]),
    ("SINTER", &[]),
    ("SINTERCARD", &["LIMIT"]),
    ("SINTERSTORE", &[]),
    ("SISMEMBER", &[]),
    ("SMEMBERS", &[]),
    ("SMISMEMBER", &[]),
    ("SMOVE", &[]),
    ("SPOP", &[]),
    ("SRANDMEMBER", &[]),
    ("SREM", &[]),
    ("SSCAN", &["MATCH", "COUNT"]),
    ("SUNION", &[]),
    ("SUNIONSTORE", &[]),
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
