//! Where the keys of a command are, for workers of a clustered node.

use crate::node::{Node, Place};
use crate::worker::Worker;
use std::time::Duration;
use tollgate_cluster::circuit::Class;
use tollgate_commands::{Run, Spec};
use tollgate_protocol::Request;
use tollgate_store::slot_of;

/// How long a check, or whatever else must not wait, waits for a slot that is on its way to another node.
const PROMPT_PATIENCE_US: u64 = 20_000;
/// How long any other command does.
const PATIENCE_US: u64 = 3_000_000;

/// Where the keys of a command are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// In this node, or in several.
    Here,
    /// One of them is in this slot, which is closing.
    Closing(u16),
    /// All in that place, which is no worker of this node.
    Elsewhere(usize),
    /// In several places, for a command that does the same to each of its keys.
    Several,
}

/// How long a command may wait, and who can decide it.
pub fn class_of(spec: &Spec) -> Class {
    match spec.run {
        Run::Check(_) => Class::Check,
        Run::Key(_) if spec.group == "tollgate" => Class::Prompt,
        _ => Class::Other,
    }
}

/// Waits while a slot of any worker of a node is closing.
pub(super) async fn until_open(node: &Node, slot: u16) {
    let Some(cluster) = &node.cluster else { return };
    while node.place(slot) == Place::Closing {
        // Registered first: a slot that opens between the two is not missed, whichever worker opens it.
        let opened = cluster.opened.notified();
        tokio::pin!(opened);
        opened.as_mut().enable();
        if node.place(slot) == Place::Closing {
            opened.await;
        }
    }
}

impl Worker {
    /// Where the keys of a request are now. A command that was sent to this worker for its keys asks again before it runs, since a slot may
    /// have moved meanwhile.
    #[inline]
    pub fn whereabouts(&self, spec: &Spec, request: Request<'_>) -> Whereabouts {
        match self.node.cluster {
            None => Whereabouts::Here,
            Some(_) => self.find_keys(spec, request),
        }
    }

    fn find_keys(&self, spec: &Spec, request: Request<'_>) -> Whereabouts {
        let workers = self.node.workers();
        let goes_apart = matches!(spec.run, Run::EachKey(_));
        let mut only: Option<usize> = None;
        let mut is_one = true;
        for position in spec.key_positions(request) {
            let slot = slot_of(request.arg(position));
            let place = match self.node.place(slot) {
                Place::Closing => return Whereabouts::Closing(slot),
                Place::Of(place) => place,
            };
            is_one &= only.is_none_or(|only| only == place);
            // Keys of several places have to be brought together, whichever those are.
            if !goes_apart && (place < workers || !is_one) {
                return Whereabouts::Here;
            }
            only = Some(place);
        }
        match only {
            _ if !is_one => Whereabouts::Several,
            Some(place) if place >= workers => Whereabouts::Elsewhere(place),
            _ => Whereabouts::Here,
        }
    }

    /// The slot of the first key of a request that is not in this node, or else of its first key.
    pub(crate) fn slot_elsewhere(&self, spec: &Spec, request: Request<'_>) -> u16 {
        let slots = || {
            spec.key_positions(request)
                .map(|position| slot_of(request.arg(position)))
        };
        let is_elsewhere =
            |slot: &u16| !matches!(self.node.place(*slot), Place::Of(place) if place < self.node.workers());
        slots().find(is_elsewhere).or_else(|| slots().next()).unwrap_or(0)
    }

    /// Waits while a slot is closing.
    pub async fn until_open(&self, slot: u16) {
        until_open(&self.node, slot).await;
    }

    /// Waits while a slot is closing, as long as a command may that was asked for at `asked_us`, by the node's clock. Answers whether it
    /// is known now where the slot is; else somebody has to decide in place of the holder, or nobody does.
    pub async fn until_open_for(&self, slot: u16, spec: &Spec, asked_us: u64) -> bool {
        let patience_us = match class_of(spec) {
            Class::Check | Class::Prompt => PROMPT_PATIENCE_US,
            Class::Other => PATIENCE_US,
        };
        let left_us = (asked_us + patience_us).saturating_sub(self.node.clock.now_us());
        // What has come of it is looked at below.
        let _ = tokio::time::timeout(Duration::from_micros(left_us), self.until_open(slot)).await;
        self.node.place(slot) != Place::Closing
    }
}
