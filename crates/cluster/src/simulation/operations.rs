//! How connections come and go, how faults strike, and what must be so at the end.

use super::faults::{Fault, Profile};
use super::world::{Event, FAULTS_END_US, SLOTS, World};
use crate::member::MemberState;

/// How much may be unknown around a trouble, in microseconds: before it, what was under way; after it, what was admitted before the
/// journal began.
const GAP_BEFORE_US: u64 = 150_000;
const GAP_AFTER_US: u64 = 450_000;
/// The most messages of machines in one second of the simulation.
const MESSAGES_MAX: u64 = 5_000;

impl World {
    pub fn connect(&mut self, from: u8, to: u8) {
        let wait_us = self.random.between(50_000, 150_000);
        self.at(self.now_us + wait_us, Event::Connect { from, to });
        let lives = |node: u8| self.nodes.get(&node).is_some_and(|node| node.up && !node.paused);
        if self.network.is_connected(from, to) || !lives(from) || self.network.are_cut(from, to) {
            return;
        }
        let Some(peer) = self.nodes.get(&to) else { return };
        let (id, up) = (peer.id.clone(), peer.up);
        if !up {
            let now_us = self.node(from).clock_us(self.now_us);
            return self.node_mut(from).circuits.refused(&id.name, now_us);
        }
        if !lives(to) {
            return;
        }
        self.network.connect(from, to);
        self.links.insert((from, to), id.clone());
        self.node_mut(from).circuits.connected(&id.name);
        self.with(from, |machine, step| machine.link_up(&id, 0, 0..SLOTS, step));
    }

    pub fn reset(&mut self, from: u8, to: u8, late_us: u64) {
        if !self.network.reset(from, to, self.now_us, late_us) {
            return;
        }
        self.oracle.trouble(from, self.now_us);
        self.oracle.trouble(to, self.now_us);
        let Some(id) = self.links.remove(&(from, to)) else {
            return;
        };
        let life = self.node(from).life;
        self.happen(Event::Down {
            node: from,
            life,
            peer: id,
        });
    }

    /// All connections of a node end.
    pub fn disconnect(&mut self, node: u8) {
        for (from, to) in self.network.connections_of(node) {
            let late_us = self.random.between(0, 4_000);
            self.reset(from, to, late_us);
        }
    }

    fn pick(&mut self, state: Option<MemberState>) -> Option<u8> {
        let fits = |node: &super::node::Node| node.up && !node.paused && state.is_none_or(|state| node.state == state);
        let up: Vec<u8> = self
            .nodes
            .iter()
            .filter(|(_, node)| fits(node))
            .map(|(i, _)| *i)
            .collect();
        // One is left alone, so that there is somebody to ask.
        if up.len() < 2 { None } else { self.random.pick(&up) }
    }

    /// Lets a fault happen, or tries again a little later if there is nobody that it can happen to.
    pub fn fault(&mut self, fault: Fault) {
        if self.strike(fault) {
            self.oracle.counts.faults += 1;
        } else if self.now_us + 300_000 < FAULTS_END_US {
            self.at(self.now_us + 300_000, Event::Fault(fault));
        }
    }

    fn strike(&mut self, fault: Fault) -> bool {
        if self.watched.is_some() {
            println!("{:>9} {fault:?}", self.now_us);
        }
        match fault {
            Fault::Crash { power, back_us } => {
                let Some(node) = self.pick(None) else { return false };
                self.crash(node, power);
                self.at(self.now_us + back_us, Event::Start { node });
            }
            Fault::Pause { for_us } => {
                let Some(node) = self.pick(None) else { return false };
                self.oracle.trouble(node, self.now_us);
                let life = self.node(node).life;
                let now_us = self.now_us;
                (self.node_mut(node).paused, self.node_mut(node).paused_us) = (true, now_us);
                self.at(self.now_us + for_us, Event::Resume { node, life });
            }
            Fault::Cut { both, others, for_us } => {
                let Some(node) = self.pick(None) else { return false };
                let mut peers: Vec<u8> = self.nodes.keys().copied().filter(|peer| *peer != node).collect();
                while peers.len() > usize::from(others) {
                    let out = self.random.between(0, peers.len() as u64 - 1) as usize;
                    peers.remove(out);
                }
                let outward = self.random.one_in(2);
                for peer in peers {
                    let ways = [(node, peer), (peer, node)];
                    for (from, to) in ways
                        .into_iter()
                        .skip(usize::from(!both && outward))
                        .take(1 + usize::from(both))
                    {
                        self.network.cut(from, to);
                        self.at(self.now_us + for_us, Event::Heal { from, to });
                    }
                    self.oracle.trouble(node, self.now_us);
                    self.oracle.trouble(peer, self.now_us);
                    let patience_us = self.random.between(300_000, 2_000_000);
                    self.at(self.now_us + patience_us, Event::GiveUp { a: node, b: peer });
                }
            }
            Fault::Reset => {
                let Some(node) = self.pick(None) else { return false };
                let connections = self.network.connections_of(node);
                let Some((from, to)) = self.random.pick(&connections) else {
                    return false;
                };
                let late_us = self.random.between(0, 4_000);
                self.reset(from, to, late_us);
            }
            Fault::Step { by_us } => {
                let Some(node) = self.pick(None) else { return false };
                self.node_mut(node).store.wall_offset_us += by_us;
            }
            Fault::Join => {
                let Some(node) = (0..7).find(|node| !self.nodes.contains_key(node)) else {
                    // All are there: one goes, and comes back.
                    return self.strike(Fault::Drain { back_us: 500_000 });
                };
                self.start(node);
            }
            Fault::Drain { back_us } => {
                let count = |state| {
                    self.nodes
                        .values()
                        .filter(|node| node.up && node.state == state)
                        .count()
                };
                let may_go = count(MemberState::Ready) > 2 && count(MemberState::Leaving) == 0;
                let Some(node) = self.pick(Some(MemberState::Ready)).filter(|_| may_go) else {
                    return false;
                };
                self.node_mut(node).state = MemberState::Leaving;
                let life = self.node(node).life;
                self.at(
                    self.now_us + 100_000,
                    Event::Drained {
                        node,
                        life,
                        back_us,
                        tries: 0,
                    },
                );
            }
        }
        true
    }

    fn crash(&mut self, node: u8, power: bool) {
        let now_us = self.now_us;
        for slot in 0..SLOTS {
            if self.oracle.tops[usize::from(slot)].is_some_and(|(_, top, _)| top == node)
                && self.node(node).machine.claims(slot).is_some()
            {
                self.note_charges(slot, node);
            }
        }
        let at = self.node_mut(node);
        at.up = false;
        at.crashed_us = Some(now_us);
        let (life, unanswered) = (at.life, at.requests.len() as u64);
        let journalled = at.machine.journalled();
        at.requests.clear();
        at.backlog.clear();
        self.oracle.counts.unanswered += unanswered;
        // What it admitted without the best claim, and had perhaps not told, nobody knows any more.
        let apart: Vec<(u16, u64)> = self
            .oracle
            .apart
            .range((life, 0)..=(life, u16::MAX))
            .map(|((_, key), tokens)| (*key, *tokens))
            .collect();
        for (key, tokens) in apart {
            self.oracle.lost[usize::from(key)] += tokens;
        }
        for debit in journalled {
            if let Ok(key) = <[u8; 2]>::try_from(&debit.bucket[..]) {
                self.oracle.lost[usize::from(u16::from_le_bytes(key))] += debit.tokens;
            }
        }
        if power {
            let noticed_us = self.random.between(200_000, 2_000_000);
            self.at(now_us + noticed_us, Event::Gone { node, life });
        } else {
            self.disconnect(node);
        }
        for slot in 0..SLOTS {
            self.note_top(slot);
        }
    }

    pub fn resume(&mut self, node: u8) {
        self.oracle.trouble(node, self.now_us);
        let (now_us, death_us) = (self.now_us, self.settings.death_us);
        let at = self.node_mut(node);
        at.paused = false;
        let long = now_us > at.paused_us + death_us + 100_000;
        at.unconfirmed_since_us = (long && at.gossip.shown().len() > 1).then_some(now_us);
        let backlog = std::mem::take(&mut at.backlog);
        for event in backlog {
            self.at(self.now_us, event);
        }
        if self.random.one_in(2) {
            // It looks at its members before it hears of them: all seem to be dead.
            self.look_at_members(node);
        }
    }

    /// A node that leaves goes once it holds nothing.
    pub fn drained(&mut self, node: u8, life: u64, back_us: u64, tries: u32) {
        let seen = self.nodes.values().any(|other| {
            other.up
                && other
                    .gossip
                    .shown()
                    .iter()
                    .any(|(id, leaving)| *id == self.node(node).id && !leaving)
        });
        if !self.node(node).machine.drained() || seen || !self.node(node).requests.is_empty() {
            if self.watched.is_some() {
                let machine = &self.node(node).machine;
                let owes = machine.journalled();
                println!(
                    "{:>9} {node} cannot leave: holds {}, owes {owes:?}, is seen: {seen}",
                    self.now_us,
                    machine.held()
                );
            }
            if tries > 100 && self.profile == Profile::Planned {
                return self.oracle.fail(format!("node {node} cannot leave"));
            }
            return self.at(
                self.now_us + 100_000,
                Event::Drained {
                    node,
                    life,
                    back_us,
                    tries: tries + 1,
                },
            );
        }
        self.node_mut(node).up = false;
        self.disconnect(node);
        self.at(self.now_us + back_us, Event::Start { node });
    }

    /// What must be so at the end, when all has been well for a while.
    pub fn judge(&mut self) {
        if self.oracle.counts.messages_in_a_second_max > MESSAGES_MAX {
            let most = self.oracle.counts.messages_in_a_second_max;
            self.oracle.fail(format!("a storm: {most} messages in a second"));
        }
        let planned = self.profile == Profile::Planned;
        for (i, node) in &self.nodes {
            let clock_us = node.clock_us(self.now_us);
            let figures = node.machine.figures(clock_us);
            let waiting = node
                .requests
                .values()
                .filter(|request| request.asked_us + 4_000_000 < clock_us)
                .count();
            let (dropped, journalled) = node.machine.journal_figures();
            let what = if !node.up {
                "is down"
            } else if figures.to_move > 0 || figures.unknown > 0 || figures.moving > 0 {
                "has slots that are not where they belong"
            } else if figures.followed < figures.held || figures.copies_waiting > 0 || figures.lag_us > 1_000_000 {
                "has slots without a follower in step"
            } else if waiting > 0 {
                "has not answered"
            } else if !node.machine.certain(clock_us) {
                "is not certain"
            } else if dropped > 0 || journalled > 0 {
                "has a journal left"
            } else if planned && self.oracle.counts.cluster_down > 0 {
                "has refused a command"
            } else {
                continue;
            };
            let text = format!(
                "at the end node {i} {what}: {figures:?}, journals {journalled} {dropped}; {:?}, paused {}, sees {:?}",
                node.state,
                node.paused,
                node.gossip.shown()
            );
            return self.oracle.fail(text);
        }
        for slot in 0..SLOTS {
            let Some(top) = self.top(slot) else {
                return self.oracle.fail(format!("nobody holds slot {slot}"));
            };
            for (i, node) in &self.nodes {
                if *i != top.1 && node.machine.claims(slot).is_some() {
                    return self
                        .oracle
                        .fail(format!("at the end nodes {} and {i} hold slot {slot}", top.1));
                }
            }
            for key in (0..self.rules.len() as u16).filter(|key| self.rules[usize::from(*key)].slot == slot) {
                let bucket = self.node(top.1).store.peek(key);
                let charged = bucket.map_or(0, |bucket| bucket.charged + bucket.forgiven);
                let k = usize::from(key);
                let lacks = self.oracle.admitted[k].saturating_sub(charged);
                let unknown = self.oracle.lost[k] + self.oracle.gap(key, GAP_BEFORE_US, GAP_AFTER_US);
                if lacks > unknown {
                    return self.oracle.fail(format!(
                        "lost debts: {lacks} tokens of key {key} are in no state at the end, {unknown} could not be known"
                    ));
                }
            }
        }
    }
}
