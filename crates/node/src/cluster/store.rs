//! A shard as the slot machine sees it.

use tollgate_cluster::slots::{Changes, Cursor, Debit, Forgotten, Malformed, Mark, SlotStore};
use tollgate_commands::{Owed, Shard};

/// A shard as the slot machine sees it, for one step.
pub struct ShardStore<'a> {
    shard: &'a mut Shard,
    /// What the journals of slots had that this node gave up in this step.
    pub owed: Vec<(u16, Owed)>,
}

impl<'a> ShardStore<'a> {
    /// For one step.
    pub fn new(shard: &'a mut Shard) -> Self {
        Self {
            shard,
            owed: Vec::new(),
        }
    }
}

impl SlotStore for ShardStore<'_> {
    fn copy_some(&mut self, slot: u16, from: Cursor, budget_bytes: usize, out: &mut Vec<u8>) -> Option<Cursor> {
        let next = self.shard.copy_slot(slot, from.0, budget_bytes, out);
        next.map(|next| Cursor(next, 0))
    }

    fn track(&mut self, slot: u16) -> Mark {
        Mark(self.shard.track_slot(slot))
    }

    fn forget(&mut self, slot: u16, up_to: Option<Mark>) {
        self.shard.forget_slot_changes(slot, up_to.map(|mark| mark.0));
    }

    fn changed(&mut self, out: &mut Vec<u16>) {
        self.shard.take_changed_slots(out);
    }

    fn changes(
        &mut self,
        slot: u16,
        since: Mark,
        budget_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Changes, Forgotten> {
        match self.shard.slot_changes(slot, since.0, budget_bytes, out) {
            Ok(written) => Ok(Changes {
                mark: Mark(written.mark),
                more: written.more,
            }),
            Err(_) => Err(Forgotten),
        }
    }

    fn apply(&mut self, slot: u16, bytes: &[u8]) -> Result<(), Malformed> {
        self.shard.apply_to_slot(slot, bytes).map_err(|_| Malformed)
    }

    fn begin_copy(&mut self, slot: u16) {
        self.shard.begin_slot_copy(slot);
    }

    fn end_copy(&mut self, slot: u16) {
        self.shard.end_slot_copy(slot);
    }

    fn clear(&mut self, slot: u16) {
        let owed = self.shard.take_journal(slot, usize::MAX);
        self.owed.extend(owed.into_iter().map(|owed| (slot, owed)));
        self.shard.clear_slot(slot);
    }

    fn clock(&self, slot: u16, now_us: u64) -> u64 {
        self.shard.slot_clock_at(slot, now_us)
    }

    fn set_clock(&mut self, slot: u16, reading_us: u64, now_us: u64) {
        self.shard.set_slot_clock(slot, reading_us, now_us);
    }

    fn set_held(&mut self, slot: u16, held: bool) {
        self.shard.set_slot_held(slot, held);
    }

    fn debit(&mut self, slot: u16, debit: &Debit, now_us: u64) {
        let taken = self
            .shard
            .debit(slot, &debit.bucket, &debit.parameters, debit.tokens, now_us);
        if taken.is_err() {
            tracing::warn!(event = "debit_malformed", slot);
        }
    }

    fn entries(&self, slot: u16) -> usize {
        self.shard.slot_entries(slot)
    }
}
