//! One step of a command over all keys, in one shard.

use super::{KeyList, KeyspaceAnswer, KeyspaceOp, Name, STEP_ENTRIES_MAX, ScanCursor, ScanOp, Scanned};
use crate::Shard;
use crate::keys::{Likely, type_name};
use tollgate_script::ParamsId;
use tollgate_store::{Cursor, EntryView, Keyspace, SCAN_SLOTS_PER_STEP, SLOTS, Space};

/// Calls of the store's scan in one step: enough to pass every slot of a shard that has few keys.
const SCANS_PER_STEP: usize = SLOTS as usize / SCAN_SLOTS_PER_STEP;

/// Random entries that are looked at for one that exists before entries are looked at in order.
const RANDOM_TRIES: usize = 64;

/// Words of patterns looked at, see [`Glob::cost`](crate::glob::Glob::cost), after which a step ends although it has looked at
/// fewer entries than it might: about a quarter of a millisecond.
pub(super) const MATCHING_MAX: usize = 256 * 1024;

/// Flushed keyspaces that wait to be freed before a flush frees some itself.
const TRASH_MAX: usize = 4;

impl Shard {
    /// Does one bounded step. `now_us` is the node's clock.
    pub fn keyspace(&mut self, op: &KeyspaceOp, now_us: u64) -> KeyspaceAnswer {
        match op {
            KeyspaceOp::Len { db } => KeyspaceAnswer::Len(self.store.len(Keyspace::Db(*db))),
            KeyspaceOp::Flush { db } => {
                self.note_flush(*db);
                if self.has_journals() {
                    self.journal_flushed(db.map(Keyspace::Db), None);
                }
                let trash = self.store.flush(db.map(Keyspace::Db));
                if trash.bytes() > 0 {
                    self.trash.push(trash);
                }
                if self.trash.len() > TRASH_MAX {
                    // Who flushes faster than memory is freed pays for it.
                    self.free_trash(STEP_ENTRIES_MAX);
                }
                KeyspaceAnswer::Flushed
            }
            KeyspaceOp::Free => KeyspaceAnswer::Freed {
                more: self.free_trash(STEP_ENTRIES_MAX),
            },
            KeyspaceOp::Scan(op) => KeyspaceAnswer::Scanned(self.scan(op, now_us)),
            KeyspaceOp::Random { db } => KeyspaceAnswer::Random(self.random_key(*db, now_us)),
            KeyspaceOp::Names { db, cursor } => {
                let (names, next) = self.names(*db, *cursor, now_us);
                let clocks = match *cursor == ScanCursor::START {
                    true => self.store.clock_offsets(),
                    false => Vec::new(),
                };
                KeyspaceAnswer::Names(names, next, clocks)
            }
        }
    }

    /// Some keys that exist, with their types.
    fn names(&mut self, db: u8, cursor: ScanCursor, now_us: u64) -> (Vec<Name>, Option<ScanCursor>) {
        let mut names = Vec::new();
        let mut unclear = Vec::new();
        let mut cursor = cursor.to_store();
        let mut next = None;
        for _ in 0..SCANS_PER_STEP {
            let want = STEP_ENTRIES_MAX.saturating_sub(names.len() + unclear.len());
            if want == 0 {
                break;
            }
            let reached = self.store.scan(Keyspace::Db(db), cursor, want, &mut |entry| {
                let name = Name {
                    key: entry.entry.key().into(),
                    type_name: type_name(&entry.entry),
                };
                match self.likely(&entry.entry, self.clock_of(entry.slot, now_us)) {
                    Likely::Present => names.push(name),
                    Likely::Gone => {}
                    Likely::Unclear => unclear.push(name),
                }
            });
            next = reached.map(ScanCursor::from_store);
            let Some(reached) = reached else { break };
            cursor = reached;
        }
        unclear.retain(|name| self.is_present(db, &name.key, now_us));
        names.append(&mut unclear);
        (names, next)
    }

    fn scan(&mut self, op: &ScanOp, now_us: u64) -> Scanned {
        let want = op.count.clamp(1, STEP_ENTRIES_MAX);
        let mut keys = KeyList::default();
        let mut unclear: Vec<Box<[u8]>> = Vec::new();
        let mut looked_at = 0;
        let mut matching = 0;
        let mut cursor = op.cursor.to_store();
        let mut next = None;
        for _ in 0..SCANS_PER_STEP {
            let more = want.saturating_sub(looked_at);
            let mut show = |entry: EntryView<'_>| {
                looked_at += 1;
                let key = entry.entry.key();
                let wanted = op.pattern.as_ref().is_none_or(|pattern| {
                    matching += pattern.cost(key.len());
                    pattern.matches(key)
                });
                if !wanted || !op.of_type.wants(type_name(&entry.entry)) {
                    return;
                }
                match self.likely(&entry.entry, self.clock_of(entry.slot, now_us)) {
                    Likely::Present => keys.push(key),
                    Likely::Gone => {}
                    Likely::Unclear => unclear.push(key.into()),
                }
            };
            let Some(reached) = self.store.scan(Keyspace::Db(op.db), cursor, more, &mut show) else {
                next = None;
                break;
            };
            cursor = reached;
            next = Some(ScanCursor::from_store(reached));
            if looked_at >= want || matching >= MATCHING_MAX {
                break;
            }
        }
        for key in unclear {
            if self.is_present(op.db, &key, now_us) {
                keys.push(&key);
            }
        }
        // Keys that are lent are still this shard's. One may come in two steps, as any key may that is moved during a scan.
        let end = next.map_or(SLOTS, |next| next.slot());
        for (key, type_name) in self.lent_keys(op.db, op.cursor.slot(), end) {
            let wanted = op.pattern.as_ref().is_none_or(|pattern| pattern.matches(key));
            if wanted && op.of_type.wants(type_name) {
                keys.push(key);
            }
        }
        Scanned { keys, looked_at, next }
    }

    /// A key that exists, if the tries find one.
    fn random_key(&mut self, db: u8, now_us: u64) -> Option<Box<[u8]>> {
        for _ in 0..RANDOM_TRIES {
            let draw = self.next_draw();
            let entry = self.store.random(Keyspace::Db(db), draw)?;
            let key = entry.entry.key();
            match self.likely(&entry.entry, self.clock_of(entry.slot, now_us)) {
                Likely::Present => return Some(key.into()),
                Likely::Gone => {}
                Likely::Unclear => {
                    let key: Box<[u8]> = key.into();
                    if self.is_present(db, &key, now_us) {
                        return Some(key);
                    }
                }
            }
        }
        self.some_key(db, now_us)
    }

    /// The first key that exists among those that one step looks at.
    fn some_key(&mut self, db: u8, now_us: u64) -> Option<Box<[u8]>> {
        let mut candidates: Vec<Box<[u8]>> = Vec::new();
        let mut cursor = Cursor::START;
        let mut want = STEP_ENTRIES_MAX;
        for _ in 0..SCANS_PER_STEP {
            let reached = self.store.scan(Keyspace::Db(db), cursor, want, &mut |entry| {
                want = want.saturating_sub(1);
                if self.likely(&entry.entry, self.clock_of(entry.slot, now_us)) != Likely::Gone {
                    candidates.push(entry.entry.key().into());
                }
            });
            match reached {
                Some(reached) if want > 0 && candidates.is_empty() => cursor = reached,
                _ => break,
            }
        }
        candidates.into_iter().find(|key| self.is_present(db, key, now_us))
    }

    pub(super) fn is_present(&mut self, db: u8, key: &[u8], now_us: u64) -> bool {
        let Ok(key) = self.bucket_key(Space::Db(db), key) else {
            return false;
        };
        self.present(now_us, &key).is_some()
    }

    pub(super) fn clock_of(&self, slot: u16, now_us: u64) -> u64 {
        self.store.slot(slot).map_or(now_us, |slot| slot.clock_us(now_us))
    }

    /// Frees some of what has been flushed; whether more waits.
    pub(crate) fn free_trash(&mut self, entries_max: usize) -> bool {
        let Self { trash, policies, .. } = self;
        if let Some(flushed) = trash.last_mut()
            && flushed.drop_some(entries_max, &mut |params| policies.release(ParamsId(params)))
        {
            trash.pop();
        }
        !trash.is_empty()
    }
}
