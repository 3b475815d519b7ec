//! CPU time per operation of Tollgate beside Redis, redis-cell and an echo: `cargo bench --bench compare`.

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tollgate_loadgen::bench::{ServerArguments, exit_code};
use tollgate_loadgen::closed::{ClosedLoop, Outcome, Plan, Until};
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::report::{digits3, median, range, table, us};
use tollgate_loadgen::request::Template;
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::{Target, TollgateOptions, Workload};
use tollgate_loadgen::{CLIENT_CORE, Result, echo, machine};

/// Keys are all touched again before a run when this long has passed since: Redis's script lets them expire after 2 min.
const TOUCHED_FOR: Duration = Duration::from_secs(45);
/// Pipeline at which keys are touched.
const TOUCH_PIPELINE: usize = 32;

/// Compares the CPU time that servers need for one operation, in interleaved runs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Targets to run, in their order; all without.
    #[arg(long, value_delimiter = ',', value_parser = Target::parse)]
    targets: Vec<Target>,
    /// Pipelines to run.
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    pipelines: Vec<usize>,
    /// Key distributions to run: uniform, zipf, single; all without.
    #[arg(long, value_delimiter = ',')]
    keys: Vec<Keys>,
    /// Different keys of uniform and Zipf.
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
    #[arg(long, default_value_t = 2.0, default_value_if("quick", "true", "1"))]
    seconds: f64,
    /// Seconds of the same load before that.
    #[arg(long, default_value_t = 1.0, default_value_if("quick", "true", "0.5"))]
    warm_up: f64,
    /// Limit 100 in this many seconds.
    #[arg(long, default_value_t = 60)]
    window: u32,
    /// One run of one second, uniform keys only, unless set otherwise: to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    servers: ServerArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Keys {
    Uniform,
    Zipf,
    Single,
}

/// A target that runs.
struct Running {
    target: Target,
    server: Server,
    template: Template,
    touched: Option<Instant>,
}

/// One run of one target.
#[derive(Clone, Debug)]
struct Run {
    server_us: f64,
    client_us: f64,
    rate_per_s: f64,
    server_busy: f64,
    outcome: Outcome,
}

/// The runs of every target at one distribution and pipeline.
struct Cell {
    keys: Keys,
    pipeline: usize,
    runs: Vec<(Target, Vec<Run>)>,
}

fn main() -> ExitCode {
    echo::serve_if_asked();
    let mut arguments = Arguments::parse();
    if arguments.keys.is_empty() {
        arguments.keys = if arguments.quick {
            vec![Keys::Uniform]
        } else {
            vec![Keys::Uniform, Keys::Zipf, Keys::Single]
        };
    }
    if arguments.targets.is_empty() {
        arguments.targets = Target::ALL.to_vec();
    }
    exit_code("compare", compare(&arguments))
}

fn compare(arguments: &Arguments) -> Result<()> {
    let needs_tollgate = arguments.targets.iter().any(|target| target.is_tollgate());
    let options = arguments.servers.begin("compare", needs_tollgate)?;
    print_conditions(arguments);
    let mut running = start(arguments, &options)?;
    machine::pin(CLIENT_CORE)?;
    let mut cells = Vec::new();
    for &keys in &arguments.keys {
        let distribution = match keys {
            Keys::Uniform => Distribution::uniform(arguments.key_count.into()),
            Keys::Zipf => Distribution::zipf(arguments.key_count),
            Keys::Single => Distribution::Single,
        };
        for &pipeline in &arguments.pipelines {
            let cell = run_cell(arguments, &mut running, keys, &distribution, pipeline)?;
            print_cell(&cell, &distribution);
            cells.push(cell);
        }
    }
    print_figures(&cells);
    println!("\nload average at the end {}", machine::load_average());
    Ok(())
}

fn print_conditions(arguments: &Arguments) {
    println!(
        "- closed loop, {} connections, each with one batch of `pipeline` requests in flight; {} runs of {} s after {} s of \
         the same load, interleaved (A B C … A B C …); medians",
        arguments.connections, arguments.runs, arguments.seconds, arguments.warm_up
    );
    println!(
        "- 20-byte keys, {} of them; limit 100 in {} s, burst 100, cost 1",
        arguments.key_count, arguments.window
    );
    println!("- CPU: user plus system time of all threads of the server process, by the scheduler's count\n");
}

/// Starts every target and shows one answer of each, so that a reader sees that it did what was asked.
fn start(arguments: &Arguments, options: &TollgateOptions) -> Result<Vec<Running>> {
    let workload = Workload {
        limit: 100,
        window_s: arguments.window,
    };
    let mut running = Vec::new();
    for &target in &arguments.targets {
        let (server, template) = target.start(workload, options)?;
        let reply = server.client()?.call_template(&template, 0)?;
        println!(
            "- {} ({}): `{}` answers `{reply}`",
            target.name(),
            server.name,
            template.words()
        );
        running.push(Running {
            target,
            server,
            template,
            touched: None,
        });
    }
    Ok(running)
}

fn run_cell(
    arguments: &Arguments,
    running: &mut [Running],
    keys: Keys,
    distribution: &Distribution,
    pipeline: usize,
) -> Result<Cell> {
    let mut runs: Vec<(Target, Vec<Run>)> = running.iter().map(|r| (r.target, Vec::new())).collect();
    for round in 0..arguments.runs {
        for (running, (_, runs)) in running.iter_mut().zip(&mut runs) {
            if keys != Keys::Single {
                touch(running, arguments)?;
            }
            let plan = Plan {
                template: running.template.clone(),
                distribution: distribution.clone(),
                connections: arguments.connections,
                pipeline,
                seed: u64::from(round) + 1,
            };
            runs.push(run(running, arguments, &plan)?);
        }
    }
    Ok(Cell { keys, pipeline, runs })
}

/// Touches every key once, so that a run meets keys in use from its start.
fn touch(running: &mut Running, arguments: &Arguments) -> Result<()> {
    let recently = running.touched.is_some_and(|at| at.elapsed() < TOUCHED_FOR);
    if recently || !running.target.keeps_keys() {
        return Ok(());
    }
    let plan = Plan {
        template: running.template.clone(),
        distribution: Distribution::sequential(arguments.key_count.into()),
        connections: arguments.connections,
        pipeline: TOUCH_PIPELINE,
        seed: 0,
    };
    ClosedLoop::connect(running.server.address, &plan)?.run(Until::Requests(arguments.key_count.into()))?;
    running.touched = Some(Instant::now());
    Ok(())
}

fn run(running: &Running, arguments: &Arguments, plan: &Plan) -> Result<Run> {
    let mut load = ClosedLoop::connect(running.server.address, plan)?;
    load.run(Until::Elapsed(Duration::from_secs_f64(arguments.warm_up)))?;
    let before = running.server.cpu()?;
    let outcome = load.run(Until::Elapsed(Duration::from_secs_f64(arguments.seconds)))?;
    let used = running.server.cpu()?.saturating_sub(before);
    let replies = outcome.replies as f64;
    Ok(Run {
        server_us: used.as_secs_f64() * 1e6 / replies,
        client_us: outcome.client_cpu.as_secs_f64() * 1e6 / replies,
        rate_per_s: outcome.rate_per_s(),
        server_busy: used.as_secs_f64() / outcome.elapsed.as_secs_f64(),
        outcome,
    })
}

fn print_cell(cell: &Cell, distribution: &Distribution) {
    let median_of = |runs: &[Run], figure: fn(&Run) -> f64| median(&runs.iter().map(figure).collect::<Vec<_>>());
    let rows: Vec<Vec<String>> = cell
        .runs
        .iter()
        .map(|(target, runs)| {
            let (low, high) = range(&runs.iter().map(|run| run.server_us).collect::<Vec<_>>());
            let beside = |other| ratio(cell, *target, other).map_or("–".to_owned(), digits3);
            vec![
                target.name().to_owned(),
                digits3(median_of(runs, |run| run.server_us)),
                format!("{}–{}", digits3(low), digits3(high)),
                digits3(median_of(runs, |run| run.rate_per_s)),
                format!("{:.0}", 100.0 * median_of(runs, |run| run.server_busy)),
                digits3(median_of(runs, |run| run.client_us)),
                us(median_of(runs, |run| run.outcome.latency_ns.value_at_quantile(0.5) as f64) as u64),
                digits3(median_of(runs, |run| {
                    run.outcome.reply_bytes as f64 / run.outcome.replies as f64
                })),
                beside(Target::RedisEvalsha),
                beside(Target::Echo),
            ]
        })
        .collect();
    println!("\n## {}, pipeline {}\n", distribution.describe(), cell.pipeline);
    let header = [
        "target",
        "CPU us/op",
        "min–max",
        "op/s",
        "server busy %",
        "client us/op",
        "p50 us",
        "reply bytes",
        "× evalsha",
        "× echo",
    ];
    print!("{}", table(&header, &rows));
}

/// The median over the rounds of CPU per operation of `target` to that of `other` in the same round.
fn ratio(cell: &Cell, target: Target, other: Target) -> Option<f64> {
    let of = |target| cell.runs.iter().find(|(t, _)| *t == target);
    let ratios: Vec<f64> = of(target)?
        .1
        .iter()
        .zip(&of(other)?.1)
        .map(|(run, other)| run.server_us / other.server_us)
        .collect();
    Some(median(&ratios))
}

/// A ratio that we want to reach, with uniform keys.
struct Figure {
    target: Target,
    other: Target,
    pipeline: usize,
    at_most: f64,
}

impl Figure {
    const fn new(target: Target, other: Target, pipeline: usize, at_most: f64) -> Self {
        Self {
            target,
            other,
            pipeline,
            at_most,
        }
    }
}

const FIGURES: [Figure; 5] = [
    Figure::new(Target::TollgateCheck, Target::RedisEvalsha, 32, 0.10),
    Figure::new(Target::TollgateCheck, Target::RedisEvalsha, 1, 0.46),
    Figure::new(Target::TollgateCheck, Target::Echo, 1, 1.10),
    Figure::new(Target::TollgateCheck, Target::RedisIncr, 32, 0.80),
    Figure::new(Target::TollgateThrottle, Target::RedisCell, 32, 0.25),
];

fn print_figures(cells: &[Cell]) {
    let rows: Vec<Vec<String>> = FIGURES
        .iter()
        .map(|figure| {
            let measured = cells
                .iter()
                .filter(|cell| cell.keys == Keys::Uniform)
                .find(|cell| cell.pipeline == figure.pipeline)
                .and_then(|cell| ratio(cell, figure.target, figure.other));
            let reached = match measured {
                None => "not run",
                Some(ratio) if ratio <= figure.at_most => "yes",
                Some(_) => "no",
            };
            vec![
                format!(
                    "{} to {}, pipeline {}, uniform",
                    figure.target.name(),
                    figure.other.name(),
                    figure.pipeline
                ),
                measured.map_or("–".to_owned(), digits3),
                format!("≤ {:.2}", figure.at_most),
                reached.to_owned(),
            ]
        })
        .collect();
    println!("\n## Figures to reach\n");
    print!(
        "{}",
        table(&["ratio of CPU per operation", "median", "target", "reached"], &rows)
    );
}
