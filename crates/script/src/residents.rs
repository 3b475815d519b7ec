//! Which parameters have a table in a VM. There are so many slots; once all are taken, parameters that were not used for
//! some time give theirs up, one for one (the clock algorithm).

use crate::params::ParamsId;

/// Parameters that have a table in a VM at one time. Bounds what a full collection has to visit.
pub(crate) const RESIDENT_MAX: usize = 4096;

/// How many slots are passed over, in the search for one, because their parameters were used since it last came by.
const CHANCES: usize = 32;

struct Slot {
    holder: ParamsId,
    /// The round in which it was last used.
    round: u64,
    /// Used since the hand last came by.
    used: bool,
}

/// The slots of one VM.
pub(crate) struct Residents {
    slots: Vec<Slot>,
    max: usize,
    hand: usize,
    /// What was used in the current round keeps its slot to the end of it.
    round: u64,
}

impl Residents {
    pub(crate) fn new(max: usize) -> Residents {
        Residents {
            slots: Vec::new(),
            max,
            hand: 0,
            round: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Notes that the slot was used.
    #[inline]
    pub(crate) fn touch(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize - 1];
        slot.round = self.round;
        slot.used = true;
    }

    /// A slot for `holder`, and who has to give it up. Slots are numbered from 1. A round must claim fewer than there are.
    pub(crate) fn claim(&mut self, holder: ParamsId) -> (u32, Option<ParamsId>) {
        let slot = Slot {
            holder,
            round: self.round,
            used: true,
        };
        if self.slots.len() < self.max {
            self.slots.push(slot);
            return (self.slots.len() as u32, None);
        }
        let mut chances = CHANCES;
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let there = &mut self.slots[at];
            if there.round == self.round {
                continue;
            }
            if there.used && chances > 0 {
                there.used = false;
                chances -= 1;
                continue;
            }
            let before = std::mem::replace(there, slot);
            return (at as u32 + 1, Some(before.holder));
        }
    }

    /// Empties all slots, and says who had one.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = ParamsId> {
        self.hand = 0;
        std::mem::take(&mut self.slots).into_iter().map(|slot| slot.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_takes_the_slot_of_one() {
        let mut residents = Residents::new(8);
        for holder in 0..8 {
            residents.begin_round();
            assert_eq!(residents.claim(ParamsId(holder)), (holder + 1, None));
        }
        for holder in 8..1000 {
            residents.begin_round();
            let (slot, before) = residents.claim(ParamsId(holder));
            // All others are as old as they are.
            assert_eq!(before, Some(ParamsId(holder - 8)));
            assert_eq!(slot, holder % 8 + 1);
        }
    }

    #[test]
    fn what_is_in_use_stays() {
        let mut residents = Residents::new(100);
        for holder in 0..100 {
            residents.claim(ParamsId(holder));
        }
        for holder in 100..10_000 {
            residents.begin_round();
            residents.touch(7);
            // Others of the same round stay, too.
            let (first, _) = residents.claim(ParamsId(holder));
            let (second, before) = residents.claim(ParamsId(holder));
            assert_ne!(first, second);
            assert_ne!(before, Some(ParamsId(6)));
        }
    }
}
