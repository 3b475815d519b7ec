//! Elements found by key, in partitions by ranges of hash space.

use crate::partition::{Keyed, PARTITION_ELEMENTS, Partition};
use crate::seed::HashSeed;
use crate::sequence::{At, Chunk as _, Sequence};

/// Any number of elements.
#[derive(Clone)]
pub(crate) struct Partitions<E: Keyed> {
    sequence: Sequence<Partition<E>>,
    seed: HashSeed,
}

/// Where an element is, or would be. Good until something is added or removed.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    partition: At,
    at: Option<usize>,
}

impl Spot {
    pub(crate) fn found(self) -> bool {
        self.at.is_some()
    }
}

impl<E: Keyed> Partitions<E> {
    pub(crate) fn new(seed: HashSeed) -> Partitions<E> {
        Partitions {
            sequence: Sequence::new(Partition::default()),
            seed,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sequence.len()
    }

    /// Bytes allocated beside the struct itself. O(1).
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.sequence.allocated_bytes()
    }

    /// Where the element of that key is. O(log partitions).
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Spot {
        if self.sequence.is_one() {
            let at = self.sequence.chunk(At::FIRST).find(key, || self.seed.hash(key));
            return Spot {
                partition: At::FIRST,
                at,
            };
        }
        let hash = self.seed.hash(key);
        let partition = self.partition_at(HashSeed::position(hash));
        let at = self.sequence.chunk(partition).find(key, || hash);
        Spot { partition, at }
    }

    fn partition_at(&self, position: u64) -> At {
        self.sequence.last_where(|partition| partition.start <= position)
    }

    /// The element that was found.
    pub(crate) fn entry(&self, spot: Spot) -> Option<&E> {
        self.sequence.chunk(spot.partition).entries().get(spot.at?)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&E> {
        self.entry(self.find(key))
    }

    /// Changes the element that was found, not its key.
    pub(crate) fn edit<R>(&mut self, spot: Spot, change: impl FnOnce(&mut E) -> R) -> Option<R> {
        let at = spot.at?;
        Some(
            self.sequence
                .edit(spot.partition, |partition| partition.edit(at, change)),
        )
    }

    /// Adds an element where it was not found. Splits at most one partition.
    pub(crate) fn push(&mut self, spot: Spot, entry: E) {
        debug_assert!(!spot.found());
        let seed = self.seed;
        let mut at = spot.partition;
        if self.sequence.chunk(at).len() >= PARTITION_ELEMENTS
            && let Some(upper) = self.sequence.edit(at, |partition| partition.split(seed))
        {
            self.sequence.insert_after(at, upper);
            at = self.partition_at(seed.position_of(entry.key()));
        }
        self.sequence.edit(at, |partition| partition.push(seed, entry));
    }

    /// Takes out the element that was found. Joins at most two partitions.
    pub(crate) fn remove(&mut self, spot: Spot) -> Option<E> {
        let (at, seed) = (spot.at?, self.seed);
        let entry = self
            .sequence
            .edit(spot.partition, |partition| partition.swap_remove(seed, at));
        let (sparse, full) = (PARTITION_ELEMENTS / 4, PARTITION_ELEMENTS * 3 / 4);
        self.sequence
            .tidy(spot.partition, sparse, full, |left, right| left.join(seed, right));
        if self.sequence.chunk(At::FIRST).start > 0 {
            // The first partition was empty and has gone; the others' ranges reach up to the next one by themselves.
            self.sequence.edit(At::FIRST, |partition| partition.start = 0);
        }
        Some(entry)
    }

    /// The element of that rank in the order of [`Partitions::iter`].
    pub(crate) fn nth(&self, rank: usize) -> Option<&E> {
        let (at, within) = self.sequence.at_rank(rank);
        self.sequence.chunk(at).entries().get(within)
    }

    /// Where the element of that rank is.
    pub(crate) fn spot_of_rank(&self, rank: usize) -> Spot {
        let (partition, at) = self.sequence.at_rank(rank);
        let at = (at < self.sequence.chunk(partition).len()).then_some(at);
        Spot { partition, at }
    }

    /// Every element, partition by partition.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.sequence
            .chunks_from(At::FIRST)
            .flat_map(|partition| partition.entries())
    }

    /// One step of a scan: shows whole partitions from the cursor on until `count` elements have been shown, and says where to go
    /// on; 0 is the start, and the end.
    ///
    /// What is there from the first step to the last is shown: an element's position never changes, and the steps cover all
    /// positions one after the other, whichever partitions hold them.
    pub(crate) fn scan<'a>(&'a self, cursor: u64, count: usize, show: &mut dyn FnMut(&'a E)) -> u64 {
        let mut at = self.partition_at(cursor);
        let mut shown = 0;
        loop {
            let partition = self.sequence.chunk(at);
            let whole = partition.start >= cursor;
            for entry in partition.entries() {
                if whole || self.seed.position_of(entry.key()) >= cursor {
                    show(entry);
                    shown += 1;
                }
            }
            let Some(next) = self.sequence.next(at) else { return 0 };
            at = next;
            if shown >= count {
                return self.sequence.chunk(next).start;
            }
        }
    }

    /// Drops about `budget` elements, and says whether all are gone. The others are not found any more.
    pub(crate) fn drop_some(&mut self, budget: usize) -> bool {
        self.sequence.drop_some(budget)
    }
}

#[cfg(test)]
impl<E: Keyed> Partitions<E> {
    /// Counts everything anew, and checks what must hold.
    pub(crate) fn check(&self) {
        self.sequence.check();
        let partitions: Vec<&Partition<E>> = self.sequence.chunks_from(At::FIRST).collect();
        for (at, partition) in partitions.iter().enumerate() {
            partition.check(self.seed);
            let end = partitions.get(at + 1).map_or(u64::MAX, |next| next.start);
            assert!(partition.start < end);
            assert!(
                partition
                    .entries()
                    .iter()
                    .all(|entry| self.seed.position_of(entry.key()) < end)
            );
            assert!(partition.len() <= PARTITION_ELEMENTS);
        }
    }
}
