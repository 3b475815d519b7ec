//! Strings as bits, beside a stock redis-server: the same commands, the same answers, in both protocols.

use tollgate_suite::{Client, Differential, Draw, Node, RedisServer, Trial, skip_without};

/// Of one shard and of several.
const KEYS: &[&str] = &["a", "b", "{a}c", "d"];
/// Kept large enough that commands on them go in steps.
const LARGE_KEYS: &[&str] = &["large1", "large2", "large3"];
const INDEXES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "-2",
    "3",
    "5",
    "7",
    "8",
    "-9",
    "15",
    "16",
    "-17",
    "40",
    "100",
    "-100",
    "300000",
    "-300000",
    "2000000",
    "9223372036854775807",
    "-9223372036854775808",
];
const BAD: &[&str] = &["a", "", "1.5", "9223372036854775808", "+1", " 1"];
const OFFSETS: &[&str] = &[
    "0", "1", "6", "7", "8", "9", "15", "23", "31", "63", "64", "100", "511", "1000", "9000",
];
/// What SETBIT and BITFIELD do not take: beyond 512 MiB, negative, or no integer.
const BAD_OFFSETS: &[&str] = &["-1", "4294967296", "a", "", "#", "9223372036854775807"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-7",
    "100",
    "-128",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "-70000",
    "2147483648",
    "4611686018427387904",
    "9223372036854775807",
    "-9223372036854775808",
];
const TYPES: &[&str] = &[
    "u1", "i1", "u2", "i3", "u4", "u7", "i8", "u8", "i16", "u16", "i31", "u32", "i33", "u63", "i64",
];
const BAD_TYPES: &[&str] = &["u64", "i65", "u0", "i", "", "x8", "U8", "i-1", "u01"];

fn key(draw: &mut Draw) -> &'static str {
    if draw.one_in(6) {
        draw.of(LARGE_KEYS)
    } else {
        draw.of(KEYS)
    }
}

/// Mostly one of the good ones.
fn mostly(draw: &mut Draw, good: &[&'static str], bad: &[&'static str]) -> &'static str {
    if draw.one_in(30) { draw.of(bad) } else { draw.of(good) }
}

fn bytes(draw: &mut Draw, len: usize) -> Vec<u8> {
    // Long runs of equal bytes, so that BITPOS has something to look for.
    let kind = draw.below(4);
    let byte = |draw: &mut Draw| match kind {
        0 => 0,
        1 => 0xff,
        2 => draw.below(256) as u8,
        _ => [0, 0, 0, 0xff, 0x10][draw.below(5)],
    };
    // Drawing each byte of a large string would take longer than all commands on it.
    let block: Vec<u8> = (0..len.min(997)).map(|_| byte(draw)).collect();
    block.iter().copied().cycle().take(len).collect()
}

fn field_operations(draw: &mut Draw, only_reads: bool) -> Vec<String> {
    let mut args = Vec::new();
    for _ in 0..draw.of(&[1, 1, 2, 3, 5]) {
        let field = mostly(draw, TYPES, BAD_TYPES).to_owned();
        let offset = match draw.below(3) {
            0 => format!("#{}", draw.below(40)),
            _ => mostly(draw, OFFSETS, BAD_OFFSETS).to_owned(),
        };
        match if only_reads && !draw.one_in(40) {
            0
        } else {
            draw.below(4)
        } {
            0 => args.extend(["GET".into(), field, offset]),
            1 => args.extend(["set".into(), field, offset, mostly(draw, NUMBERS, BAD).into()]),
            _ => args.extend(["INCRBY".into(), field, offset, mostly(draw, NUMBERS, BAD).into()]),
        }
        if !only_reads && draw.one_in(2) {
            let overflow = mostly(draw, &["WRAP", "SAT", "FAIL", "fail"], &["nothing", ""]);
            args.splice(0..0, ["OVERFLOW".into(), overflow.into()]);
        }
    }
    args
}

fn trial(draw: &mut Draw) -> Trial {
    let key = key(draw);
    let is_large = LARGE_KEYS.contains(&key);
    let mut args: Vec<Vec<u8>> = vec![Vec::new(), key.into()];
    let push = |args: &mut Vec<Vec<u8>>, word: &str| args.push(word.into());
    let name = match draw.below(25) {
        0..3 => {
            let offset = match is_large && draw.one_in(3) {
                true => (draw.below(9_000_000)).to_string(),
                false => mostly(draw, OFFSETS, BAD_OFFSETS).to_owned(),
            };
            push(&mut args, &offset);
            push(&mut args, mostly(draw, &["0", "1"], &["2", "a", "-1", ""]));
            "SETBIT"
        }
        3..5 => {
            push(&mut args, mostly(draw, OFFSETS, BAD_OFFSETS));
            "GETBIT"
        }
        5..8 => {
            if !draw.one_in(4) {
                push(&mut args, mostly(draw, INDEXES, BAD));
                if !draw.one_in(20) {
                    push(&mut args, mostly(draw, INDEXES, BAD));
                }
                if draw.one_in(2) {
                    push(&mut args, mostly(draw, &["BYTE", "BIT", "bit"], &["BITS", ""]));
                }
            }
            "BITCOUNT"
        }
        8..11 => {
            push(&mut args, mostly(draw, &["0", "1"], &["2", "a", "-1"]));
            for _ in 0..draw.below(3) {
                push(&mut args, mostly(draw, INDEXES, BAD));
            }
            if args.len() == 5 && draw.one_in(2) {
                push(&mut args, mostly(draw, &["BYTE", "BIT", "byte"], &["x"]));
            }
            "BITPOS"
        }
        11..14 => {
            let operation = mostly(draw, &["AND", "OR", "XOR", "xor", "NOT"], &["NAND", ""]);
            args.insert(1, operation.into());
            let sources = if operation == "NOT" && !draw.one_in(10) {
                1
            } else {
                1 + draw.below(4)
            };
            for _ in 0..sources {
                let source = if is_large { draw.of(LARGE_KEYS) } else { self::key(draw) };
                push(&mut args, source);
            }
            "BITOP"
        }
        14..18 => {
            args.extend(field_operations(draw, false).into_iter().map(String::into_bytes));
            "BITFIELD"
        }
        18..20 => {
            args.extend(field_operations(draw, true).into_iter().map(String::into_bytes));
            "BITFIELD_RO"
        }
        20 => {
            let offset = draw.below(if is_large { 1_000_000 } else { 40 });
            args.push(match draw.one_in(30) {
                true => draw.of(&["-1", "a", "536870912"]).into(),
                false => offset.to_string().into(),
            });
            let len = draw.below(if is_large { 20_000 } else { 20 });
            args.push(bytes(draw, len));
            "SETRANGE"
        }
        21 => {
            let len = match is_large {
                true => draw.of(&[200_000, 300_000, 400_000]),
                false => draw.of(&[0, 1, 5, 16, 64, 700]),
            };
            args.push(if draw.one_in(4) {
                b"123456".to_vec()
            } else {
                bytes(draw, len)
            });
            "SET"
        }
        22 => draw.of(&["STRLEN", "STRLEN", "DEL"]),
        _ if is_large => {
            args.extend([b"-2000".to_vec(), b"-1".to_vec()]);
            "GETRANGE"
        }
        _ => draw.of(&["GET", "GET", "TYPE"]),
    };
    args[0] = name.into();
    if draw.one_in(100) {
        args.push(b"more".to_vec());
    }
    Trial::new(args)
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("BITCOUNT", &["BYTE", "BIT"]),
    ("BITFIELD", &["GET", "SET", "INCRBY", "WRAP", "SAT", "FAIL"]),
    ("BITFIELD_RO", &["GET"]),
    ("BITOP", &["AND", "OR", "XOR", "NOT"]),
    ("BITPOS", &["BYTE", "BIT"]),
    ("DEL", &[]),
    ("GET", &[]),
    ("GETBIT", &[]),
    ("GETRANGE", &[]),
    ("SET", &[]),
    ("SETBIT", &[]),
    ("SETRANGE", &[]),
    ("STRLEN", &[]),
    ("TYPE", &[]),
];

#[test]
fn random_commands_on_bits_are_answered_as_by_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let mut differential = Differential::new(COMMANDS, trial);
    for (workers, seed) in [("1", 1), ("3", 3)] {
        let redis = RedisServer::start(&[]);
        let node = Node::start(&["--workers", workers]);
        let (mut reference, mut tested) = (redis.client(), node.client());
        differential.run(&mut reference, &mut tested, seed, 7_500);
        reference.hello3();
        tested.hello3();
        differential.run(&mut reference, &mut tested, seed + 1, 7_500);
    }
    differential.finish();
}

#[test]
fn bits_of_a_bucket_are_of_the_wrong_type() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    client.line("RL.CHECK b LIMIT 5 PER 1m");
    for command in [
        "GETBIT b 0",
        "SETBIT b 0 1",
        "BITCOUNT b",
        "BITPOS b 1",
        "BITOP AND d x b",
        "BITFIELD b GET u8 0",
        "BITFIELD b SET u8 0 1",
        "BITFIELD_RO b GET u8 0",
        "SETRANGE b 0 x",
    ] {
        let error = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(client.line(command).error(), error, "{command}");
    }
    assert_eq!(client.line("RL.CHECK b LIMIT 5 PER 1m PEEK").items()[2].int(), 4);
    // The result of an operation takes the place of whatever was there.
    client.line("SET s x");
    assert_eq!(client.line("BITOP NOT b s").int(), 1);
    assert_eq!(client.line("TYPE b").text(), "string");
    client.line("RL.CHECK c LIMIT 5 PER 1m");
    assert_eq!(client.line("BITOP AND c nothing").int(), 0);
    assert_eq!(client.line("EXISTS c").int(), 0);
}

fn encoding(client: &mut Client, key: &str) -> String {
    client.command(&["OBJECT", "ENCODING", key]).text().to_owned()
}

#[test]
fn what_was_written_as_bits_is_kept_raw() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    for command in [
        "SETBIT k 3 1",
        "BITFIELD k SET u8 0 49",
        "BITOP OR k k",
        "SETRANGE k 0 9",
    ] {
        client.line("SET k 123");
        assert_eq!(encoding(&mut client, "k"), "int");
        client.line(command);
        assert_eq!(encoding(&mut client, "k"), "raw", "{command}");
    }
    client.line("SET k 123");
    client.command(&["SETRANGE", "k", "0", ""]);
    assert_eq!(encoding(&mut client, "k"), "int");
}

#[test]
fn offsets_are_bounded_by_the_longest_string() {
    let node = Node::start(&["--workers", "1", "--set", "limits.string_bytes=65536"]);
    let mut client = node.client();
    let offset = "ERR bit offset is not an integer or out of range";
    assert_eq!(client.line("SETBIT k 524287 1").int(), 0);
    assert_eq!(client.line("SETBIT k 524288 1").error(), offset);
    assert_eq!(client.line("BITFIELD k SET u8 524288 1").error(), offset);
    assert_eq!(client.line("SETRANGE k 65535 x").int(), 65_536);
    let too_long = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(client.line("SETRANGE k 65535 xy").error(), too_long);
    assert_eq!(client.line("SETRANGE k 9223372036854775807 xy").error(), too_long);
    assert_eq!(client.line("STRLEN k").int(), 65_536);
    let hits = || node.metric("tollgate_limit_hit_total{limit=\"string_bytes\"}");
    let started = std::time::Instant::now();
    while hits() != Some(4.0) {
        assert!(started.elapsed().as_secs() < 20, "{:?}", hits());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
