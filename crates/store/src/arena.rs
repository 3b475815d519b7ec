//! Memory for pages: blocks of a ladder of sizes, packed without gaps.
//!
//! All pages of a keyspace grow by a few entries again and again, so a general allocator is left with slabs of every size
//! that pages have had, each held by the few pages that lag. Here the blocks of one size are an array, cut into segments.
//! A block that is freed leaves a hole; beyond a few holes the last block of the array moves into one, so that the array
//! gets shorter and its last segment can be given back. One move copies one block, whatever the store holds.

/// Blocks start and end at multiples of this many bytes.
const UNIT_BYTES: usize = 16;

/// Kinds of segments: small since the last of each size is not full, but each holds blocks enough for sizes that fill it to
/// be close to each other. Few kinds, since a segment is of use for all sizes of its kind only. Multiples of the system's
/// page, which the allocator maps as they are.
const KINDS: usize = 2;
const SEGMENT_BYTES: [usize; KINDS] = [64 * 1024, 1024 * 1024];
/// The largest block of the first kind.
const SMALL_BLOCK_BYTES: usize = 8 * 1024;

/// Offsets in a page are 16 bits of 4-byte units.
const REACH_BYTES: usize = 4 * u16::MAX as usize;

/// Sizes are about this fraction of each other apart: half of it is what a page that grows has unused on average, and all
/// of it what pays for moving the page to the next size.
const STEP: usize = 9;

/// Of so many blocks of a size one may be a hole, and one besides: blocks that come soon go there.
const BLOCKS_PER_HOLE: usize = 64;

/// How many segments of each kind are kept for the next size that needs one.
const SPARE_SEGMENTS: usize = 1;

const fn segment_kind(block_bytes: usize) -> usize {
    (block_bytes > SMALL_BLOCK_BYTES) as usize
}

/// The next size from `wanted` bytes on: as many blocks as a segment holds of that size fill it.
const fn fitted(wanted: usize) -> usize {
    let segment = SEGMENT_BYTES[segment_kind(wanted)];
    segment / (segment / wanted) / UNIT_BYTES * UNIT_BYTES
}

const fn next_size(size: usize) -> usize {
    let step = if size / STEP > UNIT_BYTES {
        size / STEP
    } else {
        UNIT_BYTES
    };
    fitted((size + step) / UNIT_BYTES * UNIT_BYTES)
}

const fn count_sizes() -> usize {
    let (mut count, mut size) = (0, 2 * UNIT_BYTES);
    while size <= REACH_BYTES {
        count += 1;
        size = next_size(size);
    }
    count
}

const SIZES: usize = count_sizes();

/// The sizes of blocks, in order.
const LADDER: [usize; SIZES] = {
    let mut ladder = [0; SIZES];
    let (mut at, mut size) = (0, 2 * UNIT_BYTES);
    while at < SIZES {
        ladder[at] = size;
        size = next_size(size);
        at += 1;
    }
    ladder
};

// Sizes are told by a byte.
const _: () = assert!(SIZES <= 256);

/// The largest block.
pub(crate) const LARGEST_BLOCK_BYTES: usize = LADDER[SIZES - 1];

fn size_number(bytes: usize) -> usize {
    LADDER.partition_point(|&size| size < bytes)
}

/// The size of the block that holds `bytes`; `bytes` itself if none does.
pub(crate) fn block_bytes(bytes: usize) -> usize {
    LADDER.get(size_number(bytes)).copied().unwrap_or(bytes)
}

/// Where a page's bytes are. None at all by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    segment: u32,
    start_units: u16,
    units: u16,
}

impl Block {
    #[inline]
    pub(crate) fn len(self) -> usize {
        usize::from(self.units) * UNIT_BYTES
    }

    #[inline]
    fn start(self) -> usize {
        usize::from(self.start_units) * UNIT_BYTES
    }
}

/// Whose a block is: the page that has this hash in that slot's map. That stays so when maps split and merge their pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    hash_top: u32,
    local_slot: u16,
}

impl Owner {
    /// No store has so many slots.
    const NOBODY: Owner = Owner {
        hash_top: 0,
        local_slot: u16::MAX,
    };

    pub(crate) fn new(local_slot: u16, hash: u64) -> Owner {
        Owner {
            hash_top: (hash >> 32) as u32,
            local_slot,
        }
    }

    pub(crate) fn local_slot(self) -> usize {
        usize::from(self.local_slot)
    }

    /// A hash of the page: it has the top 32 bits of one, and maps look at no more than [`crate::directory::MAX_DEPTH`].
    pub(crate) fn hash(self) -> u64 {
        u64::from(self.hash_top) << 32
    }

    fn is_nobody(self) -> bool {
        self.local_slot == u16::MAX
    }
}

#[derive(Default)]
struct Segment {
    bytes: Box<[u8]>,
    /// Which of its size's segments it is.
    ordinal: u32,
}

/// The blocks of one size.
#[derive(Default)]
struct Row {
    segments: Vec<u32>,
    /// Of each block; nobody's is a hole. The last is none.
    owners: Vec<Owner>,
    /// Where holes are, and where some have been.
    holes: Vec<u32>,
    hole_count: usize,
}

impl Row {
    fn is_crowded(&self) -> bool {
        self.hole_count > 1 + self.owners.len() / BLOCKS_PER_HOLE
    }

    fn take_hole(&mut self) -> Option<usize> {
        while self.hole_count > 0
            && let Some(at) = self.holes.pop()
        {
            let at = at as usize;
            if self.owners.get(at).is_some_and(|owner| owner.is_nobody()) {
                self.hole_count -= 1;
                return Some(at);
            }
        }
        self.holes.clear();
        None
    }

    /// Cuts holes at the end off.
    fn trim(&mut self) {
        while self.owners.last().is_some_and(|owner| owner.is_nobody()) {
            self.owners.pop();
            self.hole_count -= 1;
        }
        if self.hole_count == 0 {
            self.holes.clear();
        }
        shrink(&mut self.owners);
        shrink(&mut self.holes);
    }
}

fn shrink<T>(list: &mut Vec<T>) {
    if list.len() * 4 < list.capacity() {
        list.shrink_to(list.len() * 2);
    }
}

/// The pages' memory of one keyspace.
#[derive(Default)]
pub(crate) struct Arena {
    segments: Vec<Segment>,
    /// Numbers of segments without memory.
    vacant: Vec<u32>,
    /// Segments with memory and without blocks, by kind.
    spare: [Vec<u32>; KINDS],
    /// One for each size; none before the first block.
    rows: Vec<Row>,
    /// Sizes that may have too many holes.
    crowded: Vec<u8>,
}

impl Arena {
    /// A block of `bytes`, which is a size of [`block_bytes`]. What is in it is not zero.
    pub(crate) fn allocate(&mut self, bytes: usize, owner: Owner) -> Block {
        let number = size_number(bytes);
        debug_assert_eq!(LADDER[number], bytes);
        if self.rows.is_empty() {
            self.rows.resize_with(SIZES, Row::default);
        }
        let row = &mut self.rows[number];
        let at = row.take_hole().unwrap_or(row.owners.len());
        if at < row.owners.len() {
            row.owners[at] = owner;
            return self.block(number, at);
        }
        row.owners.push(owner);
        let ordinal = row.segments.len();
        if at == ordinal * (SEGMENT_BYTES[segment_kind(bytes)] / bytes) {
            let segment = self.take_segment(segment_kind(bytes));
            self.segments[segment as usize].ordinal = ordinal as u32;
            self.rows[number].segments.push(segment);
        }
        self.block(number, at)
    }

    fn take_segment(&mut self, kind: usize) -> u32 {
        if let Some(segment) = self.spare[kind].pop() {
            return segment;
        }
        let fresh = Segment {
            bytes: vec![0; SEGMENT_BYTES[kind]].into_boxed_slice(),
            ordinal: 0,
        };
        match self.vacant.pop() {
            Some(segment) => {
                self.segments[segment as usize] = fresh;
                segment
            }
            None => {
                self.segments.push(fresh);
                (self.segments.len() - 1) as u32
            }
        }
    }

    fn give_segment_back(&mut self, kind: usize, segment: u32) {
        if self.spare[kind].len() < SPARE_SEGMENTS {
            self.spare[kind].push(segment);
        } else {
            self.segments[segment as usize] = Segment::default();
            self.vacant.push(segment);
        }
    }

    fn block(&self, number: usize, at: usize) -> Block {
        let bytes = LADDER[number];
        let per_segment = SEGMENT_BYTES[segment_kind(bytes)] / bytes;
        Block {
            segment: self.rows[number].segments[at / per_segment],
            start_units: (at % per_segment * bytes / UNIT_BYTES) as u16,
            units: (bytes / UNIT_BYTES) as u16,
        }
    }

    /// The number of a block's size, and which of that size it is.
    fn position(&self, block: Block) -> (usize, usize) {
        let bytes = block.len();
        let ordinal = self.segments[block.segment as usize].ordinal as usize;
        let per_segment = SEGMENT_BYTES[segment_kind(bytes)] / bytes;
        (size_number(bytes), ordinal * per_segment + block.start() / bytes)
    }

    pub(crate) fn owner(&self, block: Block) -> Owner {
        let (number, at) = self.position(block);
        self.rows[number].owners[at]
    }

    /// Frees a block, if it is one.
    pub(crate) fn free(&mut self, block: Block) {
        if block.units == 0 {
            return;
        }
        let (number, at) = self.position(block);
        let row = &mut self.rows[number];
        debug_assert!(!row.owners[at].is_nobody());
        row.owners[at] = Owner::NOBODY;
        row.hole_count += 1;
        if at + 1 < row.owners.len() {
            row.holes.push(at as u32);
            if row.is_crowded() && self.crowded.last() != Some(&(number as u8)) {
                self.crowded.push(number as u8);
            }
        } else {
            self.trim(number);
        }
    }

    fn trim(&mut self, number: usize) {
        let row = &mut self.rows[number];
        row.trim();
        let kind = segment_kind(LADDER[number]);
        let per_segment = SEGMENT_BYTES[kind] / LADDER[number];
        while let row = &mut self.rows[number]
            && row.segments.len() > row.owners.len().div_ceil(per_segment)
            && let Some(segment) = row.segments.pop()
        {
            shrink(&mut row.segments);
            self.give_segment_back(kind, segment);
        }
    }

    /// Moves one block into a hole if a size has too many. Says whose it is and where it is now: its page must be told.
    #[must_use = "the owner's page must be told"]
    pub(crate) fn pack(&mut self) -> Option<(Owner, Block)> {
        loop {
            let number = usize::from(*self.crowded.last()?);
            let row = &mut self.rows[number];
            let hole = if row.is_crowded() { row.take_hole() } else { None };
            let Some(hole) = hole else {
                self.crowded.pop();
                continue;
            };
            let last = row.owners.len() - 1;
            let owner = row.owners[last];
            row.owners[hole] = owner;
            row.owners[last] = Owner::NOBODY;
            // Counted as the hole that it is now, until it is trimmed.
            row.hole_count += 1;
            let (from, to) = (self.block(number, last), self.block(number, hole));
            let (source, target) = self.two(from, to);
            target.copy_from_slice(source);
            self.trim(number);
            return Some((owner, to));
        }
    }

    /// The bytes of a block.
    #[inline]
    pub(crate) fn bytes(&self, block: Block) -> &[u8] {
        if block.units == 0 {
            return &[];
        }
        &self.segments[block.segment as usize].bytes[block.start()..][..block.len()]
    }

    /// As [`Arena::bytes`], to change them.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, block: Block) -> &mut [u8] {
        if block.units == 0 {
            return &mut [];
        }
        &mut self.segments[block.segment as usize].bytes[block.start()..][..block.len()]
    }

    /// The bytes of two blocks that differ: the first to read, the second to change.
    pub(crate) fn two(&mut self, from: Block, to: Block) -> (&[u8], &mut [u8]) {
        let (source, target) = (from.segment as usize, to.segment as usize);
        if source == target {
            let bytes = &mut self.segments[source].bytes;
            return if from.start() < to.start() {
                let (low, high) = bytes.split_at_mut(to.start());
                (&low[from.start()..][..from.len()], &mut high[..to.len()])
            } else {
                let (low, high) = bytes.split_at_mut(from.start());
                (&high[..from.len()], &mut low[to.start()..][..to.len()])
            };
        }
        let (low, high) = self.segments.split_at_mut(source.max(target));
        let (source, target) = if source < target {
            (&low[source], &mut high[0])
        } else {
            (&high[0], &mut low[target])
        };
        (
            &source.bytes[from.start()..][..from.len()],
            &mut target.bytes[to.start()..][..to.len()],
        )
    }

    /// Gives one segment back, whatever is in it: for arenas that are not used any more. `false` if there is none.
    pub(crate) fn discard_segment(&mut self) -> bool {
        self.rows = Vec::new();
        self.segments.pop().is_some()
    }

    /// Bytes of all segments.
    #[cfg(test)]
    pub(crate) fn segment_bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes.len()).sum()
    }

    /// Bytes of the blocks in use.
    #[cfg(test)]
    pub(crate) fn block_bytes(&self) -> usize {
        let rows = self.rows.iter().zip(LADDER);
        rows.map(|(row, size)| (row.owners.len() - row.hole_count) * size).sum()
    }

    /// Blocks in use.
    #[cfg(test)]
    pub(crate) fn blocks(&self) -> usize {
        self.rows.iter().map(|row| row.owners.len() - row.hole_count).sum()
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (row, size) in self.rows.iter().zip(LADDER) {
            let holes = row.owners.iter().filter(|owner| owner.is_nobody()).count();
            assert_eq!(holes, row.hole_count);
            assert!(!row.is_crowded(), "{holes} holes of {} blocks", row.owners.len());
            assert!(row.owners.last().is_none_or(|owner| !owner.is_nobody()));
            let per_segment = SEGMENT_BYTES[segment_kind(size)] / size;
            assert_eq!(row.segments.len(), row.owners.len().div_ceil(per_segment));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_rise_in_small_steps_and_fill_segments() {
        assert!(LADDER.is_sorted());
        for pair in LADDER.windows(2) {
            let step = pair[1] - pair[0];
            assert!(step >= UNIT_BYTES && step % UNIT_BYTES == 0);
            assert!(step == UNIT_BYTES || step * 5 <= pair[1], "{pair:?}");
        }
        for size in LADDER {
            let segment = SEGMENT_BYTES[segment_kind(size)];
            assert!(segment % size * 50 < segment, "{size}: {} unused", segment % size);
        }
    }

    proptest! {
        /// Blocks keep what is in them while others come and go, and what is given up is given back.
        #[test]
        fn blocks_keep_their_bytes(
            steps in prop::collection::vec((any::<bool>(), 0usize..200, 32usize..20_000), 1..600)
        ) {
            let mut arena = Arena::default();
            let mut blocks: Vec<(u16, Block)> = Vec::new();
            let mut next = 0u16;
            for (grow, pick, bytes) in steps {
                if grow || blocks.is_empty() {
                    let block = arena.allocate(block_bytes(bytes), Owner::new(next, 0));
                    arena.bytes_mut(block).fill(next as u8);
                    blocks.push((next, block));
                    next += 1;
                } else {
                    let (_, block) = blocks.swap_remove(pick % blocks.len());
                    arena.free(block);
                }
                while let Some((owner, block)) = arena.pack() {
                    let moved = blocks.iter_mut().find(|(name, _)| usize::from(*name) == owner.local_slot());
                    moved.expect("the owner is one of ours").1 = block;
                }
                arena.check();
                prop_assert_eq!(arena.blocks(), blocks.len());
                for &(name, block) in &blocks {
                    prop_assert!(arena.bytes(block).iter().all(|&byte| byte == name as u8));
                }
            }
            while let Some((_, block)) = blocks.pop() {
                arena.free(block);
                while let Some((owner, block)) = arena.pack() {
                    let moved = blocks.iter_mut().find(|(name, _)| usize::from(*name) == owner.local_slot());
                    moved.expect("the owner is one of ours").1 = block;
                }
            }
            prop_assert_eq!(arena.blocks(), 0);
            prop_assert!(arena.segment_bytes() <= SEGMENT_BYTES.iter().sum());
        }
    }
}
