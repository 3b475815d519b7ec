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
}
