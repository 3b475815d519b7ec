//! Connections between the nodes: each is made by one side, carries packets both ways in order, stalls while a direction is cut, and
//! ends with a reset, after which a beginning of what was under way may still arrive.

use super::random::Random;
use crate::member::Incarnation;
use crate::slots::Message;
use std::collections::BTreeMap;

/// Who sends by which connection, and to whom.
#[derive(Debug, Clone)]
pub(super) struct Way {
    /// Who has made the connection, and to whom.
    pub maker: (u8, u8),
    pub from: u8,
    /// The life of the receiver.
    pub life: u64,
    /// The life of the sender.
    pub sender: Incarnation,
}

/// What nodes send each other.
#[derive(Debug, Clone)]
pub(super) enum Packet {
    Machine(Message),
    /// A client's command, from the node that it came to.
    Forward {
        request: u64,
        key: u16,
        cost: u64,
        check: bool,
        stand_in: bool,
    },
    Reply {
        request: u64,
        answer: Answer,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was decided; what remains; by the holder, or else by a stand-in.
    Decided { allowed: bool, remaining: u64, owner: bool },
    /// Another node holds the slot, as far as this one knows.
    NowAt(Option<u8>),
}

/// A packet that is under way.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    pub connection: u64,
    pub from: u8,
    pub to: u8,
    /// The life of the receiver that it is for.
    pub life: u64,
    /// Which life has sent it.
    pub sender: Incarnation,
    pub packet: Packet,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    /// When the last packet of a direction arrives: with the one that made it as the sender, and as the receiver.
    last_us: [u64; 2],
    stalled: [Vec<Parcel>; 2],
}

/// How bad the network is, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    pub delay_us: u64,
    pub jitter_us: u64,
    /// One packet in so many is late.
    pub late_one_in: u64,
    pub late_us: u64,
    /// One message in so many arrives twice.
    pub twice_one_in: u64,
}

#[derive(Debug)]
pub(super) struct Network {
    pub weather: Weather,
    connections: BTreeMap<(u8, u8), Connection>,
    last_number: u64,
    /// How many cuts each direction has now.
    cuts: BTreeMap<(u8, u8), u32>,
    /// Connections that have been reset, and until when their packets still arrive.
    closed: BTreeMap<u64, u64>,
}

impl Network {
    pub fn new(weather: Weather) -> Self {
        Self {
            weather,
            connections: BTreeMap::new(),
            last_number: 0,
            cuts: BTreeMap::new(),
            closed: BTreeMap::new(),
        }
    }

    pub fn cut(&mut self, from: u8, to: u8) {
        *self.cuts.entry((from, to)).or_default() += 1;
    }

    /// Ends a cut. What had stalled meanwhile is answered, to be scheduled.
    pub fn heal(&mut self, from: u8, to: u8, now_us: u64, random: &mut Random) -> Vec<(u64, Parcel)> {
        let left = self.cuts.get_mut(&(from, to)).map_or(0, |cuts| {
            *cuts -= 1;
            *cuts
        });
        let mut freed = Vec::new();
        if left == 0 {
            for (maker, direction) in [((from, to), 0), ((to, from), 1)] {
                let Some(connection) = self.connections.get_mut(&maker) else {
                    continue;
                };
                for parcel in std::mem::take(&mut connection.stalled[direction]) {
                    freed.push((maker, direction, parcel));
                }
            }
        }
        freed
            .into_iter()
            .filter_map(|(maker, direction, parcel)| Some((self.arrival(maker, direction, now_us, random)?, parcel)))
            .collect()
    }

    pub fn is_cut(&self, from: u8, to: u8) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|cuts| *cuts > 0)
    }

    pub fn are_cut(&self, a: u8, b: u8) -> bool {
        self.is_cut(a, b) || self.is_cut(b, a)
    }

    pub fn is_connected(&self, from: u8, to: u8) -> bool {
        self.connections.contains_key(&(from, to))
    }

    pub fn connect(&mut self, from: u8, to: u8) {
        self.last_number += 1;
        let connection = Connection {
            number: self.last_number,
            last_us: [0, 0],
            stalled: [Vec::new(), Vec::new()],
        };
        self.connections.insert((from, to), connection);
    }

    /// Resets the connection that `from` made; whether there was one. Of what is under way, what comes in the next `late_us` still
    /// arrives.
    pub fn reset(&mut self, from: u8, to: u8, now_us: u64, late_us: u64) -> bool {
        let connection = self.connections.remove(&(from, to));
        if let Some(connection) = &connection {
            self.closed.insert(connection.number, now_us + late_us);
        }
        connection.is_some()
    }

    pub fn delivers(&self, parcel: &Parcel, now_us: u64) -> bool {
        self.closed
            .get(&parcel.connection)
            .is_none_or(|until_us| now_us <= *until_us)
    }

    /// Sends by the connection that `maker.0` has made to `maker.1`; when it arrives, if it is not lost and not stalled.
    pub fn send(&mut self, way: Way, packet: Packet, now_us: u64, random: &mut Random) -> Option<(u64, Parcel)> {
        let Way {
            maker,
            from,
            life,
            sender,
        } = way;
        let direction = usize::from(maker.0 != from);
        let to = if direction == 0 { maker.1 } else { maker.0 };
        let cut = self.is_cut(from, to);
        let connection = self.connections.get_mut(&maker)?;
        let parcel = Parcel {
            connection: connection.number,
            from,
            to,
            life,
            sender,
            packet,
        };
        if cut || !connection.stalled[direction].is_empty() {
            connection.stalled[direction].push(parcel);
            return None;
        }
        Some((self.arrival(maker, direction, now_us, random)?, parcel))
    }

    fn arrival(&mut self, maker: (u8, u8), direction: usize, now_us: u64, random: &mut Random) -> Option<u64> {
        let weather = self.weather;
        let mut delay_us = weather.delay_us + random.between(0, weather.jitter_us);
        if random.one_in(weather.late_one_in) {
            delay_us += random.between(0, weather.late_us);
        }
        let last_us = &mut self.connections.get_mut(&maker)?.last_us[direction];
        *last_us = (*last_us + 1).max(now_us + delay_us);
        Some(*last_us)
    }

    /// The connections that `node` has made, or others to it.
    pub fn connections_of(&self, node: u8) -> Vec<(u8, u8)> {
        self.connections
            .keys()
            .copied()
            .filter(|(from, to)| *from == node || *to == node)
            .collect()
    }
}
