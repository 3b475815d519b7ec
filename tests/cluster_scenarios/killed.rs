//! Nodes that die without a word.

use std::ops::Range;
use std::time::Duration;

use crate::cluster::{Cluster, Outcomes};
use crate::load::Plan;
use crate::oracle::Check;
use crate::outcome::given_in;
use crate::second_client::Library;

const BEFORE: Duration = Duration::from_secs(4);
const AFTERWARDS: Duration = Duration::from_secs(6);
/// What a node has given within that time may not be with its heir yet: 20 ms and the way there, and as much as a machine with other work
/// lets it wait.
const LAG_US: u64 = 250_000;
/// After a death the others wait for commands on their way, for three seconds at most, and settle.
const EVENT_US: u64 = 1_000_000;

/// What a death at that time adds to what a key may be given too much.
fn lost_within_lag(killed_us: u64) -> impl Fn(&[Check]) -> u64 {
    move |checks| given_in(checks, &(killed_us.saturating_sub(LAG_US)..killed_us + LAG_US))
}

/// Kills nodes at once, waits until the others have their slots, and ends. Answers with the time in which the others may notice.
fn kill(cluster: &mut Cluster, names: &[&str]) -> Range<u64> {
    let killed_us = cluster.now_us();
    for name in names {
        cluster.kill(name);
    }
    let stay: Vec<String> = cluster
        .names()
        .into_iter()
        .filter(|name| !names.contains(&name.as_str()))
        .collect();
    let stay: Vec<&str> = stay.iter().map(String::as_str).collect();
    cluster.settle_on(&stay);
    killed_us..cluster.now_us() + EVENT_US
}

fn assert_survived(outcomes: &Outcomes, event: &Range<u64>) {
    for outcome in outcomes.each() {
        outcome.assert_checks_are_answered();
        outcome.assert_calm_outside(std::slice::from_ref(event));
        let doubled = &outcome.records.doubled;
        assert!(doubled.is_empty(), "{}: {doubled:?} counted twice", outcome.scenario);
    }
}

/// The part of all limits that may be given too much when one of three nodes is killed and keys are asked for twice their limit.
const EXCESS_PART_MAX: f64 = 0.01;

#[test]
fn scenario_one_of_three_is_killed_at_twice_the_limit() {
    let mut cluster = Cluster::start_redirecting(&["a", "b", "c"]);
    cluster.begin_beside(Plan::default(), &[Library::Ioredis]);
    cluster.run_for(BEFORE);
    let event = kill(&mut cluster, &["b"]);
    // A window of the limits in all, so that they are what the excess is compared with.
    cluster.run_for(
        Plan::default()
            .quota
            .window
            .saturating_sub(Duration::from_micros(event.end)),
    );
    let outcomes = cluster.end("kill 1 of 3, twice the limit");
    assert_survived(&outcomes, &event);
    for outcome in outcomes.each() {
        outcome.assert_excess_within(lost_within_lag(event.start));
    }
    let part = outcomes.load.excess_part();
    assert!(part <= EXCESS_PART_MAX, "{part}");
}

#[test]
fn scenario_one_of_three_is_killed_at_twenty_times_the_limit() {
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan {
        keys: 100,
        offered: 20.0,
        ..Plan::default()
    });
    cluster.run_for(BEFORE);
    let event = kill(&mut cluster, &["b"]);
    cluster.run_for(AFTERWARDS);
    let outcomes = cluster.end("kill 1 of 3, 20 times the limit");
    assert_survived(&outcomes, &event);
    for outcome in outcomes.each() {
        outcome.assert_excess_within(lost_within_lag(event.start));
    }
}

#[test]
fn scenario_two_of_five_are_killed_at_once() {
    let mut cluster = Cluster::start(&["a", "b", "c", "d", "e"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    let event = kill(&mut cluster, &["b", "d"]);
    cluster.run_for(AFTERWARDS);
    let outcomes = cluster.end("kill 2 of 5");
    assert_survived(&outcomes, &event);
    for outcome in outcomes.each() {
        // Where holder and heir have died the bucket begins anew.
        let burst = outcome.quota.burst;
        let within_lag = lost_within_lag(event.start);
        outcome.assert_excess_within(|checks| within_lag(checks) + burst);
    }
    // That is one slot in ten.
    let outcome = &outcomes.load;
    let within_lag = lost_within_lag(event.start);
    let anew = outcome
        .judged
        .iter()
        .filter(|(key, judged)| judged.excess > judged.stood_in + within_lag(&outcome.records.checks[*key]));
    let part = anew.count() as f64 / outcome.judged.len() as f64;
    println!("{:.1} % of the buckets began anew", 100.0 * part);
    assert!(part < 0.2, "{part}");
}

#[test]
fn scenario_who_takes_slots_is_killed_meanwhile() {
    killed_during_a_move("c");
}

#[test]
fn scenario_who_gives_slots_is_killed_meanwhile() {
    killed_during_a_move("b");
}

/// `c` joins `a` and `b`; when it has some slots that one is killed.
fn killed_during_a_move(victim: &str) {
    const SOME: f64 = 500.0;
    let mut cluster = Cluster::start(&["a", "b"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    cluster.add("c", &[]);
    while cluster.node("c").metric("tollgate_slots_held").unwrap_or(0.0) < SOME {
        std::thread::sleep(Duration::from_millis(1));
    }
    let event = kill(&mut cluster, &[victim]);
    cluster.run_for(AFTERWARDS);
    let outcomes = cluster.end(&format!(
        "kill {} during a join",
        if victim == "c" { "who joins" } else { "who gives" }
    ));
    assert_survived(&outcomes, &event);
    for outcome in outcomes.each() {
        // Who follows a slot that has just moved may not have all of it.
        let burst = outcome.quota.burst;
        let within_lag = lost_within_lag(event.start);
        outcome.assert_excess_within(|checks| within_lag(checks) + burst);
    }
}

#[test]
fn scenario_one_joins_while_another_is_killed() {
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    let killed_us = cluster.now_us();
    cluster.kill("b");
    cluster.add("d", &[]);
    cluster.is_back("d");
    cluster.settle_on(&["a", "c", "d"]);
    let event = killed_us..cluster.now_us() + EVENT_US;
    cluster.run_for(AFTERWARDS);
    let outcomes = cluster.end("kill and join at once");
    assert_survived(&outcomes, &event);
    for outcome in outcomes.each() {
        let burst = outcome.quota.burst;
        let within_lag = lost_within_lag(event.start);
        outcome.assert_excess_within(|checks| within_lag(checks) + burst);
    }
}
