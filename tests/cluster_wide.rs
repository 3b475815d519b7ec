//! Several nodes look like one Redis: what goes over all keys, to all listeners, and what all nodes know.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value, until};

/// A node of a cluster: the first, or one that joins another. `more` are further arguments.
fn start_with(name: &str, seed: Option<&Node>, more: &[&str]) -> Node {
    let mut args = vec!["--name", name, "--peer", "127.0.0.1:0"];
    args.extend(more);
    let peer = seed.map(|seed| seed.peer().expect("a peer address").to_string());
    if let Some(peer) = &peer {
        args.extend(["--join", peer]);
    }
    Node::start(&args)
}

fn start(name: &str, seed: Option<&Node>) -> Node {
    start_with(name, seed, &["--workers", "1"])
}

/// Waits until the slots are evenly spread over these nodes.
fn until_spread(nodes: &[&Node]) {
    until("the slots are spread", || {
        let held = nodes
            .iter()
            .map(|node| node.metric("tollgate_slots_held").unwrap_or(0.0));
        let held: Vec<f64> = held.collect();
        let share = 16384.0 / nodes.len() as f64;
        held.iter().sum::<f64>() == 16384.0 && held.iter().all(|&held| held > 0.7 * share && held < 1.2 * share)
    });
}

/// Waits until no slot has moved for a moment.
fn until_at_rest(nodes: &[&Node]) {
    let mut before = Vec::new();
    let mut since = Instant::now();
    until("no slot moves", || {
        let held: Vec<f64> = nodes
            .iter()
            .map(|node| node.metric("tollgate_slots_held").unwrap_or(0.0))
            .collect();
        if held != before {
            (before, since) = (held, Instant::now());
        }
        since.elapsed() > Duration::from_secs(1)
    });
}

/// Two nodes, one with two workers.
fn two() -> (Node, Node) {
    let a = start("a", None);
    let b = start_with("b", Some(&a), &["--workers", "2"]);
    until_spread(&[&a, &b]);
    (a, b)
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

fn fill(client: &mut Client, keys: usize) {
    let commands: Vec<Vec<String>> = (0..keys)
        .map(|number| vec!["SET".to_owned(), key(number), "value".to_owned()])
        .collect();
    let replies = client.pipeline(&commands);
    assert!(replies.iter().all(|reply| reply.text() == "OK"));
}

/// All keys that a whole SCAN shows, in their order. `between` is called between its steps.
fn scan(client: &mut Client, options: &str, mut between: impl FnMut()) -> Vec<String> {
    let mut keys = Vec::new();
    let mut cursor = "0".to_owned();
    for step in 0.. {
        assert!(step < 50_000, "the scan does not end");
        let reply = client.line(&format!("SCAN {cursor} {options}"));
        keys.extend(reply.items()[1].items().iter().map(|key| key.text().to_owned()));
        cursor = reply.items()[0].text().to_owned();
        assert!(cursor.parse::<u64>().expect("a number") < 1 << 53);
        if cursor == "0" {
            break;
        }
        between();
    }
    keys
}

/// Keys that the node has itself: scripts count those alone.
fn own_keys(client: &mut Client) -> i64 {
    client.line("EVAL return(redis.call('DBSIZE')) 0").int()
}

#[test]
fn every_node_sees_the_keys_of_all() {
    const KEYS: usize = 2_000;
    let (a, b) = two();
    let (mut at_a, mut at_b) = (a.client(), b.client());
    for client in [&mut at_a, &mut at_b] {
        assert_eq!(client.line("DBSIZE").int(), 0);
        assert!(client.line("RANDOMKEY").is_null());
        assert!(client.line("KEYS *").items().is_empty());
        assert!(scan(client, "COUNT 10", || {}).is_empty());
    }
    fill(&mut at_a, KEYS);
    let all: BTreeSet<String> = (0..KEYS).map(key).collect();
    for client in [&mut at_a, &mut at_b] {
        assert!((1..KEYS as i64).contains(&own_keys(client)), "some are elsewhere");
        assert_eq!(client.line("DBSIZE").int(), KEYS as i64);
        for count in [1, 10, 333, 100_000] {
            let keys = scan(client, &format!("COUNT {count}"), || {});
            assert_eq!(keys.len(), KEYS, "COUNT {count}: each once, while nothing moves");
            assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), all);
        }
        assert_eq!(scan(client, "MATCH key:1?? TYPE string COUNT 50", || {}).len(), 100);
        assert!(scan(client, "TYPE list", || {}).is_empty());
        let reply = client.line("KEYS *");
        let keys: BTreeSet<String> = reply.items().iter().map(|key| key.text().to_owned()).collect();
        assert_eq!((reply.items().len(), keys), (KEYS, all.clone()));
        assert_eq!(client.line("KEYS key:19??").items().len(), 100);
        let picked: BTreeSet<String> = (0..200).map(|_| client.line("RANDOMKEY").text().to_owned()).collect();
        assert!(picked.is_subset(&all) && picked.len() > 50, "{}", picked.len());
        assert_eq!(client.line("SELECT 3").text(), "OK");
        assert_eq!(client.line("DBSIZE").int(), 0);
        assert!(scan(client, "COUNT 10", || {}).is_empty());
    }
    // In one slot, far more than a step takes.
    at_a.line("SELECT 0");
    for number in 0..500 {
        at_a.line(&format!("SET {{tag}}{number} value"));
    }
    at_b.line("SELECT 0");
    let keys = scan(&mut at_b, "MATCH {tag}* COUNT 7", || {});
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>().len(), 500);
    for client in [&mut at_a, &mut at_b] {
        for bad in ["SCAN x", "SCAN 0 COUNT 0", "SCAN 0 FOO", "FLUSHALL FOO"] {
            assert!(client.line(bad).is_error(), "{bad}");
        }
        assert_eq!(client.line("SCAN 18446744073709551615").items()[0].text(), "0");
    }
}

#[test]
fn scenario_a_scan_shows_every_key_while_nodes_join_and_leave() {
    const KEYS: usize = 6_000;
    let a = start("a", None);
    let mut at_a = a.client();
    fill(&mut at_a, KEYS);
    for number in 0..1_000 {
        at_a.line(&format!("SET {{many}}{number} value"));
    }
    let scans_whole = |client: &mut Client| {
        // Slow, so that slots move in the middle of it.
        let keys = scan(client, "COUNT 40", || std::thread::sleep(Duration::from_millis(4)));
        let keys: BTreeSet<String> = keys.into_iter().collect();
        assert_eq!(keys.len(), KEYS + 1_000);
    };
    let b = std::thread::scope(|scope| {
        let scanning = scope.spawn(|| scans_whole(&mut a.client()));
        let b = start("b", Some(&a));
        scanning.join().expect("a whole scan");
        b
    });
    until_spread(&[&a, &b]);
    let mut c = start("c", Some(&a));
    until_spread(&[&a, &b, &c]);
    std::thread::scope(|scope| {
        let scanning = scope.spawn(|| scans_whole(&mut a.client()));
        let counting = scope.spawn(|| {
            let mut client = b.client();
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(2) {
                assert_eq!(
                    client.line("DBSIZE").int(),
                    (KEYS + 1_000) as i64,
                    "each slot is counted once"
                );
            }
        });
        assert!(c.stop().success());
        scanning.join().expect("a whole scan");
        counting.join().expect("right counts");
    });
    until_spread(&[&a, &b]);
    scans_whole(&mut b.client());
}

#[test]
fn scenario_a_flush_reaches_all_nodes_and_those_who_would_take_over() {
    const KEYS: usize = 1_000;
    let a = start("a", None);
    let mut b = start_with("b", Some(&a), &["--workers", "2"]);
    until_spread(&[&a, &b]);
    let c = start("c", Some(&a));
    until_spread(&[&a, &b, &c]);
    let (mut at_a, mut at_b, mut at_c) = (a.client(), b.client(), c.client());
    fill(&mut at_a, KEYS);
    at_a.line("SELECT 1");
    fill(&mut at_a, KEYS);
    for round in 0..5 {
        assert_eq!(
            at_a.line(&format!("RL.CHECK bucket:{round} LIMIT 5 PER 1h")).items()[0].int(),
            1
        );
    }
    assert_eq!(at_b.line("FLUSHDB").text(), "OK");
    assert_eq!(at_b.line("DBSIZE").int(), 0);
    assert_eq!(at_a.line("DBSIZE").int(), KEYS as i64 + 5, "another database");
    at_a.line("SELECT 0");
    assert!(at_a.line("KEYS *").items().is_empty());
    fill(&mut at_b, KEYS);
    assert_eq!(at_c.line("FLUSHALL SYNC").text(), "OK");
    for client in [&mut at_a, &mut at_b, &mut at_c] {
        for db in [0, 1] {
            client.line(&format!("SELECT {db}"));
            assert_eq!(client.line("DBSIZE").int(), 0);
            assert!(scan(client, "COUNT 100", || {}).is_empty());
        }
    }
    // The heirs hear of it some 20 ms later.
    std::thread::sleep(Duration::from_millis(500));
    b.kill();
    until_spread(&[&a, &c]);
    assert_eq!(at_a.line("DBSIZE").int(), 0);
    assert_eq!(at_c.line("DBSIZE").int(), 0);
    // What is written afterwards stays, and in a transaction, too.
    at_a.line("SELECT 0");
    fill(&mut at_a, KEYS);
    at_c.line("SELECT 0");
    assert_eq!(at_c.line("DBSIZE").int(), KEYS as i64);
    at_c.line("MULTI");
    at_c.line("FLUSHALL");
    at_c.line("DBSIZE");
    let replies = at_c.line("EXEC");
    assert_eq!((replies.items()[0].text(), replies.items()[1].int()), ("OK", 0));
    assert_eq!(at_a.line("DBSIZE").int(), 0);
}

#[test]
fn scenario_who_does_not_answer_is_named_and_nothing_hangs() {
    const KEYS: usize = 500;
    // Sooner than a node that does not answer is taken for dead.
    let a = start_with("a", None, &["--workers", "1", "--set", "limits.keys_wait_ms=300"]);
    let b = start("stopped-one", Some(&a));
    until_spread(&[&a, &b]);
    let mut at_a = a.client();
    fill(&mut at_a, KEYS);
    assert!(own_keys(&mut at_a) > 0);
    until_at_rest(&[&a, &b]);
    b.signal("STOP");
    let started = Instant::now();
    let reply = at_a.line("FLUSHALL");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(own_keys(&mut at_a), 0, "what could be flushed is flushed");
    // On a machine that is very busy the other one is dead by now, and its slots were taken over.
    let is_named = |reply: &Value| {
        let text = "node stopped-one does not answer";
        reply.is_error() && reply.error().starts_with("CLUSTERDOWN ") && reply.error().ends_with(text)
    };
    assert!(is_named(&reply) || reply.text() == "OK", "{reply:?}");
    for command in ["DBSIZE", "KEYS *", "RANDOMKEY", "SCAN 0 COUNT 1000", "SCRIPT FLUSH"] {
        let reply = at_a.line(command);
        assert!(is_named(&reply) || !reply.is_error(), "{command}: {reply:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(9));
    assert_eq!(at_a.line("PUBLISH news hello").int(), 0);
    b.signal("CONT");
    until("everything is flushed", || {
        at_a.line("FLUSHALL") == Value::Simple("OK".to_owned())
    });
    assert_eq!(b.client().line("DBSIZE").int(), 0);
}

/// A client that listens, in RESP3 so that it can do other things, too.
fn listening(node: &Node, command: &str, name: &str) -> Client {
    let mut client = node.client();
    client.send(&[command, name]);
    client.receive();
    client
}

fn published(client: &mut Client, message: &str) -> i64 {
    client.command(&["PUBLISH", "news", message]).int()
}

#[test]
fn messages_reach_the_listeners_of_all_nodes_in_order() {
    const MESSAGES: usize = 500;
    let (a, b) = two();
    let c = start("c", Some(&b));
    until_spread(&[&a, &b, &c]);
    let mut listeners = vec![
        listening(&a, "SUBSCRIBE", "news"),
        listening(&b, "SUBSCRIBE", "news"),
        listening(&c, "SUBSCRIBE", "news"),
        listening(&c, "PSUBSCRIBE", "n*"),
    ];
    let mut elsewhere = listening(&b, "SSUBSCRIBE", "shard");
    let mut publisher = a.client();
    // A node that answers too late counts none: so it may come to less on a machine that is busy.
    let mut sent = 0;
    until("all are counted", || {
        sent += 1;
        let count = published(&mut publisher, "first");
        assert!((1..=4).contains(&count), "{count}");
        count == 4
    });
    let messages: Vec<Vec<String>> = (0..MESSAGES)
        .map(|number| vec!["PUBLISH".to_owned(), "news".to_owned(), number.to_string()])
        .collect();
    for count in publisher.pipeline(&messages) {
        assert!((1..=4).contains(&count.int()));
    }
    for listener in &mut listeners {
        for _ in 0..sent {
            assert_eq!(listener.receive().items().last().expect("a message").text(), "first");
        }
        for number in 0..MESSAGES {
            let message = listener.receive();
            assert_eq!(message.items().last().expect("a message").text(), number.to_string());
        }
    }
    until("the shard channel's listener is counted", || {
        publisher.line("SPUBLISH shard hello").int() == 1
    });
    assert_eq!(elsewhere.receive().items()[2].text(), "hello");
    // What is published in a script and in a transaction is sent when that stands.
    assert_eq!(
        publisher
            .line("EVAL return(redis.call('PUBLISH','news','script')) 0")
            .int(),
        1,
        "of this node"
    );
    publisher.line("MULTI");
    publisher.line("PUBLISH news transaction");
    publisher.line("EVAL return(redis.call('PUBLISH','news','both')) 0");
    publisher.line("EXEC");
    for listener in &mut listeners {
        for text in ["script", "transaction", "both"] {
            assert_eq!(listener.receive().items().last().expect("a message").text(), text);
        }
    }
    let sorted = |reply: &Value| {
        let mut names: Vec<String> = reply.items().iter().map(|name| name.text().to_owned()).collect();
        names.sort_unstable();
        names
    };
    let _other = listening(&a, "PSUBSCRIBE", "n*");
    for node in [&a, &b, &c] {
        let mut client = node.client();
        until("who listens is seen everywhere", || {
            let counts = client.line("PUBSUB NUMSUB news shard");
            sorted(&client.line("PUBSUB CHANNELS")) == ["news"]
                && client.line("PUBSUB CHANNELS x*").items().is_empty()
                && sorted(&client.line("PUBSUB SHARDCHANNELS s*")) == ["shard"]
                && (counts.items()[1].int(), counts.items()[3].int()) == (3, 0)
                && client.line("PUBSUB SHARDNUMSUB shard").items()[1].int() == 1
                && client.line("PUBSUB NUMPAT").int() == 1
        });
    }
}

#[test]
fn a_message_that_is_too_long_for_other_nodes_is_refused() {
    let a = start_with(
        "a",
        None,
        &["--workers", "1", "--set", "limits.peer_frame_bytes=100000"],
    );
    let b = start("b", Some(&a));
    until_spread(&[&a, &b]);
    let mut listener = listening(&a, "SUBSCRIBE", "news");
    let mut client = a.client();
    let error = published(&mut client, &"x".repeat(50_000));
    assert!(error >= 1);
    assert_eq!(listener.receive().items()[2].text().len(), 50_000);
    let refused = client.command(&["PUBLISH", "news", &"x".repeat(100_000)]);
    assert!(refused.error().contains("limits.peer_frame_bytes"), "{refused:?}");
    assert!(listener.is_silent_for(Duration::from_millis(50)));
}

const SCRIPT: &str = "return{KEYS[1],redis.call('INCR',KEYS[1])}";

fn load(client: &mut Client) -> String {
    client.command(&["SCRIPT", "LOAD", SCRIPT]).text().to_owned()
}

fn evalsha(client: &mut Client, sha1: &str, number: usize) -> Value {
    client.command(&["EVALSHA", sha1, "1", &key(number)])
}

#[test]
fn scenario_a_script_that_one_node_knows_runs_on_all() {
    let (a, b) = two();
    let sha1 = load(&mut a.client());
    for node in [&a, &b] {
        let mut client = node.client();
        assert_eq!(
            client.line(&format!("SCRIPT EXISTS {sha1} {}", "0".repeat(40))).items()[1].int(),
            0
        );
        assert_eq!(
            client.line(&format!("SCRIPT EXISTS {}", sha1.to_uppercase())).items()[0].int(),
            1
        );
        for number in 0..50 {
            let reply = evalsha(&mut client, &sha1, number);
            assert_eq!(reply.items()[0].text(), key(number));
        }
    }
    // What EVAL was given is known, too: this has the SHA-1 of "return 1".
    assert_eq!(a.client().command(&["EVAL", "return 1", "0"]).int(), 1);
    let reply = b.client().line("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0");
    assert_eq!(reply.int(), 1);
    // A node that joins asks for it.
    let c = start("c", Some(&b));
    until_spread(&[&a, &b, &c]);
    for number in 0..50 {
        assert_eq!(evalsha(&mut c.client(), &sha1, number).items()[0].text(), key(number));
    }
    // A node that starts again has forgotten it.
    let b = b.restart();
    until_spread(&[&a, &b, &c]);
    for number in 0..50 {
        assert_eq!(evalsha(&mut b.client(), &sha1, number).items()[0].text(), key(number));
    }
    let b = b.restart();
    until_spread(&[&a, &b, &c]);
    let mut client = b.client();
    client.line("MULTI");
    assert_eq!(
        client.line("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0").text(),
        "QUEUED"
    );
    assert_eq!(client.line("EXEC").items()[0].int(), 1);
    let unknown = "0123456789012345678901234567890123456789";
    for _ in 0..3 {
        assert!(evalsha(&mut client, unknown, 1).error().starts_with("NOSCRIPT"));
    }
    assert_eq!(a.client().line("SCRIPT FLUSH").text(), "OK");
    for node in [&a, &b, &c] {
        let mut client = node.client();
        assert!(evalsha(&mut client, &sha1, 1).error().starts_with("NOSCRIPT"));
        assert_eq!(client.line(&format!("SCRIPT EXISTS {sha1}")).items()[0].int(), 0);
    }
    // Known at once, though they have just said that they do not know it.
    load(&mut c.client());
    for node in [&a, &b, &c] {
        assert_eq!(evalsha(&mut node.client(), &sha1, 1).items()[0].text(), key(1));
    }
}

fn library(number: usize) -> String {
    format!(
        "#!lua name=mylib\nredis.register_function('which',function(keys,args)return {{{number},redis.call('INCR',keys[1])}} end)"
    )
}

fn which(node: &Node) -> Option<i64> {
    let reply = node.client().line("FCALL which 1 counter");
    (!reply.is_error()).then(|| reply.items()[0].int())
}

fn libraries(node: &Node) -> usize {
    node.client().line("FUNCTION LIST").items().len()
}

#[test]
fn scenario_all_nodes_have_the_same_libraries() {
    let (a, b) = two();
    assert_eq!(a.client().command(&["FUNCTION", "LOAD", &library(1)]).text(), "mylib");
    assert_eq!((which(&a), which(&b)), (Some(1), Some(1)));
    assert!(
        b.client().command(&["FUNCTION", "LOAD", &library(2)]).is_error(),
        "it is there"
    );
    assert_eq!(
        b.client().command(&["FUNCTION", "LOAD", "REPLACE", &library(2)]).text(),
        "mylib"
    );
    assert_eq!((which(&a), which(&b)), (Some(2), Some(2)));
    // A node that joins has them before it takes slots, and one that starts again gets them back.
    let c = start("c", Some(&b));
    until("it has slots", || {
        c.metric("tollgate_slots_held").is_some_and(|held| held > 0.0)
    });
    assert_eq!(which(&c), Some(2));
    let b = b.restart();
    until("it has slots", || {
        b.metric("tollgate_slots_held").is_some_and(|held| held > 0.0)
    });
    assert_eq!(which(&b), Some(2));
    // What a transaction changes is told when it stands.
    let mut client = c.client();
    client.line("MULTI");
    client.send(&["FUNCTION", "LOAD", "REPLACE", &library(3)]);
    client.receive();
    client.line("EXEC");
    assert_eq!((which(&a), which(&b), which(&c)), (Some(3), Some(3), Some(3)));
    let Value::Bulk(dump) = client.line("FUNCTION DUMP") else {
        panic!("no dump")
    };
    assert_eq!(client.line("FUNCTION DELETE mylib").text(), "OK");
    assert_eq!((libraries(&a), libraries(&b), libraries(&c)), (0, 0, 0));
    let restore: [&[u8]; 3] = [b"FUNCTION", b"RESTORE", &dump];
    assert_eq!(client.command(&restore).text(), "OK");
    assert_eq!((which(&a), which(&b), which(&c)), (Some(3), Some(3), Some(3)));
    assert_eq!(client.line("FUNCTION DELETE mylib").text(), "OK");
    assert!(client.line("FUNCTION DELETE mylib").is_error());
    assert_eq!(client.command(&["FUNCTION", "LOAD", &library(4)]).text(), "mylib");
    assert_eq!(b.client().line("FUNCTION FLUSH").text(), "OK");
    assert_eq!((libraries(&a), libraries(&b), libraries(&c)), (0, 0, 0));
    // A node that was not there when it was deleted forgets it, too.
    assert_eq!(client.command(&["FUNCTION", "LOAD", &library(5)]).text(), "mylib");
    b.signal("STOP");
    assert_eq!(a.client().line("FUNCTION DELETE mylib").text(), "OK");
    b.signal("CONT");
    until("it has heard of it", || libraries(&b) == 0);
}
