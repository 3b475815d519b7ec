//! What a node has admitted that the state of a slot elsewhere may lack: tokens by bucket, bounded.

use crate::slots::Debit;
use bytes::Bytes;
use std::collections::BTreeMap;

/// In which state of the slot the tokens of an admission are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The holder's own: in the state of this node.
    Held,
    /// A stand-in's: in its replica.
    Heir,
    /// A local share's, or a debit's that has to go on: in no state of the slot.
    Local,
}

/// Tokens of one bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Owed {
    parameters: Bytes,
    /// In this node's own state of the slot.
    inside: u64,
    /// In no state of the slot at this node.
    outside: u64,
}

/// The admissions of one worker by slot and bucket.
#[derive(Debug, Clone)]
pub struct Journal {
    slots: BTreeMap<u16, BTreeMap<Bytes, Owed>>,
    entries: usize,
    entries_max: usize,
    /// Where the search for the least valuable entry goes on.
    hand: u16,
    dropped: u64,
}

impl Journal {
    /// An empty journal for so many buckets.
    pub fn new(entries_max: usize) -> Self {
        Self {
            slots: BTreeMap::new(),
            entries: 0,
            entries_max: entries_max.max(1),
            hand: 0,
            dropped: 0,
        }
    }

    /// Notes an admission.
    pub fn add(&mut self, slot: u16, admission: Admission, debit: &Debit) {
        let (inside, outside) = match admission {
            Admission::Local => (0, debit.tokens),
            Admission::Held | Admission::Heir => (debit.tokens, 0),
        };
        if let Some(owed) = self
            .slots
            .get_mut(&slot)
            .and_then(|buckets| buckets.get_mut(&debit.bucket))
        {
            owed.inside = owed.inside.saturating_add(inside);
            owed.outside = owed.outside.saturating_add(outside);
            owed.parameters.clone_from(&debit.parameters);
            return;
        }
        if self.entries >= self.entries_max {
            self.drop_one();
        }
        let owed = Owed {
            parameters: debit.parameters.clone(),
            inside,
            outside,
        };
        self.slots.entry(slot).or_default().insert(debit.bucket.clone(), owed);
        self.entries += 1;
    }

    /// How many buckets it has.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many tokens it has. It looks at every bucket, so not to be called all the time.
    pub fn tokens(&self) -> u64 {
        let owed = self.slots.values().flat_map(BTreeMap::values);
        owed.fold(0, |sum, owed| {
            sum.saturating_add(owed.inside).saturating_add(owed.outside)
        })
    }

    /// How many tokens were forgotten because it was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The slots of which it has something.
    pub fn slots(&self) -> impl Iterator<Item = u16> {
        self.slots.keys().copied()
    }

    /// Whether it has something of a slot.
    pub fn has(&self, slot: u16) -> bool {
        self.slots.contains_key(&slot)
    }

    /// Takes up to `max` buckets of a slot out, all their tokens.
    pub fn take(&mut self, slot: u16, max: usize) -> Vec<Debit> {
        let mut taken = Vec::new();
        let Some(buckets) = self.slots.get_mut(&slot) else {
            return taken;
        };
        while taken.len() < max {
            let Some((bucket, owed)) = buckets.pop_first() else {
                break;
            };
            let tokens = owed.inside.saturating_add(owed.outside);
            taken.push(Debit {
                bucket,
                parameters: owed.parameters,
                tokens,
            });
        }
        self.entries -= taken.len();
        if buckets.is_empty() {
            self.slots.remove(&slot);
        }
        taken
    }

    /// What is in this node's state of a slot, which stays.
    pub fn inside(&self, slot: u16) -> Vec<Debit> {
        let buckets = self
            .slots
            .get(&slot)
            .into_iter()
            .flatten()
            .filter(|(_, owed)| owed.inside > 0);
        let debit = |(bucket, owed): (&Bytes, &Owed)| Debit {
            bucket: bucket.clone(),
            parameters: owed.parameters.clone(),
            tokens: owed.inside,
        };
        buckets.map(debit).collect()
    }

    /// Nobody needs to know what is in this node's state of a slot: it has gone along with it, or the state is the one that counts.
    pub fn forget_inside(&mut self, slot: u16) {
        let Some(buckets) = self.slots.get_mut(&slot) else {
            return;
        };
        let before = buckets.len();
        buckets.retain(|_, owed| {
            owed.inside = 0;
            owed.outside > 0
        });
        self.entries -= before - buckets.len();
        if buckets.is_empty() {
            self.slots.remove(&slot);
        }
    }

    /// The state of the slot at this node has been overwritten: nothing is in it for certain.
    pub fn overwritten(&mut self, slot: u16) {
        for owed in self
            .slots
            .get_mut(&slot)
            .into_iter()
            .flat_map(|buckets| buckets.values_mut())
        {
            owed.outside = owed.outside.saturating_add(std::mem::take(&mut owed.inside));
        }
    }

    /// This node's state of the slot counts from now on: answers what it lacks, which the caller takes from it.
    pub fn settle(&mut self, slot: u16) -> Vec<Debit> {
        let mut lacking = Vec::new();
        for (bucket, owed) in self.slots.get_mut(&slot).into_iter().flatten() {
            let tokens = std::mem::take(&mut owed.outside);
            owed.inside = owed.inside.saturating_add(tokens);
            if tokens > 0 {
                lacking.push(Debit {
                    bucket: bucket.clone(),
                    parameters: owed.parameters.clone(),
                    tokens,
                });
            }
        }
        lacking
    }

    /// Drops the bucket with the fewest tokens of the next few.
    fn drop_one(&mut self) {
        const LOOKED_AT: usize = 16;
        let hand = self.hand;
        let from_hand = self.slots.range(hand..).chain(self.slots.range(..hand));
        let all = from_hand.flat_map(|(slot, buckets)| buckets.iter().map(move |(bucket, owed)| (*slot, bucket, owed)));
        let tokens = |owed: &Owed| owed.inside.saturating_add(owed.outside);
        let least = all.take(LOOKED_AT).min_by_key(|(_, _, owed)| tokens(owed));
        let Some((slot, bucket, owed)) = least.map(|(slot, bucket, owed)| (slot, bucket.clone(), tokens(owed))) else {
            return;
        };
        self.dropped = self.dropped.saturating_add(owed);
        self.hand = slot.wrapping_add(1);
        if let Some(buckets) = self.slots.get_mut(&slot) {
            buckets.remove(&bucket);
            if buckets.is_empty() {
                self.slots.remove(&slot);
            }
        }
        self.entries -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debit(bucket: &'static str, tokens: u64) -> Debit {
        Debit {
            bucket: bucket.into(),
            parameters: "p".into(),
            tokens,
        }
    }

    #[test]
    fn tokens_of_a_bucket_add_up_and_leave_once() {
        let mut journal = Journal::new(10);
        journal.add(3, Admission::Heir, &debit("a", 2));
        journal.add(3, Admission::Local, &debit("a", 5));
        journal.add(3, Admission::Held, &debit("b", 1));
        assert_eq!(journal.take(3, 1), [debit("a", 7)]);
        assert_eq!(journal.take(3, 9), [debit("b", 1)]);
        assert!(journal.is_empty() && !journal.has(3) && journal.take(3, 9).is_empty());
    }

    #[test]
    fn a_state_lacks_what_local_shares_admitted_and_after_it_was_overwritten_all() {
        let mut journal = Journal::new(10);
        journal.add(3, Admission::Heir, &debit("a", 2));
        journal.add(3, Admission::Local, &debit("a", 5));
        assert_eq!(journal.settle(3), [debit("a", 5)]);
        assert_eq!(journal.settle(3), []);
        journal.overwritten(3);
        assert_eq!(journal.settle(3), [debit("a", 7)]);
    }

    #[test]
    fn what_went_along_with_a_slot_is_forgotten_and_the_rest_stays() {
        let mut journal = Journal::new(10);
        journal.add(3, Admission::Held, &debit("a", 2));
        journal.add(3, Admission::Local, &debit("a", 5));
        journal.add(3, Admission::Held, &debit("b", 1));
        assert_eq!(journal.inside(3), [debit("a", 2), debit("b", 1)]);
        journal.forget_inside(3);
        assert_eq!((journal.len(), journal.inside(3)), (1, vec![]));
        assert_eq!(journal.take(3, 9), [debit("a", 5)]);
    }

    #[test]
    fn a_full_journal_drops_the_smallest_and_counts_its_tokens() {
        let mut journal = Journal::new(3);
        for (bucket, tokens) in [("a", 9), ("b", 2), ("c", 5), ("d", 7)] {
            journal.add(1, Admission::Local, &debit(bucket, tokens));
        }
        assert_eq!((journal.len(), journal.dropped()), (3, 2));
        assert_eq!(journal.take(1, 9), [debit("a", 9), debit("c", 5), debit("d", 7)]);
    }
}
