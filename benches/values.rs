//! CPU time per operation of Tollgate beside Redis for what both do: values, and scripts on them: `cargo bench --bench values`.

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use tollgate_loadgen::bench::{ServerArguments, exit_code};
use tollgate_loadgen::closed::{ClosedLoop, Plan, Until};
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::report::{digits3, median, range, table};
use tollgate_loadgen::request::Template;
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::Workload;
use tollgate_loadgen::servers::values::{Job, start_redis, start_tollgate};
use tollgate_loadgen::{CLIENT_CORE, Result, machine};

/// Pipeline at which keys are touched before a job.
const TOUCH_PIPELINE: usize = 32;

/// Compares the CPU time that both need for one operation, in interleaved runs.
#[derive(Debug, Parser)]
struct Arguments {
    /// What is asked; all without.
    #[arg(long, value_delimiter = ',', value_parser = Job::parse)]
    jobs: Vec<Job>,
    /// Pipelines to run.
    #[arg(long, value_delimiter = ',', default_value = "32,1")]
    pipelines: Vec<usize>,
    /// Different keys, asked for uniformly.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    key_count: u32,
    /// Connections.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Runs of each; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Seconds measured in a run.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds of the same load before that.
    #[arg(long, default_value_t = 0.5)]
    warm_up: f64,
    #[command(flatten)]
    servers: ServerArguments,
}

fn main() -> ExitCode {
    exit_code("values", compare(&Arguments::parse()))
}

fn compare(arguments: &Arguments) -> Result<()> {
    let options = arguments.servers.begin("values", true)?;
    println!(
        "- closed loop, {} connections, {} keys of 20 bytes uniformly; {} runs of {} s after {} s, interleaved; medians",
        arguments.connections, arguments.key_count, arguments.runs, arguments.seconds, arguments.warm_up
    );
    println!("- CPU: user plus system time of all threads of the server process, by the scheduler's count\n");
    machine::pin(CLIENT_CORE)?;
    let jobs = match arguments.jobs.is_empty() {
        true => Job::ALL.to_vec(),
        false => arguments.jobs.clone(),
    };
    let mut rows = Vec::new();
    for job in jobs {
        // Servers of its own, so that what another job has left is not measured with it.
        let servers = [start_redis()?, start_tollgate(&options)?];
        let workload = Workload {
            limit: 100,
            window_s: 60,
        };
        let mut templates = Vec::new();
        for server in &servers {
            let template = job.template(server, workload)?;
            for template in job.before().iter().chain([&template]) {
                touch(server, template, arguments)?;
            }
            let reply = server.client()?.call_template(&template, 0)?;
            println!("- {} of {}: `{reply}`", job.name(), server.name);
            templates.push(template);
        }
        for &pipeline in &arguments.pipelines {
            rows.push(row(arguments, job, pipeline, &servers, &templates)?);
        }
    }
    println!();
    let header = [
        "job",
        "pipeline",
        "Redis us/op",
        "Tollgate us/op",
        "min–max",
        "ratio",
        "target",
        "reached",
    ];
    print!("{}", table(&header, &rows));
    println!("\nload average at the end {}", machine::load_average());
    Ok(())
}

fn row(
    arguments: &Arguments,
    job: Job,
    pipeline: usize,
    servers: &[Server; 2],
    templates: &[Template],
) -> Result<Vec<String>> {
    let mut us: [Vec<f64>; 2] = Default::default();
    for round in 0..arguments.runs {
        for ((server, template), us) in servers.iter().zip(templates).zip(&mut us) {
            let plan = Plan {
                template: template.clone(),
                distribution: Distribution::uniform(arguments.key_count.into()),
                connections: arguments.connections,
                pipeline,
                seed: u64::from(round) + 1,
            };
            let mut load = ClosedLoop::connect(server.address, &plan)?;
            load.run(Until::Elapsed(Duration::from_secs_f64(arguments.warm_up)))?;
            let before = server.cpu()?;
            let outcome = load.run(Until::Elapsed(Duration::from_secs_f64(arguments.seconds)))?;
            let used = server.cpu()?.saturating_sub(before);
            us.push(used.as_secs_f64() * 1e6 / outcome.replies as f64);
        }
    }
    let [redis, tollgate] = &us;
    let ratios: Vec<f64> = tollgate
        .iter()
        .zip(redis)
        .map(|(tollgate, redis)| tollgate / redis)
        .collect();
    let (low, high) = range(tollgate);
    let ratio = median(&ratios);
    let target = target(job, pipeline);
    Ok(vec![
        job.name().to_owned(),
        pipeline.to_string(),
        digits3(median(redis)),
        digits3(median(tollgate)),
        format!("{}–{}", digits3(low), digits3(high)),
        digits3(ratio),
        target.map_or("–".to_owned(), |target| format!("≤ {target:.2}")),
        match target {
            None => "–",
            Some(target) if ratio <= target => "yes",
            Some(_) => "no",
        }
        .to_owned(),
    ])
}

/// The ratio that we want to reach.
fn target(job: Job, pipeline: usize) -> Option<f64> {
    match (job, pipeline) {
        (Job::TokenBucket, 32) => Some(0.35),
        (Job::TokenBucket, 1) => Some(0.60),
        (Job::SlidingWindow, 32) => Some(0.50),
        (Job::Get | Job::Set | Job::Incr | Job::Hincrby, 1 | 32) => Some(1.0),
        _ => None,
    }
}

/// Asks once for every key, so that runs meet keys that are there.
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
