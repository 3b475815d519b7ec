//! Moving the entries of pages into new ones: compaction, growth, split, merge.

use crate::entry::{EntryRef, set_block};
use crate::key::Hasher;
use crate::layout::{Bounds, Layout, SLACK_SHARE, UNIT_BYTES, size_class};
use crate::page::Page;

impl Page {
    /// Makes room for one more entry, unless the page would outgrow `bounds`.
    pub(crate) fn make_room(&mut self, entry_bytes: usize, bounds: Bounds, hasher: &Hasher) -> bool {
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
        self.rebuild(layout, hasher);
        true
    }

    /// The layout for the live entries and, if not 0, one of `entry_bytes` more.
    fn layout_for(&self, entry_bytes: usize) -> Layout {
        let entries = usize::from(self.live) + usize::from(entry_bytes > 0);
        Layout::with_slack(entries, self.payload_bytes() + entry_bytes)
    }

    /// Gives memory back if enough of the page is unused.
    pub(crate) fn compact_if_sparse(&mut self, hasher: &Hasher) {
        if self.is_sparse() {
            self.rebuild(self.layout_for(0), hasher);
        }
    }

    /// Gives memory back if a smaller page can hold the entries.
    pub(crate) fn compact(&mut self, hasher: &Hasher) {
        // Less than the slack of the new page can bring nothing.
        if self.live == 0 || usize::from(self.holes) * UNIT_BYTES * SLACK_SHARE < self.payload_bytes() {
            return;
        }
        let layout = self.layout_for(0);
        if size_class(layout.bytes) < size_class(self.bytes.len()) {
            self.rebuild(layout, hasher);
        }
    }

    fn rebuild(&mut self, layout: Layout, hasher: &Hasher) {
        let mut old = std::mem::replace(self, Page::new(layout));
        self.absorb(&mut old, hasher);
    }

    /// Appends a copy of an entry; its block, if it has one, still has to follow.
    fn adopt(&mut self, entry: EntryRef, hash: u64) -> usize {
        let bytes = entry.bytes();
        let start = usize::from(self.append(hash, bytes.len(), entry.expiry()).offset) * UNIT_BYTES;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        start
    }

    /// Moves everything out of `other`.
    fn absorb(&mut self, other: &mut Page, hasher: &Hasher) {
        let mut blocks = other.blocks.take();
        for spot in other.spots() {
            let entry = EntryRef::new(&other.bytes[usize::from(spot.offset) * UNIT_BYTES..], blocks.as_deref());
            let (number, hash) = (entry.block(), entry.hash(hasher));
            let start = self.adopt(entry, hash);
            if let (Some(number), Some(from)) = (number, &mut blocks) {
                let number = self.blocks.get_or_insert_default().insert(from.take(number));
                set_block(&mut self.bytes[start..], number);
            }
        }
        *other = Page::default();
    }

    /// Divides the entries by one bit of their hash: those with 0 stay here, those with 1 are returned.
    pub(crate) fn split(&mut self, hash_bit: u8, hasher: &Hasher) -> Page {
        let mut entries = [0; 2];
        let mut payload = [0; 2];
        let hashes: Vec<u64> = self.spots().map(|spot| self.entry(spot.offset).hash(hasher)).collect();
        let side = |hash: u64| (hash >> hash_bit & 1) as usize;
        for (spot, &hash) in self.spots().zip(&hashes) {
            entries[side(hash)] += 1;
            payload[side(hash)] += self.entry(spot.offset).page_bytes();
        }
        let mut halves = [0, 1].map(|half| match entries[half] {
            0 => Page::default(),
            live => Page::new(Layout::with_slack(live, payload[half])),
        });
        let mut blocks = self.blocks.take();
        for (spot, &hash) in self.spots().zip(&hashes) {
            let half = &mut halves[side(hash)];
            let entry = self.entry(spot.offset);
            let number = entry.block();
            let start = half.adopt(entry, hash);
            if let (Some(number), Some(from)) = (number, &mut blocks) {
                let number = half.blocks.get_or_insert_default().insert(from.take(number));
                set_block(&mut half.bytes[start..], number);
            }
        }
        let [low, high] = halves;
        *self = low;
        high
    }

    /// Moves the entries of `other` here if both together are at most half of what a page may hold.
    pub(crate) fn merge(&mut self, other: &mut Page, bounds: Bounds, hasher: &Hasher) -> bool {
        let live = usize::from(self.live) + usize::from(other.live);
        let payload = self.payload_bytes() + other.payload_bytes();
        if live * 2 > bounds.entries || payload * 2 > bounds.bytes {
            return false;
        }
        if other.live == 0 {
            return true;
        }
        if self.live == 0 {
            std::mem::swap(self, other);
            return true;
        }
        let mut merged = Page::new(Layout::with_slack(live, payload));
        merged.absorb(self, hasher);
        merged.absorb(other, hasher);
        *self = merged;
        true
    }
}
