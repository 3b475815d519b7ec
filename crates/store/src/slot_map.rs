//! The entries of one slot of one keyspace.

use crate::directory::Directory;
use crate::entry::{EntryRef, Value};
use crate::expiry::Coarse;
use crate::key::{Hasher, Key};
use crate::layout::Bounds;
use crate::page::{Page, Spot};

pub(crate) enum SlotMap {
    One(Page),
    Many(Box<Directory>),
}

// 16,384 of these are allocated as soon as one key is there.
const _: () = assert!(size_of::<SlotMap>() <= 40);

impl Default for SlotMap {
    fn default() -> SlotMap {
        SlotMap::One(Page::default())
    }
}

impl SlotMap {
    pub(crate) fn live(&self) -> usize {
        match self {
            SlotMap::One(page) => usize::from(page.live),
            SlotMap::Many(directory) => directory.live,
        }
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        match self {
            SlotMap::One(page) => page.allocated_bytes(),
            SlotMap::Many(directory) => directory.allocated_bytes(),
        }
    }

    /// The number of the page with that hash.
    #[inline]
    pub(crate) fn page_of(&self, hash: u64) -> u32 {
        match self {
            SlotMap::One(_) => 0,
            SlotMap::Many(directory) => directory.leaf_of(hash),
        }
    }

    #[inline]
    pub(crate) fn page(&self, number: u32) -> &Page {
        match self {
            SlotMap::One(page) => page,
            SlotMap::Many(directory) => &directory.leaves[number as usize].page,
        }
    }

    /// The first hash of the page with `hash`, and the first after it.
    pub(crate) fn hash_range(&self, hash: u64) -> (u64, Option<u64>) {
        match self {
            SlotMap::One(_) => (0, None),
            SlotMap::Many(directory) => {
                let leaf = &directory.leaves[directory.leaf_of(hash) as usize];
                (leaf.hash_start(), leaf.hash_end())
            }
        }
    }

    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<(u32, Spot)> {
        let number = self.page_of(key.hash);
        self.page(number).find(key).map(|spot| (number, spot))
    }

    /// Changes a page in a way that may change its sums.
    pub(crate) fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut Page) -> T) -> T {
        match self {
            SlotMap::One(page) => change(page),
            SlotMap::Many(directory) => directory.change(number, change),
        }
    }

    /// A page, to change values in place.
    #[inline]
    pub(crate) fn page_mut(&mut self, number: u32) -> &mut Page {
        match self {
            SlotMap::One(page) => page,
            SlotMap::Many(directory) => &mut directory.leaves[number as usize].page,
        }
    }

    /// Adds an entry that is not there.
    pub(crate) fn insert(&mut self, key: &Key, value: &Value, bounds: Bounds, hasher: &Hasher) -> (u32, Spot) {
        let entry_bytes = value.page_bytes(key);
        if let SlotMap::One(page) = self {
            if page.make_room(entry_bytes, bounds, hasher) {
                return (0, page.insert(key, value));
            }
            *self = SlotMap::Many(Box::new(Directory::new(std::mem::take(page))));
        }
        let number = self.make_room(key.hash, entry_bytes, bounds, hasher);
        (number, self.change(number, |page| page.insert(key, value)))
    }

    fn make_room(&mut self, hash: u64, entry_bytes: usize, bounds: Bounds, hasher: &Hasher) -> u32 {
        match self {
            SlotMap::One(_) => 0,
            SlotMap::Many(directory) => directory.make_room(hash, entry_bytes, bounds, hasher),
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, number: u32, spot: Spot, bounds: Bounds, hasher: &Hasher) {
        self.change(number, |page| page.remove(spot));
        self.shrink(number, bounds, hasher);
    }

    /// Removes what has expired in one page. Says how many.
    pub(crate) fn sweep_page(
        &mut self,
        number: u32,
        now: Coarse,
        bounds: Bounds,
        hasher: &Hasher,
        on_drop: &mut dyn FnMut(EntryRef),
    ) -> usize {
        let dropped = self.change(number, |page| page.sweep(now, on_drop));
        if dropped > 0 {
            self.shrink(number, bounds, hasher);
        }
        dropped
    }

    /// Gives back what removed entries have left in one page, if that is worth it.
    pub(crate) fn compact(&mut self, number: u32, hasher: &Hasher) {
        self.change(number, |page| page.compact(hasher));
    }

    fn shrink(&mut self, number: u32, bounds: Bounds, hasher: &Hasher) {
        match self {
            SlotMap::One(page) => page.compact_if_sparse(hasher),
            SlotMap::Many(directory) => {
                directory.shrink(number, bounds, hasher);
                if let Some(page) = directory.collapse() {
                    *self = SlotMap::One(page);
                }
            }
        }
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> usize {
        match self {
            SlotMap::One(_) => 1,
            SlotMap::Many(directory) => directory.leaves.len(),
        }
    }

    /// Drops one page of a map that is not used any more, after showing its entries: how many, and whether it was the last.
    pub(crate) fn discard_page(&mut self, show: &mut dyn FnMut(EntryRef)) -> (usize, bool) {
        let (page, last) = match self {
            SlotMap::One(page) => (std::mem::take(page), true),
            SlotMap::Many(directory) => directory.discard_leaf(),
        };
        page.spots().for_each(|spot| show(page.entry(spot.offset)));
        (usize::from(page.live), last)
    }
}
