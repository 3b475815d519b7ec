//! Steps of commands over all keys, in those slots of a worker that the node holds.

use crate::loans::KeyJob;
use crate::node::Place;
use crate::stretch::Stretch;
use crate::worker::Worker;
use std::rc::Rc;
use tokio::sync::oneshot;
use tollgate_commands::{KeyspaceAnswer, KeyspaceOp, SlotPosition, SlotScan, SlotScanned};
use tollgate_store::SlotSet;

/// What a worker is asked to do.
#[derive(Debug)]
pub enum SlotsOp {
    /// Count the keys of a database in some slots.
    Count(u8, SlotSet),
    /// Look at some keys of some slots. A position in the first of them means something if the mark is that of the slot's epoch.
    Scan(SlotScan, u8, SlotSet),
    /// Pick a key of a database.
    Random(u8),
    /// Empty a database, or everything, in all slots that are held. The shard is frozen.
    Flush(Option<u8>),
}

/// What it came to.
#[derive(Debug)]
pub enum SlotsDone {
    /// So many keys, and the slots that are not held.
    Counted(u64, SlotSet),
    /// Some keys, the mark of where to go on, and the slots that are not held.
    Scanned(SlotScanned, u8, SlotSet),
    /// A key, if there is one.
    Random(Option<Box<[u8]>>),
    /// These slots are empty, and those that follow them are told.
    Flushed(SlotSet),
    /// Keys were in use for too long; nothing was done.
    Busy,
    /// What was flushed is freed.
    Freed,
}

impl Worker {
    /// Does a step, and sends what it came to.
    pub fn run_slots_op(self: &Rc<Self>, op: SlotsOp, reply_to: oneshot::Sender<SlotsDone>) {
        let stretch = Stretch::long();
        self.decide_checks();
        let now_us = self.node.clock.at(stretch.started());
        let done = match op {
            SlotsOp::Count(db, slots) => {
                let (here, missed) = self.split_held(&slots);
                SlotsDone::Counted(self.shard.borrow().count_in(db, &here) as u64, missed)
            }
            SlotsOp::Scan(mut scan, mark, slots) => {
                let (here, missed) = self.split_held(&slots);
                if mark != self.mark_of(scan.from) {
                    scan.from.position = 0;
                }
                let found = self.shard.borrow_mut().scan_in(&scan, &here, now_us);
                let mark = found.next.map_or(0, |next| self.mark_of(next));
                SlotsDone::Scanned(found, mark, missed)
            }
            SlotsOp::Random(db) => {
                let answer = self.shard.borrow_mut().keyspace(&KeyspaceOp::Random { db }, now_us);
                SlotsDone::Random(match answer {
                    KeyspaceAnswer::Random(key) => key,
                    _ => None,
                })
            }
            SlotsOp::Flush(db) => {
                let worker = Rc::clone(self);
                tokio::task::spawn_local(async move {
                    // Whoever asked may be gone.
                    let _ = reply_to.send(SlotsDone::Flushed(worker.flush_held(db).await));
                });
                return;
            }
        };
        stretch.end(self.counters());
        let _ = reply_to.send(done);
    }

    /// Which of some slots this node holds in this worker's range, and which not.
    fn split_held(&self, slots: &SlotSet) -> (SlotSet, SlotSet) {
        let is_here = |slot: &u16| self.node.place(*slot) == Place::Of(self.index);
        let here: SlotSet = slots.iter().filter(is_here).collect();
        let mut missed = slots.clone();
        missed.subtract(&here);
        (here, missed)
    }

    /// By what a place in a scan shows that it is one in the order of this store: the slot's epoch, which is another one with each holder.
    fn mark_of(&self, at: SlotPosition) -> u8 {
        match (at.position, &self.links) {
            (0, _) | (_, None) => 0,
            // Its lowest bits: between two steps of a scan a slot changes hands less often than that.
            (_, Some(links)) => links.machine.borrow().epoch(at.slot).0 as u8,
        }
    }

    /// Empties the slots that are held, in bounded steps; none of them is handed over meanwhile. Answers which they are.
    async fn flush_held(self: &Rc<Self>, db: Option<u8>) -> SlotSet {
        let range = self.node.shard_slots()[self.index].clone();
        let (here, _) = self.split_held(&SlotSet::of(range));
        let _flushing = self.links.as_ref().map(|links| links.flushing.open());
        let mut flushing = self.shard.borrow_mut().begin_flush_in(db, &here);
        loop {
            let stretch = Stretch::long();
            let is_done = self.shard.borrow_mut().go_on_flushing(&mut flushing);
            stretch.end(self.counters());
            if is_done {
                return here;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Asks a worker of this node for a step. Not through its mailbox, which may be full of what waits for who asks.
    pub(super) fn ask_slots(&self, worker: usize, op: SlotsOp) -> oneshot::Receiver<SlotsDone> {
        let (reply_to, answer) = oneshot::channel();
        self.node.key_job(worker, KeyJob::Slots(op, reply_to));
        answer
    }
}
