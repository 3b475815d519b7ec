use super::*;
use crate::test_request::with_line;
use crate::test_shard::TestShards;
use crate::{CommandTable, LastCommand, Step};
use tollgate_script::PolicyLimits;

/// Queues a check in a shard, whoever has its key.
fn queue(shards: &mut TestShards, shard: usize, queue: &mut CheckQueue, line: &str) {
    let env = shards.env();
    with_line(line, |request| {
        let table = CommandTable::default();
        let (spec, _) = table.resolve(request, &mut LastCommand::default()).unwrap();
        let step = shards.shards[shard].run(&env, queue, spec, request, &mut Vec::new());
        assert!(matches!(step, Step::Done));
    });
}

#[test]
fn checks_that_are_forgotten_keep_no_parameters() {
    let limits = PolicyLimits {
        max_params: 4,
        ..PolicyLimits::default()
    };
    let mut shards = TestShards::with_limits(1, limits);
    let mut checks = CheckQueue::default();
    // More different limits than the shard can have, three at a time.
    for round in 0..4 {
        for limit in 0..3 {
            let limit = 100 + round * 10 + limit;
            queue(&mut shards, 0, &mut checks, &format!("RL.CHECK k LIMIT {limit} PER 1m"));
        }
        assert_eq!(checks.len(), 3, "round {round}");
        shards.shards[0].forget_checks(&mut checks);
        assert!(checks.is_empty());
        shards.shards[0].policies.end_epoch();
    }
}

#[test]
fn a_check_for_a_key_of_another_shard_is_refused_and_ends() {
    let mut shards = TestShards::new(2);
    let (ours, theirs) = match shards.slots[0].contains(&tollgate_store::slot_of(b"k")) {
        true => (1, "k"),
        false => (0, "k"),
    };
    let own = (0..).map(|i| format!("own{i}"));
    let own = own
        .clone()
        .find(|key| shards.slots[ours].contains(&tollgate_store::slot_of(key.as_bytes())))
        .unwrap();
    let mut checks = CheckQueue::default();
    checks.start(true);
    for key in [&own, theirs, &own] {
        queue(
            &mut shards,
            ours,
            &mut checks,
            &format!("RL.CHECK {key} LIMIT 5 PER 1m"),
        );
    }
    let (env, mut out) = (shards.env(), Vec::new());
    assert_eq!(shards.shards[ours].flush(&env, &mut checks, &mut out), Flow::Done);
    let ends: Vec<usize> = checks.ends().iter().map(|&end| end as usize).collect();
    assert_eq!(ends.len(), 3);
    assert!(out[ends[0]..ends[1]].starts_with(b"-TRYAGAIN "));
    assert!(out[ends[1]..].starts_with(b"*6\r\n:1\r\n:5\r\n:3\r\n"));
}
