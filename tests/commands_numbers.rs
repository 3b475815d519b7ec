//! INCRBYFLOAT beside a stock redis-server: the arithmetic of its `long double`, digit for digit.

use tollgate_suite::{Differential, Draw, Node, RedisServer, Trial, skip_without};

const KEYS: &[&str] = &["a", "b", "c"];
/// What `strtold` reads in ways of its own, what it refuses, and what is at the ends of its range.
const ODD: &[&str] = &[
    "inf",
    "-Infinity",
    "+INF",
    "nan",
    "",
    ".",
    "-",
    "1e",
    "0x",
    "1.",
    ".5",
    "-.5e-3",
    "+7",
    " 1",
    "1 ",
    "0x1.8p3",
    "0X.8P-2",
    "0x1p-16445",
    "0x1p-16446",
    "0x1p16384",
    "0xffffffffffffffff",
    "0x1fffffffffffffffe8",
    "1e4932",
    "-1.18973149535723176502e+4932",
    "1e-4950",
    "1e-4952",
    "1e4933",
    "00012",
    "1_0",
    "0e99999",
    "-0",
    "1e99999999999999999999",
    "18446744073709551615",
    "9223372036854775807",
    "-9223372036854775808",
    "0.1",
    "0.2",
    "3.0e3",
    "5.0e-17",
    "1e17",
    "1e18",
    "1e19",
    "0.00000000000000000499999",
    "0.000000000000000005",
    "-0.000000000000000005",
    "36893488147419103233",
];

fn digits(draw: &mut Draw, most: usize) -> String {
    (0..draw.below(most + 1))
        .map(|_| (b'0' + draw.below(10) as u8) as char)
        .collect()
}

/// A number in text, of a kind drawn first: money, times, hexadecimal, many digits, any exponent.
fn number(draw: &mut Draw) -> String {
    let sign = draw.of(&["", "", "", "-", "+"]);
    let size = match draw.below(9) {
        0 => draw.of(ODD).to_owned(),
        1 | 2 => format!("{}.{:02}", draw.below(10_000), draw.below(100)),
        3 => format!("17{}.{}", digits(draw, 12), digits(draw, 9)),
        4 => format!(
            "0x{:x}.{:x}p{}",
            draw.below(1 << 40),
            draw.below(1 << 40),
            draw.below(200) as i64 - 100
        ),
        5 => format!("1{}.{}5", digits(draw, 40), digits(draw, 40)),
        6 => format!("{}.{}e{}", draw.below(10), digits(draw, 25), draw.below(60) as i64 - 40),
        7 => format!(
            "{}.{}E{}",
            draw.below(10),
            digits(draw, 25),
            draw.below(9_900) as i64 - 4_960
        ),
        _ => format!("0.{}{}5", "0".repeat(draw.below(18)), digits(draw, 3)),
    };
    match size.starts_with(['-', '+']) || draw.one_in(3) {
        true => size,
        false => format!("{sign}{size}"),
    }
}

fn trial(draw: &mut Draw) -> Trial {
    let key = draw.of(KEYS);
    match draw.below(10) {
        0..3 => Trial::new(["SET".to_owned(), key.to_owned(), number(draw)]),
        3 => Trial::new(["DEL", key]),
        4 => Trial::new(["OBJECT", "ENCODING", key]),
        5 if draw.one_in(8) => Trial::new(["INCRBYFLOAT", key]),
        _ => Trial::new(["INCRBYFLOAT".to_owned(), key.to_owned(), number(draw)]),
    }
}

#[test]
fn random_sums_are_those_of_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let commands: &[(&str, &[&str])] = &[
        ("DEL", &[]),
        ("INCRBYFLOAT", &[]),
        ("OBJECT", &["ENCODING"]),
        ("SET", &[]),
    ];
    let mut differential = Differential::new(commands, trial);
    let redis = RedisServer::start(&[]);
    let node = Node::start(&["--workers", "2"]);
    let (mut reference, mut tested) = (redis.client(), node.client());
    differential.run(&mut reference, &mut tested, 1, 30_000);
    reference.hello3();
    tested.hello3();
    differential.run(&mut reference, &mut tested, 2, 30_000);
    differential.finish();
}

#[test]
fn a_sum_keeps_the_time_to_live() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    client.line("SET k 1.5 EX 1000");
    assert_eq!(client.line("INCRBYFLOAT k 1").text(), "2.5");
    assert!((999..=1000).contains(&client.line("TTL k").int()));
    client.line("RL.CHECK b LIMIT 5 PER 1m");
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(client.line("INCRBYFLOAT b 1").error(), wrong);
}
