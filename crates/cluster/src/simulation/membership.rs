//! A made-up membership: each node hears of the others while their news reaches it, by whatever way, and takes those for dead of which
//! it has not heard for one to two seconds.

use super::random::Random;
use crate::member::{Incarnation, MemberState};
use crate::slots::{NOBODY, View};
use std::collections::BTreeMap;

/// What one node knows of another.
#[derive(Debug, Clone)]
struct Heard {
    id: Incarnation,
    state: MemberState,
    heard_us: u64,
    patience_us: u64,
}

/// What one node knows of all.
#[derive(Debug, Default)]
pub(super) struct Gossip {
    heard: BTreeMap<u8, Heard>,
    shown: Vec<(Incarnation, bool)>,
}

impl Gossip {
    pub fn hear(&mut self, of: u8, id: &Incarnation, state: MemberState, now_us: u64, random: &mut Random) {
        let heard = self.heard.entry(of).or_insert_with(|| Heard {
            id: id.clone(),
            state,
            heard_us: now_us,
            patience_us: 1_000_000,
        });
        if id.generation < heard.id.generation {
            return;
        }
        let patience_us = random.between(1_000_000, 2_000_000);
        *heard = Heard {
            id: id.clone(),
            state,
            heard_us: now_us,
            patience_us,
        };
    }

    /// The members as this node sees them, if that has changed.
    pub fn changed(&mut self, now_us: u64) -> Option<Vec<(Incarnation, bool)>> {
        let alive = self
            .heard
            .values()
            .filter(|heard| now_us < heard.heard_us + heard.patience_us);
        let members = alive.filter(|heard| heard.state != MemberState::Joining);
        let mut list: Vec<(Incarnation, bool)> = members
            .map(|heard| (heard.id.clone(), heard.state == MemberState::Leaving))
            .collect();
        list.sort();
        if list == self.shown {
            return None;
        }
        self.shown.clone_from(&list);
        Some(list)
    }

    /// A hash of the view.
    pub fn hash(&self) -> u64 {
        let bytes = |(id, leaving): &(Incarnation, bool)| {
            let name = id.name.bytes().chain(id.generation.to_le_bytes());
            name.chain([u8::from(*leaving)]).collect::<Vec<u8>>()
        };
        let all = self.shown.iter().flat_map(bytes);
        all.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
    }

    pub fn shown(&self) -> &[(Incarnation, bool)] {
        &self.shown
    }
}

/// A view with tables: a slot goes to the member with the highest hash, its heir is the one with the next.
pub(super) fn view(members: Vec<(Incarnation, bool)>, slots: u16) -> View {
    let mut targets = vec![NOBODY; usize::from(slots)];
    let mut heirs = targets.clone();
    for slot in 0..slots {
        let mut best: Vec<(u64, u16)> = (0u16..)
            .zip(&members)
            .filter(|(_, (_, leaving))| !leaving)
            .map(|(i, (id, _))| (score(&id.name, slot), i))
            .collect();
        best.sort_unstable_by(|a, b| b.cmp(a));
        let mut best = best.into_iter().map(|(_, i)| i);
        targets[usize::from(slot)] = best.next().unwrap_or(NOBODY);
        heirs[usize::from(slot)] = best.next().unwrap_or(NOBODY);
    }
    View {
        members,
        targets: targets.into(),
        heirs: heirs.into(),
    }
}

fn score(name: &str, slot: u16) -> u64 {
    let seed = name.bytes().fold(u64::from(slot), |seed, byte| {
        seed.wrapping_mul(257).wrapping_add(u64::from(byte))
    });
    Random::new(seed).between(0, u64::MAX - 1)
}
