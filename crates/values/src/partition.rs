//! Elements of one range of hash space.

use hashbrown::HashTable;

use crate::allocation::{Buffer, size_class};
use crate::seed::HashSeed;
use crate::sequence::Chunk;

/// Most elements of a partition.
pub(crate) const PARTITION_ELEMENTS: usize = if cfg!(test) { 32 } else { 1024 };

/// Up to so many elements are found by looking at each.
const UNINDEXED_ELEMENTS: usize = if cfg!(test) { 4 } else { 16 };

/// Most elements that the index can name. There are more only when so many have the same position, which takes the seed to
/// contrive; they are then found by looking at each.
const INDEXED_ELEMENTS: usize = u16::MAX as usize;

/// An element that is found by a key.
pub(crate) trait Keyed {
    fn key(&self) -> &[u8];
    /// Bytes on the heap that the element pays for.
    fn heap_bytes(&self) -> usize;
}

/// Elements whose positions start at `start`.
///
/// It is an index map (entries in one buffer, their numbers in a table) with an exact account of its memory, 16-bit numbers, and no
/// index when there are few.
#[derive(Clone)]
pub(crate) struct Partition<E> {
    pub(crate) start: u64,
    entries: Vec<E>,
    /// Numbers of the entries, by hash. Empty when there are few.
    index: HashTable<u16>,
    heap_bytes: usize,
}

impl<E> Default for Partition<E> {
    fn default() -> Partition<E> {
        Partition {
            start: 0,
            entries: Vec::new(),
            index: HashTable::new(),
            heap_bytes: 0,
        }
    }
}

impl<E: Keyed> Chunk for Partition<E> {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn allocated_bytes(&self) -> usize {
        self.entries.buffer_bytes() + size_class(self.index.allocation_size()) + self.heap_bytes
    }

    /// Only for dropping: nothing is found afterwards.
    fn truncate(&mut self, len: usize) {
        self.index = HashTable::new();
        self.heap_bytes -= self.entries[len..].iter().map(Keyed::heap_bytes).sum::<usize>();
        self.entries.truncate(len);
        self.entries.give_back();
    }
}

impl<E: Keyed> Partition<E> {
    pub(crate) fn entries(&self) -> &[E] {
        &self.entries
    }

    /// Changes an element, not its key.
    pub(crate) fn edit<R>(&mut self, at: usize, change: impl FnOnce(&mut E) -> R) -> R {
        let entry = &mut self.entries[at];
        let before = entry.heap_bytes();
        let result = change(entry);
        self.heap_bytes = self.heap_bytes - before + entry.heap_bytes();
        result
    }

    /// Where the element with that key is. The hash is asked for only where there is an index.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], hash: impl FnOnce() -> u64) -> Option<usize> {
        if self.index.is_empty() {
            return self.entries.iter().position(|entry| entry.key() == key);
        }
        let found = self
            .index
            .find(hash(), |&number| self.entries[usize::from(number)].key() == key);
        found.map(|&number| usize::from(number))
    }

    /// Adds an element that is not there.
    pub(crate) fn push(&mut self, seed: HashSeed, entry: E) {
        self.entries.make_room();
        self.heap_bytes += entry.heap_bytes();
        self.entries.push(entry);
        let number = self.entries.len() - 1;
        if self.index.is_empty() || number >= INDEXED_ELEMENTS {
            self.build_index(seed);
        } else {
            let Partition { index, entries, .. } = self;
            let hash = |&number: &u16| seed.hash(entries[usize::from(number)].key());
            index.insert_unique(hash(&(number as u16)), number as u16, hash);
        }
    }

    /// Takes an element out; the last one takes its place.
    pub(crate) fn swap_remove(&mut self, seed: HashSeed, at: usize) -> E {
        let last = self.entries.len() - 1;
        self.unindex(seed, at);
        if at != last && !self.index.is_empty() {
            let hash = seed.hash(self.entries[last].key());
            if let Some(number) = self.index.find_mut(hash, |&number| usize::from(number) == last) {
                *number = at as u16;
            }
        }
        let entry = self.entries.swap_remove(at);
        self.removed(seed, entry)
    }

    fn unindex(&mut self, seed: HashSeed, at: usize) {
        if self.index.is_empty() {
            return;
        }
        let hash = seed.hash(self.entries[at].key());
        if let Ok(number) = self.index.find_entry(hash, |&number| usize::from(number) == at) {
            number.remove();
        }
    }

    fn removed(&mut self, seed: HashSeed, entry: E) -> E {
        self.heap_bytes -= entry.heap_bytes();
        let capacity = self.entries.capacity();
        self.entries.give_back();
        // Once the entries' buffer has become smaller, so does the index.
        if self.entries.capacity() < capacity || self.index.is_empty() {
            self.build_index(seed);
        }
        entry
    }

    /// Indexes all elements anew, or none where that is not worth it. O(elements).
    fn build_index(&mut self, seed: HashSeed) {
        self.index = HashTable::new();
        if self.entries.len() <= UNINDEXED_ELEMENTS || self.entries.len() > INDEXED_ELEMENTS {
            return;
        }
        let Partition { index, entries, .. } = self;
        let hash = |&number: &u16| seed.hash(entries[usize::from(number)].key());
        index.reserve(entries.len(), hash);
        for number in 0..entries.len() as u16 {
            index.insert_unique(hash(&number), number, hash);
        }
    }

    /// Splits off the upper half by position, or nothing if all elements have the same. O(elements).
    pub(crate) fn split(&mut self, seed: HashSeed) -> Option<Partition<E>> {
        let positions: Vec<u64> = self.entries.iter().map(|entry| seed.position_of(entry.key())).collect();
        let mut sorted = positions.clone();
        sorted.sort_unstable();
        let middle = sorted[sorted.len() / 2];
        // The lower half must have some.
        let start = *sorted
            .iter()
            .find(|&&position| position >= middle && position > sorted[0])?;
        let upper = positions.iter().filter(|&&position| position >= start).count();
        let mut halves = [Vec::with_capacity(positions.len() - upper), Vec::with_capacity(upper)];
        for (position, entry) in positions.iter().zip(std::mem::take(&mut self.entries)) {
            halves[usize::from(*position >= start)].push(entry);
        }
        let [lower, upper] = halves;
        let mut split = Partition {
            start,
            heap_bytes: upper.iter().map(Keyed::heap_bytes).sum(),
            entries: upper,
            index: HashTable::new(),
        };
        self.entries = lower;
        self.heap_bytes -= split.heap_bytes;
        self.build_index(seed);
        split.build_index(seed);
        Some(split)
    }

    /// Appends the elements of the next partition. O(elements).
    pub(crate) fn join(&mut self, seed: HashSeed, next: Partition<E>) {
        self.entries.reserve_exact(next.entries.len());
        self.entries.extend(next.entries);
        self.heap_bytes += next.heap_bytes;
        self.build_index(seed);
    }
}

#[cfg(test)]
impl<E: Keyed> Partition<E> {
    /// Checks that every element is found, and what is counted.
    pub(crate) fn check(&self, seed: HashSeed) {
        assert_eq!(
            self.heap_bytes,
            self.entries.iter().map(Keyed::heap_bytes).sum::<usize>()
        );
        assert!(!self.index.is_empty() || self.entries.len() <= UNINDEXED_ELEMENTS);
        for (at, entry) in self.entries.iter().enumerate() {
            assert_eq!(self.find(entry.key(), || seed.hash(entry.key())), Some(at));
            assert!(seed.position_of(entry.key()) >= self.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number([u8; 4]);

    impl Keyed for Number {
        fn key(&self) -> &[u8] {
            &self.0
        }

        fn heap_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn more_elements_than_an_index_can_name_are_found() {
        let seed = HashSeed::new(1);
        let mut partition = Partition::default();
        let find = |partition: &Partition<Number>, number: u32| {
            let key = number.to_be_bytes();
            partition.find(&key, || seed.hash(&key))
        };
        let most = INDEXED_ELEMENTS as u32;
        for number in 0..most + 100 {
            partition.push(seed, Number(number.to_be_bytes()));
            assert_eq!(
                partition.index.is_empty(),
                number < UNINDEXED_ELEMENTS as u32 || number >= most
            );
        }
        assert_eq!(find(&partition, most + 50), Some(INDEXED_ELEMENTS + 50));
        for _ in 0..200 {
            partition.swap_remove(seed, 7);
        }
        assert!(!partition.index.is_empty());
        partition.check(seed);
        assert_eq!((find(&partition, 7), find(&partition, 8)), (None, Some(8)));
    }

    #[test]
    fn elements_of_one_position_stay_together() {
        let seed = HashSeed::new(1);
        let mut partition = Partition::default();
        partition.push(seed, Number([0; 4]));
        assert!(partition.split(seed).is_none());
        partition.push(seed, Number([1; 4]));
        let upper = partition.split(seed).expect("two positions");
        assert_eq!((partition.len(), upper.len()), (1, 1));
    }
}
