use super::pop::{PopReply, Side, pop_members};
use crate::test_request::with_line;
use crate::test_shard::TestShards;
use crate::undo::UndoLog;
use crate::work::Popped;
use tollgate_protocol::Proto;

/// A sequence of pseudo-random numbers (SplitMix64).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }
}

/// Runs each line and compares its answer; `|` stands for a line end.
fn session(shards: &mut TestShards, lines: &[(&str, &str)]) {
    for (line, answer) in lines {
        assert_eq!(shards.run(line).replace("\r\n", "|"), *answer, "{line}");
    }
}

#[test]
fn what_7_2_answers_and_7_0_does_not() {
    let mut shards = TestShards::new(1);
    session(
        &mut shards,
        &[
            ("ZADD z 1 a 3.14 b 1e17 c", ":3|"),
            // Scores in the shortest notation, in RESP2 too; Redis 7.0 has 17 digits there.
            ("ZSCORE z b", "$4|3.14|"),
            ("ZSCORE z c", "$18|100000000000000000|"),
            ("ZADD z 1e20 d 1.5e-9 e", ":2|"),
            ("ZSCORE z d", "$5|1e+20|"),
            ("ZSCORE z e", "$6|1.5e-9|"),
            ("ZRANK z b WITHSCORE", "*2|:2|$4|3.14|"),
            ("ZREVRANK z b withscore", "*2|:2|$4|3.14|"),
            ("ZRANK z x WITHSCORE", "*-1|"),
            ("ZRANK x x WITHSCORE", "*-1|"),
            ("ZRANK z x", "$-1|"),
            ("ZRANK z b SCORE", "-ERR syntax error|"),
            (
                "ZRANK z b WITHSCORE x",
                "-ERR wrong number of arguments for 'zrank' command|",
            ),
            (
                "ZREVRANK z b WITHSCORE x",
                "-ERR wrong number of arguments for 'zrevrank' command|",
            ),
            // A listpack keeps no sign of zero.
            ("ZADD zero -0 a", ":1|"),
            ("ZSCORE zero a", "$1|0|"),
            ("ZUNION 1 zero WEIGHTS -1 WITHSCORES", "*2|$1|a|$2|-0|"),
            ("ZUNIONSTORE stored 1 zero WEIGHTS -1", ":1|"),
            ("ZSCORE stored a", "$1|0|"),
            // An increment of nothing shows what was given.
            ("ZINCRBY zero -0 b", "$2|-0|"),
            ("ZRANDMEMBER z -10001", "-ERR too many random elements, at most 10000|"),
        ],
    );
    shards.proto = Proto::Resp3;
    session(
        &mut shards,
        &[
            ("ZRANK z b WITHSCORE", "*2|:2|,3.14|"),
            ("ZREVRANK z nothing WITHSCORE", "_|"),
            ("ZPOPMIN zero", "*2|$1|a|,0|"),
            ("ZPOPMIN zero 1", "*1|*2|$1|b|,0|"),
        ],
    );
}

#[test]
fn timestamps_of_microseconds_are_scores_members_and_bounds() {
    let mut shards = TestShards::new(1);
    session(
        &mut shards,
        &[
            (
                "ZADD log 1727314860123456 1727314860123456 1727314860123457 1727314860123457:b 1727314861000000 1727314861000000",
                ":3|",
            ),
            ("ZSCORE log 1727314860123456", "$16|1727314860123456|"),
            ("ZCOUNT log (1727314860123456 +inf", ":2|"),
            ("ZCOUNT log -inf (1727314860123457", ":1|"),
            ("ZCOUNT log 1.727314860123457e15 +inf", ":2|"),
            ("ZREMRANGEBYSCORE log 0 (1727314860123457", ":1|"),
            (
                "ZRANGE log 0 0 WITHSCORES",
                "*2|$18|1727314860123457:b|$16|1727314860123457|",
            ),
            // 19 digits are more than a double has.
            ("ZADD log 1727314860123456789 ns", ":1|"),
            ("ZSCORE log ns", "$19|1727314860123456768|"),
            ("ZCOUNT log 1727314860123456800 1727314860123456800", ":1|"),
            ("ZRANGE log +inf 1e18 BYSCORE REV LIMIT 0 1", "*1|$2|ns|"),
            ("ZCARD log", ":3|"),
        ],
    );
}

#[test]
fn a_scan_shows_every_member_and_ends() {
    let mut shards = TestShards::new(1);
    for batch in 0..30 {
        let pairs: String = (0..100)
            .map(|number| format!(" {number}.5 m{}", batch * 100 + number))
            .collect();
        assert_eq!(shards.run(&format!("ZADD z{pairs}")), ":100\r\n");
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = shards.run(&format!("ZSCAN z {cursor} COUNT 100"));
        let lines: Vec<&str> = reply.split("\r\n").collect();
        cursor = lines[2].to_owned();
        assert!(cursor.parse::<u64>().unwrap() < 1 << 53);
        seen.extend(lines[4..].iter().skip(1).step_by(4).map(|&member| member.to_owned()));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 3000);
    // All at once, and only some.
    let reply = shards.run("ZSCAN z 0 COUNT 100000");
    assert!(reply.starts_with("*2\r\n$1\r\n0\r\n*6000\r\n"), "{}", &reply[..40]);
    let reply = shards.run("ZSCAN z 0 COUNT 100000 MATCH m29?5");
    assert!(reply.starts_with("*2\r\n$1\r\n0\r\n*20\r\n"), "{reply}");
    session(
        &mut shards,
        &[
            ("ZADD small 3.14 a", ":1|"),
            ("ZSCAN small 0", "*2|$1|0|*2|$1|a|$4|3.14|"),
            ("ZSCAN small 281474976710656", "*2|$1|0|*2|$1|a|$4|3.14|"),
            ("ZSCAN z 18446744073709551615", "*2|$1|0|*0|"),
            ("ZSCAN z -1", "*2|$1|0|*0|"),
            ("ZSCAN z 18446744073709551616", "-ERR invalid cursor|"),
            ("ZSCAN z a", "-ERR invalid cursor|"),
            ("ZSCAN z 0 COUNT 0", "-ERR syntax error|"),
            ("ZSCAN z 0 COUNT a", "-ERR value is not an integer or out of range|"),
            ("ZSCAN z 0 MATCH", "-ERR syntax error|"),
            ("ZSCAN nothing 0 MATCH", "*2|$1|0|*0|"),
        ],
    );
    let long = "x".repeat(513);
    assert_eq!(
        shards.run(&format!("ZSCAN z 0 MATCH {long}")),
        "-ERR pattern is longer than 512 bytes\r\n"
    );
    assert_eq!(shards.shards[0].take_patterns_too_long(), 1);
}

#[test]
fn blocking_pops_can_use_the_same_function() {
    let mut shards = TestShards::new(1);
    shards.run("ZADD z 1 a 2 b");
    let env = shards.env();
    let mut out = Vec::new();
    with_line("BZPOPMAX nothing z 0", |request| {
        let shard = &mut shards.shards[0];
        let mut pop = |at| {
            pop_members(
                shard,
                &env,
                request,
                at,
                (Side::Max, 1),
                PopReply::KeyThenFlat,
                &mut out,
            )
        };
        assert!(matches!(pop(1), Ok(Popped::Nothing)));
        assert!(matches!(pop(2), Ok(Popped::All)));
    });
    assert_eq!(out, b"*3\r\n$1\r\nz\r\n$1\r\nb\r\n$1\r\n2\r\n");
    assert_eq!(shards.run("ZCARD z"), ":1\r\n");
}

/// All that can be seen of some keys.
fn dump(shards: &mut TestShards) -> Vec<String> {
    let ask = ["TYPE", "OBJECT ENCODING", "PTTL", "ZRANGE"];
    let lines = ["a", "b", "c"].into_iter().flat_map(|key| {
        ask.into_iter().map(move |command| match command {
            "ZRANGE" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            command => format!("{command} {key}"),
        })
    });
    lines.map(|line| shards.run(&line)).collect()
}

fn random_command(draw: &mut Draw, large: bool) -> String {
    let key = ["a", "b", "c"][draw.below(3)];
    let other = ["a", "b", "c"][draw.below(3)];
    let members = if large { 4000 } else { 40 };
    let number = |draw: &mut Draw| draw.below(members);
    let score = |draw: &mut Draw| ["-inf", "+inf", "0", "-0", "2.5", "7", "100"][draw.below(7)];
    let count = if large { 1 + draw.below(1200) } else { 1 + draw.below(6) };
    match draw.below(11) {
        0 | 1 => {
            let pairs: String = (0..count)
                .map(|_| format!(" {} m{}", score(draw), number(draw)))
                .collect();
            format!("ZADD {key} {}{pairs}", ["", "NX ", "GT ", "LT ", "CH "][draw.below(5)]).replace("  ", " ")
        }
        2 => {
            let names: String = (0..count).map(|_| format!(" m{}", number(draw))).collect();
            format!("ZREM {key}{names}")
        }
        3 => format!("ZINCRBY {key} 2.5 m{}", number(draw)),
        4 => format!("ZREMRANGEBYRANK {key} {} {}", number(draw), number(draw)),
        5 => format!("ZREMRANGEBYSCORE {key} {} {}", score(draw), score(draw)),
        6 => format!("{} {key} {count}", ["ZPOPMIN", "ZPOPMAX"][draw.below(2)]),
        7 => format!("ZMPOP 2 {key} {other} MAX COUNT {count}"),
        8 => format!("ZUNIONSTORE {key} 2 {key} {other}"),
        9 => format!("ZRANGESTORE {key} {other} 0 {count}"),
        _ => format!("EXPIRE {key} 1000"),
    }
}

#[test]
fn whatever_a_script_does_can_be_taken_back() {
    let mut draw = Draw(5);
    for round in 0..60 {
        let large = round % 3 == 0;
        let mut shards = TestShards::new(1);
        for key in ["a", "b"] {
            let members = if large { 3000 } else { draw.below(30) };
            for start in (0..members).step_by(500) {
                let pairs: String = (start..members.min(start + 500))
                    .map(|number| format!(" {} m{number}", draw.below(1000)))
                    .collect();
                shards.run(&format!("ZADD {key}{pairs}"));
            }
        }
        let before = dump(&mut shards);
        shards.shards[0].undo = Some(UndoLog::default());
        for _ in 0..=draw.below(12) {
            let line = random_command(&mut draw, large);
            let reply = shards.run(&line);
            assert!(!reply.starts_with('-') || reply.contains("NaN"), "{line}: {reply}");
        }
        let log = shards.shards[0].undo.take().unwrap();
        shards.shards[0].roll_back(log);
        let after = dump(&mut shards);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "round {round}");
        }
    }
}
