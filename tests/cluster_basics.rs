//! Nodes that act as one: keys move with joins and leaves, and survive a kill.

use std::time::Duration;
use tollgate_suite::{Client, Node, Value, until, until_hit};

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

/// Keys that the node has itself: scripts count those alone.
fn own_keys(client: &mut Client) -> i64 {
    client.line("EVAL return(redis.call('DBSIZE')) 0").int()
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
    assert!(own_keys(&mut at_a) < 8, "some are elsewhere");
    let commands: Vec<Vec<String>> = (0..ROUNDS)
        .map(|round| vec!["GET".to_owned(), format!("key:{}", round % 8)])
        .collect();
    for (round, reply) in at_a.pipeline(&commands).iter().enumerate() {
        assert!(reply.text() == value(round % 8), "{round}");
    }
}

#[test]
fn replies_of_another_node_that_are_too_large_together_are_an_error_and_nothing_is_done_twice() {
    const VALUE_BYTES: usize = 200_000;
    const ROUNDS: usize = 150;
    let a = start("a", None);
    let b = start("b", Some(&a));
    until_spread(&[&a, &b]);
    let mut at_a = a.client();
    // A key of the other node: here there are no more of them then.
    let tag = (0..).find(|tag| {
        let before = own_keys(&mut at_a);
        at_a.command(&["SET", &format!("{{{tag}}}"), &"x".repeat(VALUE_BYTES)]);
        own_keys(&mut at_a) == before
    });
    let tag = tag.expect("a tag");
    let mut commands = Vec::new();
    for _ in 0..ROUNDS {
        commands.push(vec!["GET".to_owned(), format!("{{{tag}}}")]);
        commands.push(vec!["INCR".to_owned(), format!("{{{tag}}}count")]);
    }
    let replies = at_a.pipeline(&commands);
    let is_whole = |reply: &Value| reply.is_error() || reply.text().len() == VALUE_BYTES;
    assert!(replies.iter().step_by(2).all(is_whole));
    let refused = replies.iter().filter(|reply| reply.is_error()).count();
    assert!((1..ROUNDS).contains(&refused), "{refused}");
    let counts = replies.iter().skip(1).step_by(2).map(Value::int);
    assert!(counts.eq(1..=ROUNDS as i64));
    assert_eq!(
        at_a.line(&format!("GET {{{tag}}}count")).text(),
        ROUNDS.to_string(),
        "each once"
    );
    until_hit(&b, "peer_frame_bytes", 1.0);
}
