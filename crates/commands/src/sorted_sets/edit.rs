//! Changes to sorted sets, each with its inverse.

use crate::data::Edit;
use std::ops::Range;
use tollgate_values::{Score, SortedSet};

impl Edit<'_, SortedSet> {
    /// See [`SortedSet::expect`]. No change by itself.
    pub(crate) fn expect(&mut self, members: usize, first_bytes: usize) {
        // No inverse: what is large enough for one is a skiplist already.
        self.unmarked().expect(members, first_bytes);
    }

    /// Adds a member, or gives one another score.
    pub(crate) fn insert(&mut self, member: &[u8], score: Score) {
        if self.notes() {
            let before = self.score(member);
            let member: Box<[u8]> = member.into();
            self.note(member.len(), move |set| {
                // First out, since an equal score would leave the one that is there, and zeros have signs.
                set.remove(&member);
                if let Some(score) = before {
                    set.insert(&member, score);
                }
            });
        }
        self.raw().insert(member, score);
    }

    /// Removes a member; whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.score(member) else {
            return false;
        };
        if self.notes() {
            let member: Box<[u8]> = member.into();
            self.note(member.len(), move |set| {
                set.insert(&member, score);
            });
        }
        self.raw().remove(member).is_some()
    }

    /// Removes the members of those ranks, which are no more than a step's.
    pub(crate) fn remove_ranks(&mut self, ranks: Range<usize>) {
        if ranks.is_empty() {
            return;
        }
        if self.notes() {
            let removed = self.range(ranks.clone());
            let removed: Vec<(Box<[u8]>, Score)> = removed.map(|(member, score)| (member.into(), score)).collect();
            let bytes = size_of_val(&*removed) + removed.iter().map(|(member, _)| member.len()).sum::<usize>();
            self.note(bytes, move |set| {
                for (member, score) in &removed {
                    set.insert(member, *score);
                }
            });
        }
        let count = ranks.len();
        self.raw().remove_ranks(ranks, count);
    }
}
