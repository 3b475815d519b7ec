//! A shard as the slot machine sees it.

use tollgate_cluster::slots::{Changes, Cursor, Debit, Forgotten, Malformed, Mark, SlotStore};
use tollgate_commands::Shard;

/// A shard as the slot machine sees it, for one step.
pub struct ShardStore<'a> {
    /// The shard.
    pub shard: &'a mut Shard,
    /// The wall clock, in microseconds.
    pub wall_us: u64,
}

impl SlotStore for ShardStore<'_> {
    fn copy_some(&mut self, _slot: u16, _from: Cursor, _budget_bytes: usize, _out: &mut Vec<u8>) -> Option<Cursor> {
        None
    }
    fn track(&mut self, _slot: u16) -> Mark {
        Mark(0)
    }
    fn forget(&mut self, _slot: u16, _up_to: Option<Mark>) {}
    fn changed(&mut self, _out: &mut Vec<u16>) {}
    fn changes(&mut self, _slot: u16, since: Mark, _budget_bytes: usize, _out: &mut Vec<u8>) -> Result<Changes, Forgotten> {
        Ok(Changes { mark: since, more: false })
    }
    fn apply(&mut self, _slot: u16, _bytes: &[u8]) -> Result<(), Malformed> {
        Ok(())
    }
    fn begin_copy(&mut self, _slot: u16) {}
    fn end_copy(&mut self, _slot: u16) {}
    fn clear(&mut self, _slot: u16) {}
    fn clock(&self, _slot: u16, now_us: u64) -> u64 {
        now_us
    }
    fn set_clock(&mut self, _slot: u16, _reading_us: u64, _now_us: u64) {}
    fn set_held(&mut self, _slot: u16, _held: bool) {}
    fn debit(&mut self, _slot: u16, _debit: &Debit, _now_us: u64) {}
    fn entries(&self, _slot: u16) -> usize {
        0
    }
}
