//! What operators do: a node joins, leaves, restarts. Nobody is given a token too many, and no command fails.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::load::Plan;
use crate::second_client::Library;

const BEFORE: Duration = Duration::from_secs(3);
const AFTERWARDS: Duration = Duration::from_secs(4);

#[test]
fn scenario_a_node_joins_under_load() {
    let mut cluster = Cluster::start_redirecting(&["a", "b"]);
    cluster.begin_beside(Plan::default(), &[Library::Ioredis, Library::RedisCli]);
    cluster.run_for(BEFORE);
    cluster.add("c", &[]);
    cluster.is_back("c");
    cluster.settle();
    cluster.run_for(AFTERWARDS);
    cluster.end("join").assert_planned();
}

#[test]
fn scenario_a_node_leaves_under_load() {
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    cluster.leave("b");
    cluster.settle_on(&["a", "c"]);
    cluster.run_for(AFTERWARDS);
    cluster.end("drain").assert_planned();
}

#[test]
fn scenario_three_nodes_restart_one_after_the_other() {
    let mut cluster = Cluster::start(&["a", "b", "c"]);
    cluster.begin(Plan::default());
    cluster.run_for(BEFORE);
    for name in ["a", "b", "c"] {
        cluster.take_out(name);
        cluster.leave(name);
        cluster.start_again(name);
        cluster.settle();
        cluster.is_back(name);
    }
    cluster.run_for(AFTERWARDS);
    cluster.end("rolling restart").assert_planned();
}
