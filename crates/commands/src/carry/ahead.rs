//! Looking ahead: entries that have changed lie anywhere in memory, and one slot has few of them. So what the next slots will read is
//! read for many of them at once, as for a pipeline of commands.

use super::record::{Reader, Record, SpaceName};
use crate::Shard;
use smallvec::SmallVec;
use tollgate_store::{Key, LOCATE_BATCH, Space};

/// Records of a slot that are looked at.
const RECORDS_A_SLOT: usize = 2;
/// Slots that are looked ahead of.
const SLOTS_AHEAD: usize = LOCATE_BATCH / RECORDS_A_SLOT;

/// The slots that have changed, in order, and how many of them were looked at.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    slots: Vec<u16>,
    done: usize,
}

impl Ahead {
    /// Takes the slots that have changed.
    pub(super) fn take(&mut self, changed: &[u16]) {
        self.slots.clear();
        self.slots.extend_from_slice(changed);
        self.slots.sort_unstable();
        self.done = 0;
    }

    /// The slots to look at before that one is written, if it is the first of them.
    fn next(&mut self, slot: u16) -> &[u16] {
        if self.slots.get(self.done).is_none_or(|&next| slot < next) {
            return &[];
        }
        let start = self.done + self.slots[self.done..].partition_point(|&other| other < slot);
        let end = self.slots.len().min(start + SLOTS_AHEAD);
        self.done = end;
        &self.slots[start..end]
    }
}

type Keys<'a> = SmallVec<[Key<'a>; LOCATE_BATCH]>;

impl Shard {
    /// Reads the changed entries of the next slots in order, if a slot is the first of them.
    #[inline]
    pub(super) fn look_ahead(&mut self, slot: u16) {
        let slots = self.carry.ahead.next(slot);
        if slots.len() < 2 {
            return;
        }
        let mut keys: Keys<'_> = SmallVec::new();
        for &slot in slots {
            let mut at = self.store.newest_change(slot);
            for _ in 0..RECORDS_A_SLOT {
                let Some(change) = at.and_then(|at| self.store.change(at)) else {
                    break;
                };
                keys.extend(self.store.key_in_slot(change.space, slot, change.key));
                at = Some(change.before);
            }
        }
        self.store.warm(&keys);
    }

    /// Reads what [`Shard::apply_to_slot`] will read for the first entries of each of these, which are about to be taken.
    pub fn look_at_batches<'a>(&self, batches: impl IntoIterator<Item = (u16, &'a [u8])>) {
        let mut keys: Keys<'_> = SmallVec::new();
        for (slot, bytes) in batches {
            let mut reader = Reader(bytes);
            let mut space = None;
            let mut found = 0;
            while let Ok(Some(record)) = reader.next() {
                let key = match record {
                    Record::Kind(SpaceName::Db(number), _) => {
                        space = Some(Space::Db(number));
                        continue;
                    }
                    Record::Bucket { key, .. } => key,
                    Record::Section => continue,
                    _ => break,
                };
                if let Some(space) = space
                    && tollgate_store::slot_of(key) == slot
                {
                    keys.extend(self.store.key_in_slot(space, slot, key));
                }
                found += 1;
                if found >= RECORDS_A_SLOT || keys.len() >= LOCATE_BATCH {
                    break;
                }
            }
            if keys.len() >= LOCATE_BATCH {
                break;
            }
        }
        self.store.warm(&keys);
    }
}
