//! Steps of commands over all keys in some slots of a shard: what a node of a cluster does for its part.

use super::step::MATCHING_MAX;
use super::{Pattern, STEP_ENTRIES_MAX, TypeFilter};
use crate::Shard;
use crate::keys::{Likely, type_name};
use tollgate_script::ParamsId;
use tollgate_store::{Cursor, EntryView, Flushing, Keyspace, SLOTS, SlotSet, Trash};

/// Entries that are looked at between two looks at how many bytes of keys there are.
const ENTRIES_AT_ONCE: usize = 64;

/// Bytes of keys after which a step ends.
const STEP_KEYS_BYTES: usize = 1 << 20;

/// Bytes of entries that one step of a flush moves: it takes as long as a turn.
const STEP_FLUSH_BYTES: usize = 1 << 20;

/// Bits of a [`SlotPosition`] within its slot.
pub(super) const POSITION_BITS: u32 = 31;

/// A place in a slot, in the order of the store that has it: the top 31 bits of a hash. Another store has another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotPosition {
    /// The slot.
    pub slot: u16,
    /// Where in it; 0 is its start.
    pub position: u32,
}

/// Bits below the slot in a cursor of the store, and those of them that are left out here.
const CURSOR_BITS: u32 = 48;
const BITS_LEFT_OUT: u32 = CURSOR_BITS - POSITION_BITS;

impl SlotPosition {
    /// The start of a slot.
    pub fn start_of(slot: u16) -> Self {
        Self { slot, position: 0 }
    }

    fn to_store(self) -> Cursor {
        let number = u64::from(self.slot) << CURSOR_BITS | u64::from(self.position) << BITS_LEFT_OUT;
        Cursor::from_u64(number).unwrap_or(Cursor::at_slot(self.slot))
    }

    /// The last position that is not after a cursor.
    fn before(cursor: Cursor) -> Self {
        let position = cursor.to_u64() >> BITS_LEFT_OUT & ((1 << POSITION_BITS) - 1);
        Self {
            slot: cursor.slot(),
            position: position as u32,
        }
    }
}

/// One step of a scan of some slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotScan {
    /// The database.
    pub db: u8,
    /// Where to go on: slots before it are passed by.
    pub from: SlotPosition,
    /// How many entries to look at, about.
    pub count: usize,
    /// What the keys must match.
    pub pattern: Option<Pattern>,
    /// The type that the keys must have.
    pub of_type: TypeFilter,
}

impl SlotScan {
    fn wants(&self, key: &[u8], type_name: &str) -> bool {
        let matches = self.pattern.as_ref().is_none_or(|pattern| pattern.matches(key));
        matches && self.of_type.wants(type_name)
    }
}

/// What a step of a scan of some slots found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotScanned {
    /// The keys that match.
    pub keys: Vec<Box<[u8]>>,
    /// How many entries were looked at.
    pub looked_at: usize,
    /// Where to go on; nothing after the last of the slots.
    pub next: Option<SlotPosition>,
}

impl Shard {
    /// How many keys of a database are in some slots.
    pub fn count_in(&self, db: u8, slots: &SlotSet) -> usize {
        let own = self.store.slots().filter(|&slot| slots.contains(slot));
        let stored: usize = own.map(|slot| self.store.slot_len(Keyspace::Db(db), slot)).sum();
        let lent = self.lent_keys(db, 0, SLOTS);
        stored
            + lent
                .filter(|(key, _)| slots.contains(tollgate_store::slot_of(key)))
                .count()
    }

    /// Looks at some keys of some slots, in ascending order of the slots.
    pub fn scan_in(&mut self, op: &SlotScan, slots: &SlotSet, now_us: u64) -> SlotScanned {
        let want = op.count.clamp(1, STEP_ENTRIES_MAX);
        let mut found = SlotScanned::default();
        let mut unclear: Vec<Box<[u8]>> = Vec::new();
        let (mut matching, mut bytes) = (0, 0);
        for slot in slots.iter().filter(|&slot| slot >= op.from.slot) {
            let start = match slot == op.from.slot {
                true => op.from,
                false => SlotPosition::start_of(slot),
            };
            let mut cursor = Some(start.to_store());
            while let Some(at) = cursor {
                let is_enough = found.looked_at >= want || matching >= MATCHING_MAX || bytes >= STEP_KEYS_BYTES;
                let reached = SlotPosition::before(at);
                // A position is less exact than a cursor: what would bring the next step to where this one began goes on.
                if is_enough && (reached > start || slot > op.from.slot) {
                    found.next = Some(reached);
                    break;
                }
                let more = want.saturating_sub(found.looked_at).clamp(1, ENTRIES_AT_ONCE);
                let mut looked_at = 0;
                let mut show = |entry: EntryView<'_>| {
                    looked_at += 1;
                    let key = entry.entry.key();
                    if let Some(pattern) = &op.pattern {
                        matching += pattern.cost(key.len());
                    }
                    if !op.wants(key, type_name(&entry.entry)) {
                        return;
                    }
                    match self.likely(&entry.entry, self.clock_of(entry.slot, now_us)) {
                        Likely::Present => found.keys.push(key.into()),
                        Likely::Gone => return,
                        Likely::Unclear => unclear.push(key.into()),
                    }
                    bytes += key.len();
                };
                cursor = self.store.scan_slot(Keyspace::Db(op.db), at, more, &mut show);
                found.looked_at += looked_at;
            }
            if found.next.is_some() {
                break;
            }
        }
        for key in unclear {
            if self.is_present(op.db, &key, now_us) {
                found.keys.push(key);
            }
        }
        // Keys that are lent are still this shard's. One may come in two steps, as any key may that is moved during a scan.
        let end = found.next.map_or(SLOTS, |next| next.slot);
        for (key, type_name) in self.lent_keys(op.db, op.from.slot, end) {
            if slots.contains(tollgate_store::slot_of(key)) && op.wants(key, type_name) {
                found.keys.push(key.into());
            }
        }
        found
    }

    /// Begins to empty a database, or everything, rules' buckets included, in some slots that this shard holds, while it is frozen. Those
    /// who follow the slots are told. The memory is freed later.
    pub fn begin_flush_in(&mut self, db: Option<u8>, slots: &SlotSet) -> Flushing {
        self.note_flush(db);
        let keyspace = db.map(Keyspace::Db);
        if self.has_journals() {
            self.journal_flushed(keyspace, Some(slots));
        }
        let mut trash = Trash::default();
        let flushing = self.store.begin_flush(keyspace, slots, &mut trash);
        self.throw_away(trash);
        flushing
    }

    /// Goes on with a flush for a bounded step; whether that was all.
    pub fn go_on_flushing(&mut self, flushing: &mut Flushing) -> bool {
        let Self { store, policies, .. } = self;
        let mut trash = Trash::default();
        let mut release = |params| policies.release(ParamsId(params));
        let is_done = store.flush_some(flushing, STEP_FLUSH_BYTES, &mut trash, &mut release);
        self.throw_away(trash);
        is_done
    }

    fn throw_away(&mut self, trash: Trash) {
        match self.trash.last_mut() {
            Some(last) => last.append(trash),
            None if trash.bytes() > 0 => self.trash.push(trash),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_shard::TestShards;
    use std::collections::BTreeSet;
    use tollgate_store::slot_of;

    fn filled(keys: usize) -> TestShards {
        let mut shards = TestShards::new(1);
        for number in 0..keys {
            // Some slots have many.
            shards.run(&format!("SET {{tag:{}}}:{number} value", number % 40));
        }
        shards
    }

    fn tagged(tags: std::ops::Range<usize>) -> SlotSet {
        tags.map(|tag| slot_of(format!("tag:{tag}").as_bytes())).collect()
    }

    fn scan(shards: &mut TestShards, slots: &SlotSet, count: usize, pattern: Option<&[u8]>) -> Vec<String> {
        let mut op = SlotScan {
            db: 0,
            from: SlotPosition::start_of(0),
            count,
            pattern: pattern.and_then(|text| Pattern::new(text, 100).unwrap()),
            of_type: TypeFilter::Any,
        };
        let mut keys = Vec::new();
        for step in 0.. {
            assert!(step < 10_000);
            let found = shards.shards[0].scan_in(&op, slots, shards.now_us);
            keys.extend(found.keys.iter().map(|key| String::from_utf8(key.to_vec()).unwrap()));
            let Some(next) = found.next else { break };
            assert!(next > op.from, "{next:?} after {:?}", op.from);
            op.from = next;
        }
        keys
    }

    #[test]
    fn some_slots_are_counted_and_scanned() {
        let mut shards = filled(2_000);
        let all = SlotSet::all();
        for (slots, keys) in [(all.clone(), 2_000), (tagged(0..10), 500), (tagged(90..99), 0)] {
            assert_eq!(shards.shards[0].count_in(0, &slots), keys);
            for count in [1, 7, 50, 10_000] {
                let found = scan(&mut shards, &slots, count, None);
                assert_eq!(found.len(), keys, "COUNT {count}");
                assert!(found.iter().all(|key| slots.contains(slot_of(key.as_bytes()))));
                assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), keys);
            }
        }
        assert_eq!(scan(&mut shards, &all, 100, Some(b"*:19??")).len(), 100);
        assert_eq!(shards.shards[0].count_in(1, &all), 0);
    }

    #[test]
    fn a_scan_of_large_keys_ends_early() {
        let mut shards = TestShards::new(1);
        for number in 0..200 {
            shards.run(&format!("SET {{t}}{number}{} value", "x".repeat(50_000)));
        }
        let slots = tagged(0..0);
        assert!(scan(&mut shards, &slots, 1_000, None).is_empty());
        let slots: SlotSet = [slot_of(b"t")].into_iter().collect();
        let op = SlotScan {
            db: 0,
            from: SlotPosition::start_of(0),
            count: 1_000,
            pattern: None,
            of_type: TypeFilter::Of("string"),
        };
        let found = shards.shards[0].scan_in(&op, &slots, shards.now_us);
        assert!(found.next.is_some() && found.keys.len() < 100, "{}", found.keys.len());
        assert_eq!(scan(&mut shards, &slots, 1_000, None).len(), 200);
    }

    #[test]
    fn a_flush_of_some_slots_leaves_the_others() {
        let mut shards = filled(2_000);
        shards.db = 1;
        shards.run("SET {tag:0}other value");
        shards.db = 0;
        let slots = tagged(0..10);
        let mut flushing = shards.shards[0].begin_flush_in(Some(0), &slots);
        while !shards.shards[0].go_on_flushing(&mut flushing) {}
        assert_eq!(shards.run("DBSIZE"), ":1500\r\n");
        assert_eq!(shards.run("EXISTS {tag:0}:0"), ":0\r\n");
        assert_eq!(shards.run("EXISTS {tag:10}:10"), ":1\r\n");
        assert_eq!(shards.shards[0].count_in(1, &slots), 1);
        let mut flushing = shards.shards[0].begin_flush_in(None, &SlotSet::all());
        while !shards.shards[0].go_on_flushing(&mut flushing) {}
        assert_eq!(shards.run("DBSIZE"), ":0\r\n");
        assert_eq!(shards.shards[0].count_in(1, &slots), 0);
        shards.run("SET {tag:0}:0 again");
        assert_eq!(shards.run("GET {tag:0}:0"), "$5\r\nagain\r\n");
    }
}
