//! Sorted sets: members in the order of their scores.

mod index;
mod score;

use std::ops::Range;

use crate::allocation::size_class;
use crate::encoding::{Encoding, LISTPACK_ELEMENT_BYTES_MAX, LISTPACK_ENTRIES_MAX};
use crate::packed::Shared;
use crate::partitions::{Partitions, Spot};
use crate::sample::{Sample, below};
use crate::seed::HashSeed;
use index::{Index, Scored};
pub use score::{LexBound, Score, ScoreBound};

/// A [sorted set](https://redis.io/docs/latest/develop/data-types/sorted-sets/).
///
/// A small one is one sorted buffer. A large one has its members in a map too, to find their scores: each of both keeps members of up to
/// 22 bytes in place, which takes less than sharing them; longer ones are shared.
///
/// Ranges by rank, score or member are ranges of ranks: see [`SortedSet::score_range`].
pub struct SortedSet {
    index: Index,
    /// Nothing while it is a listpack: so few members are looked through.
    map: Option<Box<Partitions<Scored>>>,
    seed: HashSeed,
}

impl Clone for SortedSet {
    /// O(members).
    fn clone(&self) -> SortedSet {
        let mut copy = SortedSet {
            index: self.index.clone(),
            map: None,
            seed: self.seed,
        };
        if self.map.is_some() {
            copy.become_large();
        }
        copy
    }
}

/// What [`SortedSet::insert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The member is new.
    Added,
    /// It had another score.
    Updated,
    /// It had that score.
    Unchanged,
}

impl SortedSet {
    /// Without members. Redis has no such value: give it some.
    pub fn new(seed: HashSeed) -> SortedSet {
        SortedSet {
            index: Index::new(),
            map: None,
            seed,
        }
    }

    /// How many members. O(1).
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it has no member. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated, with the box it is in. O(1).
    pub fn bytes(&self) -> usize {
        let map_bytes = |map: &Partitions<Scored>| size_class(size_of::<Partitions<Scored>>()) + map.allocated_bytes();
        size_class(size_of::<SortedSet>()) + self.index.allocated_bytes() + self.map.as_deref().map_or(0, map_bytes)
    }

    /// A listpack up to 128 members and 64 bytes, else a skiplist, and never back, but by [`SortedSet::compact`]. O(1).
    pub fn encoding(&self) -> Encoding {
        if self.map.is_some() {
            Encoding::Skiplist
        } else {
            Encoding::Listpack
        }
    }

    /// Says that a command is about to add so many members, the first of so many bytes if the set is new, else 0: Redis makes a
    /// skiplist of it beforehand if that is too much, whether or not they are different. O(a small set).
    pub fn expect(&mut self, members: usize, first_bytes: usize) {
        if members > LISTPACK_ENTRIES_MAX || first_bytes > LISTPACK_ELEMENT_BYTES_MAX {
            self.become_large();
        }
    }

    /// The score of a member ([ZSCORE](https://redis.io/docs/latest/commands/zscore/)). O(log members).
    pub fn score(&self, member: &[u8]) -> Option<Score> {
        match &self.map {
            Some(map) => map.get(member),
            None => self.index.iter_from(0).find(|entry| *entry.member == *member),
        }
        .map(|entry| entry.score)
    }

    /// Adds a member or gives it another score ([ZADD](https://redis.io/docs/latest/commands/zadd/)). O(runs), which moves at most a
    /// run, splits one and joins two.
    pub fn insert(&mut self, member: &[u8], score: Score) -> Inserted {
        let spot = self.map.as_deref().map(|map| map.find(member));
        let old = match (spot, &self.map) {
            (Some(spot), Some(map)) => map.entry(spot).map(|entry| entry.score),
            _ => self.score(member),
        };
        if old == Some(score) {
            return Inserted::Unchanged;
        }
        if let Some(old) = old {
            let Some(mut entry) = self.index.remove(old, member) else {
                unreachable!("the index has every member")
            };
            entry.score = score;
            self.index.insert(entry);
            if let (Some(map), Some(spot)) = (&mut self.map, spot) {
                map.edit(spot, |entry| entry.score = score);
            }
            return Inserted::Updated;
        }
        let fits = self.len() < LISTPACK_ENTRIES_MAX && member.len() <= LISTPACK_ELEMENT_BYTES_MAX;
        if self.map.is_none() && !fits {
            self.become_large();
        }
        let member = Shared::new(member);
        let entry = Scored { score, member };
        if let Some(map) = &mut self.map {
            // A map that has just been made has not been asked.
            let spot = spot.unwrap_or_else(|| map.find(&entry.member));
            map.push(spot, entry.clone());
        }
        self.index.insert(entry);
        Inserted::Added
    }

    /// Removes a member, and gives its score ([ZREM](https://redis.io/docs/latest/commands/zrem/)). O(runs).
    pub fn remove(&mut self, member: &[u8]) -> Option<Score> {
        let score = match &mut self.map {
            Some(map) => map.remove(map.find(member))?.score,
            None => self.score(member)?,
        };
        self.index.remove(score, member);
        Some(score)
    }

    /// How many members come before that one ([ZRANK](https://redis.io/docs/latest/commands/zrank/)); ZREVRANK is what is left of
    /// [`SortedSet::len`] minus 1. O(runs).
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        Some(self.index.rank(self.score(member)?, member))
    }

    /// The ranks of the members with those scores: its length is [ZCOUNT](https://redis.io/docs/latest/commands/zcount/). O(runs).
    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let start = self.index.rank_by_score(|score| min.starts_after(score));
        let end = self.index.rank_by_score(|score| max.ends_after(score));
        start..end.max(start)
    }

    /// The ranks of those members, if all scores are the same; else some range, as in Redis. Its length is
    /// [ZLEXCOUNT](https://redis.io/docs/latest/commands/zlexcount/). O(runs).
    pub fn lex_range(&self, min: LexBound, max: LexBound) -> Range<usize> {
        let start = self.index.rank_by_member(|member| min.starts_after(member));
        let end = self.index.rank_by_member(|member| max.ends_after(member));
        start..end.max(start)
    }

    /// The members of those ranks, from the lowest. O(runs) to start, then O(1) a step.
    pub fn range(&self, ranks: Range<usize>) -> impl Iterator<Item = (&[u8], Score)> {
        let start = ranks.start.min(self.len());
        self.index.iter_from(start).take(ranks.len()).map(Scored::pair)
    }

    /// The members of those ranks, from the highest. O(runs) to start, then O(1) a step.
    pub fn range_back(&self, ranks: Range<usize>) -> impl Iterator<Item = (&[u8], Score)> {
        let end = ranks.end.min(self.len());
        let len = end.saturating_sub(ranks.start);
        self.index.iter_back_from(end).take(len).map(Scored::pair)
    }

    /// The member of that rank: for the ranks of a [`Sample`] too. O(runs).
    pub fn nth(&self, rank: usize) -> Option<(&[u8], Score)> {
        self.index.nth(rank.min(self.len())).map(Scored::pair)
    }

    /// Removes the first members of those ranks, `budget` at most, and says how many: a step of
    /// [ZREMRANGEBYRANK](https://redis.io/docs/latest/commands/zremrangebyrank/), and of the others with the ranks of
    /// [`SortedSet::score_range`] and [`SortedSet::lex_range`]. For the next step, as many ranks less are left from the same start.
    /// O(budget × log members + runs).
    pub fn remove_ranks(&mut self, ranks: Range<usize>, budget: usize) -> usize {
        let len = self.len();
        let start = ranks.start.min(len);
        let end = ranks.end.clamp(start, len).min(start.saturating_add(budget));
        let map = &mut self.map;
        self.index.remove_ranks(start..end, &mut |entry| {
            if let Some(map) = map {
                map.remove(map.find(&entry.member));
            }
        });
        len - self.len()
    }

    /// Takes out the member with the lowest score: a step of [ZPOPMIN](https://redis.io/docs/latest/commands/zpopmin/). O(runs).
    pub fn pop_min(&mut self) -> Option<(Vec<u8>, Score)> {
        self.pop(0)
    }

    /// Takes out the member with the highest score: a step of [ZPOPMAX](https://redis.io/docs/latest/commands/zpopmax/). O(runs).
    pub fn pop_max(&mut self) -> Option<(Vec<u8>, Score)> {
        self.pop(self.len().checked_sub(1)?)
    }

    fn pop(&mut self, rank: usize) -> Option<(Vec<u8>, Score)> {
        let (member, score) = self.nth(rank)?;
        let popped = (member.to_vec(), score);
        self.remove_ranks(rank..rank + 1, 1);
        Some(popped)
    }

    /// A random member with its score, each equally often: [ZRANDMEMBER](https://redis.io/docs/latest/commands/zrandmember/) with
    /// repetition. O(runs).
    pub fn random(&self, random: u64) -> Option<(&[u8], Score)> {
        self.nth(below(self.len(), random))
    }

    /// Distinct random ranks for [`SortedSet::nth`]: ZRANDMEMBER without repetition. O(1), and room for `count`.
    pub fn sample(&self, count: usize) -> Sample {
        Sample::new(self.len(), count)
    }

    /// One step of [ZSCAN](https://redis.io/docs/latest/commands/zscan/), as [`crate::Hash::scan`]; a listpack comes in the order of
    /// its scores. O(count + one partition).
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, show: &mut dyn FnMut(&'a [u8], Score)) -> u64 {
        let mut show = |entry: &'a Scored| show(&entry.member, entry.score);
        match &self.map {
            Some(map) => map.scan(cursor, count, &mut show),
            None => {
                self.index.iter_from(0).for_each(show);
                0
            }
        }
    }

    /// Makes a listpack of it if it is small enough, as Redis does with the results of ZUNIONSTORE, ZRANGESTORE and their like.
    /// O(128).
    pub fn compact(&mut self) {
        let fits = |entry: &Scored| entry.member.len() <= LISTPACK_ELEMENT_BYTES_MAX;
        if self.len() <= LISTPACK_ENTRIES_MAX && self.index.iter_from(0).all(fits) {
            self.map = None;
        }
    }

    /// See [`crate::Value::drop_some`].
    #[must_use = "until it says true, there is more to drop"]
    pub fn drop_some(&mut self, elements: usize) -> bool {
        // The index last: it accounts for what both share.
        match &mut self.map {
            Some(map) => {
                if map.drop_some(elements) {
                    self.map = None;
                }
                false
            }
            None => self.index.drop_some(elements),
        }
    }

    fn become_large(&mut self) {
        if self.map.is_some() {
            return;
        }
        let mut map = Box::new(Partitions::new(self.seed));
        for entry in self.index.iter_from(0) {
            let spot: Spot = map.find(&entry.member);
            map.push(spot, entry.clone());
        }
        self.map = Some(map);
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.index.check();
        if let Some(map) = &self.map {
            map.check();
            assert_eq!(map.len(), self.len());
            for entry in self.index.iter_from(0) {
                let mapped = map.get(&entry.member).expect("the map has every member");
                assert_eq!(mapped.score, entry.score);
            }
        } else {
            assert!(self.len() <= LISTPACK_ENTRIES_MAX);
        }
    }
}

impl std::fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("SortedSet")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}
