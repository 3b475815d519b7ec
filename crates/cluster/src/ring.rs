//! Which member each slot belongs to, and who inherits it: the same members give the same table on every node.
//!
//! Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016). A member has [`VIRTUAL_NODES`] places on a circle for
//! each unit of its weight. The slots, in the order of their number, go clockwise from their own place to the first member that has
//! room: fewer slots than ceil(1.10 × its fair share). So no member has more than that, and a join or a leave moves few slots.
//!
//! Places and their order come from the `hashring` crate, whose hash has a fixed key. Everything is hashed as bytes of a fixed order, so
//! that neither the machine nor the build matters.

use hashring::{DefaultHashBuilder, HashRing};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// Places on the circle for each unit of weight.
pub const VIRTUAL_NODES: u32 = 320;

/// How much of its fair share a member may have, in percent.
pub const LOAD_BOUND_PERCENT: u64 = 110;

/// No member: while slots are placed, a slot that has none yet.
const NOBODY: u16 = u16::MAX;

/// The table of a set of members. Members are numbered by the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    names: Vec<Arc<str>>,
    weights: Vec<u32>,
    slots: u16,
    targets: Vec<u16>,
    /// Empty with fewer than two members that take slots.
    heirs: Vec<u16>,
    shares: Vec<u16>,
}

impl Ring {
    /// Places `slots` slots on members given as (name, weight), in any order. A member of weight 0 takes no slot.
    ///
    /// # Panics
    ///
    /// If two members have one name, if there are `u16::MAX` members or more, or if the weights add up to 2³² / [`VIRTUAL_NODES`] or more.
    #[must_use]
    pub fn new(members: &[(Arc<str>, u32)], slots: u16) -> Self {
        let mut members = members.to_vec();
        members.sort_unstable();
        assert!(
            members.windows(2).all(|pair| pair[0].0 != pair[1].0),
            "two members of one name"
        );
        assert!(
            members.len() < usize::from(NOBODY),
            "more members than a table can name"
        );
        let (names, weights): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let circle = Circle::new(&names, &weights, slots);
        let targets = circle.place(&weights, None);
        let mut shares = vec![0; names.len()];
        for &target in &targets {
            shares[usize::from(target)] += 1;
        }
        let heirs = circle.heirs(&weights, &targets);
        Self {
            names,
            weights,
            slots,
            targets,
            heirs,
            shares,
        }
    }

    /// Whether no member takes slots: then no slot has a target.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The members' names in ascending order: the numbers of the other methods are indices of this.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The members' weights, in the order of [`names`](Self::names).
    #[must_use]
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> u16 {
        self.slots
    }

    /// The member that a slot belongs to.
    ///
    /// # Panics
    ///
    /// If there is no such slot, or if the ring is empty.
    #[must_use]
    pub fn target(&self, slot: u16) -> u16 {
        self.targets[usize::from(slot)]
    }

    /// The member that a slot belongs to in the ring without its target; none if no other member takes slots.
    #[must_use]
    pub fn heir(&self, slot: u16) -> Option<u16> {
        self.heirs.get(usize::from(slot)).copied()
    }

    /// How many slots each member has, in the order of [`names`](Self::names).
    #[must_use]
    pub fn shares(&self) -> &[u16] {
        &self.shares
    }
}

/// A place on the circle of a member: hashed by name and number.
struct VirtualNode<'a> {
    name: &'a str,
    member: u16,
    number: u32,
}

impl Hash for VirtualNode<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(b"member");
        state.write(&self.number.to_be_bytes());
        state.write(self.name.as_bytes());
    }
}

/// The place on the circle of a slot.
struct SlotPlace(u16);

impl Hash for SlotPlace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(b"slot");
        state.write(&self.0.to_be_bytes());
    }
}

/// Where the members' virtual nodes are, and where each slot's walk begins.
struct Circle {
    /// Whose virtual node it is, clockwise.
    owners: Vec<u16>,
    /// The first virtual node at or after each slot's place.
    starts: Vec<u32>,
}

impl Circle {
    fn new(names: &[Arc<str>], weights: &[u32], slots: u16) -> Self {
        let nodes: u64 = weights
            .iter()
            .map(|&weight| u64::from(weight) * u64::from(VIRTUAL_NODES))
            .sum();
        assert!(
            u32::try_from(nodes).is_ok(),
            "more virtual nodes than a circle has room for"
        );
        let mut ring = HashRing::new();
        // In the order of names: of two places that coincide the smaller name's comes first, whoever else is there.
        ring.batch_add(
            (0_u16..)
                .zip(names.iter().zip(weights))
                .flat_map(|(member, (name, &weight))| {
                    (0..weight * VIRTUAL_NODES).map(move |number| VirtualNode { name, member, number })
                })
                .collect(),
        );
        let hash = DefaultHashBuilder;
        let (places, owners): (Vec<u64>, Vec<u16>) =
            ring.into_iter().map(|node| (hash.hash_one(&node), node.member)).unzip();
        debug_assert!(places.is_sorted());
        let starts = if owners.is_empty() {
            Vec::new()
        } else {
            (0..slots)
                .map(|slot| {
                    let place = hash.hash_one(SlotPlace(slot));
                    let start = places.partition_point(|&node| node < place);
                    // Less than 2³², as asserted above.
                    if start == places.len() { 0 } else { start as u32 }
                })
                .collect()
        };
        Self { owners, starts }
    }

    /// Each slot's member, as if `without` were not there. Empty if that leaves nobody.
    fn place(&self, weights: &[u32], without: Option<usize>) -> Vec<u16> {
        let mut room = room(weights, without, self.starts.len());
        if room.iter().all(|&room| room == 0) {
            return Vec::new();
        }
        self.starts
            .iter()
            .map(|&start| {
                let (before, after) = self.owners.split_at(start as usize);
                // Together they have room for all slots, so somebody has some for this one.
                let owner = after
                    .iter()
                    .chain(before)
                    .copied()
                    .find(|&owner| room[usize::from(owner)] > 0);
                let owner = owner.unwrap_or(NOBODY);
                room[usize::from(owner)] -= 1;
                owner
            })
            .collect()
    }

    /// Each slot's member in the ring without its target.
    fn heirs(&self, weights: &[u32], targets: &[u16]) -> Vec<u16> {
        if weights.iter().filter(|&&weight| weight > 0).count() < 2 {
            return Vec::new();
        }
        let mut heirs = vec![NOBODY; targets.len()];
        for (member, _) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0) {
            let table = self.place(weights, Some(member));
            for ((heir, &target), other) in heirs.iter_mut().zip(targets).zip(table) {
                if usize::from(target) == member {
                    *heir = other;
                }
            }
        }
        debug_assert!(!heirs.contains(&NOBODY));
        heirs
    }
}

/// How many slots each member may have.
fn room(weights: &[u32], without: Option<usize>, slots: usize) -> Vec<u32> {
    let weight_of = |member: usize, weight: u32| if Some(member) == without { 0 } else { u64::from(weight) };
    let total: u64 = weights
        .iter()
        .enumerate()
        .map(|(member, &weight)| weight_of(member, weight))
        .sum();
    weights
        .iter()
        .enumerate()
        .map(|(member, &weight)| {
            let share = LOAD_BOUND_PERCENT * weight_of(member, weight) * slots as u64;
            // At most 1.10 × 65535.
            if total == 0 {
                0
            } else {
                share.div_ceil(100 * total) as u32
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
