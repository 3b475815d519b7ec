//! Buckets as Redis keys, over a socket and several workers.

use std::collections::BTreeSet;
use tollgate_suite::{Client, Node, Value};

fn texts(reply: &Value) -> BTreeSet<String> {
    reply.items().iter().map(|item| item.text().to_owned()).collect()
}

/// A node with two workers and `keys` buckets, `key:0` and on, in database 0.
fn filled(keys: usize) -> (Node, Client) {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    let checks: Vec<Vec<String>> = (0..keys)
        .map(|number| {
            format!("RL.CHECK key:{number} LIMIT 10 PER 1h")
                .split(' ')
                .map(str::to_owned)
                .collect()
        })
        .collect();
    for reply in client.pipeline(&checks) {
        assert_eq!(reply.items()[0].int(), 1);
    }
    (node, client)
}

#[test]
fn a_bucket_is_a_key() {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    assert_eq!(client.line("TYPE k").text(), "none");
    client.line("RL.CHECK k LIMIT 10 PER 10s");
    assert_eq!(client.line("TYPE k"), Value::Simple("bucket".to_owned()));
    assert_eq!(client.line("EXISTS k k nothing").int(), 2);
    let left = client.line("PTTL k").int();
    assert!((1..=1000).contains(&left), "{left}");
    assert_eq!(client.line("OBJECT ENCODING k").text(), "token_bucket");
    assert!(client.line("MEMORY USAGE k").int() > 0);
    assert!(client.line("EXPIRE k 0").error().contains("cannot expire sooner"));
    assert_eq!(client.line("EXPIRE k 100").int(), 1);
    assert!((100_000..100_100).contains(&client.line("PTTL k").int()));
    assert_eq!(client.line("PERSIST k").int(), 1);
    assert_eq!(client.line("DEL k").int(), 1);
    assert_eq!(client.line("EXISTS k").int(), 0);
    // Binary keys, empty ones included.
    let key: &[u8] = b"\x00\xff\r\n";
    client.command(&[&b"CL.THROTTLE"[..], key, b"5", b"1", b"60"]);
    client.command(&["CL.THROTTLE", "", "5", "1", "60"]);
    assert_eq!(client.command(&[&b"EXISTS"[..], key, b""]).int(), 2);
    let keys = client.line("KEYS *");
    assert_eq!(keys.items().len(), 2);
    assert!(keys.items().contains(&Value::Bulk(key.to_vec())));
}

#[test]
fn patterns_are_bounded() {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    // Long keys, and a pattern that nearly matches from every byte on.
    let key = "a".repeat(60_000);
    for end in 0..40 {
        client.line(&format!("RL.CHECK {key}{end} LIMIT 10 PER 1h"));
    }
    let pattern = format!("*{}b", "a".repeat(500));
    assert!(client.line(&format!("KEYS {pattern}")).items().is_empty());
    assert_eq!(client.line(&format!("KEYS {}1*", "*a".repeat(200))).items().len(), 11);
    let refused = "ERR pattern is longer than 512 bytes";
    let pattern = "a".repeat(513);
    for command in ["KEYS", "SCAN 0 MATCH", "CONFIG GET", "COMMAND LIST FILTERBY PATTERN"] {
        assert_eq!(
            client.line(&format!("{command} {pattern}")).error(),
            refused,
            "{command}"
        );
    }
    let half = "a".repeat(257);
    assert_eq!(client.line(&format!("CONFIG GET {half} {half}")).error(), refused);
    let hits = node.http("GET", "/metrics", "").body;
    assert!(
        hits.contains("tollgate_limit_hit_total{limit=\"pattern_bytes\"} 5"),
        "{hits}"
    );
}

#[test]
fn full_buckets_are_gone() {
    let node = Node::start(&[]);
    let mut client = node.client();
    client.line("RL.CHECK k LIMIT 10 PER 500ms");
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(client.line("EXISTS k").int(), 0);
    assert_eq!(client.line("PTTL k").int(), -2);
    assert!(client.line("KEYS *").items().is_empty());
}

#[test]
fn commands_on_many_keys_reach_all_workers() {
    let (_node, mut client) = filled(100);
    assert_eq!(client.line("DBSIZE").int(), 100);
    let names: Vec<String> = (0..110).map(|number| format!("key:{number}")).collect();
    let with = |command: &str| [&[command.to_owned()], &names[..]].concat();
    assert_eq!(client.command(&with("EXISTS")).int(), 100);
    assert_eq!(client.command(&with("TOUCH")).int(), 100);
    assert_eq!(client.command(&with("DEL")).int(), 100);
    assert_eq!(client.command(&with("UNLINK")).int(), 0);
    assert_eq!(client.line("DBSIZE").int(), 0);
}

#[test]
fn scan_and_keys_find_everything() {
    let (_node, mut client) = filled(1000);
    let expected: BTreeSet<String> = (0..1000).map(|number| format!("key:{number}")).collect();
    assert_eq!(texts(&client.line("KEYS *")), expected);
    assert_eq!(client.line("KEYS key:?5").items().len(), 9);
    for count in ["1", "10", "333", "100000"] {
        let mut found = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = client.line(&format!("SCAN {cursor} COUNT {count}"));
            found.append(&mut texts(&reply.items()[1]));
            cursor = reply.items()[0].text().to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, expected, "COUNT {count}");
    }
    let reply = client.line("SCAN 0 MATCH key:99* TYPE bucket COUNT 10000");
    assert_eq!(texts(&reply.items()[1]).len(), 11);
    assert!(client.line("RANDOMKEY").text().starts_with("key:"));
}

#[test]
fn flushes_reach_all_workers() {
    let (_node, mut client) = filled(500);
    client.line("SELECT 1");
    client.line("RL.CHECK other LIMIT 10 PER 1h");
    client.line("SELECT 0");
    assert_eq!(client.line("FLUSHDB").text(), "OK");
    assert_eq!(client.line("DBSIZE").int(), 0);
    client.line("SELECT 1");
    assert_eq!(client.line("DBSIZE").int(), 1);
    assert_eq!(client.line("FLUSHALL SYNC").text(), "OK");
    assert_eq!(client.line("DBSIZE").int(), 0);
    let check = client.line("RL.CHECK other LIMIT 10 PER 1h PEEK");
    assert_eq!(check.items()[2].int(), 10);
}

#[test]
fn replies_keep_their_order_around_commands_over_all_keys() {
    let (_node, mut client) = filled(20);
    let lines = [
        "ECHO 1",
        "DBSIZE",
        "RL.CHECK key:1 LIMIT 10 PER 1h PEEK",
        "KEYS key:1",
        "ECHO 2",
        "DEL key:1 key:2",
        "DBSIZE",
        "ECHO 3",
    ];
    let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    let replies = client.pipeline(&commands);
    assert_eq!(replies[0].text(), "1");
    assert_eq!(replies[1].int(), 20);
    assert_eq!(replies[2].items().len(), 6);
    assert_eq!(replies[3].items()[0].text(), "key:1");
    assert_eq!(replies[4].text(), "2");
    assert_eq!(replies[5].int(), 2);
    assert_eq!(replies[6].int(), 18);
    assert_eq!(replies[7].text(), "3");
}
