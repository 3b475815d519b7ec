//! Entries of slots that are gone but not dropped yet: a slot may have millions.

use crate::Shard;
use tollgate_script::ParamsId;
use tollgate_store::{DropFrom, Keyspace, Role};

/// What is left to be dropped of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remains {
    keyspace: Option<Keyspace>,
    /// What was stored in this period of the slot, or after it, stays.
    since: u32,
    from: DropFrom,
}

impl Shard {
    /// A copy of a slot is about to arrive. What is there stays until it ends, unless the copy has something else.
    pub fn begin_slot_copy(&mut self, slot: u16) {
        let period = self.store.begin_period(slot);
        self.carry.copies.insert(slot, period);
        self.abandon_arriving(slot);
    }

    /// The copy has arrived: what it has not mentioned goes.
    pub fn end_slot_copy(&mut self, slot: u16) {
        if let Some(since) = self.carry.copies.remove(&slot) {
            self.leave(slot, None, since);
        }
    }

    /// Forgets all entries of a slot, which are dropped later, and its clock.
    pub fn clear_slot(&mut self, slot: u16) {
        self.flush_slot(slot, None);
        self.carry.copies.remove(&slot);
        self.carry.journals.clear_slot(slot);
        if let Some(meta) = self.store.slot_mut(slot) {
            meta.clock_offset_us = 0;
        }
    }

    /// Forgets the entries of one keyspace of a slot, or of all, which are dropped later.
    pub(super) fn flush_slot(&mut self, slot: u16, keyspace: Option<Keyspace>) {
        let since = self.store.begin_period(slot);
        self.abandon_arriving(slot);
        self.leave(slot, keyspace, since);
    }

    fn leave(&mut self, slot: u16, keyspace: Option<Keyspace>, since: u32) {
        if self.slot_entries(slot) > 0 {
            self.carry.remains.entry(slot).or_default().push_back(Remains {
                keyspace,
                since,
                from: DropFrom::default(),
            });
        }
    }

    /// Drops some of what is left; whether there is more.
    pub(crate) fn drop_remains(&mut self, entries: usize) -> bool {
        let Some((slot, mut of_slot)) = self.carry.remains.pop_first() else {
            return false;
        };
        if let Some(remains) = of_slot.front().copied() {
            match self.drop_step(slot, &remains, entries) {
                Some(from) => of_slot[0].from = from,
                None => drop(of_slot.pop_front()),
            }
        }
        if !of_slot.is_empty() {
            self.carry.remains.insert(slot, of_slot);
        }
        !self.carry.remains.is_empty()
    }

    fn drop_step(&mut self, slot: u16, remains: &Remains, entries: usize) -> Option<DropFrom> {
        let Self { store, policies, .. } = self;
        let Remains { keyspace, since, from } = *remains;
        store.drop_slot(slot, keyspace, Some(since), from, entries, &mut |params| {
            if let Some(params) = params {
                policies.release(ParamsId(params));
            }
        })
    }

    /// Drops all that is left of a slot, before somebody can ask for it.
    pub(super) fn finish_remains(&mut self, slot: u16) {
        for mut remains in self.carry.remains.remove(&slot).into_iter().flatten() {
            while let Some(from) = self.drop_step(slot, &remains, usize::MAX) {
                remains.from = from;
            }
        }
    }

    /// Whether this node is the holder of a slot: whether its entries are keys of this node. They are, unless this says otherwise.
    pub fn set_slot_held(&mut self, slot: u16, held: bool) {
        if held {
            self.finish_remains(slot);
            self.abandon_arriving(slot);
            self.carry.copies.remove(&slot);
        } else {
            self.end_interest_in(slot);
        }
        self.store.set_role(slot, if held { Role::Held } else { Role::Replica });
    }

    /// How many entries a slot has, whatever this node is to it.
    pub fn slot_entries(&self, slot: u16) -> usize {
        Keyspace::all()
            .map(|keyspace| self.store.slot_len(keyspace, slot))
            .sum()
    }

    /// The reading of a slot's clock when the node's is `now_us`. One that was never set is the node's.
    pub fn slot_clock_at(&self, slot: u16, now_us: u64) -> u64 {
        self.store.slot(slot).map_or(now_us, |meta| meta.clock_us(now_us))
    }

    /// Sets a slot's clock, so that it reads `reading_us` when the node's is `now_us`.
    pub fn set_slot_clock(&mut self, slot: u16, reading_us: u64, now_us: u64) {
        self.carry.now_us = now_us;
        self.store.set_clock(slot, reading_us, now_us);
    }
}
