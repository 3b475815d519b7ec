//! Sealing of gossip datagrams: ChaCha20-Poly1305 with a key of the sender's own from the cluster secret.
//!
//! ```text
//! 16 random bytes of the sender │ u64 number │ (u64 wall time in ms │ message) sealed │ 16 bytes of seal
//! ```
//!
//! The key is derived from the secret, the cluster's name and the random bytes, and the number is the nonce: so no two datagrams have both
//! in common, however many senders there are.
//!
//! # Replays
//!
//! Who can read and send datagrams but does not know the secret can send one again. What gossip carries makes most of that harmless:
//! state is values with versions, and heartbeats that only count when they are higher than the one known, so an old datagram changes
//! nothing at a node that remembers what it said. A node forgets: the dead after their grace (10 minutes; they are left out of its own
//! messages after half of it), and everything when it restarts. Replays to it of what a dead node said, in order, would make that node look
//! alive for as long as they last. So each datagram has the sender's wall time, and one that is further than [`TIME_WINDOW`] from the
//! receiver's is refused. That is half the grace: while a replay is accepted, the other members still tell a node that has restarted of the
//! last heartbeat, and everything that is replayed is lower. What is left to such an attacker is to hold datagrams back, as any who can cut
//! a network.
//!
//! The price is that nodes whose wall clocks are further apart than that do not hear each other; they say so ([`GossipRefusal::Time`]).

use super::keys::{Secret, TAG_BYTES, fixed, numbered, sealing_key};
use ring::aead::{Aad, LessSafeKey};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thiserror::Error;

/// How far the wall clocks of sender and receiver may be apart, travel included.
pub const TIME_WINDOW: Duration = Duration::from_secs(300);

const PREFIX_BYTES: usize = 16;
const NUMBER_BYTES: usize = 8;
const HEAD_BYTES: usize = PREFIX_BYTES + NUMBER_BYTES;
const TIME_BYTES: usize = 8;

/// Why a datagram was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GossipRefusal {
    /// It is shorter than any, or its seal is wrong: it is not of this cluster, or was changed on its way.
    #[error("a gossip datagram that was not sealed with this cluster's secret")]
    Seal,
    /// It was sent at another time: it is a replay, or the clocks are too far apart.
    #[error("a gossip datagram from {seconds} s ago by the wall clocks; is one of them wrong?")]
    Time {
        /// How long ago; negative if it comes from the future.
        seconds: i64,
    },
}

/// Seals and opens the gossip of one node.
pub struct Sealer {
    /// What the senders' keys are derived from.
    cluster: Secret,
    prefix: [u8; PREFIX_BYTES],
    key: LessSafeKey,
    next: AtomicU64,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Sealer {
    /// What a datagram grows by.
    pub const OVERHEAD_BYTES: usize = HEAD_BYTES + TIME_BYTES + TAG_BYTES;

    /// A sealer for a cluster's gossip. `random` is random and new for each sealer.
    pub fn new(secret: &Secret, cluster: &str, random: [u8; PREFIX_BYTES]) -> Self {
        let cluster = Secret::new(&secret.derive(cluster.as_bytes(), "tollgate gossip"));
        Self {
            key: sender_key(&cluster, &random),
            cluster,
            prefix: random,
            next: AtomicU64::new(0),
        }
    }

    /// Seals a message that is sent at that wall time.
    pub fn seal(&self, wall_ms: u64, message: &[u8]) -> Vec<u8> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut datagram = Vec::with_capacity(message.len() + Self::OVERHEAD_BYTES);
        datagram.extend_from_slice(&self.prefix);
        datagram.extend_from_slice(&number.to_le_bytes());
        datagram.extend_from_slice(&wall_ms.to_le_bytes());
        datagram.extend_from_slice(message);
        let sealed = &mut datagram[HEAD_BYTES..];
        match self
            .key
            .seal_in_place_separate_tag(numbered(number), Aad::empty(), sealed)
        {
            Ok(tag) => datagram.extend_from_slice(tag.as_ref()),
            // Only for more than 256 GiB.
            Err(_) => unreachable!("a datagram has a bound"),
        }
        datagram
    }

    /// Opens a datagram that arrived at that wall time.
    ///
    /// # Errors
    /// [`GossipRefusal`]: it is to be dropped.
    pub fn open(&self, wall_ms: u64, datagram: &[u8]) -> Result<Vec<u8>, GossipRefusal> {
        if datagram.len() < Self::OVERHEAD_BYTES {
            return Err(GossipRefusal::Seal);
        }
        let (head, sealed) = datagram.split_at(HEAD_BYTES);
        let (prefix, number) = head.split_at(PREFIX_BYTES);
        let nonce = numbered(u64::from_le_bytes(fixed(number)));
        let mut sealed = sealed.to_vec();
        // A few microseconds for the key, some times a second.
        let message = sender_key(&self.cluster, prefix)
            .open_in_place(nonce, Aad::empty(), &mut sealed)
            .map_err(|_| GossipRefusal::Seal)?;
        let (sent_ms, message) = message.split_at(TIME_BYTES);
        let sent_ms = u64::from_le_bytes(fixed(sent_ms));
        if wall_ms.abs_diff(sent_ms) > TIME_WINDOW.as_millis() as u64 {
            let seconds = (i128::from(wall_ms) - i128::from(sent_ms)) / 1_000;
            // 2^64 ms are fewer than 2^63 s.
            return Err(GossipRefusal::Time {
                seconds: seconds as i64,
            });
        }
        Ok(message.to_vec())
    }
}

/// The key of one sender.
fn sender_key(cluster: &Secret, prefix: &[u8]) -> LessSafeKey {
    sealing_key(&cluster.derive(prefix, "tollgate gossip of a sender"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn sealer(secret: &str, random: u8) -> Sealer {
        Sealer::new(&Secret::new(secret.as_bytes()), "test", [random; PREFIX_BYTES])
    }

    #[test]
    fn what_one_node_seals_another_opens() {
        let (one, other) = (sealer("s", 1), sealer("s", 2));
        for message in [b"".as_slice(), b"x", &[7; 60_000]] {
            let datagram = one.seal(NOW_MS, message);
            assert_eq!(datagram.len(), message.len() + Sealer::OVERHEAD_BYTES);
            assert_eq!(other.open(NOW_MS + 4_000, &datagram).as_deref(), Ok(message));
        }
        assert_ne!(one.seal(NOW_MS, b"same"), one.seal(NOW_MS, b"same"));
    }

    #[test]
    fn what_was_forged_or_changed_is_refused() {
        let (one, other) = (sealer("s", 1), sealer("s", 2));
        let datagram = one.seal(NOW_MS, b"message");
        for at in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[at] ^= 1;
            assert_eq!(other.open(NOW_MS, &changed), Err(GossipRefusal::Seal), "{at}");
            assert_eq!(other.open(NOW_MS, &datagram[..at]), Err(GossipRefusal::Seal), "{at}");
        }
        assert_eq!(sealer("t", 1).open(NOW_MS, &datagram), Err(GossipRefusal::Seal));
        let cluster = Sealer::new(&Secret::new(b"s"), "other", [1; PREFIX_BYTES]);
        assert_eq!(cluster.open(NOW_MS, &datagram), Err(GossipRefusal::Seal));
    }

    #[test]
    fn what_is_old_or_of_the_future_is_refused() {
        let one = sealer("s", 1);
        let datagram = one.seal(NOW_MS, b"message");
        let window_ms = TIME_WINDOW.as_millis() as u64;
        assert!(one.open(NOW_MS + window_ms, &datagram).is_ok());
        assert!(one.open(NOW_MS - window_ms, &datagram).is_ok());
        let refused = |wall_ms| one.open(wall_ms, &datagram).unwrap_err();
        assert_eq!(refused(NOW_MS + window_ms + 1), GossipRefusal::Time { seconds: 300 });
        assert_eq!(refused(NOW_MS - window_ms - 1), GossipRefusal::Time { seconds: -300 });
        assert!(matches!(refused(0), GossipRefusal::Time { .. }));
        assert!(matches!(refused(u64::MAX), GossipRefusal::Time { .. }));
    }
}
