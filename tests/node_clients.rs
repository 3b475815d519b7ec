//! CLIENT PAUSE, UNBLOCK, REPLY and KILL, WAIT, MONITOR and SLOWLOG, on one worker and on several.

use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, RedisServer, Value, encode_command, skip_without, until_blocked};

fn listed(client: &mut Client, id: i64) -> String {
    client
        .line(&format!("CLIENT LIST ID {id}"))
        .text()
        .trim_end()
        .to_owned()
}

#[test]
fn a_write_pause_lets_reads_through_and_what_waits_is_answered_in_order() {
    for node in Node::of_each_size(&[]) {
        let (mut admin, mut client) = (node.client(), node.client());
        let id = client.line("CLIENT ID").int();
        client.line("SET a 1");
        assert_eq!(admin.line("CLIENT PAUSE 600000 WRITE").text(), "OK");
        assert_eq!(client.line("GET a").text(), "1");
        assert_eq!(client.command(&["EVAL_RO", "return 1", "0"]).int(), 1);
        // What came before is answered before the wait.
        client.send_raw(b"GET a\r\nINCR a\r\nRL.CHECK k LIMIT 5 PER 1h\r\nDEL x y z\r\nGET a\r\n");
        assert_eq!(client.receive().text(), "1");
        until_blocked(&mut admin, 1);
        assert!(client.is_silent_for(Duration::from_millis(30)));
        let line = listed(&mut admin, id);
        assert!(line.contains(" flags=b ") && line.contains(" cmd=incr "), "{line}");
        // It does not wait for anything that CLIENT UNBLOCK could end.
        assert_eq!(admin.line(&format!("CLIENT UNBLOCK {id}")).int(), 0);
        assert_eq!(admin.line("CLIENT UNPAUSE").text(), "OK");
        assert_eq!(client.receive().int(), 2);
        assert_eq!(client.receive().items()[0].int(), 1);
        assert_eq!(client.receive().int(), 0);
        assert_eq!(client.receive().text(), "2");
        until_blocked(&mut admin, 0);
        assert_eq!(client.line("INCR a").int(), 3);
    }
}

#[test]
fn a_pause_ends_by_itself_and_holds_transactions_that_write() {
    for node in Node::of_each_size(&[]) {
        let (mut admin, mut client) = (node.client(), node.client());
        client.line("MULTI");
        client.line("SET a 1");
        let started = Instant::now();
        admin.line("CLIENT PAUSE 200 WRITE");
        // A shorter one changes nothing.
        admin.line("CLIENT PAUSE 1 WRITE");
        assert_eq!(client.line("EXEC").items()[0].text(), "OK");
        assert!(started.elapsed() >= Duration::from_millis(200));
        for line in ["PUBLISH c m", "EVAL return_1 0", "SET a b"] {
            let started = Instant::now();
            admin.line("CLIENT PAUSE 100 WRITE");
            client.line(line);
            assert!(started.elapsed() >= Duration::from_millis(100), "{line}");
        }
        // With ALL, CLIENT UNPAUSE waits, too.
        let started = Instant::now();
        admin.line("CLIENT PAUSE 150");
        assert_eq!(client.line("PING").text(), "PONG");
        assert!(started.elapsed() >= Duration::from_millis(150));
    }
}

#[test]
fn a_paused_client_can_be_killed_and_its_command_is_not_run() {
    for node in Node::of_each_size(&[]) {
        let (mut admin, mut client) = (node.client(), node.client());
        let id = client.line("CLIENT ID").int();
        admin.line("CLIENT PAUSE 600000 WRITE");
        client.line("GET a");
        client.send(&["SET", "a", "1"]);
        until_blocked(&mut admin, 1);
        assert_eq!(admin.line(&format!("CLIENT KILL ID {id}")).int(), 1);
        assert!(client.receive_to_end().is_empty());
        until_blocked(&mut admin, 0);
        admin.line("CLIENT UNPAUSE");
        assert!(admin.line("GET a").is_null());
    }
}

#[test]
fn unblock_ends_a_wait_with_nothing_or_with_an_error() {
    for node in Node::of_each_size(&[]) {
        let (mut admin, mut client) = (node.client(), node.client());
        let id = client.line("CLIENT ID").int();
        assert_eq!(admin.line(&format!("CLIENT UNBLOCK {id}")).int(), 0);
        for (waits, reason, error) in [
            (&["BLPOP", "q", "0"][..], "", false),
            (&["BLPOP", "q", "0"], " TIMEOUT", false),
            (&["BRPOP", "q", "r", "0"], " error", true),
            (&["WAIT", "1", "0"], " TIMEOUT", false),
            (&["WAIT", "3", "600000"], " ERROR", true),
        ] {
            client.send(waits);
            until_blocked(&mut admin, 1);
            assert!(listed(&mut admin, id).contains(" flags=b "));
            assert_eq!(admin.line(&format!("CLIENT UNBLOCK {id}{reason}")).int(), 1);
            let reply = client.receive();
            match (error, waits[0]) {
                (true, _) => assert_eq!(reply.error(), "UNBLOCKED client unblocked via CLIENT UNBLOCK"),
                (false, "WAIT") => assert_eq!(reply.int(), 0),
                (false, _) => assert!(reply.is_null()),
            }
            until_blocked(&mut admin, 0);
        }
        assert_eq!(client.line("PING").text(), "PONG");
    }
}

#[test]
fn wait_blocks_its_client_only() {
    for node in Node::of_each_size(&[]) {
        let (mut admin, mut client) = (node.client(), node.client());
        assert_eq!(client.line("WAIT 0 0").int(), 0);
        let started = Instant::now();
        assert_eq!(client.line("WAIT 1 50").int(), 0);
        assert!(started.elapsed() >= Duration::from_millis(50));
        assert_eq!(client.line("WAITAOF 0 1 50").items().len(), 2);
        assert!(started.elapsed() >= Duration::from_millis(100));
        client.send_raw(b"INCR n\r\nWAIT 1 0\r\nINCR n\r\n");
        assert_eq!(client.receive().int(), 1);
        until_blocked(&mut admin, 1);
        assert_eq!(admin.line("GET n").text(), "1");
        let id = admin.line("CLIENT LIST").text().lines().find_map(|line| {
            let id = line.strip_prefix("id=")?.split(' ').next()?.to_owned();
            line.contains(" flags=b ").then_some(id)
        });
        let id = id.expect("it is listed");
        // A client that is killed does not run what it sent behind.
        assert_eq!(admin.line(&format!("CLIENT KILL ID {id}")).int(), 1);
        client.receive_to_end();
        until_blocked(&mut admin, 0);
        assert_eq!(admin.line("GET n").text(), "1");
        // In a transaction and in a script nothing waits.
        admin.line("MULTI");
        admin.line("WAIT 1 0");
        assert_eq!(admin.line("EXEC").items()[0].int(), 0);
        assert_eq!(
            admin.command(&["EVAL", "return redis.call('WAIT', 1, 0)", "0"]).int(),
            0
        );
    }
}

#[test]
fn replies_that_are_not_wanted_are_left_out() {
    for node in Node::of_each_size(&[]) {
        let mut client = node.client();
        let pipeline = [
            "SET a 1",
            "CLIENT REPLY OFF",
            "INCR a",
            "INCR b",
            "RL.CHECK k LIMIT 5 PER 1h",
            "GET c",
            "nothing",
            "PING",
            "CLIENT REPLY ON",
            "GET a",
            "CLIENT REPLY SKIP",
            "GET b",
            "GET b",
            "CLIENT REPLY OFF",
            "SUBSCRIBE s",
            "UNSUBSCRIBE s",
            "BLPOP none 0.01",
            "MULTI",
            "INCR a",
            "EXEC",
            "RESET",
            "CLIENT REPLY SKIP",
            "CLIENT REPLY ON",
            "GET a",
        ];
        let requests: Vec<u8> = pipeline
            .iter()
            .flat_map(|line| encode_command(&line.split(' ').collect::<Vec<_>>()))
            .collect();
        client.send_raw(&requests);
        assert_eq!(client.receive().text(), "OK");
        assert_eq!(client.receive().text(), "OK", "of CLIENT REPLY ON");
        assert_eq!(client.receive().text(), "2");
        assert_eq!(client.receive().text(), "1", "the second, as the first was skipped");
        assert_eq!(client.receive().items()[0].text(), "subscribe");
        assert_eq!(client.receive().items()[0].text(), "unsubscribe");
        assert_eq!(client.receive().text(), "RESET");
        assert_eq!(client.receive().text(), "OK");
        assert_eq!(client.receive().text(), "3");
        // The same, one at a time.
        client.send(&["CLIENT", "REPLY", "OFF"]);
        for _ in 0..3 {
            client.send(&["INCR", "a"]);
            assert!(client.is_silent_for(Duration::from_millis(10)));
        }
        assert_eq!(client.line("CLIENT REPLY ON").text(), "OK");
        assert_eq!(client.line("GET a").text(), "6");
    }
}

#[test]
fn clients_are_told_apart_by_type() {
    for node in Node::of_each_size(&[]) {
        let (mut admin, mut listener, mut queuing) = (node.client(), node.client(), node.client());
        let id = listener.line("CLIENT ID").int();
        for line in ["SUBSCRIBE a", "SUBSCRIBE b", "PSUBSCRIBE c*"] {
            listener.line(line);
        }
        let queuing_id = queuing.line("CLIENT ID").int();
        for line in ["MULTI", "PING", "PING"] {
            queuing.line(line);
        }
        let line = listed(&mut admin, id);
        assert!(line.contains(" flags=P db=0 sub=2 psub=1 ssub=0 multi=-1 "), "{line}");
        let line = listed(&mut admin, queuing_id);
        assert!(line.contains(" flags=x ") && line.contains(" multi=2 "), "{line}");
        assert_eq!(admin.line("CLIENT LIST TYPE pubsub").text().lines().count(), 1);
        assert_eq!(admin.line("CLIENT LIST TYPE normal").text().lines().count(), 2);
        assert_eq!(admin.line("CLIENT KILL TYPE pubsub").int(), 1);
        listener.receive_to_end();
    }
}

/// The arguments in a line of MONITOR, with what is before the time left out.
fn shown(client: &mut Client) -> String {
    let line = client.receive();
    let Value::Simple(line) = &line else { panic!("{line:?}") };
    line.split_once(" [").expect("a source").1.to_owned()
}

#[test]
fn monitors_see_the_commands_of_all_workers() {
    for node in Node::of_each_size(&[]) {
        let mut monitors: Vec<Client> = (0..3).map(|_| node.client()).collect();
        for monitor in &mut monitors {
            assert_eq!(monitor.line("MONITOR").text(), "OK");
        }
        let mut clients: Vec<Client> = (0..3).map(|_| node.client()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.line(&format!("SET key:{number} a"));
            for monitor in &mut monitors {
                let line = shown(monitor);
                assert!(line.starts_with("0 127.0.0.1:"), "{line}");
                assert!(line.ends_with(&format!("] \"SET\" \"key:{number}\" \"a\"")), "{line}");
            }
        }
        let [first, ..] = &mut clients[..] else {
            unreachable!("there are three")
        };
        for monitor in &mut monitors[1..] {
            assert_eq!(monitor.line("RESET").text(), "RESET");
        }
        for monitor in &mut monitors[1..] {
            assert_eq!(monitor.line("GET key:0").text(), "a");
        }
        // What the others asked for after RESET is shown to the first.
        for _ in 0..2 {
            assert!(shown(&mut monitors[0]).ends_with("] \"GET\" \"key:0\""));
        }
        first.line("SELECT 3");
        first.command(&["EVAL", "redis.call('SELECT', 2) return redis.call('GET', 'x')", "0"]);
        first.line("AUTH secret");
        first.line("CONFIG GET port");
        first.line("MULTI");
        first.line("GET x");
        first.line("EXEC");
        for expected in [
            "3 CLIENT] \"SELECT\" \"3\"",
            "3 CLIENT] \"EVAL\" \"redis.call('SELECT', 2) return redis.call('GET', 'x')\" \"0\"",
            "3 lua] \"SELECT\" \"2\"",
            "2 lua] \"GET\" \"x\"",
            "3 CLIENT] \"AUTH\" \"(redacted)\"",
            "3 CLIENT] \"MULTI\"",
            "3 CLIENT] \"GET\" \"x\"",
            "3 CLIENT] \"EXEC\"",
        ] {
            let line = shown(&mut monitors[0]);
            let line = match line.split_once(" 127.0.0.1:") {
                Some((db, rest)) => format!("{db} CLIENT]{}", rest.split_once(']').expect("an address").1),
                None => line,
            };
            assert_eq!(line, expected);
        }
        assert_eq!(
            monitors[0].line("GET x").error(),
            "ERR Replica can't interact with the keyspace"
        );
        assert_eq!(monitors[0].line("QUIT").text(), "OK");
        monitors[0].receive_to_end();
        assert_eq!(first.line("PING").text(), "PONG");
    }
}

#[test]
fn a_monitor_that_does_not_read_is_disconnected_and_counted() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers, "--set", "limits.output_bytes=65536"]);
        let mut monitor = node.client();
        assert_eq!(monitor.line("MONITOR").text(), "OK");
        let (mut client, mut admin) = (node.client(), node.client());
        // A connection is listed from its first answer on, for sure.
        assert_eq!(client.line("PING").text(), "PONG");
        let text = "x".repeat(60_000);
        let started = Instant::now();
        while admin.line("CLIENT LIST").text().lines().count() > 2 {
            assert!(started.elapsed() < Duration::from_secs(30), "it is still there");
            client.command(&["ECHO", &text]);
        }
        let hits = node.metric("tollgate_limit_hit_total{limit=\"output_bytes\"}");
        assert!(hits.is_some_and(|hits| hits >= 1.0), "{hits:?}");
        assert_eq!(client.line("PING").text(), "PONG");
    }
}

#[test]
fn slow_commands_are_noted_on_every_worker() {
    for node in Node::of_each_size(&[]) {
        let mut client = node.client();
        client.line("CLIENT SETNAME me");
        assert_eq!(client.line("SLOWLOG LEN").int(), 0);
        assert_eq!(client.line("CONFIG SET slowlog-log-slower-than 0").text(), "OK");
        for number in 0..6 {
            client.line(&format!("SET key:{number} {}", "v".repeat(200)));
        }
        client.line("CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 5");
        client.line("SET after 1");
        let log = client.line("SLOWLOG GET -1");
        assert_eq!((log.items().len(), client.line("SLOWLOG LEN").int()), (5, 5));
        for (entry, number) in log.items().iter().zip((1..=5).rev()) {
            let fields = entry.items();
            assert_eq!(fields[3].items()[1].text(), format!("key:{number}"));
            assert!(fields[3].items()[2].text().ends_with("v... (72 more bytes)"));
            assert!(fields[4].text().starts_with("127.0.0.1:"));
            assert_eq!((fields[5].text(), fields.len()), ("me", 6));
        }
        let settings = client.line("CONFIG GET slowlog-*");
        assert_eq!(settings.field("slowlog-log-slower-than").text(), "-1");
        assert_eq!(settings.field("slowlog-max-len").text(), "5");
        client.line("CONFIG SET slowlog-log-slower-than 1000");
        client.line("SLOWLOG RESET");
        client.command(&["EVAL", "local t = 0 for i = 1, 3e6 do t = t + i % 7 end return t", "0"]);
        client.line("PING");
        let log = client.line("SLOWLOG GET");
        assert!(
            log.items()
                .iter()
                .any(|entry| entry.items()[3].items()[0].text() == "EVAL")
        );
        assert!(log.items().iter().all(|entry| entry.items()[2].int() >= 1_000));
    }
    let node = Node::start(&["--set", "slowlog.slower_than_us=0", "--set", "limits.slowlog_entries=2"]);
    let mut client = node.client();
    for line in ["SET a 1", "SET b 1", "GET a"] {
        client.line(line);
    }
    assert_eq!(client.line("SLOWLOG GET").items().len(), 2);
}

#[test]
fn answers_are_as_of_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let lines = [
        "CLIENT UNBLOCK",
        "CLIENT UNBLOCK x",
        "CLIENT UNBLOCK 1 foo",
        "CLIENT UNBLOCK x foo",
        "CLIENT UNBLOCK 1 timeout x",
        "CLIENT UNBLOCK 999 error",
        "CLIENT UNBLOCK -1",
        "CLIENT PAUSE",
        "CLIENT PAUSE x",
        "CLIENT PAUSE -1",
        "CLIENT PAUSE 1 foo",
        "CLIENT PAUSE x foo",
        "CLIENT PAUSE 1 all x",
        "CLIENT PAUSE 1.5",
        "CLIENT PAUSE 99999999999999999999",
        "CLIENT PAUSE 0",
        "CLIENT UNPAUSE",
        "CLIENT UNPAUSE x",
        "CLIENT GETREDIR",
        "CLIENT GETREDIR x",
        "CLIENT TRACKINGINFO",
        "CLIENT CACHING",
        "CLIENT CACHING yes",
        "CLIENT CACHING x",
        "CLIENT TRACKING",
        "CLIENT TRACKING off",
        "CLIENT TRACKING x",
        "CLIENT TRACKING off x",
        "CLIENT TRACKING off bcast",
        "CLIENT TRACKING on redirect x",
        "CLIENT TRACKING off prefix",
        "CLIENT REPLY",
        "CLIENT REPLY x",
        "CLIENT REPLY on",
        "CLIENT REPLY on x",
        "CLIENT KILL TYPE replica",
        "CLIENT LIST TYPE master",
        "CLIENT LIST TYPE replica",
        "WAIT",
        "WAIT x 1",
        "WAIT 0 0",
        "WAIT 1 x",
        "WAIT 1 -1",
        "WAIT 1 10",
        "WAIT -5 0",
        "WAIT 1 1.5",
        "WAIT 1 2 3",
        "SLOWLOG",
        "SLOWLOG GET",
        "SLOWLOG GET x",
        "SLOWLOG GET -2",
        "SLOWLOG GET 1 2",
        "SLOWLOG GET -1",
        "SLOWLOG LEN",
        "SLOWLOG LEN x",
        "SLOWLOG RESET",
        "SLOWLOG nothing",
        "SLOWLOG HELP",
        "CONFIG SET",
        "CONFIG SET a",
        "CONFIG SET a b",
        "CONFIG SET a b c",
        "CONFIG SET slowlog-max-len x",
        "CONFIG SET slowlog-log-slower-than -2",
        "CONFIG SET slowlog-log-slower-than x",
        "CONFIG SET slowlog-max-len 5 slowlog-max-len 6",
        "CONFIG SET databases 5",
        "CONFIG SET slowlog-max-len 7 databases 5",
        "CONFIG SET slowlog-max-len 99999999999999999999",
        "CONFIG SET SLOWLOG-max-len 10",
        "CONFIG GET slowlog-max-len",
        "CONFIG SET slowlog-log-slower-than 20000",
        "CONFIG GET slowlog-log-slower-than",
        "MONITOR x",
        "MULTI",
        "MONITOR",
        "WAIT 1 0",
        "SLOWLOG LEN",
        "EXEC",
    ];
    for node in Node::of_each_size(&[]) {
        let redis = RedisServer::start(&[]);
        let (mut reference, mut tested) = (redis.client(), node.client());
        for round in 0..2 {
            for line in lines {
                assert_eq!(tested.line(line), reference.line(line), "{line} of round {round}");
            }
            for client in [&mut reference, &mut tested] {
                client.hello3();
            }
        }
    }
}
