//! The world: time, and what happens in it.

use super::faults::{Fault, Profile, schedule};
use super::membership;
use super::network::{Network, Packet, Parcel, Weather};
use super::node::Node;
use super::oracle::{Cause, Oracle, Top};
use super::random::Random;
use super::store::KeyRule;
use crate::circuit::Class;
use crate::member::{Incarnation, MemberState};
use crate::slots::{Effect, Event as Said, Machine, Settings, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const SLOTS: u16 = 64;
const KEYS: u16 = 256;
const CHECKS: u64 = 10_000;
pub(super) const START_US: u64 = 1_000_000;
const CALM_US: u64 = START_US + 3_000_000;
const FAULTS_END_US: u64 = START_US + 60_000_000;
const END_US: u64 = FAULTS_END_US + 20_000_000;
const TICK_US: u64 = 5_000;
const GOSSIP_US: u64 = 100_000;
const NAMES: [&str; 7] = ["alba", "birk", "cleo", "dora", "emil", "finn", "gina"];

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
    lives: u64,
    pub requests: u64,
    second: (u64, u64),
    pub trace: u64,
    /// Says what happens to a slot, for looking into a seed (`SLOT=n`).
    pub watched: Option<u16>,
    /// Which life each connection was made to.
    pub links: BTreeMap<(u8, u8), Incarnation>,
    /// Slots for which somebody may have a better claim than before.
    tops_changed: BTreeSet<u16>,
}

impl World {
    pub fn new(seed: u64, profile: Profile, settings: Settings) -> Self {
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

    fn happen(&mut self, event: Event) {
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
            Event::Frozen { node, slot, .. } => self.with(node, |machine, step| machine.frozen(slot, step)),
            Event::Fault(fault) => self.fault(fault),
            Event::Heal { from, to } => {
                for (at_us, parcel) in self.network.heal(from, to, self.now_us, &mut self.random) {
                    self.at(at_us, Event::Arrive(parcel));
                }
            }
            Event::Resume { node, .. } => self.resume(node),
            Event::Start { node } => self.start(node),
            Event::Ready { node, life } => {
                let at = self.node_mut(node);
                if at.state == MemberState::Joining && at.gossip.shown().iter().any(|(id, _)| id.name != at.id.name) {
                    at.state = MemberState::Ready;
                } else if at.state == MemberState::Joining {
                    self.at(self.now_us + 100_000, Event::Ready { node, life });
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

    fn effect(&mut self, node: u8, effect: Effect) {
        if let Some(slot) = self.watched {
            self.watch(node, slot, &effect);
        }
        let life = self.node(node).life;
        match effect {
            Effect::Send { peer, message, .. } => self.send_message(node, Self::index(&peer), message),
            Effect::Publish { slot, epoch, holder } => {
                if holder.is_some_and(|holder| holder == self.node(node).id.name) {
                    self.claim(node, slot, epoch.0);
                }
                self.tops_changed.insert(slot);
                self.at(
                    self.now_us,
                    Event::Unpark {
                        node,
                        life,
                        slot,
                        timer: false,
                    },
                );
            }
            Effect::Release { slot } => self.at(
                self.now_us,
                Event::Unpark {
                    node,
                    life,
                    slot,
                    timer: false,
                },
            ),
            Effect::Freeze { slot } => {
                let takes_us = if self.random.one_in(4) {
                    self.random.between(0, 2_000)
                } else {
                    0
                };
                self.at(self.now_us + takes_us, Event::Frozen { node, life, slot });
            }
            Effect::Event(said) => self.said(node, &said),
        }
    }

    fn watch(&self, node: u8, slot: u16, effect: &Effect) {
        let text = format!("{effect:?}");
        let about = match effect {
            Effect::Send {
                message: crate::slots::Message::Known { claims, .. },
                ..
            } => claims.iter().any(|claim| (claim.first..=claim.last).contains(&slot)),
            Effect::Send {
                message: crate::slots::Message::Holdings { runs, .. },
                ..
            } => runs.iter().any(|run| (run.first..=run.last).contains(&slot)),
            _ => text.contains(&format!("slot: {slot},")) || text.contains(&format!("slot: {slot} ")),
        };
        if about {
            let text: String = text.chars().take(400).collect();
            println!("{:>9} {node}: {text}", self.now_us);
        }
    }

    fn send_message(&mut self, node: u8, to: u8, message: crate::slots::Message) {
        let second = self.now_us / 1_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        let counts = &mut self.oracle.counts;
        counts.messages += 1;
        counts.messages_in_a_second_max = counts.messages_in_a_second_max.max(self.second.1);
        if self.random.one_in(self.network.weather.twice_one_in) && self.network.is_connected(node, to) {
            let later_us = self.now_us + self.random.between(0, 300_000);
            let parcel = Parcel {
                connection: 0,
                from: node,
                to,
                life: self.nodes.get(&to).map_or(0, |node| node.life),
                sender: self.node(node).id.clone(),
                packet: Packet::Machine(message.clone()),
            };
            self.at(later_us, Event::Arrive(parcel));
        }
        self.send((node, to), node, Packet::Machine(message));
    }

    /// Sends a packet by the connection that `maker.0` has made; false if there is none.
    pub fn send(&mut self, maker: (u8, u8), from: u8, packet: Packet) -> bool {
        if !self.network.is_connected(maker.0, maker.1) {
            return false;
        }
        let to = if maker.0 == from { maker.1 } else { maker.0 };
        let life = self.nodes.get(&to).map_or(0, |node| node.life);
        let sender = self.node(from).id.clone();
        if let Some((at_us, parcel)) =
            self.network
                .send(maker, from, life, sender, packet, self.now_us, &mut self.random)
        {
            self.at(at_us, Event::Arrive(parcel));
        }
        true
    }

    fn arrive(&mut self, parcel: Parcel) {
        if !self.network.delivers(&parcel, self.now_us) {
            return;
        }
        let Parcel {
            from,
            to,
            sender,
            packet,
            ..
        } = parcel;
        match packet {
            Packet::Machine(message) => {
                let debited = match &message {
                    crate::slots::Message::Debits { slot, .. } => Some(*slot),
                    _ => None,
                };
                self.with(to, |machine, step| machine.receive(&sender, 0, message, step));
                if let Some(slot) = debited.filter(|slot| self.top(*slot).is_some_and(|(_, top, _)| top == to)) {
                    self.note_charges(slot, to);
                }
            }
            Packet::Forward {
                request,
                key,
                cost,
                check,
                stand_in,
            } => {
                self.forwarded(to, from, request, key, cost, check, stand_in);
            }
            Packet::Reply { request, answer } => self.replied(to, from, request, answer),
        }
    }

    fn said(&mut self, node: u8, said: &Said) {
        let counts = &mut self.oracle.counts;
        match said {
            Said::Arrived { .. } => counts.moves += 1,
            Said::TookOver { .. } => counts.takeovers += 1,
            Said::Lost { .. } => counts.conflicts += 1,
            Said::Paused { .. } => counts.pauses += 1,
            Said::Nonsense { .. } => self.oracle.fail(format!("node {node} could not read what a peer sent")),
            Said::Left { .. } | Said::TookBack { .. } | Said::Confirmed => {}
        }
        if self.profile == Profile::Planned
            && matches!(said, Said::TookOver { .. } | Said::Lost { .. } | Said::Paused { .. })
        {
            self.oracle
                .fail(format!("planned operations only, and node {node} says {said:?}"));
        }
    }

    /// A node says that it holds a slot.
    fn claim(&mut self, node: u8, slot: u16, epoch: u64) {
        let at = self.node(node);
        let (life, said, view) = (at.life, at.machine.cause(slot), at.gossip.hash());
        let cause = match (said, epoch) {
            (_, 1) => Cause::Founded,
            (true, _) => Cause::Handover,
            (false, _) => Cause::Takeover,
        };
        self.oracle.claims(slot, epoch, (node, life), cause, view);
    }

    pub fn keys_of(&self, slot: u16) -> impl Iterator<Item = u16> + use<> {
        (slot..KEYS).step_by(usize::from(SLOTS))
    }

    /// Notes what the states of the node with the best claim contain.
    pub fn note_charges(&mut self, slot: u16, node: u8) {
        for key in self.keys_of(slot) {
            let charged = self
                .node(node)
                .store
                .peek(key)
                .map_or(0, |bucket| bucket.charged + bucket.forgiven);
            self.oracle.best_charged[usize::from(key)] = charged;
        }
    }

    /// Who has the best claim to a slot.
    pub fn top(&self, slot: u16) -> Option<Top> {
        let claims = self.nodes.iter().filter(|(_, node)| node.up).filter_map(|(&i, node)| {
            let epoch = node.machine.claims(slot)?;
            Some((epoch.0, std::cmp::Reverse(i), node.life))
        });
        claims.max().map(|(epoch, i, life)| (epoch, i.0, life))
    }

    /// Notices that another node has the best claim to a slot, and allows what its state lacks, if that has a reason.
    pub fn note_top(&mut self, slot: u16) {
        let Some(top) = self.top(slot) else { return };
        let last = self.oracle.tops[usize::from(slot)];
        if last == Some(top) {
            return;
        }
        self.oracle.tops[usize::from(slot)] = Some(top);
        let noted_us = std::mem::replace(&mut self.oracle.noted_us[usize::from(slot)], self.now_us);
        let Some((last_epoch, last_node, last_life)) = last else {
            return;
        };
        let old = self.node(last_node);
        let old_lives = old.up && old.life == last_life;
        let new = self.node(top.1);
        // By handover from the one with the best claim, or by itself again: its state lacks nothing new.
        let handed = top.0 == last_epoch + 1
            && (new.machine.cause(slot) && old_lives && old.machine.offered_to(slot) == Some(&*new.id.name));
        let again = last_node == top.1 && last_life == top.2 && new.machine.holds_since(slot) <= new.clock_us(noted_us);
        if handed || again {
            return;
        }
        if self.profile == Profile::Planned {
            // The old holder may have given the slot away and gone; its state is where it went.
            return;
        }
        // One that comes by handover from another side of a cut may go back to a state that started anew.
        let new_in_step = new.machine.took_in_step(slot) && !new.machine.cause(slot);
        let calm_since = self.oracle.calm_since(last_node).max(self.oracle.calm_since(top.1));
        let weather = self.network.weather;
        let slow_us = weather.delay_us + weather.jitter_us + weather.late_us;
        let crashed_us = old.crashed_us;
        let bounded = !old_lives && new_in_step && crashed_us.is_some_and(|at_us| calm_since + 8_000_000 < at_us);
        let lag_us = self.settings.stream_interval_us + 2 * TICK_US + 2 * slow_us + 10_000;
        if old_lives && old.machine.claims(slot).is_some() && last_node != top.1 {
            self.note_charges(slot, last_node);
        }
        for key in self.keys_of(slot) {
            let charged = self
                .node(top.1)
                .store
                .peek(key)
                .map_or(0, |bucket| bucket.charged + bucket.forgiven);
            let most = bounded.then(|| {
                self.oracle
                    .admitted_since(key, last_node, crashed_us.unwrap_or(0).saturating_sub(lag_us))
            });
            self.oracle.allow(key, charged, most);
            // A state that does not come from the one before starts anew: at most one full burst. After a crash nobody can tell.
            if !old_lives || !new_in_step || self.profile == Profile::Chaos {
                let known = self.oracle.best_charged[usize::from(key)];
                // What it has of its own it did not get from there.
                let own = self.oracle.apart.get(&(top.2, key)).copied().unwrap_or(0);
                self.oracle.lost[usize::from(key)] += known.saturating_sub(charged.saturating_sub(own));
            }
        }
        self.note_charges(slot, top.1);
    }

    fn gossip(&mut self) {
        let up: Vec<u8> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.up && !node.paused)
            .map(|(i, _)| *i)
            .collect();
        // News pass from node to node within one round, as far as the cuts let them.
        let mut reaches: BTreeSet<(u8, u8)> = up.iter().map(|i| (*i, *i)).collect();
        for _ in 0..up.len() {
            let known: Vec<(u8, u8)> = reaches.iter().copied().collect();
            for (of, at) in known {
                reaches.extend(
                    up.iter()
                        .filter(|to| !self.network.is_cut(at, **to))
                        .map(|to| (of, *to)),
                );
            }
        }
        for &at in &up {
            for &of in &up {
                if reaches.contains(&(of, at)) && (of == at || !self.random.one_in(10)) {
                    let (id, state) = (self.node(of).id.clone(), self.node(of).state);
                    let now_us = self.now_us;
                    let Some(node) = self.nodes.get_mut(&at) else { continue };
                    node.gossip.hear(of, &id, state, now_us, &mut self.random);
                }
            }
            if !self.random.one_in(3) {
                self.look_at_members(at);
            }
        }
    }

    /// A node looks at what it has heard, and has a new view if that has changed.
    pub fn look_at_members(&mut self, node: u8) {
        let now_us = self.now_us;
        if let Some(members) = self.node_mut(node).gossip.changed(now_us) {
            let view = membership::view(members, SLOTS);
            self.with(node, |machine, step| machine.view(&view, step));
        }
    }

    pub fn start(&mut self, node: u8) {
        if self.nodes.get(&node).is_some_and(|node| node.up) {
            return;
        }
        // What was connected to the life before finds nothing to talk to.
        self.disconnect(node);
        self.lives += 1;
        let life = self.lives;
        let id = Incarnation {
            name: NAMES[usize::from(node)].into(),
            generation: self.now_us / 1_000,
        };
        let clock_us = self.random.between(0, 1_000_000_000);
        let wall_us = 1_700_000_000_000_000 + self.random.between(0, 10_000_000) as i64 - clock_us as i64;
        let mut new = Node::new(id, life, SLOTS, &self.settings, &self.rules, clock_us, wall_us);
        if let Some(old) = self.nodes.get(&node) {
            new.crashed_us = old.crashed_us;
        }
        self.nodes.insert(node, new);
        self.at(self.now_us, Event::Tick { node, life });
        let ready_us = self.random.between(200_000, 1_000_000);
        self.at(self.now_us + ready_us, Event::Ready { node, life });
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
        Event::Resume { node, life } => (13, Some(node), Some(life)),
        Event::Start { node } => (14, Some(node), None),
        Event::Ready { node, life } => (15, Some(node), Some(life)),
        Event::Drained { node, life, .. } => (16, Some(node), Some(life)),
    }
}
