//! Nodes that act as one: keys move with joins and leaves, and survive a kill.

use std::time::Duration;
use tollgate_suite::{Client, Node, until};

/// A node of a cluster: the first, or one that joins another.
fn start(name: &str, seed: Option<&Node>) -> Node {
    let mut args = vec!["--name", name, "--workers", "1", "--peer", "127.0.0.1:0"];
    let peer = seed.map(|seed| seed.peer().expect("a peer address").to_string());
    if let Some(peer) = &peer {
        args.extend(["--join", peer]);
    }
    Node::start(&args)
}

/// How many slots a node holds.
fn slots(node: &Node) -> f64 {
    node.metric("tollgate_slots_held").unwrap_or(0.0)
}

/// Waits until the slots are evenly spread over these nodes.
fn until_spread(nodes: &[&Node]) {
    until("the slots are spread", || {
        let held: Vec<f64> = nodes.iter().map(|node| slots(node)).collect();
        let share = 16384.0 / nodes.len() as f64;
        held.iter().sum::<f64>() == 16384.0 && held.iter().all(|&held| held > 0.7 * share && held < 1.2 * share)
    });
}

fn values(client: &mut Client, keys: usize) -> usize {
    (0..keys)
        .filter(|key| client.line(&format!("GET key:{key}")).text() == format!("value:{key}"))
        .count()
}

fn admitted(client: &mut Client, key: &str) -> bool {
    client.line(&format!("RL.CHECK {key} LIMIT 5 PER 1h")).items()[0].int() == 1
}

#[test]
fn scenario_a_node_joins_another_is_killed_and_one_leaves() {
    const KEYS: usize = 500;
    let a = start("a", None);
    let mut at_a = a.client();
    for key in 0..KEYS {
        assert_eq!(at_a.line(&format!("SET key:{key} value:{key}")).text(), "OK");
        assert!(admitted(&mut at_a, &format!("bucket:{key}")));
    }
    let mut b = start("b", Some(&a));
    until_spread(&[&a, &b]);
    let mut c = start("c", Some(&b));
    until_spread(&[&a, &b, &c]);
    let mut at_c = c.client();
    assert_eq!(values(&mut at_a, KEYS), KEYS);
    assert_eq!(values(&mut at_c, KEYS), KEYS);
    for key in 0..KEYS {
        assert!(admitted(&mut at_c, &format!("bucket:{key}")));
        assert!(admitted(&mut b.client(), &format!("bucket:{key}")));
    }
    // What has changed is with the heirs some 20 ms later.
    std::thread::sleep(Duration::from_millis(500));
    b.kill();
    until_spread(&[&a, &c]);
    assert_eq!(values(&mut at_a, KEYS), KEYS);
    assert_eq!(values(&mut at_c, KEYS), KEYS);
    for key in 0..KEYS {
        assert!(admitted(&mut at_a, &format!("bucket:{key}")));
    }
    assert!(c.stop().success());
    until_spread(&[&a]);
    assert_eq!(values(&mut at_a, KEYS), KEYS);
    for key in 0..KEYS {
        assert!(admitted(&mut at_a, &format!("bucket:{key}")), "the fifth");
        assert!(!admitted(&mut at_a, &format!("bucket:{key}")), "a sixth");
    }
}

#[test]
fn many_large_replies_come_from_another_node_in_order() {
    const VALUE_BYTES: usize = 200_000;
    const ROUNDS: usize = 40;
    let a = start("a", None);
    let b = start("b", Some(&a));
    until_spread(&[&a, &b]);
    let mut at_a = a.client();
    // Some are here and some are there.
    let value = |key: usize| key.to_string().repeat(VALUE_BYTES);
    for key in 0..8 {
        assert_eq!(at_a.command(&["SET", &format!("key:{key}"), &value(key)]).text(), "OK");
    }
    assert!(at_a.line("DBSIZE").int() < 8, "of this node alone");
    let commands: Vec<Vec<String>> = (0..ROUNDS)
        .map(|round| vec!["GET".to_owned(), format!("key:{}", round % 8)])
        .collect();
    for (round, reply) in at_a.pipeline(&commands).iter().enumerate() {
        assert!(reply.text() == value(round % 8), "{round}");
    }
}
