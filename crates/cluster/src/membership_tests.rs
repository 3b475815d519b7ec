use super::*;
use crate::view::tests::says;
use std::collections::BTreeMap;

const MS: u64 = 1000;
const SLOTS: u16 = 64;

/// Nodes that hear each other at once, every 100 ms.
#[derive(Default)]
struct Cluster {
    now_us: u64,
    nodes: BTreeMap<&'static str, Membership>,
    cut: BTreeSet<&'static str>,
}

impl Cluster {
    fn start(&mut self, name: &'static str, has_seeds: bool) {
        let id = Incarnation {
            name: name.into(),
            generation: self.now_us,
        };
        let mut node = Membership::new(id, SLOTS, has_seeds, self.now_us);
        node.prepared();
        self.nodes.insert(name, node);
    }

    fn of(names: &[&'static str]) -> Self {
        let mut cluster = Self::default();
        for name in names {
            cluster.start(name, *name != names[0]);
        }
        cluster.run(1000);
        assert!(names.iter().all(|name| cluster.state(name) == MemberState::Ready));
        cluster
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now_us += 100 * MS;
            let said: BTreeMap<&str, Heard> = self
                .nodes
                .iter()
                .map(|(name, node)| {
                    let mut said = says(name, node.me.generation, node.state());
                    said.returns = node.returns();
                    said.departures = node.claims();
                    said.view_hash = node.view().hash();
                    (*name, said)
                })
                .collect();
            for (me, node) in &mut self.nodes {
                let hears = |other: &&str| self.cut.contains(me) == self.cut.contains(*other);
                let heard: Vec<Heard> = said
                    .iter()
                    .filter(|(other, _)| hears(other))
                    .map(|(_, said)| said.clone())
                    .collect();
                node.hear(self.now_us, &heard);
            }
        }
    }

    fn state(&self, name: &str) -> MemberState {
        self.nodes[name].state()
    }

    /// Runs until a member is in the ring of everyone, and says how long that took.
    fn until_in_ring(&mut self, name: &str) -> u64 {
        let begin_us = self.now_us;
        while !self.nodes.values().all(|node| in_ring(node.view(), name)) {
            self.run(100);
            assert!(self.now_us < begin_us + 200_000 * MS, "{name} does not come back");
        }
        (self.now_us - begin_us) / MS
    }

    fn agree(&self) -> bool {
        let mut hashes = self.nodes.values().map(|node| node.view().hash());
        let first = hashes.next();
        hashes.all(|hash| Some(hash) == first)
    }
}

fn in_ring(view: &View, name: &str) -> bool {
    view.rank(name).is_some_and(|number| view.share(number) > 0)
}

#[test]
fn a_node_without_seeds_is_ready_as_soon_as_it_is_prepared() {
    let mut node = Membership::new(
        Incarnation {
            name: "a".into(),
            generation: 1,
        },
        SLOTS,
        false,
        0,
    );
    node.hear(0, &[says("a", 1, MemberState::Joining)]);
    assert_eq!(node.state(), MemberState::Joining);
    node.prepared();
    node.hear(0, &[says("a", 1, MemberState::Joining)]);
    assert_eq!(node.state(), MemberState::Ready);
    assert!(node.hear(1, &[says("a", 1, MemberState::Ready)]));
    assert_eq!(node.view().share(0), SLOTS);
}

#[test]
fn a_node_with_seeds_waits_until_it_has_heard_them_but_not_for_ever() {
    let mut node = Membership::new(
        Incarnation {
            name: "b".into(),
            generation: 1,
        },
        SLOTS,
        true,
        0,
    );
    node.prepared();
    let me = says("b", 1, MemberState::Joining);
    let others = [says("a", 1, MemberState::Ready), says("c", 1, MemberState::Ready)];
    let at = |node: &mut Membership, now_us: u64, others: &[Heard]| {
        node.hear(now_us, &[std::slice::from_ref(&me), others].concat());
        node.state()
    };
    assert_eq!(at(&mut node, LISTEN_US, &[]), MemberState::Joining);
    assert_eq!(at(&mut node, LISTEN_US + 1, &others[..1]), MemberState::Joining);
    assert_eq!(at(&mut node, 2 * LISTEN_US, &others), MemberState::Joining);
    assert_eq!(at(&mut node, 3 * LISTEN_US - 1, &others), MemberState::Joining);
    assert_eq!(at(&mut node, 3 * LISTEN_US, &others), MemberState::Ready);

    let mut node = Membership::new(
        Incarnation {
            name: "b".into(),
            generation: 1,
        },
        SLOTS,
        true,
        0,
    );
    node.prepared();
    assert_eq!(at(&mut node, ALONE_AFTER_US - 1, &[]), MemberState::Joining);
    assert_eq!(at(&mut node, ALONE_AFTER_US, &[]), MemberState::Ready);
}

#[test]
fn all_find_the_same_ring_and_who_leaves_stays_in_the_view() {
    let mut cluster = Cluster::of(&["a", "b", "c"]);
    assert!(cluster.agree() && in_ring(cluster.nodes["a"].view(), "c"));
    cluster.nodes.get_mut("b").unwrap().leave();
    cluster.run(300);
    assert!(cluster.agree() && !in_ring(cluster.nodes["a"].view(), "b"));
    assert!(cluster.nodes["a"].view().rank("b").is_some());
    assert_eq!(cluster.state("b"), MemberState::Leaving);
    cluster.nodes.get_mut("b").unwrap().stay();
    assert!(cluster.until_in_ring("b") < 1000 && cluster.agree());
}

#[test]
fn a_node_that_restarts_again_and_again_waits_longer_each_time() {
    let mut cluster = Cluster::of(&["a", "b", "c"]);
    let mut took_ms = Vec::new();
    for _ in 0..9 {
        cluster.nodes.remove("c");
        cluster.run(2000);
        cluster.start("c", true);
        took_ms.push(cluster.until_in_ring("c"));
        assert!(cluster.agree());
    }
    let delays: Vec<u64> = took_ms.iter().map(|ms| ms / 1000).collect();
    assert_eq!(delays, [0, 1, 2, 4, 8, 16, 32, 60, 60], "{took_ms:?}");
    // When it has stayed for long enough all is forgotten.
    cluster.run(121_000);
    cluster.nodes.remove("c");
    cluster.run(2000);
    cluster.start("c", true);
    assert!(cluster.until_in_ring("c") < 1000);
}

#[test]
fn how_long_it_waits_at_most_is_its_own_affair() {
    let mut cluster = Cluster::of(&["a", "b", "c"]);
    for _ in 0..20 {
        cluster.nodes.remove("c");
        cluster.run(2000);
        let id = Incarnation {
            name: "c".into(),
            generation: cluster.now_us,
        };
        let mut node = Membership::new(id, SLOTS, true, cluster.now_us).with_delay_max_us(0);
        node.prepared();
        cluster.nodes.insert("c", node);
        assert!(cluster.until_in_ring("c") < 1000);
        assert!(cluster.agree());
    }
}

#[test]
fn a_node_that_was_only_thought_dead_waits_too_and_all_agree_on_it() {
    let mut cluster = Cluster::of(&["a", "b", "c"]);
    for delay_ms in [0, 1000, 2000, 4000] {
        cluster.cut.insert("c");
        cluster.run(2000);
        cluster.cut.clear();
        let took_ms = cluster.until_in_ring("c");
        assert!(
            (delay_ms..delay_ms + 600).contains(&took_ms),
            "{took_ms} ms instead of {delay_ms}"
        );
        assert!(cluster.agree());
        assert!(in_ring(cluster.nodes["c"].view(), "a") && in_ring(cluster.nodes["c"].view(), "b"));
    }
}

#[test]
fn a_cut_through_the_middle_never_empties_the_ring() {
    let mut cluster = Cluster::of(&["a", "b", "c", "d"]);
    for _ in 0..6 {
        cluster.cut.extend(["a", "c"]);
        cluster.run(2000);
        cluster.cut.clear();
        for _ in 0..20 {
            cluster.run(100);
            for node in cluster.nodes.values() {
                assert!(in_ring(node.view(), "a") && in_ring(node.view(), "c"));
            }
        }
    }
}

#[test]
fn a_node_learns_that_another_start_has_its_name() {
    let mut cluster = Cluster::of(&["a", "b"]);
    let node = cluster.nodes.get_mut("b").unwrap();
    let own = says("b", node.me.generation, MemberState::Ready);
    node.hear(cluster.now_us, &[own.clone(), says("b", 0, MemberState::Ready)]);
    assert!(!node.is_superseded());
    node.hear(cluster.now_us, &[own, says("b", cluster.now_us, MemberState::Joining)]);
    assert!(node.is_superseded());
}
