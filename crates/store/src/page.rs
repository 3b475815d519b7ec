//! A page: tags, offsets and entries of up to about a thousand keys in one block of an [`Arena`].
//!
//! ```text
//! tags u8 x (n + 7) | offsets u16 x n, in units of 4 bytes | entries, appended
//! ```
//! Linear probing over the tags, eight at a time. A tag is 0 where the index is free, 1 where an entry was removed.

use crate::arena::{Arena, Block};
use crate::blocks::{Blocks, Content};
use crate::entry::{EntryRef, New};
use crate::expiry::Coarse;
use crate::grave::Grave;
use crate::key::{Hasher, Key};
use crate::layout::{GROUP, Layout, UNIT_BYTES, entries_start, max_load, offsets_start};
use crate::words::{set_u16, u16_at, u64_at};

const FREE: u8 = 0;
const REMOVED: u8 = 1;
const FIRST_TAG: u8 = 2;

const CACHE_LINE_BYTES: usize = 64;

/// Where an entry is in its page: its position in the index and its offset in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) position: u16,
    pub(crate) offset: u16,
}

/// What is known of a page without its bytes.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) block: Block,
    /// What is too large for a page.
    pub(crate) blocks: Option<Box<Blocks>>,
    /// No entry expires before this.
    pub(crate) min_expiry: u32,
    pub(crate) index_len: u16,
    pub(crate) live: u16,
    pub(crate) removed: u16,
    /// Where the next entry goes, in units.
    end: u16,
    /// What removed entries have left behind, in units.
    pub(crate) holes: u16,
}

/// A page, to read.
#[derive(Clone, Copy)]
pub(crate) struct PageRef<'a> {
    head: &'a Page,
    bytes: &'a [u8],
}

/// A page, to change what is in it.
pub(crate) struct PageMut<'a> {
    head: &'a mut Page,
    bytes: &'a mut [u8],
}

/// The tag of a hash.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 32) as u8;
    if tag < FIRST_TAG { tag + FIRST_TAG } else { tag }
}

/// Where the search for a hash starts.
#[inline]
pub(crate) fn home(hash: u64, index_len: usize) -> usize {
    (((hash & 0xffff_ffff) * index_len as u64) >> 32) as usize
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// The top bit of each byte that is zero. Bytes above the lowest zero may be marked wrongly, when they are 1.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & (LOW_BITS << 7)
}

#[inline]
fn first_byte(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// The top bits of the bytes of `group` that are `tag` and come before the first free one. A byte may be marked that
/// differs from `tag` in its last bit, so the key must be compared; it is never a free or a removed one.
#[inline]
pub(crate) fn candidates(group: u64, tag: u8) -> (u64, bool) {
    let free = zero_bytes(group);
    let before_free = (free & free.wrapping_neg()).wrapping_sub(1);
    let marks = zero_bytes(group ^ (LOW_BITS * u64::from(tag)));
    (marks & before_free, free != 0)
}

impl Page {
    /// An empty page of that shape in a block of its size.
    pub(crate) fn new(layout: Layout, block: Block, arena: &mut Arena) -> Page {
        debug_assert_eq!(block.len(), layout.bytes);
        arena.bytes_mut(block)[..entries_start(layout.index_len)].fill(0);
        Page {
            block,
            blocks: None,
            min_expiry: u32::MAX,
            index_len: layout.index_len as u16,
            live: 0,
            removed: 0,
            end: (entries_start(layout.index_len) / UNIT_BYTES) as u16,
            holes: 0,
        }
    }

    #[inline]
    pub(crate) fn view<'a>(&'a self, arena: &'a Arena) -> PageRef<'a> {
        PageRef {
            head: self,
            bytes: arena.bytes(self.block),
        }
    }

    #[inline]
    pub(crate) fn view_mut<'a>(&'a mut self, arena: &'a mut Arena) -> PageMut<'a> {
        PageMut {
            bytes: arena.bytes_mut(self.block),
            head: self,
        }
    }

    /// As [`Page::view`], of bytes that the caller already has.
    pub(crate) fn with_bytes_of<'a>(&'a self, bytes: &'a [u8]) -> PageRef<'a> {
        PageRef { head: self, bytes }
    }

    /// As [`Page::view_mut`], of bytes that the caller already has.
    pub(crate) fn with_bytes<'a>(&'a mut self, bytes: &'a mut [u8]) -> PageMut<'a> {
        PageMut { head: self, bytes }
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.block.len() + self.blocks.as_ref().map_or(0, |blocks| blocks.allocated_bytes())
    }

    /// Bytes of live entries in the page.
    pub(crate) fn payload_bytes(&self) -> usize {
        if self.index_len == 0 {
            return 0;
        }
        usize::from(self.end - self.holes) * UNIT_BYTES - entries_start(usize::from(self.index_len))
    }

    /// Whether an entry of that many bytes can be added as things are.
    pub(crate) fn has_room(&self, entry_bytes: usize) -> bool {
        let index_len = usize::from(self.index_len);
        usize::from(self.end) * UNIT_BYTES + entry_bytes <= self.block.len()
            && usize::from(self.live + self.removed) < max_load(index_len)
    }

    /// Whether more than a quarter of the page is what removed entries have left.
    pub(crate) fn is_sparse(&self) -> bool {
        self.live > 0
            && (usize::from(self.holes) * UNIT_BYTES * 4 > self.block.len() || self.removed * 4 > self.index_len)
    }

    /// Frees the block of a page whose last entry has gone.
    pub(crate) fn free_if_empty(&mut self, arena: &mut Arena) {
        if self.live == 0 {
            arena.free(std::mem::take(self).block);
        }
    }
}

impl<'a> PageRef<'a> {
    #[inline]
    fn offset(self, position: usize) -> u16 {
        u16_at(
            self.bytes,
            offsets_start(usize::from(self.head.index_len)) + 2 * position,
        )
    }

    #[inline]
    pub(crate) fn entry(self, offset: u16) -> EntryRef<'a> {
        EntryRef::new(
            &self.bytes[usize::from(offset) * UNIT_BYTES..],
            self.head.blocks.as_deref(),
        )
    }

    #[inline]
    pub(crate) fn find(self, key: &Key) -> Option<Spot> {
        if self.head.live == 0 {
            return None;
        }
        let index_len = usize::from(self.head.index_len);
        let tag = tag_of(key.hash);
        let mut at = home(key.hash, index_len);
        loop {
            let (mut marks, at_end) = candidates(u64_at(self.bytes, at), tag);
            while marks != 0 {
                let position = wrap(at + first_byte(marks), index_len);
                let offset = self.offset(position);
                if self.entry(offset).is_of(key) {
                    return Some(Spot {
                        position: position as u16,
                        offset,
                    });
                }
                marks &= marks - 1;
            }
            // A free position always exists: the load is at most seven eighths.
            if at_end {
                return None;
            }
            at = wrap(at + GROUP, index_len);
        }
    }

    /// The group of tags at which the search for a key starts.
    #[inline]
    pub(crate) fn tags_at_home(self, key: &Key) -> u64 {
        u64_at(self.bytes, home(key.hash, usize::from(self.head.index_len)))
    }

    /// Where the first candidate in the group is at which the search starts.
    #[inline]
    pub(crate) fn likely_spot(self, key: &Key, group: u64) -> Option<Spot> {
        let index_len = usize::from(self.head.index_len);
        let (marks, _) = candidates(group, tag_of(key.hash));
        if marks == 0 {
            return None;
        }
        let position = wrap(home(key.hash, index_len) + first_byte(marks), index_len);
        Some(Spot {
            position: position as u16,
            offset: self.offset(position),
        })
    }

    /// Reads the start of an entry and what is a cache line further.
    #[inline]
    pub(crate) fn touch(self, offset: u16) -> u64 {
        let start = usize::from(offset) * UNIT_BYTES;
        let further = (start + CACHE_LINE_BYTES).min(self.bytes.len() - 1);
        u64::from(self.bytes[start]) + u64::from(self.bytes[further])
    }

    /// Every entry, in no order.
    pub(crate) fn spots(self) -> impl Iterator<Item = Spot> + 'a {
        (0..self.head.index_len).filter_map(move |position| self.spot_at(position))
    }

    #[inline]
    fn spot_at(self, position: u16) -> Option<Spot> {
        let at = usize::from(position);
        (self.bytes[at] >= FIRST_TAG).then(|| Spot {
            position,
            offset: self.offset(at),
        })
    }

    /// The bytes of all entries of a page without holes.
    pub(crate) fn entries(self) -> &'a [u8] {
        debug_assert_eq!(self.head.holes, 0);
        &self.bytes[entries_start(usize::from(self.head.index_len))..usize::from(self.head.end) * UNIT_BYTES]
    }

    /// The first entry from a random position on.
    pub(crate) fn random(self, random: u64) -> Option<Spot> {
        if self.head.live == 0 {
            return None;
        }
        let start = home(random, usize::from(self.head.index_len)) as u16;
        (start..self.head.index_len)
            .chain(0..start)
            .find_map(|position| self.spot_at(position))
    }

    #[cfg(test)]
    pub(crate) fn check(self) {
        let index_len = usize::from(self.head.index_len);
        let tags = |tag: fn(u8) -> bool| self.bytes[..index_len].iter().filter(|&&at| tag(at)).count();
        assert_eq!(tags(|tag| tag >= FIRST_TAG), usize::from(self.head.live));
        assert_eq!(tags(|tag| tag == REMOVED), usize::from(self.head.removed));
        let payload: usize = self.spots().map(|spot| self.entry(spot.offset).page_bytes()).sum();
        assert_eq!(payload, self.head.payload_bytes());
        if self.head.live == 0 {
            assert!(self.bytes.is_empty() && self.head.blocks.is_none() && self.head.index_len == 0);
            return;
        }
        assert!(usize::from(self.head.live + self.head.removed) <= max_load(index_len));
        assert_eq!(self.bytes[..GROUP - 1], self.bytes[index_len..index_len + GROUP - 1]);
        assert!(
            self.spots()
                .all(|spot| self.entry(spot.offset).expiry().0 >= self.head.min_expiry)
        );
    }
}

impl PageMut<'_> {
    #[inline]
    fn view(&self) -> PageRef<'_> {
        PageRef {
            head: self.head,
            bytes: self.bytes,
        }
    }

    /// The entry's bytes to the end of the page, and the blocks.
    #[inline]
    pub(crate) fn entry_mut(&mut self, offset: u16) -> (&mut [u8], &mut Option<Box<Blocks>>) {
        (
            &mut self.bytes[usize::from(offset) * UNIT_BYTES..],
            &mut self.head.blocks,
        )
    }

    /// Adds an entry that is not there, for which there is room.
    pub(crate) fn insert(&mut self, key: &Key, new: &mut New) -> Spot {
        let bytes = new.page_bytes(key);
        let spot = self.append(key.hash, bytes, new.expiry());
        let start = usize::from(spot.offset) * UNIT_BYTES;
        new.write(key, &mut self.bytes[start..start + bytes], &mut self.head.blocks);
        spot
    }

    /// Takes an index position and space for an entry; the caller writes it.
    pub(crate) fn append(&mut self, hash: u64, entry_bytes: usize, expiry: Coarse) -> Spot {
        debug_assert!(self.head.has_room(entry_bytes));
        let position = self.vacant(hash);
        if self.bytes[position] == REMOVED {
            self.head.removed -= 1;
        }
        self.set_tag(position, tag_of(hash));
        let offset = self.head.end;
        let offset_at = offsets_start(usize::from(self.head.index_len)) + 2 * position;
        set_u16(self.bytes, offset_at, offset);
        self.head.end += (entry_bytes / UNIT_BYTES) as u16;
        self.head.live += 1;
        self.head.min_expiry = self.head.min_expiry.min(expiry.0);
        Spot {
            position: position as u16,
            offset,
        }
    }

    /// Adds copies of entries that lie one after another, and whose blocks, if they have some, are here already.
    pub(crate) fn append_all(&mut self, entries: &[u8], hasher: &Hasher) {
        let start = usize::from(self.head.end) * UNIT_BYTES;
        let end = start + entries.len();
        self.bytes[start..end].copy_from_slice(entries);
        while usize::from(self.head.end) * UNIT_BYTES < end {
            let entry = self.view().entry(self.head.end);
            let (bytes, hash, expiry) = (entry.page_bytes(), entry.hash(hasher), entry.expiry());
            self.append(hash, bytes, expiry);
        }
    }

    /// The first position that is free or removed.
    fn vacant(&self, hash: u64) -> usize {
        let index_len = usize::from(self.head.index_len);
        let mut at = home(hash, index_len);
        loop {
            let marks = zero_bytes(u64_at(self.bytes, at) & !LOW_BITS);
            if marks != 0 {
                return wrap(at + first_byte(marks), index_len);
            }
            at = wrap(at + GROUP, index_len);
        }
    }

    fn set_tag(&mut self, position: usize, tag: u8) {
        self.bytes[position] = tag;
        if position < GROUP - 1 {
            self.bytes[usize::from(self.head.index_len) + position] = tag;
        }
    }

    /// Removes the entry at `spot` and returns its block, if it has one. The page is not compacted; after its last entry it has to
    /// be freed.
    pub(crate) fn remove(&mut self, spot: Spot) -> Option<Content> {
        let entry = self.view().entry(spot.offset);
        let units = (entry.page_bytes() / UNIT_BYTES) as u16;
        let number = entry.block();
        let block = number.and_then(|number| self.take_block(number));
        self.head.live -= 1;
        if self.head.live > 0 {
            self.head.holes += units;
            self.clear_tag(usize::from(spot.position));
        }
        block
    }

    fn take_block(&mut self, number: u32) -> Option<Content> {
        let blocks = self.head.blocks.as_mut()?;
        let block = blocks.take(number);
        if blocks.is_empty() {
            self.head.blocks = None;
        }
        block
    }

    /// Frees an index position, and removed ones before it, if the next is free: no search goes on past it.
    fn clear_tag(&mut self, position: usize) {
        let index_len = usize::from(self.head.index_len);
        if self.bytes[wrap(position + 1, index_len)] != FREE {
            self.set_tag(position, REMOVED);
            self.head.removed += 1;
            return;
        }
        self.set_tag(position, FREE);
        let mut before = wrap(position + index_len - 1, index_len);
        while self.bytes[before] == REMOVED {
            self.set_tag(before, FREE);
            self.head.removed -= 1;
            before = wrap(before + index_len - 1, index_len);
        }
    }

    /// Removes the entries whose expiry is at most `now`, after showing each, and buries their blocks. Says how many.
    pub(crate) fn sweep(&mut self, now: Coarse, grave: &mut Grave, may_go: &mut dyn FnMut(EntryRef) -> bool) -> usize {
        let before = self.head.live;
        let mut min_expiry = u32::MAX;
        for position in 0..self.head.index_len {
            let Some(spot) = self.view().spot_at(position) else {
                continue;
            };
            let entry = self.view().entry(spot.offset);
            let expiry = entry.expiry();
            if expiry > now || !may_go(entry) {
                min_expiry = min_expiry.min(expiry.0);
                continue;
            }
            grave.bury(self.remove(spot));
            if self.head.live == 0 {
                return usize::from(before);
            }
        }
        self.head.min_expiry = min_expiry;
        usize::from(before - self.head.live)
    }
}

#[inline]
fn wrap(position: usize, index_len: usize) -> usize {
    if position >= index_len {
        position - index_len
    } else {
        position
    }
}
