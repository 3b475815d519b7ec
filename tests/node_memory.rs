//! Memory: bounded, shed or refused by setting, given back when buckets expire.

use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node};

/// Checks `count` new keys once each.
fn fill(client: &mut Client, prefix: &str, count: usize, per: &str) -> usize {
    let mut errors = 0;
    for chunk in (0..count).collect::<Vec<_>>().chunks(2_000) {
        let commands: Vec<Vec<String>> = chunk
            .iter()
            .map(|i| {
                ["RL.CHECK", &format!("{prefix}{i:012}"), "LIMIT", "1000", "PER", per]
                    .map(str::to_owned)
                    .to_vec()
            })
            .collect();
        for reply in client.pipeline(&commands) {
            if reply.is_error() {
                assert!(reply.error().starts_with("OOM "), "{reply:?}");
                errors += 1;
            }
        }
    }
    errors
}

/// Bytes that the store says it has allocated.
fn stored_bytes(node: &Node) -> f64 {
    node.metric("tollgate_stored_bytes").expect("a metric")
}

#[test]
fn at_the_bound_buckets_are_shed_or_new_keys_refused() {
    const BOUND: usize = 4 << 20;
    for (setting, refuses) in [("shed", false), ("refuse", true)] {
        let bound = format!("storage.max_memory_bytes={BOUND}");
        let node = Node::start(&[
            "--workers",
            "1",
            "--set",
            &bound,
            "--set",
            &format!("storage.when_full={setting}"),
        ]);
        let mut client = node.client();
        // An empty bucket that fills slowly is dear: it must outlive those that have lost one token of a thousand.
        let dear = client.line("RL.CHECK dear LIMIT 1 PER 24h");
        assert_eq!(dear.items()[0].int(), 1);
        let errors = fill(&mut client, "k", 200_000, "1h");
        assert_eq!(errors > 0, refuses, "{errors} errors with {setting}");
        std::thread::sleep(Duration::from_millis(300));
        let stored_bytes = stored_bytes(&node);
        assert!(
            stored_bytes <= BOUND as f64 * 1.1,
            "{stored_bytes} bytes with {setting}"
        );
        assert_eq!(
            client.line("RL.CHECK dear LIMIT 1 PER 24h").items()[0].int(),
            0,
            "{setting}"
        );
        // What is there can still be checked.
        assert!(!client.line("RL.CHECK dear LIMIT 1 PER 24h COST 0").is_error());
    }
}

#[test]
fn expired_buckets_are_dropped_and_their_memory_given_back() {
    let node = Node::start(&["--workers", "2", "--set", "storage.sweep_interval_ms=100"]);
    let mut client = node.client();
    fill(&mut client, "short", 300_000, "1s");
    let full = stored_bytes(&node).max(1.0);
    let started = Instant::now();
    loop {
        let buckets = client.line("DBSIZE").int();
        let bytes = stored_bytes(&node);
        if buckets == 0 && bytes < full / 5.0 {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "{buckets} buckets, {bytes} of {full} bytes left"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn logs_that_grow_are_bounded_too() {
    const BOUND: usize = 8 << 20;
    let bound = format!("storage.max_memory_bytes={BOUND}");
    let node = Node::start(&["--workers", "1", "--set", &bound]);
    let mut client = node.client();
    for cost in ["1", "9000"] {
        let check = |i| format!("RL.CHECK log{i} LIMIT 10000 PER 1h COST {cost} POLICY sliding_log");
        let commands: Vec<Vec<String>> = (0..2_000)
            .map(|i: u32| check(i).split(' ').map(str::to_owned).collect())
            .collect();
        for reply in client.pipeline(&commands) {
            assert!(!reply.is_error(), "{reply:?}");
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let stored_bytes = stored_bytes(&node);
    assert!(stored_bytes <= BOUND as f64 * 1.25, "{stored_bytes} bytes");
}
