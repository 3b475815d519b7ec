//! Copies of slots.

use super::record::{Chunk, Section};
use super::{SMALL_BYTES_MAX, SMALL_ELEMENTS_MAX};
use crate::Shard;
use tollgate_store::{Cursor, Entry, EntryView, Keyspace, Space};
use tollgate_values::{Export, Value};

/// Bits of a cursor that are the position in a keyspace of the slot.
const POSITION_BITS: u32 = 48;
const POSITION_END: u64 = 1 << POSITION_BITS;

/// Entries looked at in one go of the store's scan.
const ENTRIES_A_GO: usize = 32;
/// Entries looked at in one step.
const ENTRIES_MAX: usize = 4_096;

/// Whether a value is written as one record.
pub(super) fn is_small(value: &Value) -> bool {
    value.elements() <= SMALL_ELEMENTS_MAX && value.bytes() <= SMALL_BYTES_MAX
}

impl Shard {
    /// Writes entries of a slot from `from` on (0 is the start) to `out`, about `bytes` of them, and says where to go on; `None` at the
    /// end. What is there from the first step to the last is written, or listed as changed: large values, and what runs hold.
    pub fn copy_slot(&mut self, slot: u16, from: u64, bytes: usize, out: &mut Vec<u8>) -> Option<u64> {
        let Self {
            store,
            policies,
            rules,
            holds,
            ..
        } = self;
        let mut section = Section::new(out);
        let mut later: Vec<(Space, Box<[u8]>)> = Vec::new();
        let (mut keyspace, mut position) = (from >> POSITION_BITS, from % POSITION_END);
        let mut looked_at = 0;
        let next = loop {
            let Some(space) = Keyspace::all().nth(keyspace as usize) else {
                break None;
            };
            if section.len() >= bytes.max(1) || looked_at >= ENTRIES_MAX {
                break Some(keyspace << POSITION_BITS | position);
            }
            let mut show = |view: EntryView<'_>| {
                looked_at += 1;
                let key = view.entry.key();
                if holds.has(key) {
                    later.push((view.space, key.into()));
                    return;
                }
                match view.entry {
                    Entry::Bucket(bucket) => section.bucket(policies, rules, view.space, &bucket),
                    Entry::Value(stored) if is_small(&stored.value) => {
                        if let Space::Db(db) = view.space {
                            let value = small_bytes(&stored.value);
                            section.value(Chunk::Whole, db, key, stored.expires, &value);
                        }
                    }
                    Entry::Value(_) => later.push((view.space, key.into())),
                }
            };
            let cursor = Cursor::from_u64(u64::from(slot) << POSITION_BITS | position)?;
            match store.scan_slot(space, cursor, ENTRIES_A_GO, &mut show) {
                Some(next) => position = next.to_u64() % POSITION_END,
                None => (keyspace, position) = (keyspace + 1, 0),
            }
        };
        for (space, bytes) in later {
            section.keep(rules, space, &bytes);
            if let Ok(key) = store.key_in_slot(space, slot, &bytes) {
                store.list_again(&key);
            }
        }
        next
    }
}

/// A small value as bytes.
pub(super) fn small_bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut export = Export::new();
    // It is of the same kind throughout.
    while export.write_some(value, SMALL_BYTES_MAX, &mut bytes) == Ok(false) {}
    bytes
}
