//! What peers tell each other of who holds what, and who is believed.
//!
//! A claim is an epoch and a holder. The higher epoch counts, of equal ones that of the smaller name, and a holder more than none. A
//! node tells what it holds when a link comes up and when it becomes a holder; who knows better answers with what it believes, which
//! nobody answers again. Sums over all holdings, sent now and then, show what was lost on the way.

use super::defect::Defect;
use super::message::{Claim, Message, Run};
use super::peers::{Life, ME, PeerIx};
use super::state::{Belief, Replica, Role};
use super::{Effect, Event, Machine, Step};
use crate::member::Epoch;
use std::cmp::Ordering;

/// How many claims go in one message.
const CLAIMS_MAX: usize = 2048;

#[derive(Debug, Default)]
pub(super) struct Contact {
    digests_sent_us: u64,
    pings_sent_us: u64,
    pub questions: u64,
}

/// What has become of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It was better than what was believed, and is believed now.
    Believed,
    /// It was believed already, or says nothing.
    Known,
    /// This node knows better.
    Stale,
}

impl Machine {
    /// Hears that `holder` holds a slot with `epoch`.
    pub(super) fn believe(&mut self, slot: u16, epoch: Epoch, holder: Option<PeerIx>, step: &mut Step<'_>) -> Heard {
        let belief = self.slot(slot).belief;
        match epoch.cmp(&belief.epoch) {
            Ordering::Less => return Heard::Stale,
            Ordering::Equal => match (holder, belief.holder) {
                (None, _) => return Heard::Known,
                (Some(new), Some(old)) if new == old => return Heard::Known,
                (Some(new), Some(old)) if self.peers.name(new) > self.peers.name(old) => return Heard::Stale,
                _ => {}
            },
            Ordering::Greater => {}
        }
        if holder == Some(ME) {
            return Heard::Known;
        }
        if self.slot(slot).held().is_some() {
            match holder {
                Some(holder) => self.lose(slot, epoch, holder, step),
                None => {
                    // That holder is gone, and this state is what there is. The target may be taking the slot with the next epoch.
                    let more = if self.target(slot) == Some(ME) { 1 } else { 2 };
                    self.hold_again(slot, Epoch(epoch.0.saturating_add(more)), step);
                }
            }
            return Heard::Believed;
        }
        let state = self.slot_mut(slot);
        if let Role::Replica(replica) = &mut state.role
            && belief.holder != holder
        {
            *replica = Replica {
                heard_us: replica.heard_us,
                whole: replica.whole,
                ..Replica::default()
            };
        }
        self.set_belief(slot, Belief { epoch, holder }, step);
        Heard::Believed
    }

    pub(super) fn set_belief(&mut self, slot: u16, belief: Belief, step: &mut Step<'_>) {
        let state = self.slot_mut(slot);
        state.belief = belief;
        state.since_us = step.now_us;
        self.view.orphans = true;
        self.publish(slot, step);
    }

    /// This node holds the slot no more: another has a better claim to it, or has taken what was offered.
    fn lose(&mut self, slot: u16, epoch: Epoch, holder: PeerIx, step: &mut Step<'_>) {
        let planned = self.slot(slot).offered() == Some((holder, epoch));
        self.stop_streams(slot, step);
        let moving = self.end_move(slot);
        step.store.set_held(slot, false);
        self.news.remove(slot);
        // Its state contains what this node has admitted, or lacks all of it.
        if planned {
            self.debts.journal.forget_inside(slot);
        } else if self.has(Defect::JournalDropped) {
            self.debts.journal.take(slot, usize::MAX);
        } else {
            self.debts.journal.overwritten(slot);
        }
        let role = if self.follows(slot, holder) {
            let handed = planned.then_some(epoch);
            Role::Replica(Replica {
                handed,
                in_step: planned,
                // It has held the slot.
                whole: true,
                heard_us: step.now_us,
                ..Replica::default()
            })
        } else {
            step.store.clear(slot);
            Role::Away
        };
        let state = self.slot_mut(slot);
        state.gave = planned;
        if matches!(role, Role::Away) {
            state.taken.clear();
        }
        state.role = role;
        self.set_belief(
            slot,
            Belief {
                epoch,
                holder: Some(holder),
            },
            step,
        );
        if moving {
            step.effects.push(Effect::Release { slot });
        }
        step.effects.push(Effect::Event(match planned {
            true => Event::Left { slot, epoch },
            false => Event::Lost { slot, epoch },
        }));
    }

    /// Tells a worker of a peer all that this node holds of the slots that they share.
    pub(super) fn tell_holdings(&self, peer: PeerIx, worker: u16, step: &mut Step<'_>) {
        let Some(link) = self.peers.links.get(&(peer, worker)) else {
            return;
        };
        let runs = self.runs(link.slots.clone());
        self.send((peer, worker), Message::Holdings { runs, all: true }, step);
    }

    fn runs(&self, slots: impl Iterator<Item = u16>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for slot in slots {
            let state = self.slot(slot);
            if state.held().is_none() {
                continue;
            }
            let epoch = state.belief.epoch;
            match runs.last_mut() {
                Some(run) if run.epoch == epoch && run.last + 1 == slot => run.last = slot,
                _ => runs.push(Run {
                    first: slot,
                    last: slot,
                    epoch,
                }),
            }
        }
        runs
    }

    pub(super) fn on_holdings(&mut self, from: (PeerIx, u16), runs: &[Run], all: bool, step: &mut Step<'_>) {
        let mut told = vec![false; self.slots.len()];
        let mut stale = Vec::new();
        for run in runs {
            for slot in self.clip(run.first, run.last) {
                told[usize::from(slot - self.first)] = true;
                if self.believe(slot, run.epoch, Some(from.0), step) == Heard::Stale {
                    stale.push(slot);
                }
            }
        }
        if !stale.is_empty() {
            self.tell_known(from, stale.into_iter(), None, step);
        }
        let Some(link) = self.peers.links.get(&from).filter(|_| all) else {
            return;
        };
        // It does not hold what it was believed to hold, so it knows who does.
        let wrong =
            |slot: &u16| !told[usize::from(slot - self.first)] && self.slot(*slot).belief.holder == Some(from.0);
        let ranges: Vec<(u16, u16)> = link.slots.clone().filter(wrong).map(|slot| (slot, slot)).collect();
        if !ranges.is_empty() {
            self.send(from, Message::Ask { ranges, number: 0 }, step);
        }
    }

    pub(super) fn on_ask(&mut self, from: (PeerIx, u16), ranges: &[(u16, u16)], number: u64, step: &mut Step<'_>) {
        // Each slot is answered once, however often it is asked for.
        let mut asked = vec![false; self.slots.len()];
        for &(first, last) in ranges.iter().take(self.slots.len()) {
            for slot in self.clip(first, last) {
                asked[usize::from(slot - self.first)] = true;
            }
        }
        let first = self.first;
        let slots = asked
            .iter()
            .enumerate()
            .filter(|(_, asked)| **asked)
            .map(|(i, _)| first + i as u16);
        self.tell_known(from, slots, Some(number), step);
    }

    /// Tells what this node believes of slots of which it has heard.
    pub(super) fn tell_known(
        &self,
        to: (PeerIx, u16),
        slots: impl Iterator<Item = u16>,
        answer: Option<u64>,
        step: &mut Step<'_>,
    ) {
        let mut claims: Vec<Claim> = Vec::new();
        for slot in slots {
            let Belief { epoch, holder } = self.slot(slot).belief;
            if epoch == Epoch(0) {
                continue;
            }
            let holder = holder.map(|peer| self.peers.get(peer).id.clone());
            match claims.last_mut() {
                Some(claim) if claim.epoch == epoch && claim.holder == holder && claim.last + 1 == slot => {
                    claim.last = slot;
                }
                _ => {
                    if claims.len() == CLAIMS_MAX {
                        let claims = std::mem::take(&mut claims);
                        self.send(to, Message::Known { claims, answer: None }, step);
                    }
                    claims.push(Claim {
                        first: slot,
                        last: slot,
                        epoch,
                        holder,
                    });
                }
            }
        }
        self.send(to, Message::Known { claims, answer }, step);
    }

    pub(super) fn on_known(&mut self, from: (PeerIx, u16), claims: &[Claim], answer: Option<u64>, step: &mut Step<'_>) {
        for claim in claims {
            let holder = match &claim.holder {
                None => None,
                Some(id) => match self.peers.meet(id, step.now_us) {
                    Life::Current(peer) => Some(peer),
                    Life::Over => None,
                    Life::New(peer) => {
                        self.end_life(peer, step);
                        Some(peer)
                    }
                },
            };
            for slot in self.clip(claim.first, claim.last) {
                let believed = Belief {
                    epoch: claim.epoch,
                    holder: Some(from.0),
                };
                if holder.is_none() && self.slot(slot).belief == believed {
                    // It has lost the slot to a better claim of that epoch, whose life is over.
                    self.set_belief(
                        slot,
                        Belief {
                            holder: None,
                            ..believed
                        },
                        step,
                    );
                } else {
                    self.believe(slot, claim.epoch, holder, step);
                }
            }
        }
        if let (Some(number), Some(link)) = (answer, self.peers.links.get_mut(&from)) {
            link.answered = link.answered.max(number);
        }
    }

    /// Tells all peers of the slots that this node has come to hold.
    pub(super) fn tell_news(&mut self, step: &mut Step<'_>) {
        if self.news.is_empty() {
            return;
        }
        let news = std::mem::take(&mut self.news);
        for (&to, link) in &self.peers.links {
            let runs = self.runs(news.iter().filter(|slot| link.slots.contains(slot)));
            if !runs.is_empty() {
                self.send(to, Message::Holdings { runs, all: false }, step);
            }
        }
    }

    pub(super) fn send_digests(&mut self, step: &mut Step<'_>) {
        if step.now_us < self.contact.digests_sent_us.saturating_add(self.settings.digest_us) {
            return;
        }
        self.contact.digests_sent_us = step.now_us;
        for (&to, link) in &self.peers.links {
            let sum = self.sum(link.slots.clone(), ME);
            self.send(to, Message::Digest { sum }, step);
        }
    }

    pub(super) fn send_pings(&mut self, step: &mut Step<'_>) {
        if step.now_us < self.contact.pings_sent_us.saturating_add(self.settings.ping_us) {
            return;
        }
        self.contact.pings_sent_us = step.now_us;
        for &to in self.peers.links.keys() {
            self.send(to, Message::Ping { sent_us: step.now_us }, step);
        }
    }

    pub(super) fn on_pong(&mut self, from: (PeerIx, u16), sent_us: u64, now_us: u64) {
        if let Some(link) = self.peers.links.get_mut(&from) {
            link.pinged_us = link.pinged_us.max(sent_us.min(now_us));
        }
    }

    pub(super) fn on_digest(&mut self, from: (PeerIx, u16), sum: u64, step: &mut Step<'_>) {
        let Some(link) = self.peers.links.get(&from) else {
            return;
        };
        let right = self.sum(link.slots.clone(), from.0) == sum;
        let Some(link) = self.peers.links.get_mut(&from) else {
            return;
        };
        link.digests_wrong = if right { 0 } else { link.digests_wrong + 1 };
        // Once may be an announcement that is still on its way.
        if link.digests_wrong >= 2 {
            link.digests_wrong = 0;
            self.send(from, Message::Tell, step);
        }
    }

    /// A sum over the slots that a node is believed to hold: equal for the node and its peers if they believe the same.
    fn sum(&self, slots: impl Iterator<Item = u16>, holder: PeerIx) -> u64 {
        let held = slots
            .map(|slot| (slot, self.slot(slot).belief))
            .filter(|(_, belief)| belief.holder == Some(holder));
        held.fold(0, |sum, (slot, belief)| {
            sum.wrapping_add(mix(u64::from(slot) ^ (belief.epoch.0 << 14)))
        })
    }

    /// The slots of a range in a message that are this machine's.
    pub(super) fn clip(&self, first: u16, last: u16) -> impl Iterator<Item = u16> + use<> {
        let mine = self.range();
        let end = u32::from(last) + 1;
        u32::from(first.max(mine.start)) as u16..end.min(u32::from(mine.end)) as u16
    }
}

/// Spreads the bits of a number (the finish of splitmix64), so that sums of such numbers rarely agree by chance.
fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
