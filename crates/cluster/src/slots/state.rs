//! What a machine knows of one slot.

use super::message::Taken;
use super::peers::PeerIx;
use super::store::{Cursor, Mark};
use crate::member::Epoch;
use std::collections::VecDeque;

/// Who holds a slot, as far as this node knows. Epoch 0 means that it has never heard of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Belief {
    pub epoch: Epoch,
    /// `None`: the life of the one that held it with this epoch is over, or there never was one.
    pub holder: Option<PeerIx>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub belief: Belief,
    /// When the belief last changed.
    pub since_us: u64,
    pub role: Role,
    /// The highest epoch that was offered to this node and refused by it.
    pub refused: Epoch,
    /// Whether this node has given the slot away, and not lost it: what it had admitted went along.
    pub gave: bool,
    /// Debits that are in this node's state of the slot.
    pub taken: Vec<Taken>,
}

#[derive(Debug)]
pub(super) enum Role {
    /// Nothing of the slot is here.
    Away,
    /// This node follows the holder.
    Replica(Replica),
    /// This node decides.
    Held(Box<Held>),
}

#[derive(Debug, Default)]
pub(super) struct Replica {
    /// The stream that it follows; `None` before the first batch from this holder.
    pub stream: Option<u64>,
    /// The number of the batch that is next.
    pub next: u64,
    /// Whether a copy has begun and not ended.
    pub copying: bool,
    /// Whether it has had all that the holder has sent.
    pub in_step: bool,
    /// Whether it has ever had all entries: until a first copy has ended, it lacks some.
    pub whole: bool,
    /// This node has itself handed the slot to the holder with this epoch, and has kept it as it was then.
    pub handed: Option<Epoch>,
    /// When it last heard from the holder.
    pub heard_us: u64,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    pub followers: Vec<Follower>,
    pub moving: Option<Move>,
    /// The one before, if it handed the slot over: it has all entries up to a mark.
    pub from: Option<(PeerIx, Mark)>,
    /// When it was handed over to this node, or not taken by another; 0 if neither.
    pub tried_us: u64,
    /// How often the debits in its state have changed: each follower is told once.
    pub taken_changes: u64,
    /// Whether a follower has not acknowledged changes for so long that a journal is kept.
    pub overdue: bool,
    /// Whether it came by a handover.
    #[cfg(test)]
    pub handed: bool,
    /// Since when this node has held it.
    #[cfg(test)]
    pub since_us: u64,
    /// Whether it was taken over with a replica that was in step.
    #[cfg(test)]
    pub took_in_step: bool,
}

#[derive(Debug)]
pub(super) struct Follower {
    pub peer: PeerIx,
    pub stage: Stage,
    pub stream: u64,
    /// The number of the next batch.
    pub next: u64,
    /// Changes up to here have been sent.
    pub mark: Mark,
    pub unacked: VecDeque<Sent>,
    /// The number of the last batch of its copy, once that is sent.
    pub copied: Option<u64>,
    /// Whether it has acknowledged the whole copy.
    pub in_step: bool,
    /// Since when there have been changes that were not sent.
    pub dirty_since_us: Option<u64>,
    /// The state of `Held::taken_changes` that it was told of.
    pub taken_told: u64,
    /// Since when it has not been in step.
    pub broken_since_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its turn, or for a link.
    Waiting,
    Copying(Cursor),
    Flowing,
}

/// A batch that was sent and not acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub number: u64,
    pub sent_us: u64,
    /// Since when the oldest change in it has been there.
    pub since_us: u64,
    /// Bytes that count as in flight: those of copies.
    pub bytes: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub to: PeerIx,
    /// Which of the machine's attempts to freeze a slot it is.
    pub number: u64,
    pub stage: MoveStage,
    /// Since when commands wait.
    pub frozen_us: u64,
    /// Whether those that waited have been let go because it took too long.
    pub released: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveStage {
    /// The node has been asked to freeze the slot.
    Freezing,
    /// It has been offered with an epoch, last at a time.
    Offered {
        epoch: Epoch,
        sent_us: u64,
        stream: u64,
        number: u64,
    },
}

impl Slot {
    pub fn new() -> Self {
        Self {
            belief: Belief {
                epoch: Epoch(0),
                holder: None,
            },
            since_us: 0,
            role: Role::Away,
            refused: Epoch(0),
            gave: false,
            taken: Vec::new(),
        }
    }

    pub fn held(&self) -> Option<&Held> {
        match &self.role {
            Role::Held(held) => Some(held),
            _ => None,
        }
    }

    pub fn held_mut(&mut self) -> Option<&mut Held> {
        match &mut self.role {
            Role::Held(held) => Some(held),
            _ => None,
        }
    }

    /// Whether the slot has been offered: it may be somebody else's already.
    pub fn offered(&self) -> Option<(PeerIx, Epoch)> {
        match self.held()?.moving? {
            Move {
                to,
                stage: MoveStage::Offered { epoch, .. },
                ..
            } => Some((to, epoch)),
            _ => None,
        }
    }
}

impl Follower {
    pub fn new(peer: PeerIx, now_us: u64) -> Self {
        Self {
            peer,
            stage: Stage::Waiting,
            stream: 0,
            next: 0,
            mark: Mark::default(),
            unacked: VecDeque::new(),
            copied: None,
            in_step: false,
            dirty_since_us: None,
            taken_told: 0,
            broken_since_us: now_us,
        }
    }

    /// Whether there is something that was not sent, or that it has not acknowledged.
    pub fn is_outstanding(&self) -> bool {
        !self.unacked.is_empty() || self.dirty_since_us.is_some()
    }

    /// Since when the oldest change that it has not acknowledged has been there.
    pub fn lags_since_us(&self) -> Option<u64> {
        if !self.in_step {
            return Some(self.broken_since_us);
        }
        let sent = self.unacked.front().map(|sent| sent.since_us);
        match (sent, self.dirty_since_us) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
