//! Random elements, by their rank.

use std::collections::HashMap;

use rapidhash::fast::SeedableState;

/// A number below `bound`, from a random one.
pub(crate) fn below(bound: usize, random: u64) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}

/// Distinct ranks below a length, in random order, one at a time: for SRANDMEMBER, HRANDFIELD and ZRANDMEMBER with a positive
/// count. Good for as long as the value is not changed. Each step is O(1); `count` ranks take about 32 bytes each.
///
/// It shuffles the ranks (Fisher and Yates), and remembers only those that are no longer in their place.
#[derive(Debug)]
pub struct Sample {
    len: usize,
    left: usize,
    next: usize,
    moved: HashMap<usize, usize, SeedableState<'static>>,
}

impl Sample {
    /// `count` of `len` ranks; all of them if there are fewer.
    pub fn new(len: usize, count: usize) -> Sample {
        let left = count.min(len);
        Sample {
            len,
            left,
            next: 0,
            // At once, so that no step has to grow it.
            moved: HashMap::with_capacity_and_hasher(if left == len { 0 } else { left }, SeedableState::fixed()),
        }
    }

    /// One rank more, by a random number. Those of a sample of all come in order, as Redis answers them.
    pub fn next(&mut self, random: impl FnOnce() -> u64) -> Option<usize> {
        let at = self.next;
        self.left = self.left.checked_sub(1)?;
        self.next += 1;
        if self.moved.capacity() == 0 {
            return Some(at);
        }
        let other = at + below(self.len - at, random());
        let here = self.moved.remove(&at).unwrap_or(at);
        if other == at {
            return Some(here);
        }
        Some(self.moved.insert(other, here).unwrap_or(other))
    }

    /// How many are still to come.
    pub fn left(&self) -> usize {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    #[test]
    fn every_rank_comes_once_and_equally_often() {
        let mut random = Random::new(1);
        let mut times = [0; 20];
        for _ in 0..20_000 {
            let mut sample = Sample::new(20, 5);
            let mut ranks = Vec::new();
            while let Some(rank) = sample.next(|| random.next()) {
                ranks.push(rank);
            }
            ranks.iter().for_each(|&rank| times[rank] += 1);
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), 5);
        }
        assert!(times.iter().all(|&times| (4700..5300).contains(&times)), "{times:?}");
    }

    #[test]
    fn a_sample_of_all_is_all() {
        for count in [3, 7] {
            let mut sample = Sample::new(3, count);
            let ranks: Vec<usize> = std::iter::from_fn(|| sample.next(|| 0)).collect();
            assert_eq!(ranks, [0, 1, 2]);
        }
        assert_eq!(Sample::new(0, 3).next(|| 0), None);
    }
}
