//! Clients' commands: how a node routes them, and what it does with those of other nodes.

use super::network::{Answer, Packet};
use super::node::{Parked, Request};
use super::world::{Event, SLOTS, World};
use crate::circuit::{Class, Question, Route};
use crate::slots::Decider;
use std::sync::Arc;

impl World {
    pub fn command(&mut self, node: u8, key: u16, cost: u64, class: Class) {
        // A client that finds its node down or going asks the next.
        let fits = |node: &super::node::Node| node.up && node.state != crate::member::MemberState::Joining;
        let up: Vec<u8> = self
            .nodes
            .iter()
            .filter(|(_, node)| fits(node))
            .map(|(i, _)| *i)
            .collect();
        let node = if up.contains(&node) {
            Some(node)
        } else {
            self.random.pick(&up)
        };
        let Some(node) = node else { return };
        if self.node(node).paused {
            let event = Event::Command { node, key, cost, class };
            self.node_mut(node).backlog.push_back(event);
            return;
        }
        match class {
            Class::Check => self.oracle.counts.checks += 1,
            Class::Prompt | Class::Other => self.oracle.counts.others += 1,
        }
        self.requests += 1;
        let request = self.requests;
        let asked_us = self.node(node).clock_us(self.now_us);
        let new = Request {
            key,
            cost,
            class,
            asked_us,
            missed: Vec::new(),
            attempt: 0,
            asking: None,
            hint: None,
            hops: 0,
        };
        self.node_mut(node).requests.insert(request, new);
        self.route(node, request);
    }

    /// Does what is next for a command.
    fn route(&mut self, node: u8, id: u64) {
        for _ in 0..16 {
            let now_us = self.node(node).clock_us(self.now_us);
            let at = self.node_mut(node);
            let Some(request) = at.requests.get_mut(&id) else {
                return;
            };
            let slot = request.key % SLOTS;
            let mut decider = at.machine.decider(slot, now_us);
            if let (Decider::There(_) | Decider::Nobody, Some(hint)) = (&decider, request.hint.take()) {
                decider = Decider::There(hint);
            }
            let question = Question {
                me: &at.id.name,
                decider,
                heir: at.machine.heir_name(slot),
                replica: at.machine.can_stand_in(slot),
                class: request.class,
                asked_us: request.asked_us,
                missed: &request.missed,
            };
            let route = at.circuits.route(&question, now_us);
            let (key, cost, class) = (request.key, request.cost, request.class);
            match route {
                Route::Here => {
                    if class == Class::Check {
                        self.decide(node, key, cost);
                    }
                    return self.finish(node, id);
                }
                Route::StandIn => {
                    self.stand_in(node, key, cost);
                    return self.finish(node, id);
                }
                Route::Local => {
                    self.decide_locally(node, key, cost);
                    return self.finish(node, id);
                }
                Route::ClusterDown => {
                    self.oracle.counts.cluster_down += 1;
                    return self.finish(node, id);
                }
                Route::Wait(until_us) => {
                    self.park(node, slot, Parked::Own { request: id });
                    let at_us = until_us - self.node(node).clock_offset_us;
                    // Other commands look again now and then, as the node's own timer makes them.
                    let at_us = if class == Class::Other {
                        at_us.min(self.now_us + 100_000)
                    } else {
                        at_us
                    };
                    return self.wake_at(at_us.max(self.now_us + 1), node, slot);
                }
                Route::Holder(peer) => {
                    if self.ask(node, id, &peer, false) {
                        return;
                    }
                }
                Route::Heir(peer) => {
                    if self.ask(node, id, &peer, true) {
                        return;
                    }
                }
            }
        }
        self.oracle.fail(format!("node {node} cannot route a command"));
    }

    /// Asks a peer; false if there is no connection.
    fn ask(&mut self, node: u8, id: u64, peer: &Arc<str>, stand_in: bool) -> bool {
        let now_us = self.node(node).clock_us(self.now_us);
        let at = self.node_mut(node);
        let deadline_us = at.circuits.deadline_us(peer);
        let Some(request) = at.requests.get_mut(&id) else {
            return true;
        };
        request.attempt += 1;
        request.asking = Some(peer.clone());
        let (attempt, check) = (request.attempt, request.class == Class::Check);
        let packet = Packet::Forward {
            request: id,
            key: request.key,
            cost: request.cost,
            check,
            stand_in,
        };
        let to = Self::index(peer);
        if !self.send((node, to), node, packet) {
            let at = self.node_mut(node);
            at.circuits.missed(peer, now_us);
            if let Some(request) = at.requests.get_mut(&id) {
                request.missed.push(peer.clone());
                if !check {
                    // It waits for a connection or another holder.
                    let slot = request.key % SLOTS;
                    self.park(node, slot, Parked::Own { request: id });
                    self.wake_at(self.now_us + 50_000, node, slot);
                    return true;
                }
            }
            return false;
        }
        let life = self.node(node).life;
        let due_us = if check { deadline_us } else { 3_000_000 };
        self.at(
            self.now_us + due_us,
            Event::Due {
                node,
                life,
                request: id,
                attempt,
            },
        );
        true
    }

    /// An answer is due.
    pub fn due(&mut self, node: u8, id: u64, attempt: u32) {
        let now_us = self.node(node).clock_us(self.now_us);
        let at = self.node_mut(node);
        let Some(request) = at.requests.get_mut(&id).filter(|request| request.attempt == attempt) else {
            return;
        };
        let Some(peer) = request.asking.take() else { return };
        at.circuits.missed(&peer, now_us);
        request.missed.push(peer);
        if request.class == Class::Other {
            // Nobody knows whether it has been done.
            self.oracle.counts.cluster_down += 1;
            return self.finish(node, id);
        }
        self.route(node, id);
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of the packet")]
    pub fn forwarded(&mut self, node: u8, from: u8, request: u64, key: u16, cost: u64, check: bool, stand_in: bool) {
        let now_us = self.node(node).clock_us(self.now_us);
        let slot = key % SLOTS;
        let at = self.node(node);
        let answer = match at.machine.decider(slot, now_us) {
            Decider::Here => {
                let allowed = !check || self.decide(node, key, cost);
                Answer::Decided {
                    allowed,
                    remaining: self.remaining(node, key),
                    owner: true,
                }
            }
            Decider::Soon if !stand_in => {
                let until_us = self.now_us + if check { 20_000 } else { 3_000_000 };
                self.park(
                    node,
                    slot,
                    Parked::Foreign {
                        from,
                        request,
                        key,
                        cost,
                        check,
                        until_us,
                    },
                );
                return self.wake_at(until_us, node, slot);
            }
            _ if stand_in && at.machine.can_stand_in(slot) => {
                let allowed = self.stand_in(node, key, cost);
                Answer::Decided {
                    allowed,
                    remaining: self.remaining(node, key),
                    owner: false,
                }
            }
            Decider::There(holder) => Answer::NowAt(Some(Self::index(&holder))),
            Decider::Soon | Decider::Nobody => Answer::NowAt(None),
        };
        self.send((from, node), node, Packet::Reply { request, answer });
    }

    pub fn replied(&mut self, node: u8, from: u8, id: u64, answer: Answer) {
        let now_us = self.node(node).clock_us(self.now_us);
        let peer = self.node(from).id.name.clone();
        let at = self.node_mut(node);
        at.circuits.answered(&peer, now_us);
        let Some(request) = at.requests.get_mut(&id) else {
            return;
        };
        match answer {
            Answer::Decided { remaining, .. } => {
                let key = request.key;
                at.saw(key, remaining);
                self.finish(node, id);
            }
            Answer::NowAt(holder) => {
                if request.asking.as_ref() != Some(&peer) {
                    return;
                }
                request.asking = None;
                request.hops += 1;
                request.attempt += 1;
                let late = now_us >= request.asked_us + 20_000;
                if late && request.class == Class::Check {
                    request.missed.push(peer);
                    return self.route(node, id);
                }
                let other = holder.filter(|holder| *holder != from && *holder != node);
                if request.hops <= 4 && other.is_some() {
                    let hint = other
                        .and_then(|other| self.nodes.get(&other))
                        .map(|other| other.id.name.clone());
                    if let Some(request) = self.node_mut(node).requests.get_mut(&id) {
                        request.hint = hint;
                    }
                    return self.route(node, id);
                }
                // Nobody knows better: soon somebody will.
                let slot = request.key % SLOTS;
                self.park(node, slot, Parked::Own { request: id });
                self.wake_at(self.now_us + 1_000, node, slot);
            }
        }
    }

    fn park(&mut self, node: u8, slot: u16, parked: Parked) {
        self.node_mut(node).parked.entry(slot).or_default().push(parked);
    }

    /// Wakes those who wait for a slot at a time, with one timer for all of them.
    fn wake_at(&mut self, at_us: u64, node: u8, slot: u16) {
        let at_us = at_us.max(self.now_us + 1);
        let (now_us, life) = (self.now_us, self.node(node).life);
        let timer = self.node_mut(node).timers.entry(slot).or_insert(u64::MAX);
        if at_us < *timer || *timer < now_us {
            *timer = at_us;
            self.at(
                at_us,
                Event::Unpark {
                    node,
                    life,
                    slot,
                    timer: true,
                },
            );
        }
    }

    pub fn timer_is_due(&mut self, node: u8, slot: u16) -> bool {
        let now_us = self.now_us;
        // After a pause it is late.
        let due = self.node(node).timers.get(&slot).is_some_and(|at_us| *at_us <= now_us);
        if due {
            self.node_mut(node).timers.remove(&slot);
        }
        due
    }

    /// Something has changed for a slot: who waits tries again.
    pub fn unpark(&mut self, node: u8, slot: u16) {
        for parked in self.node_mut(node).parked.remove(&slot).unwrap_or_default() {
            match parked {
                Parked::Own { request } => self.route(node, request),
                Parked::Foreign {
                    from,
                    request,
                    key,
                    cost,
                    check,
                    until_us,
                } => {
                    if self.now_us < until_us {
                        self.forwarded(node, from, request, key, cost, check, false);
                    }
                }
            }
        }
    }

    fn finish(&mut self, node: u8, id: u64) {
        self.node_mut(node).requests.remove(&id);
    }

    fn remaining(&self, node: u8, key: u16) -> u64 {
        let bucket = self.node(node).store.peek(key);
        let window_us = self.rules[usize::from(key)].window_us as i64;
        bucket.map_or(0, |bucket| (bucket.level / window_us).max(0) as u64)
    }
}
