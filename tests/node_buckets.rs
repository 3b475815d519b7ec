//! What a bucket is to the commands on it, over time: full, pinned, of another policy, asked for by the thousand.

use std::time::Duration;
use tollgate_suite::{Node, ScratchDir, run_tollgate};

#[test]
fn a_full_bucket_is_as_if_it_were_not_there() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    for policy in ["leaky_bucket", "sliding_log"] {
        let first = client.line(&format!("RL.CHECK {policy} LIMIT 1000 PER 1s"));
        assert_eq!(first.items()[0].int(), 1);
        // It is full again after a millisecond.
        std::thread::sleep(Duration::from_millis(20));
        let other = client.line(&format!("RL.CHECK {policy} LIMIT 10 PER 1h POLICY {policy}"));
        assert_eq!(other.items()[0].int(), 1, "{policy}");
    }
    assert_eq!(client.line("RL.CHECK live LIMIT 10 PER 1h").items()[0].int(), 1);
    for policy in ["leaky_bucket", "sliding_log"] {
        let refused = client.line(&format!("RL.CHECK live LIMIT 10 PER 1h POLICY {policy}"));
        assert!(refused.error().starts_with("WRONGTYPE "), "{refused:?}");
    }
}

#[test]
fn a_full_bucket_of_another_policy_does_not_confuse_its_neighbours() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    // All in one slot, so that the removal of one moves others.
    let keys: Vec<String> = (0..40).map(|i| format!("{{t}}{i}")).collect();
    let check = |key: &str, limit: &str, per: &str, policy: &str| -> Vec<String> {
        ["RL.CHECK", key, "LIMIT", limit, "PER", per, "POLICY", policy]
            .map(String::from)
            .to_vec()
    };
    for round in 0..10 {
        let filled: Vec<_> = keys
            .iter()
            .map(|key| check(key, "1000", "1h", "token_bucket"))
            .collect();
        client.pipeline(&filled);
        client.line("RL.RESET {t}0");
        client.command(&check("{t}0", "1000", "1s", "leaky_bucket"));
        std::thread::sleep(Duration::from_millis(20));
        // The first is full by now, and gives way to a bucket of another policy.
        let replies = client.pipeline(&filled);
        assert_eq!(replies[0].items()[2].int(), 999);
        for (number, reply) in replies.iter().enumerate().skip(1) {
            assert_eq!(
                reply.items()[2].int(),
                1000 - 2 * (round + 1),
                "key {number}, round {round}"
            );
        }
    }
}

#[test]
fn a_pin_ends_when_its_time_has_come() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    assert_eq!(client.line("RL.CHECK p LIMIT 10 PER 10s").items()[0].int(), 1);
    assert_eq!(client.line("EXPIRE p 2").int(), 1);
    std::thread::sleep(Duration::from_millis(1_900));
    // This check makes it full in a second, after the time asked for.
    assert_eq!(client.line("RL.CHECK p LIMIT 10 PER 10s").items()[0].int(), 1);
    let left_ms = client.line("PTTL p").int();
    assert!((1..=1_000).contains(&left_ms), "{left_ms}");
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(client.line("EXISTS p").int(), 0);
    assert_eq!(client.line("RL.RESET p").int(), 0);
}

#[test]
fn thousands_of_keys_in_one_command() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers]);
        let mut client = node.client();
        let keys: Vec<String> = (0..3_000).map(|i| format!("k{i}")).collect();
        let checks: Vec<Vec<&str>> = keys
            .iter()
            .map(|key| vec!["RL.CHECK", key, "LIMIT", "5", "PER", "1h"])
            .collect();
        assert!(client.pipeline(&checks).iter().all(|reply| reply.items()[0].int() == 1));
        let all = format!("{} nosuch", keys.join(" "));
        assert_eq!(client.line(&format!("EXISTS {all}")).int(), 3_000);
        assert_eq!(client.line(&format!("DEL {all}")).int(), 3_000);
        assert_eq!(client.line("DBSIZE").int(), 0);
    }
}

#[test]
fn http_on_the_redis_port_is_cut_off() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    assert_eq!(client.line("RL.CHECK k LIMIT 5 PER 1h").items()[0].int(), 1);
    let mut browser = node.client();
    browser.send_raw(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nFLUSHALL\r\n");
    assert!(browser.receive_to_end().is_empty());
    assert_eq!(client.line("EXISTS k").int(), 1);
}

#[test]
fn a_rule_that_can_never_work_stops_the_start() {
    let dir = ScratchDir::new("rule");
    let good = "[[rules]]\nid = \"good\"\nlimit = 1\nwindow = \"1m\"\n\n";
    for (rest, what) in [
        ("policy = \"sliding_log\"", "at most 10000"),
        ("policy = \"none\"", "policy 'none' does not exist\n"),
        (
            "policy = \"slidinglog\"",
            "policy 'slidinglog' does not exist; did you mean 'sliding_log'?\n",
        ),
        (
            "policy = \"fixed_window\"\nburst = 3",
            "burst is not taken by policy 'fixed_window'",
        ),
    ] {
        let text = format!("{good}[[rules]]\nid = \"big\"\nlimit = 50000\nwindow = \"1m\"\n{rest}\n");
        let config = dir.write("c.toml", &text);
        let config = config.to_str().expect("a path");
        let addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--peer", "off"];
        let failure = run_tollgate(&[&["serve", "--config", config][..], &addresses].concat());
        assert_eq!(failure.status.code(), Some(1));
        let begins = format!("tollgate: {config}:6: rule 'big': ");
        assert!(
            failure.log.starts_with(&begins) && failure.log.contains(what),
            "{}",
            failure.log
        );
    }
}

#[test]
fn the_error_of_a_check_names_what_is_wrong() {
    let node = Node::start(&[]);
    let mut client = node.client();
    for keyword in ["LIMIT", "per", "BURST", "COST", "POLICY", "ON_FAILURE", "RULE"] {
        let needed = format!("ERR syntax error: {} needs a value", keyword.to_uppercase());
        assert_eq!(
            client.line(&format!("RL.CHECK k LIMIT 5 PER 1m {keyword}")).error(),
            needed
        );
    }
    // A month, or a minute?
    for unit in ["M", "MS", "S", "H", "D"] {
        assert_eq!(
            client.line(&format!("RL.CHECK k LIMIT 5 PER 1{unit}")).error(),
            "ERR PER must be a whole number and a unit in small letters: 250ms, 10s, 1m, 1h or 30d"
        );
    }
    assert_eq!(client.line("DBSIZE").int(), 0);
}
