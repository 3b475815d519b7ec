//! Finding and removing elements by what they are, in steps.

use super::{End, List};
use crate::packed::Owned;

/// A walk that looks for equal elements: [LPOS](https://redis.io/docs/latest/commands/lpos/), and the pivot of LINSERT. It goes on with
/// [`List::search_some`] for as long as the list is not changed.
#[derive(Clone, Debug)]
pub struct PositionSearch {
    from: End,
    /// How many matches are passed over.
    skip: usize,
    /// How many matches are still wanted.
    wanted: usize,
    /// How many elements may still be compared.
    compare: usize,
    /// How many have been.
    walked: usize,
}

impl PositionSearch {
    /// `rank` as LPOS has it: 1 begins with the first match from the left, -1 with the first from the right, 2 with the second. `count`
    /// and `maxlen`: 0 is no limit. Nothing for rank 0, which LPOS refuses.
    pub fn new(rank: i64, count: usize, maxlen: usize) -> Option<PositionSearch> {
        let or_all = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        Some(PositionSearch {
            from: if rank > 0 { End::Left } else { End::Right },
            skip: usize::try_from(rank.unsigned_abs())
                .unwrap_or(usize::MAX)
                .checked_sub(1)?,
            wanted: or_all(count),
            compare: or_all(maxlen),
            walked: 0,
        })
    }
}

/// A walk that removes equal elements: [LREM](https://redis.io/docs/latest/commands/lrem/). It goes on with
/// [`List::remove_some`] for as long as nobody else changes the list.
#[derive(Clone, Debug)]
pub struct Removal {
    from: End,
    left: usize,
    removed: usize,
    /// How many elements from that end have been looked at and kept.
    kept: usize,
}

impl Removal {
    /// `count` as LREM has it: so many from the left, or from the right if negative; 0 is all.
    pub fn new(count: i64) -> Removal {
        Removal {
            from: if count < 0 { End::Right } else { End::Left },
            left: match count.unsigned_abs() {
                0 => usize::MAX,
                count => usize::try_from(count).unwrap_or(usize::MAX),
            },
            removed: 0,
            kept: 0,
        }
    }

    /// How many it has removed.
    pub fn removed(&self) -> usize {
        self.removed
    }
}

impl List {
    /// Compares up to `budget` elements, shows the index from the left of every match that is wanted, and says whether that was all.
    /// O(budget + deques).
    #[must_use = "until it says true, there is more to search"]
    pub fn search_some(
        &self,
        search: &mut PositionSearch,
        element: &[u8],
        budget: usize,
        show: &mut dyn FnMut(usize),
    ) -> bool {
        let len = self.len();
        let steps = budget.min(search.compare).min(len - search.walked.min(len));
        let (from, start) = (search.from, search.walked);
        let mut look = |walked: usize, other: &Owned| {
            search.walked += 1;
            if **other != *element {
                return search.wanted > 0;
            }
            if search.skip > 0 {
                search.skip -= 1;
            } else {
                search.wanted -= 1;
                show(if from == End::Left { walked } else { len - 1 - walked });
            }
            search.wanted > 0
        };
        let _ended = match from {
            End::Left => self
                .elements_from(start)
                .take(steps)
                .enumerate()
                .all(|(at, other)| look(start + at, other)),
            End::Right => {
                let back = self.elements_back_from(len - start.min(len));
                back.take(steps).enumerate().all(|(at, other)| look(start + at, other))
            }
        };
        search.compare -= search.walked - start;
        search.wanted == 0 || search.compare == 0 || search.walked >= len
    }

    /// Compares up to `budget` elements, removes those that are equal and wanted, and says whether that was all. Shows the index of each
    /// as it is removed: putting them back, the last first, is the inverse. O(budget + one deque for each element removed).
    #[must_use = "until it says true, there is more to remove"]
    pub fn remove_some(
        &mut self,
        removal: &mut Removal,
        element: &[u8],
        budget: usize,
        show: &mut dyn FnMut(usize),
    ) -> bool {
        let mut budget = budget.max(1);
        while removal.left > 0 && removal.kept < self.len() {
            if budget == 0 {
                return false;
            }
            let len = self.len();
            let walked = match removal.from {
                End::Left => self
                    .elements_from(removal.kept)
                    .take(budget)
                    .take_while(|other| ***other != *element)
                    .count(),
                End::Right => {
                    let back = self.elements_back_from(len - removal.kept);
                    back.take(budget).take_while(|other| ***other != *element).count()
                }
            };
            removal.kept += walked;
            budget -= walked;
            if budget == 0 || removal.kept == len {
                continue;
            }
            let index = if removal.from == End::Left {
                removal.kept
            } else {
                len - 1 - removal.kept
            };
            self.remove_range(index..index + 1, &mut |_| {});
            show(index);
            removal.removed += 1;
            removal.left -= 1;
            budget -= 1;
        }
        true
    }

    fn elements_from(&self, index: usize) -> impl Iterator<Item = &Owned> {
        let (at, within) = self.deques.at_rank(index);
        self.deques
            .chunks_from(at)
            .flat_map(|deque| &deque.elements)
            .skip(within)
    }

    /// The elements before an index, the nearest first.
    pub(super) fn elements_back_from(&self, index: usize) -> impl Iterator<Item = &Owned> {
        let (at, within) = self.deques.at_rank(index);
        let after = self.deques.chunk(at).elements.len() - within;
        self.deques
            .chunks_back_from(at)
            .flat_map(|deque| deque.elements.iter().rev())
            .skip(after)
    }
}
