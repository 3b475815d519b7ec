//! Steps of commands over all keys of a cluster, which nodes ask of each other.

use super::message::{Kind, Message};
use serde::{Deserialize, Serialize};

/// Asks for one bounded step of a command over all keys. A worker does it in those of the slots that its node holds in its range; what
/// empties or frees, a node does in all of its slots.
///
/// Sets of slots are a number of two bytes, the least first, and then bytes of eight slots each, the lowest in the lowest bit: the first
/// byte has the slots from eight times the number on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyspace<'a> {
    /// What to do.
    #[serde(borrow)]
    pub step: KeyspaceStep<'a>,
}

/// What to do. Variants are only added at the end, and only sent to versions that know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyspaceStep<'a> {
    /// Count the keys of a database in some slots.
    Count {
        /// The database.
        db: u8,
        /// In these slots.
        slots: &'a [u8],
    },
    /// Look at some keys of some slots, in ascending order of the slots.
    Scan {
        /// The database.
        db: u8,
        /// In these slots.
        slots: &'a [u8],
        /// Where to go on.
        from: ScanPlace,
        /// About how many keys to look at.
        count: u32,
        /// What the keys must match, in Redis's notation; everything if there is none.
        pattern: Option<&'a [u8]>,
        /// The type that the keys must have, in Redis's words; any if there is none.
        of_type: Option<&'a str>,
    },
    /// Pick a key of a database.
    Random {
        /// The database.
        db: u8,
    },
    /// Empty a database, or everything.
    Flush {
        /// The database.
        db: Option<u8>,
    },
    /// Free all that was flushed.
    Free,
}

/// A place in a scan. Positions are in an order that the holder of the slot has; a holder whose mark is another begins at the start of the
/// slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPlace {
    /// The slot.
    pub slot: u16,
    /// Where in it; 0 is its start.
    pub position: u32,
    /// Which order that is: the lowest bits of the slot's epoch.
    pub mark: u8,
}

impl<'a> Message<'a> for Keyspace<'a> {
    const KIND: Kind = Kind::Keyspace;
}

/// Answers a [`Keyspace`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyspaceDone<'a> {
    /// What it came to.
    #[serde(borrow)]
    pub done: KeyspaceOutcome<'a>,
}

/// What a step came to. Variants are only added at the end, and only sent to versions that know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyspaceOutcome<'a> {
    /// So many keys.
    Counted {
        /// How many.
        keys: u64,
        /// The slots that are not held here.
        missed: &'a [u8],
    },
    /// Some keys.
    Scanned {
        /// Those that match.
        #[serde(borrow)]
        keys: Vec<&'a [u8]>,
        /// How many were looked at.
        looked_at: u32,
        /// Where to go on; nothing after the last of the slots.
        next: Option<ScanPlace>,
        /// The slots that are not held here.
        missed: &'a [u8],
    },
    /// A key, if there is one.
    Random {
        /// The key.
        key: Option<&'a [u8]>,
    },
    /// Emptied.
    Flushed {
        /// These slots; those that follow them are told.
        slots: &'a [u8],
    },
    /// Freed.
    Freed,
    /// Nothing was done: keys were in use for too long.
    Busy,
}

impl<'a> Message<'a> for KeyspaceDone<'a> {
    const KIND: Kind = Kind::KeyspaceDone;
}
