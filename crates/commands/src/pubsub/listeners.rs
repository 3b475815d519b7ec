//! Who listens at a node, for those who ask for a whole cluster.

use super::PubSub;
use crate::glob::{Case, Glob};
use crate::node_view::NodeView;
use std::sync::PoisonError;

impl PubSub {
    /// The channels that somebody listens to, or the channels of slots: all, or those that match a pattern.
    pub fn channels(&self, pattern: Option<&[u8]>, sharded: bool) -> Vec<Box<[u8]>> {
        let glob = pattern.map(|pattern| Glob::new(pattern, Case::Sensitive));
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let channels = topics.channels_of(sharded).keys();
        let matching = channels.filter(|name| glob.as_ref().is_none_or(|glob| glob.matches(name)));
        matching.cloned().collect()
    }

    /// How many listen to each of some channels, or channels of slots.
    pub fn counts<'a>(&self, channels: impl IntoIterator<Item = &'a [u8]>, sharded: bool) -> Vec<u64> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let count = |name: &[u8]| topics.channels_of(sharded).get(name).map_or(0, Vec::len) as u64;
        channels.into_iter().map(count).collect()
    }

    /// The patterns that somebody listens to.
    pub fn patterns(&self) -> Vec<Box<[u8]>> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        topics.patterns.keys().cloned().collect()
    }

    /// Sends a message of another node to those who listen at this one. Answers how often it is on its way to a client; a worker that is
    /// too far behind gets nothing.
    pub fn publish(&self, node: &dyn NodeView, channel: &[u8], message: &[u8], sharded: bool) -> u64 {
        let mut receivers = 0;
        for (worker, delivery) in self.deliveries(channel, message, sharded) {
            let count = delivery.to.len() as u64;
            receivers += node.deliver(worker, delivery).map_or(0, |()| count);
        }
        receivers
    }
}
