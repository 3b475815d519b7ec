//! What goes into a machine with each step, and what comes out.

use super::Message;
use super::store::SlotStore;
use crate::member::Epoch;
use std::sync::Arc;

/// One step of a machine: when it is, where the entries are, and where the effects go.
pub struct Step<'a> {
    /// The node's monotonic clock, in microseconds.
    pub now_us: u64,
    /// The entries of the machine's slots.
    pub store: &'a mut dyn SlotStore,
    /// What is to be done, in this order.
    pub effects: &'a mut Vec<Effect>,
}

/// What a machine wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a message to a worker of a peer, in order with others to it. If there is no connection, it is lost.
    Send {
        /// The peer's name.
        peer: Arc<str>,
        /// Which of its workers.
        worker: u16,
        /// What to send.
        message: Message,
    },
    /// Route the slot to this holder from now on.
    Publish {
        /// Which slot.
        slot: u16,
        /// The holder's epoch.
        epoch: Epoch,
        /// The holder; `None` if nobody is known to hold it.
        holder: Option<Arc<str>>,
    },
    /// Queue new commands of the slot, wait until none is under way there, and say [`Machine::frozen`](super::Machine::frozen), unless the
    /// slot is let go of before: then [`Machine::is_freezing`](super::Machine::is_freezing) says no.
    Freeze {
        /// Which slot.
        slot: u16,
        /// Which of the machine's attempts to freeze a slot it is.
        number: u64,
    },
    /// Let go of the commands that were queued, by the route that the slot has now.
    Release {
        /// Which slot.
        slot: u16,
    },
    /// Something that an operator may want to know.
    Event(Event),
}

/// What an operator may want to know of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The holder was gone, and this node has taken the slot.
    TookOver {
        /// Which slot.
        slot: u16,
        /// With which epoch.
        epoch: Epoch,
        /// Whether its replica had all that the holder had sent.
        in_step: bool,
    },
    /// The slot came by a planned move.
    Arrived {
        /// Which slot.
        slot: u16,
        /// With which epoch.
        epoch: Epoch,
    },
    /// The slot went by a planned move.
    Left {
        /// Which slot.
        slot: u16,
        /// With which epoch.
        epoch: Epoch,
    },
    /// Another node has a better claim to a slot that this one held.
    Lost {
        /// Which slot.
        slot: u16,
        /// The better claim.
        epoch: Epoch,
    },
    /// An offer was refused, or the one that it was made to is gone: this node holds the slot again.
    TookBack {
        /// Which slot.
        slot: u16,
        /// With which epoch.
        epoch: Epoch,
    },
    /// The node's loop stood still for longer than it takes to be declared dead.
    Paused {
        /// For how long, in microseconds.
        pause_us: u64,
    },
    /// After a pause, it is certain again of what it holds.
    Confirmed,
    /// A peer has sent something that makes no sense.
    Nonsense {
        /// The peer's name.
        peer: Arc<str>,
    },
}

/// Who decides for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decider {
    /// This node.
    Here,
    /// This node, or one that it is moving to, in a moment: commands wait.
    Soon,
    /// Another node, as far as is known.
    There(Arc<str>),
    /// Nobody that is known.
    Nobody,
}
