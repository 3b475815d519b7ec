//! The world: time, and what happens in it.

use super::faults::{Fault, Profile, schedule};
use super::network::{Network, Parcel, Weather};
use super::node::Node;
use super::oracle::Oracle;
use super::random::Random;
use super::store::KeyRule;
use crate::circuit::Class;
use crate::member::{Incarnation, MemberState};
use crate::slots::{Defect, Machine, Settings, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const SLOTS: u16 = 64;
pub(super) const KEYS: u16 = 256;
/// Of which one in twenty is another command, and a few find no node.
const CHECKS: u64 = 10_700;
pub(super) const START_US: u64 = 1_000_000;
const CALM_US: u64 = START_US + 3_000_000;
pub(super) const FAULTS_END_US: u64 = START_US + 60_000_000;
const END_US: u64 = FAULTS_END_US + 20_000_000;
pub(super) const TICK_US: u64 = 5_000;
const GOSSIP_US: u64 = 100_000;
pub(super) const NAMES: [&str; 7] = ["alba", "birk", "cleo", "dora", "emil", "finn", "gina"];

#[derive(Debug, Clone)]
pub(super) enum Event {
    Tick {
        node: u8,
        life: u64,
    },
    Gossip,
    Arrive(Parcel),
    Connect {
        from: u8,
        to: u8,
    },
    /// Connections between two nodes that are still cut off from each other are given up.
    GiveUp {
        a: u8,
        b: u8,
    },
    /// A node notices that the connection it has made to a peer is gone.
    Down {
        node: u8,
        life: u64,
        peer: Incarnation,
    },
    /// A node's peers notice that it is gone.
    Gone {
        node: u8,
        life: u64,
    },
    Command {
        node: u8,
        key: u16,
        cost: u64,
        class: Class,
    },
    Due {
        node: u8,
        life: u64,
        request: u64,
        attempt: u32,
    },
    Unpark {
        node: u8,
        life: u64,
        slot: u16,
        timer: bool,
    },
    Frozen {
        node: u8,
        life: u64,
        slot: u16,
        number: u64,
    },
    Fault(Fault),
    Heal {
        from: u8,
        to: u8,
    },
    Resume {
        node: u8,
        life: u64,
    },
    Start {
        node: u8,
    },
    Ready {
        node: u8,
        life: u64,
    },
    Drained {
        node: u8,
        life: u64,
        back_us: u64,
        tries: u32,
    },
}

pub(super) struct World {
    pub now_us: u64,
    pub profile: Profile,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    pub random: Random,
    pub network: Network,
    pub nodes: BTreeMap<u8, Node>,
    pub rules: Arc<[KeyRule]>,
    pub oracle: Oracle,
    pub settings: Settings,
    pub defect: Option<Defect>,
    pub lives: u64,
    pub requests: u64,
    pub second: (u64, u64),
    pub trace: u64,
    /// Says what happens to a slot, for looking into a seed (`SLOT=n`).
    pub watched: Option<u16>,
    /// Which life each connection was made to.
    pub links: BTreeMap<(u8, u8), Incarnation>,
    /// Slots for which somebody may have a better claim than before.
    pub tops_changed: BTreeSet<u16>,
}

impl World {
    pub fn new(seed: u64, profile: Profile, settings: Settings, defect: Option<Defect>) -> Self {
        let mut random = Random::new(seed);
        let rules: Arc<[KeyRule]> = (0..KEYS)
            .map(|key| KeyRule {
                slot: key % SLOTS,
                limit: random.between(1, 30),
                window_us: random.between(1, 20) * 1_000_000,
                burst: random.between(1, 15),
            })
            .collect();
        let calm = Weather {
            delay_us: random.between(50, 600),
            jitter_us: random.between(0, 400),
            late_one_in: u64::MAX,
            late_us: 0,
            twice_one_in: u64::MAX,
        };
        let weather = match profile {
            Profile::Planned => calm,
            _ => Weather {
                delay_us: random.between(50, 1_500),
                jitter_us: random.between(0, 2_000),
                late_one_in: random.between(50, 1_000),
                late_us: 30_000,
                twice_one_in: random.between(20, 200),
            },
        };
        let mut world = Self {
            now_us: START_US,
            profile,
            queue: BTreeMap::new(),
            sequence: 0,
            network: Network::new(weather),
            nodes: BTreeMap::new(),
            oracle: Oracle::new(rules.clone(), SLOTS, START_US),
            rules,
            settings,
            defect,
            lives: 0,
            requests: 0,
            second: (0, 0),
            trace: seed,
            watched: std::env::var("SLOT").ok().and_then(|slot| slot.parse().ok()),
            links: BTreeMap::new(),
            tops_changed: BTreeSet::new(),
            random,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let first = self.random.between(3, 5) as u8;
        self.start(0);
        self.with(0, |machine, step| machine.found(step));
        self.node_mut(0).state = MemberState::Ready;
        for node in 1..first {
            let at_us = self.random.between(100_000, 1_000_000);
            self.at(self.now_us + at_us, Event::Start { node });
        }
        for from in 0..NAMES.len() as u8 {
            for to in (0..NAMES.len() as u8).filter(|to| *to != from) {
                let at_us = self.random.between(0, 100_000);
                self.at(self.now_us + at_us, Event::Connect { from, to });
            }
        }
        self.at(self.now_us, Event::Gossip);
        for (at_us, fault) in schedule(self.profile, CALM_US, FAULTS_END_US, &mut self.random) {
            self.at(at_us, Event::Fault(fault));
        }
        for i in 0..CHECKS {
            let width_us = (FAULTS_END_US + 10_000_000 - CALM_US) / CHECKS;
            let at_us = CALM_US + i * width_us + self.random.between(0, width_us);
            // Half of the checks are for an eighth of the keys.
            let keys = if self.random.one_in(2) { KEYS / 8 } else { KEYS };
            let key = self.random.between(0, u64::from(keys) - 1) as u16;
            let cost = if self.random.one_in(8) {
                self.random.between(2, 3)
            } else {
                1
            };
            let class = if self.random.one_in(20) {
                Class::Other
            } else {
                Class::Check
            };
            let node = self.random.between(0, NAMES.len() as u64 - 1) as u8;
            self.at(at_us, Event::Command { node, key, cost, class });
        }
    }

    pub fn at(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us.max(self.now_us), self.sequence), event);
    }

    /// Runs to the end, or to the first violation.
    pub fn run(&mut self) {
        while let Some(((at_us, _), event)) = self.queue.pop_first() {
            if at_us > END_US || self.oracle.violation.is_some() {
                break;
            }
            self.now_us = at_us;
            self.happen(event);
        }
        if self.oracle.violation.is_none() {
            self.judge();
        }
    }

    pub fn happen(&mut self, event: Event) {
        let (kind, node, life) = describe(&event);
        self.trace = (self.trace ^ (self.now_us << 8) ^ (kind << 3) ^ u64::from(node.unwrap_or(9)))
            .wrapping_mul(0x0000_0100_0000_01B3)
            .rotate_left(17);
        if let Some(at) = node.and_then(|node| self.nodes.get_mut(&node)) {
            if life.is_some_and(|life| life != at.life || !at.up) {
                return;
            }
            let waits = !matches!(event, Event::Resume { .. } | Event::Start { .. });
            if at.paused && waits {
                at.backlog.push_back(event);
                return;
            }
        }
        match event {
            Event::Tick { node, life } => {
                self.with(node, |machine, step| machine.tick(step));
                let jitter_us = self.random.between(0, 200);
                self.at(self.now_us + TICK_US + jitter_us, Event::Tick { node, life });
            }
            Event::Gossip => {
                self.gossip();
                self.at(self.now_us + GOSSIP_US, Event::Gossip);
            }
            Event::Arrive(parcel) => self.arrive(parcel),
            Event::Connect { from, to } => self.connect(from, to),
            Event::GiveUp { a, b } => {
                if self.network.are_cut(a, b) {
                    self.reset(a, b, 0);
                    self.reset(b, a, 0);
                }
            }
            Event::Gone { node, life } => {
                if self.node(node).life == life {
                    self.disconnect(node);
                }
            }
            Event::Command { node, key, cost, class } => self.command(node, key, cost, class),
            Event::Due {
                node, request, attempt, ..
            } => self.due(node, request, attempt),
            Event::Unpark { node, slot, timer, .. } => {
                if !timer || self.timer_is_due(node, slot) {
                    self.unpark(node, slot);
                }
            }
            Event::Frozen { node, slot, number, .. } => {
                self.with(node, |machine, step| machine.frozen(slot, number, step));
            }
            Event::Down { node, peer, .. } => self.with(node, |machine, step| machine.link_down(&peer, 0, step)),
            Event::Fault(fault) => self.fault(fault),
            Event::Heal { from, to } => {
                for (at_us, parcel) in self.network.heal(from, to, self.now_us, &mut self.random) {
                    self.at(at_us, Event::Arrive(parcel));
                }
            }
            Event::Resume { node, .. } => self.resume(node),
            Event::Start { node } => self.start(node),
            Event::Ready { node, life } => {
                let seen = self
                    .node(node)
                    .gossip
                    .shown()
                    .iter()
                    .any(|(id, _)| *id.name != *NAMES[usize::from(node)]);
                // If all that were ready are gone, somebody has to be the first again.
                let alone = self.now_us > self.node(node).started_us + 5_000_000;
                match self.node(node).state {
                    MemberState::Joining if seen || alone => self.node_mut(node).state = MemberState::Ready,
                    MemberState::Joining => self.at(self.now_us + 100_000, Event::Ready { node, life }),
                    MemberState::Ready | MemberState::Leaving => {}
                }
            }
            Event::Drained {
                node,
                life,
                back_us,
                tries,
            } => self.drained(node, life, back_us, tries),
        }
    }

    pub fn node_mut(&mut self, node: u8) -> &mut Node {
        match self.nodes.get_mut(&node) {
            Some(node) => node,
            None => unreachable!("only called for a node that was started"),
        }
    }

    pub fn node(&self, node: u8) -> &Node {
        &self.nodes[&node]
    }

    pub fn index(name: &str) -> u8 {
        match NAMES.iter().position(|known| *known == name) {
            Some(i) => i as u8,
            None => unreachable!("all names are in the list"),
        }
    }

    /// Lets a node's machine do something, and does what it asks for.
    pub fn with(&mut self, node: u8, run: impl FnOnce(&mut Machine, &mut Step<'_>)) {
        let now_us = self.now_us;
        self.node_mut(node).step(now_us, run);
        for effect in std::mem::take(&mut self.node_mut(node).effects) {
            self.effect(node, effect);
        }
        while let Some(slot) = self.tops_changed.pop_first() {
            self.note_top(slot);
        }
    }
}

fn describe(event: &Event) -> (u64, Option<u8>, Option<u64>) {
    match *event {
        Event::Tick { node, life } => (1, Some(node), Some(life)),
        Event::Gossip => (2, None, None),
        Event::Arrive(Parcel { to, life, .. }) => (3, Some(to), Some(life)),
        Event::Connect { .. } => (4, None, None),
        Event::GiveUp { .. } => (5, None, None),
        Event::Gone { .. } => (6, None, None),
        Event::Command { node, .. } => (7, Some(node), None),
        Event::Due { node, life, .. } => (8, Some(node), Some(life)),
        Event::Unpark { node, life, .. } => (9, Some(node), Some(life)),
        Event::Frozen { node, life, .. } => (10, Some(node), Some(life)),
        Event::Fault(_) => (11, None, None),
        Event::Heal { .. } => (12, None, None),
        Event::Down { node, life, .. } => (17, Some(node), Some(life)),
        Event::Resume { node, life } => (13, Some(node), Some(life)),
        Event::Start { node } => (14, Some(node), None),
        Event::Ready { node, life } => (15, Some(node), Some(life)),
        Event::Drained { node, life, .. } => (16, Some(node), Some(life)),
    }
}
