use super::pop::{PopReply, pop_elements};
use crate::sorted_sets::tests::Draw;
use crate::test_request::with_line;
use crate::test_shard::TestShards;
use crate::undo::UndoLog;
use crate::work::Popped;
use tollgate_values::End;

#[test]
fn blocking_pops_can_use_the_same_function() {
    let mut shards = TestShards::new(1);
    shards.run("RPUSH l a b c");
    let env = shards.env();
    let mut out = Vec::new();
    with_line("BRPOP nothing l 0", |request| {
        let shard = &mut shards.shards[0];
        let mut pop = |at| {
            pop_elements(
                shard,
                &env,
                request,
                at,
                (End::Right, 1),
                PopReply::KeyThenElement,
                &mut out,
            )
        };
        assert!(matches!(pop(1), Ok(Popped::Nothing)));
        assert!(matches!(pop(2), Ok(Popped::All)));
    });
    assert_eq!(out, b"*2\r\n$1\r\nl\r\n$1\r\nc\r\n");
    assert_eq!(shards.run("LLEN l"), ":2\r\n");
}

#[test]
fn encodings_of_7_2() {
    let mut shards = TestShards::new(1);
    let large = "x".repeat(8200);
    let encoding = |shards: &mut TestShards| shards.run("OBJECT ENCODING l").split("\r\n").nth(1).unwrap().to_owned();
    shards.run("RPUSH l a b");
    assert_eq!(encoding(&mut shards), "listpack");
    shards.run(&format!("RPUSH l {large}"));
    assert_eq!(encoding(&mut shards), "quicklist");
    shards.run("RPOP l");
    assert_eq!(encoding(&mut shards), "listpack");
    // The encoding is decided before it is known whether there is such an element.
    assert_eq!(shards.run(&format!("LINSERT l BEFORE nothing {large}")), ":-1\r\n");
    assert_eq!(encoding(&mut shards), "quicklist");
    assert_eq!(shards.run("LPOP l"), "$1\r\na\r\n");
    assert_eq!(shards.run(&format!("LSET l 5 {large}")), "-ERR index out of range\r\n");
    assert_eq!(encoding(&mut shards), "quicklist");
    assert_eq!(shards.run("LSET l 0 c"), "+OK\r\n");
    assert_eq!(encoding(&mut shards), "listpack");
}

#[test]
fn a_rank_that_7_2_refuses_and_7_0_does_not() {
    let mut shards = TestShards::new(1);
    shards.run("RPUSH l a b a");
    assert_eq!(
        shards.run("LPOS l a RANK -9223372036854775808"),
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n"
    );
    assert_eq!(shards.run("LPOS l a RANK -9223372036854775807"), "$-1\r\n");
    assert_eq!(shards.run("LPOS l a RANK -2 COUNT 0"), "*1\r\n:0\r\n");
}

#[test]
fn a_rotation_keeps_the_time_to_live() {
    let mut shards = TestShards::new(1);
    shards.run("RPUSH l only");
    shards.run("EXPIRE l 100");
    assert_eq!(shards.run("RPOPLPUSH l l"), "$4\r\nonly\r\n");
    assert_eq!(shards.run("TTL l"), ":100\r\n");
    assert_eq!(shards.run("LMOVE l other LEFT RIGHT"), "$4\r\nonly\r\n");
    assert_eq!(shards.run("EXISTS l"), ":0\r\n");
    assert_eq!(shards.run("TTL other"), ":-1\r\n");
}

/// All that can be seen of some keys.
fn dump(shards: &mut TestShards) -> Vec<String> {
    let ask = ["TYPE", "OBJECT ENCODING", "PTTL", "LRANGE"];
    let lines = ["a", "b", "c"].into_iter().flat_map(|key| {
        ask.into_iter().map(move |command| match command {
            "LRANGE" => format!("LRANGE {key} 0 -1"),
            command => format!("{command} {key}"),
        })
    });
    lines.map(|line| shards.run(&line)).collect()
}

fn random_command(draw: &mut Draw, large: bool) -> String {
    let key = ["a", "b", "c"][draw.below(3)];
    let other = ["a", "b", "c"][draw.below(3)];
    let index = |draw: &mut Draw| draw.below(if large { 3500 } else { 40 });
    let count = if large { 1 + draw.below(1200) } else { 1 + draw.below(6) };
    let element = |draw: &mut Draw| match draw.below(20) {
        0 => "long".repeat(1 + draw.below(1500)),
        _ => format!("e{}", draw.below(9)),
    };
    match draw.below(12) {
        0..=2 => {
            let elements: String = (0..count).map(|_| format!(" e{}", draw.below(9))).collect();
            format!("{} {key}{elements}", ["LPUSH", "RPUSH", "RPUSHX"][draw.below(3)])
        }
        3 => format!("{} {key} {count}", ["LPOP", "RPOP"][draw.below(2)]),
        4 => format!("LSET {key} {} {}", index(draw), element(draw)),
        5 => format!("LINSERT {key} BEFORE e{} {}", draw.below(10), element(draw)),
        6 => format!("LREM {key} {} e{}", draw.below(9) as i64 - 4, draw.below(10)),
        7 => format!("LTRIM {key} {} {}", draw.below(9), index(draw)),
        8 => format!("LMOVE {key} {other} LEFT RIGHT"),
        9 => format!("RPOPLPUSH {key} {other}"),
        10 => format!("LMPOP 2 {key} {other} RIGHT COUNT {count}"),
        _ => format!("EXPIRE {key} 1000"),
    }
}

#[test]
fn whatever_a_script_does_can_be_taken_back() {
    let mut draw = Draw(11);
    for round in 0..60 {
        let large = round % 3 == 0;
        let mut shards = TestShards::new(1);
        for key in ["a", "b"] {
            let len = if large { 1000 + draw.below(2500) } else { draw.below(30) };
            for start in (0..len).step_by(500) {
                let elements: String = (start..len.min(start + 500))
                    .map(|_| format!(" e{}", draw.below(9)))
                    .collect();
                shards.run(&format!("RPUSH {key}{elements}"));
            }
        }
        let before = dump(&mut shards);
        shards.shards[0].undo = Some(UndoLog::default());
        let mut lines = Vec::new();
        for _ in 0..=draw.below(12) {
            let line = random_command(&mut draw, large);
            let reply = shards.run(&line);
            assert!(!reply.starts_with('-') || line.starts_with("LSET"), "{line}: {reply}");
            lines.push(line.chars().take(40).collect::<String>());
        }
        let log = shards.shards[0].undo.take().unwrap();
        shards.shards[0].roll_back(log);
        let after = dump(&mut shards);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "round {round}: {lines:?}");
        }
    }
}
