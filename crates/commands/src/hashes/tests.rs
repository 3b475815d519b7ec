use crate::draws::Draws;
use crate::test_shard::TestShards;
use crate::test_undo::assert_runs_are_undone;
use std::collections::BTreeSet;

fn run_all(shards: &mut TestShards, script: &[(&str, &str)]) {
    for (line, reply) in script {
        assert_eq!(shards.run(line), reply.replace('\n', "\r\n"), "{line}");
    }
}

/// HSET of fields `f0` to `f{count - 1}` of a key.
fn set(key: &str, count: usize) -> String {
    let fields: String = (0..count).map(|number| format!(" f{number} v{number}")).collect();
    format!("HSET {key}{fields}")
}

/// The bulk strings of a reply.
fn bulks(reply: &str) -> Vec<&str> {
    let lines: Vec<&str> = reply.split("\r\n").collect();
    let is_head = |at: usize| lines[at].starts_with('$') && at + 1 < lines.len();
    (0..lines.len())
        .filter(|&at| is_head(at))
        .map(|at| lines[at + 1])
        .collect()
}

#[test]
fn fields_keep_the_order_in_which_they_were_set() {
    let mut shards = TestShards::new(1);
    run_all(
        &mut shards,
        &[
            ("HSET h b 1 a 2 b 3", ":2\n"),
            ("HMSET h c 4", "+OK\n"),
            ("HGETALL h", "*6\n$1\nb\n$1\n3\n$1\na\n$1\n2\n$1\nc\n$1\n4\n"),
            ("HDEL h a nothing a", ":1\n"),
            ("HSETNX h a 5", ":1\n"),
            ("HSETNX h a 6", ":0\n"),
            ("HKEYS h", "*3\n$1\nb\n$1\nc\n$1\na\n"),
            ("HVALS h", "*3\n$1\n3\n$1\n4\n$1\n5\n"),
            ("HMGET h a nothing b", "*3\n$1\n5\n$-1\n$1\n3\n"),
            (
                "HRANDFIELD h 9 WITHVALUES",
                "*6\n$1\nb\n$1\n3\n$1\nc\n$1\n4\n$1\na\n$1\n5\n",
            ),
            ("HDEL h a b c d", ":3\n"),
            ("EXISTS h", ":0\n"),
        ],
    );
}

#[test]
fn arguments_are_checked_in_redis_order() {
    let mut shards = TestShards::new(1);
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\n";
    run_all(
        &mut shards,
        &[
            ("SET s x", "+OK\n"),
            ("HSET s a", "-ERR wrong number of arguments for 'hset' command\n"),
            ("HSET s a b c", "-ERR wrong number of arguments for 'hset' command\n"),
            ("HMSET s a b c", "-ERR wrong number of arguments for 'hmset' command\n"),
            ("HINCRBY s a x", "-ERR value is not an integer or out of range\n"),
            ("HINCRBY s a 1", wrong),
            ("HSCAN s x", "-ERR invalid cursor\n"),
            ("HSCAN s 0 COUNT x", wrong),
            ("HSCAN none 0 COUNT x", "*2\n$1\n0\n*0\n"),
            ("HRANDFIELD s x", "-ERR value is not an integer or out of range\n"),
            ("HRANDFIELD s 1 x", "-ERR syntax error\n"),
            (
                "HRANDFIELD none 4611686018427387904 WITHVALUES",
                "-ERR value is out of range\n",
            ),
            ("HRANDFIELD none 4611686018427387903 WITHVALUES", "*0\n"),
            (
                "HRANDFIELD none -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\n",
            ),
            ("HSET h a 9223372036854775807 b x", ":2\n"),
            ("HINCRBY h a 1", "-ERR increment or decrement would overflow\n"),
            ("HINCRBY h b 1", "-ERR hash value is not an integer\n"),
            ("HRANDFIELD h -10001", "-ERR too many random elements, at most 10000\n"),
            ("HSCAN h 0 COUNT 0", "-ERR syntax error\n"),
            ("HSCAN h 0 MATCH", "-ERR syntax error\n"),
            ("HSCAN h 0 TYPE hash", "-ERR syntax error\n"),
        ],
    );
    let pattern = "x".repeat(513);
    assert_eq!(
        shards.run(&format!("HSCAN h 0 MATCH {pattern}")),
        "-ERR pattern is longer than 512 bytes\r\n"
    );
    assert_eq!(shards.shards[0].take_patterns_too_long(), 1);
    assert_eq!(shards.shards[0].stats().too_many_picks, 1);
}

#[test]
fn a_large_hash_is_worked_on_in_steps() {
    let mut shards = TestShards::new(1);
    const FIELDS: usize = 5000;
    assert_eq!(shards.run(&set("h", FIELDS)), format!(":{FIELDS}\r\n"));
    let all: BTreeSet<String> = (0..FIELDS).map(|number| format!("f{number}")).collect();
    let reply = shards.run("HGETALL h");
    assert!(reply.starts_with("*10000\r\n"));
    let pairs = bulks(&reply);
    assert!(pairs.chunks(2).all(|pair| pair[0][1..] == pair[1][1..]));
    assert_eq!(pairs.iter().step_by(2).copied().collect::<BTreeSet<_>>().len(), FIELDS);
    for ask in [
        "HKEYS h",
        "HRANDFIELD h 5000",
        "HRANDFIELD h 4000",
        "HSCAN h 0 COUNT 1000000",
    ] {
        let reply = shards.run(ask);
        let fields: BTreeSet<&str> = bulks(&reply).into_iter().filter(|text| text.starts_with('f')).collect();
        let expected = if ask.ends_with("4000") { 4000 } else { FIELDS };
        assert_eq!(fields.len(), expected, "{ask}");
        assert!(fields.iter().all(|&field| all.contains(field)), "{ask}");
    }
    assert_eq!(bulks(&shards.run("HRANDFIELD h -7000 WITHVALUES")).len(), 14_000);
    let ask: String = (0..FIELDS).map(|number| format!(" f{}", 2 * number)).collect();
    let values = shards.run(&format!("HMGET h{ask}"));
    assert!(values.starts_with(&format!("*{FIELDS}\r\n")));
    assert_eq!(values.matches("$-1\r\n").count(), FIELDS / 2);
    assert_eq!(shards.run(&format!("HDEL h{ask}")), format!(":{}\r\n", FIELDS / 2));
    assert_eq!(shards.run("HLEN h"), format!(":{}\r\n", FIELDS / 2));
}

#[test]
fn scan_shows_every_field_and_cursors_fit_doubles() {
    let mut shards = TestShards::new(1);
    shards.run(&set("h", 5000));
    let (mut cursor, mut seen, mut calls) = (0, BTreeSet::new(), 0);
    loop {
        let reply = shards.run(&format!("HSCAN h {cursor} MATCH f*"));
        let texts = bulks(&reply);
        cursor = texts[0].parse::<u64>().unwrap();
        assert!(cursor < 1 << 53);
        seen.extend(texts[1..].iter().step_by(2).map(|text| (*text).to_owned()));
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), 5000);
    assert!(calls > 3, "{calls}");
    assert_eq!(shards.run("HSCAN h 18446744073709551615"), "*2\r\n$1\r\n0\r\n*0\r\n");
}

#[test]
fn random_fields_are_random() {
    let mut shards = TestShards::new(1);
    shards.run(&set("small", 20));
    shards.run(&set("large", 2000));
    for (key, fields) in [("small", 20), ("large", 2000)] {
        for ask in [format!("HRANDFIELD {key} -4000"), format!("HRANDFIELD {key}")] {
            let times = if ask.contains('-') { 1 } else { 4000 };
            let picked: Vec<String> = (0..times)
                .flat_map(|_| {
                    let reply = shards.run(&ask);
                    bulks(&reply).iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()
                })
                .collect();
            let different: BTreeSet<&String> = picked.iter().collect();
            // Of 2000 fields, 4000 picks meet all but 2000 / e^2 = 271.
            let expected = if fields == 20 { 20..21 } else { 1650..1810 };
            assert!(expected.contains(&different.len()), "{ask}: {}", different.len());
        }
        let mut firsts = BTreeSet::new();
        for _ in 0..200 {
            let reply = shards.run(&format!("HRANDFIELD {key} 3"));
            let picked: BTreeSet<&str> = bulks(&reply).into_iter().collect();
            assert_eq!(picked.len(), 3);
            firsts.extend(picked.into_iter().map(str::to_owned));
        }
        assert!(firsts.len() > 15, "{}", firsts.len());
    }
}

#[test]
fn runs_are_undone() {
    let long = "x".repeat(60);
    let wide: String = (0..400).map(|number| format!(" {long}{number:03} {long}")).collect();
    let setup = [
        set("small", 5),
        set("large", 2000),
        // A listpack that is not copied for being small.
        format!("HSET wide{wide}"),
        "EXPIRE wide 1000".to_owned(),
        "SET text x".to_owned(),
    ];
    let keys = ["small", "large", "wide", "text", "new"];
    let command = |draws: &mut Draws| {
        let key = keys[draws.below(keys.len())];
        let field = match (key, draws.below(4)) {
            ("wide", 0 | 1) => format!("{long}{:03}", draws.below(400)),
            (_, 3) => format!("new{}", draws.below(3)),
            _ => format!("f{}", draws.below(2000)),
        };
        match draws.below(9) {
            0 | 1 => format!("HSET {key} {field} changed f1 {field}"),
            2 | 3 => format!("HDEL {key} {field} f2"),
            4 => format!("HINCRBY {key} count {}", draws.below(9)),
            5 => format!("HSETNX {key} {field} once"),
            6 => format!("HSET {key} {field} {}", "y".repeat(70)),
            7 => set(key, 600),
            _ => format!("DEL {key}"),
        }
    };
    assert_runs_are_undone(&setup, &keys, command);
}
