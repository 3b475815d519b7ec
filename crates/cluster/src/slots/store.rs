//! What the slot machine asks of the store that has the entries. The shard implements it in the node, a small exact model in the
//! simulator. Entries pass as bytes that only the store reads.

use crate::wire::codec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where a copy of a slot goes on. The default is its beginning; what the two numbers mean is the store's own matter, so that a
/// copy can stop between entries or inside a large value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor(pub u64, pub u64);

/// A point in the history of a slot at this node. Later changes have higher marks; it means nothing at another node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// How far [`SlotStore::changes`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// The point up to which changes have been written: where the next call goes on.
    pub mark: Mark,
    /// Whether there are more already.
    pub more: bool,
}

/// Changes since that mark are no longer known: the slot must be copied again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("changes since that mark are no longer known")]
pub struct Forgotten;

/// Bytes of a peer that are no entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("malformed entries")]
pub struct Malformed;

/// Tokens of one bucket that were admitted elsewhere and are owed by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debit {
    /// Which bucket of the slot, in the store's encoding: database or rule, and key.
    #[serde(with = "codec::bytes")]
    pub bucket: Bytes,
    /// Limit, window, burst and policy, in the store's encoding: enough to make the bucket if it is not there.
    #[serde(with = "codec::bytes")]
    pub parameters: Bytes,
    /// How many tokens.
    pub tokens: u64,
}

/// The entries of the slots of one worker. Replica and held entries of a slot live in the same map, so a takeover moves none.
///
/// All times are readings of this node's monotonic clock in microseconds, except those of a slot's own clock, which travel.
pub trait SlotStore {
    /// Writes entries of `slot` from `from` on to `out`, about `budget_bytes` of them and at least one part, and answers where to
    /// go on, or `None` at the end. Every entry that is there during the whole copy is written at least once, in the state that it
    /// has then; one that is added, changed or removed meanwhile may or may not be: [`SlotStore::changes`] tells.
    fn copy_some(&mut self, slot: u16, from: Cursor, budget_bytes: usize, out: &mut Vec<u8>) -> Option<Cursor>;

    /// Remembers changes of `slot` from now on, if it does not yet, and answers the mark of now.
    fn track(&mut self, slot: u16) -> Mark;

    /// Nobody will ask for changes of `slot` up to this mark any more; `None`: for none at all, so none need be remembered.
    fn forget(&mut self, slot: u16, up_to: Option<Mark>);

    /// Appends the tracked slots that have changed since the last call, each once.
    fn changed(&mut self, out: &mut Vec<u16>);

    /// Writes the present state of the entries of `slot` that have changed since `since` to `out`, removals included, each once,
    /// oldest change first, about `budget_bytes` of them and at least one part.
    ///
    /// # Errors
    /// The store has had to forget some of them (a bound of its own): a copy must begin again.
    fn changes(&mut self, slot: u16, since: Mark, budget_bytes: usize, out: &mut Vec<u8>)
    -> Result<Changes, Forgotten>;

    /// Takes what a store's [`SlotStore::copy_some`] or [`SlotStore::changes`] has written: inserts, overwrites, removes.
    ///
    /// # Errors
    /// The bytes are malformed. What came before the malformed part stays.
    fn apply(&mut self, slot: u16, bytes: &[u8]) -> Result<(), Malformed>;

    /// A copy of `slot` is about to arrive in several [`SlotStore::apply`] calls. Entries stay until it ends. One that begins
    /// while another is under way replaces that.
    fn begin_copy(&mut self, slot: u16);

    /// The copy has arrived: entries that have not been mentioned since [`SlotStore::begin_copy`] go.
    fn end_copy(&mut self, slot: u16);

    /// Forgets all entries of `slot` and its clock. Freeing them may take its time.
    fn clear(&mut self, slot: u16);

    /// The reading of the slot's clock at `now_us`. A slot whose clock was never set starts at this node's wall time.
    fn clock(&self, slot: u16, now_us: u64) -> u64;

    /// Makes the slot's clock read `reading_us` at `now_us`; it advances with this node's monotonic clock from there.
    fn set_clock(&mut self, slot: u16, reading_us: u64, now_us: u64);

    /// Whether this node is the holder of `slot`, so that its entries are keys of this node: counted, scanned, swept, and given up
    /// when memory is short. Entries of a replica are none of these.
    fn set_held(&mut self, slot: u16, held: bool);

    /// Takes tokens from a bucket of a held slot, down to a debt of its burst. It counts as a change.
    fn debit(&mut self, slot: u16, debit: &Debit, now_us: u64);

    /// How many entries `slot` has.
    fn entries(&self, slot: u16) -> usize;
}
