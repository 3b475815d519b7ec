//! Names, lives, addresses and clocks of nodes.

use std::time::Duration;

use tollgate_suite::Node;

use crate::cluster::Cluster;
use crate::load::Plan;

const BEFORE: Duration = Duration::from_secs(2);
const AFTERWARDS: Duration = Duration::from_secs(4);

#[test]
fn scenario_a_second_process_of_a_name_starts() {
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    let views = |cluster: &Cluster| ["a", "b", "c"].map(|name| cluster.node(name).metric("tollgate_views_total"));
    let before = views(&cluster);
    for _ in 0..3 {
        let mut args = cluster.args_of("b", None);
        // It asks the one that has the name too.
        let peer = cluster.node("b").peer().expect("a peer address");
        args.extend(["--join".to_owned(), peer.to_string()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let failure = Node::try_start(&args).expect_err("it does not start");
        assert!(
            failure.log.contains("the name \"b\" belongs to a node that answers at"),
            "{}",
            failure.log
        );
        assert_eq!(failure.status.code(), Some(1));
    }
    assert_eq!(views(&cluster), before, "the others have not noticed");
    cluster.run_for(AFTERWARDS);
    cluster.end("same name twice").assert_planned();
}

#[test]
fn scenario_a_node_moves_to_another_address() {
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    for name in ["b", "a"] {
        let before = cluster.node(name).peer();
        cluster.take_out(name);
        cluster.leave(name);
        cluster.forget(name);
        cluster.add(name, &[]);
        assert_ne!(cluster.node(name).peer(), before);
        cluster.settle();
        cluster.is_back(name);
    }
    cluster.run_for(AFTERWARDS);
    cluster.end("address changes").assert_planned();
}

#[test]
fn scenario_clocks_are_wrong_by_five_seconds() {
    const TTL_MS: i64 = 60_000;
    let wrong_by = |ms: &'static str| [("TEST_WALL_CLOCK_WRONG_BY_MS", ms)];
    let mut cluster = Cluster::empty(&[]);
    cluster.add("a", &[]);
    cluster.add("b", &wrong_by("5000"));
    cluster.settle();
    let mut clients = ["a", "b"].map(|name| cluster.node(name).client());
    let seconds =
        |client: &mut tollgate_suite::Client| client.line("TIME").items()[0].text().parse::<i64>().expect("a number");
    let [at_a, at_b] = &mut clients;
    let apart = seconds(at_b) - seconds(at_a);
    assert!((4..=6).contains(&apart), "the clock of b is wrong: {apart}");
    let began = std::time::Instant::now();
    for key in 0..100 {
        assert_eq!(at_a.line(&format!("SET ttl:{key} x PX {TTL_MS}")).text(), "OK");
    }
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    cluster.add("c", &wrong_by("-5000"));
    cluster.settle();
    cluster.is_back("c");
    cluster.run_for(BEFORE);
    cluster.take_out("b");
    cluster.leave("b");
    cluster.settle_on(&["a", "c"]);
    // What keys have left does not depend on whose clock they went by.
    for name in ["a", "c"] {
        let mut client = cluster.node(name).client();
        for key in 0..100 {
            let elapsed_ms = began.elapsed().as_millis() as i64;
            let left_ms = client.line(&format!("PTTL ttl:{key}")).int();
            let late_ms = left_ms - (TTL_MS - elapsed_ms);
            assert!(
                (-50..2_000).contains(&late_ms),
                "ttl:{key} at {name} has {left_ms} ms, {late_ms} too many"
            );
        }
    }
    cluster.run_for(AFTERWARDS);
    cluster.end("clocks 5 s off").assert_planned();
}

#[test]
fn scenario_a_node_restarts_fifty_times() {
    const RESTARTS: usize = 50;
    const GROWTH_BYTES_MAX: f64 = 24e6;
    let mut cluster = Cluster::start(&["a", "b"]);
    let resident = |cluster: &Cluster| {
        cluster
            .node("a")
            .metric("process_resident_memory_bytes")
            .expect("a metric")
    };
    // What the first few cost is there for good.
    for _ in 0..5 {
        restart(&mut cluster, "b");
    }
    let before = resident(&cluster);
    for _ in 0..RESTARTS - 5 {
        restart(&mut cluster, "b");
    }
    let members = |cluster: &Cluster| cluster.node("a").metric("tollgate_members{").expect("a metric");
    tollgate_suite::until("one live entry a name", || members(&cluster) == 2.0);
    let grown = resident(&cluster) - before;
    assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes more");
    // If it has been in the ring often enough, it has to wait until it gets slots again.
    let held = |name: &str| cluster.node(name).metric("tollgate_slots_held").expect("a metric");
    tollgate_suite::until("each slot has a holder", || held("a") + held("b") == 16_384.0);
}

/// SIGKILL, and a start at once.
fn restart(cluster: &mut Cluster, name: &str) {
    cluster.kill(name);
    cluster.start_again(name);
    cluster.is_back(name);
}
