//! Machines step by step, over a network that loses nothing unless a test says so.

use super::*;
use crate::simulation::{KeyRule, ModelStore};
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
                Effect::Freeze { slot } if self.freezes => self.step(node, |machine, step| machine.frozen(slot, step)),
                Effect::Event(event) => self.nodes[node].events.push(event),
                _ => {}
            }
        }
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

#[test]
fn a_founder_holds_all_and_a_join_moves_half_with_their_entries() {
    let net = pair();
    for slot in 0..SLOTS {
        let (holder, other) = if slot % 2 == 0 { (0, 1) } else { (1, 0) };
        assert!(net.decides(holder, slot) && !net.decides(other, slot), "slot {slot}");
        let name = net.nodes[holder].id.name.clone();
        assert_eq!(net.nodes[other].machine.decider(slot, net.now_us), Decider::There(name));
        assert!(net.nodes[other].machine.can_stand_in(slot), "the other has a replica");
        for key in [slot, slot + SLOTS] {
            assert_eq!(net.left(holder, key), Some(7));
            assert_eq!(net.left(other, key), Some(7));
        }
    }
}

#[test]
fn changes_reach_the_heir_within_an_interval_and_it_takes_over_with_them() {
    let mut net = pair();
    assert!(net.check(1, 1));
    net.run(&[0, 1], 30_000);
    assert_eq!(net.left(0, 1), Some(6));
    let epoch = net.nodes[0].machine.epoch(1);
    net.view(&[0], &[], &[0]);
    assert!(net.decides(0, 1));
    assert_eq!(net.nodes[0].machine.epoch(1), Epoch(epoch.0 + 1));
    assert!(net.nodes[0].events.contains(&Event::TookOver {
        slot: 1,
        epoch: Epoch(epoch.0 + 1),
        in_step: true
    }));
    assert!((0..6).all(|_| net.check(0, 1)) && !net.check(0, 1));
}

#[test]
fn the_clock_travels_and_a_fast_wall_clock_refills_nothing() {
    let mut net = pair();
    // Node b's wall clock is three seconds ahead; a token takes six.
    while net.check(1, 1) {}
    net.run(&[0, 1], 100_000);
    assert!(!net.check(1, 1));
    net.run(&[0, 1], 6_000_000);
    assert!(net.check(1, 1) && !net.check(1, 1));
}

#[test]
fn a_drain_leaves_nothing_behind() {
    let mut net = pair();
    net.view(&[0, 1], &[1], &[0, 1]);
    net.run(&[0, 1], 500_000);
    assert_eq!(net.nodes[1].machine.held(), 0);
    assert_eq!(net.nodes[0].machine.held(), usize::from(SLOTS));
    assert_eq!(net.left(0, 1), Some(7));
}

#[test]
fn an_offer_that_was_not_answered_is_not_decided_on_and_asked_again() {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.freezes = false;
    net.run(&[0, 1], 100_000);
    assert_eq!(net.nodes[0].machine.decider(1, net.now_us), Decider::Soon, "frozen");
    net.cut.push((1, 0));
    net.step(0, |machine, step| machine.frozen(1, step));
    net.deliver();
    assert!(net.decides(1, 1), "b has taken it");
    net.unlink(0, 1);
    net.cut.clear();
    net.run(&[0, 1], 1_000_000);
    assert_eq!(
        net.nodes[0].machine.decider(1, net.now_us),
        Decider::There("b".into()),
        "those who waited ask b"
    );
    net.link(0, 1);
    net.run(&[0, 1], 100_000);
    assert!(net.nodes[0].machine.can_stand_in(1) && net.nodes[0].machine.epoch(1) == Epoch(2));
}

#[test]
fn a_slot_offered_to_one_that_dies_is_taken_back_with_an_epoch_that_was_not_offered() {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.freezes = false;
    net.run(&[0, 1], 100_000);
    net.cut.push((0, 1));
    net.step(0, |machine, step| machine.frozen(1, step));
    net.run(&[0, 1], 100_000);
    assert!(!net.decides(0, 1));
    net.view(&[0], &[], &[0]);
    assert!(net.decides(0, 1));
    assert_eq!(net.nodes[0].machine.epoch(1), Epoch(3));
}

#[test]
fn an_offer_after_lost_changes_is_refused_and_the_slot_is_copied_again() {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.freezes = false;
    net.run(&[0, 1], 100_000);
    // The last changes are lost, and the offer is not.
    let now_us = net.now_us;
    assert!(net.nodes[0].store.check(1, 1, now_us));
    net.cut.push((0, 1));
    net.step(0, |machine, step| machine.frozen(1, step));
    net.cut.clear();
    net.freezes = true;
    net.run(&[0, 1], 2_000_000);
    assert!(net.decides(1, 1));
    assert_eq!(net.left(1, 1), Some(9));
    assert!(net.nodes[0].events.contains(&Event::TookBack {
        slot: 1,
        epoch: Epoch(3)
    }));
    assert_eq!(net.nodes[1].machine.epoch(1), Epoch(4));
}

#[test]
fn of_two_founders_the_smaller_name_holds_all_and_then_they_share() {
    let mut net = Net::new(&["a", "b"]);
    for node in [0, 1] {
        net.step(node, |machine, step| machine.found(step));
        net.view(&[node], &[], &[node]);
    }
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.deliver();
    net.deliver();
    assert_eq!(
        (net.nodes[0].machine.held(), net.nodes[1].machine.held()),
        (usize::from(SLOTS), 0)
    );
    net.run(&[0, 1], 500_000);
    assert_eq!((net.nodes[0].machine.held(), net.nodes[1].machine.held()), (8, 8));
}

#[test]
fn after_a_cut_the_higher_epoch_holds_and_the_other_follows() {
    let mut net = pair();
    net.unlink(0, 1);
    net.view(&[0], &[], &[0]);
    net.view(&[1], &[], &[1]);
    assert!(net.decides(0, 1) && net.decides(1, 1), "both sides go on");
    net.run(&[0, 1], 100_000);
    net.link(0, 1);
    net.deliver();
    assert!(net.decides(0, 1) && !net.decides(1, 1));
    net.view(&[0, 1], &[], &[0, 1]);
    net.run(&[0, 1], 1_000_000);
    assert!(net.decides(1, 1) && net.decides(0, 0), "each has its own again");
}

#[test]
fn a_restart_that_nobody_noticed_leaves_its_slots_to_the_heir() {
    let mut net = pair();
    net.unlink(0, 1);
    let b = net.add("b", 2);
    net.link(0, b);
    net.run(&[0, b], 10_000);
    assert_eq!(net.nodes[0].machine.held(), 8, "the view still has the old b");
    net.view(&[0], &[], &[0]);
    assert_eq!(net.nodes[0].machine.held(), usize::from(SLOTS));
    net.view(&[0, b], &[], &[0, b]);
    net.run(&[0, b], 500_000);
    assert!(net.decides(b, 1));
    assert_eq!(net.left(b, 1), Some(7));
}

#[test]
fn a_lost_announcement_is_noticed_by_a_digest() {
    let mut net = Net::new(&["a", "b", "c"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1, 2], &[], &[0, 1, 2]);
    net.link(0, 1);
    net.link(0, 2);
    net.link(1, 2);
    net.cut.push((1, 2));
    net.run(&[0, 1, 2], 200_000);
    assert_eq!(
        net.nodes[2].machine.decider(1, net.now_us),
        Decider::There("a".into()),
        "c has not heard of b"
    );
    net.cut.clear();
    net.run(&[0, 1, 2], 4_000_000);
    assert_eq!(net.nodes[2].machine.decider(1, net.now_us), Decider::There("b".into()));
}

#[test]
fn after_a_pause_a_node_decides_nothing_until_a_peer_has_confirmed() {
    let mut net = pair();
    net.run(&[0], 1_500_000);
    assert!(!net.decides(1, 1), "even before it ticks");
    net.step(1, |machine, step| machine.tick(step));
    assert_eq!(net.nodes[1].machine.decider(1, net.now_us), Decider::Soon);
    net.run(&[0, 1], 20_000);
    assert!(net.decides(1, 1));
    // This time it was taken for dead.
    net.run(&[0], 1_500_000);
    net.view(&[0], &[], &[0]);
    net.run(&[0, 1], 500_000);
    assert!(!net.decides(1, 1) && net.decides(0, 1));
    net.view(&[0, 1], &[], &[0]);
    net.run(&[0, 1], 500_000);
    assert!(net.decides(1, 1));
}

#[test]
fn a_slot_that_nobody_knows_is_taken_by_its_target_after_all_were_asked() {
    let mut net = Net::new(&["a", "b"]);
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.run(&[0, 1], 2_000_000);
    assert_eq!(net.nodes[0].machine.held(), 0);
    net.run(&[0, 1], 2_000_000);
    assert_eq!((net.nodes[0].machine.held(), net.nodes[1].machine.held()), (8, 8));
}

#[test]
fn messages_for_slots_of_others_do_nothing() {
    let mut net = pair();
    let id = net.nodes[1].id.clone();
    let beyond = SLOTS + 3;
    let claims = vec![Claim {
        first: 3,
        last: u16::MAX,
        epoch: Epoch(0),
        holder: None,
    }];
    let messages = vec![
        Message::Holdings {
            runs: vec![Run {
                first: beyond,
                last: u16::MAX,
                epoch: Epoch(9),
            }],
            all: false,
        },
        Message::Holdings {
            runs: vec![Run {
                first: 9,
                last: 2,
                epoch: Epoch(9),
            }],
            all: false,
        },
        Message::Ask {
            ranges: vec![(beyond, u16::MAX), (7, 3)],
            number: u64::MAX,
        },
        Message::Known {
            claims,
            answer: Some(3),
        },
        Message::Ack {
            slot: beyond,
            stream: 1,
            number: u64::MAX,
        },
        Message::Behind {
            slot: beyond,
            stream: 1,
        },
        Message::Unfollow {
            slot: beyond,
            epoch: Epoch(1),
        },
        Message::NotTaken {
            slot: beyond,
            epoch: Epoch(1),
        },
    ];
    for message in messages {
        net.step(0, |machine, step| machine.receive(&id, 7, message, step));
    }
    net.run(&[0, 1], 100_000);
    assert_eq!((net.nodes[0].machine.held(), net.nodes[1].machine.held()), (8, 8));
}
