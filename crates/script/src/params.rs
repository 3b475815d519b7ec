//! Interned parameters: the (policy, limit, window, burst) of a bucket as one small number.
//!
//! Stored buckets count as references. Some entries without references stay as a cache; the memory of others is given back.

use std::collections::VecDeque;

use crate::entries::Entries;
use crate::error::TooManyParams;
use crate::index::Index;
use crate::info::PolicyId;

/// The parameters of a limit. The domain's bounds (SPEC section 2.7) are the caller's to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    /// Tokens per window.
    pub limit: u64,
    /// The window, in microseconds.
    pub window_us: u64,
    /// The capacity, in tokens; equal to `limit` for a policy that accepts no burst.
    pub burst: u64,
}

impl Params {
    /// `limit / window_us` in lowest terms: tokens per microsecond.
    pub(crate) fn rate(&self) -> (u64, u64) {
        let (mut a, mut b) = (self.limit, self.window_us);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = a.max(1);
        (self.limit / divisor, self.window_us / divisor)
    }
}

/// An interned (policy, [`Params`]) of one host. Valid while it is retained, and until the end of the next completed
/// run after it was interned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParamsId(pub u32);

/// Not resident: the parameters have no table in a VM now.
pub(crate) const NOT_RESIDENT: u32 = u32::MAX;

pub(crate) struct Entry {
    pub(crate) params: Params,
    pub(crate) policy: PolicyId,
    refs: u32,
    /// In the queue of candidates for eviction.
    queued: bool,
    /// The run in which it was last interned.
    epoch: u64,
    /// Where its tables are in its policy's VM.
    pub(crate) slot: u32,
    /// Largest state in bytes, for a buffer policy, once asked for.
    pub(crate) state_bytes_max: Option<u32>,
}

/// The table of one host.
pub(crate) struct Interner {
    entries: Entries,
    index: Index,
    /// Entries that had no reference when they were put here, oldest first.
    unused: VecDeque<u32>,
    /// Entries that have references.
    in_use: usize,
    /// Completed runs so far; what was interned in the current one is not evicted.
    epoch: u64,
    max: usize,
}

/// Entries without references that are kept as a cache, when nothing wants their place.
const CACHED_MAX: usize = 4096;
/// How many times the memory that entries need they may take before the cache is given up for it.
const SPARSE: usize = 4;
/// Of those beyond, how many are looked at when one more is interned. Two, so that they become fewer.
const LOOKED_AT: usize = 2;

impl Interner {
    /// What one takes of memory, about, in bytes: its entry, its places in the index, which is half full, and in the queue.
    pub(crate) const BYTES_EACH: usize = size_of::<Entry>() + 2 * Index::BYTES_EACH + size_of::<u32>();

    pub(crate) fn new(max: usize) -> Self {
        Self {
            entries: Entries::default(),
            index: Index::default(),
            unused: VecDeque::new(),
            in_use: 0,
            epoch: 0,
            max: max.min(u32::MAX as usize),
        }
    }

    /// Ends a run: what was interned before may now be evicted unless it is retained.
    pub(crate) fn next_epoch(&mut self) {
        self.epoch += 1;
    }

    pub(crate) fn intern(&mut self, policy: PolicyId, params: Params) -> Result<ParamsId, TooManyParams> {
        if let Some(id) = self.index.get(policy, &params) {
            self.entries.get_mut(id).epoch = self.epoch;
            return Ok(ParamsId(id));
        }
        self.trim(LOOKED_AT);
        if self.len() >= self.max {
            self.evict()?;
        }
        let id = self.entries.add(Entry {
            params,
            policy,
            refs: 0,
            queued: true,
            epoch: self.epoch,
            slot: NOT_RESIDENT,
            state_bytes_max: None,
        });
        self.unused.push_back(id);
        self.index.insert(policy, params, id);
        Ok(ParamsId(id))
    }

    /// Gives back what is cached beyond the bound, looking at `most` at most. Answers whether there may be more.
    ///
    /// What is cached is anywhere in memory that many more have used. If that is much more than the cache is worth, it goes, too.
    pub(crate) fn trim(&mut self, most: usize) -> bool {
        let is_sparse = self.bytes() > SPARSE * Self::BYTES_EACH * self.in_use.max(CACHED_MAX);
        let kept = if is_sparse { 0 } else { CACHED_MAX };
        let mut has_evicted = false;
        for _ in 0..most {
            if self.unused.len() <= kept {
                break;
            }
            has_evicted |= self.evict_first();
        }
        if self.unused.len() < self.unused.capacity() / 8 {
            self.unused.shrink_to(2 * self.unused.len().max(CACHED_MAX));
        }
        self.unused.len() > CACHED_MAX || is_sparse && has_evicted
    }

    /// Frees the place of the entry that has been without references for longest. Each call looks at most once at every
    /// queued entry; entries in use leave the queue, so the cost is amortised over the releases that put them there.
    fn evict(&mut self) -> Result<(), TooManyParams> {
        for _ in 0..self.unused.len() {
            if self.evict_first() {
                return Ok(());
            }
        }
        Err(TooManyParams { max: self.max })
    }

    /// Frees the place of the first of the queue, if it has no references. One that was interned in the current run goes to the end.
    fn evict_first(&mut self) -> bool {
        let Some(id) = self.unused.pop_front() else {
            return false;
        };
        let entry = self.entries.get_mut(id);
        if entry.refs > 0 {
            entry.queued = false;
            return false;
        }
        if entry.epoch == self.epoch {
            self.unused.push_back(id);
            return false;
        }
        self.index.remove(entry.policy, &entry.params);
        self.entries.remove(id);
        true
    }

    pub(crate) fn get(&self, id: ParamsId) -> &Entry {
        self.entries.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: ParamsId) -> &mut Entry {
        self.entries.get_mut(id.0)
    }

    /// The entry that has that number now, whatever it is of, if there is memory for it.
    pub(crate) fn find_mut(&mut self, id: ParamsId) -> Option<&mut Entry> {
        self.entries.find_mut(id.0)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    pub(crate) fn retain(&mut self, id: ParamsId) {
        let entry = self.entries.get_mut(id.0);
        self.in_use += usize::from(entry.refs == 0);
        entry.refs += 1;
    }

    pub(crate) fn release(&mut self, id: ParamsId) {
        let entry = self.entries.get_mut(id.0);
        debug_assert!(entry.refs > 0, "released more often than retained");
        self.in_use -= usize::from(entry.refs == 1);
        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs == 0 && !entry.queued {
            entry.queued = true;
            self.unused.push_back(id.0);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Those that have references.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.bytes() + self.index.bytes() + self.unused.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(limit: u64) -> Params {
        Params {
            limit,
            window_us: 1_000_000,
            burst: limit,
        }
    }

    #[test]
    fn rate_is_in_lowest_terms() {
        let rate = |limit, window_us| {
            Params {
                limit,
                window_us,
                burst: 1,
            }
            .rate()
        };
        assert_eq!(rate(100, 60_000_000), (1, 600_000));
        assert_eq!(rate(7, 1_000), (7, 1_000));
        assert_eq!(rate(3_000, 1_000), (3, 1));
    }

    #[test]
    fn equal_parameters_share_an_id() {
        let mut interner = Interner::new(4);
        let a = interner.intern(PolicyId(0), params(1)).unwrap();
        assert_eq!(interner.intern(PolicyId(0), params(1)), Ok(a));
        assert_ne!(interner.intern(PolicyId(1), params(1)), Ok(a));
        assert_ne!(interner.intern(PolicyId(0), params(2)), Ok(a));
        assert_eq!(interner.len(), 3);
    }

    #[test]
    fn only_unreferenced_entries_of_earlier_runs_are_evicted() {
        let mut interner = Interner::new(2);
        let kept = interner.intern(PolicyId(0), params(1)).unwrap();
        interner.retain(kept);
        let cached = interner.intern(PolicyId(0), params(2)).unwrap();
        assert_eq!(
            interner.intern(PolicyId(0), params(3)),
            Err(TooManyParams { max: 2 }),
            "interned in this run"
        );
        interner.next_epoch();
        let third = interner.intern(PolicyId(0), params(3)).unwrap();
        assert_eq!(third, cached, "the place is used again");
        assert_eq!(interner.get(kept).params, params(1));
        interner.retain(third);
        interner.next_epoch();
        assert!(interner.intern(PolicyId(0), params(4)).is_err());
        interner.release(kept);
        assert_eq!(interner.intern(PolicyId(0), params(4)), Ok(kept));
        assert_eq!(interner.len(), 2);
    }

    #[test]
    fn a_referenced_entry_that_left_the_queue_returns_on_release() {
        let mut interner = Interner::new(1);
        for limit in 1..100 {
            let id = interner.intern(PolicyId(0), params(limit)).unwrap();
            interner.retain(id);
            interner.next_epoch();
            assert!(interner.intern(PolicyId(0), params(0)).is_err());
            interner.release(id);
        }
        assert_eq!(interner.len(), 1);
        assert!(interner.unused.len() <= 1);
    }

    #[test]
    fn what_is_not_in_use_is_given_back() {
        const STORED: u64 = 200_000;
        let mut interner = Interner::new(1_000_000);
        let empty_bytes = interner.bytes();
        // Many that are used once, as by a client that counts its limits up, beside a few that stay.
        let kept: Vec<ParamsId> = (0..100)
            .map(|limit| interner.intern(PolicyId(1), params(limit)).unwrap())
            .collect();
        kept.iter().for_each(|&id| interner.retain(id));
        let mut most_bytes = 0;
        for limit in 0..STORED {
            interner.intern(PolicyId(0), params(limit)).unwrap();
            interner.next_epoch();
            most_bytes = most_bytes.max(interner.bytes());
        }
        assert!(interner.len() <= CACHED_MAX + 200, "{}", interner.len());
        let bound_bytes = 3 * CACHED_MAX * Interner::BYTES_EACH;
        assert!(most_bytes <= empty_bytes + bound_bytes, "{most_bytes} bytes");
        // Many that are stored, and then not any more.
        let stored: Vec<ParamsId> = (0..STORED)
            .map(|limit| {
                let id = interner.intern(PolicyId(2), params(limit)).unwrap();
                interner.retain(id);
                interner.next_epoch();
                id
            })
            .collect();
        assert_eq!(interner.in_use(), stored.len() + kept.len());
        let full_bytes = interner.bytes();
        let estimated_bytes = interner.in_use() * Interner::BYTES_EACH;
        assert!(
            full_bytes > estimated_bytes / 2 && full_bytes < 2 * estimated_bytes,
            "{full_bytes}, {estimated_bytes}"
        );
        stored.iter().for_each(|&id| interner.release(id));
        while interner.trim(128) {}
        assert_eq!(interner.in_use(), kept.len());
        assert!(
            interner.bytes() <= empty_bytes + bound_bytes,
            "{} of {full_bytes} bytes",
            interner.bytes()
        );
        for (limit, &id) in kept.iter().enumerate() {
            assert_eq!(
                (interner.get(id).policy, interner.get(id).params),
                (PolicyId(1), params(limit as u64))
            );
            assert_eq!(interner.intern(PolicyId(1), params(limit as u64)), Ok(id));
        }
        // What comes now takes the places that are free.
        for limit in 0..STORED {
            let id = interner.intern(PolicyId(3), params(limit)).unwrap();
            assert_eq!(interner.get(id).params, params(limit));
            interner.next_epoch();
        }
        assert!(interner.bytes() <= empty_bytes + bound_bytes);
    }
}
