//! The entries of one slot of one keyspace.

use crate::arena::Arena;
use crate::blocks::Content;
use crate::directory::Directory;
use crate::entry::{EntryRef, New};
use crate::expiry::Coarse;
use crate::grave::Grave;
use crate::key::Key;
use crate::page::{Page, Spot};
use crate::rebuild::Workshop;

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
    pub(crate) fn find(&self, key: &Key, arena: &Arena) -> Option<(u32, Spot)> {
        let number = self.page_of(key.hash);
        self.page(number).view(arena).find(key).map(|spot| (number, spot))
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
    pub(crate) fn insert(&mut self, key: &Key, new: &mut New, shop: &mut Workshop) -> (u32, Spot) {
        let entry_bytes = new.page_bytes(key);
        if let SlotMap::One(page) = self {
            if page.make_room(key.hash, entry_bytes, shop.bounds, shop) {
                return (0, page.view_mut(shop.arena).insert(key, new));
            }
            *self = SlotMap::Many(Box::new(Directory::new(std::mem::take(page))));
        }
        let number = self.make_room(key.hash, entry_bytes, shop);
        let spot = self.change(number, |page| page.view_mut(shop.arena).insert(key, new));
        (number, spot)
    }

    fn make_room(&mut self, hash: u64, entry_bytes: usize, shop: &mut Workshop) -> u32 {
        match self {
            SlotMap::One(_) => 0,
            SlotMap::Many(directory) => directory.make_room(hash, entry_bytes, shop),
        }
    }

    /// Removes an entry, and returns its block.
    pub(crate) fn remove(&mut self, number: u32, spot: Spot, shop: &mut Workshop) -> Option<Content> {
        let block = self.change(number, |page| {
            let block = page.view_mut(shop.arena).remove(spot);
            page.free_if_empty(shop.arena);
            block
        });
        self.shrink(number, shop);
        block
    }

    /// Removes what has expired in one page. Says how many.
    pub(crate) fn sweep_page(
        &mut self,
        number: u32,
        now: Coarse,
        shop: &mut Workshop,
        grave: &mut Grave,
        may_go: &mut dyn FnMut(EntryRef) -> bool,
    ) -> usize {
        let dropped = self.change(number, |page| {
            let dropped = page.view_mut(shop.arena).sweep(now, grave, may_go);
            page.free_if_empty(shop.arena);
            dropped
        });
        if dropped > 0 {
            self.shrink(number, shop);
        }
        dropped
    }

    /// Gives back what removed entries have left in one page, if that is worth it.
    pub(crate) fn compact(&mut self, number: u32, shop: &mut Workshop) {
        self.change(number, |page| page.compact(shop));
    }

    fn shrink(&mut self, number: u32, shop: &mut Workshop) {
        match self {
            SlotMap::One(page) => page.compact_if_sparse(shop),
            SlotMap::Many(directory) => {
                directory.shrink(number, shop);
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

    /// Shows all pages, to change where they are.
    pub(crate) fn each_page_mut(&mut self, show: &mut dyn FnMut(&mut Page)) {
        match self {
            SlotMap::One(page) => show(page),
            SlotMap::Many(directory) => directory.leaves.iter_mut().for_each(|leaf| show(&mut leaf.page)),
        }
    }

    /// Drops one page of a map that is not used any more, after showing its entries: how many, and whether it was the last.
    /// Its block goes with the arena.
    pub(crate) fn discard_page(
        &mut self,
        arena: &Arena,
        grave: &mut Grave,
        show: &mut dyn FnMut(EntryRef),
    ) -> (usize, bool) {
        let (mut page, last) = match self {
            SlotMap::One(page) => (std::mem::take(page), true),
            SlotMap::Many(directory) => directory.discard_leaf(),
        };
        let view = page.view(arena);
        view.spots().for_each(|spot| show(view.entry(spot.offset)));
        if let Some(blocks) = page.blocks.take() {
            blocks.into_each().for_each(|block| grave.bury(Some(block)));
        }
        (usize::from(page.live), last)
    }
}
