//! SCAN and KEYS over all nodes: slots in ascending order, those of some at a time wherever they are.

use super::parts::Unanswered;
use super::steps::{SlotsDone, SlotsOp};
use crate::worker::Worker;
use std::rc::Rc;
use tollgate_commands::{KeyList, ScanCursor, ScanOp, Scanned, SlotPosition, SlotScan};
use tollgate_store::{Keyspace, SLOTS, SlotSet, slot_of};

/// The slots that are asked for together while nothing is known of how many keys they have.
const SLOTS_UNKNOWN: usize = 256;

impl Worker {
    /// How many slots together may have about as many keys, going by those that this worker holds.
    fn slots_for(&self, db: u8, keys: usize) -> usize {
        let held = self.links.as_ref().map_or(0, |links| links.machine.borrow().held());
        let here = self.shard.borrow().store().len(Keyspace::Db(db));
        match (held, here) {
            (0, _) => SLOTS_UNKNOWN,
            (_, 0) => usize::from(SLOTS),
            (held, here) => (keys * held).div_ceil(here).clamp(1, usize::from(SLOTS)),
        }
    }

    /// One step of a scan over all nodes.
    ///
    /// A key that is there from the first step to the last is shown, wherever its slot moves meanwhile: a slot is shown by who holds it, and
    /// who begins in the middle of one that has another order begins at its start.
    pub(super) async fn scan_everywhere(self: &Rc<Self>, op: ScanOp) -> Result<Scanned, Unanswered> {
        let (from, mark) = op.cursor.place_in_cluster();
        let end = (usize::from(from.slot) + self.slots_for(op.db, op.count)).min(usize::from(SLOTS)) as u16;
        let mut gathered = Gathered::default();
        let scan = SlotScan {
            db: op.db,
            from,
            count: op.count,
            pattern: op.pattern,
            of_type: op.of_type,
        };
        let slots = SlotSet::of(from.slot..end);
        let ask = |slots: &SlotSet| SlotsOp::Scan(scan.clone(), mark, slots.clone());
        let take = |_: &_, asked: SlotSet, done: SlotsDone| gathered.take(asked, done);
        self.in_slots(slots, self.wide_deadline(), ask, take).await?;
        Ok(gathered.finish(end))
    }
}

/// What the holders have shown so far.
#[derive(Default)]
struct Gathered {
    keys: Vec<(u16, Box<[u8]>)>,
    looked_at: usize,
    /// The first place at which one of them has stopped, and its mark.
    next: Option<(SlotPosition, u8)>,
}

impl Gathered {
    /// Takes what one has shown. Answers which slots are done, or are for the next step.
    fn take(&mut self, asked: SlotSet, done: SlotsDone) -> SlotSet {
        let SlotsDone::Scanned(found, mark, missed) = done else {
            return SlotSet::default();
        };
        self.looked_at += found.looked_at;
        self.keys.extend(found.keys.into_iter().map(|key| (slot_of(&key), key)));
        let mut done = asked;
        done.subtract(&missed);
        if let Some(next) = found.next {
            if self.next.is_none_or(|(least, _)| next < least) {
                self.next = Some((next, mark));
            }
            done.add(&SlotSet::of(next.slot..SLOTS));
        }
        done
    }

    /// What all have shown up to the first place at which one has stopped; at the end of the slots that were asked for, the next begins.
    fn finish(mut self, end: u16) -> Scanned {
        let next = match self.next {
            Some((next, mark)) => Some(ScanCursor::in_cluster(next, mark)),
            None if end < SLOTS => Some(ScanCursor::in_cluster(SlotPosition::start_of(end), 0)),
            None => None,
        };
        if let Some((next, _)) = self.next {
            // Of its own slot they come from who stopped there.
            self.keys.retain(|(slot, _)| *slot <= next.slot);
        }
        let mut keys = KeyList::default();
        self.keys.iter().for_each(|(_, key)| keys.push(key));
        Scanned {
            keys,
            looked_at: self.looked_at,
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_commands::SlotScanned;

    fn shown(keys: &[&str], next: Option<(u16, u32)>) -> SlotScanned {
        SlotScanned {
            keys: keys.iter().map(|key| key.as_bytes().into()).collect(),
            looked_at: keys.len(),
            next: next.map(|(slot, position)| SlotPosition { slot, position }),
        }
    }

    #[test]
    fn what_comes_after_the_first_stop_is_for_the_next_step() {
        // foo has 12182, bar 5061, hello 866.
        let mut gathered = Gathered::default();
        let asked: SlotSet = [866, 12_182].into_iter().collect();
        let done = gathered.take(
            asked.clone(),
            SlotsDone::Scanned(shown(&["hello", "foo"], None), 0, SlotSet::default()),
        );
        assert_eq!(done, asked);
        let asked = SlotSet::of(5_000..6_000);
        let stopped = shown(&["bar"], Some((5_061, 77)));
        let done = gathered.take(asked, SlotsDone::Scanned(stopped, 3, SlotSet::of(5_000..5_001)));
        assert!(!done.contains(5_000) && done.contains(5_001) && done.contains(12_000));
        let scanned = gathered.finish(SLOTS);
        let next = SlotPosition {
            slot: 5_061,
            position: 77,
        };
        assert_eq!(scanned.next, Some(ScanCursor::in_cluster(next, 3)));
        let mut keys = KeyList::default();
        ["hello", "bar"].iter().for_each(|key| keys.push(key.as_bytes()));
        assert_eq!((scanned.keys, scanned.looked_at), (keys, 3));
    }

    #[test]
    fn a_step_ends_where_its_slots_do() {
        let mut gathered = Gathered::default();
        let done = SlotsDone::Scanned(shown(&["hello"], None), 0, SlotSet::default());
        gathered.take(SlotSet::of(0..1_000), done);
        let next = Some(ScanCursor::in_cluster(SlotPosition::start_of(1_000), 0));
        assert_eq!(gathered.finish(1_000).next, next);
        assert_eq!(Gathered::default().finish(SLOTS).next, None);
    }
}
