//! How a holder keeps its followers in step.
//!
//! A stream is a copy of all entries in parts, under a budget of bytes in flight, and then the entries that have changed, every few
//! milliseconds. The follower acknowledges what it has applied. A stream that breaks begins again with a copy.

use super::defect::Defect;
use super::message::{Batch, Message, Part};
use super::peers::PeerIx;
use super::slot_set::SlotSet;
use super::state::{Follower, MoveStage, Role, Sent, Stage};
use super::store::Cursor;
use super::{Machine, Step};
use bytes::Bytes;

/// How many batches of one stream may be unacknowledged.
const WINDOW: usize = 4;
/// The bytes of entries after which a tick begins no more copies: others want the node's time, too.
const TICK_BYTES: usize = 512 << 10;

#[derive(Debug, Default)]
pub(super) struct Streams {
    last: u64,
    /// When it was last looked for changes.
    looked_us: u64,
    in_flight_bytes: usize,
    /// Bytes of copies that were sent since the last tick.
    tick_bytes: usize,
    /// How many followers are in the middle of a copy.
    copies: usize,
    /// Slots with a follower that waits for its copy.
    pub waiting: SlotSet,
    /// Slots with a follower to which there is no link.
    pub unlinked: SlotSet,
    /// Where entries are written first, so that each batch is one piece of memory of its size.
    scratch: Vec<u8>,
}

impl Streams {
    /// The stream of a follower is over.
    pub fn end(&mut self, follower: &mut Follower, now_us: u64) {
        self.in_flight_bytes -= follower.unacked.iter().map(|sent| sent.bytes).sum::<usize>();
        if follower.stage != Stage::Waiting && !follower.in_step {
            self.copies -= 1;
        }
        if follower.in_step {
            follower.broken_since_us = now_us;
        }
        follower.unacked.clear();
        follower.stage = Stage::Waiting;
        (follower.in_step, follower.copied, follower.dirty_since_us) = (false, None, None);
    }
}

impl Machine {
    /// Notes what has changed, if changes are due to be sent, and answers whether they are.
    pub(super) fn look_for_changes(&mut self, step: &mut Step<'_>) -> bool {
        if step.now_us < self.streams.looked_us + self.settings.stream_interval_us {
            return false;
        }
        self.streams.looked_us = step.now_us;
        let mut changed = std::mem::take(&mut self.changed);
        changed.clear();
        step.store.changed(&mut changed);
        changed.retain(|&slot| self.find(slot).is_some());
        for &slot in &changed {
            for follower in self
                .slot_mut(slot)
                .held_mut()
                .into_iter()
                .flat_map(|held| &mut held.followers)
            {
                if follower.stage != Stage::Waiting {
                    follower.dirty_since_us.get_or_insert(step.now_us);
                }
            }
            self.flowing.insert(slot);
        }
        changed.clear();
        self.changed = changed;
        true
    }

    /// Begins copies for which there is room.
    pub(super) fn start_copies(&mut self, step: &mut Step<'_>) {
        self.streams.tick_bytes = 0;
        let mut next = self.streams.waiting.next(0);
        while let Some(slot) = next.filter(|_| self.has_room() && self.streams.tick_bytes < TICK_BYTES) {
            self.pump(slot, step);
            next = self.streams.waiting.next(slot + 1);
        }
        self.waited.0 |= next.is_some();
    }

    fn has_room(&self) -> bool {
        self.streams.copies < self.settings.copies_max
            && self.streams.in_flight_bytes < self.settings.copy_in_flight_bytes_max
    }

    /// Sends followers of a slot what is due.
    pub(super) fn pump(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some(held) = self.find(slot).and_then(|state| state.held()) else {
            self.busy.remove(slot);
            self.flowing.remove(slot);
            self.streams.waiting.remove(slot);
            self.streams.unlinked.remove(slot);
            return;
        };
        let (mut waits, mut unlinked) = (false, false);
        // Who has been offered the slot has been sent everything.
        let offered = self.slot(slot).offered().map(|(to, _)| to);
        for i in 0..held.followers.len() {
            if Some(self.follower(slot, i).peer) == offered {
                continue;
            }
            self.restart_if_late(slot, i, step);
            if self.follower(slot, i).stage == Stage::Waiting {
                let linked = self.peers.link_of(self.follower(slot, i).peer, slot).is_some();
                unlinked |= !linked;
                if linked && !self.begin(slot, i, step) {
                    waits = true;
                    continue;
                }
            }
            while matches!(self.follower(slot, i).stage, Stage::Copying(_)) && self.copy(slot, i, step) {}
            if self.follower(slot, i).stage == Stage::Flowing {
                self.flow(slot, i, false, step);
            }
        }
        let Some(held) = self.slot(slot).held() else { return };
        let flowing = held.followers.iter().any(Follower::is_outstanding);
        let copying = |follower: &Follower| follower.stage != Stage::Waiting && !follower.in_step;
        let busy = held.moving.is_some() || held.followers.iter().any(copying) || self.should_move(slot);
        self.busy.set(slot, busy);
        self.flowing.set(slot, flowing && !busy);
        self.streams.waiting.set(slot, waits);
        self.streams.unlinked.set(slot, unlinked);
    }

    pub(super) fn follower(&self, slot: u16, i: usize) -> &Follower {
        match &self.slot(slot).role {
            Role::Held(held) => &held.followers[i],
            _ => unreachable!("only called for a slot that is held"),
        }
    }

    fn follower_mut(&mut self, slot: u16, i: usize) -> &mut Follower {
        match &mut self.slot_mut(slot).role {
            Role::Held(held) => &mut held.followers[i],
            _ => unreachable!("only called for a slot that is held"),
        }
    }

    fn restart_if_late(&mut self, slot: u16, i: usize, step: &mut Step<'_>) {
        let oldest = self.follower(slot, i).unacked.front();
        if oldest.is_some_and(|sent| step.now_us > sent.sent_us + self.settings.ack_us_max) {
            self.restart(slot, i, step.now_us);
        }
    }

    pub(super) fn restart(&mut self, slot: u16, i: usize, now_us: u64) {
        let Role::Held(held) = &mut self.slots[usize::from(slot - self.first)].role else {
            return;
        };
        self.streams.end(&mut held.followers[i], now_us);
        self.streams.waiting.insert(slot);
    }

    /// Begins a stream, if there is room. The follower is linked and has none.
    fn begin(&mut self, slot: u16, i: usize, step: &mut Step<'_>) -> bool {
        if !self.has_room() {
            return false;
        }
        self.streams.last += 1;
        let stream = self.streams.last;
        self.streams.copies += 1;
        let tracked = step.store.track(slot);
        let epoch = self.slot(slot).belief.epoch;
        let Some(held) = self.slot_mut(slot).held_mut() else {
            return false;
        };
        let follower = &mut held.followers[i];
        (follower.stream, follower.next, follower.taken_told) = (stream, 0, 0);
        match held.from {
            Some((from, mark)) if from == follower.peer => {
                held.from = None;
                (follower.stage, follower.mark) = (Stage::Flowing, mark);
                follower.copied = Some(0);
                follower.dirty_since_us = Some(step.now_us);
                self.send_batch(slot, i, Part::Resume { epoch }, Bytes::new(), step.now_us, step);
            }
            _ => (follower.stage, follower.mark) = (Stage::Copying(Cursor::default()), tracked),
        }
        true
    }

    /// Sends the next part of a copy; false if it has to wait.
    fn copy(&mut self, slot: u16, i: usize, step: &mut Step<'_>) -> bool {
        let full = self.streams.in_flight_bytes >= self.settings.copy_in_flight_bytes_max;
        let follower = self.follower(slot, i);
        let Stage::Copying(cursor) = follower.stage else {
            return false;
        };
        // A copy that has nothing under way may send all the same, so that each goes on.
        if follower.unacked.len() >= WINDOW || (full && !follower.unacked.is_empty()) {
            return false;
        }
        let budget_bytes = self.settings.batch_bytes;
        self.streams.scratch.clear();
        let entries = &mut self.streams.scratch;
        let next = step.store.copy_some(slot, cursor, budget_bytes, entries);
        let entries = Bytes::copy_from_slice(entries);
        self.send_batch(slot, i, Part::Copy { last: next.is_none() }, entries, step.now_us, step);
        let now_us = step.now_us;
        let follower = self.follower_mut(slot, i);
        match next {
            Some(cursor) => follower.stage = Stage::Copying(cursor),
            None => {
                follower.stage = Stage::Flowing;
                follower.copied = Some(follower.next - 1);
                // What has changed during the copy goes at once.
                follower.dirty_since_us.get_or_insert(now_us);
            }
        }
        true
    }

    /// Sends the changes that were looked for, as far as the follower keeps up, or `at_once`; true if there are none left.
    pub(super) fn flow(&mut self, slot: u16, i: usize, at_once: bool, step: &mut Step<'_>) -> bool {
        let follower = self.follower(slot, i);
        let Some(since_us) = follower.dirty_since_us else {
            return true;
        };
        loop {
            let follower = self.follower(slot, i);
            if !at_once && follower.unacked.len() >= WINDOW {
                return false;
            }
            let (mark, budget_bytes) = (follower.mark, self.settings.batch_bytes);
            self.streams.scratch.clear();
            let entries = &mut self.streams.scratch;
            let Ok(changes) = step.store.changes(slot, mark, budget_bytes, entries) else {
                self.restart(slot, i, step.now_us);
                return false;
            };
            if !entries.is_empty() {
                let entries = Bytes::copy_from_slice(entries);
                self.send_batch(slot, i, Part::Changes, entries, since_us, step);
            }
            let follower = self.follower_mut(slot, i);
            follower.mark = changes.mark;
            if !changes.more {
                follower.dirty_since_us = None;
                self.trim(slot, step);
                return true;
            }
        }
    }

    fn send_batch(&mut self, slot: u16, i: usize, part: Part, entries: Bytes, since_us: u64, step: &mut Step<'_>) {
        let state = &mut self.slots[usize::from(slot - self.first)];
        let Role::Held(held) = &mut state.role else { return };
        let follower = &mut held.followers[i];
        let bytes = if part == Part::Changes { 0 } else { entries.len() };
        self.streams.in_flight_bytes += bytes;
        self.streams.tick_bytes += bytes;
        let told = std::mem::replace(&mut follower.taken_told, held.taken_changes) == held.taken_changes;
        let batch = Batch {
            slot,
            epoch: state.belief.epoch,
            stream: follower.stream,
            number: follower.next,
            clock_us: step.store.clock(slot, step.now_us),
            part,
            entries,
            taken: if told { Vec::new() } else { state.taken.clone() },
        };
        follower.unacked.push_back(Sent {
            number: follower.next,
            sent_us: step.now_us,
            since_us,
            bytes,
        });
        follower.next += 1;
        let peer = follower.peer;
        self.send_for(peer, slot, Message::Batch(batch), step);
    }

    pub(super) fn on_ack(&mut self, from: (PeerIx, u16), slot: u16, stream: u64, number: u64, step: &mut Step<'_>) {
        let Some(i) = self.find_follower(from.0, slot, stream) else {
            return;
        };
        let early = self.has(Defect::CopyEndNotAwaited);
        let Role::Held(held) = &mut self.slots[usize::from(slot - self.first)].role else {
            return;
        };
        let follower = &mut held.followers[i];
        while let Some(sent) = follower.unacked.front().copied().filter(|sent| sent.number <= number) {
            self.streams.in_flight_bytes -= sent.bytes;
            follower.unacked.pop_front();
        }
        if follower.in_step && !self.busy.contains(slot) {
            // Nearly always. What has changed meanwhile goes when changes are due.
            let flowing = held.followers.iter().any(Follower::is_outstanding);
            self.flowing.set(slot, flowing);
            return;
        }
        if !follower.in_step && (early || follower.copied.is_some_and(|copied| copied <= number)) {
            follower.in_step = true;
            self.streams.copies -= 1;
            self.choose_followers(slot, step);
        }
        self.pump(slot, step);
        self.move_on(slot, step);
    }

    /// The follower cannot go on: it needs a copy.
    pub(super) fn on_behind(&mut self, from: (PeerIx, u16), slot: u16, stream: u64, step: &mut Step<'_>) {
        let Some(i) = self.find_follower(from.0, slot, stream) else {
            return;
        };
        let moving = self.slot(slot).held().and_then(|held| held.moving);
        // While it is offered to this very follower, that answers the offer.
        if moving.is_some_and(|moving| moving.to == from.0 && moving.stage != MoveStage::Freezing) {
            return;
        }
        self.restart(slot, i, step.now_us);
    }

    fn find_follower(&self, peer: PeerIx, slot: u16, stream: u64) -> Option<usize> {
        let held = self.find(slot)?.held()?;
        let found = |follower: &Follower| {
            follower.peer == peer && follower.stream == stream && follower.stage != Stage::Waiting
        };
        held.followers.iter().position(found)
    }
}
