//! Members in the order of their scores, then of their bytes.

use std::cmp::Ordering;
use std::ops::Range;

use super::score::Score;
use crate::allocation::Buffer;
use crate::packed::Shared;
use crate::partition::Keyed;
use crate::sequence::{At, Chunk, Sequence};

/// Most members of a run.
const RUN_MEMBERS: usize = if cfg!(test) { 16 } else { 512 };

/// A member and its score. The map has another one of the same member.
#[derive(Clone)]
pub(super) struct Scored {
    pub(super) score: Score,
    pub(super) member: Shared,
}

impl Scored {
    pub(super) fn new(member: &[u8], score: Score) -> Scored {
        let member = Shared::new(member);
        Scored { score, member }
    }

    fn order(&self) -> (Score, &[u8]) {
        (self.score, &self.member)
    }

    pub(super) fn pair(&self) -> (&[u8], Score) {
        (&self.member, self.score)
    }
}

/// As an entry of the map.
impl Keyed for Scored {
    fn key(&self) -> &[u8] {
        &self.member
    }

    /// The index pays.
    fn heap_bytes(&self) -> usize {
        0
    }
}

#[derive(Default)]
struct Run {
    entries: Vec<Scored>,
    /// The score of the first: runs are found without looking into them, mostly.
    first: Score,
    heap_bytes: usize,
}

impl Chunk for Run {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn allocated_bytes(&self) -> usize {
        self.entries.buffer_bytes() + self.heap_bytes
    }

    fn truncate(&mut self, len: usize) {
        self.remove(len..self.entries.len(), &mut |_| {});
    }
}

impl Run {
    fn of(entry: Scored) -> Run {
        let mut run = Run::default();
        run.insert(0, entry);
        run
    }

    fn insert(&mut self, at: usize, entry: Scored) {
        self.heap_bytes += entry.member.heap_bytes();
        self.entries.make_room();
        self.entries.insert(at, entry);
        self.note_first();
    }

    fn note_first(&mut self) {
        self.first = self.entries.first().map_or_else(Score::default, |entry| entry.score);
    }

    /// Whether that place is not before the first member.
    fn starts_by(&self, score: Score, member: &[u8]) -> bool {
        match self.first.cmp(&score) {
            Ordering::Equal => self.entries.first().is_some_and(|first| *first.member <= *member),
            order => order == Ordering::Less,
        }
    }

    fn remove(&mut self, range: Range<usize>, show: &mut dyn FnMut(Scored)) {
        for entry in self.entries.drain(range) {
            self.heap_bytes -= entry.member.heap_bytes();
            show(entry);
        }
        self.entries.give_back();
        self.note_first();
    }

    fn split_off(&mut self, at: usize) -> Run {
        let entries = self.entries.split_off(at);
        let heap_bytes = entries.iter().map(|entry| entry.member.heap_bytes()).sum();
        self.heap_bytes -= heap_bytes;
        self.entries.give_back();
        let mut upper = Run {
            entries,
            heap_bytes,
            ..Run::default()
        };
        upper.note_first();
        upper
    }

    fn join(&mut self, next: Run) {
        self.entries.reserve_exact(next.entries.len());
        self.entries.extend(next.entries);
        self.heap_bytes += next.heap_bytes;
        self.note_first();
    }
}

/// The members of a large sorted set in order: runs of up to 512, as the `SortedList` of Python's sortedcontainers.
pub(super) struct Index {
    runs: Sequence<Run>,
}

impl Index {
    pub(super) fn new() -> Index {
        Index {
            runs: Sequence::new(Run::default()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// With what the members have on the heap. O(1).
    pub(super) fn allocated_bytes(&self) -> usize {
        self.runs.allocated_bytes()
    }

    /// The last run whose first member is not after `(score, member)`.
    fn run_of(&self, score: Score, member: &[u8]) -> At {
        self.runs.last_where(|run| run.starts_by(score, member))
    }

    pub(super) fn insert(&mut self, entry: Scored) {
        let mut at = self.run_of(entry.score, &entry.member);
        let mut within = self.place_in(at, entry.score, &entry.member);
        let len = self.runs.chunk(at).len();
        if len == RUN_MEMBERS && within == len && at == self.runs.last() {
            // At the end, where logs grow, full runs are left behind.
            at = self.runs.insert_after(at, Run::of(entry));
            debug_assert_eq!(at, self.runs.last());
            return;
        }
        if len == RUN_MEMBERS {
            let keep = len / 2;
            let upper = self.runs.edit(at, |run| run.split_off(keep));
            let upper = self.runs.insert_after(at, upper);
            // Inserting a run can have moved the lower half to another group.
            at = if within > keep {
                upper
            } else {
                self.runs.previous(upper).unwrap_or(upper)
            };
            within = if within > keep { within - keep } else { within };
        }
        self.runs.edit(at, |run| run.insert(within, entry));
    }

    fn place_in(&self, at: At, score: Score, member: &[u8]) -> usize {
        self.runs
            .chunk(at)
            .entries
            .partition_point(|entry| entry.order() < (score, member))
    }

    /// Takes out a member by its score.
    pub(super) fn remove(&mut self, score: Score, member: &[u8]) -> Option<Scored> {
        let at = self.run_of(score, member);
        let within = self.place_in(at, score, member);
        if self.runs.chunk(at).entries.get(within)?.order() != (score, member) {
            return None;
        }
        let mut removed = None;
        self.runs.edit(at, |run| {
            run.remove(within..within + 1, &mut |entry| removed = Some(entry))
        });
        self.tidy(at);
        removed
    }

    fn tidy(&mut self, at: At) {
        self.runs.tidy(at, RUN_MEMBERS / 4, RUN_MEMBERS * 3 / 4, Run::join);
    }

    /// Takes out the members of those ranks.
    pub(super) fn remove_ranks(&mut self, range: Range<usize>, show: &mut dyn FnMut(Scored)) {
        let mut left = range.len();
        while left > 0 {
            let (at, within) = self.runs.at_rank(range.start);
            let here = left.min(self.runs.chunk(at).len() - within);
            if here == 0 {
                return;
            }
            self.runs.edit(at, |run| run.remove(within..within + here, show));
            self.tidy(at);
            left -= here;
        }
    }

    /// How many members come before the first whose score does not `precede`, as none after it may either.
    pub(super) fn rank_by_score(&self, precedes: impl Fn(Score) -> bool) -> usize {
        let at = self.runs.last_where(|run| precedes(run.first));
        self.runs.rank_of(at)
            + self
                .runs
                .chunk(at)
                .entries
                .partition_point(|entry| precedes(entry.score))
    }

    /// How many members come before the first that does not `precede`, as none after it may either.
    pub(super) fn rank_by_member(&self, precedes: impl Fn(&[u8]) -> bool) -> usize {
        let at = self
            .runs
            .last_where(|run| run.entries.first().is_some_and(|first| precedes(&first.member)));
        self.runs.rank_of(at)
            + self
                .runs
                .chunk(at)
                .entries
                .partition_point(|entry| precedes(&entry.member))
    }

    /// How many members come before that one, which is there.
    pub(super) fn rank(&self, score: Score, member: &[u8]) -> usize {
        let at = self.run_of(score, member);
        self.runs.rank_of(at) + self.place_in(at, score, member)
    }

    pub(super) fn nth(&self, rank: usize) -> Option<&Scored> {
        let (at, within) = self.runs.at_rank(rank);
        self.runs.chunk(at).entries.get(within)
    }

    /// The members from a rank on.
    pub(super) fn iter_from(&self, rank: usize) -> impl Iterator<Item = &Scored> {
        let (at, within) = self.runs.at_rank(rank);
        self.runs.chunks_from(at).flat_map(|run| &run.entries).skip(within)
    }

    /// The members before a rank, the nearest first.
    pub(super) fn iter_back_from(&self, rank: usize) -> impl Iterator<Item = &Scored> {
        let (at, within) = self.runs.at_rank(rank);
        let after = self.runs.chunk(at).len() - within;
        self.runs
            .chunks_back_from(at)
            .flat_map(|run| run.entries.iter().rev())
            .skip(after)
    }

    pub(super) fn drop_some(&mut self, budget: usize) -> bool {
        self.runs.drop_some(budget)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        self.runs.check();
        let all: Vec<&Scored> = self.iter_from(0).collect();
        assert_eq!(all.len(), self.len());
        assert!(all.windows(2).all(|pair| pair[0].order() < pair[1].order()));
        assert!(self.runs.chunks_from(At::FIRST).all(|run| {
            run.len() <= RUN_MEMBERS
                && run.entries.first().is_none_or(|first| first.score == run.first)
                && run.heap_bytes == run.entries.iter().map(|entry| entry.member.heap_bytes()).sum::<usize>()
        }));
    }
}
