//! Connections to the other nodes of the cluster: sockets, and nothing to decide.
//!
//! Each worker has its own: a persistent connection to each worker of each peer that it has asked something ([`Peers`]), and those that
//! workers of peers have made to it ([`Incoming`]). On a connection the side that made it asks and the other answers, many requests at a time,
//! in any order. What is said is `tollgate_cluster::wire`'s.
//!
//! All that one loop turn has to say to a peer goes in one write. A peer that does not read, or does not answer, costs only those who ask it:
//! what waits for it is bounded (`limits.peer_*`).

mod accept;
mod error;
mod incoming;
mod outgoing;
mod refusals;
mod sending;
mod socket;
#[cfg(test)]
mod tests;
mod wall_sealer;

pub use accept::{Accepted, accept};
pub use error::PeerError;
pub use incoming::{Incoming, PeerHandler, PeerId, ReplyHandle};
pub use outgoing::{Answer, PeerEvent, PeerLink, Peers, Pending};
pub use refusals::Refusals;
pub use wall_sealer::WallSealer;

use crate::metrics::{Metrics, WorkerCounters};
use std::sync::Arc;
use tollgate_cluster::wire::{Local, Secret};

/// What all connections of a node to its peers have in common.
#[derive(Debug)]
pub struct PeerConfig {
    /// What this node says of itself.
    pub local: Local,
    /// The cluster secret, if there is one.
    pub secret: Option<Secret>,
    /// Bytes of frames that wait for one peer to take them (`limits.peer_queue_bytes`).
    pub queue_bytes: usize,
    /// Requests to one worker of a peer that wait for their answers, and as many from one (`limits.peer_requests`).
    pub requests: usize,
    /// Connections of peers to this node that shake hands at one time (`limits.peer_handshakes`).
    pub handshakes: usize,
    /// What this node counts.
    pub metrics: Arc<Metrics>,
    /// Who was refused, and why.
    pub refusals: Refusals,
}

impl PeerConfig {
    fn counters(&self, worker: u16) -> &WorkerCounters {
        self.metrics.worker(usize::from(worker))
    }
}

/// Random bytes, as for a nonce.
///
/// # Errors
/// The system has none.
fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}
