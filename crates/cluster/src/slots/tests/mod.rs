//! Machines step by step, over a network that loses nothing unless a test says so.

mod contact;
mod debts;
mod moves;

use super::*;
use crate::simulation::{KeyRule, ModelStore};
use std::collections::BTreeMap;
use std::sync::Arc;

const SLOTS: u16 = 16;

struct Node {
    id: Incarnation,
    machine: Machine,
    store: ModelStore,
    effects: Vec<Effect>,
    events: Vec<Event>,
}

/// A few nodes, and the messages between them that are under way.
struct Net {
    now_us: u64,
    nodes: Vec<Node>,
    under_way: Vec<(usize, usize, Message)>,
    /// Messages from the first to the second are lost.
    cut: Vec<(usize, usize)>,
    /// Whether a slot that is to be frozen is so at once.
    freezes: bool,
    /// By node and slot: the number of the last attempt to freeze it.
    freeze_numbers: BTreeMap<(usize, u16), u64>,
}

fn rules() -> Arc<[KeyRule]> {
    let rule = |slot| KeyRule {
        slot,
        limit: 10,
        window_us: 60_000_000,
        burst: 10,
    };
    (0..SLOTS * 4).map(|key| rule(key % SLOTS)).collect()
}

impl Net {
    fn new(names: &[&str]) -> Self {
        let mut net = Self {
            now_us: 1_000_000,
            nodes: Vec::new(),
            under_way: Vec::new(),
            cut: Vec::new(),
            freezes: true,
            freeze_numbers: BTreeMap::new(),
        };
        for name in names {
            net.add(name, 1);
        }
        net
    }

    fn add(&mut self, name: &str, generation: u64) -> usize {
        let id = Incarnation {
            name: name.into(),
            generation,
        };
        let settings = Settings {
            batch_bytes: 60,
            ..Settings::default()
        };
        let store = ModelStore::new(
            SLOTS,
            rules(),
            1_700_000_000_000_000 + self.nodes.len() as i64 * 3_000_000,
        );
        let machine = Machine::new(id.clone(), 0..SLOTS, settings);
        self.nodes.push(Node {
            id,
            machine,
            store,
            effects: Vec::new(),
            events: Vec::new(),
        });
        self.nodes.len() - 1
    }

    fn step<T>(&mut self, node: usize, run: impl FnOnce(&mut Machine, &mut Step<'_>) -> T) -> T {
        let now_us = self.now_us;
        let at = &mut self.nodes[node];
        let mut step = Step {
            now_us,
            store: &mut at.store,
            effects: &mut at.effects,
        };
        let answer = run(&mut at.machine, &mut step);
        self.take_effects(node);
        answer
    }

    fn take_effects(&mut self, node: usize) {
        for effect in std::mem::take(&mut self.nodes[node].effects) {
            match effect {
                Effect::Send { peer, message, .. } => {
                    let to = self.nodes.iter().rposition(|other| other.id.name == peer);
                    let to = to.expect("a node of that name");
                    if !self.cut.contains(&(node, to)) {
                        self.under_way.push((node, to, message));
                    }
                }
                Effect::Freeze { slot, number } => {
                    self.freeze_numbers.insert((node, slot), number);
                    if self.freezes {
                        self.frozen(node, slot);
                    }
                }
                Effect::Event(event) => self.nodes[node].events.push(event),
                _ => {}
            }
        }
    }

    /// Nothing is under way in a slot that was to be frozen.
    fn frozen(&mut self, node: usize, slot: u16) {
        let number = self.freeze_numbers[&(node, slot)];
        self.step(node, |machine, step| machine.frozen(slot, number, step));
    }

    /// All nodes with an index in `members` learn of a view of those; the ring gives slot s to member s mod their number.
    fn view(&mut self, members: &[usize], leaving: &[usize], told: &[usize]) {
        let mut list: Vec<(Incarnation, bool)> = members
            .iter()
            .map(|&i| (self.nodes[i].id.clone(), leaving.contains(&i)))
            .collect();
        list.sort();
        let ring: Vec<u16> = (0..list.len() as u16).filter(|&i| !list[usize::from(i)].1).collect();
        let nth = |slot: u16, n: usize| match ring.len() > n {
            true => ring[(usize::from(slot) + n) % ring.len()],
            false => NOBODY,
        };
        let view = View {
            members: list,
            targets: (0..SLOTS).map(|slot| nth(slot, 0)).collect(),
            heirs: (0..SLOTS).map(|slot| nth(slot, 1)).collect(),
        };
        for &node in told {
            self.step(node, |machine, step| machine.view(&view, step));
        }
    }

    fn link(&mut self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            let id = self.nodes[to].id.clone();
            self.step(from, |machine, step| machine.link_up(&id, 0, 0..SLOTS, step));
        }
    }

    fn unlink(&mut self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            let id = self.nodes[to].id.clone();
            self.step(from, |machine, step| machine.link_down(&id, 0, step));
        }
        self.under_way
            .retain(|&(from, to, _)| (from, to) != (a, b) && (from, to) != (b, a));
    }

    fn deliver(&mut self) {
        self.deliver_to(|_| true);
    }

    fn deliver_to(&mut self, awake: impl Fn(usize) -> bool) {
        let (now, later) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|(_, to, _)| awake(*to));
        self.under_way = later;
        let now: Vec<(usize, usize, Message)> = now;
        for (from, to, message) in now {
            let id = self.nodes[from].id.clone();
            self.step(to, |machine, step| machine.receive(&id, 0, message, step));
        }
    }

    /// Lets time pass for the given nodes.
    fn run(&mut self, nodes: &[usize], time_us: u64) {
        for _ in 0..time_us / 5_000 {
            self.now_us += 5_000;
            for &node in nodes {
                self.step(node, |machine, step| machine.tick(step));
            }
            self.deliver_to(|node| nodes.contains(&node));
        }
    }

    fn decides(&self, node: usize, slot: u16) -> bool {
        self.nodes[node].machine.decider(slot, self.now_us) == Decider::Here
    }

    fn check(&mut self, node: usize, key: u16) -> bool {
        assert!(self.decides(node, key % SLOTS), "node {node} decides for key {key}");
        let now_us = self.now_us;
        self.nodes[node].store.check(key, 1, now_us)
    }

    fn left(&self, node: usize, key: u16) -> Option<i64> {
        self.nodes[node].store.peek(key).map(|bucket| bucket.level / 60_000_000)
    }
}

/// Two nodes, of which the first has founded the cluster, and each of which has every second slot.
fn pair() -> Net {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0], &[], &[0]);
    for key in 0..SLOTS * 4 {
        for _ in 0..3 {
            assert!(net.check(0, key));
        }
    }
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.run(&[0, 1], 500_000);
    net
}
