//! CPU: of a forwarded check, of a replicated one, and of nodes that nobody asks.

use crate::nodes::{Peer, WORKLOAD, closed, cpu_us, keys_of, settle, start, touch};
use crate::{Arguments, verdict};
use std::time::{Duration, Instant};
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::report::{digits3, median, range, table};
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::TollgateOptions;
use tollgate_loadgen::{CLIENT_CORE, Result, SERVER_CORE};

/// A forwarded check to one at its holder, both nodes together.
const FORWARDED_MAX: f64 = 2.5;
/// A check with replication to one without: of a million keys, of one.
const UNIFORM_MAX: f64 = 1.25;
const SINGLE_MAX: f64 = 1.05;
/// Of a core, for a node that nobody asks anything.
const IDLE_PERCENT_MAX: f64 = 1.0;
/// How long nodes idle.
const IDLE: Duration = Duration::from_secs(10);

/// The keys of a measurement.
fn distributions(names: &[&str], holder: &str, count: u32) -> [(&'static str, Distribution); 2] {
    let keys = keys_of(names, holder, count);
    let first = Distribution::Listed([keys[0]].into());
    [("uniform", Distribution::Listed(keys)), ("one key", first)]
}

fn row(name: &str, keys: &str, runs: &[f64]) -> Vec<String> {
    let (low, high) = range(runs);
    vec![
        name.to_owned(),
        keys.to_owned(),
        digits3(median(runs)),
        format!("{}–{}", digits3(low), digits3(high)),
    ]
}

const HEADER: [&str; 4] = ["CPU of the nodes, us a check", "keys", "median", "runs"];

/// Checks at their holder beside the same checks at the other node.
pub fn forwarded(arguments: &Arguments, options: &TollgateOptions) -> Result<()> {
    let a = start(SERVER_CORE, options, "a", Peer::First)?;
    let b = start(SERVER_CORE, options, "b", Peer::Joins(&a))?;
    settle(&[&a, &b])?;
    println!(
        "\n## Forwarded checks: pipeline 32, both nodes on one core, {} runs\n",
        arguments.runs
    );
    let template = WORKLOAD.check();
    touch(&b, &template, arguments.key_count)?;
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (keys, distribution) in distributions(&["a", "b"], "b", arguments.key_count) {
        let mut at_holder = closed(&b, &template, &distribution, arguments.connections)?;
        let mut elsewhere = closed(&a, &template, &distribution, arguments.connections)?;
        let (mut direct, mut forwarded, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..arguments.runs {
            let sum = |each: Vec<f64>| each.iter().sum::<f64>();
            let at_once = sum(cpu_us(&[&a, &b], &mut at_holder, arguments.seconds)?.0);
            let by_way = sum(cpu_us(&[&a, &b], &mut elsewhere, arguments.seconds)?.0);
            ratios.push(by_way / at_once);
            direct.push(at_once);
            forwarded.push(by_way);
        }
        rows.push(row("at the holder", keys, &direct));
        rows.push(row("forwarded, both nodes", keys, &forwarded));
        let ratio = median(&ratios);
        lines.push(format!(
            "{keys}: ratio {}, target ≤ {FORWARDED_MAX}: {}",
            digits3(ratio),
            verdict(ratio, FORWARDED_MAX)
        ));
    }
    print!("{}\n{}\n", table(&HEADER, &rows), lines.join("\n"));
    Ok(())
}

/// Checks at a node that replicates beside checks at one that has no peers.
pub fn replicated(arguments: &Arguments, options: &TollgateOptions) -> Result<()> {
    let alone = start(SERVER_CORE, options, "alone", Peer::None)?;
    let a = start(SERVER_CORE, options, "a", Peer::First)?;
    // Its heir beside the client, as on a machine of its own.
    let b = start(CLIENT_CORE, options, "b", Peer::Joins(&a))?;
    settle(&[&a, &b])?;
    println!(
        "\n## Replicated checks: pipeline 32, the heir on the client's core, {} runs\n",
        arguments.runs
    );
    let template = WORKLOAD.check();
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for ((keys, distribution), most) in distributions(&["a", "b"], "a", 2 * arguments.key_count)
        .into_iter()
        .zip([UNIFORM_MAX, SINGLE_MAX])
    {
        let loads = |node: &Server| closed(node, &template, &distribution, arguments.connections);
        let (mut off_load, mut on_load) = (loads(&alone)?, loads(&a)?);
        // All buckets are there before the first run.
        cpu_us(&[&alone], &mut off_load, 2.0 * arguments.seconds)?;
        cpu_us(&[&a], &mut on_load, 2.0 * arguments.seconds)?;
        let (mut off, mut on, mut heir, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..arguments.runs {
            let without = cpu_us(&[&alone], &mut off_load, arguments.seconds)?.0[0];
            let with = cpu_us(&[&a, &b], &mut on_load, arguments.seconds)?.0;
            ratios.push(with[0] / without);
            off.push(without);
            on.push(with[0]);
            heir.push(with[1]);
        }
        rows.push(row("without peers", keys, &off));
        rows.push(row("with replication", keys, &on));
        rows.push(row("the heir's part", keys, &heir));
        let ratio = median(&ratios);
        lines.push(format!(
            "{keys}: ratio {}, target ≤ {most}: {}",
            digits3(ratio),
            verdict(ratio, most)
        ));
    }
    print!("{}\n{}\n", table(&HEADER, &rows), lines.join("\n"));
    Ok(())
}

/// Nodes that nobody asks anything.
pub fn idle(_: &Arguments, options: &TollgateOptions) -> Result<()> {
    println!("\n## Idle nodes, over {} s\n", IDLE.as_secs());
    let a = start(SERVER_CORE, options, "a", Peer::First)?;
    settle(&[&a])?;
    let one = percent(&[&a])?;
    let b = start(SERVER_CORE, options, "b", Peer::Joins(&a))?;
    let c = start(SERVER_CORE, options, "c", Peer::Joins(&a))?;
    settle(&[&a, &b, &c])?;
    let three = percent(&[&a, &b, &c])?;
    let rows: Vec<Vec<String>> = [("one node", &one), ("each of three", &three)]
        .iter()
        .map(|(name, figures)| {
            let all: Vec<String> = figures.iter().map(|figure| digits3(*figure)).collect();
            vec![(*name).to_owned(), all.join(", ")]
        })
        .collect();
    let most = one.iter().chain(&three).copied().fold(0.0, f64::max);
    print!("{}", table(&["CPU, % of a core", "nodes"], &rows));
    println!(
        "\ntarget ≤ {IDLE_PERCENT_MAX} % each: {}",
        verdict(most, IDLE_PERCENT_MAX)
    );
    Ok(())
}

fn percent(nodes: &[&Server]) -> Result<Vec<f64>> {
    let cpu = || nodes.iter().map(|node| node.cpu()).collect::<Result<Vec<Duration>>>();
    // What a join has left to do.
    std::thread::sleep(Duration::from_secs(3));
    let (before, started) = (cpu()?, Instant::now());
    std::thread::sleep(IDLE);
    let (after, elapsed) = (cpu()?, started.elapsed());
    let share =
        |(after, before): (&Duration, &Duration)| 100.0 * (*after - *before).as_secs_f64() / elapsed.as_secs_f64();
    Ok(after.iter().zip(&before).map(share).collect())
}
