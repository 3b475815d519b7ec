//! Workers: spread connections, one limit whichever worker is asked, bounded mailboxes, orderly ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, ScratchDir, Value, encode_command};

/// Waits until `condition` holds; the limit only catches hangs.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_key_has_one_bucket_whoever_is_asked() {
    for workers in ["1", "2", "4"] {
        let node = Node::start(&["--workers", workers]);
        let listen = node.listen();
        let started = Instant::now();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut client = Client::connect(listen);
                    let commands = vec![["RL.CHECK", "one", "LIMIT", "500", "PER", "1h"]; 250];
                    let commands: Vec<Vec<&str>> = commands.iter().map(|command| command.to_vec()).collect();
                    client
                        .pipeline(&commands)
                        .iter()
                        .filter(|reply| reply.items()[0].int() == 1)
                        .count()
                })
            })
            .collect();
        let admitted: usize = threads.into_iter().map(|thread| thread.join().expect("a client")).sum();
        let refilled = (started.elapsed().as_secs_f64() * 500.0 / 3600.0).ceil() as usize;
        assert!(
            (500..=500 + refilled).contains(&admitted),
            "{admitted} admitted with {workers} workers"
        );
    }
}

#[test]
fn connections_are_spread_even_if_there_are_only_two() {
    let node = Node::start(&["--workers", "2"]);
    let (mut a, mut b) = (node.client(), node.client());
    for client in [&mut a, &mut b] {
        assert_eq!(client.line("PING").text(), "PONG");
    }
    eventually("each worker has one of two connections", || {
        (0..2).all(|worker| node.metric(&format!("tollgate_connections{{worker=\"{worker}\"}}")) == Some(1.0))
    });
}

#[test]
fn a_full_mailbox_sheds_with_a_named_error() {
    let node = Node::start(&[
        "--workers",
        "2",
        "--set",
        "limits.mailbox_batches=1",
        "--set",
        "limits.batch_commands=1",
    ]);
    let mut client = node.client();
    // Each command to the other shard is a batch of its own, and they come faster than one at a time is taken.
    let commands: Vec<Vec<String>> = (0..2_000)
        .map(|i| {
            format!("RL.CHECK k{i} LIMIT 5 PER 1h")
                .split(' ')
                .map(str::to_owned)
                .collect()
        })
        .collect();
    let replies = client.pipeline(&commands);
    let shed = replies.iter().filter(|reply| reply.is_error()).count();
    assert!(shed > 0, "2,000 commands at once fit into a mailbox of one batch");
    for reply in &replies {
        match reply {
            Value::Error(text) => assert_eq!(text, "BUSY shard mailbox is full, try again"),
            reply => assert_eq!(reply.items()[0].int(), 1),
        }
    }
    assert_eq!(client.line("PING").text(), "PONG");
    let hits = node.metric("tollgate_limit_hit_total{limit=\"mailbox_batches\"}");
    assert!(hits.is_some_and(|hits| hits > 0.0), "{hits:?}");
}

#[test]
fn connections_beyond_the_bound_are_told_so() {
    let node = Node::start(&["--workers", "2", "--set", "limits.connections=3"]);
    let mut kept: Vec<_> = (0..3).map(|_| node.client()).collect();
    for client in &mut kept {
        assert_eq!(client.line("PING").text(), "PONG");
    }
    let mut refused = node.client();
    assert_eq!(refused.receive().error(), "ERR max number of clients reached");
    assert!(refused.receive_to_end().is_empty());
    kept.pop();
    eventually("a place is free again", || !node.client().line("PING").is_error());
}

#[test]
fn sigterm_answers_what_was_read_and_exits_0() {
    for workers in ["1", "2"] {
        let mut node = Node::start(&["--workers", workers]);
        let mut busy = TcpStream::connect(node.listen()).expect("a connection");
        let mut idle = node.client();
        assert_eq!(idle.line("PING").text(), "PONG");
        let request = encode_command(&["RL.CHECK", "k", "LIMIT", "1000000", "PER", "1h"]).repeat(5_000);
        busy.write_all(&request).expect("sent");
        // Once the first reply is here, the node has read at least a part of the pipeline.
        let mut first = [0; 1];
        busy.read_exact(&mut first).expect("a reply");
        let status = node.stop();
        assert_eq!(status.code(), Some(0));
        let mut rest = first.to_vec();
        // Requests of ours that the node did not read must not cost us replies: no reset, and the last reply is whole.
        busy.read_to_end(&mut rest).expect("an orderly end");
        assert!(rest.ends_with(b"$5\r\nowner\r\n"), "a reply is cut off");
        let replies = rest.windows(5).filter(|window| window == b"owner").count();
        assert!((1..=5_000).contains(&replies), "{replies} replies");
        assert!(idle.receive_to_end().is_empty(), "idle connections are closed");
    }
}

#[test]
fn multi_key_commands_span_shards() {
    let node = Node::start(&["--workers", "4"]);
    let mut client = node.client();
    for i in 0..40 {
        assert_eq!(
            client.line(&format!("RL.CHECK key{i} LIMIT 5 PER 1h")).items()[0].int(),
            1
        );
    }
    let keys: Vec<String> = (0..50).map(|i| format!("key{i}")).collect();
    assert_eq!(client.line(&format!("EXISTS {}", keys.join(" "))).int(), 40);
    assert_eq!(client.line("DBSIZE").int(), 40);
    assert_eq!(client.line(&format!("DEL {}", keys[..20].join(" "))).int(), 20);
    assert_eq!(client.line("DBSIZE").int(), 20);
    assert_eq!(client.line("KEYS key*").items().len(), 20);
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = client.line(&format!("SCAN {cursor} COUNT 3"));
        cursor = reply.items()[0].text().to_owned();
        seen.extend(reply.items()[1].items().iter().map(|key| key.text().to_owned()));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 20);
    // In one pipeline, each command sees what those before it did.
    let commands: Vec<Vec<&str>> = [
        "RL.CHECK a LIMIT 5 PER 1h",
        "FLUSHALL",
        "EXISTS a",
        "RL.CHECK b LIMIT 5 PER 1h",
        "DBSIZE",
    ]
    .iter()
    .map(|line| line.split(' ').collect())
    .collect();
    let replies = client.pipeline(&commands);
    assert_eq!(replies[2].int(), 0);
    assert_eq!(replies[4].int(), 1);
}

/// A policy that never ends, stopped at its budget, and one that counts without a window. Both are the operator's own.
fn own_policies() -> ScratchDir {
    let dir = ScratchDir::new("own");
    let policy = |check: &str| {
        format!(
            "return {{ version = 1, fields = {{ \"level\" }}, burst = \"limit\",\n\
             check = function(limit, now, cost, level)\n{check}\nend,\n\
             full_at = function(limit, level) return 9000000000000000 end }}\n"
        )
    };
    dir.write("loop.lua", &policy("while true do end"));
    dir.write(
        "count.lua",
        &policy("level = (level or 0) + cost\nreturn true, math.max(limit.burst - level, 0), 0, level"),
    );
    dir
}

/// Keys of the upper half of the slots, which the second of two workers has; the first connection is the first worker's.
fn keys_of_the_second_worker() -> impl Iterator<Item = String> {
    (0..)
        .map(|i| format!("key{i}"))
        .filter(|key| tollgate_store::slot_of(key.as_bytes()) >= tollgate_store::SLOTS / 2)
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_slow_batch_does_not_hold_up_the_mailbox() {
    let dir = own_policies();
    let node = Node::start(&["--workers", "2", "--lua", dir.path().to_str().expect("a path")]);
    // Connections are dealt out in turn, so these two are the first worker's, and both want the second one's shard.
    let (mut slow, _second, mut quick) = (node.client(), node.client(), node.client());
    for client in [&mut slow, &mut quick] {
        assert_eq!(client.line("PING").text(), "PONG");
    }
    let pipeline: Vec<Vec<String>> = keys_of_the_second_worker()
        .take(400)
        .map(|key| words(&format!("RL.CHECK {key} LIMIT 1 PER 1m POLICY loop")))
        .collect();
    let key = keys_of_the_second_worker().next().expect("a key");
    let check = format!("RL.CHECK {key} LIMIT 1000000 PER 1h");
    let answered = std::thread::scope(|scope| {
        let looping = scope.spawn(|| slow.pipeline(&pipeline).iter().filter(|reply| reply.is_error()).count());
        let mut answered = 0;
        while !looping.is_finished() {
            assert_eq!(quick.line(&check).items()[0].int(), 1);
            answered += 1;
        }
        assert_eq!(looping.join().expect("the pipeline"), pipeline.len());
        answered
    });
    // The batch takes 400 ms: whoever waits for its end is answered a few times. One slice after the other lets through
    // hundreds.
    assert!(answered > 40, "only {answered} answers while the batch ran");
    let forwarded = node.metric("tollgate_forwarded_commands_total").unwrap_or_default();
    assert!(
        forwarded >= 400.0,
        "{forwarded} commands went to another worker's shard"
    );
}

#[test]
fn batches_of_one_turn_stay_in_order() {
    let dir = own_policies();
    // Several batches of a turn are on their way at once, each too slow for one slice.
    let node = Node::start(&[
        "--workers",
        "2",
        "--lua",
        dir.path().to_str().expect("a path"),
        "--set",
        "limits.batch_commands=7",
    ]);
    let mut client = node.client();
    let keys: Vec<String> = keys_of_the_second_worker().take(2).collect();
    const ROUNDS: i64 = 60;
    let mut commands = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..3 {
            commands.push(words(&format!("RL.CHECK {} LIMIT 7 PER 1m POLICY loop", keys[0])));
        }
        commands.push(words(&format!("RL.CHECK {} LIMIT 1000 PER 24h", keys[1])));
    }
    let replies = client.pipeline(&commands);
    let left: Vec<i64> = replies
        .iter()
        .skip(3)
        .step_by(4)
        .map(|reply| reply.items()[2].int())
        .collect();
    let expected: Vec<i64> = (1..=ROUNDS).map(|round| 1000 - round).collect();
    assert_eq!(left, expected);
}

#[test]
fn slow_and_quick_policies_mixed_answer_in_order() {
    let dir = own_policies();
    for batch_commands in ["1024", "7"] {
        let batches = format!("limits.batch_commands={batch_commands}");
        let node = Node::start(&[
            "--workers",
            "2",
            "--lua",
            dir.path().to_str().expect("a path"),
            "--set",
            &batches,
        ]);
        let clients: Vec<Client> = (0..4).map(|_| node.client()).collect();
        std::thread::scope(|scope| {
            for (number, client) in clients.into_iter().enumerate() {
                scope.spawn(move || mix(client, number));
            }
        });
    }
}

/// Fails unless a reply is the right one.
type Expectation = Box<dyn Fn(&Value)>;

/// Sends checks of built-in, slow and own policies, for keys of both shards, and what is answered by the worker itself, in one
/// pipeline; each answer shows which request it is for.
fn mix(mut client: Client, number: usize) {
    const ROUNDS: i64 = 60;
    let mut commands = Vec::new();
    let mut expected: Vec<Expectation> = Vec::new();
    for round in 1..=ROUNDS {
        for key in 0..4 {
            commands.push(words(&format!("RL.CHECK built{number}.{key} LIMIT 1000 PER 24h")));
            expected.push(Box::new(move |reply| assert_eq!(reply.items()[2].int(), 1000 - round)));
            commands.push(words(&format!(
                "RL.CHECK own{number}.{key} LIMIT 500 PER 24h POLICY count"
            )));
            expected.push(Box::new(move |reply| assert_eq!(reply.items()[2].int(), 500 - round)));
        }
        // Several, so that a batch needs more than the slice in which it is set aside and the next.
        for key in (0..4).filter(|_| round % 3 == 0) {
            commands.push(words(&format!(
                "RL.CHECK slow{number}.{key} LIMIT 7 PER 1m POLICY loop"
            )));
            expected.push(Box::new(|reply| assert!(reply.error().contains("budget"), "{reply:?}")));
        }
        commands.push(words(&format!("ECHO {number}.{round}")));
        expected.push(Box::new(move |reply| {
            assert_eq!(reply.text(), format!("{number}.{round}"))
        }));
    }
    let replies = client.pipeline(&commands);
    for (reply, is_right) in replies.iter().zip(&expected) {
        is_right(reply);
    }
}
