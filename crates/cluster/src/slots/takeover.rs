//! Views, and what becomes of slots whose holder is gone.

use super::defect::Defect;
use super::message::Message;
use super::peers::{ME, PeerIx};
use super::state::{Belief, Role};
use super::{Effect, Event, Machine, Step};
use crate::member::{Epoch, Incarnation};
use std::sync::Arc;

/// In a table of members by slot: none.
pub const NOBODY: u16 = u16::MAX;

/// Who is in the cluster, and which slots it wants each to have.
#[derive(Debug, Clone)]
pub struct View {
    /// The live members, those that leave included, and whether they leave; by name.
    pub members: Vec<(Incarnation, bool)>,
    /// By slot, for all slots of the cluster: which of the members the ring gives it, or [`NOBODY`].
    pub targets: Arc<[u16]>,
    /// By slot: which of the members the ring would give it if it had not the target, or [`NOBODY`].
    pub heirs: Arc<[u16]>,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    targets: Vec<Option<PeerIx>>,
    heirs: Vec<Option<PeerIx>>,
    /// Whether there may be slots that this node should take.
    pub orphans: bool,
    /// Whether the view has anybody else, be it a life that is over.
    pub others: bool,
    since_us: u64,
    asked_us: u64,
    /// The first question since the view last changed.
    question: u64,
}

impl Machine {
    /// The members have changed.
    pub fn view(&mut self, view: &View, step: &mut Step<'_>) {
        self.notice_pause(step);
        let members: Vec<Option<PeerIx>> = view.members.iter().map(|(id, _)| self.meet(id, step)).collect();
        let now: Vec<(PeerIx, bool)> = members
            .iter()
            .zip(&view.members)
            .filter_map(|(peer, (_, leaving))| Some(((*peer)?, *leaving)))
            .collect();
        self.change_members(&now, step.now_us);
        let first = usize::from(self.first);
        let table = |by_slot: &[u16]| -> Vec<Option<PeerIx>> {
            let member = |i: usize| members.get(usize::from(*by_slot.get(first + i)?)).copied().flatten();
            (0..self.slots.len()).map(member).collect()
        };
        (self.view.targets, self.view.heirs) = (table(&view.targets), table(&view.heirs));
        let me = self.peers.name(ME);
        self.view.others = view.members.iter().any(|(id, _)| id.name != me);
        self.view.since_us = step.now_us;
        self.view.question = self.contact.questions + 1;
        self.view.orphans = true;
        self.take_orphans(step);
        for slot in self.range() {
            self.choose_followers(slot, step);
            self.take_back_if_gone(slot, step);
        }
        let slots = &self.slots;
        self.peers
            .forget(step.now_us.saturating_sub(self.settings.missing_us), |peer| {
                slots.iter().any(|slot| slot.belief.holder == Some(peer))
            });
    }

    fn change_members(&mut self, now: &[(PeerIx, bool)], now_us: u64) {
        let all: Vec<PeerIx> = std::iter::once(ME)
            .chain(self.peers.others().map(|(peer, _)| peer))
            .collect();
        for peer in all {
            let found = now.iter().find(|(member, _)| *member == peer);
            let known = self.peers.get_mut(peer);
            match found {
                Some(&(_, leaving)) => {
                    (known.member, known.leaving, known.removed) = (true, leaving, false);
                    known.missing_since_us = None;
                }
                None if known.member => {
                    if !known.leaving {
                        known.missing_since_us = Some(now_us);
                    }
                    (known.member, known.removed, known.removed_us) = (false, true, now_us);
                }
                None => {}
            }
        }
    }

    pub(super) fn target(&self, slot: u16) -> Option<PeerIx> {
        *self.view.targets.get(usize::from(slot - self.first))?
    }

    /// Who would get the slot if `holder` were gone.
    pub(super) fn heir(&self, slot: u16, holder: PeerIx) -> Option<PeerIx> {
        match self.target(slot) {
            Some(target) if target != holder => Some(target),
            _ => *self.view.heirs.get(usize::from(slot - self.first))?,
        }
    }

    /// Whether this node should follow `holder` in a slot.
    pub(super) fn follows(&self, slot: u16, holder: PeerIx) -> bool {
        self.heir(slot, holder) == Some(ME) || self.target(slot) == Some(ME)
    }

    /// The life of a peer has ended, and another of the same name begun: nobody holds what it held.
    pub(super) fn end_life(&mut self, peer: PeerIx, step: &mut Step<'_>) {
        let range = self.range();
        self.peers.links.retain(|(of, _), _| *of != peer);
        self.break_streams(peer, range.clone(), step);
        for slot in range {
            let belief = self.slot(slot).belief;
            if belief.holder == Some(peer) && !self.has(Defect::RestartNotNoticed) {
                self.set_belief(slot, Belief { holder: None, ..belief }, step);
            }
            self.take_back_if_gone(slot, step);
        }
    }

    /// Takes the slots that the ring gives to this node and whose holder is gone.
    pub(super) fn take_orphans(&mut self, step: &mut Step<'_>) {
        // A node that stood still takes nothing before it knows what has become of the others.
        if !self.view.orphans || !self.pause.certain() {
            return;
        }
        self.view.orphans = false;
        let mut unknown = Vec::new();
        for slot in self.range() {
            if self.target(slot) != Some(ME) {
                continue;
            }
            let Belief { epoch, holder } = self.slot(slot).belief;
            match holder {
                None if epoch == Epoch(0) => unknown.push(slot),
                None => self.take_over(slot, step),
                Some(ME) => {}
                Some(holder) if self.peers.get(holder).member => {}
                Some(holder) if self.died_as_holder(slot, holder) => self.take_over(slot, step),
                Some(holder) => {
                    // Not in the view yet, or alive for others that this node hears of.
                    self.view.orphans = true;
                    let heard_us = self.peers.get(holder).heard_us.max(self.slot(slot).since_us);
                    if step.now_us > heard_us.max(self.view.since_us) + self.settings.unknown_us {
                        self.take_over(slot, step);
                    }
                }
            }
        }
        if !unknown.is_empty() {
            self.view.orphans = true;
            self.take_unknown(&unknown, step);
        }
    }

    /// Whether the view lost the holder of a slot after this node heard that it was that.
    fn died_as_holder(&self, slot: u16, holder: PeerIx) -> bool {
        let peer = self.peers.get(holder);
        peer.removed && peer.removed_us >= self.slot(slot).since_us
    }

    /// Slots of which this node has heard nothing: somebody may hold them, so it asks all before it takes them.
    fn take_unknown(&mut self, unknown: &[u16], step: &mut Step<'_>) {
        let answered = |peer: PeerIx| {
            let mut links = self.peers.links.range((peer, 0)..=(peer, u16::MAX)).peekable();
            links.peek().is_some() && links.all(|(_, link)| link.answered >= self.view.question)
        };
        let all_answered = self
            .peers
            .others()
            .filter(|(_, peer)| peer.member)
            .all(|(peer, _)| answered(peer));
        let waited = step.now_us > self.view.since_us + self.settings.unknown_us;
        let long = step.now_us > self.view.since_us + 3 * self.settings.unknown_us;
        if (waited && all_answered && self.view.others) || long {
            for &slot in unknown {
                self.take_over(slot, step);
            }
        } else if step.now_us > self.view.asked_us + self.settings.unknown_us / 4 {
            self.view.asked_us = step.now_us;
            self.contact.questions += 1;
            let number = self.contact.questions;
            for (&to, link) in &self.peers.links {
                let mine = unknown.iter().filter(|slot| link.slots.contains(slot));
                let ranges: Vec<(u16, u16)> = mine.map(|&slot| (slot, slot)).collect();
                self.send(to, Message::Ask { ranges, number }, step);
            }
        }
    }

    fn take_over(&mut self, slot: u16, step: &mut Step<'_>) {
        let state = self.slot(slot);
        let more = u64::from(!self.has(Defect::TakeoverKeepsEpoch) || state.belief.epoch == Epoch(0));
        let epoch = Epoch(state.belief.epoch.0.saturating_add(more));
        let in_step = matches!(&state.role, Role::Replica(replica) if replica.in_step);
        self.hold(slot, epoch, None, step);
        step.effects
            .push(Effect::Event(Event::TookOver { slot, epoch, in_step }));
    }

    /// Whether the life of a peer that was in the view is over, or the view has lost it.
    pub(super) fn is_gone(&self, peer: PeerIx) -> bool {
        self.peers.get(peer).removed || !self.peers.get(peer).member
    }

    /// For tests and status: who the ring gives a slot to, by name.
    pub fn target_name(&self, slot: u16) -> Option<Arc<str>> {
        self.find(slot)?;
        self.target(slot).map(|peer| self.peers.name(peer))
    }

    /// Who would get the slot if its holder were gone, by name; `None` if nobody is left or no holder is known.
    pub fn heir_name(&self, slot: u16) -> Option<Arc<str>> {
        let holder = self.find(slot)?.belief.holder;
        let heir = match holder {
            Some(holder) => self.heir(slot, holder),
            None => self.target(slot),
        };
        heir.map(|peer| self.peers.name(peer))
    }
}
