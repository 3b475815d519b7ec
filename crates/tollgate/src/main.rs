//! The command line of Tollgate. It reads arguments, calls the node or talks to one, and says what came of it.

mod check;
mod cli;
mod client;
mod serve;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// jemalloc gives memory back from a thread of its own (`background_threads`), so that neither a shard nor a connection
/// pays for it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
    }
}
