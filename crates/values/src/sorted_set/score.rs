//! Scores, and bounds of ranges.

use std::cmp::Ordering;

/// A score: any double but NaN. -0.0 and 0.0 are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score(f64);

impl Score {
    /// The lowest, `-inf`.
    pub const MIN: Score = Score(f64::NEG_INFINITY);
    /// The highest, `+inf`.
    pub const MAX: Score = Score(f64::INFINITY);

    /// Nothing for NaN.
    pub const fn new(value: f64) -> Option<Score> {
        if value.is_nan() { None } else { Some(Score(value)) }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Ord for Score {
    #[inline]
    fn cmp(&self, other: &Score) -> Ordering {
        // Neither is NaN.
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Score {
    #[inline]
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    #[inline]
    fn eq(&self, other: &Score) -> bool {
        self.0 == other.0
    }
}

impl Eq for Score {}

/// An end of a range of scores ([ZRANGE](https://redis.io/docs/latest/commands/zrange/) with BYSCORE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreBound {
    /// That score too.
    Inclusive(Score),
    /// Not that score: `(` before it.
    Exclusive(Score),
}

impl ScoreBound {
    /// `-inf`.
    pub const MIN: ScoreBound = ScoreBound::Inclusive(Score::MIN);
    /// `+inf`.
    pub const MAX: ScoreBound = ScoreBound::Inclusive(Score::MAX);

    /// Whether a score is below the range that starts here.
    pub(super) fn starts_after(self, score: Score) -> bool {
        match self {
            ScoreBound::Inclusive(start) => score < start,
            ScoreBound::Exclusive(start) => score <= start,
        }
    }

    /// Whether a score is not above the range that ends here.
    pub(super) fn ends_after(self, score: Score) -> bool {
        match self {
            ScoreBound::Inclusive(end) => score <= end,
            ScoreBound::Exclusive(end) => score < end,
        }
    }
}

/// An end of a range of members ([ZRANGE](https://redis.io/docs/latest/commands/zrange/) with BYLEX), which mean something when all
/// scores are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// `-`: before every member.
    Min,
    /// `+`: after every member.
    Max,
    /// `[`: that member too.
    Inclusive(&'a [u8]),
    /// `(`: not that member.
    Exclusive(&'a [u8]),
}

impl LexBound<'_> {
    /// Whether a member is below the range that starts here.
    pub(super) fn starts_after(self, member: &[u8]) -> bool {
        match self {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Inclusive(start) => member < start,
            LexBound::Exclusive(start) => member <= start,
        }
    }

    /// Whether a member is not above the range that ends here.
    pub(super) fn ends_after(self, member: &[u8]) -> bool {
        match self {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Inclusive(end) => member <= end,
            LexBound::Exclusive(end) => member < end,
        }
    }
}
