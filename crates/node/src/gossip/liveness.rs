//! Who is alive: what chitchat's failure detector says, but nobody is dead before a time of silence.
//!
//! Phi compares a silence with the mean interval between heartbeats. Heartbeats come by all members, so in a larger cluster the mean is
//! a few tens of milliseconds, and a thread that waits its turn on a busy machine would already be dead. And a node that was itself
//! stopped for a while has heard nobody: the time in which it did not run is nobody's silence.

use std::collections::HashMap;
use std::hash::Hash;

/// What is remembered of each process.
#[derive(Debug, Clone, Copy)]
struct Life {
    heartbeat: u64,
    /// When the heartbeat was last seen to have risen.
    beat_us: u64,
    alive: bool,
    /// Whether it was there in the last look.
    seen: bool,
}

/// Decides who is alive, look by look.
#[derive(Debug)]
pub(super) struct Liveness<Id> {
    lives: HashMap<Id, Life>,
    silence_min_us: u64,
    looked_us: u64,
}

/// Two looks that are further apart mean that this node did not run.
const PAUSE_US: u64 = 500_000;

impl<Id: Clone + Eq + Hash> Liveness<Id> {
    /// Nobody is dead who was heard in the last `silence_min_us`.
    pub(super) fn new(silence_min_us: u64, now_us: u64) -> Self {
        Self {
            lives: HashMap::new(),
            silence_min_us,
            looked_us: now_us,
        }
    }

    /// Begins a look: [`see`](Self::see) each process then, and [`end`](Self::end).
    pub(super) fn begin(&mut self, now_us: u64) {
        let gap_us = now_us - self.looked_us;
        for life in self.lives.values_mut() {
            life.seen = false;
            if gap_us > PAUSE_US {
                life.beat_us += gap_us;
            }
        }
        self.looked_us = now_us;
    }

    /// A process that gossip knows, and whether the failure detector takes it to be alive. Returns whether it is.
    pub(super) fn see(&mut self, id: &Id, heartbeat: u64, detected: bool) -> bool {
        let now_us = self.looked_us;
        let life = self.lives.entry(id.clone()).or_insert(Life {
            heartbeat,
            beat_us: now_us,
            alive: false,
            seen: true,
        });
        life.seen = true;
        if heartbeat > life.heartbeat {
            life.heartbeat = heartbeat;
            life.beat_us = now_us;
        }
        life.alive = detected || (life.alive && now_us < life.beat_us.saturating_add(self.silence_min_us));
        life.alive
    }

    /// Forgets whom gossip has forgotten.
    pub(super) fn end(&mut self) {
        self.lives.retain(|_, life| life.seen);
    }

    /// How long nothing was heard of a process.
    pub(super) fn silent_us(&self, id: &Id) -> u64 {
        self.lives
            .get(id)
            .map_or(0, |life| self.looked_us.saturating_sub(life.beat_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    fn look(liveness: &mut Liveness<char>, at_ms: u64, heartbeat: u64, detected: bool) -> bool {
        liveness.begin(at_ms * MS);
        let alive = liveness.see(&'a', heartbeat, detected);
        liveness.end();
        alive
    }

    #[test]
    fn nobody_is_dead_before_its_silence_is_long_enough() {
        let mut liveness = Liveness::new(1_000 * MS, 0);
        assert!(!look(&mut liveness, 100, 1, false), "never alive yet");
        assert!(look(&mut liveness, 200, 2, true));
        for at_ms in (300..1_200).step_by(100) {
            assert!(look(&mut liveness, at_ms, 2, false), "{at_ms} ms");
        }
        assert!(!look(&mut liveness, 1_200, 2, false));
        assert_eq!(liveness.silent_us(&'a'), 1_000 * MS);
        assert!(
            !look(&mut liveness, 1_300, 3, false),
            "the detector decides who comes back"
        );
        assert!(look(&mut liveness, 1_400, 4, true));
    }

    #[test]
    fn the_detector_may_take_longer() {
        let mut liveness = Liveness::new(1_000 * MS, 0);
        for at_ms in (0..5_000).step_by(100) {
            assert!(look(&mut liveness, at_ms, 1, true));
        }
        assert!(!look(&mut liveness, 5_000, 1, false));
    }

    #[test]
    fn a_pause_of_this_node_is_nobodys_silence() {
        let mut liveness = Liveness::new(1_000 * MS, 0);
        assert!(look(&mut liveness, 100, 1, true));
        assert!(look(&mut liveness, 60_000, 1, false));
        for at_ms in (60_100..61_000).step_by(100) {
            assert!(look(&mut liveness, at_ms, 1, false), "{at_ms} ms");
        }
        assert!(!look(&mut liveness, 61_000, 1, false));
    }

    #[test]
    fn who_is_forgotten_takes_no_memory() {
        let mut liveness = Liveness::new(1_000 * MS, 0);
        for number in 0..100 {
            liveness.begin(number);
            liveness.see(&number, 1, true);
            liveness.end();
        }
        assert_eq!(liveness.lives.len(), 1);
    }
}
