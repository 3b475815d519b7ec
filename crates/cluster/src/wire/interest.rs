//! What nodes ask each other about single keys for clients that watch them, or wait for them.

use super::codec;
use super::message::{Kind, Message};
use serde::{Deserialize, Serialize};

/// Notes for a client of the sender whether keys of the receiver's slots change. What is noted goes with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch<'a> {
    /// The sender's number for all keys that the client watches.
    pub watch: u64,
    /// What there is to do.
    #[serde(borrow)]
    pub act: WatchAct<'a>,
}

impl<'a> Message<'a> for Watch<'a> {
    const KIND: Kind = Kind::Watch;
}

/// What there is to do about a [`Watch`]. Variants are only added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchAct<'a> {
    /// Note whether this key changes from now on. [`Outcome::Yes`]: it is noted.
    Begin {
        /// Its database.
        db: u8,
        /// The key.
        #[serde(borrow, with = "codec::bytes")]
        key: &'a [u8],
    },
    /// Is every key as it was? [`Outcome::No`] also if there is no such watch.
    Ask,
    /// It is over.
    End,
}

/// Calls a client of the sender, by [`Called`], when a key of the receiver's slots may have something for it. What is left of that goes with
/// the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Await<'a> {
    /// The sender's number for the client.
    pub waiter: u64,
    /// What there is to do.
    #[serde(borrow)]
    pub act: AwaitAct<'a>,
}

impl<'a> Message<'a> for Await<'a> {
    const KIND: Kind = Kind::Await;
}

/// What there is to do about an [`Await`]. Variants are only added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitAct<'a> {
    /// Call for this key, in its turn among all that wait for it. [`Outcome::Yes`]: it will.
    Begin {
        /// Its database.
        db: u8,
        /// The key.
        #[serde(borrow, with = "codec::bytes")]
        key: &'a [u8],
    },
    /// A call was of no use: it is for those that wait behind.
    CallNext,
    /// It is over.
    End,
}

/// Answers a [`Watch`] or an [`Await`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted<'a> {
    /// The answer.
    #[serde(borrow)]
    pub outcome: Outcome<'a>,
}

impl<'a> Message<'a> for Noted<'a> {
    const KIND: Kind = Kind::Noted;
}

/// The answer to a [`Watch`] or an [`Await`]. Variants are only added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome<'a> {
    /// So it is.
    Yes,
    /// It is not: the slot is not here, or the answer is no.
    No,
    /// It cannot be.
    Refused {
        /// Why, as the error that the client gets.
        why: &'a str,
    },
}

/// A key may have something for a client that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// The number of the client, among those of the receiver's worker.
    pub waiter: u64,
}

impl Message<'_> for Called {
    const KIND: Kind = Kind::Called;
}
