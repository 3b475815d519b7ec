//! FLUSHALL and FLUSHDB over all nodes.
//!
//! Each holder empties the slots that it holds, and who follows them is told as of any change. A slot that moves meanwhile is flushed where
//! it ends up: so what is written while a flush is under way may be flushed, too, and nothing that was there when it began is left.

use super::parts::Unanswered;
use super::steps::{SlotsDone, SlotsOp};
use super::{AGAIN, serve};
use crate::limits::Bound;
use crate::loans::Keys;
use crate::node::Place;
use crate::worker::Worker;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_cluster::wire::{Keyspace, KeyspaceStep};
use tollgate_commands::{CommandError, KeyspaceAnswer, KeyspaceOp};
use tollgate_store::SlotSet;

/// The longest time between two attempts.
const AGAIN_MAX: Duration = Duration::from_millis(100);

impl Worker {
    /// Empties what this node holds, of a database or of all: which slots. `has_node` says whether the node is the caller's already.
    ///
    /// # Errors
    /// Keys were in use for too long.
    pub async fn flush_node(self: &Rc<Self>, db: Option<u8>, has_node: bool) -> Result<SlotSet, CommandError> {
        let mut keys = Keys::new(self, self.next_run());
        if !has_node {
            // It must not meet keys that are lent or held.
            keys.take_node().await?;
        }
        let asked: Vec<_> = (0..self.node.workers())
            .map(|worker| self.ask_slots(worker, SlotsOp::Flush(db)))
            .collect();
        let mut flushed = SlotSet::default();
        for answer in asked {
            // A worker that is gone holds nothing.
            if let Ok(SlotsDone::Flushed(slots)) = answer.await {
                flushed.add(&slots);
            }
        }
        Ok(flushed)
    }

    /// Frees all that was flushed in this node.
    pub(super) async fn free_node(&self) {
        for worker in 0..self.node.workers() {
            while let Ok(KeyspaceAnswer::Freed { more: true }) = self.node.ask_keyspace(worker, KeyspaceOp::Free).await
            {
            }
        }
    }

    /// The peers that have some of these slots, and whether this node has some.
    fn holders_of(&self, slots: &SlotSet) -> (BTreeSet<Arc<str>>, bool) {
        let mut places = BTreeSet::new();
        for slot in slots.iter() {
            if let Place::Of(place) = self.node.place(slot) {
                places.insert(place);
            }
        }
        let is_own = places.first().is_some_and(|&first| first < self.node.workers());
        let peers = places.into_iter().filter_map(|place| self.peer_at(place)).collect();
        (peers, is_own)
    }

    fn ask_to_empty(&self, name: &Arc<str>, step: KeyspaceStep<'_>) -> Option<crate::peers::Pending> {
        let workers = self.links.as_ref()?.view.borrow().member(name)?.workers;
        let worker = self.index as u16 % workers.max(1);
        let asked = self.ask_peer(name, |links| links.peers.request(name, worker, &Keyspace { step }));
        asked.ok()
    }

    /// Empties a database, or everything, wherever it is.
    pub(super) async fn flush_everywhere(self: &Rc<Self>, db: Option<u8>, has_node: bool) -> Result<(), Unanswered> {
        let deadline = self.wide_deadline();
        let mut left = SlotSet::all();
        let mut wait = AGAIN;
        loop {
            let (peers, is_own) = self.holders_of(&left);
            let before = left.len();
            let mut unanswered = Unanswered::default();
            let asked: Vec<_> = peers
                .into_iter()
                .map(|name| {
                    let pending = self.ask_to_empty(&name, KeyspaceStep::Flush { db });
                    (name, pending)
                })
                .collect();
            if is_own {
                match self.flush_node(db, has_node).await {
                    Ok(flushed) => left.subtract(&flushed),
                    Err(_) => unanswered.nodes.extend(self.own_name()),
                }
            }
            for (name, pending) in asked {
                let done = match pending {
                    Some(pending) => self.answer_of(&name, pending, deadline).await.ok(),
                    None => None,
                };
                match done.and_then(|answer| serve::read_done(&answer)) {
                    Some(SlotsDone::Flushed(flushed)) => left.subtract(&flushed),
                    _ => drop(unanswered.nodes.insert(name)),
                }
            }
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                self.counters().limit_hit(Bound::KeysWaitMs);
                unanswered.slots = left.len();
                return Err(unanswered);
            }
            if left.len() == before {
                self.until_changed(wait).await;
                // What is asked again is not only looked at.
                wait = (2 * wait).min(AGAIN_MAX);
            }
        }
    }

    fn own_name(&self) -> Option<Arc<str>> {
        self.node.cluster.as_ref().map(|cluster| Arc::clone(&cluster.me.name))
    }

    /// Waits until the memory of what was flushed is free on all nodes.
    pub(super) async fn free_everywhere(self: &Rc<Self>) -> Result<(), Unanswered> {
        let deadline = self.wide_deadline();
        let (peers, _) = self.holders_of(&SlotSet::all());
        let asked: Vec<_> = peers
            .into_iter()
            .map(|name| {
                let pending = self.ask_to_empty(&name, KeyspaceStep::Free);
                (name, pending)
            })
            .collect();
        self.free_node().await;
        let mut unanswered = Unanswered::default();
        for (name, pending) in asked {
            let done = match pending {
                Some(pending) => self.answer_of(&name, pending, deadline).await.ok(),
                None => None,
            };
            if !matches!(
                done.and_then(|answer| serve::read_done(&answer)),
                Some(SlotsDone::Freed)
            ) {
                unanswered.nodes.insert(name);
            }
        }
        match unanswered.nodes.is_empty() {
            true => Ok(()),
            false => Err(unanswered),
        }
    }
}
