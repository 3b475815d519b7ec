//! What takes long or takes much room: it is done in steps or has a bound, and others are answered meanwhile.

use std::time::Duration;
use tollgate_suite::{Client, Node, Value, until, until_blocked, until_hit};

/// Keys of the upper half of the slots, which the second of two workers has; the first connection is the first worker's.
fn keys_of_the_second_worker() -> impl Iterator<Item = String> {
    (0..)
        .map(|number| format!("key{number}"))
        .filter(|key| tollgate_store::slot_of(key.as_bytes()) >= tollgate_store::SLOTS / 2)
}

fn eval(client: &mut Client, script: &str, keys: &[&str], args: &[&str]) -> Value {
    let count = keys.len().to_string();
    client.command(&[&["EVAL", script, &count], keys, args].concat())
}

#[test]
fn a_hot_key_does_not_hold_up_the_other_keys_of_its_shard() {
    const WAITING: usize = 24;
    let node = Node::start(&[
        "--workers",
        "2",
        "--set",
        "limits.mailbox_batches=4",
        "--set",
        "script.budget_ms=60000",
        "--set",
        "limits.keys_wait_ms=60000",
    ]);
    // Connections are dealt out in turn.
    let mut connections: Vec<Client> = (0..2 * WAITING + 4).map(|_| node.client()).collect();
    for client in &mut connections {
        assert_eq!(client.line("PING").text(), "PONG");
    }
    let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
    for (number, client) in connections.into_iter().enumerate() {
        if number % 2 == 0 {
            of_first.push(client);
        } else {
            of_second.push(client);
        }
    }
    let keys: Vec<String> = keys_of_the_second_worker().take(2).collect();
    let mut holder = of_second.pop().expect("a connection");
    holder.send(&[
        "EVAL",
        "redis.call('SET', KEYS[1], 'x') while true do end",
        "1",
        &keys[0],
    ]);
    let mut admin = of_second.pop().expect("a connection");
    let mut probe = of_second.pop().expect("a connection");
    until("the key is held", || {
        probe.send(&["GET", &keys[0]]);
        let is_held = probe.is_silent_for(Duration::from_millis(300));
        if !is_held {
            probe.receive();
        }
        is_held
    });
    let (mut other, mut waiting) = (of_first.pop().expect("a connection"), of_first);
    waiting.truncate(WAITING);
    for (number, client) in waiting.iter_mut().enumerate() {
        // Each is a batch of its own; what waits is a command, a script, or a check.
        match number % 3 {
            0 => client.send(&["GET", &keys[0]]),
            1 => client.send(&["EVAL", "return redis.call('GET', KEYS[1])", "1", &keys[0]]),
            _ => client.send(&["RL.CHECK", &keys[0], "LIMIT", "1", "PER", "1m"]),
        }
    }
    // Four may wait.
    until_hit(&node, "mailbox_batches", (WAITING - 4) as f64);
    // Those that wait may still be in the mailbox, which is full until they are taken.
    until("the mailbox is taken", || {
        !other.command(&["EXISTS", &keys[1]]).is_error()
    });
    for _ in 0..50 {
        assert_eq!(other.command(&["EXISTS", &keys[1]]).int(), 0);
    }
    assert!(holder.is_silent_for(Duration::from_millis(1)), "it goes on");
    assert_eq!(admin.line("SCRIPT KILL").text(), "OK");
    assert!(holder.receive().is_error());
    let mut refused = 0;
    for client in &mut waiting {
        let reply = client.receive();
        match reply.is_error() {
            true => {
                // Whoever comes after a check finds a bucket.
                let is_refused = reply.error() == "BUSY shard mailbox is full, try again";
                assert!(is_refused || reply.error().starts_with("WRONGTYPE"), "{reply:?}");
                refused += usize::from(is_refused);
            }
            // The script was taken back: there is no value.
            false => assert!(reply.is_null() || reply.items()[0].int() <= 1, "{reply:?}"),
        }
    }
    assert_eq!(refused, WAITING - 4);
    // All are served as before.
    for client in &mut waiting {
        assert!(!client.command(&["EXISTS", &keys[1]]).is_error());
    }
}

#[test]
fn replies_of_another_shard_are_sent_in_parts() {
    const VALUE_BYTES: usize = 300_000;
    const ROUNDS: usize = 30;
    for workers in ["1", "2"] {
        let node = Node::start(&["--workers", workers, "--set", "limits.output_bytes=2MiB"]);
        let mut client = node.client();
        let keys: Vec<String> = keys_of_the_second_worker().take(2).collect();
        let value = |letter: &str| letter.repeat(VALUE_BYTES);
        client.command(&["SET", &keys[0], &value("a")]);
        client.command(&["SET", &keys[1], &value("b")]);
        let mut commands = Vec::new();
        for round in 0..ROUNDS {
            commands.push(vec!["GET".to_owned(), keys[0].clone()]);
            commands.push(vec!["ECHO".to_owned(), round.to_string()]);
            commands.push(vec!["GET".to_owned(), keys[1].clone()]);
            commands.push(vec![
                "GETRANGE".to_owned(),
                keys[1].clone(),
                "0".to_owned(),
                round.to_string(),
            ]);
        }
        let replies = client.pipeline(&commands);
        for (round, replies) in replies.chunks(4).enumerate() {
            assert!(replies[0].text() == value("a") && replies[2].text() == value("b"));
            assert_eq!(replies[1].text(), round.to_string());
            assert_eq!(replies[3].text(), "b".repeat(round + 1));
        }
        // One that is too large by itself still ends the connection.
        client.command(&["SETRANGE", &keys[0], "3000000", "x"]);
        client.send(&["GET", &keys[0]]);
        assert!(client.receive_to_end().is_empty());
        until_hit(&node, "output_bytes", 1.0);
    }
}

#[test]
fn batches_behind_one_that_is_sent_in_parts_come_after_it() {
    const ROUNDS: usize = 300;
    const VALUE_BYTES: usize = 40_000;
    // What is read at once is several batches, and each of them is sent in parts.
    let node = Node::start(&["--workers", "2", "--set", "limits.batch_commands=64"]);
    let mut client = node.client();
    let key = keys_of_the_second_worker().next().expect("a key");
    let value = "v".repeat(VALUE_BYTES);
    client.command(&["SET", &key, &value]);
    let mut commands = Vec::new();
    for round in 0..ROUNDS {
        commands.push(vec!["GET".to_owned(), key.clone()]);
        commands.push(vec!["ECHO".to_owned(), round.to_string()]);
    }
    for (round, replies) in client.pipeline(&commands).chunks(2).enumerate() {
        assert!(replies[0].text() == value, "{round}");
        assert_eq!(replies[1].text(), round.to_string());
    }
}

#[test]
fn replies_that_nobody_wants_are_no_reason_to_end_a_connection() {
    let node = Node::start(&["--workers", "2", "--set", "limits.output_bytes=2MiB"]);
    let mut client = node.client();
    let key = keys_of_the_second_worker().next().expect("a key");
    client.command(&["SET", &key, &"a".repeat(300_000)]);
    client.send(&["CLIENT", "REPLY", "OFF"]);
    for _ in 0..30 {
        client.send(&["GET", &key]);
    }
    assert_eq!(client.line("CLIENT REPLY ON").text(), "OK");
    assert_eq!(client.line("PING").text(), "PONG");
}

#[test]
fn a_transaction_that_starts_again_repeats_nothing_that_is_not_taken_back() {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    let key = keys_of_the_second_worker().next().expect("a key");
    let mut victim = node.client();
    let id = victim.line("CLIENT ID").int().to_string();
    client.line("MULTI");
    client.command(&["CLIENT", "KILL", "ID", &id]);
    client.line("SELECT 3");
    client.line("SET a x");
    client.command(&["EVAL", "return redis.call('EXISTS', ARGV[1])", "0", &key]);
    client.line("SET b x");
    let replies = client.line("EXEC");
    let restarts = node.metric("tollgate_script_restarts_total");
    assert!(restarts >= Some(1.0), "{restarts:?}");
    assert_eq!(replies.items()[0].int(), 1, "the first time it was there");
    assert_eq!(replies.items()[3].int(), 0);
    assert_eq!(client.line("DBSIZE").int(), 2);
    client.line("SELECT 0");
    assert_eq!(client.line("DBSIZE").int(), 0);
}

#[test]
fn what_a_script_writes_can_be_taken_back_within_a_bound() {
    for node in Node::of_each_size(&["--set", "limits.undo_bytes=1MiB"]) {
        let mut client = node.client();
        client.command(&["SETRANGE", "large", "200000", "x"]);
        client.command(&[
            "EVAL",
            "for i = 1, 2000 do redis.call('RPUSH', KEYS[1], ('x'):rep(50)) end",
            "1",
            "list",
        ]);
        let refused = "ERR too much was written to be taken back, at most 1048576 bytes";
        // Each change of a large value notes what was there before.
        for (write, keys) in [
            ("redis.call('SETRANGE', KEYS[1], 0, ('y'):rep(50000))", "large"),
            ("redis.call('LSET', KEYS[1], 7, i)", "list"),
            ("redis.call('RPUSH', KEYS[1], i)", "list"),
            ("redis.call('APPEND', KEYS[1], 'y')", "large"),
        ] {
            let script = format!("for i = 1, 100000 do {write} end");
            let error = eval(&mut client, &script, &[keys], &[]);
            assert!(error.error().starts_with(refused), "{write}: {error:?}");
            client.line("MULTI");
            client.command(&["EVAL", &script, "1", keys]);
            client.line("SET after x");
            let replies = client.line("EXEC");
            assert!(replies.items()[0].is_error(), "{write}: {replies:?}");
            assert!(replies.items()[1].error().starts_with(refused), "{write}: {replies:?}");
        }
        until_hit(&node, "undo_bytes", 12.0);
        // What a script that goes on after the refusal asks for is still answered.
        let kept = "for i = 1, 100000 do local done = redis.pcall('SETRANGE', KEYS[1], 0, ('z'):rep(50000)) \
                    if type(done) == 'table' then return i end end";
        assert!(eval(&mut client, kept, &["large"], &[]).int() > 10);
        assert_eq!(client.line("GETRANGE large 0 1").text(), "zz");
    }
}

#[test]
fn a_command_of_a_script_over_too_much_is_ended_and_taken_back() {
    let node = Node::start(&["--workers", "1", "--set", "script.step_ms=1"]);
    let mut client = node.client();
    for chunk in 0..100 {
        let members: Vec<String> = (0..1_000).map(|number| format!("{}", chunk * 1_000 + number)).collect();
        for name in ["SADD", "MSET"] {
            let mut command = vec![name];
            if name == "SADD" {
                command.push("members");
            }
            for member in &members {
                command.push(member);
                if name == "MSET" {
                    command.push("x");
                }
            }
            client.command(&command);
        }
    }
    let ended = "ERR Script stopped after 1 ms in something that cannot be interrupted";
    for command in [
        "'KEYS', '*none*'",
        "'SUNIONSTORE', 'union', 'members', 'members2'",
        "'SMEMBERS', 'members'",
    ] {
        let script = format!("redis.call('SET', 'mark', 'x') return #redis.pcall({command})");
        let error = eval(&mut client, &script, &[], &[]);
        assert!(error.error().starts_with(ended), "{command}: {error:?}");
        assert_eq!(client.line("EXISTS mark union").int(), 0, "{command}");
    }
    until_hit(&node, "script_step_ms", 3.0);
    assert_eq!(client.line("SCARD members").int(), 100_000);
}

#[test]
fn a_command_waits_for_no_more_keys_than_it_may() {
    for node in Node::of_each_size(&["--set", "limits.awaited_keys=50"]) {
        let mut client = node.client();
        let names = |count: usize| {
            (0..count)
                .map(|number| format!("list:{number}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let refused = "ERR too many keys to wait for, at most 50";
        assert_eq!(client.line(&format!("BLPOP {} 0", names(51))).error(), refused);
        assert_eq!(client.line(&format!("BLMPOP 0 51 {} LEFT", names(51))).error(), refused);
        client.line("MULTI");
        client.line(&format!("BZPOPMIN {} 0", names(51)));
        assert_eq!(client.line("EXEC").items()[0].error(), refused);
        until_hit(&node, "awaited_keys", 3.0);
        let mut waiting = node.client();
        waiting.send(&format!("BLPOP {} 0", names(50)).split(' ').collect::<Vec<_>>());
        until_blocked(&mut client, 1);
        client.line("RPUSH list:49 x");
        assert_eq!(waiting.receive().items()[1].text(), "x");
    }
}

#[test]
fn slow_commands_are_shown_by_latency() {
    for node in Node::of_each_size(&[]) {
        let mut client = node.client();
        let slow = "local t = 0 for i = 1, 3e6 do t = t + i % 7 end return t";
        client.command(&["EVAL", slow, "0"]);
        assert_eq!(client.line("LATENCY LATEST").items().len(), 0, "it is off");
        assert_eq!(
            client.line("CONFIG GET latency-monitor-threshold").items()[1].text(),
            "0"
        );
        // SLOWLOG goes its own way.
        client.line("CONFIG SET latency-monitor-threshold 1 slowlog-log-slower-than -1");
        client.line("SLOWLOG RESET");
        client.command(&["EVAL", slow, "0"]);
        client.line("PING");
        let latest = client.line("LATENCY LATEST");
        let command = latest.items().iter().find(|event| event.items()[0].text() == "command");
        let command = command.expect("an event").items();
        assert!(command[1].int() > 1_700_000_000 && command[2].int() >= 1 && command[3].int() >= command[2].int());
        assert_eq!(client.line("SLOWLOG LEN").int(), 0);
        let history = client.line("LATENCY HISTORY command");
        assert_eq!(history.items()[0].items().len(), 2);
        assert!(
            client
                .line("LATENCY GRAPH command")
                .text()
                .starts_with("command - high ")
        );
        assert!(client.line("LATENCY DOCTOR").text().contains("- command: in "));
        assert!(client.line("LATENCY RESET").int() >= 1);
        client.line("CONFIG SET latency-monitor-threshold 0");
        client.command(&["EVAL", slow, "0"]);
        assert_eq!(client.line("LATENCY HISTORY command").items().len(), 0);
    }
}

/// Works for a time that grows with the first argument, in something that cannot be interrupted, and fails then: so it is one step.
const LONG_STEP: &str = "local t = setmetatable({}, {__index = function(_, n) local x = 0 for i = 1, n do x = x + i end error('done') end}) \
                         return t[tonumber(ARGV[1])]";
/// Argument for some ten milliseconds, and for so long that much can be sent meanwhile.
const SHORT: &str = "500000";
const BUSY: &str = "20000000";

/// How a client has a long step run: a small turn, one that is not, a transaction.
const WAYS: [&str; 3] = ["small", "large", "transaction"];

/// Prepares a long step, of a script with that comment, and gives the command that runs it.
fn prepare_long_step(client: &mut Client, way: &str, comment: &str) -> Vec<String> {
    let padding = match way {
        "large" => " ".repeat(1_000),
        _ => String::new(),
    };
    let script = format!("{LONG_STEP}{padding} --{comment}");
    let command = ["EVAL", &script, "0", SHORT].map(str::to_owned);
    if way != "transaction" {
        return command.to_vec();
    }
    client.line("MULTI");
    client.command(&command);
    vec!["EXEC".to_owned()]
}

#[test]
fn others_wait_for_one_long_step_of_many() {
    const SCRIPTS: usize = 16;
    let bounds = ["script.step_ms=10000", "script.budget_ms=60000"].map(|bound| ["--set", bound]);
    let node = Node::start(&[&["--workers", "1"][..], &bounds.concat()].concat());
    let [mut busy, mut other] = [node.client(), node.client()];
    let mut clients: Vec<Client> = (0..SCRIPTS).map(|_| node.client()).collect();
    for client in clients.iter_mut().chain([&mut busy, &mut other]) {
        assert_eq!(client.line("PING").text(), "PONG");
    }
    let runs = || node.metric("tollgate_scripts_total").expect("a metric");
    for way in WAYS {
        for own_text in [false, true] {
            let mut came_first = Vec::new();
            for _ in 0..5 {
                let mut commands = Vec::new();
                for (number, client) in clients.iter_mut().enumerate() {
                    let comment = if own_text { number.to_string() } else { String::new() };
                    commands.push(prepare_long_step(client, way, &comment));
                }
                let before = runs();
                busy.send(&["EVAL", LONG_STEP, "0", BUSY]);
                std::thread::sleep(Duration::from_millis(50));
                for (client, command) in clients.iter_mut().zip(&commands) {
                    client.send(command);
                }
                other.send(&["SET", "key", "value"]);
                // Then all that was sent is there when the worker looks for it.
                let all_at_once = busy.is_silent_for(Duration::from_millis(1));
                assert_eq!(other.receive().text(), "OK");
                let first = runs() - before - 1.0;
                assert!(busy.receive().error().contains("done"));
                for client in &mut clients {
                    client.receive();
                }
                if all_at_once {
                    came_first.push(first);
                    // This process may have been late to look.
                    if first <= 4.0 {
                        break;
                    }
                }
            }
            let is_fair = came_first.last().is_some_and(|&first| first <= 4.0);
            assert!(is_fair, "{way}: of {SCRIPTS}, so many came first: {came_first:?}");
        }
    }
}

#[test]
fn the_longest_stretch_is_that_of_a_script() {
    for way in WAYS {
        let node = Node::start(&["--workers", "1", "--set", "script.step_ms=10000"]);
        let mut client = node.client();
        client.line("PING");
        let command = prepare_long_step(&mut client, way, "");
        client.command(&command);
        let longest = node.metric("tollgate_shard_longest_stretch_seconds").expect("a metric");
        // So many rounds of a loop: of 2 ns at the least.
        assert!(longest > 0.001, "{way}: {longest}");
    }
}
