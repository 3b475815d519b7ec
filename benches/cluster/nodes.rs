//! Nodes of a cluster, and which keys are where.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_cluster::{Ring, SLOTS};
use tollgate_loadgen::closed::{ClosedLoop, Outcome, Plan, Until};
use tollgate_loadgen::keys::{Distribution, first_key, patch};
use tollgate_loadgen::metrics::Metrics;
use tollgate_loadgen::request::Template;
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::{TollgateOptions, Workload, start_tollgate};
use tollgate_loadgen::{Error, Result};
use tollgate_store::slot_of;

/// How long nodes may take to agree where all slots are.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// What every node is asked.
pub const WORKLOAD: Workload = Workload {
    limit: 100,
    window_s: 60,
};

/// Starts a node on a core: one without peers, the first of a cluster, or one that joins.
pub fn start(core: usize, options: &TollgateOptions, name: &str, peer: Peer<'_>) -> Result<Server> {
    let mut options = options.clone();
    options.arguments.extend(["--name", name, "--peer"].map(str::to_owned));
    match peer {
        Peer::None => options.arguments.push("off".to_owned()),
        Peer::First => options.arguments.push("127.0.0.1:0".to_owned()),
        Peer::Joins(seed) => {
            let seed = seed
                .peer
                .ok_or_else(|| Error::Setup(format!("{} has no peer address", seed.name)))?;
            options
                .arguments
                .extend(["127.0.0.1:0".to_owned(), "--join".to_owned(), seed.to_string()]);
        }
    }
    start_tollgate(core, &options)
}

/// What a node has to do with others.
pub enum Peer<'a> {
    None,
    First,
    Joins(&'a Server),
}

/// A metric of a node.
pub fn metric(node: &Server, name: &str) -> Result<f64> {
    let admin = node
        .admin
        .ok_or_else(|| Error::Setup(format!("{} has no admin listener", node.name)))?;
    Metrics::scrape(admin)?.sum(name)
}

/// Waits until all slots are held by these nodes, and each by the one that it belongs to.
pub fn settle(nodes: &[&Server]) -> Result<Duration> {
    let started = Instant::now();
    loop {
        let (mut held, mut astray, mut idle) = (0.0, 0.0, false);
        for node in nodes {
            let holds = metric(node, "tollgate_slots_held")?;
            held += holds;
            idle |= holds == 0.0;
            astray += metric(node, "tollgate_slots_astray")?;
        }
        if held == f64::from(SLOTS) && astray == 0.0 && !idle {
            return Ok(started.elapsed());
        }
        if started.elapsed() > SETTLE_MAX {
            return Err(Error::Setup(format!(
                "{held} slots are held, {astray} in the wrong place"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Of the first `count` keys, those that belong to one of the members of these names.
pub fn keys_of(names: &[&str], wanted: &str, count: u32) -> Arc<[u32]> {
    let members: Vec<(Arc<str>, u32)> = names.iter().map(|name| ((*name).into(), 1)).collect();
    let ring = Ring::new(&members, SLOTS);
    let is_wanted = |number: &u32| {
        let mut key = first_key();
        patch(&mut key, u64::from(*number));
        &*ring.names()[usize::from(ring.target(slot_of(&key)))] == wanted
    };
    (0..count).filter(is_wanted).collect()
}

/// A closed loop of pipelines of 32.
pub fn closed(
    node: &Server,
    template: &Template,
    distribution: &Distribution,
    connections: usize,
) -> Result<ClosedLoop> {
    let plan = Plan {
        template: template.clone(),
        distribution: distribution.clone(),
        connections,
        pipeline: 32,
        seed: 1,
    };
    ClosedLoop::connect(node.address, &plan)
}

/// CPU in microseconds a reply that each of some nodes took while a loop ran.
pub fn cpu_us(nodes: &[&Server], load: &mut ClosedLoop, seconds: f64) -> Result<(Vec<f64>, Outcome)> {
    let cpu = || nodes.iter().map(|node| node.cpu()).collect::<Result<Vec<Duration>>>();
    load.run(Until::Elapsed(Duration::from_secs_f64(seconds / 4.0)))?;
    let before = cpu()?;
    let outcome = load.run(Until::Elapsed(Duration::from_secs_f64(seconds)))?;
    let after = cpu()?;
    let each = after
        .iter()
        .zip(&before)
        .map(|(after, before)| (*after - *before).as_secs_f64() * 1e6 / outcome.replies as f64);
    Ok((each.collect(), outcome))
}

/// Asks for each key once.
pub fn touch(node: &Server, template: &Template, count: u32) -> Result<()> {
    let keys = Distribution::sequential(count.into());
    closed(node, template, &keys, 10)?.run(Until::Requests(count.into()))?;
    Ok(())
}
