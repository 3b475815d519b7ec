//! The nodes of a cluster and their slots.

use std::net::IpAddr;
use tollgate_eval::sha1_hex;

/// The nodes that clients are sent to, and which of them has which slots, as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The nodes, this one among them.
    pub nodes: Vec<ClusterNode>,
    /// The index of this one.
    pub me: usize,
    /// By slot: the index of the node that serves it, if one does.
    pub holders: Vec<Option<u16>>,
    /// The highest epoch of a slot.
    pub epoch: u64,
    /// Messages of gossip that this node has sent.
    pub messages_sent: u64,
    /// Messages of gossip that it has received.
    pub messages_received: u64,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Where clients reach it: an address or a host's name, without brackets.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// The port for peers.
    pub peer_port: u16,
    /// The highest epoch of its slots.
    pub epoch: u64,
    /// When gossip heard it last, in Unix milliseconds; 0 for this node.
    pub heard_unix_ms: u64,
    /// Whether it may be gone.
    pub is_suspect: bool,
}

impl ClusterNode {
    /// 40 hexadecimal digits that depend on its name alone.
    pub fn id(&self) -> String {
        sha1_hex(format!("node {}", self.name).as_bytes())
    }

    /// The same for the shard, of which it is the only node that clients can ask.
    pub fn shard_id(&self) -> String {
        sha1_hex(format!("shard {}", self.name).as_bytes())
    }

    /// Whether clients reach it by a name.
    pub fn has_host_name(&self) -> bool {
        self.host.parse::<IpAddr>().is_err()
    }
}

impl Topology {
    /// This node.
    pub fn own(&self) -> &ClusterNode {
        &self.nodes[self.me]
    }

    /// Slots in a row of the same node: the first, the last, the index of the node; in ascending order.
    pub fn ranges(&self) -> Vec<(u16, u16, usize)> {
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        for (slot, holder) in (0..).zip(&self.holders) {
            let Some(holder) = holder.map(usize::from) else {
                continue;
            };
            match ranges.last_mut() {
                Some((_, last, node)) if (*last + 1, *node) == (slot, holder) => *last = slot,
                _ => ranges.push((slot, slot, holder)),
            }
        }
        ranges
    }

    /// How many slots are those of nodes that may be gone.
    pub fn suspected(&self) -> usize {
        let holders = self.holders.iter().flatten();
        holders
            .filter(|holder| self.nodes[usize::from(**holder)].is_suspect)
            .count()
    }
}
