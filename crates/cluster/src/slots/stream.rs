//! How a holder keeps its followers in step.
//!
//! A stream is a copy of all entries in parts, under a budget of bytes in flight, and then the entries that have changed, every few
//! milliseconds. The follower acknowledges what it has applied. A stream that breaks begins again with a copy.

use super::defect::Defect;
use super::message::{Batch, Message, Part};
use super::peers::PeerIx;
use super::state::{Follower, MoveStage, Role, Sent, Stage};
use super::store::Cursor;
use super::{Machine, Step};
use bytes::Bytes;
use std::collections::BTreeSet;

/// How many batches of one stream may be unacknowledged.
const WINDOW: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Streams {
    last: u64,
    in_flight_bytes: usize,
    /// How many followers are in the middle of a copy.
    copies: usize,
    /// Slots with a follower that waits for its copy.
    pub waiting: BTreeSet<u16>,
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
    /// Notes what has changed, and leaves the slots in `changed`.
    pub(super) fn look_for_changes(&mut self, step: &mut Step<'_>) {
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
            self.busy.insert(slot);
        }
        changed.clear();
        self.changed = changed;
    }

    /// Begins copies for which there is room.
    pub(super) fn start_copies(&mut self, step: &mut Step<'_>) {
        let mut next = self.streams.waiting.first().copied();
        while let Some(slot) = next.filter(|_| self.has_room()) {
            self.pump(slot, step);
            next = self.streams.waiting.range(slot + 1..).next().copied();
        }
    }

    fn has_room(&self) -> bool {
        self.streams.copies < self.settings.copies_max
            && self.streams.in_flight_bytes < self.settings.copy_in_flight_bytes_max
    }

    /// Sends followers of a slot what is due.
    pub(super) fn pump(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some(held) = self.find(slot).and_then(|state| state.held()) else {
            self.busy.remove(&slot);
            self.streams.waiting.remove(&slot);
            return;
        };
        let mut waits = false;
        // Who has been offered the slot has been sent everything.
        let offered = self.slot(slot).offered().map(|(to, _)| to);
        for i in 0..held.followers.len() {
            if Some(self.follower(slot, i).peer) == offered {
                continue;
            }
            self.restart_if_late(slot, i, step);
            if self.follower(slot, i).stage == Stage::Waiting {
                let linked = self.peers.link_of(self.follower(slot, i).peer, slot).is_some();
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
        let outstanding = held.followers.iter().any(|follower| {
            !follower.unacked.is_empty()
                || follower.dirty_since_us.is_some()
                || matches!(follower.stage, Stage::Copying(_))
        });
        if !outstanding && held.moving.is_none() && !self.should_move(slot) {
            self.busy.remove(&slot);
        } else {
            self.busy.insert(slot);
        }
        match waits {
            true => self.streams.waiting.insert(slot),
            false => self.streams.waiting.remove(&slot),
        };
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
                self.send_batch(slot, i, Part::Resume { epoch }, Vec::new(), step.now_us, step);
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
        let mut entries = Vec::new();
        let next = step
            .store
            .copy_some(slot, cursor, self.settings.batch_bytes, &mut entries);
        self.send_batch(slot, i, Part::Copy { last: next.is_none() }, entries, step.now_us, step);
        let now_us = step.now_us;
        let follower = self.follower_mut(slot, i);
        match next {
            Some(cursor) => follower.stage = Stage::Copying(cursor),
            None => {
                follower.stage = Stage::Flowing;
                follower.copied = Some(follower.next - 1);
                follower.dirty_since_us.get_or_insert(now_us);
                // What has changed during the copy goes at once.
                follower.sent_us = 0;
            }
        }
        true
    }

    /// Sends changes, if they are due or `at_once`; true if there are none left.
    pub(super) fn flow(&mut self, slot: u16, i: usize, at_once: bool, step: &mut Step<'_>) -> bool {
        let interval_us = self.settings.stream_interval_us;
        let follower = self.follower(slot, i);
        let Some(since_us) = follower.dirty_since_us else {
            return true;
        };
        if !at_once && step.now_us < follower.sent_us + interval_us {
            return false;
        }
        loop {
            let follower = self.follower(slot, i);
            if !at_once && follower.unacked.len() >= WINDOW {
                return false;
            }
            let mut entries = Vec::new();
            let changes = step
                .store
                .changes(slot, follower.mark, self.settings.batch_bytes, &mut entries);
            let Ok(changes) = changes else {
                self.restart(slot, i, step.now_us);
                return false;
            };
            if !entries.is_empty() {
                self.send_batch(slot, i, Part::Changes, entries, since_us, step);
            }
            let now_us = step.now_us;
            let follower = self.follower_mut(slot, i);
            follower.mark = changes.mark;
            follower.sent_us = now_us;
            if !changes.more {
                follower.dirty_since_us = None;
                self.trim(slot, step);
                return true;
            }
        }
    }

    fn send_batch(&mut self, slot: u16, i: usize, part: Part, entries: Vec<u8>, since_us: u64, step: &mut Step<'_>) {
        let state = &mut self.slots[usize::from(slot - self.first)];
        let Role::Held(held) = &mut state.role else { return };
        let follower = &mut held.followers[i];
        let bytes = if part == Part::Changes { 0 } else { entries.len() };
        self.streams.in_flight_bytes += bytes;
        let told = std::mem::replace(&mut follower.taken_told, held.taken_changes) == held.taken_changes;
        let batch = Batch {
            slot,
            epoch: state.belief.epoch,
            stream: follower.stream,
            number: follower.next,
            clock_us: step.store.clock(slot, step.now_us),
            part,
            entries: Bytes::from(entries),
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
