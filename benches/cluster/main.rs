//! What a cluster costs and how fast it is: `cargo bench --bench cluster`.

mod cost;
mod failures;
mod moves;
mod nodes;

use clap::Parser;
use std::process::ExitCode;
use tollgate_loadgen::bench::{ServerArguments, exit_code};
use tollgate_loadgen::{CLIENT_CORE, Result, machine};

/// Measures a cluster of processes on this machine: CPU of forwarded and of replicated checks, idle nodes, moves of slots, failures.
#[derive(Debug, Parser)]
struct Arguments {
    /// Parts to run; all without.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Different keys, uniform.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..))]
    key_count: u32,
    /// Connections.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Runs of each; the median counts.
    #[arg(long, default_value_t = 5, default_value_if("quick", "true", "1"),
          value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Seconds measured in a run.
    #[arg(long, default_value_t = 2.0, default_value_if("quick", "true", "1"))]
    seconds: f64,
    /// Buckets moved between two nodes.
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "100000"))]
    moved: u32,
    /// One run of a second, a tenth of the buckets: to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    servers: ServerArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Forward,
    Replicate,
    Idle,
    Move,
    Fail,
}

impl Arguments {
    fn runs(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    exit_code("cluster", cluster(&arguments))
}

fn cluster(arguments: &Arguments) -> Result<()> {
    let options = arguments.servers.begin("cluster", true)?;
    println!("- limit 100 in 60 s, burst 100, cost 1; 20-byte keys; nodes of one worker, without a cluster secret");
    machine::pin(CLIENT_CORE)?;
    if arguments.runs(Part::Forward) {
        cost::forwarded(arguments, &options)?;
    }
    if arguments.runs(Part::Replicate) {
        cost::replicated(arguments, &options)?;
    }
    if arguments.runs(Part::Idle) {
        cost::idle(arguments, &options)?;
    }
    if arguments.runs(Part::Move) {
        moves::join(arguments, &options)?;
    }
    if arguments.runs(Part::Fail) {
        failures::failures(arguments, &options)?;
    }
    println!("\nload average at the end {}", machine::load_average());
    Ok(())
}

/// Says whether a figure is what it should be.
fn verdict(figure: f64, most: f64) -> &'static str {
    match figure <= most {
        true => "reached",
        false => "not reached",
    }
}
