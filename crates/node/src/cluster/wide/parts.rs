//! Who has which slots, and what they answer.

use super::steps::{SlotsDone, SlotsOp};
use super::{AGAIN, serve};
use crate::limits::Bound;
use crate::node::{Place, owner};
use crate::peers::{PeerError, Pending};
use crate::worker::Worker;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_store::SlotSet;

/// Not all slots were reached in time.
#[derive(Debug, Default)]
pub struct Unanswered {
    /// The nodes that did not answer.
    pub nodes: BTreeSet<Arc<str>>,
    /// How many slots are left.
    pub slots: usize,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.nodes.iter().map(|name| &**name).collect();
        match &names[..] {
            [] => write!(f, "no node is known to have {} of the slots", self.slots),
            [name] => write!(f, "node {name} does not answer"),
            names => write!(f, "nodes {} do not answer", names.join(", ")),
        }
    }
}

/// A worker that has slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Of this node.
    Own(usize),
    /// Of a peer.
    Peer(Arc<str>, u16),
}

/// Who has the slots of a place.
struct Holder {
    /// Nobody if it is a worker of this node, or not known.
    peer: Option<Arc<str>>,
    workers: usize,
    /// By worker: the number of its part.
    parts: Vec<Option<usize>>,
}

/// A step that was asked for.
pub(super) enum Asked {
    Own(oneshot::Receiver<SlotsDone>),
    Peer(Arc<str>, Pending),
    /// It could not be sent.
    Not(Arc<str>),
}

impl Worker {
    /// Until when a command over all keys goes on that meets nodes which do not answer, or slots that nobody has.
    pub(super) fn wide_deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.node.config.limits.keys_wait_ms as u64)
    }

    /// Who has some slots now, as far as that is known.
    pub(super) fn parts_of(&self, slots: &SlotSet) -> Vec<(Part, SlotSet)> {
        let mut parts: Vec<(Part, SlotSet)> = Vec::new();
        let mut known: Vec<Option<Holder>> = Vec::new();
        for slot in slots.iter() {
            let Place::Of(place) = self.node.place(slot) else {
                continue;
            };
            if known.len() <= place {
                known.resize_with(place + 1, || None);
            }
            let holder = known[place].get_or_insert_with(|| self.holder_at(place));
            let worker = match &holder.peer {
                None => 0,
                Some(_) => owner(slot, holder.workers),
            };
            let Some(part) = holder.parts.get_mut(worker) else {
                continue;
            };
            let part = *part.get_or_insert_with(|| {
                let part = match &holder.peer {
                    None => Part::Own(place),
                    // There are far fewer workers than that.
                    Some(name) => Part::Peer(Arc::clone(name), worker as u16),
                };
                parts.push((part, SlotSet::default()));
                parts.len() - 1
            });
            parts[part].1.insert(slot);
        }
        parts
    }

    fn holder_at(&self, place: usize) -> Holder {
        let peer = self.peer_at(place);
        let workers = match &peer {
            // A worker of this node is a place of its own; and nobody has none.
            None => usize::from(place < self.node.workers()),
            Some(name) => self.links.as_ref().map_or(0, |links| {
                let view = links.view.borrow();
                view.member(name).map_or(1, |member| usize::from(member.workers.max(1)))
            }),
        };
        Holder {
            peer,
            workers,
            parts: vec![None; workers],
        }
    }

    /// The name of the peer that is a place.
    pub(super) fn peer_at(&self, place: usize) -> Option<Arc<str>> {
        let number = place.checked_sub(self.node.workers() + 1)?;
        // Numbers of peers have 16 bits.
        self.node.cluster.as_ref()?.name_of(number as u16)
    }

    /// Asks for a step.
    pub(super) fn ask_part(&self, part: Part, op: SlotsOp) -> Asked {
        match part {
            Part::Own(worker) => Asked::Own(self.ask_slots(worker, op)),
            Part::Peer(name, worker) => match self.ask_peer(&name, |links| {
                serve::with_message(&op, |message| links.peers.request(&name, worker, message))
            }) {
                Ok(pending) => Asked::Peer(name, pending),
                Err(_) => Asked::Not(name),
            },
        }
    }

    /// Asks a peer something, unless its circuit is open.
    pub(super) fn ask_peer<T>(
        &self,
        name: &str,
        ask: impl FnOnce(&crate::cluster::Links) -> Result<T, PeerError>,
    ) -> Result<T, PeerError> {
        let links = self.links.as_ref().ok_or(PeerError::Unknown)?;
        if !links.circuits.borrow_mut().may_ask(name, self.node.clock.now_us()) {
            return Err(PeerError::Refused);
        }
        let asked = ask(links);
        if let Err(PeerError::Full(bound)) = asked {
            self.counters().limit_hit(bound);
        }
        asked
    }

    /// Waits for what was asked of a peer, until `deadline` at the latest.
    pub(super) async fn answer_of(
        &self,
        name: &Arc<str>,
        pending: Pending,
        deadline: Instant,
    ) -> Result<crate::peers::Answer, PeerError> {
        let answer = tokio::time::timeout_at(deadline, pending).await;
        let Some(links) = &self.links else {
            return Err(PeerError::Unknown);
        };
        let (mut circuits, now_us) = (links.circuits.borrow_mut(), self.node.clock.now_us());
        match answer {
            Ok(answer) => {
                match &answer {
                    Ok(_) => circuits.answered(name, now_us),
                    Err(PeerError::Refused) => circuits.refused(name, now_us),
                    Err(_) => {}
                }
                answer
            }
            Err(_) => {
                circuits.missed(name, now_us);
                Err(PeerError::TimedOut)
            }
        }
    }

    /// Waits for a step. The error is the name of who does not answer.
    pub(super) async fn step_of(&self, asked: Asked, deadline: Instant) -> Result<SlotsDone, Option<Arc<str>>> {
        match asked {
            // A worker that is gone has nothing more.
            Asked::Own(answer) => answer.await.map_err(|_| None),
            Asked::Not(name) => Err(Some(name)),
            Asked::Peer(name, pending) => {
                let answer = self.answer_of(&name, pending, deadline).await;
                answer
                    .ok()
                    .and_then(|answer| serve::read_done(&answer))
                    .ok_or(Some(name))
            }
        }
    }

    /// Does a step in each of some slots, whoever has them. `take` is told what one worker has done, and says in which slots that was.
    ///
    /// # Errors
    /// [`Unanswered`]: some are left.
    pub(super) async fn in_slots(
        self: &Rc<Self>,
        mut left: SlotSet,
        deadline: Instant,
        ask: impl Fn(&SlotSet) -> SlotsOp,
        mut take: impl FnMut(&Part, SlotSet, SlotsDone) -> SlotSet,
    ) -> Result<(), Unanswered> {
        loop {
            let parts = self.parts_of(&left);
            let asked: Vec<(Part, SlotSet, Asked)> = parts
                .into_iter()
                .map(|(part, slots)| (part.clone(), slots.clone(), self.ask_part(part, ask(&slots))))
                .collect();
            let mut unanswered = Unanswered::default();
            let before = left.len();
            for (part, slots, asked) in asked {
                match self.step_of(asked, deadline).await {
                    Ok(done) => left.subtract(&take(&part, slots, done)),
                    Err(name) => unanswered.nodes.extend(name),
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
                self.until_changed(AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_named() {
        let unanswered = |names: &[&str]| {
            let nodes = names.iter().map(|name| Arc::from(*name)).collect();
            Unanswered { nodes, slots: 7 }.to_string()
        };
        assert_eq!(unanswered(&["b"]), "node b does not answer");
        assert_eq!(unanswered(&["c", "b"]), "nodes b, c do not answer");
        assert_eq!(unanswered(&[]), "no node is known to have 7 of the slots");
    }
}
