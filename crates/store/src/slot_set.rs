//! Sets of slots.

use crate::slot::SLOTS;
use std::ops::Range;

const BITS: usize = u64::BITS as usize;
const WORDS: usize = SLOTS as usize / BITS;

/// A set of slots: one bit for each.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet {
    words: Box<[u64; WORDS]>,
}

impl Default for SlotSet {
    fn default() -> Self {
        Self {
            words: Box::new([0; WORDS]),
        }
    }
}

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SlotSet").field(&self.len()).finish()
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<T: IntoIterator<Item = u16>>(slots: T) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl SlotSet {
    /// All slots.
    #[must_use]
    pub fn all() -> Self {
        Self {
            words: Box::new([u64::MAX; WORDS]),
        }
    }

    /// The slots of a range; those that do not exist are left out.
    #[must_use]
    pub fn of(range: Range<u16>) -> Self {
        range.collect()
    }

    /// Adds a slot, if it exists.
    pub fn insert(&mut self, slot: u16) {
        if let Some(word) = self.words.get_mut(usize::from(slot) / BITS) {
            *word |= 1 << (usize::from(slot) % BITS);
        }
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slot: u16) {
        if let Some(word) = self.words.get_mut(usize::from(slot) / BITS) {
            *word &= !(1 << (usize::from(slot) % BITS));
        }
    }

    /// Whether a slot is in it.
    #[must_use]
    pub fn contains(&self, slot: u16) -> bool {
        let word = self.words.get(usize::from(slot) / BITS);
        word.is_some_and(|word| word & 1 << (usize::from(slot) % BITS) != 0)
    }

    /// Whether none is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// How many are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds those of another set.
    pub fn add(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(other.words.iter()) {
            *word |= other;
        }
    }

    /// Takes those of another set out.
    pub fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(other.words.iter()) {
            *word &= !other;
        }
    }

    /// The slots, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                // The lowest bit goes; of 0 nothing is left.
                rest &= rest.checked_sub(1)?;
                Some((at * BITS) as u16 + bit as u16)
            })
        })
    }

    /// As bytes: the number of the first byte that is not 0 (two bytes, the least first), then from there to the last. Eight slots a byte,
    /// the lowest in the lowest bit.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let all: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let first = all.iter().position(|&byte| byte != 0).unwrap_or(0);
        let end = all.iter().rposition(|&byte| byte != 0).map_or(first, |last| last + 1);
        let mut bytes = (first as u16).to_le_bytes().to_vec();
        bytes.extend_from_slice(&all[first..end]);
        bytes
    }

    /// The set that [`SlotSet::to_bytes`] wrote; `None` if it wrote no such bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, bytes) = bytes.split_first_chunk::<2>()?;
        let first = usize::from(u16::from_le_bytes(*first));
        if first + bytes.len() > WORDS * 8 {
            return None;
        }
        let mut set = Self::default();
        for (at, &byte) in bytes.iter().enumerate() {
            let at = first + at;
            set.words[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_are_all_and_none_is_none() {
        let all = SlotSet::all();
        assert!(all.iter().eq(0..SLOTS) && all.len() == usize::from(SLOTS) && all == SlotSet::of(0..SLOTS));
        let mut none = all.clone();
        none.subtract(&all);
        assert!(none.is_empty() && none.iter().next().is_none() && none == SlotSet::default());
        assert!(!all.contains(SLOTS) && !SlotSet::of(SLOTS..u16::MAX).contains(SLOTS));
    }

    #[test]
    fn bytes_are_as_few_as_they_can_be() {
        assert_eq!(SlotSet::default().to_bytes(), [0, 0]);
        assert_eq!(SlotSet::of(8..10).to_bytes(), [1, 0, 3]);
        assert_eq!(SlotSet::of(SLOTS - 1..SLOTS).to_bytes(), [0xff, 0x07, 0x80]);
        assert_eq!(SlotSet::all().to_bytes().len(), 2 + usize::from(SLOTS) / 8);
        for wrong in [&b""[..], b"\0", b"\xff\x07\x01\x01", b"\x00\x08\x01", b"\xff\xff\x01"] {
            assert_eq!(SlotSet::from_bytes(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn it_is_a_set(
            slots in prop::collection::btree_set(0..SLOTS, 0..200),
            others in prop::collection::btree_set(0..SLOTS, 0..200),
        ) {
            let (set, other): (SlotSet, SlotSet) = (slots.iter().copied().collect(), others.iter().copied().collect());
            prop_assert!(set.iter().eq(slots.iter().copied()) && set.len() == slots.len());
            prop_assert_eq!(SlotSet::from_bytes(&set.to_bytes()), Some(set.clone()));
            let mut sum = set.clone();
            sum.add(&other);
            prop_assert!(sum.iter().eq(slots.union(&others).copied()));
            sum.subtract(&other);
            prop_assert!(sum.iter().eq(slots.difference(&others).copied()));
            for slot in slots {
                sum.remove(slot);
                prop_assert!(set.contains(slot) && !sum.contains(slot));
            }
            prop_assert!(sum.is_empty());
        }
    }
}
