//! Who comes and goes is let into the ring later each time, by a rule that every node applies to the same gossip.
//!
//! Each node counts whose departures from the ring it has seen lately, and gossips the counts ([`Departures`]). Of the counts of one
//! name the highest that a living member claims is true. A member gossips how many departures of its own it has atoned for (`returns`). A
//! member that is ready but has not atoned for its last departure is not in the ring ([`damped`]): so it does not matter whether it came
//! back as a new process, which knows of nothing, or as one that had only been thought dead.
//!
//! The member itself atones by waiting: nothing for its first departure, for a restart is no flapping, then 1, 2, 4, … up to 60 seconds
//! ([`delay_us`]), in which it says that it is joining. A count is forgotten a minute, and as long as it made its member wait, after the
//! last departure.
//!
//! A node that loses more than half of the ring within [`WINDOW_US`] was itself cut off, and claims none of these departures. Of two
//! halves that one may claim which has the smallest name.

use crate::member::MemberState;
use crate::view::{Heard, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long after a departure the next counts as one of a series.
const SERIES_US: u64 = 60_000_000;

/// The longest that a member waits.
const DELAY_MAX_US: u64 = 60_000_000;

/// Departures that are less than this apart may have one cause.
pub const WINDOW_US: u64 = 5_000_000;

/// Of how many names departures are counted; of more, those that left last.
pub const MAX_NAMES: usize = 64;

/// How long a member stays out of the ring after so many departures in a series.
#[must_use]
pub fn delay_us(departures: u32) -> u64 {
    match departures {
        0 | 1 => 0,
        more => 1_000_000_u64
            .checked_shl(more - 2)
            .map_or(DELAY_MAX_US, |delay| delay.min(DELAY_MAX_US)),
    }
}

/// How many departures of a name the living claim.
#[must_use]
pub fn claimed<'a>(by: impl IntoIterator<Item = &'a Heard>, name: &str) -> u32 {
    by.into_iter()
        .filter(|one| *one.member.id.name != *name)
        .flat_map(|one| &one.departures)
        .filter(|(departed, _)| **departed == *name)
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0)
}

/// Which of the members, one of each name, are kept out of the ring although they are ready. If that were all, none.
#[must_use]
pub fn damped(members: &[&Heard]) -> Vec<bool> {
    let ready = |one: &&Heard| one.member.state == MemberState::Ready;
    let damped: Vec<bool> = members
        .iter()
        .map(|one| {
            let departures = claimed(members.iter().copied(), &one.member.id.name);
            ready(one) && delay_us(departures) > 0 && one.returns < departures
        })
        .collect();
    let someone_left = members.iter().zip(&damped).any(|(one, damped)| ready(one) && !damped);
    if someone_left {
        damped
    } else {
        vec![false; members.len()]
    }
}

/// The departures from the ring that one node has seen.
#[derive(Debug, Clone, Default)]
pub struct Departures {
    counts: BTreeMap<Arc<str>, Count>,
    window: Option<Window>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    departures: u32,
    last_us: u64,
}

/// Departures that may have one cause.
#[derive(Debug, Clone)]
struct Window {
    since_us: u64,
    /// Who was in the ring before the first of them.
    ring: BTreeSet<Arc<str>>,
    /// Who left, and what was counted of each before.
    left: BTreeMap<Arc<str>, Option<Count>>,
}

impl Departures {
    /// Compares the ring of the previous view with who is there now.
    pub fn note(&mut self, now_us: u64, me: &str, previous: &View, now: &View) {
        self.forget(now_us);
        for (number, member) in (0..).zip(previous.members()) {
            let name = &member.id.name;
            // Who says that it is joining atones; it has not left again.
            let stays = now
                .member(name)
                .is_some_and(|now| now.id == member.id && now.state != MemberState::Leaving);
            if **name != *me && !stays && previous.share(number) > 0 {
                self.departed(now_us, name, previous);
            }
        }
    }

    fn departed(&mut self, now_us: u64, name: &Arc<str>, previous: &View) {
        let window = self.window.get_or_insert_with(|| Window {
            since_us: now_us,
            ring: previous
                .ring()
                .map(|ring| ring.names().iter().cloned().collect())
                .unwrap_or_default(),
            left: BTreeMap::new(),
        });
        let before = self.counts.get(name).copied();
        window.left.entry(name.clone()).or_insert(before);
        let departures = before.map_or(0, |before| before.departures).saturating_add(1);
        self.counts.insert(
            name.clone(),
            Count {
                departures,
                last_us: now_us,
            },
        );
        if window.is_own_fault() {
            for (name, before) in &window.left {
                match before {
                    Some(before) => self.counts.insert(name.clone(), *before),
                    None => self.counts.remove(name),
                };
            }
        }
        if self.counts.len() > MAX_NAMES {
            let oldest = self
                .counts
                .iter()
                .min_by_key(|(_, count)| count.last_us)
                .map(|(name, _)| name.clone());
            self.counts.retain(|name, _| Some(name) != oldest.as_ref());
        }
    }

    fn forget(&mut self, now_us: u64) {
        self.counts
            .retain(|_, count| now_us < count.last_us + SERIES_US + delay_us(count.departures));
        self.window.take_if(|window| now_us >= window.since_us + WINDOW_US);
    }

    /// What to gossip: who has left lately, and how often.
    #[must_use]
    pub fn claims(&self) -> Vec<(Arc<str>, u32)> {
        self.counts
            .iter()
            .map(|(name, count)| (name.clone(), count.departures))
            .collect()
    }
}

impl Window {
    /// Whether so many left that it was rather this node that was gone.
    fn is_own_fault(&self) -> bool {
        let left = self.left.keys().filter(|name| self.ring.contains(*name)).count() * 2;
        let half_with_first = left == self.ring.len() && self.ring.first().is_some_and(|n| self.left.contains_key(n));
        left > self.ring.len() || half_with_first
    }
}

#[cfg(test)]
#[path = "damping_tests.rs"]
mod tests;
