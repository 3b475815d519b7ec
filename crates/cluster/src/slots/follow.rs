//! What a follower does: it applies what the holder sends, in order, and says how far it is.

use super::defect::Defect;
use super::message::{Batch, Message, Part, Taken};
use super::peers::PeerIx;
use super::state::{Belief, Replica, Role};
use super::{Effect, Event, Machine, Step};
use crate::member::Epoch;

impl Machine {
    pub(super) fn on_batch(&mut self, from: (PeerIx, u16), batch: Batch, step: &mut Step<'_>) {
        let slot = batch.slot;
        if self.find(slot).is_none() {
            return;
        }
        self.believe(slot, batch.epoch, Some(from.0), step);
        let belief = self.slot(slot).belief;
        if belief
            != (Belief {
                epoch: batch.epoch,
                holder: Some(from.0),
            })
        {
            // A stream of one that is not the holder any more.
            self.tell_known(from, std::iter::once(slot), None, step);
            return;
        }
        if self.slot(slot).held().is_some() {
            return;
        }
        match self.place(&batch) {
            Place::Next => self.take_batch(from, &batch, step),
            Place::Seen(number) => self.send(
                from,
                Message::Ack {
                    slot,
                    stream: batch.stream,
                    number,
                },
                step,
            ),
            Place::Lost => self.send(
                from,
                Message::Behind {
                    slot,
                    stream: batch.stream,
                },
                step,
            ),
            Place::Old => {}
        }
    }

    fn place(&self, batch: &Batch) -> Place {
        let (stream, next, handed) = match &self.slot(batch.slot).role {
            Role::Replica(replica) => (replica.stream, replica.next, replica.handed),
            _ => (None, 0, None),
        };
        match stream.map_or(std::cmp::Ordering::Greater, |stream| batch.stream.cmp(&stream)) {
            // Streams of one life of a holder are numbered.
            std::cmp::Ordering::Less => Place::Old,
            std::cmp::Ordering::Equal if self.has(Defect::ChangesReordered) => Place::Next,
            std::cmp::Ordering::Equal if batch.number == next => Place::Next,
            std::cmp::Ordering::Equal if batch.number < next => Place::Seen(next - 1),
            std::cmp::Ordering::Equal => Place::Lost,
            std::cmp::Ordering::Greater => match (batch.number, batch.part) {
                (0, Part::Copy { .. }) => Place::Next,
                (0, Part::Resume { .. }) if self.has(Defect::ResumedWithoutState) => Place::Next,
                (0, Part::Resume { epoch }) if handed == Some(epoch) && stream.is_none() => Place::Next,
                _ => Place::Lost,
            },
        }
    }

    fn take_batch(&mut self, from: (PeerIx, u16), batch: &Batch, step: &mut Step<'_>) {
        let slot = batch.slot;
        let early = self.has(Defect::CopyEndNotAwaited);
        let state = self.slot_mut(slot);
        if !matches!(state.role, Role::Replica(_)) {
            state.role = Role::Replica(Replica::default());
        }
        let Role::Replica(replica) = &mut state.role else {
            return;
        };
        if batch.number == 0 {
            replica.stream = Some(batch.stream);
            replica.handed = None;
            replica.copying = matches!(batch.part, Part::Copy { .. });
            replica.in_step = !replica.copying || early;
            replica.whole |= replica.in_step;
            if replica.copying {
                step.store.begin_copy(slot);
            }
        }
        replica.heard_us = step.now_us;
        let forgotten = self.has(Defect::AcknowledgedBeforeApplied) && batch.number % 4 == 3;
        if !forgotten && step.store.apply(slot, &batch.entries).is_err() {
            return self.refuse_batch(from, batch, step);
        }
        let Role::Replica(replica) = &mut self.slot_mut(slot).role else {
            return;
        };
        replica.next = batch.number + 1;
        if !batch.entries.is_empty() || matches!(batch.part, Part::Copy { .. }) {
            self.debts.journal.overwritten(slot);
        }
        if !self.has(Defect::ClockNotCarried) {
            step.store.set_clock(slot, batch.clock_us, step.now_us);
        }
        let state = self.slot_mut(slot);
        if !batch.taken.is_empty() {
            state.taken.clone_from(&batch.taken);
        }
        if let (Role::Replica(replica), Part::Copy { last: true }) = (&mut state.role, batch.part) {
            (replica.copying, replica.in_step, replica.whole) = (false, true, true);
            step.store.end_copy(slot);
        }
        self.send(
            from,
            Message::Ack {
                slot,
                stream: batch.stream,
                number: batch.number,
            },
            step,
        );
    }

    /// A batch makes no sense: what is in it is not here, so the stream must begin again.
    fn refuse_batch(&mut self, from: (PeerIx, u16), batch: &Batch, step: &mut Step<'_>) {
        let slot = batch.slot;
        if let Role::Replica(replica) = &mut self.slot_mut(slot).role {
            (replica.in_step, replica.next) = (false, batch.number);
        }
        let peer = self.peers.name(from.0);
        step.effects.push(Effect::Event(Event::Nonsense { peer }));
        let stream = batch.stream;
        self.send(from, Message::Behind { slot, stream }, step);
    }

    /// Whether this node has all that the holder has sent by a stream of so many batches.
    pub(super) fn has_all(&self, slot: u16, stream: u64, number: u64) -> bool {
        match &self.slot(slot).role {
            Role::Replica(replica) => replica.in_step && replica.stream == Some(stream) && replica.next == number,
            _ => false,
        }
    }

    pub(super) fn on_unfollow(&mut self, from: (PeerIx, u16), slot: u16, epoch: Epoch, step: &mut Step<'_>) {
        let Some(state) = self.find(slot) else { return };
        let belief = Belief {
            epoch,
            holder: Some(from.0),
        };
        if matches!(state.role, Role::Replica(_)) && state.belief == belief {
            self.drop_replica(slot, step);
        }
    }

    /// Gives up replicas that nobody keeps in step and that are not wanted here.
    pub(super) fn look_at_replicas(&mut self, step: &mut Step<'_>) {
        let Some(looked_us) = self.replicas_due(step.now_us) else {
            return;
        };
        for slot in self.range() {
            let Role::Replica(replica) = &self.slot(slot).role else {
                continue;
            };
            let holder = self.slot(slot).belief.holder;
            let wanted = holder.is_none_or(|holder| self.follows(slot, holder));
            if !wanted && replica.heard_us < looked_us.saturating_sub(self.settings.replica_idle_us) {
                self.drop_replica(slot, step);
            }
        }
    }

    fn drop_replica(&mut self, slot: u16, step: &mut Step<'_>) {
        step.store.clear(slot);
        self.debts.journal.overwritten(slot);
        let state = self.slot_mut(slot);
        state.role = Role::Away;
        state.taken = Vec::<Taken>::new();
    }
}

/// Where a batch is in the stream that this node follows.
enum Place {
    Next,
    /// It was applied before; the number of the last that was.
    Seen(u64),
    /// Some before it are missing.
    Lost,
    /// It belongs to a stream that another has followed.
    Old,
}
