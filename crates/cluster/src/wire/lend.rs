//! Keys that are lent to runs of other nodes, and what is asked about keys beside that.

use super::codec;
use super::message::{Kind, Message};
use serde::{Deserialize, Serialize};

/// What a key belongs to, as all nodes name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Within<'a> {
    /// A database.
    Db(u8),
    /// The rule of that id.
    Rule(&'a str),
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted<'a> {
    /// What it belongs to.
    #[serde(borrow)]
    pub within: Within<'a>,
    /// The key.
    #[serde(borrow, with = "codec::bytes")]
    pub key: &'a [u8],
}

/// Some of what a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece<'a> {
    /// Which key, in the order of those that are lent to the run.
    pub key: u32,
    /// The next of what it holds, as the shards write it; none at all: it holds nothing.
    #[serde(borrow, with = "codec::bytes")]
    pub bytes: &'a [u8],
}

/// Asks for keys of the receiver's slots. They are the run's until it gives them back, its connection ends, or its time is over. Answered
/// by [`Lent`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lend<'a> {
    /// The number of the run, among those of the sender's worker.
    pub run: u64,
    /// Whether to wait for keys that are in use.
    pub waits: bool,
    /// The keys, ascending by slot and key.
    #[serde(borrow)]
    pub keys: Vec<Wanted<'a>>,
}

impl<'a> Message<'a> for Lend<'a> {
    const KIND: Kind = Kind::Lend;
}

/// What came of a [`Lend`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lent<'a> {
    /// That.
    #[serde(borrow)]
    pub outcome: LentOutcome<'a>,
}

impl<'a> Message<'a> for Lent<'a> {
    const KIND: Kind = Kind::Lent;
}

/// What came of a [`Lend`]. Variants are only added at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LentOutcome<'a> {
    /// The first of the keys, one at least, are lent. The others have to be asked for again.
    Lent {
        /// For each of them, the reading of its slot's clock, in microseconds.
        clocks_us: Vec<u64>,
        /// What they hold. A key without a piece holds nothing. Keys are numbered from the first that was ever lent to the run.
        #[serde(borrow)]
        pieces: Vec<Piece<'a>>,
    },
    /// One is in use, or the node is about to be emptied. The run has to give back all that it has, wherever, and to ask again.
    Busy,
    /// The slot of one is not here, or on its way.
    NotHere {
        /// The slot.
        slot: u16,
    },
    /// It cannot be lent, whoever asks.
    Refused {
        /// Why, as the error that the client gets.
        why: &'a str,
    },
}

/// Gives back all that the receiver has lent to a run, with what has changed. A request that is not answered yet is over, too. Answered by
/// [`GivenBack`], if that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveBack<'a> {
    /// The number of the run.
    pub run: u64,
    /// What the keys that have changed hold now; the others are as they were.
    #[serde(borrow)]
    pub pieces: Vec<Piece<'a>>,
    /// What else there is.
    pub part: Part,
}

/// What follows the pieces of a [`GiveBack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// More, in the next one: this is as much as fits into a frame.
    More,
    /// Nothing. Now the keys are free.
    Last,
    /// Nothing, and what came before is void: the keys are free as they were.
    Void,
}

impl<'a> Message<'a> for GiveBack<'a> {
    const KIND: Kind = Kind::GiveBack;
}

/// What came of a [`GiveBack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    /// Whether the keys are now as they were given back. If not they are as they were before they were lent, or elsewhere.
    pub is_kept: bool,
}

impl Message<'_> for GivenBack {
    const KIND: Kind = Kind::GivenBack;
}
