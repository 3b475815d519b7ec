//! What an operator asks of a cluster through any of its nodes: how each of them is, and that one gives its slots away.

use super::message::{Kind, Message};
use crate::circuit::CircuitState;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Asks a node how it is. Answered with [`NodeStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskStatus {}

impl Message<'_> for AskStatus {
    const KIND: Kind = Kind::AskStatus;
}

/// How a node is: sums over its workers, but for what says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The version of the program.
    pub version: Arc<str>,
    /// The hash of its view; 0 if its workers have not the same yet.
    pub view: u64,
    /// How many slots its view gives it.
    pub target: u32,
    /// How many it holds.
    pub held: u32,
    /// Of these, how many belong to another member.
    pub to_move: u32,
    /// How many are frozen for a move, or offered.
    pub moving: u32,
    /// How many have a follower that is in step.
    pub followed: u32,
    /// How many slots it follows.
    pub replicas: u32,
    /// Of these, how many had all that the holder has sent.
    pub replicas_in_step: u32,
    /// Followers that wait for a copy.
    pub copies_waiting: u32,
    /// Slots of which it knows no holder.
    pub unknown: u32,
    /// The highest epoch that it knows.
    pub epoch_max: u64,
    /// The age of the oldest change that a follower in step has not acknowledged, in microseconds; the longest of all workers.
    pub lag_us: u64,
    /// Buckets in its journals.
    pub journal_buckets: u64,
    /// Tokens in them.
    pub journal_tokens: u64,
    /// Of the buckets, those that were sent and are not acknowledged.
    pub journal_unacknowledged: u64,
    /// Tokens that were forgotten because the journals were full.
    pub journal_dropped: u64,
    /// Whether it holds no slot and owes nobody anything.
    pub drained: bool,
    /// The peers that do not answer as they should, each as its worst worker sees it.
    pub circuits: Vec<Trouble>,
}

/// A peer that does not answer as it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Its name.
    pub peer: Arc<str>,
    /// What is thought of it: `suspect`, `open`, `probing`.
    pub state: Arc<str>,
}

impl Message<'_> for NodeStatus {
    const KIND: Kind = Kind::Status;
}

impl NodeStatus {
    /// Adds what another worker of the same node says.
    pub fn add(&mut self, other: Self) {
        if self.view != other.view {
            self.view = 0;
        }
        for (sum, more) in [
            (&mut self.target, other.target),
            (&mut self.held, other.held),
            (&mut self.to_move, other.to_move),
            (&mut self.moving, other.moving),
            (&mut self.followed, other.followed),
            (&mut self.replicas, other.replicas),
            (&mut self.replicas_in_step, other.replicas_in_step),
            (&mut self.copies_waiting, other.copies_waiting),
            (&mut self.unknown, other.unknown),
        ] {
            *sum += more;
        }
        self.journal_buckets += other.journal_buckets;
        self.journal_tokens = self.journal_tokens.saturating_add(other.journal_tokens);
        self.journal_unacknowledged += other.journal_unacknowledged;
        self.journal_dropped = self.journal_dropped.saturating_add(other.journal_dropped);
        self.epoch_max = self.epoch_max.max(other.epoch_max);
        self.lag_us = self.lag_us.max(other.lag_us);
        self.drained &= other.drained;
        for trouble in other.circuits {
            match self.circuits.iter_mut().find(|known| known.peer == trouble.peer) {
                Some(known) if *known.state == *CircuitState::Open.word() => {}
                Some(known) => known.state = trouble.state,
                None => self.circuits.push(trouble),
            }
        }
        self.circuits.sort_by(|one, other| one.peer.cmp(&other.peer));
    }
}

impl CircuitState {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Suspect => "suspect",
            Self::Open => "open",
            Self::Probing => "probing",
        }
    }
}

/// Tells a node to give its slots away and go on running, or to come back. Answered with [`DrainBegun`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Whether it is to come back.
    pub undo: bool,
}

impl Message<'_> for Drain {
    const KIND: Kind = Kind::Drain;
}

/// A node has begun to do so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainBegun {
    /// Why it does not; empty if it does.
    pub refused: Arc<str>,
}

impl Message<'_> for DrainBegun {
    const KIND: Kind = Kind::DrainBegun;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_say_of_a_node_adds_up() {
        let trouble = |peer: &str, state: CircuitState| Trouble {
            peer: peer.into(),
            state: state.word().into(),
        };
        let mut one = NodeStatus {
            view: 7,
            held: 3,
            lag_us: 20,
            epoch_max: 4,
            journal_tokens: 2,
            drained: true,
            circuits: vec![trouble("c", CircuitState::Open), trouble("d", CircuitState::Suspect)],
            ..NodeStatus::default()
        };
        one.add(NodeStatus {
            view: 7,
            held: 4,
            lag_us: 10,
            epoch_max: 9,
            journal_tokens: u64::MAX,
            drained: false,
            circuits: vec![trouble("c", CircuitState::Suspect), trouble("b", CircuitState::Probing)],
            ..NodeStatus::default()
        });
        assert_eq!((one.view, one.held, one.lag_us, one.epoch_max), (7, 7, 20, 9));
        assert_eq!((one.journal_tokens, one.drained), (u64::MAX, false));
        assert_eq!(
            one.circuits,
            [
                trouble("b", CircuitState::Probing),
                trouble("c", CircuitState::Open),
                trouble("d", CircuitState::Suspect)
            ]
        );
        one.add(NodeStatus {
            view: 8,
            ..NodeStatus::default()
        });
        assert_eq!(one.view, 0, "they differ");
    }
}
