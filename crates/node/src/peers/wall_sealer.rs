//! Gossip's seal with the wall clock that it needs.

use crate::gossip::Seal;
use crate::peers::random;
use std::sync::atomic::{AtomicBool, Ordering};
use tollgate_cluster::wire::{GossipRefusal, Sealer, Secret};

/// Seals and opens datagrams of gossip.
#[derive(Debug)]
pub struct WallSealer {
    sealer: Sealer,
    time_logged: AtomicBool,
}

impl Seal for WallSealer {
    fn seal(&self, plain: &[u8]) -> Vec<u8> {
        self.seal(plain)
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.open(sealed)
    }
}

impl WallSealer {
    /// A sealer for the gossip of a cluster.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(secret: &Secret, cluster: &str) -> std::io::Result<Self> {
        Ok(Self {
            sealer: Sealer::new(secret, cluster, random()?),
            time_logged: AtomicBool::new(false),
        })
    }

    /// The datagram as it goes over the network.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        self.sealer.seal(wall_ms(), plain)
    }

    /// What was sealed; none if it was not sealed with this secret, was changed, or is from another time. That last is logged once, since it
    /// is mostly a wrong clock.
    pub fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        match self.sealer.open(wall_ms(), sealed) {
            Ok(plain) => Some(plain),
            Err(why) => {
                if matches!(why, GossipRefusal::Time { .. }) && !self.time_logged.swap(true, Ordering::Relaxed) {
                    tracing::warn!(event = "gossip_out_of_time", %why);
                }
                None
            }
        }
    }
}

fn wall_ms() -> u64 {
    // 64 bits of milliseconds are 584 million years.
    crate::clock::wall_time().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_what_another_has_sealed_and_nothing_else() {
        let secret = Secret::new(b"secret");
        let (one, other) = (
            WallSealer::new(&secret, "c").unwrap(),
            WallSealer::new(&secret, "c").unwrap(),
        );
        let sealed = one.seal(b"gossip");
        assert_eq!(other.open(&sealed).as_deref(), Some(b"gossip".as_slice()));
        assert_eq!(other.open(b"gossip"), None);
        assert_ne!(one.seal(b"gossip"), other.seal(b"gossip"));
    }
}
