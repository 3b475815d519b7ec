//! A slot that has outgrown one page: pages split by the top bits of the hash (extendible hashing).

use crate::arena::LARGEST_BLOCK_BYTES;
use crate::layout::Bounds;
use crate::page::Page;
use crate::rebuild::Workshop;
use tollgate_values::size_class;

/// The most hash bits that a directory looks at. With seeded hashes and hundreds of entries in a page it is not reached
/// below 10^10 entries in one slot; a page at this depth grows to [`LAST_BOUNDS`] instead of being split.
pub(crate) const MAX_DEPTH: u8 = 26;

/// The bounds of a page that cannot be split any more.
pub(crate) const LAST_BOUNDS: Bounds = Bounds {
    entries: 32 * 1024,
    bytes: LARGEST_BLOCK_BYTES,
};

pub(crate) struct Leaf {
    pub(crate) page: Page,
    /// The top `depth` bits of the hashes of its entries.
    prefix: u32,
    depth: u8,
}

impl Leaf {
    /// The first hash after those of this leaf; `None` if there is none.
    pub(crate) fn hash_end(&self) -> Option<u64> {
        let width = 1u64.checked_shl(64 - u32::from(self.depth))?;
        (u64::from(self.prefix) + 1).checked_mul(width)
    }

    pub(crate) fn hash_start(&self) -> u64 {
        u64::from(self.prefix)
            .checked_shl(64 - u32::from(self.depth))
            .unwrap_or(0)
    }
}

pub(crate) struct Directory {
    /// The leaf for every value of the top `depth` bits.
    handles: Vec<u32>,
    pub(crate) leaves: Vec<Leaf>,
    depth: u8,
    /// Leaves of each depth.
    at_depth: [u32; MAX_DEPTH as usize + 1],
    pub(crate) live: usize,
    /// Bytes of the pages.
    pages_bytes: usize,
}

impl Directory {
    /// A directory with `page` as its only leaf.
    pub(crate) fn new(page: Page) -> Directory {
        let mut at_depth = [0; MAX_DEPTH as usize + 1];
        at_depth[0] = 1;
        Directory {
            handles: vec![0],
            depth: 0,
            at_depth,
            live: usize::from(page.live),
            pages_bytes: page.allocated_bytes(),
            leaves: vec![Leaf {
                page,
                prefix: 0,
                depth: 0,
            }],
        }
    }

    /// The only page, if there is but one.
    pub(crate) fn collapse(&mut self) -> Option<Page> {
        (self.leaves.len() == 1).then(|| std::mem::take(&mut self.leaves[0].page))
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.pages_bytes
            + size_class(size_of::<Directory>())
            + size_class(self.handles.capacity() * size_of::<u32>())
            + size_class(self.leaves.capacity() * size_of::<Leaf>())
    }

    #[inline]
    pub(crate) fn leaf_of(&self, hash: u64) -> u32 {
        self.handles[(hash >> 1 >> (63 - self.depth)) as usize]
    }

    /// Changes a leaf's page, and keeps the sums.
    pub(crate) fn change<T>(&mut self, leaf: u32, change: impl FnOnce(&mut Page) -> T) -> T {
        let page = &mut self.leaves[leaf as usize].page;
        let (live, bytes) = (usize::from(page.live), page.allocated_bytes());
        let result = change(page);
        self.live = self.live - live + usize::from(page.live);
        self.pages_bytes = self.pages_bytes - bytes + page.allocated_bytes();
        result
    }

    /// Makes room for an entry with that hash and says in which leaf.
    pub(crate) fn make_room(&mut self, hash: u64, entry_bytes: usize, shop: &mut Workshop) -> u32 {
        let bounds = shop.bounds;
        loop {
            let leaf = self.leaf_of(hash);
            if self.change(leaf, |page| page.make_room(hash, entry_bytes, bounds, shop)) {
                return leaf;
            }
            if !self.split(leaf, shop) {
                let fits = self.change(leaf, |page| page.make_room(hash, entry_bytes, LAST_BOUNDS, shop));
                assert!(fits, "thousands of entries share {MAX_DEPTH} bits of a seeded hash");
                return leaf;
            }
        }
    }

    fn split(&mut self, leaf: u32, shop: &mut Workshop) -> bool {
        let Leaf { prefix, depth, .. } = self.leaves[leaf as usize];
        if depth == MAX_DEPTH {
            return false;
        }
        if depth == self.depth {
            self.handles = self.handles.iter().flat_map(|&leaf| [leaf, leaf]).collect();
            self.depth += 1;
        }
        let high = self.change(leaf, |page| page.split(63 - depth, shop));
        self.live += usize::from(high.live);
        self.pages_bytes += high.allocated_bytes();
        self.set_leaf(leaf, prefix << 1, depth + 1);
        let new = self.leaves.len() as u32;
        self.leaves.push(Leaf {
            page: high,
            prefix: prefix << 1 | 1,
            depth: depth + 1,
        });
        self.point_to(new);
        self.at_depth[usize::from(depth)] -= 1;
        self.at_depth[usize::from(depth) + 1] += 2;
        true
    }

    fn set_leaf(&mut self, leaf: u32, prefix: u32, depth: u8) {
        let leaf = &mut self.leaves[leaf as usize];
        leaf.prefix = prefix;
        leaf.depth = depth;
    }

    /// Points all handles that a leaf covers to it.
    fn point_to(&mut self, leaf: u32) {
        let Leaf { prefix, depth, .. } = self.leaves[leaf as usize];
        let shift = self.depth - depth;
        let start = (prefix as usize) << shift;
        self.handles[start..start + (1 << shift)].fill(leaf);
    }

    /// Gives memory back after entries of a leaf have gone: compacts its page, merges it with its buddy while both are
    /// small, and halves the directory while no leaf needs all its bits.
    pub(crate) fn shrink(&mut self, leaf: u32, shop: &mut Workshop) {
        let hash = self.leaves[leaf as usize].hash_start();
        self.change(leaf, |page| page.compact_if_sparse(shop));
        while self.merge(self.leaf_of(hash), shop) {}
        while self.depth > 0 && self.at_depth[usize::from(self.depth)] == 0 {
            self.handles = self.handles.iter().copied().step_by(2).collect();
            self.depth -= 1;
        }
    }

    fn merge(&mut self, leaf: u32, shop: &mut Workshop) -> bool {
        let Leaf { prefix, depth, .. } = self.leaves[leaf as usize];
        if depth == 0 {
            return false;
        }
        let buddy = self.handles[((prefix ^ 1) as usize) << (self.depth - depth)];
        if self.leaves[buddy as usize].depth != depth {
            return false;
        }
        let mut other = std::mem::take(&mut self.leaves[buddy as usize].page);
        let (live, bytes) = (usize::from(other.live), other.allocated_bytes());
        let merged = self.change(leaf, |page| page.merge(&mut other, shop));
        if !merged {
            self.leaves[buddy as usize].page = other;
            return false;
        }
        self.live -= live;
        self.pages_bytes -= bytes;
        self.set_leaf(leaf, prefix >> 1, depth - 1);
        self.point_to(leaf);
        self.at_depth[usize::from(depth)] -= 2;
        self.at_depth[usize::from(depth) - 1] += 1;
        self.leaves.swap_remove(buddy as usize);
        if (buddy as usize) < self.leaves.len() {
            self.point_to(buddy);
        }
        if self.leaves.len() * 4 < self.leaves.capacity() {
            self.leaves.shrink_to(self.leaves.len() * 2);
        }
        true
    }

    /// Takes the last leaf's page out, and says whether none is left. The directory serves no look-up after that.
    pub(crate) fn discard_leaf(&mut self) -> (Page, bool) {
        let page = self.leaves.pop().map_or_else(Page::default, |leaf| leaf.page);
        self.live -= usize::from(page.live);
        self.pages_bytes -= page.allocated_bytes();
        (page, self.leaves.is_empty())
    }

    #[cfg(test)]
    pub(crate) fn pages_bytes(&self) -> usize {
        self.pages_bytes
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert_eq!(self.handles.len(), 1 << self.depth);
        assert_eq!(
            self.live,
            self.leaves.iter().map(|leaf| usize::from(leaf.page.live)).sum()
        );
        for (top, &leaf) in self.handles.iter().enumerate() {
            let leaf = &self.leaves[leaf as usize];
            assert_eq!(top >> (self.depth - leaf.depth), leaf.prefix as usize);
        }
        for depth in 0..=MAX_DEPTH {
            let leaves = self.leaves.iter().filter(|leaf| leaf.depth == depth).count();
            assert_eq!(self.at_depth[usize::from(depth)] as usize, leaves);
        }
    }
}
