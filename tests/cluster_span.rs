//! Commands, transactions, scripts and waits over keys of several nodes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value, until, until_blocked, until_hit};

/// A node of a cluster: the first, or one that joins another.
fn start(name: &str, workers: &str, seed: Option<&Node>) -> Node {
    start_with(&["--name", name, "--workers", workers], seed)
}

fn start_with(args: &[&str], seed: Option<&Node>) -> Node {
    let mut args = [args, &["--peer", "127.0.0.1:0"]].concat();
    let peer = seed.map(|seed| seed.peer().expect("a peer address").to_string());
    if let Some(peer) = &peer {
        args.extend(["--join", peer]);
    }
    Node::start(&args)
}

/// Waits until the slots are evenly spread over these nodes.
fn until_spread(nodes: &[&Node]) {
    until("the slots are spread", || {
        let slots = |node: &&Node| node.metric("tollgate_slots_held").unwrap_or(0.0);
        let held: Vec<f64> = nodes.iter().map(slots).collect();
        let share = 16384.0 / nodes.len() as f64;
        held.iter().sum::<f64>() == 16384.0 && held.iter().all(|&held| held > 0.7 * share && held < 1.2 * share)
    });
}

/// A cluster of two nodes of one worker and one of two.
fn three() -> [Node; 3] {
    let a = start("a", "1", None);
    let b = start("b", "2", Some(&a));
    let c = start("c", "1", Some(&a));
    until_spread(&[&a, &b, &c]);
    [a, b, c]
}

/// Waits until no node has lent anything, nor has anybody of them keys that are in use.
fn until_nothing_is_lent(nodes: &[&Node]) {
    until("all keys are back", || {
        nodes.iter().all(|node| node.metric("tollgate_keys_lent ") == Some(0.0))
    });
}

fn torn(nodes: &[&Node]) -> f64 {
    nodes
        .iter()
        .map(|node| node.metric("tollgate_loans_torn_total").expect("a metric"))
        .sum()
}

fn borrowed(nodes: &[&Node]) -> f64 {
    nodes
        .iter()
        .map(|node| node.metric("tollgate_keys_lent_total").expect("a metric"))
        .sum()
}

/// What one node and a cluster must answer in the same way, with the keys of a round.
fn lines(round: usize) -> Vec<String> {
    let lines = [
        "MSET K1 one K2 two K3 3",
        "MGET K1 K2 K3 K4",
        "MSETNX K3 x K4 y",
        "MSETNX K4 four K5 five",
        "MGET K1 K2 K3 K4 K5",
        "RENAME K4 K6",
        "RENAMENX K5 K6",
        "EXISTS K4 K5 K6",
        "COPY K6 K7",
        "COPY K6 K7 REPLACE",
        "COPY K6 K7 DB 3",
        "GET K7",
        "APPEND K1 more",
        "LCS K1 K2",
        "BITOP OR K8 K1 K2",
        "GET K8",
        "RPUSH L1 a b c d",
        "LMOVE L1 L2 LEFT RIGHT",
        "LMOVE L1 L2 RIGHT LEFT",
        "RPOPLPUSH L2 L3",
        "LRANGE L1 0 -1",
        "LRANGE L2 0 -1",
        "LMPOP 3 L4 L2 L1 LEFT COUNT 2",
        "SADD S1 1 2 3 4",
        "SADD S2 3 4 5",
        "SADD S3 4 5 6",
        "SINTERSTORE S4 S1 S2",
        "SMEMBERS S4",
        "SUNIONSTORE S5 S1 S2 S3",
        "SDIFF S5 S3",
        "SINTERCARD 2 S1 S2",
        "SMOVE S1 S2 1",
        "SMEMBERS S2",
        "SINTERSTORE S4 S1 none",
        "EXISTS S4",
        "ZADD Z1 1 a 2 b 3 c",
        "ZADD Z2 10 b 20 c",
        "ZUNIONSTORE Z3 2 Z1 Z2",
        "ZRANGE Z3 0 -1 WITHSCORES",
        "ZINTER 2 Z1 Z2 WITHSCORES",
        "ZRANGESTORE Z4 Z1 0 1",
        "ZMPOP 2 Z5 Z4 MIN",
        "HSET H1 f v",
        "MGET H1 K1",
        "SUNION S1 H1",
        "RENAME none K1",
        "EXPIRE K1 1000",
        "RENAME K1 K9",
        "TTL K9",
        "PERSIST K9",
        "DEL K1 K2 K3 K9 S1 S2 none",
        "UNLINK K6 K7 L1",
        "EXISTS K1 K2 K3 K6 K7 S1 L1 Z1 H1",
        "TOUCH Z1 Z2 Z3 none",
    ];
    let is_key = |word: &str| {
        let (first, rest) = word.split_at(1);
        "KLSZH".contains(first) && !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
    };
    let with_keys = |line: &&str| -> String {
        let words = line.split(' ').map(|word| match is_key(word) || word == "none" {
            true => format!("{word}:{round}"),
            false => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(with_keys).collect()
}

#[test]
fn commands_over_keys_of_several_nodes_answer_as_on_one() {
    let alone = Node::start(&["--workers", "1"]);
    let nodes = three();
    let mut reference = alone.client();
    let mut clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    for round in 0..12 {
        for (index, line) in lines(round).iter().enumerate() {
            let count = clients.len();
            let tested = &mut clients[(index + round) % count];
            assert_eq!(tested.line(line), reference.line(line), "{line}");
        }
    }
    // Not for want of trying.
    let nodes: Vec<&Node> = nodes.iter().collect();
    assert!(borrowed(&nodes) > 200.0, "{}", borrowed(&nodes));
    assert_eq!(torn(&nodes), 0.0);
    until_nothing_is_lent(&nodes);
}

#[test]
fn scripts_reach_keys_of_any_node_declared_or_not() {
    let nodes = three();
    let mut clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    let count = clients.len();
    let sum = "local sum = 0 for i = 1, tonumber(ARGV[1]) do sum = sum + redis.call('INCR', 'undeclared:' .. i) end return sum";
    for round in 1..=6 {
        let reply = clients[round % count].command(&["EVAL", sum, "0", "7"]);
        assert_eq!(reply, Value::Int(7 * round as i64));
    }
    let move_all = "for i = 2, #KEYS do redis.call('RPUSH', KEYS[1], redis.call('GET', KEYS[i]) or 'none') redis.call('DEL', KEYS[i]) end \
                    return redis.call('LRANGE', KEYS[1], 0, -1)";
    for round in 0..6 {
        let keys: Vec<String> = (0..5).map(|key| format!("from:{round}:{key}")).collect();
        for (index, key) in keys.iter().enumerate().skip(1) {
            assert_eq!(
                clients[index % count]
                    .command(&["SET", key, &format!("v{index}")])
                    .text(),
                "OK"
            );
        }
        let mut eval = vec!["EVAL", move_all, "6"];
        let list = format!("list:{round}");
        eval.push(&list);
        eval.extend(keys.iter().map(String::as_str));
        let reply = clients[round % count].command(&eval);
        let moved: Vec<&str> = reply.items().iter().map(Value::text).collect();
        assert_eq!(moved, ["none", "v1", "v2", "v3", "v4"]);
        let mut exists = vec!["EXISTS"];
        exists.extend(keys.iter().map(String::as_str));
        assert_eq!(clients[(round + 1) % count].command(&exists).int(), 0);
    }
    // What a script has written to several nodes before it is stopped is taken back at all of them.
    let stopped = "for i = 1, 5 do redis.call('SET', 'stopped:' .. i, 'x') end while true do end";
    assert!(clients[0].command(&["EVAL", stopped, "0"]).is_error());
    let mut exists = vec!["EXISTS".to_owned()];
    exists.extend((1..=5).map(|key| format!("stopped:{key}")));
    assert_eq!(clients[1].command(&exists).int(), 0);
    // What it has written before it fails stands.
    let failed = "for i = 1, 5 do redis.call('SET', 'failed:' .. i, 'x') end error('no')";
    assert!(clients[0].command(&["EVAL", failed, "0"]).is_error());
    let mut exists = vec!["EXISTS".to_owned()];
    exists.extend((1..=5).map(|key| format!("failed:{key}")));
    assert_eq!(clients[1].command(&exists).int(), 5);
    let nodes: Vec<&Node> = nodes.iter().collect();
    assert_eq!(torn(&nodes), 0.0);
    until_nothing_is_lent(&nodes);
}

#[test]
fn buckets_of_several_nodes_are_decided_in_scripts_and_transactions() {
    const BUCKETS: usize = 8;
    let nodes = three();
    let mut clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    let count = clients.len();
    let check_all = "local out = {} for i = 1, tonumber(ARGV[1]) do \
                     out[i] = redis.call('RL.CHECK', 'bucket:' .. i, 'LIMIT', '5', 'PER', '1h')[1] end return out";
    for round in 0..8 {
        let admits = i64::from(round < 5);
        let client = &mut clients[round % count];
        let admitted: Vec<i64> = match round % 3 {
            0 => {
                let reply = client.command(&["EVAL", check_all, "0", &BUCKETS.to_string()]);
                reply.items().iter().map(Value::int).collect()
            }
            1 => {
                assert_eq!(client.line("MULTI").text(), "OK");
                for bucket in 1..=BUCKETS {
                    client.line(&format!("RL.CHECK bucket:{bucket} LIMIT 5 PER 1h"));
                }
                let reply = client.line("EXEC");
                reply.items().iter().map(|check| check.items()[0].int()).collect()
            }
            _ => (1..=BUCKETS)
                .map(|bucket| client.line(&format!("RL.CHECK bucket:{bucket} LIMIT 5 PER 1h")).items()[0].int())
                .collect(),
        };
        assert_eq!(admitted, vec![admits; BUCKETS], "round {round}");
    }
    until_nothing_is_lent(&nodes.iter().collect::<Vec<_>>());
}

/// Moves random amounts between accounts through this node until told to stop, in one of several ways; how often.
fn transfer(address: &Node, accounts: usize, seed: u64, stop: &AtomicBool) -> u64 {
    let mut client = address.client();
    let mut draw = seed;
    let mut next = move |below: usize| {
        draw = draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) as usize % below
    };
    let script = "local amount = tonumber(ARGV[1]) redis.call('DECRBY', KEYS[1], amount) redis.call('INCRBY', KEYS[2], amount) return 1";
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (
            format!("account:{}", next(accounts)),
            format!("account:{}", next(accounts)),
        );
        let amount = (1 + next(9)).to_string();
        let reply = match next(2) {
            0 => client.command(&["EVAL", script, "2", &from, &to, &amount]),
            _ => {
                let commands = [
                    vec!["MULTI"],
                    vec!["DECRBY", &from, &amount],
                    vec!["INCRBY", &to, &amount],
                    vec!["EXEC"],
                ];
                client.pipeline(&commands).pop().expect("four replies")
            }
        };
        match &reply {
            Value::Error(error) => assert!(error.starts_with("TRYAGAIN"), "{error}"),
            _ => done += 1,
        }
    }
    done
}

/// The sum over all accounts, read at once.
fn sum(client: &mut Client, accounts: usize) -> i64 {
    let mut get = vec!["MGET".to_owned()];
    get.extend((0..accounts).map(|account| format!("account:{account}")));
    let reply = client.command(&get);
    let amounts = reply
        .items()
        .iter()
        .map(|amount| amount.text().parse::<i64>().expect("a number"));
    amounts.sum()
}

#[test]
fn transfers_between_nodes_keep_the_sum() {
    const ACCOUNTS: usize = 12;
    let nodes = three();
    let mut client = nodes[0].client();
    for account in 0..ACCOUNTS {
        assert_eq!(client.line(&format!("SET account:{account} 1000")).text(), "OK");
    }
    let stop = AtomicBool::new(false);
    let done: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6u64)
            .map(|thread| {
                let (nodes, stop) = (&nodes, &stop);
                scope.spawn(move || transfer(&nodes[thread as usize % 3], ACCOUNTS, thread, stop))
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until {
            for node in &nodes {
                assert_eq!(sum(&mut node.client(), ACCOUNTS), 1000 * ACCOUNTS as i64);
            }
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("no error")).sum()
    });
    assert!(done > 100, "{done}");
    assert_eq!(sum(&mut client, ACCOUNTS), 1000 * ACCOUNTS as i64);
    let nodes: Vec<&Node> = nodes.iter().collect();
    assert_eq!(torn(&nodes), 0.0);
    until_nothing_is_lent(&nodes);
}

#[test]
fn scenario_transfers_go_on_while_a_node_joins_and_leaves() {
    const ACCOUNTS: usize = 12;
    let a = start("a", "1", None);
    let b = start("b", "1", Some(&a));
    until_spread(&[&a, &b]);
    let mut client = a.client();
    for account in 0..ACCOUNTS {
        assert_eq!(client.line(&format!("SET account:{account} 1000")).text(), "OK");
    }
    let stop = AtomicBool::new(false);
    let done: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let (node, stop) = ([&a, &b][thread as usize % 2], &stop);
                scope.spawn(move || transfer(node, ACCOUNTS, thread, stop))
            })
            .collect();
        let mut c = start("c", "1", Some(&a));
        until_spread(&[&a, &b, &c]);
        for node in [&a, &b, &c] {
            assert_eq!(sum(&mut node.client(), ACCOUNTS), 1000 * ACCOUNTS as i64);
        }
        assert!(c.stop().success());
        until_spread(&[&a, &b]);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("no error")).sum()
    });
    assert!(done > 100, "{done}");
    for node in [&a, &b] {
        assert_eq!(sum(&mut node.client(), ACCOUNTS), 1000 * ACCOUNTS as i64);
    }
    assert_eq!(torn(&[&a, &b]), 0.0);
    until_nothing_is_lent(&[&a, &b]);
}

#[test]
fn a_watched_key_that_changes_at_any_node_stops_exec() {
    const KEYS: usize = 10;
    let nodes = three();
    let mut clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    let mut other = nodes[1].client();
    for key in 0..KEYS {
        for (index, client) in clients.iter_mut().enumerate() {
            let key = format!("watched:{key}");
            // Nothing happens.
            assert_eq!(client.line(&format!("WATCH {key} beside:{key}")).text(), "OK");
            client.line("MULTI");
            client.line(&format!("INCR {key}"));
            assert_eq!(client.line("EXEC").items().len(), 1, "{key} at node {index}");
            // It changes.
            assert_eq!(client.line(&format!("WATCH {key} beside:{key}")).text(), "OK");
            other.line(&format!("APPEND {key} 1"));
            client.line("MULTI");
            client.line(&format!("INCR {key}"));
            assert!(client.line("EXEC").is_null(), "{key} at node {index}");
            // It changes before it is watched, or the watch is given up.
            assert_eq!(client.line(&format!("WATCH {key}")).text(), "OK");
            other.line(&format!("SET {key} 1"));
            assert_eq!(client.line("UNWATCH").text(), "OK");
            client.line("MULTI");
            client.line(&format!("INCR {key}"));
            assert_eq!(client.line("EXEC").items().len(), 1, "{key} at node {index}");
        }
    }
    until_nothing_is_lent(&nodes.iter().collect::<Vec<_>>());
}

#[test]
fn optimistic_increments_through_all_nodes_lose_nothing() {
    const COUNTERS: usize = 3;
    const EACH: u64 = 40;
    let nodes = three();
    let conflicts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (nodes, conflicts) = (&nodes, &conflicts);
            scope.spawn(move || {
                let mut client = nodes[thread % 3].client();
                let mut done = 0;
                while done < EACH {
                    let key = format!("counter:{}", done as usize % COUNTERS);
                    client.line(&format!("WATCH {key}"));
                    let reply = client.line(&format!("GET {key}"));
                    let before: u64 = if reply.is_null() {
                        0
                    } else {
                        reply.text().parse().expect("a number")
                    };
                    client.line("MULTI");
                    client.line(&format!("SET {key} {}", before + 1));
                    match client.line("EXEC") {
                        reply if reply.is_null() => {
                            conflicts.fetch_add(1, Ordering::Relaxed);
                        }
                        reply if reply.is_error() => assert!(reply.error().starts_with("TRYAGAIN"), "{reply:?}"),
                        _ => done += 1,
                    }
                }
            });
        }
    });
    assert!(conflicts.load(Ordering::Relaxed) > 0, "they never met");
    let mut client = nodes[0].client();
    let total: u64 = (0..COUNTERS)
        .map(|counter| {
            client
                .line(&format!("GET counter:{counter}"))
                .text()
                .parse::<u64>()
                .expect("a number")
        })
        .sum();
    assert_eq!(total, 6 * EACH);
    let nodes: Vec<&Node> = nodes.iter().collect();
    assert_eq!(torn(&nodes), 0.0);
    until_nothing_is_lent(&nodes);
}

/// Keys of a round that are at different nodes.
fn queues(name: &str, round: usize) -> Vec<String> {
    (0..5).map(|key| format!("{name}:{round}:{key}")).collect()
}

/// Whether a text is in a reply, at any depth.
fn has(reply: &Value, text: &str) -> bool {
    match reply {
        Value::Array(items) => items.iter().any(|item| has(item, text)),
        reply => !reply.is_null() && reply.text() == text,
    }
}

#[test]
fn who_waits_for_a_key_of_another_node_is_woken() {
    let nodes = three();
    let mut waiting: Vec<Client> = nodes.iter().map(Node::client).collect();
    let mut pushing: Vec<Client> = nodes.iter().map(Node::client).collect();
    let count = nodes.len();
    for round in 0..18 {
        let (at, from) = (round % count, (round / count) % count);
        let keys = queues("queue", round);
        let key = &keys[round % keys.len()];
        let (client, pusher) = (&mut waiting[at], &mut pushing[from]);
        let (wait, push, popped) = match round % 4 {
            0 => (format!("BLPOP {} 30", keys.join(" ")), format!("RPUSH {key} x"), "x"),
            1 => (
                format!("BLMOVE {key} to:{key} LEFT RIGHT 30"),
                format!("RPUSH {key} x"),
                "x",
            ),
            2 => (
                format!("BZPOPMIN {} 30", keys.join(" ")),
                format!("ZADD {key} 7 x"),
                "x",
            ),
            _ => (
                format!("BLMPOP 30 5 {} RIGHT COUNT 2", keys.join(" ")),
                format!("RPUSH {key} y x"),
                "x",
            ),
        };
        // What is there already is had at once.
        pusher.line(&push);
        assert!(!client.line(&wait).is_error());
        client.send(&wait.split(' ').collect::<Vec<_>>());
        until_blocked(&mut nodes[at].client(), 1);
        // Of no use to it.
        pusher.line(&format!("SET beside:{key} x"));
        pusher.line(&push);
        let reply = client.receive();
        assert!(has(&reply, popped), "round {round}: {reply:?}");
        until_blocked(&mut nodes[at].client(), 0);
    }
    // A transaction and a script that push count like any command.
    for (round, push) in [
        vec![
            vec!["MULTI"],
            vec!["RPUSH", "late:0:3", "x"],
            vec!["SET", "late:0:4", "y"],
            vec!["EXEC"],
        ],
        vec![vec![
            "EVAL",
            "redis.call('SET', 'beside', 1) return redis.call('RPUSH', 'late:1:3', 'x')",
            "0",
        ]],
    ]
    .iter()
    .enumerate()
    {
        for at in 0..count {
            let keys = queues("late", round);
            let client = &mut waiting[at];
            client.line(&format!("DEL {}", keys.join(" ")));
            client.send(&format!("BRPOP {} 30", keys.join(" ")).split(' ').collect::<Vec<_>>());
            until_blocked(&mut nodes[at].client(), 1);
            pushing[(at + 1) % count].pipeline(push);
            assert_eq!(client.receive().items()[1].text(), "x");
        }
    }
    // Without a push the time ends.
    for client in &mut waiting {
        assert!(
            client
                .line("BLPOP nothing:1 nothing:2 nothing:3 nothing:4 0.1")
                .is_null()
        );
    }
    until_nothing_is_lent(&nodes.iter().collect::<Vec<_>>());
}

#[test]
fn who_waits_longest_is_served_first_whatever_its_node() {
    let nodes = three();
    let mut clients: Vec<Client> = (0..6).map(|client| nodes[client % 3].client()).collect();
    for round in 0..4 {
        for (index, client) in clients.iter_mut().enumerate() {
            client.send(&["BLPOP", &format!("first:{round}"), "30"]);
            until_blocked(&mut nodes[index % 3].client(), index / 3 + 1);
        }
        let mut pusher = nodes[round % 3].client();
        for (index, client) in clients.iter_mut().enumerate() {
            pusher.line(&format!("RPUSH first:{round} {index}"));
            assert_eq!(client.receive().items()[1].text(), index.to_string());
        }
    }
}

#[test]
fn scenario_who_waits_follows_keys_that_move() {
    let a = start("a", "1", None);
    let mut clients: Vec<Client> = (0..12).map(|_| a.client()).collect();
    for (key, client) in clients.iter_mut().enumerate() {
        client.send(&["BLPOP", &format!("moving:{key}"), "60"]);
    }
    until_blocked(&mut a.client(), 12);
    let mut watching = a.client();
    let watched: Vec<String> = (0..12).map(|key| format!("watched:{key}")).collect();
    watching.line(&format!("WATCH {}", watched.join(" ")));
    let b = start("b", "1", Some(&a));
    until_spread(&[&a, &b]);
    // Some of them are elsewhere now.
    watching.line("MULTI");
    watching.line("PING");
    assert!(watching.line("EXEC").is_null());
    let mut pusher = b.client();
    for (key, client) in clients.iter_mut().enumerate() {
        pusher.line(&format!("RPUSH moving:{key} {key}"));
        assert_eq!(client.receive().items()[1].text(), key.to_string());
    }
    until_nothing_is_lent(&[&a, &b]);
}

#[test]
fn the_keys_of_a_killed_borrower_are_free_again() {
    const KEYS: usize = 12;
    let a = start("a", "1", None);
    let b = start("b", "2", Some(&a));
    let args = ["--name", "c", "--workers", "1", "--set", "script.budget_ms=30000"];
    let mut c = start_with(&args, Some(&a));
    until_spread(&[&a, &b, &c]);
    let mut client = a.client();
    let mut at_c = c.client();
    for key in 0..KEYS {
        assert_eq!(client.line(&format!("SET held:{key} before")).text(), "OK");
    }
    // What has changed is with the heirs some 20 ms later.
    std::thread::sleep(Duration::from_millis(500));
    // A script that has the keys of all nodes, and does not end for long.
    let script = "for i = 0, 11 do redis.call('SET', 'held:' .. i, 'after') end while true do end";
    at_c.send(&["EVAL", script, "0"]);
    let lent = |node: &Node| node.metric("tollgate_keys_lent ").unwrap_or(0.0);
    until("keys are lent", || lent(&a) + lent(&b) > 4.0);
    c.kill();
    until_nothing_is_lent(&[&a, &b]);
    until_spread(&[&a, &b]);
    for key in 0..KEYS {
        assert_eq!(client.line(&format!("GET held:{key}")).text(), "before");
    }
}

#[test]
fn what_cannot_be_lent_is_an_error_by_name_and_leaves_nothing_behind() {
    let bounds = [
        "limits.lent_ms=1000",
        "limits.lent_key_bytes=65536",
        "limits.keys_wait_ms=400",
        "limits.lent_keys=50",
    ];
    let mut args = vec!["--workers", "1", "--set", "script.budget_ms=30000"];
    args.extend(bounds.iter().flat_map(|bound| ["--set", bound]));
    let a = start_with(&[&args[..], &["--name", "a"]].concat(), None);
    let b = start_with(&[&args[..], &["--name", "b"]].concat(), Some(&a));
    until_spread(&[&a, &b]);
    let (mut at_a, mut at_b) = (a.client(), b.client());
    let keys: Vec<String> = (0..8).map(|key| format!("key:{key}")).collect();
    let all = keys.join(" ");
    for key in &keys {
        assert_eq!(at_b.line(&format!("SET {key} before")).text(), "OK");
    }

    // A key that is too large, wherever it is.
    for client in [&mut at_a, &mut at_b] {
        client.command(&["SET", "large", &"x".repeat(100_000)]);
    }
    let mget = format!("MGET large {all}");
    let replies = [at_a.line(&mget), at_b.line(&mget)];
    let refused: Vec<&Value> = replies.iter().filter(|reply| reply.is_error()).collect();
    assert_eq!(refused.len(), 1, "one of them has it: {refused:?}");
    assert_eq!(refused[0].error(), "ERR a key is too large to be lent to another node");

    // More keys than are lent at one time.
    let many: Vec<String> = (0..300).map(|key| format!("many:{key}")).collect();
    let reply = at_a.line(&format!("MGET {}", many.join(" ")));
    assert_eq!(reply.error(), "BUSY too many keys are lent to other nodes");

    // Keys that are in use for longer than anybody waits, and after that for longer than they are lent.
    let busy = "for i = 1, #KEYS do redis.call('SET', KEYS[i], 'after') end local start = os.clock() while os.clock() - start < 3 do end";
    let mut eval = vec!["EVAL".to_owned(), busy.to_owned(), keys.len().to_string()];
    eval.extend(keys.iter().cloned());
    at_a.send(&eval);
    until("keys are lent", || {
        b.metric("tollgate_keys_lent ").is_some_and(|lent| lent > 0.0)
    });
    until("the keys of the other node are free", || {
        b.metric("tollgate_keys_lent ") == Some(0.0)
    });
    let free = keys
        .iter()
        .filter(|key| at_b.line(&format!("GET {key}")).text() == "before")
        .count();
    assert!(free > 0, "{free}");
    let torn_error =
        "CLUSTERDOWN a node that has lent keys has not taken them back; the command may have been done in part";
    assert_eq!(at_a.receive().error(), torn_error);
    assert_eq!(torn(&[&a]), 1.0);
    until_hit(&b, "lent_ms", 1.0);
    until_hit(&b, "lent_keys", 1.0);
    let too_large = "tollgate_limit_hit_total{limit=\"lent_key_bytes\"";
    until("it is counted", || {
        [&a, &b]
            .iter()
            .any(|node| node.metric(too_large).is_some_and(|hits| hits > 0.0))
    });
    until_nothing_is_lent(&[&a, &b]);
}

#[test]
fn who_needs_keys_that_another_run_has_waits_for_them() {
    let args = [
        "--workers",
        "1",
        "--set",
        "script.budget_ms=30000",
        "--set",
        "limits.keys_wait_ms=20000",
    ];
    let a = start_with(&[&args[..], &["--name", "a"]].concat(), None);
    let b = start_with(&[&args[..], &["--name", "b"]].concat(), Some(&a));
    until_spread(&[&a, &b]);
    let (mut at_a, mut at_b, mut third) = (a.client(), b.client(), b.client());
    let keys: Vec<String> = (0..8).map(|key| format!("key:{key}")).collect();
    let all = keys.join(" ");
    let busy = "local start = os.clock() while os.clock() - start < 0.5 do end for i = 1, #KEYS do redis.call('SET', KEYS[i], 'x') end";
    let mut eval = vec!["EVAL".to_owned(), busy.to_owned(), keys.len().to_string()];
    eval.extend(keys.iter().cloned());
    at_a.send(&eval);
    until("keys are lent", || {
        b.metric("tollgate_keys_lent ").is_some_and(|lent| lent > 0.0)
    });
    at_b.send(&format!("MGET {all}").split(' ').collect::<Vec<_>>());
    third.send(&["FLUSHALL"]);
    let values = at_b.receive();
    let is_whole = |value: &str| {
        values
            .items()
            .iter()
            .all(|item| !item.is_null() && item.text() == value)
    };
    // All after the script, or, if FLUSHALL came between, what that has left: nothing of one node.
    assert!(is_whole("x") || values.items().iter().any(Value::is_null), "{values:?}");
    assert_eq!(third.receive().text(), "OK");
    assert!(!at_a.receive().is_error());
    until_nothing_is_lent(&[&a, &b]);
}
