//! The store of one shard: its keyspaces, its slots, and what is done to one key.

use crate::arena::{Arena, Owner};
use crate::blocks::Content;
use crate::changes::{Changes, Role};
use crate::entry::{
    self, Bucket, BucketIn, Entry, EntryRef, EntryView, MAX_BLOB_BYTES, New, Numbers, State, StateError,
};
use crate::expiry::{Base, Expiry};
use crate::grave::Grave;
use crate::key::{self, Hasher, KEYSPACES, Key, KeyError, KeyMemo, Keyspace, Space};
use crate::layout::Bounds;
use crate::page::{PageRef, Spot};
use crate::rebuild::Workshop;
use crate::slot::{SLOTS, slot_of};
use crate::slot_map::SlotMap;
use std::cell::Cell;
use std::ops::Range;
use tollgate_values::size_class;

/// What a slot has besides its entries. It travels with the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotMeta {
    /// How often the slot has changed hands.
    pub epoch: u64,
    /// What to add to the node's clock for the slot's clock, in microseconds.
    pub clock_offset_us: i64,
    /// Position in the log of changes of the slot's newest record, 0 for none.
    pub(crate) last_change: u64,
    /// The number of the period that changes now fall into, which is the `mark` of the entries that have changed in it. It wraps.
    pub(crate) period: u32,
    /// What the store is to the slot.
    pub(crate) role: Role,
    /// Whether its changes are listed.
    pub(crate) tracked: bool,
    /// Whether it is in the list of changed slots.
    pub(crate) listed: bool,
}

// There are 16,384 of them.
const _: () = assert!(size_of::<SlotMeta>() == 32);

impl SlotMeta {
    /// The slot's clock when the node's reads `node_us`.
    pub fn clock_us(&self, node_us: u64) -> u64 {
        node_us.saturating_add_signed(self.clock_offset_us)
    }
}

/// Where an entry is. Good until the next [`Store::put`] of a new key, `remove`, `sweep` or `flush`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) page: u32,
    pub(crate) spot: Spot,
    pub(crate) local_slot: u16,
    pub(crate) keyspace: u8,
    #[cfg(debug_assertions)]
    generation: u64,
}

/// What a check reads of a bucket whose state is numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumbersAt {
    /// The expiry that the user asked for, if there is one.
    pub pinned: Option<Expiry>,
    /// The policy's state.
    pub state: Numbers,
}

/// What a removed entry had that others count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Number of the interned limit; a value has none.
    pub params: Option<u32>,
}

/// How many values a slot has in a keyspace.
#[derive(Clone, Copy, Default)]
pub(crate) struct ValuesOf {
    all: u32,
    /// How many of them have no expiry.
    lasting: u32,
}

/// One keyspace: a map for each slot, once there has been an entry.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) maps: Box<[SlotMap]>,
    pub(crate) arena: Arena,
    pub(crate) live: usize,
    /// How many of the live entries are of slots that are not held.
    pub(crate) hidden: usize,
    /// Of each slot, by position: its values. As many as there are maps.
    values_of: Box<[ValuesOf]>,
    /// How many of the entries of slots that are held are values.
    values: usize,
    /// How many of those have no expiry.
    lasting: usize,
}

/// Blocks moved after one change, which frees no more than two (a merge): what holes are left wait for the next.
const MOVES_PER_CHANGE: usize = 3;

impl Table {
    pub(crate) fn maps_bytes(&self) -> usize {
        size_class(size_of_val(&*self.maps)) + size_class(size_of_val(&*self.values_of))
    }

    /// Makes room for as many slots.
    fn resize(&mut self, slots: usize) {
        let mut maps = std::mem::take(&mut self.maps).into_vec();
        maps.resize_with(slots, SlotMap::default);
        self.maps = maps.into_boxed_slice();
        let mut values_of = std::mem::take(&mut self.values_of).into_vec();
        values_of.resize(slots, ValuesOf::default());
        self.values_of = values_of.into_boxed_slice();
    }

    /// Gives back what is there for slots, if no entry is left.
    pub(crate) fn free_slots(&mut self) {
        debug_assert_eq!(self.live, 0);
        self.maps = Box::default();
        self.values_of = Box::default();
        self.arena = Arena::default();
    }

    /// Entries of slots that are held.
    pub(crate) fn held(&self) -> usize {
        self.live - self.hidden
    }

    #[inline]
    fn find(&self, local: usize, key: &Key) -> Option<(u32, Spot)> {
        self.maps.get(local)?.find(key, &self.arena)
    }

    #[inline]
    pub(crate) fn page(&self, local: usize, number: u32) -> PageRef<'_> {
        self.maps[local].page(number).view(&self.arena)
    }

    /// A slot's map, and what it takes to change it.
    pub(crate) fn map_to_change<'a>(
        &'a mut self,
        local_slot: usize,
        hasher: &'a Hasher,
        bounds: Bounds,
    ) -> (&'a mut SlotMap, Workshop<'a>) {
        let shop = Workshop {
            arena: &mut self.arena,
            hasher,
            bounds,
            local_slot,
        };
        (&mut self.maps[local_slot], shop)
    }

    /// Counts so many more values of a slot, negative numbers for less: all of them, and those that have no expiry.
    pub(crate) fn count_values(&mut self, local: usize, is_held: bool, (all, lasting): (i32, i32)) {
        let of_slot = &mut self.values_of[local];
        // One slot has fewer than 2^32 values, and none is taken away that was not counted.
        of_slot.all = of_slot.all.wrapping_add_signed(all);
        of_slot.lasting = of_slot.lasting.wrapping_add_signed(lasting);
        debug_assert!(of_slot.lasting <= of_slot.all);
        if is_held {
            self.values = self.values.wrapping_add_signed(all as isize);
            self.lasting = self.lasting.wrapping_add_signed(lasting as isize);
        }
    }

    /// Counts that a value of a slot has another expiry.
    #[inline]
    pub(crate) fn count_expiry(&mut self, local: usize, is_held: bool, before: Expiry, now: Expiry) {
        let lasting = i32::from(now == Expiry::NEVER) - i32::from(before == Expiry::NEVER);
        if lasting != 0 {
            self.count_values(local, is_held, (0, lasting));
        }
    }

    /// Counts the entries of a slot that is held from now on, or not any more.
    pub(crate) fn set_held(&mut self, local: usize, is_held: bool) {
        let (Some(map), Some(values)) = (self.maps.get(local), self.values_of.get(local)) else {
            return;
        };
        let (live, all, lasting) = (map.live(), values.all as usize, values.lasting as usize);
        if is_held {
            self.hidden -= live;
            self.values += all;
            self.lasting += lasting;
        } else {
            self.hidden += live;
            self.values -= all;
            self.lasting -= lasting;
        }
    }

    /// Takes the entries of a slot out that is held, and moves their pages to another arena.
    pub(crate) fn take_map(&mut self, local: usize, to: &mut Arena) -> SlotMap {
        let mut map = std::mem::take(&mut self.maps[local]);
        let from = &mut self.arena;
        let mut pages = 0;
        map.each_page_mut(&mut |page| {
            if page.block.len() == 0 {
                return;
            }
            let block = to.allocate(page.block.len(), Owner::new(local as u16, 0));
            to.bytes_mut(block).copy_from_slice(from.bytes(page.block));
            from.free(std::mem::replace(&mut page.block, block));
            pages += 1;
        });
        let values = std::mem::take(&mut self.values_of[local]);
        self.live -= map.live();
        self.values -= values.all as usize;
        self.lasting -= values.lasting as usize;
        for _ in 0..pages {
            self.pack();
        }
        map
    }

    /// Fills holes that a change has left.
    pub(crate) fn pack(&mut self) {
        for _ in 0..MOVES_PER_CHANGE {
            let Some((owner, block)) = self.arena.pack() else {
                return;
            };
            let map = &mut self.maps[owner.local_slot()];
            map.page_mut(map.page_of(owner.hash())).block = block;
        }
    }
}

/// The entries of the slots of one shard.
pub struct Store {
    pub(crate) tables: [Table; KEYSPACES],
    pub(crate) metas: Box<[SlotMeta]>,
    pub(crate) first_slot: u16,
    /// How many slots are its own, from the first on. Others have entries only as guests.
    own_slots: u16,
    /// How many of them are not held.
    pub(crate) not_held: usize,
    pub(crate) hasher: Hasher,
    pub(crate) base: Base,
    pub(crate) bounds: Bounds,
    pub(crate) bytes: usize,
    pub(crate) grave: Grave,
    pub(crate) sweep_at: crate::sweep::SweepPosition,
    pub(crate) changes: Changes,
    /// Counts what makes places invalid.
    pub(crate) generation: u64,
    /// What was found last: a command asks for the same key several times.
    last_found: Cell<Option<LastFound>>,
}

#[derive(Clone, Copy)]
struct LastFound {
    hash: u64,
    generation: u64,
    place: Place,
}

impl Store {
    /// An empty store for a range of slots.
    ///
    /// `seed` must be random for each process, so that nobody can prepare keys that collide. `base_us` is a time at or
    /// before all that the slots' clocks will show: expiries are counted from it, for 8.9 years (see [`Expiry`]).
    ///
    /// # Panics
    /// If the range goes beyond [`SLOTS`].
    pub fn new(slots: Range<u16>, seed: u64, base_us: u64) -> Store {
        Store::with_bounds(slots, seed, base_us, Bounds::DEFAULT)
    }

    pub(crate) fn with_bounds(slots: Range<u16>, seed: u64, base_us: u64, bounds: Bounds) -> Store {
        assert!(
            slots.start <= slots.end && slots.end <= SLOTS,
            "slots {slots:?} of {SLOTS}"
        );
        let metas = vec![SlotMeta::default(); slots.len()].into_boxed_slice();
        Store {
            tables: Default::default(),
            bytes: size_class(size_of_val(&*metas)),
            metas,
            first_slot: slots.start,
            own_slots: slots.len() as u16,
            not_held: 0,
            hasher: Hasher::new(seed),
            base: Base::before(base_us),
            bounds,
            grave: Grave::default(),
            sweep_at: Default::default(),
            changes: Changes::default(),
            generation: 0,
            last_found: Cell::new(None),
        }
    }

    /// The slots of this store.
    pub fn slots(&self) -> Range<u16> {
        self.first_slot..self.first_slot + self.own_slots
    }

    /// Makes room for entries of slots that are not its own: guests, which other stores have lent. They are found, counted and swept as
    /// all others, but not scanned.
    pub fn admit_guests(&mut self) {
        if self.metas.len() == usize::from(SLOTS) {
            return;
        }
        let slots = usize::from(SLOTS);
        self.bytes -= size_class(size_of_val(&*self.metas));
        let mut metas = std::mem::take(&mut self.metas).into_vec();
        metas.resize(slots, SlotMeta::default());
        self.metas = metas.into_boxed_slice();
        self.bytes += size_class(size_of_val(&*self.metas));
        for table in self.tables.iter_mut().filter(|table| !table.maps.is_empty()) {
            self.bytes -= table.maps_bytes();
            table.resize(slots);
            self.bytes += table.maps_bytes();
        }
        self.generation += 1;
    }

    /// Whether entries of a slot can be here, as its own or as guests.
    #[inline]
    fn has_slot(&self, slot: u16) -> bool {
        slot < SLOTS && self.local(slot) < self.metas.len()
    }

    /// Prepares a key.
    ///
    /// # Errors
    /// [`KeyError`]: too long, of a slot that is not here, or of a database that does not exist.
    pub fn key<'a>(&self, space: Space, bytes: &'a [u8]) -> Result<Key<'a>, KeyError> {
        self.key_in_slot(space, slot_of(bytes), bytes)
    }

    /// As [`Store::key`], for one that was perhaps the last that was prepared with this memo, which must be this store's.
    ///
    /// # Errors
    /// As [`Store::key`].
    #[inline]
    pub fn key_again<'a>(&self, memo: &mut KeyMemo, space: Space, bytes: &'a [u8]) -> Result<Key<'a>, KeyError> {
        if let Some(key) = memo.recall(space, bytes) {
            return Ok(key);
        }
        let key = self.key(space, bytes)?;
        memo.learn(&key);
        Ok(key)
    }

    /// Prepares a key whose slot is already known to be `slot`.
    ///
    /// # Errors
    /// As [`Store::key`].
    #[inline]
    pub fn key_in_slot<'a>(&self, space: Space, slot: u16, bytes: &'a [u8]) -> Result<Key<'a>, KeyError> {
        debug_assert_eq!(slot, slot_of(bytes));
        if !self.has_slot(slot) {
            return Err(KeyError::SlotNotHeld { slot });
        }
        Key::new(&self.hasher, space, slot, bytes)
    }

    /// The position of a slot: its own come first.
    #[inline]
    pub(crate) fn local(&self, slot: u16) -> usize {
        usize::from(slot.wrapping_sub(self.first_slot) % SLOTS)
    }

    /// The slot at a position.
    #[inline]
    pub(crate) fn slot_at(&self, local_slot: usize) -> u16 {
        // Positions are below SLOTS, so the sum fits.
        (self.first_slot + local_slot as u16) % SLOTS
    }

    #[inline]
    fn place(&self, keyspace: u8, local_slot: usize, (page, spot): (u32, Spot)) -> Place {
        Place {
            page,
            spot,
            local_slot: local_slot as u16,
            keyspace,
            #[cfg(debug_assertions)]
            generation: self.generation,
        }
    }

    #[inline]
    pub(crate) fn place_of(&self, key: &Key, page: u32, spot: Spot) -> Place {
        self.place(key.keyspace, self.local(key.slot), (page, spot))
    }

    #[inline]
    pub(crate) fn check(&self, place: Place) {
        #[cfg(debug_assertions)]
        assert_eq!(
            place.generation, self.generation,
            "a place was used after the store changed"
        );
        let _ = place;
    }

    /// Where the entry of a key is.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<Place> {
        let local = self.local(key.slot);
        if let Some(last) = self.last_found.get()
            && last.hash == key.hash
            && last.generation == self.generation
            && usize::from(last.place.local_slot) == local
            && last.place.keyspace == key.keyspace
            && self.entry(last.place).is_of(key)
        {
            return Some(last.place);
        }
        let found = self.tables[usize::from(key.keyspace)].find(local, key)?;
        let place = self.place(key.keyspace, local, found);
        self.last_found.set(Some(LastFound {
            hash: key.hash,
            generation: self.generation,
            place,
        }));
        Some(place)
    }

    #[inline]
    pub(crate) fn entry(&self, place: Place) -> EntryRef<'_> {
        self.check(place);
        let table = &self.tables[usize::from(place.keyspace)];
        table
            .page(usize::from(place.local_slot), place.page)
            .entry(place.spot.offset)
    }

    /// The bucket at a place.
    #[inline]
    pub fn bucket(&self, place: Place) -> Bucket<'_> {
        let entry = self.entry(place);
        entry.bucket(self.base.expiry(entry.expiry()))
    }

    /// The number of the interned limit of the bucket at a place; [`NO_PARAMS`](crate::NO_PARAMS) if a value is there.
    #[inline]
    pub fn params(&self, place: Place) -> u32 {
        self.entry(place).params()
    }

    /// The bucket at a place without its key, if its state is numbers.
    #[inline]
    pub fn numbers(&self, place: Place) -> Option<NumbersAt> {
        let entry = self.entry(place);
        let (state, pinned) = entry.numbers()?;
        Some(NumbersAt {
            pinned: pinned.then(|| self.base.expiry(entry.expiry())),
            state,
        })
    }

    /// The bucket at a place, with what its key belongs to and its slot.
    pub fn view(&self, place: Place) -> EntryView<'_> {
        view_of(
            self.base,
            place.keyspace,
            (
                self.slot_at(usize::from(place.local_slot)),
                self.metas[usize::from(place.local_slot)].role,
            ),
            self.entry(place),
        )
    }

    /// Bytes that the entry at a place takes: its own, and an index position.
    pub fn entry_bytes(&self, place: Place) -> usize {
        let entry = self.entry(place);
        let map = &self.tables[usize::from(place.keyspace)].maps[usize::from(place.local_slot)];
        let blocks = map.page(place.page).blocks.as_deref();
        let block = entry
            .block()
            .zip(blocks)
            .map_or(0, |(number, blocks)| blocks.block_bytes(number));
        entry.page_bytes() + block + 3
    }

    /// Overwrites the bucket at a place if its state is as many numbers as given; otherwise nothing changes, the answer is
    /// `false`, and [`Store::put`] must be used.
    #[inline]
    pub fn update(&mut self, place: Place, params: u32, expiry: Expiry, pinned: bool, numbers: &[f64]) -> bool {
        self.check(place);
        let local = usize::from(place.local_slot);
        let table = &mut self.tables[usize::from(place.keyspace)];
        let page = table.maps[local].page_mut(place.page);
        let expiry = self.base.round_up(expiry);
        let mark = self.metas[local].period;
        let mut view = page.view_mut(&mut table.arena);
        let (bytes, _) = view.entry_mut(place.spot.offset);
        let before = entry::mark(bytes);
        if !entry::update(bytes, params, expiry, pinned, mark, numbers) {
            return false;
        }
        page.min_expiry = page.min_expiry.min(expiry.0);
        if before != mark {
            self.list_marked(place);
        }
        true
    }

    /// Inserts or replaces the bucket of a key.
    ///
    /// # Errors
    /// [`StateError::BlobTooLong`]; nothing has changed then.
    pub fn put(
        &mut self,
        key: &Key,
        params: u32,
        expiry: Expiry,
        pinned: bool,
        state: State,
    ) -> Result<Place, StateError> {
        if let State::Blob(blob) = state
            && blob.len() > MAX_BLOB_BYTES
        {
            return Err(StateError::BlobTooLong { bytes: blob.len() });
        }
        let local = self.local(key.slot);
        let mark = self.metas[local].period;
        let value = BucketIn {
            params,
            expiry: self.base.round_up(expiry),
            pinned,
            mark,
            state,
        };
        self.allocate(key.keyspace);
        let table = &mut self.tables[usize::from(key.keyspace)];
        let found = table.find(local, key);
        let is_listed = found.is_some_and(|(page, spot)| table.page(local, page).entry(spot.offset).mark() == mark);
        if !is_listed {
            self.list_key(key, local);
        }
        let table = &mut self.tables[usize::from(key.keyspace)];
        let (map, shop) = table.map_to_change(local, &self.hasher, self.bounds);
        let before = map.allocated_bytes();
        let rewritten = found.filter(|&(page, spot)| {
            map.change(page, |page| {
                let mut view = page.view_mut(shop.arena);
                let (bytes, blocks) = view.entry_mut(spot.offset);
                let rewritten = value.rewrite(key, bytes, blocks);
                if rewritten {
                    page.min_expiry = page.min_expiry.min(value.expiry.0);
                }
                rewritten
            })
        });
        self.bytes = self.bytes - before + map.allocated_bytes();
        if let Some(found) = rewritten {
            table.pack();
            return Ok(self.place(key.keyspace, local, found));
        }
        if let Some(found) = found {
            let place = self.place(key.keyspace, local, found);
            let block = self.take_entry(place);
            self.grave.bury(block);
        }
        Ok(self.insert_entry(key, local, &mut New::Bucket(&value)))
    }

    /// Adds the entry of a key that has none.
    pub(crate) fn insert_entry(&mut self, key: &Key, local: usize, new: &mut New) -> Place {
        self.allocate(key.keyspace);
        let table = &mut self.tables[usize::from(key.keyspace)];
        let (map, mut shop) = table.map_to_change(local, &self.hasher, self.bounds);
        let before = map.allocated_bytes();
        let lasts = new.lasts();
        let is_held = self.metas[local].role == Role::Held;
        let at = map.insert(key, new, &mut shop);
        self.bytes = self.bytes - before + map.allocated_bytes();
        table.pack();
        table.live += 1;
        table.hidden += usize::from(!is_held);
        if let Some(lasts) = lasts {
            table.count_values(local, is_held, (1, i32::from(lasts)));
        }
        self.generation += 1;
        self.place(key.keyspace, local, at)
    }

    /// Removes the entry at a place, lists that, and returns its block.
    pub(crate) fn remove_entry(&mut self, place: Place) -> Option<Content> {
        self.check(place);
        self.list_place(place);
        self.take_entry(place)
    }

    /// Takes the entry at a place out, and returns its block.
    fn take_entry(&mut self, place: Place) -> Option<Content> {
        let local = usize::from(place.local_slot);
        let table = &mut self.tables[usize::from(place.keyspace)];
        let (map, mut shop) = table.map_to_change(local, &self.hasher, self.bounds);
        let before = map.allocated_bytes();
        let block = map.remove(place.page, place.spot, &mut shop);
        let is_held = self.metas[local].role == Role::Held;
        self.bytes = self.bytes - before + map.allocated_bytes();
        table.pack();
        table.live -= 1;
        table.hidden -= usize::from(!is_held);
        if let Some(Content::Value(stored)) = &block {
            table.count_values(local, is_held, (-1, -i32::from(stored.expires == Expiry::NEVER)));
        }
        self.generation += 1;
        block
    }

    fn allocate(&mut self, keyspace: u8) {
        let table = &mut self.tables[usize::from(keyspace)];
        if table.maps.is_empty() {
            table.resize(self.metas.len());
            self.bytes += table.maps_bytes();
        }
    }

    /// Removes the entry of a key, if there is one.
    pub fn remove(&mut self, key: &Key) -> Option<Removed> {
        let place = self.find(key)?;
        Some(self.remove_at(place))
    }

    /// Removes the entry at a place.
    pub fn remove_at(&mut self, place: Place) -> Removed {
        let params = self.entry(place).held_params();
        let block = self.remove_entry(place);
        self.grave.bury(block);
        Removed { params }
    }

    /// Gives back what removed entries have left in the page of an entry. Answers whether that was anything; places are
    /// invalid then.
    pub(crate) fn compact_at(&mut self, place: Place) -> bool {
        self.check(place);
        let table = &mut self.tables[usize::from(place.keyspace)];
        let (map, mut shop) = table.map_to_change(usize::from(place.local_slot), &self.hasher, self.bounds);
        let before = map.allocated_bytes();
        map.compact(place.page, &mut shop);
        let after = map.allocated_bytes();
        table.pack();
        self.bytes = self.bytes - before + after;
        self.generation += u64::from(after < before);
        self.last_found.set(None);
        after < before
    }

    /// Number of entries of a keyspace in slots that are held ([`Role`]).
    pub fn len(&self, keyspace: Keyspace) -> usize {
        self.table(keyspace).map_or(0, Table::held)
    }

    /// Number of entries of a keyspace in slots that are held that are values.
    pub fn values(&self, keyspace: Keyspace) -> usize {
        self.table(keyspace).map_or(0, |table| table.values)
    }

    /// Number of entries of a keyspace in slots that are held that have an expiry: all but values without one.
    pub fn expiring(&self, keyspace: Keyspace) -> usize {
        self.table(keyspace).map_or(0, |table| table.held() - table.lasting)
    }

    /// Whether a keyspace has no entry.
    pub fn is_empty(&self, keyspace: Keyspace) -> bool {
        self.len(keyspace) == 0
    }

    /// Number of entries of one slot in a keyspace; 0 if the slot is not here.
    pub fn slot_len(&self, keyspace: Keyspace, slot: u16) -> usize {
        let map = self
            .has_slot(slot)
            .then(|| self.table(keyspace)?.maps.get(self.local(slot)));
        map.flatten().map_or(0, SlotMap::live)
    }

    /// Bytes that the store has allocated, as the allocator rounds them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a slot has besides its entries; `None` if it is not here.
    pub fn slot(&self, slot: u16) -> Option<&SlotMeta> {
        self.has_slot(slot).then(|| &self.metas[self.local(slot)])
    }

    /// Slots of this store whose clocks are not the node's, and how far each is ahead of it, in microseconds.
    pub fn clock_offsets(&self) -> Vec<(u16, i64)> {
        let slots = self.slots();
        let offsets = slots.filter_map(|slot| Some((slot, self.slot(slot)?.clock_offset_us)));
        offsets.filter(|(_, offset_us)| *offset_us != 0).collect()
    }

    /// As [`Store::slot`], to change it.
    pub fn slot_mut(&mut self, slot: u16) -> Option<&mut SlotMeta> {
        let local = self.has_slot(slot).then(|| self.local(slot))?;
        Some(&mut self.metas[local])
    }

    pub(crate) fn table(&self, keyspace: Keyspace) -> Option<&Table> {
        keyspace.index().map(|index| &self.tables[index])
    }

    pub(crate) fn place_at(&self, keyspace: usize, local_slot: usize, page: u32, spot: Spot) -> Place {
        self.place(keyspace as u8, local_slot, (page, spot))
    }
}

/// An entry as callers see it.
pub(crate) fn view_of(base: Base, keyspace: u8, (slot, role): (u16, Role), entry: EntryRef<'_>) -> EntryView<'_> {
    let (rule, _) = entry.key();
    EntryView {
        space: key::space(keyspace, rule.unwrap_or(0)),
        slot,
        role,
        entry: match entry.value() {
            Some(stored) => Entry::Value(stored),
            None => Entry::Bucket(entry.bucket(base.expiry(entry.expiry()))),
        },
    }
}
