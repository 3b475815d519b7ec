//! Sorted sets, beside a stock redis-server: the same commands, the same answers, in both protocols.
//!
//! Redis 7.0 writes scores with 17 digits where 7.2 has the shortest text, so they are compared as numbers; how they are written, and
//! what else 7.2 changed, is tested from written lists in `crates/commands`.

use std::collections::BTreeMap;
use tollgate_suite::{Check, Client, Differential, Draw, Node, RedisServer, Servers, Trial, Value, skip_without};

/// Some mostly hold large sets.
const KEYS: &[&str] = &["{z}a", "{z}b", "{z}c", "{z}large", "{z}large2", "{z}none"];
/// Those whose members all have the score 0: others have no lexicographical ranges.
const LEX_KEYS: &[&str] = &["{z}lex", "{z}lex2", "{z}lex3"];
/// Members that a command on a large set adds at once.
const LARGE_MEMBERS: usize = 900;

const SCORES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "10",
    "1.5",
    "-2.25",
    "3.14",
    "1e3",
    "1727314860123456",
    "1727314860123457",
    "1727314860123456789",
    "9223372036854775807",
    "1e17",
    "1e300",
    "4.9e-324",
    "+inf",
    "-inf",
    "inf",
    "Infinity",
    "0x10",
    ".5",
    "+7",
];
const BAD_SCORES: &[&str] = &["nan", "abc", "", " 1", "1 ", "1e400", "1e-400", "0x", "--1", "nx1"];
const BOUNDS: &[&str] = &[
    "(1",
    "(1727314860123456",
    "(-inf",
    "(+inf",
    "(1.5",
    "-inf",
    "+inf",
    "+inf",
    "-inf",
    "0",
    "100",
    "(899",
    "450.5",
    "",
    "(",
    " 5",
    "1e999",
];
const BAD_BOUNDS: &[&str] = &["((1", "nan", "(nan", "a", " ", "1a", "[1"];
const LEX_BOUNDS: &[&str] = &[
    "-",
    "+",
    "-",
    "+",
    "[m1",
    "(m1",
    "[m3",
    "(m5",
    "[member:5",
    "(member:3",
    "[",
    "(",
    "[z",
    "(0",
];
const BAD_LEX_BOUNDS: &[&str] = &["", "a", "1", "--", "+a", "m1"];
const INDEXES: &[&str] = &[
    "0",
    "0",
    "-1",
    "-1",
    "1",
    "2",
    "5",
    "-3",
    "100",
    "600",
    "-200",
    "9223372036854775807",
    "-9223372036854775808",
];
const COUNTS: &[&str] = &["0", "1", "2", "3", "20", "600", "9223372036854775807"];

fn key(draw: &mut Draw) -> String {
    // The string is met seldom, as a command over many keys would mostly fail.
    match draw.below(24) {
        0 => "{z}text".to_owned(),
        1 => draw.of(LEX_KEYS).to_owned(),
        _ => draw.of(KEYS).to_owned(),
    }
}

fn lex_key(draw: &mut Draw) -> String {
    match draw.below(24) {
        0 => "{z}text".to_owned(),
        _ => draw.of(LEX_KEYS).to_owned(),
    }
}

fn member(draw: &mut Draw) -> String {
    match draw.below(40) {
        0 => String::new(),
        1 => "m".repeat(65),
        2 => "m".repeat(64),
        3..8 => draw.below(20).to_string(),
        8..14 => format!("member:{}", draw.below(LARGE_MEMBERS)),
        14 => "1727314860123456".to_owned(),
        _ => format!("m{}", draw.below(12)),
    }
}

/// One of them, or seldom one of the others, which are refused.
fn mostly(draw: &mut Draw, good: &[&'static str], bad: &[&'static str]) -> String {
    let words = if draw.one_in(40) { bad } else { good };
    draw.of(words).to_owned()
}

fn score(draw: &mut Draw, key: &str) -> String {
    if LEX_KEYS.contains(&key) {
        return "0".to_owned();
    }
    mostly(draw, SCORES, BAD_SCORES)
}

fn bound(draw: &mut Draw) -> String {
    let bounds = if draw.one_in(2) { SCORES } else { BOUNDS };
    mostly(draw, bounds, BAD_BOUNDS)
}

fn lex_bound(draw: &mut Draw) -> String {
    mostly(draw, LEX_BOUNDS, BAD_LEX_BOUNDS)
}

fn index(draw: &mut Draw) -> String {
    mostly(draw, INDEXES, &["x", "", "1.0"])
}

fn count(draw: &mut Draw) -> String {
    mostly(draw, COUNTS, &["-1", "x"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn add(draw: &mut Draw) -> Vec<String> {
    let key = if draw.one_in(6) { lex_key(draw) } else { key(draw) };
    let mut command = words(&["ZADD", &key]);
    if (key.contains("large") && draw.one_in(3)) || (key == "{z}lex2" && draw.one_in(4)) {
        let first = draw.below(200);
        for number in first..first + LARGE_MEMBERS {
            let score = if key.contains("lex") { 0 } else { number };
            command.extend([score.to_string(), format!("member:{number}")]);
        }
        return command;
    }
    let mut pairs = 1 + draw.below(6);
    if draw.one_in(2) {
        for _ in 0..1 + draw.below(3) {
            command.push(draw.of(&["NX", "XX", "GT", "LT", "CH", "ch", "gt"]).to_owned());
        }
        if draw.one_in(3) {
            command.push("INCR".to_owned());
            if !draw.one_in(8) {
                pairs = 1;
            }
        }
    }
    for _ in 0..pairs {
        command.extend([score(draw, &key), member(draw)]);
    }
    command
}

fn limit(draw: &mut Draw, command: &mut Vec<String>) {
    if draw.one_in(2) {
        let offset = mostly(draw, &["0", "0", "1", "2", "5", "-1", "1000"], &["x"]);
        let count = mostly(draw, &["0", "1", "2", "10", "-1", "-5", "700"], &["x"]);
        command.extend(["LIMIT".to_owned(), offset, count]);
    }
}

/// ZRANGE and its older forms, ZRANGESTORE.
fn range(draw: &mut Draw) -> Vec<String> {
    let mut command = match draw.below(8) {
        0 => {
            let mut command = vec!["ZREVRANGE".to_owned(), key(draw), index(draw), index(draw)];
            if draw.one_in(2) {
                command.push("WITHSCORES".to_owned());
            }
            command
        }
        which @ 1..3 => {
            let name = ["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"][which - 1];
            let mut command = vec![name.to_owned(), key(draw), bound(draw), bound(draw)];
            limit(draw, &mut command);
            if draw.one_in(2) {
                command.push("withscores".to_owned());
            }
            command
        }
        which @ 3..5 => {
            let name = ["ZRANGEBYLEX", "ZREVRANGEBYLEX"][which - 3];
            let mut command = vec![name.to_owned(), lex_key(draw), lex_bound(draw), lex_bound(draw)];
            limit(draw, &mut command);
            command
        }
        which => {
            let mut command = words(&["ZRANGE"]);
            if which == 7 {
                command = words(&["ZRANGESTORE", draw.of(KEYS)]);
            }
            let by = draw.below(3);
            command.push(if by == 2 { lex_key(draw) } else { key(draw) });
            for _ in 0..2 {
                command.push(match by {
                    0 => index(draw),
                    1 => bound(draw),
                    _ => lex_bound(draw),
                });
            }
            match by {
                1 => command.push("BYSCORE".to_owned()),
                2 => command.push("BYLEX".to_owned()),
                _ => {}
            }
            if draw.one_in(2) {
                command.push("REV".to_owned());
            }
            if by > 0 || draw.one_in(10) {
                limit(draw, &mut command);
            }
            if (which != 7 && by < 2 && draw.one_in(2)) || draw.one_in(30) {
                command.push("WITHSCORES".to_owned());
            }
            command
        }
    };
    if draw.one_in(60) {
        command.push(draw.of(&["REV", "BYSCORE", "nothing", "LIMIT"]).to_owned());
    }
    command
}

/// ZUNION, ZINTER, ZDIFF, ZINTERCARD and their storing forms.
fn combine(draw: &mut Draw) -> Vec<String> {
    let name = draw.of(&[
        "ZUNION",
        "ZINTER",
        "ZDIFF",
        "ZINTERCARD",
        "ZUNIONSTORE",
        "ZINTERSTORE",
        "ZDIFFSTORE",
    ]);
    let stores = name.ends_with("STORE");
    let mut command = words(&[name]);
    if stores {
        command.push(draw.of(KEYS).to_owned());
    }
    let inputs = draw.of(&[1, 2, 2, 2, 3, 3, 6]);
    command.push(match draw.below(40) {
        0 => draw.of(&["0", "-1", "x", "99", "9223372036854775807"]).to_owned(),
        _ => inputs.to_string(),
    });
    for _ in 0..inputs {
        command.push(match draw.below(6) {
            0 => draw.of(&["{z}set", "{z}ints"]).to_owned(),
            _ => key(draw),
        });
    }
    let weighs = name.contains("UNION") || (name.contains("INTER") && name != "ZINTERCARD");
    if weighs && draw.one_in(2) {
        command.push("WEIGHTS".to_owned());
        for _ in 0..inputs {
            command.push(mostly(
                draw,
                &["1", "2", "-1", "0", "0.5", "inf", "-inf"],
                &["x", "nan"],
            ));
        }
    }
    if weighs && draw.one_in(2) {
        let aggregate = mostly(draw, &["SUM", "MIN", "MAX", "max"], &["AVG"]);
        command.extend(["AGGREGATE".to_owned(), aggregate]);
    }
    if name == "ZINTERCARD" && draw.one_in(2) {
        command.extend(["LIMIT".to_owned(), mostly(draw, COUNTS, &["-1", "x"])]);
    }
    if (!stores && name != "ZINTERCARD" && draw.one_in(2)) || draw.one_in(60) {
        command.push("WITHSCORES".to_owned());
    }
    command
}

fn trial(draw: &mut Draw) -> Trial {
    let one = key(draw);
    let mut check = Check::Alike(alike);
    let mut command = match draw.below(48) {
        0..8 => add(draw),
        8..15 => range(draw),
        15..21 => combine(draw),
        21 => {
            let members: Vec<String> = (0..1 + draw.below(6)).map(|_| member(draw)).collect();
            [words(&["ZREM", &one]), members].concat()
        }
        22 => vec!["ZSCORE".to_owned(), one, member(draw)],
        23 => {
            let members: Vec<String> = (0..1 + draw.below(6)).map(|_| member(draw)).collect();
            [words(&["ZMSCORE", &one]), members].concat()
        }
        24 | 25 => vec!["ZINCRBY".to_owned(), one.clone(), score(draw, &one), member(draw)],
        26 => words(&["ZCARD", &one]),
        27 | 28 => vec!["ZCOUNT".to_owned(), one, bound(draw), bound(draw)],
        29 => vec!["ZLEXCOUNT".to_owned(), lex_key(draw), lex_bound(draw), lex_bound(draw)],
        30 | 31 => {
            let name = draw.of(&["ZRANK", "ZREVRANK"]);
            // 7.2 takes WITHSCORE here, so more or fewer arguments are other errors.
            return Trial::new([name.to_owned(), one, member(draw)]);
        }
        32 => vec!["ZREMRANGEBYRANK".to_owned(), one, index(draw), index(draw)],
        33 => vec!["ZREMRANGEBYSCORE".to_owned(), one, bound(draw), bound(draw)],
        34 => vec![
            "ZREMRANGEBYLEX".to_owned(),
            lex_key(draw),
            lex_bound(draw),
            lex_bound(draw),
        ],
        35 | 36 => {
            let mut command = words(&[draw.of(&["ZPOPMIN", "ZPOPMAX"]), &one]);
            if draw.one_in(2) {
                command.push(count(draw));
            }
            command
        }
        37 => {
            let keys: Vec<String> = (0..draw.of(&[1, 2, 3])).map(|_| key(draw)).collect();
            let number = mostly(draw, &["", ""], &["0", "-1", "x", "7"]);
            let number = if number.is_empty() {
                keys.len().to_string()
            } else {
                number
            };
            let mut command = [words(&["ZMPOP", &number]), keys].concat();
            command.push(mostly(draw, &["MIN", "MAX", "max"], &["MID"]));
            if draw.one_in(2) {
                command.extend([
                    "COUNT".to_owned(),
                    mostly(draw, &["1", "2", "600", "5"], &["0", "-1", "x"]),
                ]);
            }
            command
        }
        38..40 => {
            check = Check::By(random_members);
            let mut command = words(&["ZRANDMEMBER", &one]);
            if draw.one_in(2) {
                let counts: &[&str] = &["0", "1", "2", "20", "700", "-1", "-5", "-700", "5000"];
                let bad: &[&str] = &["x", "-9223372036854775808"];
                let counts = if draw.one_in(30) { bad } else { counts };
                command.push(draw.of(counts).to_owned());
                if draw.one_in(2) {
                    command.push(mostly(draw, &["WITHSCORES"], &["nothing"]));
                }
            }
            return Trial::new(command).checked(check);
        }
        40 | 41 => {
            check = Check::By(scan);
            let cursor = draw.of(&["0", "0", "0", "0", "0", "17", "x"]);
            let mut command = words(&["ZSCAN", &one, cursor]);
            if draw.one_in(2) {
                let pattern = draw.of(&["m*", "*1*", "member:[0-4]?", "*", "nothing", ""]);
                command.extend(words(&["MATCH", pattern]));
            }
            if draw.one_in(2) {
                command.extend(words(&["COUNT", draw.of(&["1", "10", "100", "5000", "0", "x"])]));
            }
            return Trial::new(command).checked(check);
        }
        42 => words(&["OBJECT", "ENCODING", &one]),
        43 => words(&["TYPE", &one]),
        44 => words(&["DEL", draw.of(KEYS), draw.of(LEX_KEYS)]),
        45 => [words(&["SADD", "{z}set"]), (0..3).map(|_| member(draw)).collect()].concat(),
        46 => words(&["SADD", "{z}ints", "1", "2", "3", "1727314860123456"]),
        _ => words(&["SET", "{z}text", "a string"]),
    };
    if draw.one_in(80) {
        command.push("more".to_owned());
    } else if draw.one_in(80) {
        command.pop();
    }
    Trial::new(command).checked(check)
}

/// The number that a score is.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        Value::Double(text) => text.parse().ok(),
        _ => None,
    }
}

/// The same, but for how scores are written.
fn alike(answered: &Value, expected: &Value) -> bool {
    match (answered, expected) {
        (Value::Array(answered), Value::Array(expected)) => {
            answered.len() == expected.len() && answered.iter().zip(expected).all(|(a, b)| alike(a, b))
        }
        (Value::Bulk(_), Value::Bulk(_)) | (Value::Double(_), Value::Double(_)) => {
            answered == expected || number(answered).is_some_and(|answered| number(expected) == Some(answered))
        }
        _ => answered == expected,
    }
}

fn difference(answered: &Value, expected: &Value) -> String {
    let short = |value: &Value| -> String { format!("{value:?}").chars().take(2000).collect() };
    format!(
        "answered {}\n  where redis-server answers {}",
        short(answered),
        short(expected)
    )
}

/// All members that a scan shows from its start, with their scores.
fn scan_all(client: &mut Client, args: &[Vec<u8>], mut answer: Value) -> Result<BTreeMap<Vec<u8>, String>, String> {
    const CALLS_MAX: usize = 10_000;
    let mut shown = BTreeMap::new();
    for _ in 0..CALLS_MAX {
        let cursor = answer.items()[0].text().to_owned();
        for pair in answer.items()[1].items().chunks(2) {
            let score = number(&pair[1]).ok_or_else(|| format!("no score: {pair:?}"))?;
            shown.insert(pair[0].text().as_bytes().to_vec(), score.to_string());
        }
        if cursor == "0" {
            return Ok(shown);
        }
        let mut next = args.to_vec();
        next[2] = cursor.into_bytes();
        answer = client.command(&next);
    }
    Err("the scan does not come to an end".to_owned())
}

/// From cursor 0 all steps together show the same; of another, only whether it is an error is compared.
fn scan(servers: &mut Servers<'_>, args: &[Vec<u8>]) -> Result<Value, String> {
    let expected = servers.reference.command(args);
    let answered = servers.tested.command(args);
    if answered.is_error() || expected.is_error() {
        return match answered == expected {
            true => Ok(answered),
            false => Err(difference(&answered, &expected)),
        };
    }
    if args[2] == b"0" {
        let wanted = scan_all(servers.reference, args, expected)?;
        let shown = scan_all(servers.tested, args, answered.clone())?;
        if shown != wanted {
            return Err(format!(
                "the scan shows {shown:?}\n  where redis-server shows {wanted:?}"
            ));
        }
    }
    Ok(answered)
}

/// Members with their scores, whichever way they are answered.
fn pairs(answer: &Value, with_scores: bool) -> Vec<(Vec<u8>, Option<f64>)> {
    let member = |value: &Value| value.text().as_bytes().to_vec();
    match answer {
        Value::Array(items) if !with_scores => items.iter().map(|item| (member(item), None)).collect(),
        Value::Array(items) if matches!(items.first(), Some(Value::Array(_))) => {
            let pair = |item: &Value| (member(&item.items()[0]), number(&item.items()[1]));
            items.iter().map(pair).collect()
        }
        Value::Array(items) => items
            .chunks(2)
            .map(|pair| (member(&pair[0]), number(&pair[1])))
            .collect(),
        Value::Bulk(_) => vec![(member(answer), None)],
        _ => Vec::new(),
    }
}

/// As many as redis-server answers, each a member with its score, and none twice unless it may.
fn random_members(servers: &mut Servers<'_>, args: &[Vec<u8>]) -> Result<Value, String> {
    let expected = servers.reference.command(args);
    let answered = servers.tested.command(args);
    let with_scores = args.len() > 3;
    let same_kind = std::mem::discriminant(&answered) == std::mem::discriminant(&expected);
    let members = pairs(&answered, with_scores);
    if !same_kind
        || members.len() != pairs(&expected, with_scores).len()
        || (members.is_empty() && answered != expected)
    {
        return Err(difference(&answered, &expected));
    }
    if members.is_empty() {
        return Ok(answered);
    }
    let names = members.iter().map(|(name, _)| name.as_slice());
    let ask: Vec<&[u8]> = [&b"ZMSCORE"[..], &args[1]].into_iter().chain(names).collect();
    let scores = servers.reference.command(&ask);
    for ((name, score), known) in members.iter().zip(scores.items()) {
        let known = number(known).ok_or_else(|| format!("{} is no member", name.escape_ascii()))?;
        if score.is_some_and(|score| score != known) {
            return Err(format!("{} has the score {known}, not {score:?}", name.escape_ascii()));
        }
    }
    let mut sorted: Vec<_> = members.iter().map(|(name, _)| name).collect();
    sorted.sort_unstable();
    let distinct = !args.get(2).is_some_and(|count| count.starts_with(b"-"));
    if distinct && sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("a member came twice: {answered:?}"));
    }
    Ok(answered)
}

/// A trial on keys of one hash tag, which are in one shard, or on the same without the tag, which may be in several.
fn near_or_far(draw: &mut Draw) -> Trial {
    let mut trial = trial(draw);
    if draw.one_in(2) {
        for arg in &mut trial.args {
            if arg.starts_with(b"{z}") {
                arg.drain(..3);
            }
        }
    }
    trial
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("DEL", &[]),
    ("OBJECT", &["ENCODING"]),
    ("SADD", &[]),
    ("SET", &[]),
    ("TYPE", &[]),
    ("ZADD", &["NX", "XX", "GT", "LT", "CH", "INCR"]),
    ("ZCARD", &[]),
    ("ZCOUNT", &[]),
    ("ZDIFF", &["WITHSCORES"]),
    ("ZDIFFSTORE", &[]),
    ("ZINCRBY", &[]),
    ("ZINTER", &["WEIGHTS", "AGGREGATE", "WITHSCORES"]),
    ("ZINTERCARD", &["LIMIT"]),
    ("ZINTERSTORE", &["WEIGHTS", "AGGREGATE"]),
    ("ZLEXCOUNT", &[]),
    ("ZMPOP", &["MIN", "MAX", "COUNT"]),
    ("ZMSCORE", &[]),
    ("ZPOPMAX", &[]),
    ("ZPOPMIN", &[]),
    ("ZRANDMEMBER", &["WITHSCORES"]),
    ("ZRANGE", &["BYSCORE", "BYLEX", "REV", "LIMIT", "WITHSCORES"]),
    ("ZRANGEBYLEX", &["LIMIT"]),
    ("ZRANGEBYSCORE", &["LIMIT", "WITHSCORES"]),
    ("ZRANGESTORE", &["BYSCORE", "BYLEX", "REV", "LIMIT"]),
    ("ZRANK", &[]),
    ("ZREM", &[]),
    ("ZREMRANGEBYLEX", &[]),
    ("ZREMRANGEBYRANK", &[]),
    ("ZREMRANGEBYSCORE", &[]),
    ("ZREVRANGE", &["WITHSCORES"]),
    ("ZREVRANGEBYLEX", &["LIMIT"]),
    ("ZREVRANGEBYSCORE", &["LIMIT", "WITHSCORES"]),
    ("ZREVRANK", &[]),
    ("ZSCAN", &["MATCH", "COUNT"]),
    ("ZSCORE", &[]),
    ("ZUNION", &["WEIGHTS", "AGGREGATE", "WITHSCORES"]),
    ("ZUNIONSTORE", &["WEIGHTS", "AGGREGATE"]),
];

#[test]
fn random_commands_are_answered_as_by_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let mut differential = Differential::new(COMMANDS, near_or_far);
    for workers in ["1", "3"] {
        let redis = RedisServer::start(&[]);
        let node = Node::start(&["--workers", workers]);
        let (mut reference, mut tested) = (redis.client(), node.client());
        differential.run(&mut reference, &mut tested, 1, 12_000);
        reference.hello3();
        tested.hello3();
        differential.run(&mut reference, &mut tested, 2, 12_000);
    }
    differential.finish();
}
