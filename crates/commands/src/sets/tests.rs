use crate::draws::Draws;
use crate::test_shard::TestShards;
use crate::test_undo::assert_runs_are_undone;
use std::collections::BTreeSet;

fn run_all(shards: &mut TestShards, script: &[(&str, &str)]) {
    for (line, reply) in script {
        assert_eq!(shards.run(line), reply.replace('\n', "\r\n"), "{line}");
    }
}

/// SADD of members with numbers from `first` on.
fn add(key: &str, prefix: &str, first: usize, count: usize) -> String {
    let members: String = (first..first + count)
        .map(|number| format!(" {prefix}{number}"))
        .collect();
    format!("SADD {key}{members}")
}

/// The bulk strings of a reply, sorted.
fn members(reply: &str) -> Vec<String> {
    let mut lines: Vec<&str> = reply.trim_end().split("\r\n").collect();
    lines.remove(0);
    let mut members: Vec<String> = lines.chunks(2).map(|lines| lines[1].to_owned()).collect();
    members.sort_unstable();
    members
}

fn encoding(shards: &mut TestShards, key: &str) -> String {
    let reply = shards.run(&format!("OBJECT ENCODING {key}"));
    reply.lines().nth(1).unwrap().to_owned()
}

/// What Redis 7.2 answers; 7.0 has no listpacks of sets.
#[test]
fn small_sets_have_an_order() {
    let mut shards = TestShards::new(1);
    run_all(
        &mut shards,
        &[
            ("SADD ints 30 2 100 -5 2", ":4\n"),
            ("SMEMBERS ints", "*4\n$2\n-5\n$1\n2\n$2\n30\n$3\n100\n"),
            ("SADD words b 1 a c", ":4\n"),
            ("SMEMBERS words", "*4\n$1\nb\n$1\n1\n$1\na\n$1\nc\n"),
            ("SREM words 1 b nothing", ":2\n"),
            ("SADD words b", ":1\n"),
            ("SMEMBERS words", "*3\n$1\na\n$1\nc\n$1\nb\n"),
            ("SRANDMEMBER words 9", "*3\n$1\na\n$1\nc\n$1\nb\n"),
            ("SADD ints x", ":1\n"),
            ("SMEMBERS ints", "*5\n$2\n-5\n$1\n2\n$2\n30\n$3\n100\n$1\nx\n"),
            ("SADD mixed 3 1 b", ":3\n"),
            ("SUNION mixed words", "*5\n$1\n1\n$1\n3\n$1\nb\n$1\na\n$1\nc\n"),
            ("SADD other x c a", ":3\n"),
            ("SINTER words other", "*2\n$1\na\n$1\nc\n"),
            ("SINTER other words", "*2\n$1\nc\n$1\na\n"),
            ("SDIFF words other", "*1\n$1\nb\n"),
            ("SINTERCARD 2 words other LIMIT 1", ":1\n"),
            ("SSCAN words 0", "*2\n$1\n0\n*3\n$1\na\n$1\nc\n$1\nb\n"),
            ("SPOP words 3", "*3\n$1\na\n$1\nc\n$1\nb\n"),
            ("EXISTS words", ":0\n"),
        ],
    );
}

/// What `t_set.c` of Redis 7.2 makes of these; see the documentation of `Set` for the bounds.
#[test]
fn encodings_are_those_of_redis() {
    let mut shards = TestShards::new(1);
    let cases: &[(&[String], &str)] = &[
        (&[add("k", "", 0, 512)], "intset"),
        (&[add("k", "", 0, 512), "SADD k 512".to_owned()], "hashtable"),
        (&[add("k", "", 0, 128), "SADD k x".to_owned()], "hashtable"),
        (&[add("k", "", 0, 127), "SADD k x".to_owned()], "listpack"),
        (&[add("k", "m", 0, 128)], "listpack"),
        (&[add("k", "m", 0, 129)], "hashtable"),
        (&[format!("SADD k {}", "x".repeat(65))], "hashtable"),
        // As many arguments as are too many, although they are one member.
        (&[format!("SADD k{}", " m".repeat(129))], "hashtable"),
        (&[format!("SADD k{}", " 1".repeat(513))], "hashtable"),
        (
            &["SADD k a".to_owned(), format!("SADD k{}", " a".repeat(129))],
            "hashtable",
        ),
        // Taking most of a large set makes a small one of what is left, and taking little leaves it as it is.
        (&[add("k", "m", 0, 600), "SPOP k 500".to_owned()], "listpack"),
        (&[add("k", "m", 0, 600), "SPOP k 499".to_owned()], "hashtable"),
        (&[add("k", "m", 0, 3000), "SPOP k 2900".to_owned()], "listpack"),
        (&[add("k", "m", 0, 129), "SPOP k".to_owned()], "hashtable"),
        // Integers in a listpack become an intset where an intersection is stored, and not elsewhere.
        (
            &[
                "SADD a 1 2 x".to_owned(),
                "SADD b 1 2 3 y".to_owned(),
                "SINTERSTORE k a b".to_owned(),
            ],
            "intset",
        ),
        (
            &[
                "SADD a 1 2 x".to_owned(),
                "SADD b 1 2 3 y".to_owned(),
                "SUNIONSTORE k a b".to_owned(),
            ],
            "listpack",
        ),
        (
            &[
                add("a", "", 0, 600),
                add("b", "", 300, 100),
                "SINTERSTORE k a b".to_owned(),
            ],
            "intset",
        ),
        (
            &[
                add("a", "", 0, 600),
                add("b", "", 3, 600),
                "SDIFFSTORE k a b".to_owned(),
            ],
            "intset",
        ),
        // The second way of SDIFF starts with a copy of the first set.
        (
            &[
                add("a", "", 0, 600),
                add("b", "", 3, 1),
                add("c", "", 5, 595),
                "SDIFFSTORE k a b b b b c".to_owned(),
            ],
            "hashtable",
        ),
        (&["SADD a 5".to_owned(), "SMOVE a k 5".to_owned()], "intset"),
        (&["SADD a m".to_owned(), "SMOVE a k m".to_owned()], "listpack"),
    ];
    for (lines, expected) in cases {
        shards.run("FLUSHALL");
        for line in *lines {
            assert!(!shards.run(line).starts_with('-'));
        }
        assert_eq!(encoding(&mut shards, "k"), *expected, "{:.80} ...", lines.join("; "));
    }
}

#[test]
fn arguments_are_checked_in_redis_order() {
    let mut shards = TestShards::new(1);
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\n";
    run_all(
        &mut shards,
        &[
            ("SET text x", "+OK\n"),
            ("SADD k a b", ":2\n"),
            ("SMOVE none text a", ":0\n"),
            ("SMOVE k text nothing", wrong),
            ("SMOVE k text a", wrong),
            ("SMOVE text k a", wrong),
            ("SMOVE k k a", ":1\n"),
            ("SMOVE k k nothing", ":0\n"),
            ("SINTER none text", wrong),
            ("SINTERSTORE k none text", wrong),
            ("SCARD k", ":2\n"),
            ("SINTERCARD 0 k", "-ERR numkeys should be greater than 0\n"),
            ("SINTERCARD x k", "-ERR numkeys should be greater than 0\n"),
            (
                "SINTERCARD 2 k",
                "-ERR Number of keys can't be greater than number of args\n",
            ),
            ("SINTERCARD 1 k LIMIT -1", "-ERR LIMIT can't be negative\n"),
            ("SINTERCARD 1 k LIMIT x", "-ERR LIMIT can't be negative\n"),
            ("SINTERCARD 1 k LIMIT", "-ERR syntax error\n"),
            ("SINTERCARD 1 k nothing 1", "-ERR syntax error\n"),
            ("SINTERCARD 1 k LIMIT 0", ":2\n"),
            ("SPOP text 1 2", "-ERR syntax error\n"),
            ("SPOP text -1", "-ERR value is out of range, must be positive\n"),
            ("SPOP text 1", wrong),
            ("SPOP k 0", "*0\n"),
            ("SPOP none", "$-1\n"),
            ("SPOP none 1", "*0\n"),
            ("SRANDMEMBER text 1 2", "-ERR syntax error\n"),
            ("SRANDMEMBER k -10001", "-ERR too many random elements, at most 10000\n"),
            // The destination may be of another type; it goes when nothing is stored.
            ("SUNIONSTORE text k", ":2\n"),
            ("TYPE text", "+set\n"),
            ("SDIFFSTORE text k k", ":0\n"),
            ("EXISTS text", ":0\n"),
        ],
    );
}

#[test]
fn large_sets_are_worked_on_in_steps() {
    let mut shards = TestShards::new(1);
    assert_eq!(shards.run(&add("a", "m", 0, 5000)), ":5000\r\n");
    assert_eq!(shards.run(&add("b", "m", 1000, 5000)), ":5000\r\n");
    assert_eq!(shards.run(&add("c", "m", 2000, 5000)), ":5000\r\n");
    let range = |first: usize, end: usize| {
        let mut members: Vec<String> = (first..end).map(|number| format!("m{number}")).collect();
        members.sort_unstable();
        members
    };
    assert_eq!(members(&shards.run("SMEMBERS a")), range(0, 5000));
    assert_eq!(members(&shards.run("SINTER a b c")), range(2000, 5000));
    assert_eq!(members(&shards.run("SUNION a b c")), range(0, 7000));
    assert_eq!(members(&shards.run("SDIFF a b c")), range(0, 1000));
    // Redis's second way.
    assert_eq!(members(&shards.run("SDIFF a b b b b b none c c")), range(0, 1000));
    assert_eq!(members(&shards.run("SDIFF a b a")), range(0, 0));
    assert_eq!(shards.run("SINTERCARD 3 a b c"), ":3000\r\n");
    assert_eq!(shards.run("SINTERCARD 3 a b c LIMIT 2500"), ":2500\r\n");
    assert_eq!(shards.run("SINTER a b c none"), "*0\r\n");
    for (store, first, end) in [
        ("SINTERSTORE a a b", 1000, 5000),
        ("SDIFFSTORE a a c", 1000, 2000),
        ("SUNIONSTORE a a c", 1000, 7000),
    ] {
        assert_eq!(shards.run(store), format!(":{}\r\n", end - first), "{store}");
        assert_eq!(members(&shards.run("SMEMBERS a")), range(first, end), "{store}");
    }
    let keys = " a".repeat(2000);
    assert_eq!(shards.run(&format!("SINTERCARD 2000{keys} LIMIT 10")), ":10\r\n");
    let asked = shards.run(&add("x", "m", 0, 2000).replacen("SADD x", "SMISMEMBER a", 1));
    assert!(asked.starts_with("*2000\r\n") && asked.matches(":1\r\n").count() == 1000);
    let some = members(&shards.run("SRANDMEMBER a 3000"));
    assert_eq!(some.iter().collect::<BTreeSet<_>>().len(), 3000);
    assert_eq!(members(&shards.run("SRANDMEMBER a -7000")).len(), 7000);
    let mut popped = members(&shards.run("SPOP a 2500"));
    assert_eq!((popped.len(), shards.run("SCARD a")), (2500, ":3500\r\n".to_owned()));
    popped.extend(members(&shards.run("SPOP a 9999")));
    popped.sort_unstable();
    assert_eq!(popped, range(1000, 7000));
    assert_eq!(shards.run("EXISTS a"), ":0\r\n");
    assert_eq!(
        shards.run(&add("b", "m", 0, 9000).replacen("SADD", "SREM", 1)),
        ":5000\r\n"
    );
    assert_eq!(shards.run("EXISTS b"), ":0\r\n");
}

#[test]
fn a_wrong_type_is_found_in_a_later_step() {
    let mut shards = TestShards::new(1);
    shards.run("SADD k a");
    shards.run("SET text x");
    let keys = " k".repeat(1500);
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    assert_eq!(shards.run(&format!("SUNION{keys} text")), wrong);
    assert_eq!(shards.run(&format!("SUNIONSTORE k{keys} text")), wrong);
    assert_eq!(shards.run(&format!("SUNION{keys}")), "*1\r\n$1\r\na\r\n");
}

#[test]
fn runs_are_undone() {
    let setup = [
        "SADD ints 3 1 2".to_owned(),
        "SADD words b a 1".to_owned(),
        add("large", "m", 0, 2000),
        add("other", "m", 1000, 2000),
        "EXPIRE large 1000".to_owned(),
        "SET text x".to_owned(),
    ];
    let keys = ["ints", "words", "large", "other", "text", "new"];
    let command = |draws: &mut Draws| {
        let [key, second] = [0, 1].map(|_| keys[draws.below(keys.len())]);
        let member = match draws.below(3) {
            0 => draws.below(5).to_string(),
            1 => ["a", "b", "c"][draws.below(3)].to_owned(),
            _ => format!("m{}", draws.below(3000)),
        };
        match draws.below(12) {
            0 | 1 => format!("SADD {key} {member} x"),
            2 | 3 => format!("SREM {key} {member} m7"),
            4 => format!("SPOP {key}"),
            5 => format!("SPOP {key} {}", [3, 1950, 1000, 5000][draws.below(4)]),
            6 => format!("SMOVE {key} {second} {member}"),
            7 => format!("SINTERSTORE {key} {second} large"),
            8 => format!("SUNIONSTORE {key} {second} words"),
            9 => format!("SDIFFSTORE {key} {second} other"),
            10 => add(key, "n", 0, 700),
            _ => format!("DEL {key}"),
        }
    };
    assert_runs_are_undone(&setup, &keys, command);
}
