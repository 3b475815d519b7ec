//! The entries of a slot as bytes, for another node: copies and changes out, and in; what is owed by its buckets; and decisions in its
//! place.
//!
//! Whoever streams a slot tracks it, copies it in parts ([`Shard::copy_slot`]) while it goes on deciding, and then writes what has
//! changed since ([`Shard::slot_changes`]): the entries as they are then, however often they have changed. The other side takes both
//! ([`Shard::apply_to_slot`]) into the same slot map that it will hold the slot in.
//!
//! A key that a run holds is neither copied nor written as changed before the run lets go of it: what a script has done so far may
//! be taken back. A large value is written in parts, among the changes; one that changes meanwhile is written again after that.
//!
//! What cannot be kept is refused and counted ([`CarryStats`]): a bucket of a policy or rule that is not known here is full then. One
//! of another version of its policy is kept with nothing left in it. No refusal grants tokens that the policy would not.

mod ahead;
mod apply;
mod changes;
mod copy;
mod debit;
mod journal;
mod loan;
#[cfg(test)]
mod owing_tests;
mod record;
mod remains;
mod stand_in;
#[cfg(test)]
mod tests;

pub use changes::ChangesWritten;
pub use journal::{JOURNAL_BUCKETS_MAX, Owed};
pub use loan::{LoanError, LoanReader, LoanWriter};
pub use stand_in::{As, Share};

use crate::Shard;
use changes::{Exporting, Unread};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A value with more elements is written in parts.
const SMALL_ELEMENTS_MAX: usize = 512;
/// So is one with more bytes.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// What a shard refused of other nodes, or could not keep as it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CarryStats {
    /// Buckets of policies that do not exist here.
    pub unknown_policy: u64,
    /// Buckets of rules that do not exist here.
    pub unknown_rule: u64,
    /// Buckets of another version of their policy, which were kept without tokens.
    pub other_version: u64,
    /// Records that make no sense, and buckets under limits that cannot be.
    pub malformed: u64,
    /// Buckets whose limit could not be interned.
    pub too_many_limits: u64,
    /// Entries for which there was no memory.
    pub out_of_memory: u64,
    /// Debits that were taken.
    pub debits: u64,
    /// Debits that were lost: of unknown policies or rules, of policies without `take`, or for keys that hold a value.
    pub debits_lost: u64,
    /// Admissions that a journal had no room for.
    pub journal_lost: u64,
    /// Times that somebody asked for changes that are no longer known.
    pub forgotten: u64,
}

/// Bytes of a peer that are no entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed entries")]
pub struct Malformed;

/// Changes since a mark are no longer known: the slot must be copied again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("changes since that mark are no longer known")]
pub struct Forgotten;

impl Shard {
    /// Sets the bounds of the log of changes, in bytes, and of the journals, in buckets.
    pub fn set_carry_bounds(&mut self, changes_bytes: usize, journal_buckets: usize) {
        self.store.set_changes_bytes_max(changes_bytes);
        self.carry.journals.set_buckets_max(journal_buckets);
    }
}

/// What a shard remembers of slots that come or go.
#[derive(Default)]
pub(crate) struct Carry {
    /// Changes that are next for who has read a part of them.
    unread: HashMap<u16, Unread>,
    /// Values of which parts are written, by slot and mark.
    exporting: HashMap<(u16, u64), Exporting>,
    /// Values of which parts have come, one a slot at most.
    arriving: HashMap<u16, apply::Arriving>,
    /// The periods in which copies that are under way have begun.
    copies: HashMap<u16, u32>,
    /// Entries that are gone but not dropped yet, by slot.
    remains: BTreeMap<u16, VecDeque<remains::Remains>>,
    journals: journal::Journals,
    ahead: ahead::Ahead,
    /// The node's clock when a slot's clock was set last.
    now_us: u64,
}
