//! What was admitted in place of a holder, and how it gets there.
//!
//! A journal of admissions is kept by stand-ins, by local shares, and by a holder while another may have taken the slot without its
//! knowledge: a peer does not answer or is missing, or the heir has not acknowledged for a while. Who does not hold the slot sends its journal to who does,
//! batch by batch. Batches of a life are numbered, and what a state of a slot contains travels with it, so each is taken once.

use super::defect::Defect;
use super::message::{Message, Taken};
use super::peers::{ME, PeerIx};
use super::slot_set::SlotSet;
use super::store::Debit;
use super::{Machine, Step};
use crate::journal::{Admission, Journal};
use crate::member::Incarnation;
use bytes::Bytes;
use std::collections::BTreeMap;

/// How many buckets a batch of debits has.
const BATCH_BUCKETS: usize = 256;
/// How often journals are looked at, in microseconds.
const LOOK_US: u64 = 50_000;
/// How many slots are sent debits of at once.
const SLOTS_AT_ONCE: usize = 64;
/// Of how many origins a slot remembers which of their debits it has.
const ORIGINS_MAX: usize = 64;
/// After how long debits that were not acknowledged are sent again, in microseconds.
const AGAIN_US: u64 = 250_000;

#[derive(Debug)]
pub(super) struct Debts {
    pub journal: Journal,
    /// Batches that were sent and not acknowledged, by slot.
    pub under_way: BTreeMap<u16, UnderWay>,
    last_number: u64,
    looked_us: u64,
    /// A peer is missing: until this time holders keep journals. 0: none is.
    missing_until_us: u64,
    /// Slots with a follower that has not acknowledged changes for so long that a journal is kept.
    overdue: SlotSet,
    /// How often it has changed which journals are kept.
    version: u64,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    number: u64,
    to: Option<PeerIx>,
    sent_us: u64,
    pub debits: Vec<Debit>,
}

impl Debts {
    pub fn new(entries_max: usize) -> Self {
        Self {
            journal: Journal::new(entries_max),
            under_way: BTreeMap::new(),
            last_number: 0,
            looked_us: 0,
            missing_until_us: 0,
            overdue: SlotSet::default(),
            version: 0,
        }
    }
}

impl Machine {
    /// Whether admissions of a slot that this node holds are to be told by [`Machine::admitted`] now. Those of a stand-in and of a local
    /// share always are.
    pub fn journals(&self, slot: u16) -> bool {
        self.debts.missing_until_us > 0
            || self
                .find(slot)
                .is_some_and(|state| state.held().is_some_and(|held| held.overdue))
    }

    /// A number that rises whenever [`Machine::journals`] may have another answer for a slot.
    pub fn journals_version(&self) -> u64 {
        self.version.wrapping_add(self.debts.version)
    }

    /// Tokens of a bucket were admitted at this node, now or lately: what it admitted as the holder may be told after it has lost the slot.
    pub fn admitted(&mut self, slot: u16, admission: Admission, bucket: Bytes, parameters: Bytes, tokens: u64) {
        let Some(state) = self.find(slot) else { return };
        let admission = match admission {
            Admission::Held if state.held().is_some() => admission,
            // The winner of the slot knows nothing of it.
            Admission::Held if !state.gave => Admission::Local,
            Admission::Held => return,
            Admission::Heir | Admission::Local => admission,
        };
        let wanted = match admission {
            Admission::Held => self.journals(slot),
            Admission::Heir => !self.has(Defect::StandInNotJournalled),
            Admission::Local => !self.has(Defect::LocalNotJournalled),
        };
        if wanted && tokens > 0 {
            self.debts.journal.add(
                slot,
                admission,
                &Debit {
                    bucket,
                    parameters,
                    tokens,
                },
            );
        }
    }

    /// How many tokens were forgotten because a journal was full, and how many buckets it has.
    pub fn journal_figures(&self) -> (u64, usize) {
        let under_way: usize = self.debts.under_way.values().map(|batch| batch.debits.len()).sum();
        (self.debts.journal.dropped(), self.debts.journal.len() + under_way)
    }

    /// This node has become the holder: its state is the one that counts.
    pub(super) fn settle_debts(&mut self, slot: u16, step: &mut Step<'_>) {
        if let Some(batch) = self.debts.under_way.remove(&slot) {
            let me = &self.peers.get(ME).id;
            let taken = self
                .slot(slot)
                .taken
                .iter()
                .any(|taken| taken.origin == *me && taken.number >= batch.number);
            if !taken {
                for debit in &batch.debits {
                    self.debts.journal.add(slot, Admission::Local, debit);
                }
            }
        }
        for debit in self.debts.journal.settle(slot) {
            step.store.debit(slot, &debit, step.now_us);
        }
        if !self.journals(slot) {
            self.debts.journal.forget_inside(slot);
        }
    }

    /// Notes which holders must keep journals, and sends what those that are none have.
    pub(super) fn look_at_debts(&mut self, step: &mut Step<'_>) {
        if step.now_us < self.debts.looked_us + LOOK_US {
            return;
        }
        self.debts.looked_us = step.now_us;
        self.look_for_missing(step.now_us);
        self.look_for_overdue(step.now_us);
        let mut due: Vec<u16> = self.debts.under_way.keys().copied().collect();
        due.extend(
            self.debts
                .journal
                .slots()
                .filter(|slot| !self.debts.under_way.contains_key(slot)),
        );
        due.retain(|&slot| self.slot(slot).held().is_none() && self.debts_are_due(slot, step.now_us));
        for slot in due.into_iter().take(SLOTS_AT_ONCE) {
            self.send_debits(slot, step);
        }
    }

    /// While a peer is out of sight, whether or not the view has it, and until it has been back for a while, it may have taken slots that
    /// this node holds as well.
    fn look_for_missing(&mut self, now_us: u64) {
        let overdue_us = self.settings.overdue_us;
        let silent = |peer: PeerIx| {
            let mut links = self.peers.links.range((peer, 0)..=(peer, u16::MAX)).peekable();
            links.peek().is_none() || links.any(|(_, link)| now_us > link.pinged_us + overdue_us)
        };
        let out_of_sight = self.peers.others().any(|(ix, peer)| match peer.missing_since_us {
            Some(since_us) => now_us < since_us + self.settings.missing_us,
            None => peer.member && silent(ix),
        });
        if out_of_sight {
            self.debts.version += u64::from(self.debts.missing_until_us == 0);
            self.debts.missing_until_us = now_us + self.settings.journal_linger_us;
        } else if self.debts.missing_until_us != 0 && now_us > self.debts.missing_until_us {
            self.debts.missing_until_us = 0;
            self.debts.version += 1;
            let held = self
                .debts
                .journal
                .slots()
                .filter(|&slot| self.slot(slot).held().is_some_and(|held| !held.overdue));
            for slot in held.collect::<Vec<_>>() {
                self.debts.journal.forget_inside(slot);
            }
        }
    }

    fn look_for_overdue(&mut self, now_us: u64) {
        let overdue_us = self.settings.overdue_us;
        let missing = self.debts.missing_until_us > 0;
        // All others are in step.
        let mut looked_at = std::mem::take(&mut self.due);
        looked_at.copy_from(&self.busy);
        for more in [
            &self.flowing,
            &self.streams.waiting,
            &self.streams.unlinked,
            &self.debts.overdue,
        ] {
            looked_at.extend(more);
        }
        for slot in looked_at.iter() {
            let Some(held) = self.slot_mut(slot).held_mut() else {
                self.debts.overdue.remove(slot);
                continue;
            };
            let late = |since_us: u64| now_us > since_us + overdue_us;
            let overdue = held
                .followers
                .iter()
                .any(|follower| follower.lags_since_us().is_some_and(late));
            let was = std::mem::replace(&mut held.overdue, overdue);
            self.debts.version += u64::from(was != overdue);
            self.debts.overdue.set(slot, overdue);
            if was && !overdue && !missing {
                self.debts.journal.forget_inside(slot);
            }
        }
        self.due = looked_at;
    }

    fn debts_are_due(&self, slot: u16, now_us: u64) -> bool {
        let Some(holder) = self.slot(slot).belief.holder else {
            return false;
        };
        let linked = self.peers.link_of(holder, slot).is_some();
        linked
            && self
                .debts
                .under_way
                .get(&slot)
                .is_none_or(|batch| batch.to != Some(holder) || now_us > batch.sent_us + AGAIN_US)
    }

    fn send_debits(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some(holder) = self.slot(slot).belief.holder else {
            return;
        };
        let debts = &mut self.debts;
        let batch = debts.under_way.entry(slot).or_insert_with(|| {
            debts.last_number += 1;
            let debits = debts.journal.take(slot, BATCH_BUCKETS);
            UnderWay {
                number: debts.last_number,
                to: None,
                sent_us: 0,
                debits,
            }
        });
        (batch.to, batch.sent_us) = (Some(holder), step.now_us);
        let message = Message::Debits {
            slot,
            number: batch.number,
            debits: batch.debits.clone(),
        };
        self.send_for(holder, slot, message, step);
    }

    pub(super) fn on_debits(
        &mut self,
        from: (PeerIx, u16),
        slot: u16,
        number: u64,
        debits: &[Debit],
        step: &mut Step<'_>,
    ) {
        let Some(state) = self.find(slot) else { return };
        if state.held().is_none() {
            return self.tell_known(from, std::iter::once(slot), None, step);
        }
        if state.offered().is_some() || !self.pause.certain() {
            // It will be asked again when it is clear who has the slot.
            return;
        }
        let origin = self.peers.get(from.0).id.clone();
        let taken_by_others = self.has(Defect::DebitsOfOthersTakenForSeen)
            && self.slot(slot).taken.iter().any(|taken| taken.number >= number);
        let new = !taken_by_others && self.slot_mut(slot).take_number(&origin, number);
        if new && !self.has(Defect::MergeByMaximum) {
            let journals = self.journals(slot);
            for debit in debits {
                step.store.debit(slot, debit, step.now_us);
                if journals {
                    self.debts.journal.add(slot, Admission::Held, debit);
                }
            }
            if let Some(held) = self.slot_mut(slot).held_mut() {
                held.taken_changes += 1;
            }
        }
        self.send(from, Message::Debited { slot, number }, step);
    }

    pub(super) fn on_debited(&mut self, from: (PeerIx, u16), slot: u16, number: u64) {
        // Of nobody else: it has not got them.
        let is_that = |batch: &UnderWay| batch.number == number && batch.to == Some(from.0);
        if self.debts.under_way.get(&slot).is_some_and(is_that) {
            self.debts.under_way.remove(&slot);
        }
    }
}

impl super::state::Slot {
    /// Notes that a batch of debits is in the state; false if it was before.
    fn take_number(&mut self, origin: &Incarnation, number: u64) -> bool {
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.origin == *origin) {
            let new = number > taken.number;
            taken.number = taken.number.max(number);
            return new;
        }
        if self.taken.len() >= ORIGINS_MAX {
            // The earliest life is the one that is least likely to send again.
            let earliest = (0..self.taken.len()).min_by_key(|&i| self.taken[i].origin.generation);
            earliest.map(|i| self.taken.swap_remove(i));
        }
        self.taken.push(Taken {
            origin: origin.clone(),
            number,
        });
        true
    }
}
