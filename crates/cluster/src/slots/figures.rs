//! What a machine counts for metrics and status.

use super::Machine;
use super::state::{Role, Stage};

/// The state of a machine in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Slots that this node holds.
    pub held: usize,
    /// Slots that it holds and the ring gives to another member.
    pub to_move: usize,
    /// Slots that are frozen, or offered.
    pub moving: usize,
    /// Held slots that have a follower which is in step.
    pub followed: usize,
    /// Slots that it follows.
    pub replicas: usize,
    /// Of these, those that had all that the holder has sent.
    pub replicas_in_step: usize,
    /// Slots of which no holder is known.
    pub unknown: usize,
    /// Followers that wait for a copy.
    pub copies_waiting: usize,
    /// The age of the oldest change that a follower in step has not acknowledged, in microseconds.
    pub lag_us: u64,
    /// The highest epoch of any slot.
    pub epoch_max: u64,
}

/// What the journals of a machine have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalSums {
    /// Buckets, those under way included.
    pub buckets: usize,
    /// Tokens of all of them.
    pub tokens: u64,
    /// Buckets that were sent and are not acknowledged.
    pub unacknowledged: usize,
    /// Tokens that were forgotten because a journal was full.
    pub dropped: u64,
}

impl Machine {
    /// Counts: it looks at every slot, so not to be called all the time.
    pub fn figures(&self, now_us: u64) -> Figures {
        let mut figures = Figures {
            moving: self.moving,
            ..Figures::default()
        };
        for slot in self.range() {
            let state = self.slot(slot);
            figures.unknown += usize::from(state.belief.holder.is_none());
            figures.epoch_max = figures.epoch_max.max(state.belief.epoch.0);
            match &state.role {
                Role::Away => {}
                Role::Replica(replica) => {
                    figures.replicas += 1;
                    figures.replicas_in_step += usize::from(replica.in_step);
                }
                Role::Held(held) => {
                    figures.held += 1;
                    figures.to_move += usize::from(self.should_move(slot));
                    figures.followed += usize::from(held.followers.iter().any(|follower| follower.in_step));
                    for follower in &held.followers {
                        figures.copies_waiting += usize::from(follower.stage == Stage::Waiting);
                        let lags_since_us = follower.lags_since_us().filter(|_| follower.in_step);
                        let lag_us = lags_since_us.map_or(0, |since_us| now_us.saturating_sub(since_us));
                        figures.lag_us = figures.lag_us.max(lag_us);
                    }
                }
            }
        }
        figures
    }

    /// What the journals have for others, and what was sent of it.
    pub fn journal_sums(&self) -> JournalSums {
        let under_way = self.debts.under_way.values().flat_map(|batch| &batch.debits);
        let (sent, sent_tokens) = under_way.fold((0, 0_u64), |(count, tokens), debit| {
            (count + 1, tokens.saturating_add(debit.tokens))
        });
        JournalSums {
            buckets: self.debts.journal.len() + sent,
            tokens: self.debts.journal.tokens().saturating_add(sent_tokens),
            unacknowledged: sent,
            dropped: self.debts.journal.dropped(),
        }
    }
}

/// What the simulator sees of a machine from outside.
#[cfg(test)]
impl Machine {
    /// The epoch with which this node holds a slot, unless it has offered it.
    pub(crate) fn claims(&self, slot: u16) -> Option<crate::member::Epoch> {
        let state = self.find(slot)?;
        (state.held().is_some() && state.offered().is_none()).then_some(state.belief.epoch)
    }

    /// Whether it came to hold the slot by a handover.
    pub(crate) fn cause(&self, slot: u16) -> bool {
        self.find(slot)
            .and_then(|state| state.held())
            .is_some_and(|held| held.handed)
    }

    /// Whether it took the slot over with a replica that was in step.
    pub(crate) fn took_in_step(&self, slot: u16) -> bool {
        self.find(slot)
            .and_then(|state| state.held())
            .is_some_and(|held| held.took_in_step)
    }

    /// Since when it has held the slot without a break.
    pub(crate) fn holds_since(&self, slot: u16) -> u64 {
        self.find(slot)
            .and_then(|state| state.held())
            .map_or(u64::MAX, |held| held.since_us)
    }

    /// All that its journals have.
    pub(crate) fn journalled(&self) -> Vec<crate::slots::Debit> {
        let under_way = self.debts.under_way.values().flat_map(|batch| batch.debits.clone());
        let mut journal = self.debts.journal.clone();
        let noted = self
            .range()
            .flat_map(|slot| journal.take(slot, usize::MAX))
            .collect::<Vec<_>>();
        under_way.chain(noted).collect()
    }

    /// To whom it has offered the slot.
    pub(crate) fn offered_to(&self, slot: u16) -> Option<&str> {
        let (to, _) = self.find(slot)?.offered()?;
        Some(&self.peers.get(to).id.name)
    }
}
