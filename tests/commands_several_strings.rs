//! MGET, MSET, MSETNX, LCS and SETRANGE beside a stock redis-server: the same commands, the same answers, in both protocols.

use tollgate_suite::{Differential, Draw, Node, RedisServer, Trial, skip_without};

/// Of one shard and of several.
const KEYS: &[&str] = &["a", "b", "{a}c", "d", "e", "{b}f"];
/// Its values are too long for LCS to be quick on them.
const LARGE: &str = "large";
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "100",
    "9223372036854775807",
    "a",
    "",
    "1.5",
];

/// Few different bytes, so that there is something in common.
fn text(draw: &mut Draw, most: usize) -> Vec<u8> {
    let len = draw.below(most + 1);
    (0..len).map(|_| draw.of(b"abc\0")).collect()
}

fn value(draw: &mut Draw) -> Vec<u8> {
    match draw.below(12) {
        0 => b"12345".to_vec(),
        1 => text(draw, 700),
        _ => text(draw, 20),
    }
}

fn trial(draw: &mut Draw) -> Trial {
    let mut args: Vec<Vec<u8>> = Vec::new();
    let key = |draw: &mut Draw| draw.of(KEYS).as_bytes().to_vec();
    match draw.below(20) {
        0..4 => {
            args.push(draw.of(&["MGET", "mget"]).into());
            // Beyond one step's worth of keys, too.
            let count = if draw.one_in(200) { 1_500 } else { draw.below(6) };
            args.extend((0..count).map(|_| key(draw)));
        }
        4..7 => {
            args.push("MSET".into());
            for _ in 0..if draw.one_in(200) {
                1_500
            } else {
                draw.of(&[0, 1, 1, 2, 3, 4])
            } {
                args.extend([key(draw), value(draw)]);
            }
        }
        7..9 => {
            args.push("MSETNX".into());
            for _ in 0..draw.of(&[1, 1, 1, 2, 3]) {
                args.extend([key(draw), value(draw)]);
            }
        }
        9..14 => {
            args.extend(["LCS".into(), key(draw), key(draw)]);
            let (mut idx, mut len) = (false, false);
            for _ in 0..draw.below(4) {
                match draw.below(8) {
                    0..3 if !len => {
                        idx = true;
                        args.push(draw.of(&["IDX", "idx"]).into());
                    }
                    0..4 if !idx || draw.one_in(8) => {
                        len = true;
                        args.push("LEN".into());
                    }
                    4..6 => args.push("WITHMATCHLEN".into()),
                    6 if draw.one_in(10) => args.push(draw.of(&["nothing", "MINMATCHLEN", ""]).into()),
                    _ => {
                        let number = if draw.one_in(10) {
                            draw.of(INTEGERS)
                        } else {
                            draw.of(&INTEGERS[..7])
                        };
                        args.extend(["MINMATCHLEN".into(), number.into()]);
                    }
                }
            }
        }
        14 => {
            let is_large = draw.one_in(4);
            let offset = match draw.one_in(20) {
                true => draw.of(INTEGERS).to_owned(),
                false => draw.below(if is_large { 2_000_000 } else { 40 }).to_string(),
            };
            let key = if is_large { LARGE.into() } else { key(draw) };
            args.extend(["SETRANGE".into(), key, offset.into_bytes(), text(draw, 12)]);
        }
        15 if draw.one_in(4) => args.extend(["APPEND".into(), LARGE.into(), text(draw, 300_000)]),
        15 => args.extend(["APPEND".into(), key(draw), value(draw)]),
        16 => args.extend(["DEL".into(), key(draw), key(draw)]),
        17 if draw.one_in(4) => args.extend(["GETRANGE".into(), LARGE.into(), "-300000".into(), "-1".into()]),
        17 if draw.one_in(40) => args.extend(["DEL".into(), LARGE.into()]),
        17 => args.extend(["STRLEN".into(), draw.of(&["a", "b", LARGE]).into()]),
        18 => args.extend(["OBJECT".into(), "ENCODING".into(), key(draw)]),
        _ => args.extend(["SET".into(), key(draw), value(draw)]),
    }
    if draw.one_in(60) {
        args.push(b"more".to_vec());
    }
    Trial::new(args)
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("APPEND", &[]),
    ("DEL", &[]),
    ("GETRANGE", &[]),
    ("LCS", &["IDX", "LEN", "MINMATCHLEN", "WITHMATCHLEN"]),
    ("MGET", &[]),
    ("MSET", &[]),
    ("MSETNX", &[]),
    ("OBJECT", &["ENCODING"]),
    ("SET", &[]),
    ("SETRANGE", &[]),
    ("STRLEN", &[]),
];

#[test]
fn random_commands_on_several_strings_are_answered_as_by_redis() {
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
fn a_bucket_among_several_keys() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    client.line("RL.CHECK b LIMIT 5 PER 1m");
    client.line("SET s abc");
    let values = client.line("MGET b s nothing");
    assert!(values.items()[0].is_null() && values.items()[2].is_null());
    assert_eq!(values.items()[1].text(), "abc");
    assert_eq!(client.line("MSETNX s2 x b y").int(), 0);
    assert_eq!(client.line("EXISTS s2").int(), 0);
    assert_eq!(client.line("RL.CHECK b LIMIT 5 PER 1m PEEK").items()[2].int(), 4);
    let no_string = "ERR The specified keys must contain string values";
    assert_eq!(client.line("LCS s b").error(), no_string);
    assert_eq!(client.line("LCS b s NOTHING").error(), no_string);
    // As SET does.
    assert_eq!(client.line("MSET s2 x b y").text(), "OK");
    assert_eq!(client.line("TYPE b").text(), "string");
}

#[test]
fn a_table_that_redis_would_not_allow_is_refused() {
    let node = Node::start(&["--workers", "1", "--set", "limits.string_bytes=65536"]);
    let mut client = node.client();
    // 128 × 128 cells of four bytes are just allowed.
    client.command(&[
        "MSET",
        "a",
        &"x".repeat(127),
        "b",
        &"x".repeat(127),
        "c",
        &"x".repeat(128),
    ]);
    assert_eq!(client.line("LCS a b LEN").int(), 127);
    let error = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    assert_eq!(client.line("LCS a c LEN").error(), error);
}
