//! Nodes that lose each other: a network that is cut, in one direction or both, or that loses a part of what it carries.

use std::ops::Range;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::load::Plan;
use crate::network::Network;

const BEFORE: Duration = Duration::from_secs(3);
const CUT: Duration = Duration::from_secs(6);
const AFTERWARDS: Duration = Duration::from_secs(5);
const EVENT_US: u64 = 1_000_000;

/// Does something to a network for a while, heals it, and waits until the nodes have settled.
fn trouble(scenario: &str, does: impl FnOnce(&Network)) {
    let mut cluster = Cluster::start_in_network(&["a", "b", "c"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    let cut_us = cluster.now_us();
    does(cluster.network.as_ref().expect("a network"));
    cluster.run_for(CUT);
    if let Some(network) = &cluster.network {
        network.heal();
    }
    cluster.settle();
    let event: Range<u64> = cut_us..cluster.now_us() + EVENT_US;
    cluster.run_for(AFTERWARDS);
    let outcomes = cluster.end(scenario);
    for outcome in outcomes.each() {
        outcome.assert_checks_are_answered();
        outcome.assert_calm_outside(std::slice::from_ref(&event));
        // Each side gives what the bucket has, and what comes meanwhile; the one that prevails may have begun with a full bucket.
        let other_side = outcome.quota.model(event.end - event.start) + outcome.quota.burst;
        outcome.assert_excess_within(|_| other_side);
    }
}

#[test]
fn scenario_a_node_is_cut_off() {
    trouble("cut: one node from two", |network| {
        network.cut("a", "b");
        network.cut("a", "c");
    });
}

#[test]
fn scenario_two_nodes_do_not_reach_each_other_but_a_third() {
    trouble("cut: one from another", |network| network.cut("a", "b"));
}

#[test]
fn scenario_a_node_hears_another_and_is_not_heard() {
    trouble("one-way cut", |network| network.cut_one_way("a", "b"));
}

#[test]
fn scenario_a_node_is_heard_by_nobody_and_hears_all() {
    trouble("one-way cut: one to all", |network| {
        network.cut_one_way("a", "b");
        network.cut_one_way("a", "c");
    });
}

#[test]
fn scenario_a_part_of_everything_is_lost() {
    const PART: f64 = 0.1;
    trouble("10 % lost", |network| {
        for from in ["a", "b", "c"] {
            for to in ["a", "b", "c"] {
                network.lose(from, to, PART);
            }
        }
    });
}

/// No tokens come while this runs, so that what is left of each bucket says what was charged to it.
#[test]
fn scenario_what_both_sides_of_a_cut_gave_is_charged_once() {
    const KEYS: usize = 300;
    const BURST: i64 = 1_000;
    const COST: i64 = 10;
    /// At once, while others stand in; and later, when both sides have taken the slots of the other.
    const MOMENTS: [Duration; 3] = [
        Duration::from_millis(500),
        Duration::from_millis(1_500),
        Duration::from_millis(5_500),
    ];
    /// A holder keeps a journal for so long after all have come in sight, and charges what is in it to whoever has taken the slot, even if
    /// that one knows it.
    const JOURNALS_LINGER: Duration = Duration::from_secs(6);
    let cluster = Cluster::start_in_network(&["a", "b", "c"]);
    std::thread::sleep(JOURNALS_LINGER);
    let mut at_a = cluster.node("a").client();
    let mut at_b = cluster.node("b").client();
    let check = |client: &mut tollgate_suite::Client, key: usize, cost: i64| -> (i64, i64) {
        let reply = client.line(&format!("RL.CHECK once:{key} LIMIT {BURST} PER 1000h COST {cost}"));
        (reply.items()[0].int() * cost, reply.items()[2].int())
    };
    let mut given = [0; KEYS];
    for (key, given) in given.iter_mut().enumerate() {
        *given += check(&mut at_a, key, BURST / 2).0;
    }
    std::thread::sleep(Duration::from_secs(1));
    let network = cluster.network.as_ref().expect("a network");
    network.cut("a", "b");
    network.cut("a", "c");
    let began = std::time::Instant::now();
    for moment in MOMENTS {
        std::thread::sleep(moment.saturating_sub(began.elapsed()));
        for (key, given) in given.iter_mut().enumerate() {
            *given += check(&mut at_a, key, COST).0 + check(&mut at_b, key, COST).0;
        }
    }
    network.heal();
    cluster.settle();
    std::thread::sleep(Duration::from_secs(2));
    let mut off = std::collections::BTreeMap::<i64, usize>::new();
    for (key, given) in given.iter().enumerate() {
        let (_, left) = check(&mut at_b, key, 0);
        *off.entry(left - (BURST - given)).or_default() += 1;
    }
    println!("tokens left beyond what must be left: {off:?}");
    // A side without a replica began with a full bucket, and its debts are those of the other side since the cut: no token more is left.
    let beyond = off.keys().copied().max().unwrap_or(0);
    assert!(beyond <= BURST / 2, "{off:?}");
    // A check that was under way when the network was cut may be done late, and then counts twice.
    let twice = -COST * 2 * MOMENTS.len() as i64;
    let longest_wait = cluster.delays.longest();
    if longest_wait < Duration::from_millis(100) {
        assert!(off.keys().all(|off| *off >= twice), "charged twice: {off:?}");
        let right: usize = off.range(twice..=0).map(|(_, count)| count).sum();
        assert!(right * 2 > KEYS, "{off:?}");
    } else {
        // Then holders have kept journals all the time.
        println!("a node waited {longest_wait:?} for a processor");
    }
}
