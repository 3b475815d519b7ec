//! Nodes that stand still and go on, and nodes that wait for a processor.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::load::Plan;
use crate::outcome::given_in;
use crate::second_client::Library;

const BEFORE: Duration = Duration::from_secs(3);
const AFTERWARDS: Duration = Duration::from_secs(5);
const LAG_US: u64 = 250_000;
const EVENT_US: u64 = 1_000_000;

#[test]
fn scenario_a_node_is_stopped_and_goes_on() {
    // Too short to be a death, and long enough to be one.
    const SHORT: Duration = Duration::from_millis(400);
    const LONG: Duration = Duration::from_secs(5);
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    let mut events = Vec::new();
    for pause in [SHORT, LONG] {
        let stopped_us = cluster.now_us();
        cluster.pause("b");
        cluster.run_for(pause);
        cluster.go_on("b");
        cluster.settle();
        cluster.is_back("b");
        events.push(stopped_us..cluster.now_us() + EVENT_US);
        cluster.run_for(AFTERWARDS);
    }
    let outcomes = cluster.end("SIGSTOP, SIGCONT");
    for outcome in outcomes.each() {
        outcome.assert_checks_are_answered();
        outcome.assert_calm_outside(&events);
        outcome.assert_excess_within(|checks| {
            let stopped_us = events[1].start;
            given_in(checks, &(stopped_us.saturating_sub(LAG_US)..stopped_us + LAG_US))
        });
    }
}

/// Processes that take all the time that they are given.
struct Busy(Vec<Child>);

impl Busy {
    fn start(count: usize) -> Self {
        let start = |_| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            shell.spawn().expect("a shell")
        };
        Self((0..count).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn scenario_others_take_all_processors() {
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan {
        keys: 500,
        others_per_s: 100.0,
        ..Plan::default()
    });
    cluster.run_for(BEFORE);
    let gone = |cluster: &Cluster| cluster.logs().matches("member_gone").count();
    let before = gone(&cluster);
    let processors = std::thread::available_parallelism().map_or(2, |count| count.get());
    let busy = Busy::start(2 * processors);
    cluster.run_for(Duration::from_secs(10));
    drop(busy);
    assert_eq!(gone(&cluster), before, "nobody has died:\n{}", cluster.logs());
    cluster.run_for(AFTERWARDS);
    cluster.end("no free processor").assert_planned();
}

#[test]
fn scenario_a_slow_script_runs_at_a_holder() {
    let mut cluster = Cluster::start_redirecting(&["a", "b", "c"]);
    cluster.begin_beside(Plan::default(), &[Library::RedisCli]);
    cluster.run_for(BEFORE);
    let mut at_b = cluster.node("b").client();
    // A key that b has: there it counts.
    let held = |client: &mut tollgate_suite::Client| client.line("DBSIZE").int();
    let key = (0..).map(|n| format!("slow:{n}")).find(|key| {
        let before = held(&mut cluster.node("b").client());
        cluster.node("a").client().command(&["SET", key, "0"]);
        held(&mut cluster.node("b").client()) > before
    });
    let key = key.expect("b has some keys");
    for _ in 0..5 {
        let reply = at_b.command(&["EVAL", "while true do redis.call('INCR', KEYS[1]) end", "1", &key]);
        assert!(reply.is_error(), "{reply:?}");
    }
    cluster.run_for(AFTERWARDS);
    cluster.end("slow script at a holder").assert_planned();
}
