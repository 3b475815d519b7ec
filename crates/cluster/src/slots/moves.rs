//! How a holder gives a slot to its target without admitting too much or refusing anybody.
//!
//! Once the target has all but the last changes, the holder freezes the slot, sends those, and offers it with the next epoch. From
//! then on it does not decide, whatever happens, until the target has taken the slot (the holder follows it), has refused it, or is
//! gone (the holder goes on with an epoch that it has not offered).

use super::defect::Defect;
use super::message::{Handover, Message};
use super::peers::{ME, PeerIx};
use super::state::{Belief, Move, MoveStage, Stage};
use super::{Effect, Event, Machine, Step};
use crate::journal::Admission;
use crate::member::Epoch;

impl Machine {
    /// Does what is next for a slot that should be elsewhere, or is on its way.
    pub(super) fn move_on(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some(held) = self.find(slot).and_then(|state| state.held()) else {
            return;
        };
        match held.moving {
            None => self.freeze_if_ready(slot, step),
            Some(moving) => {
                if !moving.released && step.now_us > moving.frozen_us + self.settings.freeze_us_max {
                    self.stop_waiting(slot, step);
                }
                self.offer_again_if_due(slot, step);
            }
        }
    }

    /// Whether the ring gives a slot that this node holds to another member.
    pub(super) fn should_move(&self, slot: u16) -> bool {
        self.target(slot)
            .is_some_and(|target| target != ME && self.peers.get(target).member)
    }

    fn freeze_if_ready(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some(to) = self.target(slot).filter(|&target| target != ME) else {
            return;
        };
        let Some(held) = self.slot(slot).held() else { return };
        let ready = held.followers.iter().any(|follower| {
            follower.peer == to
                && follower.in_step
                && (follower.stage == Stage::Flowing || self.has(Defect::CopyEndNotAwaited))
                && follower.unacked.len() <= 1
        });
        // While views differ, two nodes may each think that the other is the target, or one that the other takes it.
        let new = held.tried_us != 0 && step.now_us < held.tried_us + self.settings.stay_us;
        if !ready || new || !self.pause.certain() || self.is_gone(to) {
            return;
        }
        if self.moving >= self.settings.moves_max {
            self.waited.1 = true;
            return;
        }
        self.moving += 1;
        self.freezes += 1;
        self.busy.insert(slot);
        let number = self.freezes;
        let moving = Move {
            to,
            number,
            stage: MoveStage::Freezing,
            frozen_us: step.now_us,
            released: false,
        };
        if let Some(held) = self.slot_mut(slot).held_mut() {
            held.moving = Some(moving);
        }
        step.effects.push(Effect::Freeze { slot, number });
    }

    /// Whether the slot is still to be frozen that [`Effect::Freeze`] named with that number.
    pub fn is_freezing(&self, slot: u16, number: u64) -> bool {
        let moving = self.find(slot).and_then(|state| state.held()?.moving);
        moving.is_some_and(|moving| moving.stage == MoveStage::Freezing && moving.number == number)
    }

    /// No command is under way in a slot that was to be frozen, and none will start before it is released. Says nothing if the slot has
    /// been let go of since: `number` is that of the effect.
    pub fn frozen(&mut self, slot: u16, number: u64, step: &mut Step<'_>) {
        self.notice_pause(step);
        let Some(moving) = self.find(slot).and_then(|state| state.held()?.moving) else {
            return;
        };
        if !self.is_freezing(slot, number) {
            return;
        }
        if self.is_gone(moving.to) {
            return self.thaw(slot, step);
        }
        // Changes that nobody has asked the store about yet are among the last, too.
        if let Some(held) = self.slot_mut(slot).held_mut() {
            held.followers
                .iter_mut()
                .filter(|follower| follower.peer == moving.to)
                .for_each(|follower| {
                    follower.dirty_since_us.get_or_insert(step.now_us);
                });
        }
        let Some(i) = self.follower_index(slot, moving.to) else {
            return self.thaw(slot, step);
        };
        let complete = self.has(Defect::RemainderLost) || self.flow(slot, i, true, step);
        if !self.follower(slot, i).in_step || !complete {
            return self.thaw(slot, step);
        }
        let (stream, number) = (self.follower(slot, i).stream, self.follower(slot, i).next);
        let epoch = Epoch(self.slot(slot).belief.epoch.0.saturating_add(1));
        let stage = MoveStage::Offered {
            epoch,
            sent_us: step.now_us,
            stream,
            number,
        };
        if let Some(held) = self.slot_mut(slot).held_mut() {
            held.moving = Some(Move { stage, ..moving });
        }
        self.offer(slot, step);
    }

    fn follower_index(&self, slot: u16, peer: PeerIx) -> Option<usize> {
        self.slot(slot)
            .held()?
            .followers
            .iter()
            .position(|follower| follower.peer == peer)
    }

    fn offer(&mut self, slot: u16, step: &mut Step<'_>) {
        let now_us = step.now_us;
        let Some(moving) = self.slot_mut(slot).held_mut().and_then(|held| held.moving.as_mut()) else {
            return;
        };
        let MoveStage::Offered {
            epoch,
            sent_us,
            stream,
            number,
        } = &mut moving.stage
        else {
            return;
        };
        *sent_us = now_us;
        let (to, epoch, stream, number) = (moving.to, *epoch, *stream, *number);
        let handover = Handover {
            slot,
            epoch,
            stream,
            number,
            clock_us: step.store.clock(slot, now_us),
            taken: self.slot(slot).taken.clone(),
            journal: self.debts.journal.inside(slot),
        };
        self.send_for(to, slot, Message::Handover(handover), step);
    }

    fn offer_again_if_due(&mut self, slot: u16, step: &mut Step<'_>) {
        let moving = self.slot(slot).held().and_then(|held| held.moving);
        if let Some(Move {
            stage: MoveStage::Offered { sent_us, .. },
            ..
        }) = moving
            && step.now_us > sent_us + self.settings.offer_again_us
        {
            self.offer(slot, step);
        }
    }

    /// There is a link to a peer again: if the slot was offered to it, it may not have heard so.
    pub(super) fn offer_again(&mut self, slot: u16, peer: PeerIx, step: &mut Step<'_>) {
        if self.slot(slot).offered().is_some_and(|(to, _)| to == peer) {
            self.offer(slot, step);
        }
    }

    /// The slot is not offered after all: this node decides again.
    fn thaw(&mut self, slot: u16, step: &mut Step<'_>) {
        if self.end_move(slot) {
            step.effects.push(Effect::Release { slot });
        }
        // What local shares have admitted meanwhile.
        self.settle_debts(slot, step);
        // The follower may have waited for its copy meanwhile.
        self.streams.waiting.insert(slot);
    }

    /// Commands have waited long enough. One that is offered stays so.
    fn stop_waiting(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some(moving) = self.slot_mut(slot).held_mut().and_then(|held| held.moving.as_mut()) else {
            return;
        };
        if moving.stage == MoveStage::Freezing {
            return self.thaw(slot, step);
        }
        moving.released = true;
        step.effects.push(Effect::Release { slot });
    }

    /// Ends a move, and answers whether commands still wait for that.
    pub(super) fn end_move(&mut self, slot: u16) -> bool {
        let Some(moving) = self.slot_mut(slot).held_mut().and_then(|held| held.moving.take()) else {
            return false;
        };
        self.moving -= 1;
        !moving.released
    }

    /// Holds a slot with a higher epoch than before: it was not taken, or somebody who is gone had a better claim.
    pub(super) fn hold_again(&mut self, slot: u16, epoch: Epoch, step: &mut Step<'_>) {
        self.set_belief(
            slot,
            Belief {
                epoch,
                holder: Some(ME),
            },
            step,
        );
        self.news.insert(slot);
        if let Some(held) = self.slot_mut(slot).held_mut() {
            held.tried_us = step.now_us;
        }
        step.effects.push(Effect::Event(Event::TookBack { slot, epoch }));
        self.thaw(slot, step);
    }

    pub(super) fn on_not_taken(&mut self, from: (PeerIx, u16), slot: u16, epoch: Epoch, step: &mut Step<'_>) {
        let Some(state) = self.find(slot) else { return };
        if state.offered() == Some((from.0, epoch)) {
            self.hold_again(slot, Epoch(epoch.0.saturating_add(1)), step);
            let Some(i) = self.follower_index(slot, from.0) else {
                return;
            };
            // Its replica is not what it was thought to be.
            let stream = self.follower(slot, i).stream;
            self.on_behind(from, slot, stream, step);
        }
    }

    /// If the slot was offered to one that is gone, this node goes on with an epoch that it has not offered. If that one had taken the slot,
    /// others that know so may be taking it over with the epoch after.
    pub(super) fn take_back_if_gone(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some((to, epoch)) = self.slot(slot).offered() else {
            return;
        };
        if self.is_gone(to) {
            self.hold_again(slot, Epoch(epoch.0.saturating_add(2)), step);
            self.choose_followers(slot, step);
        }
    }

    pub(super) fn on_handover(&mut self, from: (PeerIx, u16), offer: Handover, step: &mut Step<'_>) {
        let slot = offer.slot;
        let Some(state) = self.find(slot) else { return };
        let takes_all = self.has(Defect::StaleHandoverWins);
        if state.belief.epoch >= offer.epoch && !takes_all {
            // It has been taken, by this node or by another.
            return self.tell_known(from, std::iter::once(slot), None, step);
        }
        let holder = state.belief.holder == Some(from.0);
        let leaving = self.peers.get(ME).leaving;
        // For a view without the holder another may be taking the slot now.
        let removed = self.peers.get(from.0).removed;
        let refused = state.refused >= offer.epoch;
        if !takes_all && (refused || leaving || removed || !holder || !self.has_all(slot, offer.stream, offer.number)) {
            let state = self.slot_mut(slot);
            state.refused = state.refused.max(offer.epoch);
            return self.send(
                from,
                Message::NotTaken {
                    slot,
                    epoch: offer.epoch,
                },
                step,
            );
        }
        if !self.has(Defect::ClockNotCarried) {
            step.store.set_clock(slot, offer.clock_us, step.now_us);
        }
        self.slot_mut(slot).taken = offer.taken;
        let epoch = offer.epoch.max(self.slot(slot).belief.epoch);
        self.hold(slot, epoch, Some(from.0), step);
        if self.journals(slot) {
            offer
                .journal
                .iter()
                .for_each(|debit| self.debts.journal.add(slot, Admission::Held, debit));
        }
        self.tell_known(from, std::iter::once(slot), None, step);
        step.effects.push(Effect::Event(Event::Arrived {
            slot,
            epoch: offer.epoch,
        }));
    }
}
