//! Publish and subscribe between connections of one worker and of several.

use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value};

fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Int(number) => number.to_string(),
        value if value.is_null() => "null".to_owned(),
        value => value.text().to_owned(),
    };
    value.items().iter().map(text).collect()
}

#[test]
fn messages_reach_who_listens_in_order() {
    for node in Node::of_each_size(&[]) {
        let mut publisher = node.client();
        let mut listeners: Vec<Client> = (0..6).map(|_| node.client()).collect();
        for listener in &mut listeners {
            assert_eq!(
                texts(&listener.line("SUBSCRIBE news other")),
                ["subscribe", "news", "1"]
            );
            assert_eq!(texts(&listener.receive()), ["subscribe", "other", "2"]);
            assert_eq!(texts(&listener.line("PSUBSCRIBE n?ws*")), ["psubscribe", "n?ws*", "3"]);
            assert_eq!(texts(&listener.line("SSUBSCRIBE news")), ["ssubscribe", "news", "1"]);
        }
        assert_eq!(texts(&publisher.line("PUBSUB CHANNELS n*")), ["news"]);
        assert_eq!(
            texts(&publisher.line("PUBSUB NUMSUB news nothing")),
            ["news", "6", "nothing", "0"]
        );
        assert_eq!(publisher.line("PUBSUB NUMPAT").int(), 1);
        assert_eq!(texts(&publisher.line("PUBSUB SHARDNUMSUB news")), ["news", "6"]);
        for number in 0..50 {
            assert_eq!(publisher.line(&format!("PUBLISH news {number}")).int(), 12);
        }
        assert_eq!(publisher.line("SPUBLISH news shard").int(), 6);
        assert_eq!(publisher.line("PUBLISH nothing x").int(), 0);
        for listener in &mut listeners {
            for number in 0..50 {
                assert_eq!(texts(&listener.receive()), ["message", "news", &number.to_string()]);
                assert_eq!(
                    texts(&listener.receive()),
                    ["pmessage", "n?ws*", "news", &number.to_string()]
                );
            }
            assert_eq!(texts(&listener.receive()), ["smessage", "news", "shard"]);
            assert_eq!(texts(&listener.line("PING")), ["pong", ""]);
            let refused = listener.line("GET k");
            assert_eq!(
                refused.error(),
                "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            );
        }
        let mut listener = listeners.remove(0);
        assert_eq!(texts(&listener.line("UNSUBSCRIBE")), ["unsubscribe", "news", "2"]);
        assert_eq!(texts(&listener.receive()), ["unsubscribe", "other", "1"]);
        assert_eq!(
            texts(&listener.line("PUNSUBSCRIBE n?ws*")),
            ["punsubscribe", "n?ws*", "0"]
        );
        assert_eq!(texts(&listener.line("SUNSUBSCRIBE")), ["sunsubscribe", "news", "0"]);
        assert_eq!(texts(&listener.line("UNSUBSCRIBE")), ["unsubscribe", "null", "0"]);
        assert!(listener.line("GET k").is_null());
        // Those that are gone are forgotten.
        listeners.clear();
        let started = Instant::now();
        while publisher.line("PUBLISH news x").int() > 0 {
            assert!(started.elapsed() < Duration::from_secs(20));
        }
        assert_eq!(publisher.line("PUBSUB CHANNELS").items().len(), 0);
    }
}

#[test]
fn a_connection_of_resp3_listens_and_runs_commands() {
    for node in Node::of_each_size(&[]) {
        let (mut both, mut publisher) = (node.client(), node.client());
        both.hello3();
        both.line("SUBSCRIBE a");
        assert_eq!(both.line("SET k v").text(), "OK");
        publisher.line("PUBLISH a hello");
        assert_eq!(texts(&both.receive()), ["message", "a", "hello"]);
        assert_eq!(both.line("GET k").text(), "v");
        both.line("RESET");
        assert_eq!(publisher.line("PUBLISH a hello").int(), 0);
    }
}

#[test]
fn scripts_and_transactions_publish_once() {
    for node in Node::of_each_size(&[]) {
        let (mut listener, mut client) = (node.client(), node.client());
        listener.line("SUBSCRIBE c");
        // Starts again for each key.
        let script = "redis.call('PUBLISH', 'c', 'script') for i = 1, 5 do redis.call('INCR', 'k' .. i) end return redis.call('PUBLISH', 'c', 'end')";
        assert_eq!(client.command(&["EVAL", script, "0"]).int(), 1);
        client.line("MULTI");
        client.line("PUBLISH c exec");
        client.command(&["EVAL", script, "0"]);
        assert_eq!(client.line("EXEC").items()[0].int(), 1);
        for expected in ["script", "end", "exec", "script", "end"] {
            assert_eq!(texts(&listener.receive()), ["message", "c", expected]);
        }
        assert!(listener.is_silent_for(Duration::from_millis(100)));
    }
}

#[test]
fn a_listener_that_does_not_read_is_given_up() {
    let node = Node::start(&["--workers", "2", "--set", "limits.output_bytes=65536"]);
    let (mut stuck, mut publisher, mut other) = (node.client(), node.client(), node.client());
    stuck.line("SUBSCRIBE c");
    other.line("SUBSCRIBE c");
    let message = "x".repeat(10_000);
    let started = Instant::now();
    // Until the system's buffers are full, too.
    while publisher.command(&["PUBLISH", "c", &message]).int() > 1 {
        assert_eq!(other.receive().items()[2].text().len(), 10_000);
        assert!(started.elapsed() < Duration::from_secs(30), "it is still there");
    }
    assert!(node.metric("tollgate_limit_hit_total{limit=\"output_bytes\"}") >= Some(1.0));
}
