//! Large sorted sets: an index in order, and a map that finds scores.

use super::index::{Index, Scored};
use super::score::Score;
use super::small::Small;
use crate::allocation::size_class;
use crate::packed::Shared;
use crate::partitions::Partitions;
use crate::seed::HashSeed;

/// Both hold every member: one of up to 22 bytes in place, which takes less than sharing it; a longer one is shared.
pub(super) struct Large {
    pub(super) index: Index,
    map: Partitions<Scored>,
}

impl Large {
    fn new(seed: HashSeed) -> Large {
        Large {
            index: Index::new(),
            map: Partitions::new(seed),
        }
    }

    pub(super) fn from_small(seed: HashSeed, small: &Small) -> Large {
        let mut large = Large::new(seed);
        for (member, score) in small.iter() {
            large.add(Scored::new(member, score));
        }
        large
    }

    /// O(members).
    pub(super) fn copy(&self, seed: HashSeed) -> Large {
        let mut copy = Large::new(seed);
        for entry in self.index.iter_from(0) {
            // Shares nothing with this one: each pays for its own.
            copy.add(Scored::new(&entry.member, entry.score));
        }
        copy
    }

    /// With the box it is in. O(1).
    pub(super) fn bytes(&self) -> usize {
        size_class(size_of::<Large>()) + self.index.allocated_bytes() + self.map.allocated_bytes()
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<Score> {
        self.map.get(member).map(|entry| entry.score)
    }

    /// Adds a member that is not there.
    fn add(&mut self, entry: Scored) {
        self.map.push(self.map.find(&entry.member), entry.clone());
        self.index.insert(entry);
    }

    /// Gives a member that score, and gives the one that it had.
    pub(super) fn insert(&mut self, member: &[u8], score: Score) -> Option<Score> {
        let spot = self.map.find(member);
        let Some(old) = self.map.entry(spot).map(|entry| entry.score) else {
            let entry = Scored::new(member, score);
            self.map.push(spot, entry.clone());
            self.index.insert(entry);
            return None;
        };
        if old != score {
            let member = self
                .index
                .remove(old, member)
                .map_or_else(|| Shared::new(member), |entry| entry.member);
            self.index.insert(Scored { score, member });
            self.map.edit(spot, |entry| entry.score = score);
        }
        Some(old)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<Score> {
        let score = self.map.remove(self.map.find(member))?.score;
        self.index.remove(score, member);
        Some(score)
    }

    pub(super) fn remove_ranks(&mut self, ranks: std::ops::Range<usize>) {
        let map = &mut self.map;
        self.index.remove_ranks(ranks, &mut |entry| {
            map.remove(map.find(&entry.member));
        });
    }

    pub(super) fn scan<'a>(&'a self, cursor: u64, count: usize, show: &mut dyn FnMut(&'a Scored)) -> u64 {
        self.map.scan(cursor, count, show)
    }

    /// Drops from the map, then from the index, which accounts for what both share.
    pub(super) fn drop_some(&mut self, budget: usize) -> bool {
        if self.map.len() > 0 {
            self.map.drop_some(budget);
            return false;
        }
        self.index.drop_some(budget)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        self.index.check();
        self.map.check();
        assert_eq!(self.map.len(), self.index.len());
        assert!(
            self.index
                .iter_from(0)
                .all(|entry| self.score(&entry.member) == Some(entry.score))
        );
    }
}
