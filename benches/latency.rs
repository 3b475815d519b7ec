//! Latency at a fixed rate beside Redis, and while ten million buckets grow and are swept: `cargo bench --bench latency`.

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tollgate_loadgen::bench::{ServerArguments, exit_code};
use tollgate_loadgen::closed::{ClosedLoop, Plan, Until};
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::metrics::Metrics;
use tollgate_loadgen::open::{Arrivals, OpenLoop, Outcome, Stream};
use tollgate_loadgen::report::{digits3, median, range, table, us};
use tollgate_loadgen::request::Template;
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::{Target, TollgateOptions, Workload};
use tollgate_loadgen::{CLIENT_CORE, Error, Result, echo, machine};

/// Pipeline at which keys are touched before a run.
const TOUCH_PIPELINE: usize = 32;
/// Requests that arrive together in the load that makes buckets.
const GROWTH_BURST: usize = 32;
/// Connections of the load that makes buckets.
const GROWTH_CONNECTIONS: usize = 10;
/// Buckets to be swept are full again after this long.
const GROWTH_WINDOW_S: u32 = 60;
/// Sweeping all buckets may take this long after the last of them may go.
const SWEEP_MAX: Duration = Duration::from_secs(300);
/// Latency while buckets are swept is measured in pieces of this long; between two of them the count of buckets is read.
const SWEEP_PIECE: Duration = Duration::from_secs(5);
/// A stretch of a shard that is longer is too long.
const STRETCH_MAX_MS: f64 = 2.0;
/// p99.9 beside Redis's at the same rate.
const RATIO_MAX: f64 = 1.0;

/// Measures latency from the time a request was due, at half of what Redis can do.
#[derive(Debug, Parser)]
struct Arguments {
    /// Requests a second; without it, half of what Redis's EVALSHA did at pipeline 1 just before.
    #[arg(long)]
    rate: Option<f64>,
    /// Targets to run, in their order.
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = Target::parse,
        default_value = "redis-evalsha,tollgate-check"
    )]
    targets: Vec<Target>,
    /// Different keys, uniform.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    key_count: u32,
    /// Connections.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Runs of each target; the median counts.
    #[arg(long, default_value_t = 5, default_value_if("quick", "true", "1"),
          value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Seconds measured in a run.
    #[arg(long, default_value_t = 10.0, default_value_if("quick", "true", "2"))]
    seconds: f64,
    /// Buckets to grow to and sweep; 0 leaves that out.
    #[arg(long, default_value_t = 10_000_000, default_value_if("quick", "true", "1000000"))]
    grow: u32,
    /// New buckets a second while growing.
    #[arg(long, default_value_t = 250_000.0)]
    growth_rate: f64,
    /// One run of two seconds, a tenth of the buckets, unless set otherwise: to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    servers: ServerArguments,
}

fn main() -> ExitCode {
    echo::serve_if_asked();
    let arguments = Arguments::parse();
    exit_code("latency", latency(&arguments))
}

fn latency(arguments: &Arguments) -> Result<()> {
    let grows = arguments.grow > 0;
    let needs_tollgate = grows || arguments.targets.iter().any(|target| target.is_tollgate());
    let options = arguments.servers.begin("latency", needs_tollgate)?;
    println!(
        "- open loop, Poisson arrivals, {} connections; latency counts from the time a request was due; the client never sleeps",
        arguments.connections
    );
    println!(
        "- 20-byte keys, uniform over {}; limit 100 in 60 s, burst 100, cost 1",
        arguments.key_count
    );
    machine::pin(CLIENT_CORE)?;
    let rate_per_s = match arguments.rate {
        Some(rate) => rate,
        None => half_of_redis(arguments, &options)?,
    };
    at_a_fixed_rate(arguments, &options, rate_per_s)?;
    if grows {
        growth_and_sweep(arguments, &options, rate_per_s)?;
    }
    println!("\nload average at the end {}", machine::load_average());
    Ok(())
}

const WORKLOAD: Workload = Workload {
    limit: 100,
    window_s: 60,
};

/// Half of what Redis's EVALSHA does a second in a closed loop at pipeline 1.
fn half_of_redis(arguments: &Arguments, options: &TollgateOptions) -> Result<f64> {
    let (server, template) = Target::RedisEvalsha.start(WORKLOAD, options)?;
    touch(&server, &template, arguments)?;
    let plan = Plan {
        template,
        distribution: Distribution::uniform(arguments.key_count.into()),
        connections: arguments.connections,
        pipeline: 1,
        seed: 1,
    };
    let mut load = ClosedLoop::connect(server.address, &plan)?;
    load.run(Until::Elapsed(Duration::from_secs(1)))?;
    let outcome = load.run(Until::Elapsed(Duration::from_secs(3)))?;
    let capacity = outcome.rate_per_s();
    println!(
        "- {}: EVALSHA does {capacity:.0} a second in a closed loop at pipeline 1; half of it is the rate",
        server.name
    );
    Ok(capacity / 2.0)
}

fn touch(server: &Server, template: &Template, arguments: &Arguments) -> Result<()> {
    let plan = Plan {
        template: template.clone(),
        distribution: Distribution::sequential(arguments.key_count.into()),
        connections: arguments.connections,
        pipeline: TOUCH_PIPELINE,
        seed: 0,
    };
    ClosedLoop::connect(server.address, &plan)?.run(Until::Requests(arguments.key_count.into()))?;
    Ok(())
}

fn probe(arguments: &Arguments, template: &Template, rate_per_s: f64, seed: u64) -> Stream {
    Stream {
        template: template.clone(),
        distribution: Distribution::uniform(arguments.key_count.into()),
        connections: arguments.connections,
        rate_per_s,
        burst: 1,
        arrivals: Arrivals::Poisson,
        seed,
    }
}

const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

fn at_a_fixed_rate(arguments: &Arguments, options: &TollgateOptions, rate_per_s: f64) -> Result<()> {
    let mut running = Vec::new();
    for &target in &arguments.targets {
        let (server, template) = target.start(WORKLOAD, options)?;
        println!("- {} ({}): `{}`", target.name(), server.name, template.words());
        running.push((target, server, template, Vec::new()));
    }
    for round in 0..arguments.runs {
        for (target, server, template, runs) in &mut running {
            if target.keeps_keys() {
                touch(server, template, arguments)?;
            }
            let stream = probe(arguments, template, rate_per_s, u64::from(round) + 1);
            let mut load = OpenLoop::connect(server.address, &[stream])?;
            load.run(Duration::from_secs(1))?;
            runs.extend(load.run(Duration::from_secs_f64(arguments.seconds))?);
        }
    }
    println!(
        "\n## {rate_per_s:.0} requests a second, {} runs of {} s, interleaved; medians\n",
        arguments.runs, arguments.seconds
    );
    let rows: Vec<Vec<String>> = running
        .iter()
        .map(|(target, _, _, runs)| latency_row(target.name(), runs))
        .collect();
    print_latencies(&rows);
    let p999 = |wanted: Target| {
        let (_, _, _, runs) = running.iter().find(|(target, ..)| *target == wanted)?;
        Some(at_quantile(runs, 0.999))
    };
    if let (Some(ours), Some(redis)) = (p999(Target::TollgateCheck), p999(Target::RedisEvalsha)) {
        let ratios: Vec<f64> = ours.iter().zip(&redis).map(|(a, b)| a / b).collect();
        let (low, high) = range(&ratios);
        let ratio = median(&ratios);
        println!(
            "\np99.9 to Redis EVALSHA's at the same rate: {} (runs {}–{}), target ≤ {RATIO_MAX:.1}: {}",
            digits3(ratio),
            digits3(low),
            digits3(high),
            if ratio <= RATIO_MAX { "reached" } else { "not reached" }
        );
    }
    Ok(())
}

/// The latency at a quantile in each run, in nanoseconds.
fn at_quantile(runs: &[Outcome], quantile: f64) -> Vec<f64> {
    runs.iter()
        .map(|run| run.latency_ns.value_at_quantile(quantile) as f64)
        .collect()
}

fn latency_row(name: &str, runs: &[Outcome]) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    for (_, quantile) in QUANTILES {
        row.push(us(median(&at_quantile(runs, quantile)) as u64));
    }
    let lag = |quantile| {
        let lags: Vec<f64> = runs
            .iter()
            .map(|run| run.send_lag_ns.value_at_quantile(quantile) as f64)
            .collect();
        us(median(&lags) as u64)
    };
    row.extend([lag(0.999), lag(1.0)]);
    row
}

fn print_latencies(rows: &[Vec<String>]) {
    let mut header = vec!["latency in us"];
    header.extend(QUANTILES.map(|(name, _)| name));
    // What the client itself was late: latencies below it are the client's, not the server's.
    header.extend(["client late p99.9", "client late max"]);
    print!("{}", table(&header, rows));
}

/// Grows to many buckets that are full again after a while, and waits until all are swept, under the same open loop.
fn growth_and_sweep(arguments: &Arguments, options: &TollgateOptions, rate_per_s: f64) -> Result<()> {
    let (server, template) = Target::TollgateCheck.start(WORKLOAD, options)?;
    let admin = server
        .admin
        .ok_or_else(|| Error::Setup("the server has no admin listener".to_owned()))?;
    let buckets = || Metrics::scrape(admin)?.sum("tollgate_buckets");
    let stretch_ms = || Ok(Metrics::scrape(admin)?.max("tollgate_shard_longest_stretch_seconds")? * 1e3);
    let probe = probe(arguments, &template, rate_per_s, 1);
    let growth = Stream {
        template: Workload {
            limit: 1,
            window_s: GROWTH_WINDOW_S,
        }
        .check(),
        distribution: Distribution::Sequential {
            from: arguments.key_count.into(),
            count: arguments.grow.into(),
        },
        connections: GROWTH_CONNECTIONS,
        rate_per_s: arguments.growth_rate,
        burst: GROWTH_BURST,
        arrivals: Arrivals::Even,
        seed: 1,
    };
    println!(
        "\n## {} buckets made at {:.0} a second, full again after {GROWTH_WINDOW_S} s, swept; beside the same open loop\n",
        arguments.grow, arguments.growth_rate
    );
    touch(&server, &template, arguments)?;
    let mut before = OpenLoop::connect(server.address, std::slice::from_ref(&probe))?;
    let quiet = before.run(Duration::from_secs_f64(arguments.seconds))?;
    drop(before);
    let kept_buckets = buckets()?;
    let (quiet_ms, quiet_bytes) = (stretch_ms()?, server.resident_bytes()?);

    let growing = Duration::from_secs_f64(f64::from(arguments.grow) / arguments.growth_rate);
    let mut load = OpenLoop::connect(server.address, &[probe.clone(), growth])?;
    let grown = load.run(growing)?;
    drop(load);
    let grown_at = Instant::now();
    let (most_buckets, grown_bytes) = (buckets()?, server.resident_bytes()?);
    let grown_ms = stretch_ms()?;

    let mut swept: Option<Outcome> = None;
    let mut load = OpenLoop::connect(server.address, &[probe])?;
    let deadline = Duration::from_secs(GROWTH_WINDOW_S.into()) * 2 + SWEEP_MAX;
    while buckets()? > kept_buckets.max(arguments.key_count.into()) {
        if grown_at.elapsed() > deadline {
            return Err(Error::Setup(format!(
                "{} buckets are still there {} s after the last was made",
                buckets()?,
                grown_at.elapsed().as_secs()
            )));
        }
        for piece in load.run(SWEEP_PIECE)? {
            match &mut swept {
                None => swept = Some(piece),
                Some(swept) => swept.add(&piece)?,
            }
        }
    }
    let (swept_buckets, swept_bytes) = (buckets()?, server.resident_bytes()?);
    let swept_ms = stretch_ms()?;

    let mut rows = vec![latency_row("before", &quiet), latency_row("while growing", &grown[..1])];
    rows.extend(swept.map(|swept| latency_row("while swept", &[swept])));
    print_latencies(&rows);
    println!();
    let mb = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
    let row = |when: &str, count: f64, bytes: u64, stretch: f64| {
        vec![when.to_owned(), format!("{count:.0}"), mb(bytes), digits3(stretch)]
    };
    let rows = [
        row("before", kept_buckets, quiet_bytes, quiet_ms),
        row("grown", most_buckets, grown_bytes, grown_ms),
        row("swept", swept_buckets, swept_bytes, swept_ms),
    ];
    let header = ["at the end of", "buckets", "resident MB", "longest stretch so far, ms"];
    print!("{}", table(&header, &rows));
    println!(
        "\nlongest stretch of a shard without returning to its loop: {} ms, target ≤ {STRETCH_MAX_MS:.0} ms: {}",
        digits3(swept_ms),
        if swept_ms <= STRETCH_MAX_MS {
            "reached"
        } else {
            "not reached"
        }
    );
    Ok(())
}
