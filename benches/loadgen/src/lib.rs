//! The load generator of every bench, and the rig around it.
//!
//! Two ways to load a server over RESP:
//!
//! - [`closed`]: every connection keeps one batch of `pipeline` requests in flight and sends the next when the last reply
//!   of the batch is in. It finds a server's capacity.
//! - [`open`]: requests are due at times that do not depend on the server. Latency is measured from the time a request was
//!   due, also when it could be sent only later, so a stall of the server is seen by every request that fell into it (no
//!   coordinated omission).
//!
//! Both are one thread over non-blocking sockets, write requests by patching a fixed-width key into ready bytes
//! ([`request`]), and only count what comes back ([`reply`]): one core of client keeps one core of server busy. A reply
//! that is an error fails the run.
//!
//! The rig starts servers pinned to a core ([`server`], [`servers`]), reads their own CPU time and memory
//! ([`process`]), and says under which conditions it measured ([`machine`]). [`bench`](mod@bench) is what benches have in common.

pub mod bench;
pub mod closed;
pub mod command;
mod connection;
pub mod echo;
pub mod keys;
pub mod machine;
pub mod metrics;
pub mod open;
pub mod process;
pub mod reply;
pub mod report;
pub mod request;
pub mod server;
pub mod servers;

use std::io;

/// The client side of every run is pinned to this core.
pub const CLIENT_CORE: usize = 1;
/// The server side of every run is pinned to this core.
pub const SERVER_CORE: usize = 0;

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server answered with an error, or with bytes that are no reply.
    #[error("the server answered {reply:?} to {request:?}")]
    BadReply {
        /// The request, or what kind it was.
        request: String,
        /// The first bad reply.
        reply: String,
    },
    /// The server closed a connection or went away.
    #[error("the server closed a connection during the run")]
    Closed,
    /// No reply came for [`closed::SILENCE_MAX`] or [`open::DRAIN_MAX`].
    #[error("no reply for {seconds} s with {outstanding} requests outstanding")]
    Silent {
        /// How long nothing came.
        seconds: u64,
        /// Requests without a reply.
        outstanding: u64,
    },
    /// The open loop ran further ahead of the server than [`open::OUTSTANDING_MAX`].
    #[error("more than {0} requests outstanding: the rate is beyond the server's capacity")]
    Overrun(usize),
    /// A server could not be built or started.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// Wraps a system error with what was being done.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing: doing.into(),
            source,
        }
    }
}

/// The result of everything that touches a server.
pub type Result<T> = std::result::Result<T, Error>;

/// Latencies from 1 ns to 100 s with three significant digits.
pub(crate) fn latency_histogram() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, 100_000_000_000, 3)
        .expect("the bounds are in order and three digits are allowed")
}
