//! Who holds which slot, and how it gets there: the slot machine.
//!
//! One machine has a range of slots of one node, those of a worker. It is told of views, links, messages and the passing of time, and
//! answers with effects. Its files, by subject:
//!
//! - `contact`: what peers tell each other of who holds what, and who is believed;
//! - `stream`, `follow`: how a holder keeps its followers in step, and what a follower does;
//! - `moves`: how a holder gives a slot to its target without admitting too much or refusing anybody;
//! - `takeover`: views, and what becomes of slots whose holder is gone;
//! - `pause`: what a node holds after its own loop stood still;
//! - `debts`: what was admitted in place of a holder.

mod contact;
mod debts;
mod defect;
mod effect;
mod figures;
mod follow;
mod followers;
mod message;
mod moves;
mod pause;
mod peers;
mod settings;
mod slot_set;
mod state;
mod store;
mod stream;
mod takeover;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use defect::Defect;
pub use effect::{Decider, Effect, Event, Step};
pub use figures::{Figures, JournalSums};
pub use message::{Batch, Claim, Handover, Message, Part, Run, Taken};
pub use settings::Settings;
pub use store::{Changes, Cursor, Debit, Forgotten, Malformed, Mark, SlotStore};
pub use takeover::{NOBODY, View};

use crate::member::{Epoch, Incarnation};
#[cfg(not(test))]
use defect::Defect;
use peers::{Life, Link, ME, PeerIx, Peers};
use slot_set::SlotSet;
use state::{Held, Role, Slot};
use std::ops::Range;

/// The slot machine of one worker.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    first: u16,
    slots: Vec<Slot>,
    peers: Peers,
    view: takeover::Tables,
    /// Slots that are copied, that move, or that should.
    busy: SlotSet,
    /// Other slots with changes that are not sent, or not acknowledged.
    flowing: SlotSet,
    /// Slots whose holder this node has become since it last told its peers.
    news: SlotSet,
    /// How often slots have changed hands, for this node.
    version: u64,
    streams: stream::Streams,
    contact: contact::Contact,
    pause: pause::Pause,
    debts: debts::Debts,
    /// How many slots are frozen or offered.
    moving: usize,
    /// How often a slot was to be frozen.
    freezes: u64,
    /// Whether something waited since that was last asked: for other copies, for other moves.
    waited: (bool, bool),
    /// A list that is emptied after use.
    changed: Vec<u16>,
    /// A set that is filled for each use.
    due: SlotSet,
    /// What the simulator has planted.
    #[cfg(test)]
    pub(crate) defect: Option<defect::Defect>,
}

impl Machine {
    /// A machine for a range of slots, of which nobody is known to hold any.
    pub fn new(me: Incarnation, slots: Range<u16>, settings: Settings) -> Self {
        Self {
            first: slots.start,
            slots: slots.map(|_| Slot::new()).collect(),
            peers: Peers::new(me),
            view: takeover::Tables::default(),
            busy: SlotSet::default(),
            flowing: SlotSet::default(),
            news: SlotSet::default(),
            version: 0,
            streams: stream::Streams::default(),
            contact: contact::Contact::default(),
            pause: pause::Pause::default(),
            debts: debts::Debts::new(settings.journal_buckets_max),
            moving: 0,
            freezes: 0,
            waited: (false, false),
            changed: Vec::new(),
            due: SlotSet::default(),
            #[cfg(test)]
            defect: None,
            settings,
        }
    }

    /// The node founds a cluster: it holds all slots of which no holder is known, at once.
    pub fn found(&mut self, step: &mut Step<'_>) {
        for slot in self.range() {
            if self.slot(slot).belief.epoch == Epoch(0) {
                self.hold(slot, Epoch(1), None, step);
            }
        }
    }

    /// A connection to a worker of a peer is up: messages to it will arrive in order or not at all. `slots` are those of that worker.
    pub fn link_up(&mut self, peer: &Incarnation, worker: u16, slots: Range<u16>, step: &mut Step<'_>) {
        self.notice_pause(step);
        let Some(peer) = self.meet(peer, step) else { return };
        if peer == ME {
            return;
        }
        let mine = self.range();
        let slots = slots.start.max(mine.start)..slots.end.min(mine.end);
        if slots.is_empty() {
            return;
        }
        self.break_streams(peer, slots.clone(), step);
        self.peers.links.insert(
            (peer, worker),
            Link {
                slots: slots.clone(),
                digests_wrong: 0,
                answered: 0,
                pinged_us: step.now_us,
            },
        );
        self.tell_holdings(peer, worker, step);
        self.link_changed(peer, slots, step);
    }

    /// The connection is gone, and what was sent by it may not have arrived.
    pub fn link_down(&mut self, peer: &Incarnation, worker: u16, step: &mut Step<'_>) {
        self.notice_pause(step);
        let Some(peer) = self.meet(peer, step) else { return };
        if let Some(link) = self.peers.links.remove(&(peer, worker)) {
            self.break_streams(peer, link.slots, step);
        }
    }

    /// As [`Machine::link_down`], for a peer of which only the name is known.
    pub fn link_lost(&mut self, name: &str, worker: u16, step: &mut Step<'_>) {
        if let Some(id) = self.peers.id(name) {
            self.link_down(&id, worker, step);
        }
    }

    /// A worker of a peer has sent a message.
    pub fn receive(&mut self, from: &Incarnation, worker: u16, message: Message, step: &mut Step<'_>) {
        self.notice_pause(step);
        let Some(peer) = self.meet(from, step) else { return };
        if peer == ME {
            return;
        }
        self.peers.get_mut(peer).heard_us = step.now_us;
        let from = (peer, worker);
        match message {
            Message::Holdings { runs, all } => self.on_holdings(from, &runs, all, step),
            Message::Tell => self.tell_holdings(peer, worker, step),
            Message::Ask { ranges, number } => self.on_ask(from, &ranges, number, step),
            Message::Known { claims, answer } => self.on_known(from, &claims, answer, step),
            Message::Digest { sum } => self.on_digest(from, sum, step),
            Message::Ping { sent_us } => self.send(from, Message::Pong { sent_us }, step),
            Message::Pong { sent_us } => self.on_pong(from, sent_us, step.now_us),
            Message::Batch(batch) => self.on_batch(from, batch, step),
            Message::Ack { slot, stream, number } => self.on_ack(from, slot, stream, number, step),
            Message::Behind { slot, stream } => self.on_behind(from, slot, stream, step),
            Message::Unfollow { slot, epoch } => self.on_unfollow(from, slot, epoch, step),
            Message::Handover(handover) => self.on_handover(from, handover, step),
            Message::NotTaken { slot, epoch } => self.on_not_taken(from, slot, epoch, step),
            Message::Confirm { number } => self.on_confirm(from, number, step),
            Message::Confirmed { number, member } => self.on_confirmed(number, member, step),
            Message::Debits { slot, number, debits } => self.on_debits(from, slot, number, &debits, step),
            Message::Debited { slot, number } => self.on_debited(from, slot, number),
        }
    }

    /// Time has passed. To be called every few milliseconds.
    pub fn tick(&mut self, step: &mut Step<'_>) {
        self.notice_pause(step);
        let changes_are_due = self.look_for_changes(step);
        let mut due = std::mem::take(&mut self.due);
        due.copy_from(&self.busy);
        if changes_are_due {
            due.extend(&self.flowing);
        }
        for slot in due.iter() {
            self.pump(slot, step);
            self.move_on(slot, step);
        }
        self.due = due;
        self.start_copies(step);
        self.take_orphans(step);
        self.look_at_replicas(step);
        self.look_at_debts(step);
        self.tell_news(step);
        self.send_pings(step);
        self.send_digests(step);
    }

    /// Who decides for a slot of this machine now.
    pub fn decider(&self, slot: u16, now_us: u64) -> Decider {
        let Some(state) = self.find(slot) else {
            return Decider::Nobody;
        };
        match (&state.role, state.belief.holder) {
            (Role::Held(held), _) => match held.moving {
                None if self.certain(now_us) => Decider::Here,
                Some(moving) if !moving.released && self.has(Defect::DecidesWhileOffered) => Decider::Here,
                Some(moving) if moving.released => Decider::There(self.peers.name(moving.to)),
                _ => Decider::Soon,
            },
            (_, Some(holder)) => Decider::There(self.peers.name(holder)),
            (_, None) => Decider::Nobody,
        }
    }

    /// Whether this node has a replica of a slot by which it can stand in for the holder: one that has been whole, be it old.
    pub fn can_stand_in(&self, slot: u16) -> bool {
        self.find(slot)
            .is_some_and(|state| matches!(&state.role, Role::Replica(replica) if replica.whole))
    }

    /// The epoch of a slot's holder, as far as is known.
    pub fn epoch(&self, slot: u16) -> Epoch {
        self.find(slot).map_or(Epoch(0), |state| state.belief.epoch)
    }

    /// The slots of this machine.
    pub fn range(&self) -> Range<u16> {
        self.first..self.first + self.slots.len() as u16
    }

    /// Whether this node holds a slot, or has offered it and not seen it taken.
    pub fn is_held(&self, slot: u16) -> bool {
        self.find(slot).is_some_and(|state| state.held().is_some())
    }

    /// How many slots this node holds, those that it has offered and not seen taken included.
    pub fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.held().is_some()).count()
    }

    /// A number that rises whenever a slot of this machine has another holder, or is held with another epoch.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether slots have waited to be copied because as many are as may be, and whether slots have waited to move, since this was last asked.
    pub fn waited(&mut self) -> (bool, bool) {
        std::mem::take(&mut self.waited)
    }

    /// Whether a node that leaves has given everything away: it holds no slot, and owes nobody anything.
    pub fn drained(&self) -> bool {
        self.held() == 0 && self.journal_figures().1 == 0
    }

    fn find(&self, slot: u16) -> Option<&Slot> {
        self.slots.get(usize::from(slot.checked_sub(self.first)?))
    }

    /// A slot of this machine's range: messages are checked with [`Machine::find`] before.
    fn slot(&self, slot: u16) -> &Slot {
        &self.slots[usize::from(slot - self.first)]
    }

    fn slot_mut(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[usize::from(slot - self.first)]
    }

    /// Finds the peer of a message or link; `None` if that life of it is over. A new life ends the one before.
    fn meet(&mut self, id: &Incarnation, step: &mut Step<'_>) -> Option<PeerIx> {
        match self.peers.meet(id, step.now_us) {
            Life::Current(peer) => Some(peer),
            Life::Over => None,
            Life::New(peer) => {
                self.end_life(peer, step);
                Some(peer)
            }
        }
    }

    /// Makes this node the holder of a slot. `from`: the one that has handed it over.
    fn hold(&mut self, slot: u16, epoch: Epoch, from: Option<PeerIx>, step: &mut Step<'_>) {
        let from = from.map(|peer| (peer, step.store.track(slot)));
        let tried_us = if from.is_some() { step.now_us } else { 0 };
        let state = self.slot_mut(slot);
        #[cfg(test)]
        let seen_from_outside = (
            from.is_some(),
            matches!(&state.role, Role::Replica(replica) if replica.in_step),
        );
        debug_assert!(epoch >= state.belief.epoch, "epochs rise");
        state.role = Role::Held(Box::new(Held {
            from,
            tried_us,
            taken_changes: 1,
            ..Held::default()
        }));
        state.belief = state::Belief {
            epoch,
            holder: Some(ME),
        };
        state.since_us = step.now_us;
        #[cfg(test)]
        if let Some(held) = state.held_mut() {
            (held.handed, held.took_in_step) = seen_from_outside;
            held.since_us = step.now_us;
        }
        step.store.set_held(slot, true);
        self.news.insert(slot);
        self.publish(slot, step);
        self.settle_debts(slot, step);
        self.choose_followers(slot, step);
    }

    fn publish(&mut self, slot: u16, step: &mut Step<'_>) {
        self.version += 1;
        let belief = self.slot(slot).belief;
        let holder = belief.holder.map(|peer| self.peers.name(peer));
        step.effects.push(Effect::Publish {
            slot,
            epoch: belief.epoch,
            holder,
        });
    }

    fn send(&self, (peer, worker): (PeerIx, u16), message: Message, step: &mut Step<'_>) {
        step.effects.push(Effect::Send {
            peer: self.peers.name(peer),
            worker,
            message,
        });
    }

    /// Sends a message about a slot to the worker of `peer` that has it, if there is a link.
    fn send_for(&self, peer: PeerIx, slot: u16, message: Message, step: &mut Step<'_>) {
        if let Some(worker) = self.peers.link_of(peer, slot) {
            self.send((peer, worker), message, step);
        }
    }
}
