//! What slot machines of peers say to each other. Each message stands for itself: late, twice, or out of order it does no harm.

use super::store::Debit;
use crate::member::{Epoch, Incarnation};
use crate::wire::codec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Neighbouring slots that the sender holds with one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
    /// The epoch of all of them.
    pub epoch: Epoch,
}

/// What the sender believes of neighbouring slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
    /// The epoch of all of them.
    pub epoch: Epoch,
    /// Who holds them; `None` if that life is over and nobody has taken them yet.
    pub holder: Option<Incarnation>,
}

/// Which debits of an origin the state of a slot contains: all up to a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Who has sent them.
    pub origin: Incarnation,
    /// The highest number that was taken.
    pub number: u64,
}

/// What the bytes of a batch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A part of a copy of all entries. The first batch of a stream begins the copy.
    Copy {
        /// Whether it is the last part.
        last: bool,
    },
    /// Entries that have changed since the batch before.
    Changes,
    /// The receiver, which has just handed over the slot with this epoch, has all entries already.
    Resume {
        /// The epoch that it gave to the sender.
        epoch: Epoch,
    },
}

/// One step of a stream from a holder to a follower.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Which slot.
    pub slot: u16,
    /// The holder's epoch.
    pub epoch: Epoch,
    /// Which stream of this life of the holder.
    pub stream: u64,
    /// Its place in the stream, from 0.
    pub number: u64,
    /// The reading of the slot's clock when it was sent.
    pub clock_us: u64,
    /// What the bytes are.
    pub part: Part,
    /// Entries, in the store's encoding.
    #[serde(with = "codec::bytes")]
    pub entries: Bytes,
    /// Debits that are in the state with this batch, if that has changed.
    pub taken: Vec<Taken>,
}

/// The holder offers a slot to its follower: everything has been sent, and it decides no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Which slot.
    pub slot: u16,
    /// The new holder's epoch.
    pub epoch: Epoch,
    /// The stream by which the follower has the slot.
    pub stream: u64,
    /// How many batches that stream had.
    pub number: u64,
    /// The reading of the slot's clock when it was sent.
    pub clock_us: u64,
    /// All debits that are in the state.
    pub taken: Vec<Taken>,
    /// What the holder has admitted that a claimant of the slot on another side of a cut may not have seen.
    pub journal: Vec<Debit>,
}

/// A message between slot machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The sender holds these slots.
    Holdings {
        /// Which, with their epochs.
        runs: Vec<Run>,
        /// Whether these are all of the slots that sender and receiver share a link for.
        all: bool,
    },
    /// Asks for [`Message::Holdings`] with all.
    Tell,
    /// Asks what the receiver believes of slots.
    Ask {
        /// First and last slots of ranges.
        ranges: Vec<(u16, u16)>,
        /// Comes back with the answer.
        number: u64,
    },
    /// What the sender believes: an answer, or a correction of what the receiver has said.
    Known {
        /// Its beliefs.
        claims: Vec<Claim>,
        /// The number of the [`Message::Ask`] that it answers, with its last part.
        answer: Option<u64>,
    },
    /// A sum over what the sender holds, so that lost announcements are noticed.
    Digest {
        /// See `contact`.
        sum: u64,
    },
    /// Asks for a [`Message::Pong`]: what came before has arrived.
    Ping {
        /// When it was sent, by the sender's clock in microseconds.
        sent_us: u64,
    },
    /// The answer.
    Pong {
        /// The number in the question.
        sent_us: u64,
    },
    /// A step of a stream.
    Batch(Batch),
    /// The follower has applied a stream up to a batch.
    Ack {
        /// Which slot.
        slot: u16,
        /// Which stream.
        stream: u64,
        /// The number of the batch.
        number: u64,
    },
    /// The follower cannot go on with a stream: it needs a copy.
    Behind {
        /// Which slot.
        slot: u16,
        /// Which stream.
        stream: u64,
    },
    /// The holder streams to this follower no more; its replica is of no use.
    Unfollow {
        /// Which slot.
        slot: u16,
        /// The holder's epoch.
        epoch: Epoch,
    },
    /// An offer. It is answered by [`Message::Known`] with the new epoch, or by [`Message::NotTaken`].
    Handover(Handover),
    /// The sender has not taken the slot with this epoch, and never will.
    NotTaken {
        /// Which slot.
        slot: u16,
        /// The epoch of the offer.
        epoch: Epoch,
    },
    /// What the sender has admitted in place of the holder.
    Debits {
        /// Which slot.
        slot: u16,
        /// Rises with each batch of one life of the sender.
        number: u64,
        /// Tokens by bucket.
        debits: Vec<Debit>,
    },
    /// The holder has the debits.
    Debited {
        /// Which slot.
        slot: u16,
        /// Of which batch.
        number: u64,
    },
    /// The sender has been paused, and asks whether it is still a member.
    Confirm {
        /// Comes back with the answer.
        number: u64,
    },
    /// The answer. Corrections of what the paused node holds have been sent before it.
    Confirmed {
        /// The number of the question.
        number: u64,
        /// Whether the sender sees it as a member; `None` if the sender was paused itself and does not know.
        member: Option<bool>,
    },
}
