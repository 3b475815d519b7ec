//! Gossip threads of one process over loopback, with real sockets.

use super::*;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tollgate_cluster::SLOTS;

/// How long to wait for anything: only a hang takes that long.
const LIMIT: Duration = Duration::from_secs(60);

/// A node's gossip and where it is.
struct Node {
    gossip: Gossip,
    address: SocketAddr,
    lost: Arc<Mutex<HashSet<SocketAddr>>>,
}

impl Node {
    fn view(&self) -> Arc<View> {
        Arc::clone(&self.gossip.view.borrow())
    }

    fn status(&self) -> Arc<GossipStatus> {
        Arc::clone(&self.gossip.status.borrow())
    }

    /// Names of the members of the ring.
    fn ring(&self) -> Vec<String> {
        let view = self.view();
        view.ring()
            .map(|ring| ring.names().iter().map(|name| name.to_string()).collect())
            .unwrap_or_default()
    }
}

fn config(name: &str, generation: u64, at: SocketAddr, seeds: &[SocketAddr]) -> GossipConfig {
    GossipConfig {
        name: name.into(),
        generation,
        identity: Identity {
            weight: 1,
            workers: 1,
            peer: at.to_string().into(),
            listen: format!("{name}:6379").into(),
            redirect_listen: None,
            versions: (1, 1),
        },
        files: Files::default(),
        advertised: at,
        seeds: seeds.iter().map(SocketAddr::to_string).collect(),
        slots: SLOTS,
        versions: 1..=1,
        interval: Duration::from_millis(200),
        interval_max: Duration::from_secs(1),
        phi: 11.0,
        silence_min: Duration::from_secs(1),
        grace: Duration::from_secs(600),
        delay_max: Duration::from_secs(60),
        seal: None,
        lossy: None,
        counters: Arc::default(),
    }
}

fn try_start(
    at: SocketAddr,
    name: &str,
    generation: u64,
    seeds: &[SocketAddr],
    change: impl FnOnce(&mut GossipConfig),
) -> Result<Node, GossipError> {
    let socket = until_some("the address", || std::net::UdpSocket::bind(at).ok());
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    let lost = Arc::<Mutex<HashSet<SocketAddr>>>::default();
    let mut config = config(name, generation, address, seeds);
    let loses = Arc::clone(&lost);
    config.lossy = Some(Arc::new(move |peer| loses.lock().contains(&peer)));
    change(&mut config);
    let gossip = Gossip::start(config, socket)?;
    gossip.prepared();
    Ok(Node { gossip, address, lost })
}

fn start(name: &str, generation: u64, seeds: &[SocketAddr]) -> Node {
    try_start(any(), name, generation, seeds, |_| {}).unwrap()
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Waits until there is something.
fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "no {what} after {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until all nodes have these members in their rings, and one view.
fn until_ring(nodes: &[&Node], names: &[&str]) -> Duration {
    let begin = Instant::now();
    until_some(&format!("ring of {names:?}"), || {
        let first = nodes[0].view().hash();
        nodes
            .iter()
            .all(|node| node.ring() == names && node.view().hash() == first)
            .then_some(())
    });
    begin.elapsed()
}

/// Nodes `a`, `b`, … of one cluster.
fn cluster(count: usize) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["a", "b", "c", "d", "e"].iter().take(count) {
        let seeds: Vec<SocketAddr> = nodes.iter().take(1).map(|node| node.address).collect();
        nodes.push(start(name, 1, &seeds));
    }
    until_ring(&nodes.iter().collect::<Vec<_>>(), &["a", "b", "c", "d", "e"][..count]);
    nodes
}

#[test]
fn nodes_find_each_other_by_one_seed_and_see_who_dies_and_who_comes_back() {
    let mut nodes = cluster(5);
    let home = |node: &Node, at_home: bool| {
        let view_hash = node.view().hash();
        node.gossip.inputs().send_modify(|inputs| {
            inputs.home = Home {
                view_hash,
                at_home,
                slots_hash: 9,
            }
        });
    };
    assert!(!nodes[0].status().settled);
    nodes.iter().for_each(|node| home(node, true));
    until_some("settled cluster", || {
        nodes.iter().all(|node| node.status().settled).then_some(())
    });
    home(&nodes[2], false);
    until_some("unsettled cluster", || {
        nodes.iter().all(|node| !node.status().settled).then_some(())
    });
    assert!(nodes[0].status().alive.iter().all(|facts| facts.slots_hash == 9));

    let dead = nodes.remove(3);
    let (address, seed) = (dead.address, nodes[0].address);
    drop(dead);
    let took = until_ring(&nodes.iter().collect::<Vec<_>>(), &["a", "b", "c", "e"]);
    println!("a death is known to 4 survivors after {took:?}");
    let status = nodes[0].status();
    assert_eq!(status.dead.iter().map(|(id, _)| &*id.name).collect::<Vec<_>>(), ["d"]);

    nodes.push(try_start(address, "d", 2, &[seed], |_| {}).unwrap());
    let took = until_ring(&nodes.iter().collect::<Vec<_>>(), &["a", "b", "c", "d", "e"]);
    println!("it is back in all rings after {took:?}");
    until_some("forgotten death", || nodes[0].status().dead.is_empty().then_some(()));

    // Elsewhere, before its death is known.
    drop(nodes.pop());
    nodes.push(start("d", 3, &[seed]));
    let moved = nodes[4].address;
    until_some("new address", || {
        let known = nodes.iter().all(|node| {
            node.view()
                .member("d")
                .is_some_and(|d| d.id.generation == 3 && *d.peer == *moved.to_string())
        });
        known.then_some(())
    });
    until_ring(&nodes.iter().collect::<Vec<_>>(), &["a", "b", "c", "d", "e"]);
}

#[test]
fn a_cut_makes_two_rings_and_healing_makes_one() {
    let nodes = cluster(3);
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    nodes[2].lost.lock().extend(&addresses[..2]);
    until_ring(&[&nodes[0], &nodes[1]], &["a", "b"]);
    until_ring(&[&nodes[2]], &["c"]);
    nodes[2].lost.lock().clear();
    until_ring(&nodes.iter().collect::<Vec<_>>(), &["a", "b", "c"]);
    assert_eq!(nodes[0].view().member("c").unwrap().id.generation, 1);
}

#[test]
fn a_leaving_node_stays_in_the_view_and_goes_out_of_the_ring() {
    let nodes = cluster(3);
    nodes[1].gossip.leave();
    until_ring(&nodes.iter().collect::<Vec<_>>(), &["a", "c"]);
    assert_eq!(nodes[0].view().member("b").unwrap().state, MemberState::Leaving);
    assert_eq!(nodes[1].status().state, Some(MemberState::Leaving));
}

#[test]
fn nobody_dies_of_a_busy_machine() {
    let nodes = cluster(4);
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut views: Vec<_> = nodes.iter().map(|node| node.gossip.view()).collect();
        views.iter_mut().for_each(|view| {
            view.borrow_and_update();
        });
        std::thread::sleep(Duration::from_secs(5));
        let changed: Vec<bool> = views.iter().map(|view| view.has_changed().unwrap()).collect();
        busy.store(false, Ordering::Relaxed);
        assert_eq!(changed, [false; 4]);
    });
}

#[test]
fn a_second_process_of_a_name_is_refused_and_changes_nothing() {
    let nodes = cluster(2);
    let hash = nodes[0].view().hash();
    for (generation, seed) in [(2, 0), (2, 1), (0, 0)] {
        let second = try_start(any(), "b", generation, &[nodes[seed].address], |_| {});
        let Err(error) = second else { panic!("it started") };
        assert_eq!(
            error,
            GossipError::NameTaken {
                name: "b".into(),
                at: nodes[1].address
            }
        );
        assert!(!error.to_string().contains('\n'));
    }
    assert_eq!((nodes[0].view().hash(), nodes[1].view().hash()), (hash, hash));
}

#[test]
fn of_two_of_a_name_that_meet_later_the_second_gives_way() {
    let first = start("a", 1, &[]);
    let other = start("b", 1, &[first.address]);
    let second = start("a", 2, &[]);
    until_ring(&[&first, &other], &["a", "b"]);
    // A seed that both know brings them together.
    let bridge = start("c", 1, &[first.address, second.address]);
    let failed = until_some("failure", || second.status().failed.clone());
    assert_eq!(
        failed,
        GossipError::NameTaken {
            name: "a".into(),
            at: first.address
        }
    );
    drop(second);
    until_ring(&[&first, &other, &bridge], &["a", "b", "c"]);
    assert_eq!(first.status().failed, None);
    until_some("death of the second", || {
        let generation = bridge.view().member("a").map(|member| member.id.generation);
        (generation == Some(1)).then_some(())
    });
}

#[test]
fn fifty_restarts_leave_one_entry_of_the_name() {
    let quick = |config: &mut GossipConfig| config.interval = Duration::from_millis(50);
    let mut nodes = vec![try_start(any(), "a", 1, &[], quick).unwrap()];
    let seeds = [nodes[0].address];
    nodes.push(try_start(any(), "b", 1, &seeds, quick).unwrap());
    let mut last = None::<Node>;
    let mut address = any();
    for generation in 1..=50 {
        drop(last.take());
        let node = try_start(address, "c", generation, &seeds, quick).unwrap();
        address = node.address;
        until_some("this life", || {
            let known = nodes
                .iter()
                .all(|node| node.view().member("c").is_some_and(|c| c.id.generation == generation));
            known.then_some(())
        });
        for node in &nodes {
            assert!(node.view().members().len() <= 3);
        }
        last = Some(node);
    }
    let status = until_some("death of all former lives", || {
        let status = nodes[0].status();
        (status.alive.len() == 3 && status.dead.is_empty()).then_some(status)
    });
    assert!(status.remembered <= 52, "{}", status.remembered);
    assert_eq!(nodes[0].gossip.counters().refused.get(), 0);
    drop(last);
}

#[test]
fn the_dead_are_forgotten_after_their_time() {
    let short = |config: &mut GossipConfig| config.grace = Duration::from_millis(1500);
    let first = try_start(any(), "a", 1, &[], short).unwrap();
    for generation in 1..=10 {
        drop(try_start(any(), "b", generation, &[first.address], short).unwrap());
    }
    until_some("forgotten lives", || {
        (first.status().remembered == 1 && first.status().dead.is_empty()).then_some(())
    });
}

#[test]
fn who_says_farewell_is_gone_at_once() {
    // Its silence would say so after a minute.
    let patient = |config: &mut GossipConfig| config.silence_min = Duration::from_secs(600);
    let first = try_start(any(), "a", 1, &[], patient).unwrap();
    let second = try_start(any(), "b", 1, &[first.address], patient).unwrap();
    let third = try_start(any(), "c", 1, &[first.address], patient).unwrap();
    until_ring(&[&first, &second, &third], &["a", "b", "c"]);
    let address = second.address;
    second.gossip.leave();
    until_ring(&[&first, &third], &["a", "c"]);
    assert!(first.view().member("b").is_some(), "it leaves, and is there");
    second.gossip.stop();
    until_some("end", || {
        [&first, &third]
            .iter()
            .all(|node| node.view().member("b").is_none())
            .then_some(())
    });
    // A later life is another matter.
    let again = try_start(address, "b", 2, &[first.address], patient).unwrap();
    until_ring(&[&first, &third, &again], &["a", "b", "c"]);
}

#[test]
fn who_starts_again_without_seeds_is_found_by_those_who_knew_it() {
    let mut nodes = cluster(3);
    let founder = nodes.remove(0);
    let address = founder.address;
    drop(founder);
    until_ring(&[&nodes[0], &nodes[1]], &["b", "c"]);
    let again = try_start(address, "a", 2, &[], |_| {}).unwrap();
    until_ring(&[&again, &nodes[0], &nodes[1]], &["a", "b", "c"]);
}

#[test]
fn a_joiner_becomes_ready_though_all_others_have_died_meanwhile() {
    let first = start("a", 1, &[]);
    let joiner = try_start(any(), "b", 1, &[first.address], |_| {}).unwrap();
    until_some("acquaintance", || (joiner.status().remembered == 2).then_some(()));
    drop(first);
    until_ring(&[&joiner], &["b"]);
}

#[test]
fn a_generation_is_above_that_of_a_former_self_whatever_the_clock_says() {
    let first = start("a", 1, &[]);
    let former = start("b", 5_000, &[first.address]);
    until_ring(&[&first], &["a", "b"]);
    drop(former);
    let again = start("b", 4_000, &[first.address]);
    assert_eq!(again.gossip.me().generation, 5_001);
}

#[test]
fn who_speaks_another_version_is_no_member() {
    let nodes = cluster(2);
    let other = try_start(any(), "z", 1, &[nodes[0].address], |config| {
        config.versions = 7..=9;
        config.identity.versions = (7, 9);
    })
    .unwrap();
    until_some("acquaintance", || {
        (nodes.iter().all(|node| node.status().remembered == 3)).then_some(())
    });
    until_some("time", || {
        (other.status().state == Some(MemberState::Ready)).then_some(())
    });
    for node in &nodes {
        assert_eq!(node.ring(), ["a", "b"]);
        assert_eq!(node.view().members().len(), 2);
    }
    assert_eq!(other.ring(), ["z"]);
}

/// Adds a byte that must be there.
struct Marked(u8);

impl Seal for Marked {
    fn seal(&self, plain: &[u8]) -> Vec<u8> {
        [plain, &[self.0]].concat()
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        sealed.strip_suffix(&[self.0]).map(<[u8]>::to_vec)
    }
}

#[test]
fn who_has_another_secret_is_not_heard() {
    let sealed = |mark: u8| move |config: &mut GossipConfig| config.seal = Some(Arc::new(Marked(mark)));
    let first = try_start(any(), "a", 1, &[], sealed(1)).unwrap();
    let friend = try_start(any(), "b", 1, &[first.address], sealed(1)).unwrap();
    let stranger = try_start(any(), "c", 1, &[first.address], sealed(2)).unwrap();
    let open = try_start(any(), "d", 1, &[first.address], |_| {}).unwrap();
    until_ring(&[&first, &friend], &["a", "b"]);
    until_some("refusals", || {
        (first.gossip.counters().refused.get() >= 5).then_some(())
    });
    assert_eq!((first.status().remembered, first.view().members().len()), (2, 2));
    drop((stranger, open));
}

#[test]
fn garbage_has_no_effect() {
    let nodes = cluster(2);
    let hash = nodes[0].view().hash();
    let socket = std::net::UdpSocket::bind(any()).unwrap();
    let mut noise = 1_u64;
    let mut garbage = |round: usize| {
        let mut bytes = vec![1, (round % 3) as u8, 0x53, 0xb0, 0, (round % 5) as u8];
        for _ in 0..round % 200 {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            bytes.push((noise >> 56) as u8);
        }
        socket.send_to(&bytes, nodes[0].address).unwrap();
    };
    let mut sent = 0;
    until_some("refusals", || {
        // A few at a time: a socket that nobody has read for a while has room for some hundreds.
        (sent..sent + 100).for_each(&mut garbage);
        sent += 100;
        (sent >= 2_000 && nodes[0].gossip.counters().refused.get() > 500).then_some(())
    });
    let newcomer = start("c", 1, &[nodes[0].address]);
    until_ring(&[&nodes[0], &nodes[1], &newcomer], &["a", "b", "c"]);
    assert_ne!(nodes[0].view().hash(), hash);
    assert_eq!(nodes[0].status().failed, None);
}
