//! Resident bytes of a bucket beside Redis's, and what is left when buckets have expired: `cargo bench --bench memory`.

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tollgate_loadgen::bench::{ServerArguments, exit_code};
use tollgate_loadgen::closed::{ClosedLoop, Plan, Until};
use tollgate_loadgen::command::Value;
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::report::{digits3, table};
use tollgate_loadgen::request::Template;
use tollgate_loadgen::server::Server;
use tollgate_loadgen::servers::{Target, TollgateOptions, Workload};
use tollgate_loadgen::{CLIENT_CORE, Error, Result, echo, machine};

/// No bucket is full again, and no key of Redis expires, while they are counted: 100 in 30 days.
const LASTING: Workload = Workload {
    limit: 100,
    window_s: 30 * 86_400,
};
/// Buckets are full again after 20 s; Redis's script lets its keys go after 40 s.
const PASSING: Workload = Workload { limit: 1, window_s: 20 };
/// How long servers may take to let expired keys go.
const EXPIRY_MAX: Duration = Duration::from_secs(300);
/// After the last key has gone, memory is given back within this.
const SETTLE: Duration = Duration::from_secs(5);
/// Bytes a bucket that we want to stay under.
const BYTES_MAX: f64 = 64.0;

/// Measures resident memory per bucket.
#[derive(Debug, Parser)]
struct Arguments {
    /// Targets to run.
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = Target::parse,
        default_value = "redis-evalsha,redis-cell,tollgate-check"
    )]
    targets: Vec<Target>,
    /// Buckets.
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "100000"),
          value_parser = clap::value_parser!(u32).range(1..))]
    buckets: u32,
    /// Leave out the part in which buckets expire.
    #[arg(long)]
    no_expiry: bool,
    /// A tenth of the buckets unless set otherwise, none expire: to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    servers: ServerArguments,
}

fn main() -> ExitCode {
    echo::serve_if_asked();
    let mut arguments = Arguments::parse();
    if arguments.quick {
        arguments.no_expiry = true;
    }
    arguments.targets.retain(|target| target.keeps_keys());
    exit_code("memory", memory(&arguments))
}

fn memory(arguments: &Arguments) -> Result<()> {
    let needs_tollgate = arguments.targets.iter().any(|target| target.is_tollgate());
    let options = arguments.servers.begin("memory", needs_tollgate)?;
    println!(
        "- {} buckets with 20-byte keys, made in order over 50 connections; bytes are growth of the resident set of the \
         process over that of the empty server after one request\n",
        arguments.buckets
    );
    machine::pin(CLIENT_CORE)?;
    let mut rows = Vec::new();
    let mut reached = None;
    for &target in &arguments.targets {
        let row = measure(target, arguments, &options)?;
        if target == Target::TollgateCheck {
            reached = Some(row.bytes_a_bucket);
        }
        rows.push(row.cells);
    }
    let header = [
        "target",
        "keys",
        "empty MB",
        "full MB",
        "bytes a bucket",
        "keys that expired",
        "their peak MB",
        "after MB",
    ];
    print!("{}", table(&header, &rows));
    if let Some(bytes) = reached {
        println!(
            "\nresident bytes a bucket: {}, target ≤ {BYTES_MAX:.0}: {}",
            digits3(bytes),
            if bytes <= BYTES_MAX { "reached" } else { "not reached" }
        );
    }
    Ok(())
}

struct Row {
    bytes_a_bucket: f64,
    cells: Vec<String>,
}

fn measure(target: Target, arguments: &Arguments, options: &TollgateOptions) -> Result<Row> {
    let (server, template) = target.start(LASTING, options)?;
    let empty = empty_bytes(&server, &template)?;
    fill(&server, &template, arguments.buckets)?;
    let keys = key_count(&server)?;
    if keys < i64::from(arguments.buckets) {
        return Err(Error::Setup(format!(
            "{} holds {keys} keys, not {}",
            server.name, arguments.buckets
        )));
    }
    let full = server.resident_bytes()?;
    let bytes_a_bucket = full.saturating_sub(empty) as f64 / f64::from(arguments.buckets);
    let mut cells = vec![
        format!("{} ({})", target.name(), server.name),
        keys.to_string(),
        mb(empty),
        mb(full),
        digits3(bytes_a_bucket),
    ];
    drop(server);
    cells.extend(if arguments.no_expiry {
        ["–", "–", "–"].map(str::to_owned)
    } else {
        expire(target, arguments, options)?
    });
    Ok(Row { bytes_a_bucket, cells })
}

/// Fills a fresh server with buckets that pass, and waits until they have gone.
fn expire(target: Target, arguments: &Arguments, options: &TollgateOptions) -> Result<[String; 3]> {
    let (server, template) = target.start(PASSING, options)?;
    empty_bytes(&server, &template)?;
    fill(&server, &template, arguments.buckets)?;
    let keys = key_count(&server)?;
    let peak = server.resident_bytes()?;
    let started = Instant::now();
    while key_count(&server)? > 0 {
        if started.elapsed() > EXPIRY_MAX {
            return Err(Error::Setup(format!(
                "{} still holds {} keys {} s after the last was made",
                server.name,
                key_count(&server)?,
                EXPIRY_MAX.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    std::thread::sleep(SETTLE);
    Ok([keys.to_string(), mb(peak), mb(server.resident_bytes()?)])
}

/// What the server needs with next to nothing in it, after it has answered once.
fn empty_bytes(server: &Server, template: &Template) -> Result<u64> {
    server.client()?.call_template(template, 0)?;
    server.resident_bytes()
}

fn fill(server: &Server, template: &Template, buckets: u32) -> Result<()> {
    let plan = Plan {
        template: template.clone(),
        distribution: Distribution::sequential(buckets.into()),
        connections: 50,
        pipeline: 32,
        seed: 0,
    };
    ClosedLoop::connect(server.address, &plan)?.run(Until::Requests(buckets.into()))?;
    Ok(())
}

fn key_count(server: &Server) -> Result<i64> {
    match server.client()?.call(&["DBSIZE"])? {
        Value::Integer(keys) => Ok(keys),
        other => Err(Error::Setup(format!("DBSIZE answered {other}"))),
    }
}

fn mb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
