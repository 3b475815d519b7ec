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
