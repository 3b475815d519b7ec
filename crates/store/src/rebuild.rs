//! Moving the entries of pages into new ones: compaction, growth, split, merge.

use crate::arena::{Arena, Owner};
use crate::blocks::Content;
use crate::entry::{EntryRef, set_block};
use crate::key::Hasher;
use crate::layout::{Bounds, Layout, SLACK_SHARE, UNIT_BYTES};
use crate::page::{Page, PageMut};

/// What it takes to rebuild the pages of one slot.
pub(crate) struct Workshop<'a> {
    pub(crate) arena: &'a mut Arena,
    pub(crate) hasher: &'a Hasher,
    pub(crate) bounds: Bounds,
    pub(crate) local_slot: usize,
}

impl Workshop<'_> {
    /// An empty page that will have `hash`.
    fn page(&mut self, layout: Layout, hash: u64) -> Page {
        let owner = Owner::new(self.local_slot as u16, hash);
        let block = self.arena.allocate(layout.bytes, owner);
        Page::new(layout, block, self.arena)
    }

    /// A hash that a page that is not empty has.
    fn hash_of(&self, page: &Page) -> u64 {
        self.arena.owner(page.block).hash()
    }

    /// Moves the entries that `wanted` says out of `from` to `to`.
    fn move_entries(&mut self, from: &mut Page, to: &mut Page, wanted: &mut dyn FnMut(u64) -> bool) {
        let mut blocks = from.blocks.take();
        let (source, target) = self.arena.two(from.block, to.block);
        let mut to = to.with_bytes(target);
        let from_view = from.with_bytes_of(source);
        for spot in from_view.spots() {
            let entry = EntryRef::new(&source[usize::from(spot.offset) * UNIT_BYTES..], blocks.as_deref());
            let (number, hash) = (entry.block(), entry.hash(self.hasher));
            if !wanted(hash) {
                continue;
            }
            let start = to.adopt(entry, hash);
            if let Some(number) = number
                && let Some(block) = blocks.as_mut().and_then(|blocks| blocks.take(number))
            {
                to.adopt_block(start, block);
            }
        }
        from.blocks = blocks.filter(|blocks| !blocks.is_empty());
    }

    /// Moves everything out of `from`, which has no holes, to `to`, which is empty: the entries in one piece, since reading
    /// them in the order of the index would mean waiting for each.
    fn move_whole(&mut self, from: &mut Page, to: &mut Page) {
        to.blocks = from.blocks.take();
        let (source, target) = self.arena.two(from.block, to.block);
        to.with_bytes(target)
            .append_all(from.with_bytes_of(source).entries(), self.hasher);
    }

    /// Moves everything out of `from`, and frees it.
    fn empty(&mut self, from: &mut Page, to: &mut Page) {
        if from.holes == 0 && to.live == 0 {
            self.move_whole(from, to);
        } else {
            self.move_entries(from, to, &mut |_| true);
        }
        self.arena.free(std::mem::take(from).block);
    }
}

impl PageMut<'_> {
    /// Appends a copy of an entry, and says where; its block, if it has one, still has to follow.
    fn adopt(&mut self, entry: EntryRef, hash: u64) -> u16 {
        let bytes = entry.bytes();
        let spot = self.append(hash, bytes.len(), entry.expiry());
        self.entry_mut(spot.offset).0[..bytes.len()].copy_from_slice(bytes);
        spot.offset
    }

    fn adopt_block(&mut self, offset: u16, block: Content) {
        let (bytes, blocks) = self.entry_mut(offset);
        let number = blocks.get_or_insert_default().insert(block);
        set_block(bytes, number);
    }
}

impl Page {
    /// Makes room for one more entry, of that hash, unless the page would outgrow `bounds`.
    pub(crate) fn make_room(&mut self, hash: u64, entry_bytes: usize, bounds: Bounds, shop: &mut Workshop) -> bool {
        if usize::from(self.live) >= bounds.entries {
            return false;
        }
        if self.has_room(entry_bytes) {
            return true;
        }
        let layout = self.layout_for(entry_bytes);
        if layout.bytes > bounds.bytes && self.live > 0 {
            return false;
        }
        self.rebuild(layout, hash, shop);
        true
    }

    /// The layout for the live entries and, if not 0, one of `entry_bytes` more. A page that only grows pays for the next
    /// move with a step between two sizes; one in which entries come and go needs slack besides.
    fn layout_for(&self, entry_bytes: usize) -> Layout {
        let entries = usize::from(self.live) + usize::from(entry_bytes > 0);
        let payload = self.payload_bytes() + entry_bytes;
        if self.holes == 0 && self.removed == 0 {
            Layout::for_entries(entries, payload)
        } else {
            Layout::with_slack(entries, payload)
        }
    }

    /// Gives memory back if enough of the page is unused.
    pub(crate) fn compact_if_sparse(&mut self, shop: &mut Workshop) {
        if self.is_sparse() {
            let hash = shop.hash_of(self);
            self.rebuild(self.layout_for(0), hash, shop);
        }
    }

    /// Gives memory back if a smaller page can hold the entries.
    pub(crate) fn compact(&mut self, shop: &mut Workshop) {
        // Less than the slack of the new page can bring nothing.
        if self.live == 0 || usize::from(self.holes) * UNIT_BYTES * SLACK_SHARE < self.payload_bytes() {
            return;
        }
        let layout = self.layout_for(0);
        if layout.bytes < self.block.len() {
            let hash = shop.hash_of(self);
            self.rebuild(layout, hash, shop);
        }
    }

    fn rebuild(&mut self, layout: Layout, hash: u64, shop: &mut Workshop) {
        let mut old = std::mem::replace(self, shop.page(layout, hash));
        if old.live > 0 {
            shop.empty(&mut old, self);
        }
    }

    /// Divides the entries by one bit of their hash: those with 0 stay here, those with 1 are returned.
    pub(crate) fn split(&mut self, hash_bit: u8, shop: &mut Workshop) -> Page {
        let mut entries = [0; 2];
        let mut payload = [0; 2];
        let mut hashes = [0; 2];
        let side = |hash: u64| (hash >> hash_bit & 1) as usize;
        let view = self.view(shop.arena);
        for spot in view.spots() {
            let entry = view.entry(spot.offset);
            let hash = entry.hash(shop.hasher);
            entries[side(hash)] += 1;
            payload[side(hash)] += entry.page_bytes();
            hashes[side(hash)] = hash;
        }
        let [low, high] = [0, 1].map(|half| {
            if entries[half] == 0 {
                return Page::default();
            }
            let layout = Layout::for_entries(entries[half], payload[half]);
            let mut page = shop.page(layout, hashes[half]);
            shop.move_entries(self, &mut page, &mut |hash| side(hash) == half);
            page
        });
        let old = std::mem::replace(self, low);
        shop.arena.free(old.block);
        high
    }

    /// Moves the entries of `other` here if both together are at most half of what a page may hold.
    pub(crate) fn merge(&mut self, other: &mut Page, shop: &mut Workshop) -> bool {
        let live = usize::from(self.live) + usize::from(other.live);
        let payload = self.payload_bytes() + other.payload_bytes();
        if live * 2 > shop.bounds.entries || payload * 2 > shop.bounds.bytes {
            return false;
        }
        if other.live == 0 {
            return true;
        }
        if self.live == 0 {
            std::mem::swap(self, other);
            return true;
        }
        let hash = shop.hash_of(self);
        let mut merged = shop.page(Layout::with_slack(live, payload), hash);
        shop.empty(self, &mut merged);
        shop.empty(other, &mut merged);
        *self = merged;
        true
    }
}
