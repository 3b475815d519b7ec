//! How nodes start, and what they hear of each other.

use super::membership;
use super::node::Node;
use super::world::{Event, NAMES, SLOTS, World};
use crate::member::Incarnation;
use std::collections::BTreeSet;

impl World {
    pub fn gossip(&mut self) {
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
        if self.watched.is_some() {
            println!("{:>9} {node} starts", self.now_us);
        }
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
        new.started_us = self.now_us;
        new.machine.defect = self.defect;
        self.nodes.insert(node, new);
        self.at(self.now_us, Event::Tick { node, life });
        let ready_us = self.random.between(200_000, 1_000_000);
        self.at(self.now_us + ready_us, Event::Ready { node, life });
    }
}
