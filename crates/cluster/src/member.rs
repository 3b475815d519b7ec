//! Who is in a cluster, and the numbers that all parts of it share.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many slots there are, as in Redis Cluster.
pub const SLOTS: u16 = 16384;

/// How often a slot has changed hands. Of two claims to a slot the higher counts; of equal ones that of the smaller name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// One life of a node: its name, and when that life began.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// The node's name.
    pub name: Arc<str>,
    /// Wall time of its start in milliseconds. Of one name only the highest counts.
    pub generation: u64,
}

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemberState {
    /// It learns what the others know, and is in no ring.
    Joining,
    /// It has a place in the ring.
    Ready,
    /// It gives its slots away: still asked, in no ring.
    Leaving,
}

/// What all nodes know of one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Which life of which node.
    pub id: Incarnation,
    /// How far it is.
    pub state: MemberState,
    /// Its share of the slots in relation to others; 1 unless it is configured.
    pub weight: u32,
    /// How many workers it has; slots are divided among them in ranges.
    pub workers: u16,
    /// Where peers reach it, as `host:port`.
    pub peer: Arc<str>,
    /// What clients are told of its default face, as `host:port`.
    pub listen: Arc<str>,
    /// What clients are told of its redirect face, as `host:port`, if it has one.
    pub redirect_listen: Option<Arc<str>>,
}
