//! What unions, intersections and differences work with: inputs, chunks of their members, and how scores become one.

use crate::sorted_sets::take_ranks;
use crate::table::STEP_ELEMENTS;
use crate::{CommandError, Env, Shard};
use tollgate_store::Key;
use tollgate_values::{Score, Set, SortedSet, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    pub(super) fn parse(word: &[u8]) -> Result<Self, CommandError> {
        match word {
            word if word.eq_ignore_ascii_case(b"SUM") => Ok(Self::Sum),
            word if word.eq_ignore_ascii_case(b"MIN") => Ok(Self::Min),
            word if word.eq_ignore_ascii_case(b"MAX") => Ok(Self::Max),
            _ => Err(CommandError::Syntax),
        }
    }

    /// One score out of two. The second may be NaN: infinity with the weight 0.
    pub(super) fn of(self, score: f64, other: f64) -> f64 {
        match self {
            Self::Sum => or_zero(score + other),
            Self::Min if other < score => other,
            Self::Max if other > score => other,
            Self::Min | Self::Max => score,
        }
    }
}

/// What Redis counts NaN as, which infinities with different signs sum up to.
pub(super) fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Some members, with their scores so far.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    /// Where in `bytes` each ends, and its score.
    pub(super) ends: Vec<(usize, f64)>,
}

impl Chunk {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, member: &[u8], score: f64) {
        self.bytes.extend_from_slice(member);
        self.ends.push((self.bytes.len(), score));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, score)| {
            let member = &self.bytes[start..end];
            start = end;
            (member, score)
        })
    }

    /// Gives each member the score that `keep` says, or drops it.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&[u8], f64) -> Option<f64>) {
        let (mut start, mut kept_bytes, mut kept) = (0, 0, 0);
        for at in 0..self.ends.len() {
            let (end, score) = self.ends[at];
            if let Some(score) = keep(&self.bytes[start..end], score) {
                self.bytes.copy_within(start..end, kept_bytes);
                kept_bytes += end - start;
                self.ends[kept] = (kept_bytes, score);
                kept += 1;
            }
            start = end;
        }
        self.bytes.truncate(kept_bytes);
        self.ends.truncate(kept);
    }
}

/// What a key holds, as an input.
#[derive(Clone, Copy)]
pub(super) enum Members<'a> {
    Sorted(&'a SortedSet),
    /// Every score is 1.
    Set(&'a Set),
}

impl Members<'_> {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Sorted(set) => set.len(),
            Self::Set(set) => set.len(),
        }
    }

    pub(super) fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Sorted(set) => set.score(member).map(Score::get),
            Self::Set(set) => set.contains(member).then_some(1.0),
        }
    }

    /// Shows a chunk from the cursor on, of about a step's members; where the next begins.
    pub(super) fn chunk(self, cursor: u64, show: &mut dyn FnMut(&[u8], f64)) -> Option<u64> {
        match self {
            Self::Sorted(set) => {
                let mut left = cursor as usize..set.len();
                for (member, score) in set.range(take_ranks(&mut left, STEP_ELEMENTS, false)) {
                    show(member, score.get());
                }
                (!left.is_empty()).then_some(left.start as u64)
            }
            Self::Set(set) => {
                let next = set.scan(cursor, STEP_ELEMENTS, &mut |member| show(&member, 1.0));
                (next != 0).then_some(next)
            }
        }
    }
}

/// The members that a key has, if it exists.
pub(super) fn members_of<'a>(
    shard: &'a mut Shard,
    env: &Env,
    key: &Key<'_>,
) -> Result<Option<Members<'a>>, CommandError> {
    let Some(present) = shard.settled(env, key) else {
        return Ok(None);
    };
    match shard.store.value(present.place).map(|stored| &stored.value) {
        Some(Value::SortedSet(set)) => Ok(Some(Members::Sorted(set))),
        Some(Value::Set(set)) => Ok(Some(Members::Set(set))),
        _ => Err(CommandError::WrongType),
    }
}
