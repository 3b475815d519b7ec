//! Steps of commands over all keys, as a node takes them that is asked by a client.

use super::parts::{Part, Unanswered};
use super::steps::{SlotsDone, SlotsOp};
use crate::worker::Worker;
use std::rc::Rc;
use tollgate_commands::{KeyspaceAnswer, KeyspaceOp};
use tollgate_store::SlotSet;

impl Worker {
    /// Does one step of a command over all keys, on all nodes. `has_node` says whether this node is the caller's for as long as it takes.
    ///
    /// # Errors
    /// [`Unanswered`]; a flush is done where that was possible.
    pub async fn keyspace_everywhere(
        self: &Rc<Self>,
        op: KeyspaceOp,
        has_node: bool,
    ) -> Result<KeyspaceAnswer, Unanswered> {
        Ok(match op {
            KeyspaceOp::Len { db } => {
                let counts = self.count_parts(db).await?;
                KeyspaceAnswer::Len(counts.iter().map(|(_, count)| *count as usize).sum())
            }
            KeyspaceOp::Random { db } => KeyspaceAnswer::Random(self.random_everywhere(db).await?),
            KeyspaceOp::Scan(op) => KeyspaceAnswer::Scanned(self.scan_everywhere(op).await?),
            KeyspaceOp::Flush { db } => {
                self.flush_everywhere(db, has_node).await?;
                KeyspaceAnswer::Flushed
            }
            KeyspaceOp::Free => {
                self.free_everywhere().await?;
                KeyspaceAnswer::Freed { more: false }
            }
            // Only scripts ask for names, those of their node.
            KeyspaceOp::Names { .. } => KeyspaceAnswer::Names(Vec::new(), None, Vec::new()),
        })
    }

    /// How many keys of a database each worker of each node has. A slot that moves meanwhile is counted once.
    async fn count_parts(self: &Rc<Self>, db: u8) -> Result<Vec<(Part, u64)>, Unanswered> {
        let mut counts = Vec::new();
        let ask = |slots: &SlotSet| SlotsOp::Count(db, slots.clone());
        let take = |part: &Part, asked: SlotSet, done: SlotsDone| {
            let SlotsDone::Counted(count, missed) = done else {
                return SlotSet::default();
            };
            counts.push((part.clone(), count));
            let mut done = asked;
            done.subtract(&missed);
            done
        };
        self.in_slots(SlotSet::all(), self.wide_deadline(), ask, take).await?;
        Ok(counts)
    }

    /// A key that exists: of a worker that is picked by how many it has, else of another.
    async fn random_everywhere(self: &Rc<Self>, db: u8) -> Result<Option<Box<[u8]>>, Unanswered> {
        let deadline = self.wide_deadline();
        let mut counts = self.count_parts(db).await?;
        let mut unanswered = Unanswered::default();
        while counts.iter().any(|(_, count)| *count > 0) {
            let total: u64 = counts.iter().map(|(_, count)| count).sum();
            let draw = self.shard.borrow_mut().next_draw();
            let mut rank = ((u128::from(draw) * u128::from(total)) >> 64) as u64;
            let is_it = |(_, count): &(Part, u64)| {
                let is_it = rank < *count;
                rank = rank.saturating_sub(*count);
                is_it
            };
            let Some(at) = counts.iter().position(is_it) else { break };
            let (part, _) = counts.swap_remove(at);
            match self.step_of(self.ask_part(part, SlotsOp::Random(db)), deadline).await {
                Ok(SlotsDone::Random(Some(key))) => return Ok(Some(key)),
                Ok(_) => {}
                Err(name) => unanswered.nodes.extend(name),
            }
        }
        match unanswered.nodes.is_empty() {
            true => Ok(None),
            false => Err(unanswered),
        }
    }
}
