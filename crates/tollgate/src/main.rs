//! The command line of Tollgate. It reads arguments, calls the node or talks to one, and says what came of it.

mod check;
mod cli;
mod client;
mod cluster;
mod http;
mod serve;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// jemalloc gives memory back from a thread of its own (`background_threads`), so that neither a shard nor a connection
/// pays for it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options of jemalloc. Buckets live in segments of whole pages, which jemalloc would put at an offset and so give a page
/// more; threads' caches keep nothing large, and free pages go back to the system within half a second. A million buckets
/// take 60 resident bytes each.
// SAFETY: jemalloc reads the symbol of this name as a pointer to a string that ends with NUL
// (<https://jemalloc.net/jemalloc.3.html>, "malloc_conf"), which a reference to such an array is; nobody writes it.
#[expect(unsafe_code, reason = "jemalloc takes its options from a symbol of a fixed name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8; 74] = b"tcache_max:1024,dirty_decay_ms:500,muzzy_decay_ms:0,cache_oblivious:false\0";

fn main() -> ExitCode {
    abort_on_panic();
    match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Cluster(command) => cluster::run(&command),
    }
}

/// A worker that panicked has lost its shard: better the process ends and is started again than half of it lives on. Not by
/// the profile's `panic = "abort"`, which would also end it at every error that Luau raises through a Rust frame.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}
