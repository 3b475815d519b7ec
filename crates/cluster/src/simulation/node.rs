//! One simulated node: a machine, its store, circuits and local shares, and the commands that it has taken on.

use super::membership::Gossip;
use super::store::{KeyRule, ModelStore};
use crate::circuit::{CircuitSettings, Circuits, Class};
use crate::local::local_share;
use crate::member::{Incarnation, MemberState};
use crate::slots::{Effect, Machine, Settings, Step};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A command that a client has sent to this node.
#[derive(Debug)]
pub(super) struct Request {
    pub key: u16,
    pub cost: u64,
    pub class: Class,
    pub asked_us: u64,
    pub missed: Vec<Arc<str>>,
    /// Which attempt to ask a peer is under way, and whom.
    pub attempt: u32,
    pub asking: Option<Arc<str>>,
    /// Who holds the slot, as a peer has said.
    pub hint: Option<Arc<str>>,
    pub hops: u32,
}

/// Something that waits for a slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum Parked {
    Own {
        request: u64,
    },
    Foreign {
        from: u8,
        request: u64,
        key: u16,
        cost: u64,
        check: bool,
        until_us: u64,
    },
}

#[derive(Debug)]
pub(super) struct LocalBucket {
    limit: u64,
    full: i64,
    level: i64,
    filled_us: u64,
}

pub(super) struct Node {
    pub id: Incarnation,
    /// Which life of which node this is; nothing of another reaches it.
    pub life: u64,
    pub up: bool,
    pub paused: bool,
    /// When the life before ended without warning.
    pub crashed_us: Option<u64>,
    /// Since when it has been awake after a long pause without a peer having confirmed that it is a member.
    pub unconfirmed_since_us: Option<u64>,
    pub paused_us: u64,
    pub started_us: u64,
    /// What came while it was paused.
    pub backlog: VecDeque<super::world::Event>,
    pub state: MemberState,
    /// Its monotonic clock minus the time of the simulation.
    pub clock_offset_us: u64,
    pub machine: Machine,
    pub store: ModelStore,
    pub circuits: Circuits,
    pub gossip: Gossip,
    pub effects: Vec<Effect>,
    pub requests: BTreeMap<u64, Request>,
    pub parked: BTreeMap<u16, Vec<Parked>>,
    /// When those who wait for a slot look again at the latest.
    pub timers: BTreeMap<u16, u64>,
    /// What this node last saw to remain, by key.
    pub remaining: BTreeMap<u16, u64>,
    pub local: BTreeMap<u16, LocalBucket>,
}

impl Node {
    pub fn new(
        id: Incarnation,
        life: u64,
        slots: u16,
        settings: &Settings,
        rules: &Arc<[KeyRule]>,
        clock_offset_us: u64,
        wall_offset_us: i64,
    ) -> Self {
        Self {
            machine: Machine::new(id.clone(), 0..slots, settings.clone()),
            id,
            life,
            up: true,
            paused: false,
            crashed_us: None,
            unconfirmed_since_us: None,
            paused_us: 0,
            started_us: 0,
            backlog: VecDeque::new(),
            state: MemberState::Joining,
            clock_offset_us,
            store: ModelStore::new(slots, rules.clone(), wall_offset_us),
            circuits: Circuits::new(CircuitSettings::default()),
            gossip: Gossip::default(),
            effects: Vec::new(),
            requests: BTreeMap::new(),
            parked: BTreeMap::new(),
            timers: BTreeMap::new(),
            remaining: BTreeMap::new(),
            local: BTreeMap::new(),
        }
    }

    /// This node's monotonic clock at a time of the simulation.
    pub fn clock_us(&self, now_us: u64) -> u64 {
        now_us + self.clock_offset_us
    }

    pub fn step<T>(&mut self, now_us: u64, run: impl FnOnce(&mut Machine, &mut Step<'_>) -> T) -> T {
        let now_us = self.clock_us(now_us);
        run(
            &mut self.machine,
            &mut Step {
                now_us,
                store: &mut self.store,
                effects: &mut self.effects,
            },
        )
    }

    /// Decides by the local share.
    pub fn decide_locally(&mut self, key: u16, rule: &KeyRule, cost: u64, now_us: u64) -> bool {
        let now_us = self.clock_us(now_us);
        let members: Vec<&Arc<str>> = self
            .gossip
            .shown()
            .iter()
            .filter(|(_, leaving)| !leaving)
            .map(|(id, _)| &id.name)
            .collect();
        let rank = members.iter().position(|name| **name == self.id.name);
        let (nodes, rank) = match rank {
            Some(rank) => (members.len(), rank),
            None => (members.len() + 1, members.len()),
        };
        let remaining = self.remaining.get(&key).copied();
        let bucket = self.local.entry(key).or_insert_with(|| {
            let share = local_share(rule.limit, rule.burst, remaining, nodes as u32, rank as u32);
            let scaled = |tokens: u64| (tokens * rule.window_us) as i64;
            LocalBucket {
                limit: share.limit,
                full: scaled(share.burst),
                level: scaled(share.start),
                filled_us: now_us,
            }
        });
        let gained = ((now_us - bucket.filled_us) * bucket.limit) as i64;
        bucket.level = (bucket.level + gained).min(bucket.full);
        bucket.filled_us = now_us;
        let price = (cost * rule.window_us) as i64;
        let allowed = bucket.level >= price;
        if allowed {
            bucket.level -= price;
        }
        allowed
    }

    /// A holder or stand-in has answered for a key.
    pub fn saw(&mut self, key: u16, remaining: u64) {
        self.remaining.insert(key, remaining);
        self.local.remove(&key);
    }
}
