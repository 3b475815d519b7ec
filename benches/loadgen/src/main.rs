//! The load generator by hand: `cargo run --release -p tollgate-loadgen -- --help`.

use clap::Parser;
use hdrhistogram::Histogram;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tollgate_loadgen::closed::{self, ClosedLoop, Until};
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::open::{self, Arrivals, OpenLoop};
use tollgate_loadgen::report::us;
use tollgate_loadgen::request::Template;
use tollgate_loadgen::{Result, machine, process};

/// Loads a server that speaks RESP and says how it did.
///
/// Without --rate the loop is closed: every connection sends a batch of --pipeline requests when the last one is answered.
/// With --rate it is open: requests fall due at that rate whatever the server does, and latency counts from then.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:6379")]
    addr: SocketAddr,
    /// Connections.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Requests that one connection sends together.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pipeline: u16,
    /// Keys: uniform:N, zipf:N (exponent 1), sequential:N or single.
    #[arg(long, default_value = "uniform:1000000", value_parser = Distribution::parse)]
    keys: Distribution,
    /// Requests a second, over all connections: makes the loop open.
    #[arg(long)]
    rate: Option<f64>,
    /// With --rate: even gaps instead of Poisson arrivals.
    #[arg(long, requires = "rate")]
    even: bool,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before that.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Pin this client to a core.
    #[arg(long)]
    core: Option<usize>,
    /// The process of the server, if on this machine: CPU time per operation is read from it.
    #[arg(long)]
    server_pid: Option<u32>,
    /// Seed of keys and arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The request; {key} is where a 20-byte key goes.
    #[arg(trailing_var_arg = true, default_values = ["RL.CHECK", "{key}", "LIMIT", "100", "PER", "1m"])]
    words: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-loadgen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(core) = arguments.core {
        machine::pin(core)?;
    }
    match arguments.rate {
        None => closed_loop(arguments),
        Some(rate_per_s) => open_loop(arguments, rate_per_s),
    }
}

fn closed_loop(arguments: &Arguments) -> Result<()> {
    let plan = closed::Plan {
        template: Template::new(&arguments.words),
        distribution: arguments.keys.clone(),
        connections: arguments.connections.into(),
        pipeline: arguments.pipeline.into(),
        seed: arguments.seed,
    };
    let mut load = ClosedLoop::connect(arguments.addr, &plan)?;
    load.run(Until::Elapsed(Duration::from_secs_f64(arguments.warm_up)))?;
    let cpu = Cpu::start(arguments.server_pid)?;
    let outcome = load.run(Until::Elapsed(Duration::from_secs_f64(arguments.seconds)))?;
    println!("{:.0} operations/s", outcome.rate_per_s());
    cpu.print(outcome.replies)?;
    print_latency("latency", &outcome.latency_ns);
    Ok(())
}

fn open_loop(arguments: &Arguments, rate_per_s: f64) -> Result<()> {
    let stream = open::Stream {
        template: Template::new(&arguments.words),
        distribution: arguments.keys.clone(),
        connections: arguments.connections.into(),
        rate_per_s,
        burst: arguments.pipeline.into(),
        arrivals: if arguments.even {
            Arrivals::Even
        } else {
            Arrivals::Poisson
        },
        seed: arguments.seed,
    };
    let mut load = OpenLoop::connect(arguments.addr, &[stream])?;
    load.run(Duration::from_secs_f64(arguments.warm_up))?;
    let cpu = Cpu::start(arguments.server_pid)?;
    for outcome in load.run(Duration::from_secs_f64(arguments.seconds))? {
        cpu.print(outcome.requests)?;
        print_latency("latency from the time due", &outcome.latency_ns);
        print_latency("of it this client sent late", &outcome.send_lag_ns);
    }
    Ok(())
}

/// The server's CPU time at the start of a measurement.
struct Cpu(Option<(u32, Duration)>);

impl Cpu {
    fn start(pid: Option<u32>) -> Result<Self> {
        pid.map(|pid| Ok((pid, process::cpu(pid)?))).transpose().map(Self)
    }

    fn print(&self, operations: u64) -> Result<()> {
        if let Some((pid, before)) = self.0 {
            let used = process::cpu(pid)?.saturating_sub(before);
            let each = used.as_secs_f64() * 1e6 / operations as f64;
            println!("{each:.3} us CPU of the server an operation");
        }
        Ok(())
    }
}

fn print_latency(name: &str, latency_ns: &Histogram<u64>) {
    let at = |quantile| us(latency_ns.value_at_quantile(quantile));
    println!(
        "{name} in us: p50 {} p99 {} p99.9 {} p99.99 {} max {}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        us(latency_ns.max())
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_last_and_have_a_default() {
        let parse = |line: &str| Arguments::parse_from(line.split(' '));
        assert_eq!(parse("loadgen --pipeline 32").words[0], "RL.CHECK");
        let arguments = parse("loadgen --rate 5 --even -- INCR {key}");
        assert_eq!(arguments.words, ["INCR", "{key}"]);
        assert_eq!(arguments.rate, Some(5.0));
        assert!(Arguments::try_parse_from(["loadgen", "--even"]).is_err());
        assert!(Arguments::try_parse_from(["loadgen", "--connections", "0"]).is_err());
    }
}
