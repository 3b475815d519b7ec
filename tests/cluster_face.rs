//! The redirecting face: nodes that look like Redis Cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use tollgate_suite::{Client, Node, RedisServer, Value, skip_without, until};

const REDIRECTING: [&str; 2] = ["--redirect-listen", "127.0.0.1:0"];

fn start(name: &str, seed: Option<&Node>, more: &[&str]) -> Node {
    let mut args = vec!["--name", name];
    let peer = seed.map(|seed| seed.peer().expect("a peer address").to_string());
    if let Some(peer) = &peer {
        args.extend(["--join", peer]);
    }
    args.extend(more);
    if !more.contains(&"--workers") {
        args.extend(["--workers", "2"]);
    }
    Node::start(&args)
}

/// A connection to a node's redirecting face.
fn face(node: &Node) -> Client {
    Client::connect(node.redirect_listen().expect("a redirecting face"))
}

/// Waits until the nodes hold about the same number of slots, and all of them.
fn until_spread(nodes: &[&Node]) {
    until("the slots are spread", || {
        let held: Vec<f64> = nodes
            .iter()
            .map(|node| node.metric("tollgate_slots_held").unwrap_or(0.0))
            .collect();
        let share = 16384.0 / nodes.len() as f64;
        held.iter().sum::<f64>() == 16384.0 && held.iter().all(|&held| held > 0.7 * share && held < 1.2 * share)
    });
}

/// Where a reply sends its client, with the slot.
fn moved(reply: &Value) -> Option<(i64, SocketAddr)> {
    let Value::Error(text) = reply else { return None };
    let (slot, address) = text.strip_prefix("MOVED ")?.split_once(' ')?;
    Some((slot.parse().expect("a slot"), address.parse().expect("an address")))
}

/// Sends a command to where it belongs, as a client of a cluster does.
fn follow(client: &mut Client, line: &str) -> Value {
    let reply = client.line(line);
    match moved(&reply) {
        Some((_, address)) => Client::connect(address).line(line),
        None => reply,
    }
}

/// A key of a slot that is, or is not, at the node of the client.
fn key_here(client: &mut Client, here: bool) -> String {
    let mut keys = (0..).map(|number| format!("key:{number}"));
    let found = keys.find(|key| moved(&client.line(&format!("GET {key}"))).is_none() == here);
    found.expect("one of so many")
}

/// The slots as CLUSTER SLOTS has them: first, last, port, id.
fn slots(client: &mut Client) -> Vec<(i64, i64, i64, String)> {
    let reply = client.line("CLUSTER SLOTS");
    let range = |range: &Value| {
        let [first, last, node] = range.items() else {
            panic!("{range:?}")
        };
        let node = node.items();
        (first.int(), last.int(), node[1].int(), node[2].text().to_owned())
    };
    reply.items().iter().map(range).collect()
}

#[test]
fn keys_of_other_nodes_are_moved_and_the_default_face_moves_nothing() {
    const KEYS: usize = 300;
    let a = start("a", None, &REDIRECTING);
    let b = start("b", Some(&a), &REDIRECTING);
    until_spread(&[&a, &b]);
    let (mut at_a, mut at_b) = (face(&a), face(&b));
    let addresses = [&a, &b].map(|node| node.redirect_listen().expect("a redirecting face"));
    let mut here = 0;
    for key in 0..KEYS {
        let set = format!("SET key:{key} {key}");
        let reply = at_a.line(&set);
        let slot = at_a.line(&format!("CLUSTER KEYSLOT key:{key}")).int();
        match moved(&reply) {
            None => {
                assert_eq!(reply.text(), "OK");
                assert_eq!(moved(&at_b.line(&set)), Some((slot, addresses[0])));
                here += 1;
            }
            Some(to) => {
                assert_eq!(to, (slot, addresses[1]));
                assert_eq!(at_b.line(&set).text(), "OK");
            }
        }
        let check = follow(&mut at_a, &format!("RL.CHECK bucket:{key} LIMIT 1 PER 1h"));
        assert_eq!(check.items()[5].text(), "owner");
    }
    assert!(here > KEYS / 5 && here < KEYS - KEYS / 5, "{here}");
    let (mut plain_a, mut plain_b) = (a.client(), b.client());
    for key in 0..KEYS {
        for client in [&mut plain_a, &mut plain_b] {
            assert_eq!(client.line(&format!("GET key:{key}")).text(), key.to_string());
        }
    }
    for line in ["CLUSTER SLOTS", "CLUSTER MYID", "READONLY"] {
        assert_eq!(
            plain_a.line(line).error(),
            "ERR This instance has cluster support disabled"
        );
    }
    assert!(plain_a.line("INFO cluster").text().contains("cluster_enabled:0"));
    // A client of a cluster asks every node, and adds up.
    let sizes = [&mut at_a, &mut at_b].map(|client| client.line("DBSIZE").int());
    assert!(sizes.iter().all(|size| *size > 0));
    assert_eq!(sizes.iter().sum::<i64>(), 2 * KEYS as i64, "keys and buckets");
    let mut scanned = BTreeSet::new();
    for client in [&mut at_a, &mut at_b] {
        let mut cursor = "0".to_owned();
        loop {
            let reply = client.line(&format!("SCAN {cursor} COUNT 100"));
            scanned.extend(reply.items()[1].items().iter().map(|key| key.text().to_owned()));
            cursor = reply.items()[0].text().to_owned();
            if cursor == "0" {
                break;
            }
        }
        let here = client.line("KEYS key:*");
        assert!(!here.items().is_empty());
        for key in here.items() {
            assert!(moved(&client.line(&format!("GET {}", key.text()))).is_none());
        }
    }
    assert_eq!(scanned.len(), 2 * KEYS);
    // A pipeline in which some are here and some are not, in order.
    let commands: Vec<Vec<String>> = (0..KEYS)
        .map(|key| vec!["GET".to_owned(), format!("key:{key}")])
        .collect();
    for (key, reply) in at_a.pipeline(&commands).iter().enumerate() {
        match moved(reply) {
            Some((_, to)) => assert_eq!(to, addresses[1]),
            None => assert_eq!(reply.text(), key.to_string()),
        }
    }
}

#[test]
fn the_nodes_and_their_slots_are_told_truthfully() {
    let a = start("a", None, &REDIRECTING);
    let b = start("b", Some(&a), &REDIRECTING);
    until_spread(&[&a, &b]);
    let (mut at_a, mut at_b) = (face(&a), face(&b));
    let ports = [&a, &b].map(|node| i64::from(node.redirect_listen().expect("a redirecting face").port()));
    let ids = [&mut at_a, &mut at_b].map(|client| client.line("CLUSTER MYID").text().to_owned());
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 40));
    until("both tell the same", || slots(&mut at_a) == slots(&mut at_b));
    let ranges = slots(&mut at_a);
    let mut next = 0;
    for (first, last, port, id) in &ranges {
        assert_eq!(*first, next);
        next = last + 1;
        let node = ids.iter().position(|known| known == id).expect("a node");
        assert_eq!(*port, ports[node]);
    }
    assert_eq!(next, 16_384);
    // They are what the nodes do.
    for key in 0..50 {
        let key = format!("key:{key}");
        let slot = at_a.line(&format!("CLUSTER KEYSLOT {key}")).int();
        let (_, _, port, _) = ranges
            .iter()
            .find(|(first, last, ..)| (*first..=*last).contains(&slot))
            .expect("a range");
        let is_here = moved(&at_a.line(&format!("GET {key}"))).is_none();
        assert_eq!(is_here, *port == ports[0], "{key}");
    }
    // SHARDS and NODES say the same.
    at_a.hello3();
    let shards = at_a.line("CLUSTER SHARDS");
    let mut from_shards = Vec::new();
    for shard in shards.items() {
        let [node] = shard.field("nodes").items() else {
            panic!("{shard:?}")
        };
        assert_eq!(
            (node.field("role").text(), node.field("health").text()),
            ("master", "online")
        );
        for pair in shard.field("slots").items().chunks(2) {
            let port = node.field("port").int();
            from_shards.push((pair[0].int(), pair[1].int(), port, node.field("id").text().to_owned()));
        }
    }
    from_shards.sort();
    assert_eq!(from_shards, ranges);
    let nodes = at_b.line("CLUSTER NODES").text().to_owned();
    let lines: Vec<Vec<&str>> = nodes.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 2);
    for (line, (id, port)) in lines.iter().zip(ids.iter().zip(ports)) {
        assert_eq!(line[0], id);
        assert!(line[1].starts_with(&format!("127.0.0.1:{port}@")), "{line:?}");
        assert_eq!(line[2].contains("myself"), *id == ids[1]);
        assert_eq!(line[7], "connected");
    }
    let info = at_b.line("CLUSTER INFO").text().to_owned();
    for line in [
        "cluster_state:ok",
        "cluster_slots_assigned:16384",
        "cluster_known_nodes:2",
        "cluster_size:2",
    ] {
        assert!(info.contains(line), "{info}");
    }
    // Ids stay.
    let b = b.restart();
    until("it is there again", || {
        let mut client = face(&b);
        client.line("CLUSTER MYID").text() == ids[1] && client.line("CLUSTER INFO").text().contains("cluster_state:ok")
    });
}

#[test]
fn there_is_one_slot_to_a_command_and_one_database() {
    const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
    // Of a node that is alone, where every key is at hand.
    let a = start("a", None, &REDIRECTING);
    let mut client = face(&a);
    for line in [
        "MSET a 1 b 2",
        "DEL a b",
        "RENAME a b",
        "EVAL return(1) 2 a b",
        "SSUBSCRIBE a b",
        "WATCH a b",
        "BLPOP a b 1",
        "SINTERSTORE a b c",
    ] {
        assert_eq!(client.line(line).error(), CROSSSLOT, "{line}");
    }
    assert_eq!(client.line("MSET {t}a 1 {t}b 2").text(), "OK");
    assert_eq!(client.line("DEL {t}a {t}b").int(), 2);
    assert_eq!(client.line("SELECT 0").text(), "OK");
    assert_eq!(
        client.line("SELECT 1").error(),
        "ERR SELECT is not allowed in cluster mode"
    );
    let copied = client.line("COPY {t}a {t}b DB 1");
    assert_eq!(
        copied.error(),
        "ERR Copying to another database is not allowed in cluster mode"
    );
    let selects = client.command(&["EVAL", "return redis.call('SELECT', 1)", "0"]);
    assert!(
        selects.error().starts_with("ERR SELECT is not allowed in cluster mode"),
        "{selects:?}"
    );
    // A transaction has one slot, too, although its commands have one each.
    for line in ["MULTI", "SET a 1", "SET b 2"] {
        client.line(line);
    }
    assert_eq!(client.line("EXEC").error(), CROSSSLOT);
    assert_eq!(client.line("EXEC").error(), "ERR EXEC without MULTI");
    assert_eq!(client.line("EXISTS a").int(), 0);
    client.line("MULTI");
    assert_eq!(client.line("MSET a 1 b 2").error(), CROSSSLOT);
    let aborted = client.line("EXEC");
    assert_eq!(
        aborted.error(),
        "EXECABORT Transaction discarded because of previous errors."
    );
    for line in ["MULTI", "SET {t}a 1", "INCR {t}a"] {
        client.line(line);
    }
    assert_eq!(client.line("EXEC").items()[1].int(), 2);
    // Replies that nobody wants.
    client.send(&["CLIENT", "REPLY", "SKIP"]);
    client.send(&["MGET", "a", "b"]);
    assert_eq!(client.line("PING").text(), "PONG");
    client.send(&["CLIENT", "REPLY", "OFF"]);
    client.send(&["MGET", "a", "b"]);
    client.send(&["CLIENT", "REPLY", "ON"]);
    assert_eq!(client.receive().text(), "OK");
    assert_eq!(client.line("PING").text(), "PONG");
    // The face is the connection's: others have all databases.
    let mut plain = a.client();
    assert_eq!(plain.line("MSET a 1 b 2").text(), "OK");
    assert_eq!(plain.line("SELECT 1").text(), "OK");
}

#[test]
fn transactions_scripts_and_channels_are_at_the_node_of_their_slot() {
    let a = start("a", None, &REDIRECTING);
    let b = start("b", Some(&a), &REDIRECTING);
    until_spread(&[&a, &b]);
    let (mut at_a, mut at_b) = (face(&a), face(&b));
    let to_b = b.redirect_listen();
    let (here, there) = (key_here(&mut at_a, true), key_here(&mut at_a, false));
    // A command that is elsewhere breaks the transaction.
    at_a.line("MULTI");
    assert_eq!(moved(&at_a.line(&format!("GET {there}"))).map(|(_, to)| to), to_b);
    let aborted = at_a.line("EXEC");
    assert_eq!(
        aborted.error(),
        "EXECABORT Transaction discarded because of previous errors."
    );
    for line in ["MULTI".to_owned(), format!("SET {here} 1"), format!("INCR {here}")] {
        at_a.line(&line);
    }
    assert_eq!(at_a.line("EXEC").items()[1].int(), 2);
    assert_eq!(moved(&at_a.line(&format!("WATCH {there}"))).map(|(_, to)| to), to_b);
    // Scripts.
    let script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    assert_eq!(at_a.command(&["EVAL", script, "1", &here, "5"]).int(), 7);
    let elsewhere = at_a.command(&["EVAL", script, "1", &there, "5"]);
    assert_eq!(moved(&elsewhere).map(|(_, to)| to), to_b);
    let undeclared = "return redis.call('GET', ARGV[1])";
    assert_eq!(at_a.command(&["EVAL", undeclared, "0", &here]).text(), "7");
    let refused = at_a.command(&["EVAL", undeclared, "0", &there]);
    let text = "ERR Script attempted to access a non local key in a cluster node";
    assert!(refused.error().starts_with(text), "{refused:?}");
    // Channels of slots.
    let (mut listener, listens) = (face(&a), format!("SSUBSCRIBE {here}"));
    assert_eq!(listener.line(&listens).items()[2].int(), 1);
    assert_eq!(moved(&at_b.line(&listens)).map(|(_, to)| to), a.redirect_listen());
    assert_eq!(at_a.line(&format!("SPUBLISH {here} hello")).int(), 1);
    assert_eq!(listener.receive().items()[2].text(), "hello");
    assert!(moved(&at_b.line(&format!("SPUBLISH {here} hello"))).is_some());
    assert_eq!(at_a.line(&format!("PUBSUB SHARDNUMSUB {here}")).items()[1].int(), 1);
    assert_eq!(at_b.line(&format!("PUBSUB SHARDNUMSUB {here}")).items()[1].int(), 0);
    // Blocking commands.
    assert_eq!(moved(&at_a.line(&format!("BLPOP {there} 1"))).map(|(_, to)| to), to_b);
}

#[test]
fn a_holder_that_clients_cannot_be_sent_to_is_asked_for_them() {
    const KEYS: usize = 60;
    let a = start("a", None, &REDIRECTING);
    let b = start("b", Some(&a), &[]);
    until_spread(&[&a, &b]);
    assert_eq!(b.redirect_listen(), None);
    let mut at_a = face(&a);
    for key in 0..KEYS {
        assert_eq!(at_a.line(&format!("SET key:{key} {key}")).text(), "OK");
        let check = at_a.line(&format!("RL.CHECK bucket:{key} LIMIT 1 PER 1h"));
        assert_eq!(check.items()[0].int(), 1);
    }
    let mut at_b = b.client();
    for key in 0..KEYS {
        assert_eq!(at_b.line(&format!("GET key:{key}")).text(), key.to_string());
    }
    let ranges = slots(&mut at_a);
    assert_eq!(ranges.len(), 1, "clients find all of them at one node: {ranges:?}");
}

#[test]
fn scenario_moves_and_a_death_under_a_client_that_follows() {
    const KEYS: usize = 200;
    let a = start("a", None, &REDIRECTING);
    let b = start("b", Some(&a), &REDIRECTING);
    until_spread(&[&a, &b]);
    let mut at_a = face(&a);
    for key in 0..KEYS {
        assert_eq!(follow(&mut at_a, &format!("SET key:{key} {key}")).text(), "OK");
    }
    // While a third joins, every command gets to its key.
    let mut c = start("c", Some(&a), &REDIRECTING);
    let spread = || {
        let held: Vec<f64> = [&a, &b, &c]
            .map(|node| node.metric("tollgate_slots_held").unwrap_or(0.0))
            .into();
        held.iter().all(|held| *held > 4000.0)
    };
    let mut rounds = 0;
    while !spread() || rounds < 3 {
        for key in 0..KEYS {
            let mut reply = at_a.line(&format!("GET key:{key}"));
            // A slot may move on while one follows it.
            for _ in 0..5 {
                let Some((_, to)) = moved(&reply) else { break };
                reply = Client::connect(to).line(&format!("GET key:{key}"));
            }
            assert_eq!(reply.text(), key.to_string(), "round {rounds}");
        }
        rounds += 1;
        assert!(rounds < 1_000, "the slots are not spread");
    }
    until_spread(&[&a, &b, &c]);
    // Its slots are followed once they are there; then it dies.
    until("every slot is followed", || {
        let report = a.http("GET", "/v1/cluster", "").json();
        let members = report["members"].as_array().expect("members");
        members
            .iter()
            .filter_map(|member| member["slots"]["replicas_in_step"].as_u64())
            .sum::<u64>()
            == 16_384
    });
    c.kill();
    // A node that is asked answers, or sends its client to one that may be gone; in the end all is where it was.
    let mut left: BTreeSet<usize> = (0..KEYS).collect();
    until("every key is served again", || {
        left.retain(|key| {
            let reply = at_a.line(&format!("GET key:{key}"));
            let reply = match moved(&reply) {
                Some((_, to)) if Some(to) == b.redirect_listen() => Client::connect(to).line(&format!("GET key:{key}")),
                Some(_) => return true,
                None => reply,
            };
            if reply.is_error() {
                return true;
            }
            assert_eq!(reply.text(), key.to_string());
            false
        });
        left.is_empty()
    });
    until("nobody is sent to the dead", || {
        let ports: BTreeSet<i64> = slots(&mut at_a).into_iter().map(|(_, _, port, _)| port).collect();
        !ports.contains(&c.redirect_listen().map_or(0, |at| i64::from(at.port())))
    });
}

/// What a reply consists of, without what differs from server to server.
fn shape(value: &Value) -> String {
    let list = |items: &[Value]| {
        let mut shapes: Vec<String> = items.iter().map(shape).collect();
        shapes.dedup();
        shapes.join(" ")
    };
    match value {
        Value::Bulk(_) | Value::Simple(_) => "text".to_owned(),
        Value::Int(_) => "int".to_owned(),
        Value::Array(items) => format!("[{}]", list(items)),
        Value::Map(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(name, value)| format!("{}: {}", name.text(), shape(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Verbatim(_) => "verbatim".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn replies_have_the_shapes_of_redis_cluster() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let redis = RedisServer::start(&["--cluster-enabled", "yes"]);
    let mut theirs = redis.client();
    assert_eq!(theirs.line("CLUSTER ADDSLOTSRANGE 0 16383").text(), "OK");
    until("it serves", || {
        theirs.line("CLUSTER INFO").text().contains("cluster_state:ok")
    });
    let a = start("a", None, &REDIRECTING);
    let mut ours = face(&a);
    until("this one, too", || {
        ours.line("CLUSTER INFO").text().contains("cluster_state:ok")
    });
    for proto in [2, 3] {
        let hello = format!("HELLO {proto}");
        let modes = [&mut theirs, &mut ours].map(|client| client.line(&hello).field("mode").text().to_owned());
        assert_eq!(modes, ["cluster", "cluster"]);
        for line in [
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CLUSTER NODES",
            "CLUSTER INFO",
            "CLUSTER MYID",
            "CLUSTER KEYSLOT a{b}c",
        ] {
            let (theirs, ours) = (theirs.line(line), ours.line(line));
            assert_eq!(
                shape(&ours),
                shape(&theirs),
                "{line} in RESP{proto}: {ours:?} beside {theirs:?}"
            );
        }
        // The same words.
        for line in [
            "CLUSTER KEYSLOT a{b}c",
            "READONLY",
            "READWRITE",
            "ASKING",
            "SELECT 0",
            "SELECT 1",
            "SELECT x",
            "MSET a 1 b 2",
            "COPY a {a}b DB 1",
            "COPY a b",
            "EVAL x 2 a b",
            "SSUBSCRIBE a b",
            "CLUSTER REPLICAS x",
            "CLUSTER SLOTS x",
            "CLUSTER KEYSLOT",
            "MULTI",
            "MGET a b",
            "EXEC",
            "MULTI",
            "SET a 1",
            "SET b 1",
            "EXEC",
            "EXEC",
        ] {
            assert_eq!(ours.line(line), theirs.line(line), "{line} in RESP{proto}");
        }
    }
    let text = |value: Value| match value {
        Value::Verbatim(text) => String::from_utf8(text).expect("text"),
        other => other.text().to_owned(),
    };
    let fields = |client: &mut Client| -> BTreeMap<String, String> {
        let info = text(client.line("CLUSTER INFO"));
        let pairs = info
            .lines()
            .filter_map(|line| line.trim_start_matches("txt:").split_once(':'));
        pairs
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect()
    };
    let (theirs_info, ours_info) = (fields(&mut theirs), fields(&mut ours));
    for name in ours_info.keys() {
        assert!(theirs_info.contains_key(name), "{name}");
    }
    for name in [
        "cluster_state",
        "cluster_slots_assigned",
        "cluster_slots_ok",
        "cluster_slots_pfail",
        "cluster_slots_fail",
        "cluster_known_nodes",
        "cluster_size",
    ] {
        assert_eq!(ours_info[name], theirs_info[name], "{name}");
    }
    let columns = |client: &mut Client| {
        let nodes = text(client.line("CLUSTER NODES"));
        let line = nodes.lines().next().expect("a node").to_owned();
        let columns: Vec<String> = line.split(' ').map(str::to_owned).collect();
        (columns.len(), columns[2..6].to_vec(), columns[7..].to_vec())
    };
    assert_eq!(columns(&mut ours), columns(&mut theirs));
}
