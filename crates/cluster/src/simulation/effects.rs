//! What machines want done, and what reaches them.

use super::network::{Packet, Parcel, Way};
use super::world::{Event, World};
use crate::slots::Effect;

impl World {
    pub fn effect(&mut self, node: u8, effect: Effect) {
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
            Effect::Freeze { slot, number } => {
                let takes_us = if self.random.one_in(4) {
                    self.random.between(0, 2_000)
                } else {
                    0
                };
                self.at(
                    self.now_us + takes_us,
                    Event::Frozen {
                        node,
                        life,
                        slot,
                        number,
                    },
                );
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
            Effect::Event(crate::slots::Event::Paused { .. } | crate::slots::Event::Confirmed) => true,
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
        let way = Way {
            maker,
            from,
            life,
            sender: self.node(from).id.clone(),
        };
        if let Some((at_us, parcel)) = self.network.send(way, packet, self.now_us, &mut self.random) {
            self.at(at_us, Event::Arrive(parcel));
        }
        true
    }

    pub fn arrive(&mut self, parcel: Parcel) {
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
                if matches!(message, crate::slots::Message::Confirmed { member: Some(true), .. }) {
                    self.node_mut(to).unconfirmed_since_us = None;
                }
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
}
