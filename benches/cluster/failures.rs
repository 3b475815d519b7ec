//! What a client of a survivor sees when one of three nodes is killed, or stops.

use crate::moves::{capacity_per_s, stream};
use crate::nodes::{Peer, metric, settle, start, touch};
use crate::{Arguments, verdict};
use std::process::Command;
use std::time::{Duration, Instant};
use tollgate_cluster::SLOTS;
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::open::OpenLoop;
use tollgate_loadgen::report::{digits3, table};
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::TollgateOptions;
use tollgate_loadgen::{Error, Result, SERVER_CORE};

/// p99.9 of checks at a survivor while a peer fails, in milliseconds.
const P999_MS_MAX: f64 = 10.0;
/// From a kill to every slot having a holder again, in seconds.
const TAKEOVER_S_MAX: f64 = 2.0;
/// The part of what a node can do that the load is.
const LOAD: f64 = 0.2;
/// How long the load goes on before, and after.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(8);
/// How long a node is stopped.
const STOPPED: Duration = Duration::from_secs(3);
/// Keys asked for.
const KEYS: u32 = 100_000;

/// What happens to the third node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Killed,
    Stopped,
}

/// Kills and stops.
pub fn failures(arguments: &Arguments, options: &TollgateOptions) -> Result<()> {
    println!(
        "\n## One of three nodes fails, {} s of load at a survivor\n",
        (BEFORE + AFTER).as_secs()
    );
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for failure in [Failure::Killed, Failure::Stopped] {
        for run in 0..arguments.runs.min(3) {
            let seen = fail(failure, arguments, options)?;
            let mut row = vec![format!("{failure:?} {run}"), format!("{:.0}", seen.rate_per_s)];
            row.extend(seen.latencies_ms.map(digits3));
            row.push(seen.takeover_s.map_or("–".to_owned(), digits3));
            rows.push(row);
            let mut line = format!(
                "{failure:?} {run}: p99.9 {}, target ≤ {P999_MS_MAX} ms: {}",
                digits3(seen.latencies_ms[2]),
                verdict(seen.latencies_ms[2], P999_MS_MAX)
            );
            if let Some(takeover_s) = seen.takeover_s {
                line += &format!(
                    "; every slot held again after {} s, target ≤ {TAKEOVER_S_MAX}: {}",
                    digits3(takeover_s),
                    verdict(takeover_s, TAKEOVER_S_MAX)
                );
            }
            lines.push(line);
        }
    }
    let header = ["checks, ms", "a second", "p50", "p99", "p99.9", "max", "takeover s"];
    print!("{}\n{}\n", table(&header, &rows), lines.join("\n"));
    println!(
        "A cut is what a stop looks like to the others; without the rights to cut the loopback it is left to the tests."
    );
    Ok(())
}

struct Seen {
    rate_per_s: f64,
    /// p50, p99, p99.9, max.
    latencies_ms: [f64; 4],
    takeover_s: Option<f64>,
}

fn fail(failure: Failure, arguments: &Arguments, options: &TollgateOptions) -> Result<Seen> {
    let a = start(SERVER_CORE, options, "a", Peer::First)?;
    let b = start(SERVER_CORE, options, "b", Peer::Joins(&a))?;
    let mut c = start(SERVER_CORE, options, "c", Peer::Joins(&a))?;
    settle(&[&a, &b, &c])?;
    let keys = Distribution::uniform(KEYS.into());
    touch(&a, &crate::nodes::WORKLOAD.check(), KEYS)?;
    let rate_per_s = LOAD * capacity_per_s(&a, &keys, arguments.connections)?;
    // The heirs are in step.
    std::thread::sleep(Duration::from_secs(2));
    let mut load = OpenLoop::connect(a.address, &[stream(&keys, arguments.connections, rate_per_s)])?;
    let (outcome, takeover_s) = std::thread::scope(|scope| -> Result<_> {
        let (a, b, c) = (&a, &b, &mut c);
        let failing = scope.spawn(move || -> Result<Option<f64>> {
            std::thread::sleep(BEFORE);
            match failure {
                Failure::Killed => {
                    let killed = Instant::now();
                    c.kill()?;
                    until_held(&[a, b])?;
                    Ok(Some(killed.elapsed().as_secs_f64()))
                }
                Failure::Stopped => {
                    signal(c, "-STOP")?;
                    std::thread::sleep(STOPPED);
                    signal(c, "-CONT")?;
                    Ok(None)
                }
            }
        });
        let outcome = load.run(BEFORE + AFTER)?.remove(0);
        let takeover_s = failing
            .join()
            .map_err(|_| Error::Setup("a thread failed".to_owned()))??;
        Ok((outcome, takeover_s))
    })?;
    let ms = |quantile: f64| outcome.latency_ns.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Seen {
        rate_per_s,
        latencies_ms: [0.5, 0.99, 0.999, 1.0].map(ms),
        takeover_s,
    })
}

/// Waits until these nodes hold all slots.
fn until_held(nodes: &[&Server]) -> Result<()> {
    let started = Instant::now();
    loop {
        let mut held = 0.0;
        for node in nodes {
            held += metric(node, "tollgate_slots_held")?;
        }
        if held == f64::from(SLOTS) {
            return Ok(());
        }
        if started.elapsed() > AFTER {
            return Err(Error::Setup(format!("{held} slots are held")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(node: &Server, signal: &str) -> Result<()> {
    let status = Command::new("kill")
        .args([signal, &node.pid().to_string()])
        .status()
        .map_err(Error::io("run kill"))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Setup(format!("kill {signal} failed"))),
    }
}
