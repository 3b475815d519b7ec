//! What has changed in a slot since a mark.

use super::Forgotten;
use super::copy::{is_small, small_bytes};
use super::record::{Chunk, Section};
use crate::Shard;
use smallvec::SmallVec;
use std::collections::HashSet;
use tollgate_store::{Entry, Space};
use tollgate_values::Export;

/// Bits of a mark that number the parts of a value.
const PART_BITS: u32 = 12;
const PARTS: u64 = 1 << PART_BITS;
/// Positions in the store's log of changes are multiples of this.
const POSITION_UNIT: u64 = 8;

/// Records of one slot that are looked at together. Who is so far behind copies the slot again, in steps.
const UNREAD_MAX: usize = 100_000;
/// Records from which on those of one key are looked for in a table.
const TABLE_MIN: usize = 8;

/// The least that is written of a large value in one part.
const PART_BYTES_MIN: usize = 4 * 1024;

/// The changes of a slot that are next for who has read to a position.
pub(super) struct Unread {
    since: u64,
    /// Positions in the log, newest first; of each key the newest.
    positions: SmallVec<[u64; 8]>,
    /// Where the log ended.
    end: u64,
}

/// A value of which parts are written.
pub(super) struct Exporting {
    export: Export,
}

/// How far [`Shard::slot_changes`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangesWritten {
    /// Where the next call goes on.
    pub mark: u64,
    /// Whether there is more already.
    pub more: bool,
}

fn mark_of(position: u64, part: u64) -> u64 {
    debug_assert!(position.is_multiple_of(POSITION_UNIT) && part < PARTS);
    (position / POSITION_UNIT) << PART_BITS | part
}

fn position_of(mark: u64) -> u64 {
    (mark >> PART_BITS) * POSITION_UNIT
}

impl Shard {
    /// Lists the changes of a slot from now on, and says the mark of now; 0 if the slot is not of this shard.
    pub fn track_slot(&mut self, slot: u16) -> u64 {
        self.store.track(slot).map_or(0, |position| mark_of(position, 0))
    }

    /// Nobody asks for changes of a slot up to that mark any more; `None`: for none, so that none are listed.
    pub fn forget_slot_changes(&mut self, slot: u16, up_to: Option<u64>) {
        let carry = &mut self.carry;
        match up_to {
            Some(mark) => {
                self.store.forget_changes(slot, position_of(mark));
                if !carry.exporting.is_empty() {
                    carry.exporting.retain(|&(of, at), _| of != slot || at >= mark);
                }
            }
            None => {
                self.store.untrack(slot);
                carry.unread.remove(&slot);
                carry.exporting.retain(|&(of, _), _| of != slot);
            }
        }
    }

    /// Appends the tracked slots that have changed since the last call, each once.
    pub fn take_changed_slots(&mut self, out: &mut Vec<u16>) {
        let before = out.len();
        self.store.take_changed_slots(out);
        self.carry.ahead.take(&out[before..]);
    }

    /// Writes what has changed in a slot since a mark to `out`, about `bytes` of it: flushes, entries as they are now, removals; each
    /// key once, the one that changed longest ago first.
    ///
    /// # Errors
    /// [`Forgotten`]; nothing is written.
    pub fn slot_changes(
        &mut self,
        slot: u16,
        since: u64,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<ChangesWritten, Forgotten> {
        let start = out.len();
        let written = self.write_changes(slot, since, bytes, &mut Section::new(out));
        if written.is_err() {
            self.stats.carry.forgotten += 1;
            out.truncate(start);
        }
        written
    }

    fn write_changes(
        &mut self,
        slot: u16,
        since: u64,
        bytes: usize,
        section: &mut Section<'_>,
    ) -> Result<ChangesWritten, Forgotten> {
        let position = position_of(since);
        self.look_ahead(slot);
        // Mostly there are neither.
        let mut resumed = match since % PARTS {
            0 => None,
            _ => self.carry.exporting.remove(&(slot, since)),
        };
        let begun = match self.carry.unread.is_empty() {
            true => None,
            false => self.carry.unread.remove(&slot),
        };
        let mut unread = match begun {
            // The flushes before its end are written. Of those after it the entries that have come since are listed.
            Some(unread) if unread.since == position => unread,
            _ => {
                let unread = self.unread(slot, position)?;
                for keyspace in self.store.flushes_since(slot, position).ok_or(Forgotten)? {
                    section.flush(keyspace);
                    // What was written of a value goes with it, or is written again.
                    resumed = None;
                }
                unread
            }
        };
        // What this call itself lists again is for later.
        let more = self.store.has_changes(slot, unread.end);
        let flushed = section.len();
        while let Some(&at) = unread.positions.last() {
            if section.len() > flushed && section.len() >= bytes {
                let mark = mark_of(at, 0);
                unread.since = at;
                self.carry.unread.insert(slot, unread);
                return Ok(ChangesWritten { mark, more: true });
            }
            let room = bytes.saturating_sub(section.len()).max(PART_BYTES_MIN);
            let resumed = resumed.take();
            let part_before = if resumed.is_some() { since % PARTS } else { 0 };
            if let Some(exporting) = self.write_change(slot, at, resumed, room, section)? {
                let mut part = part_before + 1;
                while part < PARTS - 1 && self.carry.exporting.contains_key(&(slot, mark_of(at, part))) {
                    part += 1;
                }
                let mark = mark_of(at, part.min(PARTS - 1));
                self.carry.exporting.insert((slot, mark), exporting);
                unread.since = at;
                self.carry.unread.insert(slot, unread);
                return Ok(ChangesWritten { mark, more: true });
            }
            unread.positions.pop();
        }
        Ok(ChangesWritten {
            mark: mark_of(unread.end, 0),
            more,
        })
    }

    /// The records of a slot from a position on.
    fn unread(&mut self, slot: u16, since: u64) -> Result<Unread, Forgotten> {
        let mut next = self.store.begin_changes(slot, since);
        let end = self.store.changes_end();
        let mut positions = SmallVec::new();
        let mut walked = 0;
        let mut newest: SmallVec<[(Space, &[u8]); TABLE_MIN]> = SmallVec::new();
        let mut table: HashSet<(Space, &[u8])> = HashSet::new();
        while let Some(at) = next.filter(|&at| at > 0 && at >= since) {
            let change = self.store.change(at).ok_or(Forgotten)?;
            let key = (change.space, change.key);
            let is_new = if newest.len() < TABLE_MIN {
                let is_new = !newest.contains(&key);
                newest.push(key);
                is_new
            } else {
                if table.is_empty() {
                    table.extend(newest.iter().copied());
                }
                table.insert(key)
            };
            if is_new {
                positions.push(at);
            }
            walked += 1;
            if walked > UNREAD_MAX {
                return Err(Forgotten);
            }
            next = Some(change.before);
        }
        Ok(Unread { since, positions, end })
    }

    /// Writes the entry of the key of one record, or a part of it: then what is needed to go on.
    fn write_change(
        &mut self,
        slot: u16,
        at: u64,
        resumed: Option<Exporting>,
        room: usize,
        section: &mut Section<'_>,
    ) -> Result<Option<Exporting>, Forgotten> {
        let change = self.store.change(at).ok_or(Forgotten)?;
        let (space, bytes) = (change.space, change.key);
        // A record is of a key that this store has taken.
        let Ok(key) = self.store.key_in_slot(space, slot, bytes) else {
            return Ok(None);
        };
        if self.holds.has(bytes) {
            let bytes: Box<[u8]> = bytes.into();
            if let Ok(key) = self.store.key_in_slot(space, slot, &bytes) {
                self.store.list_again(&key);
            }
            return Ok(None);
        }
        let Some(place) = self.store.find(&key) else {
            section.remove(&self.rules, space, bytes);
            return Ok(None);
        };
        let stored = match (self.store.view(place).entry, space) {
            (Entry::Bucket(bucket), _) => {
                section.bucket(&self.policies, &self.rules, space, &bucket);
                return Ok(None);
            }
            (Entry::Value(stored), Space::Db(db)) => (stored, db),
            // No rule has values.
            (Entry::Value(_), _) => return Ok(None),
        };
        let (stored, db) = stored;
        if is_small(&stored.value) && resumed.is_none() {
            let value = small_bytes(&stored.value);
            section.value(Chunk::Whole, db, bytes, stored.expires, &value);
            return Ok(None);
        }
        let mut is_first = resumed.is_none();
        let mut export = resumed.map_or_else(Export::new, |exporting| exporting.export);
        let mut chunk = Vec::new();
        let is_last = match export.write_some(&stored.value, room, &mut chunk) {
            Ok(is_last) => is_last,
            Err(_) => {
                // It is another value by now: that begins from the start.
                export = Export::new();
                is_first = true;
                export.write_some(&stored.value, room, &mut chunk).unwrap_or(true)
            }
        };
        let place_of_chunk = match (is_first, is_last) {
            (true, true) => Chunk::Whole,
            (true, false) => Chunk::First,
            (false, false) => Chunk::Middle,
            (false, true) => Chunk::Last,
        };
        section.value(place_of_chunk, db, bytes, stored.expires, &chunk);
        Ok((!is_last).then_some(Exporting { export }))
    }
}
