//! Interned parameters: the (policy, limit, window, burst) of a bucket as one small number.
//!
//! Stored buckets count as references. An entry without references stays as a cache until its place is needed.

use std::collections::VecDeque;

use rapidhash::RapidHashMap;

use crate::error::TooManyParams;
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
    entries: Vec<Entry>,
    index: RapidHashMap<(PolicyId, Params), u32>,
    /// Entries that had no reference when they were put here, oldest first.
    unused: VecDeque<u32>,
    /// Completed runs so far; what was interned in the current one is not evicted.
    epoch: u64,
    max: usize,
}

impl Interner {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            entries: Vec::new(),
            index: RapidHashMap::default(),
            unused: VecDeque::new(),
            epoch: 0,
            max: max.min(u32::MAX as usize),
        }
    }

    /// Ends a run: what was interned before may now be evicted unless it is retained.
    pub(crate) fn next_epoch(&mut self) {
        self.epoch += 1;
    }

    pub(crate) fn intern(&mut self, policy: PolicyId, params: Params) -> Result<ParamsId, TooManyParams> {
        if let Some(&id) = self.index.get(&(policy, params)) {
            self.entries[id as usize].epoch = self.epoch;
            return Ok(ParamsId(id));
        }
        let id = if self.entries.len() < self.max {
            self.entries.len() as u32
        } else {
            self.evict()?
        };
        let entry = Entry {
            params,
            policy,
            refs: 0,
            queued: true,
            epoch: self.epoch,
            slot: NOT_RESIDENT,
            state_bytes_max: None,
        };
        match self.entries.get_mut(id as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.unused.push_back(id);
        self.index.insert((policy, params), id);
        Ok(ParamsId(id))
    }

    /// Frees the place of the entry that has been without references for longest. Each call looks at most once at every
    /// queued entry; entries in use leave the queue, so the cost is amortised over the releases that put them there.
    fn evict(&mut self) -> Result<u32, TooManyParams> {
        for _ in 0..self.unused.len() {
            let Some(id) = self.unused.pop_front() else {
                break;
            };
            let entry = &mut self.entries[id as usize];
            if entry.refs > 0 {
                entry.queued = false;
            } else if entry.epoch == self.epoch {
                self.unused.push_back(id);
            } else {
                self.index.remove(&(entry.policy, entry.params));
                return Ok(id);
            }
        }
        Err(TooManyParams { max: self.max })
    }

    pub(crate) fn get(&self, id: ParamsId) -> &Entry {
        &self.entries[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: ParamsId) -> &mut Entry {
        &mut self.entries[id.0 as usize]
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    pub(crate) fn retain(&mut self, id: ParamsId) {
        self.get_mut(id).refs += 1;
    }

    pub(crate) fn release(&mut self, id: ParamsId) {
        let entry = &mut self.entries[id.0 as usize];
        debug_assert!(entry.refs > 0, "released more often than retained");
        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs == 0 && !entry.queued {
            entry.queued = true;
            self.unused.push_back(id.0);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
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
}
