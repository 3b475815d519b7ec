//! What a node believes of the cluster: its members, their ring, and a number by which nodes see that they believe the same.
//!
//! A view is a function of what gossip says, and of nothing else: nodes that have heard the same have the same view. That is also how
//! damping works, see `damping`.

use crate::damping;
use crate::member::{Member, MemberState};
use crate::ring::Ring;
use hashring::DefaultHashBuilder;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// The most members of a view; of more, those of the smallest names count.
pub const MAX_MEMBERS: usize = 1000;

/// The highest weight; a higher one counts as this.
pub const MAX_WEIGHT: u32 = 100;

/// What gossip says of one process that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Who it says it is.
    pub member: Member,
    /// How many departures of its own it has atoned for, see `damping`.
    pub returns: u32,
    /// Whose departures from the ring it has seen lately, and how many.
    pub departures: Vec<(Arc<str>, u32)>,
    /// The hash of its view.
    pub view_hash: u64,
    /// Whether in that view each slot that it holds has it as target.
    pub at_home: bool,
}

/// The members that a node knows to be alive, and where the slots belong among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// In ascending order of their names, one of each. Who is damped appears as joining.
    members: Vec<Member>,
    /// Whose slots are where; none as long as nobody is ready.
    ring: Option<Arc<Ring>>,
    /// The place in `members` of each member of the ring.
    places: Vec<u16>,
    hash: u64,
}

impl View {
    /// The view of what was heard, over `slots` slots. The ring is that of `previous` if the same members are in it.
    #[must_use]
    pub fn new(heard: &[Heard], slots: u16, previous: Option<&Self>) -> Self {
        let mut newest: BTreeMap<&str, &Heard> = BTreeMap::new();
        for one in heard {
            let best = newest.entry(&one.member.id.name).or_insert(one);
            // Two of one name and millisecond: any rule will do that all nodes have.
            if (one.member.id.generation, &one.member.peer) > (best.member.id.generation, &best.member.peer) {
                *best = one;
            }
        }
        let newest: Vec<&Heard> = newest.into_values().take(MAX_MEMBERS).collect();
        let damped = damping::damped(&newest);
        let members = newest.iter().zip(damped).map(|(one, damped)| {
            let mut member = one.member.clone();
            member.weight = member.weight.min(MAX_WEIGHT);
            if damped {
                member.state = MemberState::Joining;
            }
            member
        });
        Self::of(members.collect(), slots, previous)
    }

    /// The view of members in ascending order of their names, each once.
    #[must_use]
    pub fn of(members: Vec<Member>, slots: u16, previous: Option<&Self>) -> Self {
        debug_assert!(members.is_sorted_by(|one, other| one.id.name < other.id.name));
        let takes_slots = |member: &Member| member.state == MemberState::Ready && member.weight > 0;
        let (places, weights): (Vec<u16>, Vec<(Arc<str>, u32)>) = (0_u16..)
            .zip(&members)
            .filter(|(_, member)| takes_slots(member))
            .map(|(place, member)| (place, (member.id.name.clone(), member.weight)))
            .unzip();
        let same = |ring: &Arc<Ring>| {
            let of_ring = ring.names().iter().zip(ring.weights().iter().copied());
            ring.slots() == slots && of_ring.eq(weights.iter().map(|(name, weight)| (name, *weight)))
        };
        let ring = match previous.and_then(|view| view.ring.clone()).filter(same) {
            _ if weights.is_empty() => None,
            None => Some(Arc::new(Ring::new(&weights, slots))),
            kept => kept,
        };
        let hash = hash(&members);
        Self {
            members,
            ring,
            places,
            hash,
        }
    }

    /// All that are alive, in ascending order of their names. Numbers of members are indices of this.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Equal for nodes that believe the same of all members; not 0.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The ring of the members that are ready; none if nobody is. Its numbers are not those of [`members`](Self::members).
    #[must_use]
    pub fn ring(&self) -> Option<&Arc<Ring>> {
        self.ring.as_ref()
    }

    /// The number of the member of a name: also its rank, by which what does not divide among members is given out.
    #[must_use]
    pub fn rank(&self, name: &str) -> Option<u16> {
        // There are at most MAX_MEMBERS.
        self.members
            .binary_search_by(|member| (*member.id.name).cmp(name))
            .ok()
            .map(|rank| rank as u16)
    }

    /// The member of a name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.rank(name).map(|rank| &self.members[usize::from(rank)])
    }

    /// The number of the member that a slot belongs to; none as long as nobody is ready.
    #[must_use]
    pub fn target(&self, slot: u16) -> Option<u16> {
        self.ring
            .as_ref()
            .map(|ring| self.places[usize::from(ring.target(slot))])
    }

    /// The number of the member that inherits a slot when its target is gone.
    #[must_use]
    pub fn heir(&self, slot: u16) -> Option<u16> {
        self.ring
            .as_ref()?
            .heir(slot)
            .map(|heir| self.places[usize::from(heir)])
    }

    /// How many slots belong to the member of a number.
    #[must_use]
    pub fn share(&self, member: u16) -> u16 {
        let Some(ring) = &self.ring else { return 0 };
        self.places
            .binary_search(&member)
            .map_or(0, |place| ring.shares()[place])
    }

    /// Whether all members have this view and every slot is where it belongs. `heard` is what gossip says now.
    #[must_use]
    pub fn is_settled(&self, heard: &[Heard]) -> bool {
        self.ring.is_some()
            && self.members.iter().all(|member| {
                heard
                    .iter()
                    .any(|one| one.member.id == member.id && one.view_hash == self.hash && one.at_home)
            })
    }
}

/// A hash of all that members are, the same on every node and in every build.
fn hash(members: &[Member]) -> u64 {
    let mut hasher = DefaultHashBuilder.build_hasher();
    let mut text = |text: &str| {
        hasher.write(&(text.len() as u64).to_be_bytes());
        hasher.write(text.as_bytes());
    };
    for member in members {
        let Member {
            id,
            state,
            weight,
            workers,
            peer,
            listen,
            redirect_listen,
        } = member;
        let state = match state {
            MemberState::Joining => 'j',
            MemberState::Ready => 'r',
            MemberState::Leaving => 'l',
        };
        text(&id.name);
        text(&format!("{} {state} {weight} {workers}", id.generation));
        text(peer);
        text(listen);
        text(redirect_listen.as_deref().unwrap_or_default());
    }
    hasher.finish().max(1)
}

#[cfg(test)]
#[path = "view_tests.rs"]
pub(crate) mod tests;
