//! A set of slots, walked in ascending order: so is their memory.

const WORD_BITS: u16 = 64;
const WORDS: usize = crate::SLOTS as usize / WORD_BITS as usize;

/// A set of slots.
#[derive(Debug, Clone)]
pub(super) struct SlotSet {
    words: Box<[u64; WORDS]>,
    len: usize,
}

impl Default for SlotSet {
    fn default() -> Self {
        Self {
            words: Box::new([0; WORDS]),
            len: 0,
        }
    }
}

impl SlotSet {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, slot: u16) -> bool {
        let (word, bit) = Self::place(slot);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    pub fn insert(&mut self, slot: u16) {
        let (word, bit) = Self::place(slot);
        if let Some(word) = self.words.get_mut(word) {
            self.len += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub fn remove(&mut self, slot: u16) {
        let (word, bit) = Self::place(slot);
        if let Some(word) = self.words.get_mut(word) {
            self.len -= usize::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    /// Adds or removes a slot.
    pub fn set(&mut self, slot: u16, on: bool) {
        match on {
            true => self.insert(slot),
            false => self.remove(slot),
        }
    }

    /// The first slot of the set from `from` on.
    pub fn next(&self, from: u16) -> Option<u16> {
        if self.is_empty() {
            return None;
        }
        let first = usize::from(from / WORD_BITS);
        let mut word = *self.words.get(first)? & (u64::MAX << (from % WORD_BITS));
        for at in first..WORDS {
            if at > first {
                word = self.words[at];
            }
            if word != 0 {
                // Far below 2^16.
                return Some(at as u16 * WORD_BITS + word.trailing_zeros() as u16);
            }
        }
        None
    }

    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let slot = self.next(from)?;
            from = slot + 1;
            Some(slot)
        })
    }

    /// Becomes a copy of another set.
    pub fn copy_from(&mut self, other: &Self) {
        self.words.copy_from_slice(&*other.words);
        self.len = other.len;
    }

    /// Adds all slots of another set.
    pub fn extend(&mut self, other: &Self) {
        self.len = 0;
        for (word, more) in self.words.iter_mut().zip(other.words.iter()) {
            *word |= more;
            self.len += word.count_ones() as usize;
        }
    }

    fn place(slot: u16) -> (usize, u64) {
        (usize::from(slot / WORD_BITS), 1 << (slot % WORD_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set_in_order() {
        let mut set = SlotSet::default();
        let mut model = BTreeSet::new();
        let mut slot = 1_u32;
        for round in 0..4_000 {
            slot = slot * 1_103 % 16_411;
            let at = (slot % u32::from(crate::SLOTS)) as u16;
            if round % 3 == 0 {
                set.remove(at);
                model.remove(&at);
            } else {
                set.insert(at);
                model.insert(at);
            }
            assert_eq!(set.contains(at), model.contains(&at));
            assert_eq!(set.next(at), model.range(at..).next().copied());
        }
        assert!(set.iter().eq(model.iter().copied()) && !set.is_empty());
        let mut both = SlotSet::default();
        for edge in [0, 63, 64, crate::SLOTS - 1] {
            both.insert(edge);
            model.insert(edge);
        }
        both.extend(&set);
        assert!(both.iter().eq(model.iter().copied()));
        set.copy_from(&both);
        assert!(set.iter().eq(model.iter().copied()) && !set.is_empty());
        model.iter().for_each(|slot| both.remove(*slot));
        assert!(both.is_empty() && both.next(0).is_none());
    }
}
