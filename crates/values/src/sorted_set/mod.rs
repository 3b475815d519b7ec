//! Sorted sets: members in the order of their scores.

mod index;
mod large;
mod score;
mod small;

use std::ops::Range;

use crate::allocation::size_class;
use crate::encoding::{Encoding, LISTPACK_ELEMENT_BYTES_MAX, LISTPACK_ENTRIES_MAX};
use crate::sample::{Sample, below};
use crate::seed::HashSeed;
use index::Scored;
use large::Large;
pub use score::{LexBound, Score, ScoreBound};
use small::Small;

/// A [sorted set](https://redis.io/docs/latest/develop/data-types/sorted-sets/).
///
/// Ranges by rank, score or member are ranges of ranks: see [`SortedSet::score_range`]. What is said to be O(runs) or O(log members) is
/// O(members) for a listpack.
pub struct SortedSet {
    members: Members,
    seed: HashSeed,
}

enum Members {
    Listpack(Small),
    Skiplist(Box<Large>),
}

impl Clone for SortedSet {
    /// O(members).
    fn clone(&self) -> SortedSet {
        let members = match &self.members {
            Members::Listpack(small) => Members::Listpack(small.clone()),
            Members::Skiplist(large) => Members::Skiplist(Box::new(large.copy(self.seed))),
        };
        SortedSet {
            members,
            seed: self.seed,
        }
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
            members: Members::Listpack(Small::default()),
            seed,
        }
    }

    /// How many members. O(1).
    pub fn len(&self) -> usize {
        match &self.members {
            Members::Listpack(small) => small.len(),
            Members::Skiplist(large) => large.index.len(),
        }
    }

    /// Whether it has no member. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first byte of what is beside the struct, if that is small.
    #[inline]
    pub(crate) fn first_byte(&self) -> Option<u8> {
        match &self.members {
            Members::Listpack(small) => small.first_byte(),
            Members::Skiplist(_) => None,
        }
    }

    /// Bytes allocated, with the box it is in. O(1).
    pub fn bytes(&self) -> usize {
        size_class(size_of::<SortedSet>())
            + match &self.members {
                Members::Listpack(small) => small.allocated_bytes(),
                Members::Skiplist(large) => large.bytes(),
            }
    }

    /// A listpack up to 128 members and 64 bytes, else a skiplist, and never back, but by [`SortedSet::compact`]. O(1).
    pub fn encoding(&self) -> Encoding {
        match &self.members {
            Members::Listpack(_) => Encoding::Listpack,
            Members::Skiplist(_) => Encoding::Skiplist,
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
        match &self.members {
            Members::Listpack(small) => small.score(member),
            Members::Skiplist(large) => large.score(member),
        }
    }

    /// Adds a member or gives it another score ([ZADD](https://redis.io/docs/latest/commands/zadd/)). O(runs), which moves at most a
    /// run, splits one and joins two.
    pub fn insert(&mut self, member: &[u8], score: Score) -> Inserted {
        let old = match &mut self.members {
            Members::Skiplist(large) => large.insert(member, score),
            Members::Listpack(small) => {
                let old = small.score(member);
                let fits = small.len() < LISTPACK_ENTRIES_MAX && member.len() <= LISTPACK_ELEMENT_BYTES_MAX;
                if old.is_none() && !fits {
                    self.become_large().insert(member, score);
                } else if old != Some(score) {
                    small.remove(member);
                    small.insert(member, score);
                }
                old
            }
        };
        match old {
            None => Inserted::Added,
            Some(old) if old == score => Inserted::Unchanged,
            Some(_) => Inserted::Updated,
        }
    }

    /// Removes a member, and gives its score ([ZREM](https://redis.io/docs/latest/commands/zrem/)). O(runs).
    pub fn remove(&mut self, member: &[u8]) -> Option<Score> {
        match &mut self.members {
            Members::Listpack(small) => small.remove(member),
            Members::Skiplist(large) => large.remove(member),
        }
    }

    /// How many members come before that one ([ZRANK](https://redis.io/docs/latest/commands/zrank/)); ZREVRANK is what is left of
    /// [`SortedSet::len`] minus 1. O(runs).
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        match &self.members {
            Members::Listpack(small) => small.iter().position(|(other, _)| other == member),
            Members::Skiplist(large) => Some(large.index.rank(large.score(member)?, member)),
        }
    }

    /// The ranks of the members with those scores: its length is [ZCOUNT](https://redis.io/docs/latest/commands/zcount/). O(runs).
    pub fn score_range(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let rank = |precedes: &dyn Fn(Score) -> bool| match &self.members {
            Members::Listpack(small) => small.rank_where(|(_, score)| precedes(score)),
            Members::Skiplist(large) => large.index.rank_by_score(precedes),
        };
        let start = rank(&|score| min.starts_after(score));
        start..rank(&|score| max.ends_after(score)).max(start)
    }

    /// The ranks of those members, if all scores are the same; else some range, as in Redis. Its length is
    /// [ZLEXCOUNT](https://redis.io/docs/latest/commands/zlexcount/). O(runs).
    pub fn lex_range(&self, min: LexBound, max: LexBound) -> Range<usize> {
        let rank = |precedes: &dyn Fn(&[u8]) -> bool| match &self.members {
            Members::Listpack(small) => small.rank_where(|(member, _)| precedes(member)),
            Members::Skiplist(large) => large.index.rank_by_member(precedes),
        };
        let start = rank(&|member| min.starts_after(member));
        start..rank(&|member| max.ends_after(member)).max(start)
    }

    /// The members of those ranks, from the lowest. O(runs) to start, then O(1) a step.
    pub fn range(&self, ranks: Range<usize>) -> impl Iterator<Item = (&[u8], Score)> {
        let start = ranks.start.min(self.len());
        let (small, large) = self.parts();
        let small = small.map(|small| small.iter().skip(start));
        let large = large.map(|large| large.index.iter_from(start).map(Scored::pair));
        small
            .into_iter()
            .flatten()
            .chain(large.into_iter().flatten())
            .take(ranks.len())
    }

    /// The members of those ranks, from the highest. O(runs) to start, then O(1) a step.
    pub fn range_back(&self, ranks: Range<usize>) -> impl Iterator<Item = (&[u8], Score)> {
        let end = ranks.end.min(self.len());
        let len = end.saturating_sub(ranks.start);
        let (small, large) = self.parts();
        let small = small.map(|small| small.iter().take(end).collect::<Vec<_>>().into_iter().rev());
        let large = large.map(|large| large.index.iter_back_from(end).map(Scored::pair));
        small.into_iter().flatten().chain(large.into_iter().flatten()).take(len)
    }

    fn parts(&self) -> (Option<&Small>, Option<&Large>) {
        match &self.members {
            Members::Listpack(small) => (Some(small), None),
            Members::Skiplist(large) => (None, Some(large)),
        }
    }

    /// The member of that rank: for the ranks of a [`Sample`] too. O(runs).
    pub fn nth(&self, rank: usize) -> Option<(&[u8], Score)> {
        match &self.members {
            Members::Listpack(small) => small.nth(rank),
            Members::Skiplist(large) => large.index.nth(rank.min(self.len())).map(Scored::pair),
        }
    }

    /// Removes the first members of those ranks, `budget` at most, and says how many: a step of
    /// [ZREMRANGEBYRANK](https://redis.io/docs/latest/commands/zremrangebyrank/), and of the others with the ranks of
    /// [`SortedSet::score_range`] and [`SortedSet::lex_range`]. For the next step, as many ranks less are left from the same start.
    /// O(budget × log members + runs).
    pub fn remove_ranks(&mut self, ranks: Range<usize>, budget: usize) -> usize {
        let len = self.len();
        let start = ranks.start.min(len);
        let end = ranks.end.clamp(start, len).min(start.saturating_add(budget));
        match &mut self.members {
            Members::Listpack(small) => small.remove_ranks(start..end),
            Members::Skiplist(large) => large.remove_ranks(start..end),
        }
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
        match &self.members {
            Members::Listpack(small) => {
                small.iter().for_each(|(member, score)| show(member, score));
                0
            }
            Members::Skiplist(large) => large.scan(cursor, count, &mut |entry| show(&entry.member, entry.score)),
        }
    }

    /// Makes a listpack of it if it is small enough, as Redis does with the results of ZUNIONSTORE, ZRANGESTORE and their like.
    /// O(128).
    pub fn compact(&mut self) {
        let Members::Skiplist(large) = &self.members else {
            return;
        };
        let fits = |entry: &Scored| entry.member.len() <= LISTPACK_ELEMENT_BYTES_MAX;
        if self.len() <= LISTPACK_ENTRIES_MAX && large.index.iter_from(0).all(fits) {
            let mut small = Small::default();
            large
                .index
                .iter_from(0)
                .for_each(|entry| small.insert(&entry.member, entry.score));
            self.members = Members::Listpack(small);
        }
    }

    /// See [`crate::Value::drop_some`].
    #[must_use = "until it says true, there is more to drop"]
    pub fn drop_some(&mut self, elements: usize) -> bool {
        let done = match &mut self.members {
            Members::Listpack(_) => true,
            Members::Skiplist(large) => large.drop_some(elements),
        };
        if done {
            self.members = Members::Listpack(Small::default());
        }
        done
    }

    fn become_large(&mut self) -> &mut Large {
        if let Members::Listpack(small) = &self.members {
            self.members = Members::Skiplist(Box::new(Large::from_small(self.seed, small)));
        }
        // It is, after the lines above.
        let Members::Skiplist(large) = &mut self.members else {
            unreachable!()
        };
        large
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        match &self.members {
            Members::Listpack(small) => small.check(),
            Members::Skiplist(large) => large.check(),
        }
        assert!(self.encoding() == Encoding::Skiplist || self.len() <= LISTPACK_ENTRIES_MAX);
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
