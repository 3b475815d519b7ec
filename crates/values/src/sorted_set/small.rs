//! Small sorted sets: members and scores in one buffer, in order.

use std::ops::Range;

use super::score::Score;
use crate::listpack::Listpack;

/// Up to 128 members of up to 64 bytes. All operations are O(members).
#[derive(Clone, Default)]
pub(super) struct Small {
    /// Each member with the eight bytes of its score.
    records: Listpack<2>,
}

fn pair([member, score]: [&[u8]; 2]) -> (&[u8], Score) {
    // Every record was made with eight bytes of a score, see `insert`.
    let bytes = score.try_into().unwrap_or_default();
    (member, Score::new(f64::from_le_bytes(bytes)).unwrap_or_default())
}

impl Small {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn first_byte(&self) -> Option<u8> {
        self.records.first_byte()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.records.allocated_bytes()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Score)> {
        self.records.iter().map(pair)
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<Score> {
        self.records.find(member).map(|(_, record)| pair(record).1)
    }

    /// Adds a member that is not there. As Redis's listpacks do, it keeps a score of -0.0 as 0.0.
    pub(super) fn insert(&mut self, member: &[u8], score: Score) {
        let score = Score::new(score.get() + 0.0).unwrap_or(score);
        let rank = self.rank_where(|(other_member, other_score)| (other_score, other_member) < (score, member));
        self.records.insert(rank, [member, &score.get().to_le_bytes()]);
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<Score> {
        let (record, parts) = self.records.find(member)?;
        let score = pair(parts).1;
        self.records.remove(record);
        Some(score)
    }

    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>) {
        self.records.remove_ranks(ranks);
    }

    /// How many members come before the first that does not `precede`.
    pub(super) fn rank_where(&self, precedes: impl Fn((&[u8], Score)) -> bool) -> usize {
        self.iter().take_while(|pair| precedes(*pair)).count()
    }

    pub(super) fn nth(&self, rank: usize) -> Option<(&[u8], Score)> {
        self.records.nth(rank).map(pair)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let all: Vec<(Score, &[u8])> = self.iter().map(|(member, score)| (score, member)).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
