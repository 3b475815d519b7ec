//! Slots that move to a node that joins, while checks go on.

use crate::nodes::{Peer, WORKLOAD, closed, metric, start, touch};
use crate::{Arguments, verdict};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tollgate_cluster::SLOTS;
use tollgate_loadgen::closed::Until;
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::open::{Arrivals, OpenLoop, Outcome, Stream};
use tollgate_loadgen::report::{digits3, table};
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::TollgateOptions;
use tollgate_loadgen::{Error, Result, SERVER_CORE};

/// A million buckets move in so many seconds.
const SECONDS_MAX: f64 = 5.0;
/// p99 of checks meanwhile, in milliseconds.
const P99_MS_MAX: f64 = 5.0;
/// The part of what the node can do that the load is.
const LOAD: f64 = 0.2;
/// One piece of the load.
const PIECE: Duration = Duration::from_millis(500);
/// How long a move may take.
const MOVE_MAX: Duration = Duration::from_secs(60);

/// How much a node can do at pipeline 1, in checks a second.
pub fn capacity_per_s(node: &Server, distribution: &Distribution, connections: usize) -> Result<f64> {
    let plan = tollgate_loadgen::closed::Plan {
        template: WORKLOAD.check(),
        distribution: distribution.clone(),
        connections,
        pipeline: 1,
        seed: 2,
    };
    let mut load = tollgate_loadgen::closed::ClosedLoop::connect(node.address, &plan)?;
    load.run(Until::Elapsed(Duration::from_millis(500)))?;
    Ok(load.run(Until::Elapsed(Duration::from_secs(2)))?.rate_per_s())
}

/// An open loop of checks.
pub fn stream(distribution: &Distribution, connections: usize, rate_per_s: f64) -> Stream {
    Stream {
        template: WORKLOAD.check(),
        distribution: distribution.clone(),
        connections,
        rate_per_s,
        burst: 1,
        arrivals: Arrivals::Poisson,
        seed: 3,
    }
}

/// When slots began to move, and when the last was where it belongs.
fn watch(nodes: [&Server; 2], stop: &AtomicBool) -> Result<(Instant, Instant)> {
    let started = Instant::now();
    let mut began = None;
    loop {
        let astray = metric(nodes[0], "tollgate_slots_astray")?;
        let held = [
            metric(nodes[0], "tollgate_slots_held")?,
            metric(nodes[1], "tollgate_slots_held")?,
        ];
        let now = Instant::now();
        if astray > 0.0 || held[1] > 0.0 {
            began.get_or_insert(now);
        }
        let all = held[0] + held[1] == f64::from(SLOTS) && held[1] > 0.0;
        if let Some(began) = began.filter(|_| all && astray == 0.0) {
            return Ok((began, now));
        }
        if started.elapsed() > MOVE_MAX || stop.load(Ordering::Relaxed) {
            return Err(Error::Setup(format!("{astray} slots are still in the wrong place")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A node joins another that has twice as many buckets as are to move.
pub fn join(arguments: &Arguments, options: &TollgateOptions) -> Result<()> {
    let buckets = 2 * arguments.moved;
    let a = start(SERVER_CORE, options, "a", Peer::First)?;
    let keys = Distribution::uniform(buckets.into());
    touch(&a, &WORKLOAD.check(), buckets)?;
    let rate = LOAD * capacity_per_s(&a, &keys, arguments.connections)?;
    println!(
        "\n## {} buckets move to a node that joins, at {rate:.0} checks a second\n",
        arguments.moved
    );
    let mut load = OpenLoop::connect(a.address, &[stream(&keys, arguments.connections, rate)])?;
    let quiet = load.run(Duration::from_secs(2))?.remove(0);
    let b = start(SERVER_CORE, options, "b", Peer::Joins(&a))?;
    let stop = AtomicBool::new(false);
    let (moved, meanwhile) = std::thread::scope(|scope| -> Result<_> {
        let watcher = scope.spawn(|| watch([&a, &b], &stop));
        let mut meanwhile: Option<Outcome> = None;
        while !watcher.is_finished() {
            let piece = match load.run(PIECE) {
                Ok(mut pieces) => pieces.remove(0),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            };
            match &mut meanwhile {
                None => meanwhile = Some(piece),
                Some(all) => all.add(&piece)?,
            }
        }
        let moved = watcher
            .join()
            .map_err(|_| Error::Setup("the watcher failed".to_owned()))??;
        Ok((moved, meanwhile))
    })?;
    let seconds = (moved.1 - moved.0).as_secs_f64();
    let there = metric(&b, "tollgate_buckets")?;
    let ms = |outcome: &Outcome, quantile: f64| outcome.latency_ns.value_at_quantile(quantile) as f64 / 1e6;
    let rows: Vec<Vec<String>> = [("before", Some(&quiet)), ("meanwhile", meanwhile.as_ref())]
        .into_iter()
        .filter_map(|(name, outcome)| {
            let outcome = outcome?;
            let mut row = vec![name.to_owned()];
            row.extend([0.5, 0.99, 0.999, 1.0].map(|quantile| digits3(ms(outcome, quantile))));
            Some(row)
        })
        .collect();
    print!("{}", table(&["checks, ms", "p50", "p99", "p99.9", "max"], &rows));
    let per_million = seconds * 1e6 / f64::from(arguments.moved);
    println!(
        "\n{there:.0} buckets are at the new node; {} s from the first slot in the wrong place to the last; {} s a million, target ≤ {SECONDS_MAX}: {}",
        digits3(seconds),
        digits3(per_million),
        verdict(per_million, SECONDS_MAX)
    );
    if let Some(meanwhile) = &meanwhile {
        let p99_ms = ms(meanwhile, 0.99);
        println!(
            "p99 meanwhile, target ≤ {P99_MS_MAX} ms: {}",
            verdict(p99_ms, P99_MS_MAX)
        );
    }
    // Still the same buckets, wherever they are.
    closed(&b, &WORKLOAD.check(), &keys, 1)?.run(Until::Requests(1000))?;
    Ok(())
}
