//! Lists, beside a stock redis-server: the same commands, the same answers, in both protocols.
//!
//! Redis 7.0 keeps every list in a quicklist: encodings are tested from written lists in `crates/commands`.

use tollgate_suite::{Differential, Draw, Node, RedisServer, Trial, skip_without};

/// Some mostly hold large lists.
const KEYS: &[&str] = &["{l}a", "{l}b", "{l}c", "{l}large", "{l}large2", "{l}none"];
/// Elements that a command on a large list pushes at once.
const LARGE_ELEMENTS: usize = 1300;
const INDEXES: &[&str] = &[
    "0",
    "0",
    "1",
    "2",
    "-1",
    "-1",
    "-2",
    "5",
    "-7",
    "700",
    "-650",
    "9223372036854775807",
    "-9223372036854775808",
];

fn key(draw: &mut Draw) -> String {
    match draw.below(24) {
        0 => "{l}text".to_owned(),
        _ => draw.of(KEYS).to_owned(),
    }
}

fn element(draw: &mut Draw) -> String {
    match draw.below(30) {
        0 => String::new(),
        1 => "e".repeat(70),
        2 => "e".repeat(9000),
        3 => "1727314860123456".to_owned(),
        4..7 => draw.below(200).to_string(),
        _ => format!("e{}", draw.below(8)),
    }
}

/// One of them, or seldom one of the others, which are refused.
fn mostly(draw: &mut Draw, good: &[&'static str], bad: &[&'static str]) -> String {
    let words = if draw.one_in(40) { bad } else { good };
    draw.of(words).to_owned()
}

fn index(draw: &mut Draw) -> String {
    mostly(draw, INDEXES, &["x", "", "1.0"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn push(draw: &mut Draw) -> Vec<String> {
    let key = key(draw);
    let mut command = words(&[draw.of(&["LPUSH", "RPUSH", "LPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), &key]);
    if key.contains("large") && draw.one_in(4) {
        // Few different ones, so that searches find many.
        command.extend((0..LARGE_ELEMENTS).map(|number| format!("e{}", number * number % 23)));
    }
    for _ in 0..1 + draw.below(6) {
        command.push(element(draw));
    }
    command
}

fn position(draw: &mut Draw) -> Vec<String> {
    let mut command = vec!["LPOS".to_owned(), key(draw), element(draw)];
    if draw.one_in(2) {
        let rank = mostly(draw, &["1", "-1", "2", "-2", "5", "-40"], &["0", "x"]);
        command.extend(["RANK".to_owned(), rank]);
    }
    if draw.one_in(2) {
        let count = mostly(draw, &["0", "1", "2", "50"], &["-1", "x"]);
        command.extend(["COUNT".to_owned(), count]);
    }
    if draw.one_in(2) {
        let maxlen = mostly(draw, &["0", "1", "10", "600", "5000"], &["-1", "x"]);
        command.extend(["MAXLEN".to_owned(), maxlen]);
    }
    if draw.one_in(60) {
        command.push(draw.of(&["RANK", "nothing"]).to_owned());
    }
    command
}

fn trial(draw: &mut Draw) -> Trial {
    let one = key(draw);
    let ends = ["LEFT", "RIGHT", "left", "RIGHT"];
    let mut command = match draw.below(36) {
        0..9 => push(draw),
        9..12 => {
            let mut command = words(&[draw.of(&["LPOP", "RPOP"]), &one]);
            if draw.one_in(2) {
                command.push(mostly(draw, &["0", "1", "2", "5", "700"], &["-1", "x"]));
            }
            command
        }
        12 => words(&["LLEN", &one]),
        13..16 => vec!["LRANGE".to_owned(), one, index(draw), index(draw)],
        16 | 17 => vec!["LINDEX".to_owned(), one, index(draw)],
        18 | 19 => vec!["LSET".to_owned(), one, index(draw), element(draw)],
        20..22 => {
            let side = mostly(draw, &["BEFORE", "AFTER", "after"], &["BESIDE"]);
            vec!["LINSERT".to_owned(), one, side, element(draw), element(draw)]
        }
        22 | 23 => {
            let count = mostly(draw, &["0", "1", "-1", "2", "-3", "100"], &["x"]);
            vec!["LREM".to_owned(), one, count, element(draw)]
        }
        24 => vec!["LTRIM".to_owned(), one, index(draw), index(draw)],
        25..28 => position(draw),
        28..30 => {
            let (from, to) = (mostly(draw, &ends, &["UP"]), mostly(draw, &ends, &["DOWN"]));
            vec!["LMOVE".to_owned(), one, key(draw), from, to]
        }
        30 => vec!["RPOPLPUSH".to_owned(), one, key(draw)],
        31 | 32 => {
            let keys: Vec<String> = (0..draw.of(&[1, 2, 3])).map(|_| key(draw)).collect();
            let number = mostly(draw, &["", ""], &["0", "-1", "x", "7"]);
            let number = if number.is_empty() {
                keys.len().to_string()
            } else {
                number
            };
            let mut command = [words(&["LMPOP", &number]), keys].concat();
            command.push(mostly(draw, &ends, &["MIDDLE"]));
            if draw.one_in(2) {
                command.extend([
                    "COUNT".to_owned(),
                    mostly(draw, &["1", "2", "600", "5"], &["0", "-1", "x"]),
                ]);
            }
            command
        }
        33 => words(&["TYPE", &one]),
        34 => words(&["DEL", draw.of(KEYS)]),
        _ => words(&["SET", "{l}text", "a string"]),
    };
    if draw.one_in(80) {
        command.push("more".to_owned());
    } else if draw.one_in(80) {
        command.pop();
    }
    Trial::new(command)
}

/// A trial on keys of one hash tag, which are in one shard, or on the same without the tag, which may be in several.
fn near_or_far(draw: &mut Draw) -> Trial {
    let mut trial = trial(draw);
    if draw.one_in(2) {
        for arg in &mut trial.args {
            if arg.starts_with(b"{l}") {
                arg.drain(..3);
            }
        }
    }
    trial
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("DEL", &[]),
    ("LINDEX", &[]),
    ("LINSERT", &["BEFORE", "AFTER"]),
    ("LLEN", &[]),
    ("LMOVE", &["LEFT", "RIGHT"]),
    ("LMPOP", &["LEFT", "RIGHT", "COUNT"]),
    ("LPOP", &[]),
    ("LPOS", &["RANK", "COUNT", "MAXLEN"]),
    ("LPUSH", &[]),
    ("LPUSHX", &[]),
    ("LRANGE", &[]),
    ("LREM", &[]),
    ("LSET", &[]),
    ("LTRIM", &[]),
    ("RPOP", &[]),
    ("RPOPLPUSH", &[]),
    ("RPUSH", &[]),
    ("RPUSHX", &[]),
    ("SET", &[]),
    ("TYPE", &[]),
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
        differential.run(&mut reference, &mut tested, 1, 10_000);
        reference.hello3();
        tested.hello3();
        differential.run(&mut reference, &mut tested, 2, 10_000);
    }
    differential.finish();
}
