//! Which entries have changed, for those who follow a slot from elsewhere.
//!
//! Changes of a slot are listed while it is *tracked*. The first change of an entry in a *period* appends its key to the log of the store; a
//! period of a slot ends when somebody reads what has changed in it. So a key that changes all the time is listed once a period, and
//! an entry says itself whether it is listed: its mark is then the number of the period.
//!
//! The log is one for all slots, appended in order, since slots change in no order; the records of one slot are a chain through it,
//! newest first. It has a bound: what is oldest is forgotten, and who has not read it by then has to copy the slot again.

use crate::entry;
use crate::expiry::{Coarse, Expiry};
use crate::key::{self, KEYSPACES, Key, Keyspace, Space};
use crate::slot::SLOTS;
use crate::slot_set::SlotSet;
use crate::store::{Place, SlotMeta, Store};
use crate::words::{set_u16, set_u32, set_u64, u16_at, u32_at, u64_at};
use std::collections::VecDeque;

/// What a store is to a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Its entries are what counts: they are found by scans, counted, and may be shed.
    #[default]
    Held,
    /// Its entries follow those of another node.
    Replica,
    /// It is elsewhere. What entries there are wait to be dropped.
    Away,
}

/// Bytes of the log unless it is set otherwise, see [`Store::set_changes_bytes_max`].
pub const CHANGES_BYTES_MAX: usize = 32 << 20;

/// Bits of a position in the log that are the offset in its segment. A record never needs two segments.
const SEGMENT_BITS: u32 = 17;
const SEGMENT_BYTES: usize = 1 << SEGMENT_BITS;

/// Flushes that are remembered; who has missed more of them has to copy again.
const FLUSHES_MAX: usize = 64;

/// ```text
///  0 before  u64  position of the slot's record before this one, 0 for none
///  8 rule    u32
/// 12 length  u16  of the key
/// 14 keyspace u8
/// 16 key
/// ```
const BEFORE: usize = 0;
const RULE: usize = 8;
const LENGTH: usize = 12;
const KEYSPACE: usize = 14;
const KEY: usize = 16;
const RECORD_UNIT: usize = 8;

const _: () = assert!(KEY + key::MAX_KEY_BYTES + RECORD_UNIT < SEGMENT_BYTES);

/// The log.
pub(crate) struct Changes {
    segments: VecDeque<Box<[u8]>>,
    /// The number of the first segment; positions in the log are numbered through.
    first: u64,
    end: u64,
    bytes_max: usize,
    /// Slots with records that were appended since [`Store::take_changed_slots`].
    changed: Vec<u16>,
    /// Of each slot, by position in the store. Empty until a slot is tracked.
    unread: Vec<Unread>,
    /// Segments from which on those are looked for that nobody asks for any more.
    trim_at: usize,
    /// With positions that no record has.
    flushes: VecDeque<Flushed>,
    /// A flush at this position, or before, is forgotten.
    flush_forgotten: u64,
}

/// A flush.
struct Flushed {
    position: u64,
    /// The keyspace, `None` for all.
    keyspace: Option<u8>,
    /// Of these slots, `None` for all that are tracked.
    slots: Option<SlotSet>,
}

impl Flushed {
    fn has(&self, slot: u16) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.contains(slot))
    }
}

/// What of a slot's records somebody may still ask for.
#[derive(Clone, Copy, Debug, Default)]
struct Unread {
    /// Up to here nobody asks any more.
    read_to: u64,
    /// The first record after the one that was the last when all were read.
    first: u64,
}

/// Segments that are always kept before any is looked at.
const TRIM_MIN: usize = 4;

impl Default for Changes {
    fn default() -> Changes {
        Changes {
            segments: VecDeque::new(),
            first: 1,
            // 0 stands for no position.
            end: SEGMENT_BYTES as u64,
            bytes_max: CHANGES_BYTES_MAX,
            changed: Vec::new(),
            unread: Vec::new(),
            trim_at: TRIM_MIN,
            flushes: VecDeque::new(),
            flush_forgotten: 0,
        }
    }
}

/// One record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// What the key belongs to.
    pub space: Space,
    /// The key, whose entry has changed or gone.
    pub key: &'a [u8],
    /// The record of the same slot before this one, 0 if there was none.
    pub before: u64,
}

impl Changes {
    fn start(&self) -> u64 {
        self.first << SEGMENT_BITS
    }

    /// Appends the key of a changed entry of a slot that is followed.
    pub(crate) fn append(
        &mut self,
        (slot, local): (u16, usize),
        meta: &mut SlotMeta,
        keyspace: u8,
        rule: u32,
        key: &[u8],
    ) {
        let len = (KEY + key.len()).next_multiple_of(RECORD_UNIT);
        let mut offset = (self.end % SEGMENT_BYTES as u64) as usize;
        let is_full = self.end >> SEGMENT_BITS >= self.first + self.segments.len() as u64;
        if is_full || offset + len > SEGMENT_BYTES {
            offset = 0;
            self.add_segment();
        }
        // There is one, after the lines above.
        let Some(segment) = self.segments.back_mut() else {
            return;
        };
        let record = &mut segment[offset..offset + len];
        set_u64(record, BEFORE, meta.last_change);
        set_u32(record, RULE, rule);
        // A key is at most as long as that.
        set_u16(record, LENGTH, key.len() as u16);
        record[KEYSPACE] = keyspace;
        record[KEY..KEY + key.len()].copy_from_slice(key);
        if !meta.listed {
            meta.listed = true;
            self.changed.push(slot);
            if let Some(unread) = self.unread.get_mut(local)
                && meta.last_change < unread.read_to
            {
                unread.first = self.end;
            }
        }
        meta.last_change = self.end;
        self.end += len as u64;
    }

    fn add_segment(&mut self) {
        let mut segment = None;
        while !self.segments.is_empty() && (self.segments.len() + 1) * SEGMENT_BYTES > self.bytes_max {
            segment = self.segments.pop_front();
            self.first += 1;
        }
        self.end = (self.first + self.segments.len() as u64) << SEGMENT_BITS;
        self.segments
            .push_back(segment.unwrap_or_else(|| vec![0; SEGMENT_BYTES].into_boxed_slice()));
    }

    fn get(&self, position: u64) -> Option<Change<'_>> {
        let segment = (position >> SEGMENT_BITS).checked_sub(self.first)?;
        let segment = self.segments.get(segment as usize)?;
        let record = &segment[(position % SEGMENT_BYTES as u64) as usize..];
        let key_len = usize::from(u16_at(record, LENGTH));
        Some(Change {
            space: key::space(record[KEYSPACE], u32_at(record, RULE)),
            key: &record[KEY..KEY + key_len],
            before: u64_at(record, BEFORE),
        })
    }

    fn forget_before(&mut self, position: u64) {
        while self.first < position >> SEGMENT_BITS && self.segments.len() > 1 {
            self.segments.pop_front();
            self.first += 1;
        }
        if position == self.end && self.segments.len() == 1 {
            // All of it is read: the segment is used again from its start, at positions that are new.
            self.first += 1;
            self.end = self.start();
        }
    }

    fn note_flush(&mut self, keyspace: Option<u8>, slots: Option<SlotSet>) {
        if self.flushes.len() >= FLUSHES_MAX
            && let Some(oldest) = self.flushes.pop_front()
        {
            self.flush_forgotten = oldest.position;
        }
        // Positions only grow: a segment that is added later would begin before what is added here.
        if self.end >> SEGMENT_BITS >= self.first + self.segments.len() as u64 {
            self.add_segment();
        }
        self.flushes.push_back(Flushed {
            position: self.end,
            keyspace,
            slots,
        });
        // So that who begins to track after this has a higher position.
        self.end += RECORD_UNIT as u64;
    }
}

impl Store {
    /// What this store is to a slot; [`Role::Away`] if the slot is not here.
    pub fn role(&self, slot: u16) -> Role {
        self.slot(slot).map_or(Role::Away, |meta| meta.role)
    }

    /// Whether all slots of the store are held.
    #[inline]
    pub fn holds_all(&self) -> bool {
        self.not_held == 0
    }

    /// Says what this store is to a slot. Entries that are not held do not count ([`Store::len`]), are not scanned, picked or shed.
    pub fn set_role(&mut self, slot: u16, role: Role) {
        let Some(before) = self.slot(slot).map(|meta| meta.role) else {
            return;
        };
        let local = self.local(slot);
        self.metas[local].role = role;
        if (before == Role::Held) == (role == Role::Held) {
            return;
        }
        match role {
            Role::Held => self.not_held -= 1,
            Role::Replica | Role::Away => self.not_held += 1,
        }
        for table in &mut self.tables {
            table.set_held(local, role == Role::Held);
        }
    }

    /// Sets the clock of a slot so that it reads `reading_us` when the node's reads `node_us`.
    pub fn set_clock(&mut self, slot: u16, reading_us: u64, node_us: u64) {
        if let Some(meta) = self.slot_mut(slot) {
            // Both are far below 2^63.
            meta.clock_offset_us = reading_us as i64 - node_us as i64;
        }
    }

    /// The bound of the log of changes in bytes, at least two segments of it. What is oldest is forgotten to keep it.
    pub fn set_changes_bytes_max(&mut self, bytes: usize) {
        self.changes.bytes_max = bytes.max(2 * SEGMENT_BYTES);
    }

    /// Bytes that the log of changes has allocated. They do not count in [`Store::bytes`].
    pub fn changes_bytes(&self) -> usize {
        self.changes.segments.len() * SEGMENT_BYTES
    }

    /// Lists the changes of a slot from now on, and says the position in the log of what comes next. `None` if the slot is not here.
    pub fn track(&mut self, slot: u16) -> Option<u64> {
        let end = self.changes.end;
        let meta = self.slot_mut(slot)?;
        // What was listed before is not what will be read from here.
        meta.period = meta.period.wrapping_add(1);
        if !meta.tracked {
            meta.tracked = true;
            let (local, slots) = (self.local(slot), self.metas.len());
            self.changes.unread.resize(slots, Unread::default());
            self.changes.unread[local].read_to = end;
        }
        Some(end)
    }

    /// Nobody will ask for changes of a slot before this position any more.
    pub fn forget_changes(&mut self, slot: u16, before: u64) {
        let local = self.local(slot);
        if let Some(unread) = self.changes.unread.get_mut(local) {
            unread.read_to = before.max(unread.read_to);
        }
    }

    /// Ends [`Store::track`].
    pub fn untrack(&mut self, slot: u16) {
        if let Some(meta) = self.slot_mut(slot) {
            meta.tracked = false;
        }
    }

    /// Begins to read what has changed in a slot since a position: its newest record, if there is one. Its others are those named
    /// `before` ([`Store::change`]), down to that position. What changes from now on is listed anew, from [`Store::changes_end`] on.
    pub fn begin_changes(&mut self, slot: u16, since: u64) -> Option<u64> {
        let meta = self.slot_mut(slot)?;
        if meta.last_change < since.max(1) {
            return None;
        }
        meta.period = meta.period.wrapping_add(1);
        Some(meta.last_change)
    }

    /// The newest record of a slot, if it has one.
    pub fn newest_change(&self, slot: u16) -> Option<u64> {
        self.slot(slot).map(|meta| meta.last_change).filter(|&at| at > 0)
    }

    /// Whether something is listed of a slot from a position on, or a keyspace of it was flushed.
    pub fn has_changes(&self, slot: u16, since: u64) -> bool {
        let since = since.max(1);
        let mut flushes = self.changes.flushes.iter().rev();
        let was_flushed = flushes
            .by_ref()
            .take_while(|flush| flush.position >= since)
            .any(|flush| flush.has(slot));
        self.slot(slot)
            .is_some_and(|meta| meta.last_change >= since || was_flushed)
    }

    /// Where the next change is listed.
    pub fn changes_end(&self) -> u64 {
        self.changes.end
    }

    /// The record at a position that [`Store::begin_changes`] or another record named. `None` if it is forgotten: whoever reads it
    /// has to copy the slot again.
    pub fn change(&self, position: u64) -> Option<Change<'_>> {
        self.changes.get(position)
    }

    /// The keyspaces of a slot that were flushed since a position, in order; inside, `None` for all of them. `None` if one is forgotten:
    /// whoever reads them has to copy the slot again.
    pub fn flushes_since(&self, slot: u16, since: u64) -> Option<impl Iterator<Item = Option<Keyspace>>> {
        if since <= self.changes.flush_forgotten {
            return None;
        }
        let flushes = self
            .changes
            .flushes
            .iter()
            .filter(move |flush| flush.position >= since && flush.has(slot));
        Some(flushes.map(|flush| flush.keyspace.map(key::keyspace)))
    }

    /// The tracked slots that have changed since they were taken the last time, each once.
    pub fn take_changed_slots(&mut self, out: &mut Vec<u16>) {
        let mut changed = std::mem::take(&mut self.changes.changed);
        for &slot in &changed {
            if let Some(meta) = self.slot_mut(slot) {
                meta.listed = false;
            }
        }
        out.append(&mut changed);
        self.changes.changed = changed;
        if self.changes.segments.len() >= self.changes.trim_at {
            self.trim_changes();
        }
    }

    /// Frees what nobody asks for any more.
    fn trim_changes(&mut self) {
        let slots = self.metas.iter().zip(&self.changes.unread);
        let unread = slots.filter(|(meta, unread)| meta.tracked && meta.last_change >= unread.read_to);
        let first = unread.map(|(_, unread)| unread.first.max(unread.read_to)).min();
        let position = first.unwrap_or(self.changes.end);
        self.changes.forget_before(position);
        self.changes.trim_at = (2 * self.changes.segments.len()).max(TRIM_MIN);
    }

    /// Lists that a keyspace, or all, of these slots, or of all, was flushed.
    pub(crate) fn note_flush(&mut self, keyspace: Option<u8>, slots: Option<&SlotSet>) {
        if !self.metas.iter().any(|meta| meta.tracked) {
            return;
        }
        self.changes.note_flush(keyspace, slots.cloned());
        for slot in self.slots() {
            let local = self.local(slot);
            let meta = &mut self.metas[local];
            let is_flushed = slots.is_none_or(|slots| slots.contains(slot));
            if is_flushed && meta.tracked && !meta.listed {
                meta.listed = true;
                self.changes.changed.push(slot);
            }
        }
    }

    /// Lists a key again: whoever reads it now cannot take what it holds.
    pub fn list_again(&mut self, key: &Key) {
        self.list_key(key, self.local(key.slot));
    }

    /// Lists that the entry at a place goes, if its slot is tracked and it is not listed in this period.
    #[inline]
    pub(crate) fn list_place(&mut self, place: Place) {
        let local = usize::from(place.local_slot);
        let table = &self.tables[usize::from(place.keyspace)];
        let entry = table.page(local, place.page).entry(place.spot.offset);
        if entry.mark() != self.metas[local].period {
            self.list_marked(place);
        }
    }

    /// Lists that the entry at a place has changed, which was not listed in this period, if its slot is tracked.
    #[inline]
    pub(crate) fn list_marked(&mut self, place: Place) {
        let local = usize::from(place.local_slot);
        let meta = &mut self.metas[local];
        if meta.tracked {
            let table = &self.tables[usize::from(place.keyspace)];
            let (rule, key) = table.page(local, place.page).entry(place.spot.offset).key();
            let slot = (self.first_slot + local as u16) % SLOTS;
            let of = (slot, local);
            self.changes.append(of, meta, place.keyspace, rule.unwrap_or(0), key);
        }
    }

    /// Lists that the entry of a key changes, or comes, which was not listed in this period, if its slot is tracked.
    #[inline]
    pub(crate) fn list_key(&mut self, key: &Key, local: usize) {
        let meta = &mut self.metas[local];
        if meta.tracked {
            let of = (key.slot, local);
            self.changes.append(of, meta, key.keyspace, key.rule, key.bytes);
        }
    }

    /// Begins a new period of a slot and says its number, by which [`Store::drop_slot`] can tell what was stored before.
    pub fn begin_period(&mut self, slot: u16) -> u32 {
        let Some(meta) = self.slot_mut(slot) else { return 0 };
        meta.period = meta.period.wrapping_add(1);
        meta.period
    }

    /// Says that the entry at a place has been stored again in the slot's period, unchanged. Nothing is listed.
    pub fn touch_mark(&mut self, place: Place) {
        self.check(place);
        let local = usize::from(place.local_slot);
        let period = self.metas[local].period;
        let table = &mut self.tables[usize::from(place.keyspace)];
        let page = table.maps[local].page_mut(place.page);
        entry::set_mark(page.view_mut(&mut table.arena).entry_mut(place.spot.offset).0, period);
    }

    /// Drops entries of a slot, those of one keyspace or of all, from where the last step stopped, and shows what others count of
    /// each: about `budget` entries; it finishes the last page. Those that were stored in the period `since` of the slot, or in one
    /// after it, stay. Nothing is listed. `None` once all is done.
    pub fn drop_slot(
        &mut self,
        slot: u16,
        keyspace: Option<Keyspace>,
        since: Option<u32>,
        from: DropFrom,
        budget: usize,
        on_drop: &mut dyn FnMut(Option<u32>),
    ) -> Option<DropFrom> {
        let meta = *self.slot(slot)?;
        let local = self.local(slot);
        let only = match keyspace {
            None => None,
            Some(keyspace) => Some(keyspace.index()?),
        };
        let mut spent = 0;
        let mut from = from;
        while from.keyspace < KEYSPACES {
            if spent >= budget {
                return Some(from);
            }
            let index = from.keyspace;
            let next_keyspace = DropFrom {
                keyspace: index + 1,
                hash: 0,
            };
            let table = &mut self.tables[index];
            if only.is_some_and(|only| only != index) || table.maps.is_empty() {
                from = next_keyspace;
                continue;
            }
            let (map, mut shop) = table.map_to_change(local, &self.hasher, self.bounds);
            let (_, next) = map.hash_range(from.hash);
            let number = map.page_of(from.hash);
            let live = usize::from(map.page(number).live);
            from = next.map_or(next_keyspace, |hash| DropFrom { keyspace: index, hash });
            if live == 0 {
                continue;
            }
            spent += live;
            let before = map.allocated_bytes();
            let (mut values, mut lasting) = (0, 0);
            let dropped = map.sweep_page(number, Coarse(u32::MAX), &mut shop, &mut self.grave, &mut |entry| {
                let age = meta.period.wrapping_sub(entry.mark());
                let goes = since.is_none_or(|since| age > meta.period.wrapping_sub(since));
                if goes {
                    on_drop(entry.held_params());
                    if let Some(stored) = entry.value() {
                        values += 1;
                        lasting += i32::from(stored.expires == Expiry::NEVER);
                    }
                }
                goes
            });
            self.bytes = self.bytes - before + map.allocated_bytes();
            table.pack();
            table.live -= dropped;
            let is_held = meta.role == Role::Held;
            if !is_held {
                table.hidden -= dropped;
            }
            table.count_values(local, is_held, (-values, -lasting));
            self.generation += 1;
        }
        None
    }
}

/// Where [`Store::drop_slot`] goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropFrom {
    keyspace: usize,
    hash: u64,
}
