//! Messages of clients that are published on all nodes, and who listens where.

use super::codec;
use super::message::{Kind, Message};
use serde::{Deserialize, Serialize};

/// A message for the listeners of a node. Those of one connection between two nodes are delivered in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish<'a> {
    /// Where it was published.
    #[serde(borrow, with = "codec::bytes")]
    pub channel: &'a [u8],
    /// What was published.
    #[serde(borrow, with = "codec::bytes")]
    pub message: &'a [u8],
    /// Whether the channel is one of a slot.
    pub sharded: bool,
}

impl<'a> Message<'a> for Publish<'a> {
    const KIND: Kind = Kind::Publish;
}

/// Answers a [`Publish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// How often it was on its way to a client.
    pub receivers: u64,
}

impl Message<'_> for Published {
    const KIND: Kind = Kind::Published;
}

/// Asks who listens to what at a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listeners<'a> {
    /// To what.
    #[serde(borrow)]
    pub of: ListenersOf<'a>,
}

/// To what somebody may listen. Variants are only added at the end, and only sent to versions that know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenersOf<'a> {
    /// All channels, or those that match: their names.
    Channels {
        /// What the names must match, in Redis's notation.
        pattern: Option<&'a [u8]>,
        /// Whether channels of slots are meant.
        sharded: bool,
    },
    /// Some channels: how many listen to each.
    Counts {
        /// Their names.
        #[serde(borrow)]
        channels: Vec<&'a [u8]>,
        /// Whether channels of slots are meant.
        sharded: bool,
    },
    /// All patterns: their names.
    Patterns,
}

impl<'a> Message<'a> for Listeners<'a> {
    const KIND: Kind = Kind::Listeners;
}

/// Answers a [`Listeners`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening<'a> {
    /// The names that were asked for.
    #[serde(borrow)]
    pub names: Vec<&'a [u8]>,
    /// The counts that were asked for, in their order.
    pub counts: Vec<u64>,
}

impl<'a> Message<'a> for Listening<'a> {
    const KIND: Kind = Kind::Listening;
}
