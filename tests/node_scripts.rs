//! Scripts and transactions over keys of one shard and of several.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value, until, until_hit};

fn eval(client: &mut Client, script: &str, keys: &[&str], args: &[&str]) -> Value {
    let count = keys.len().to_string();
    client.command(&[&["EVAL", script, &count], keys, args].concat())
}

/// Nodes on which scripts may take long.
fn nodes() -> impl Iterator<Item = Node> {
    Node::of_each_size(&["--set", "script.budget_ms=30000"])
}

/// Waits until a script holds a key: commands for it wait.
fn until_held(node: &Node, key: &str) {
    let started = Instant::now();
    loop {
        let mut probe = node.client();
        probe.send(&["TYPE", key]);
        if probe.is_silent_for(Duration::from_millis(20)) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{key} is not held");
    }
}

#[test]
fn a_script_reaches_keys_of_every_shard_declared_or_not() {
    for node in nodes() {
        let mut client = node.client();
        let declared = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[2]) \
                        return redis.call('GET', KEYS[1]) .. redis.call('GET', KEYS[2])";
        for round in 0..20 {
            let keys = [format!("a{round}"), format!("b{round}")];
            let reply = eval(&mut client, declared, &[&keys[0], &keys[1]], &["x", "y"]);
            assert_eq!(reply.text(), "xy");
        }
        let undeclared = "for i = 1, 40 do redis.call('INCRBY', 'k' .. i, i) end return redis.call('DBSIZE')";
        assert_eq!(eval(&mut client, undeclared, &[], &[]).int(), 80);
        let listed = "local sum = 0 for _, key in ipairs(redis.call('KEYS', 'k*')) do sum = sum + redis.call('GET', key) end return sum";
        assert_eq!(eval(&mut client, listed, &[], &[]).int(), 820);
        let scanned = "local cursor, seen = '0', {} repeat local r = redis.call('SCAN', cursor, 'MATCH', 'k*', 'COUNT', 3) \
                       cursor = r[1] for _, key in ipairs(r[2]) do seen[key] = true end until cursor == '0' \
                       local n = 0 for _ in pairs(seen) do n = n + 1 end return n";
        assert_eq!(eval(&mut client, scanned, &[], &[]).int(), 40);
        let deleted =
            "local n = 0 for _, key in ipairs(redis.call('KEYS', 'k*')) do n = n + redis.call('DEL', key) end return n";
        assert_eq!(eval(&mut client, deleted, &[], &[]).int(), 40);
        assert_eq!(client.line("DBSIZE").int(), 40);
        // A pattern and an empty string are keys like any other.
        assert_eq!(
            eval(&mut client, "return redis.call('INCR', KEYS[1])", &["k*"], &[]).int(),
            1
        );
        assert_eq!(
            eval(&mut client, "return redis.call('INCR', KEYS[1])", &[""], &[]).int(),
            1
        );
    }
}

#[test]
fn buckets_are_checked_in_scripts_and_lent() {
    for node in nodes() {
        let mut client = node.client();
        let script = "local r = redis.call('RL.CHECK', KEYS[1], 'LIMIT', 5, 'PER', '1m') \
                      local s = redis.call('RL.CHECK', KEYS[2], 'LIMIT', 5, 'PER', '1m') return {r[3], s[3]}";
        for left in (0..5).rev() {
            let reply = eval(&mut client, script, &["one", "two"], &[]);
            assert_eq!(reply.items().iter().map(Value::int).collect::<Vec<_>>(), [left, left]);
        }
        assert_eq!(client.line("RL.CHECK one LIMIT 5 PER 1m").items()[0].int(), 0);
        assert_eq!(client.line("RL.CHECK two LIMIT 5 PER 1m").items()[0].int(), 0);
    }
}

#[test]
fn a_script_that_is_stopped_leaves_nothing_behind() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers, "--set", "script.budget_ms=60"]);
        let mut client = node.client();
        client.line("MSET_UNKNOWN");
        client.line("SET a 1");
        client.line("APPEND b tail");
        client.line("EXPIRE b 1000");
        client.line("RL.CHECK bucket LIMIT 5 PER 1m");
        let script = "redis.call('SET', 'a', 2) redis.call('APPEND', 'b', 'more') redis.call('PERSIST', 'b') redis.call('DEL', 'b') \
                      redis.call('SET', 'c', 3) redis.call('RL.CHECK', 'bucket', 'LIMIT', 5, 'PER', '1m') redis.call('RL.RESET', 'bucket') \
                      local i = 0 while true do pcall(function() i = i + 1 end) end";
        let error = eval(&mut client, script, &[], &[]);
        assert!(
            error
                .error()
                .starts_with("ERR Script stopped after its budget of 60 ms"),
            "{error:?}"
        );
        until("the log says that it was stopped, and why", || {
            node.log()
                .lines()
                .any(|line| line.contains("event=\"slow_script\"") && line.contains("stopped_by=\"script.budget_ms\""))
        });
        assert_eq!(client.line("GET a").text(), "1");
        assert_eq!(client.line("GET b").text(), "tail");
        assert!(client.line("TTL b").int() > 900);
        assert_eq!(client.line("EXISTS c").int(), 0);
        assert_eq!(client.line("RL.CHECK bucket LIMIT 5 PER 1m PEEK").items()[2].int(), 4);
        // What a script wrote before an error of its own stands, as in Redis.
        let error = eval(&mut client, "redis.call('SET', 'd', 1) error('boo')", &[], &[]);
        assert!(
            error.error().starts_with("ERR user_script:1: boo script: "),
            "{error:?}"
        );
        assert_eq!(client.line("GET d").text(), "1");
    }
}

#[test]
fn others_are_served_while_a_script_runs_and_wait_for_its_keys() {
    for node in nodes() {
        let address = node.listen();
        let script = "redis.call('SET', KEYS[1], 'half') local t = redis.call('GET', KEYS[2]) \
                      for i = 1, 2e7 do t = i end redis.call('SET', KEYS[1], 'whole') return 'done'";
        let running = std::thread::spawn(move || {
            let mut client = Client::connect(address);
            let started = Instant::now();
            assert_eq!(eval(&mut client, script, &["held", "other"], &[]).text(), "done");
            started.elapsed()
        });
        let mut client = node.client();
        // Seen as it was before, or as it is after.
        let mut served = 0;
        while !running.is_finished() {
            assert_eq!(client.line("INCR free").int(), served + 1);
            served += 1;
        }
        let took = running.join().unwrap();
        assert!(served > 20, "{served} commands in {took:?}");
        assert_eq!(client.line("GET held").text(), "whole");
        let running = std::thread::spawn(move || {
            let mut client = Client::connect(address);
            eval(&mut client, script, &["held", "other"], &[])
        });
        until_held(&node, "held");
        assert_eq!(client.line("GET held").text(), "whole");
        running.join().unwrap();
    }
}

#[test]
fn script_kill_ends_a_script_with_one_worker_too() {
    for node in nodes() {
        let address = node.listen();
        let mut client = node.client();
        assert_eq!(
            client.line("SCRIPT KILL").error(),
            "NOTBUSY No scripts in execution right now."
        );
        let running = std::thread::spawn(move || {
            let mut client = Client::connect(address);
            eval(&mut client, "redis.call('SET', 'k', 1) while true do end", &["k"], &[])
        });
        let started = Instant::now();
        while client.line("SCRIPT KILL").is_error() {
            assert!(started.elapsed() < Duration::from_secs(20));
        }
        let error = running.join().unwrap();
        assert!(
            error
                .error()
                .starts_with("ERR Script killed by user with SCRIPT KILL..."),
            "{error:?}"
        );
        assert_eq!(client.line("EXISTS k").int(), 0);
    }
}

#[test]
fn transactions_run_together_or_not_at_all() {
    for node in nodes() {
        let mut client = node.client();
        let replies = client.pipeline(
            &[
                "MULTI", "SET a 1", "INCR a", "SET b x", "INCR b", "SELECT 3", "SET a 5", "SELECT 0", "GET a", "EXEC",
            ]
            .map(|line| line.split(' ').collect::<Vec<_>>()),
        );
        assert_eq!(replies[1].text(), "QUEUED");
        let results = replies[9].items();
        assert_eq!(results[1].int(), 2);
        assert!(results[3].error().starts_with("ERR value is not an integer"));
        assert_eq!(results[7].text(), "2");
        client.line("SELECT 3");
        assert_eq!(client.line("GET a").text(), "5");
        client.line("SELECT 0");
        // A command that is refused breaks it.
        client.line("MULTI");
        client.line("SET a 9");
        assert!(client.line("NOPE").is_error());
        assert!(client.line("EXEC").error().starts_with("EXECABORT"));
        assert_eq!(client.line("GET a").text(), "2");
        assert_eq!(client.line("EXEC").error(), "ERR EXEC without MULTI");
        assert_eq!(client.line("DISCARD").error(), "ERR DISCARD without MULTI");
        client.line("MULTI");
        assert_eq!(client.line("MULTI").error(), "ERR MULTI calls can not be nested");
        assert_eq!(client.line("WATCH a").error(), "ERR WATCH inside MULTI is not allowed");
        assert_eq!(client.line("DISCARD").text(), "OK");
        client.line("MULTI");
        assert_eq!(client.line("EXEC").items().len(), 0);
    }
}

#[test]
fn a_watched_key_that_changes_stops_exec() {
    for node in nodes() {
        let (mut client, mut other) = (node.client(), node.client());
        let mut attempt = |keys: &str, change: &str| {
            client.line(&format!("WATCH {keys}"));
            other.line(change);
            client.line("MULTI");
            client.line("SET result 1");
            !client.line("EXEC").is_null()
        };
        assert!(attempt("a", "SET unrelated 1"));
        assert!(!attempt("a b c", "SET b 1"));
        assert!(!attempt("b", "APPEND b x"));
        assert!(!attempt("b", "EXPIRE b 100"));
        assert!(!attempt("b", "DEL b"));
        assert!(attempt("b", "DEL b"), "nothing was there");
        assert!(!attempt(
            "a b",
            "EVAL return(redis.call('SET','b',ARGV[1]..redis.call('INCR','zz'))) 0 1"
        ));
        assert!(!attempt("bucket", "RL.CHECK bucket LIMIT 5 PER 1m"));
        client.line("SET soon 1 PX 20");
        client.line("WATCH soon");
        std::thread::sleep(Duration::from_millis(30));
        client.line("MULTI");
        client.line("PING");
        assert!(client.line("EXEC").is_null());
        client.line("WATCH a");
        other.line("SET a 2");
        client.line("UNWATCH");
        client.line("MULTI");
        client.line("PING");
        assert_eq!(client.line("EXEC").items()[0].text(), "PONG");
    }
}

#[test]
fn a_script_in_a_transaction_starts_all_again_for_its_keys() {
    for node in nodes() {
        let mut client = node.client();
        for round in 0..10 {
            client.line("MULTI");
            client.line("INCR count");
            let script = format!(
                "redis.call('INCR', 'x{round}') redis.call('INCR', 'y{round}') return redis.call('INCR', 'count')"
            );
            client.command(&["EVAL", &script, "0"]);
            client.line("INCR count");
            let results = client.line("EXEC");
            let counts: Vec<i64> = results.items().iter().map(Value::int).collect();
            assert_eq!(counts, [3 * round + 1, 3 * round + 2, 3 * round + 3]);
            assert_eq!(client.line(&format!("GET x{round}")).text(), "1");
        }
    }
}

/// Many at once move amounts between accounts of all shards, in scripts, transactions and with locks; the sum stays the same.
#[test]
fn nothing_is_lost_or_made_when_many_runs_want_the_same_keys() {
    const ACCOUNTS: usize = 12;
    const EACH: i64 = 1000;
    for workers in ["1", "4"] {
        let node = Node::start(&["--workers", workers, "--set", "limits.keys_wait_ms=20000"]);
        let mut client = node.client();
        for account in 0..ACCOUNTS {
            client.line(&format!("SET account:{account} {EACH}"));
        }
        let address = node.listen();
        let stop = AtomicBool::new(false);
        let moved = std::thread::scope(|scope| {
            let movers: Vec<_> = (0..6_u64)
                .map(|mover| {
                    let stop = &stop;
                    scope.spawn(move || {
                        let mut client = Client::connect(address);
                        let mut draw = mover.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                        let mut moved = 0;
                        while !stop.load(Ordering::Relaxed) {
                            draw ^= draw << 13;
                            draw ^= draw >> 7;
                            draw ^= draw << 17;
                            let (from, to) = (draw as usize % ACCOUNTS, (draw >> 20) as usize % ACCOUNTS);
                            let (from, to) = (format!("account:{from}"), format!("account:{to}"));
                            match draw >> 60 {
                                0..=5 => {
                                    let script = "redis.call('DECRBY', KEYS[1], 7) redis.call('INCRBY', KEYS[2], 7) return 1";
                                    assert_eq!(eval(&mut client, script, &[&from, &to], &[]).int(), 1);
                                }
                                6..=10 => {
                                    let script = "redis.call('DECRBY', ARGV[1], 3) redis.call('INCRBY', ARGV[2], 3) return 1";
                                    assert_eq!(eval(&mut client, script, &[], &[&from, &to]).int(), 1);
                                }
                                11 => {
                                    // Ended in the middle of it by its memory bound.
                                    let script = "redis.call('DECRBY', KEYS[1], 7) local s = string.rep('x', 1e6) \
                                                  local t = {} for i = 1, 1e6 do t[i] = s .. i end redis.call('INCRBY', KEYS[2], 7)";
                                    assert!(eval(&mut client, script, &[&from, &to], &[]).is_error());
                                }
                                12 => {
                                    let script = "local sum = 0 for _, key in ipairs(redis.call('KEYS', 'account:*')) do sum = sum + redis.call('GET', key) end return sum";
                                    assert_eq!(eval(&mut client, script, &[], &[]).int(), ACCOUNTS as i64 * EACH);
                                }
                                _ => {
                                    client.line("MULTI");
                                    client.line(&format!("DECRBY {from} 5"));
                                    client.line(&format!("INCRBY {to} 5"));
                                    assert_eq!(client.line("EXEC").items().len(), 2);
                                }
                            }
                            moved += 1;
                        }
                        moved
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_secs(6));
            stop.store(true, Ordering::Relaxed);
            movers.into_iter().map(|mover| mover.join().unwrap()).sum::<u64>()
        });
        let sum: i64 = (0..ACCOUNTS)
            .map(|account| {
                client
                    .line(&format!("GET account:{account}"))
                    .text()
                    .parse::<i64>()
                    .unwrap()
            })
            .sum();
        assert_eq!(sum, ACCOUNTS as i64 * EACH, "after {moved} moves");
        assert!(moved > 100, "{moved}");
        assert_eq!(client.line("DBSIZE").int(), ACCOUNTS as i64);
    }
}

#[test]
fn a_pipeline_is_run_in_order_over_all_shards() {
    for node in nodes() {
        let (mut client, mut listener) = (node.client(), node.client());
        listener.line("SUBSCRIBE c");
        for round in 0..30 {
            let keys = [
                format!("a{round}"),
                format!("b{round}"),
                format!("c{round}"),
                format!("d{round}"),
            ];
            let mut pipeline: Vec<Vec<String>> = Vec::new();
            let line = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            for key in &keys {
                pipeline.push(line(format!("SET {key} {round}")));
            }
            pipeline.push(line(format!("MGET {}", keys.join(" "))));
            pipeline.push(
                [
                    "EVAL".to_owned(),
                    format!("return redis.call('MGET', '{}')", keys.join("', '")),
                    "0".to_owned(),
                ]
                .to_vec(),
            );
            pipeline.push(line(format!("RENAME {} {}", keys[0], keys[1])));
            pipeline.push(line(format!("APPEND {} x", keys[2])));
            pipeline.push(line(format!("PUBLISH c {}", keys[2])));
            let replies = client.pipeline(&pipeline);
            for reply in &replies[4..6] {
                assert!(
                    reply.items().iter().all(|value| value.text() == round.to_string()),
                    "{reply:?}"
                );
            }
            assert_eq!(replies[6].text(), "OK");
            let told = listener.receive();
            let mut other = node.client();
            assert_eq!(
                other.line(&format!("GET {}", told.items()[2].text())).text(),
                format!("{round}x")
            );
        }
    }
}

#[test]
fn what_a_run_of_the_whole_node_makes_is_kept_beside_a_script_that_goes_on() {
    let node = Node::start(&["--workers", "3", "--set", "script.budget_ms=30000"]);
    let mut client = node.client();
    let address = node.listen();
    for round in 0..6 {
        let slow = "redis.call('EXISTS', KEYS[1]) local t = 0 for i = 1, 3e6 do t = t + i end return redis.call('INCR', KEYS[1])";
        let key = format!("count{round}");
        let running = {
            let key = key.clone();
            std::thread::spawn(move || eval(&mut Client::connect(address), slow, &[&key], &[]).int())
        };
        std::thread::sleep(Duration::from_millis(3));
        let all = "redis.call('KEYS', '*') return redis.call('INCR', ARGV[1])";
        let counts = [eval(&mut client, all, &[], &[&key]).int(), running.join().unwrap()];
        assert_eq!(counts[0] + counts[1], 3, "one after the other: {counts:?}");
        assert_eq!(client.line(&format!("GET {key}")).text(), "2");
    }
    // The same key in two databases, with the names of one.
    let two = "redis.call('GET', KEYS[1]) redis.call('SELECT', 1) redis.call('KEYS', '*') redis.call('SET', KEYS[1], '1') \
               redis.call('SELECT', 0) redis.call('KEYS', '*') return redis.call('SET', KEYS[1] .. 'x', '1')";
    for round in 0..20 {
        assert_eq!(eval(&mut client, two, &[&format!("two{round}")], &[]).text(), "OK");
    }
    client.line("SELECT 1");
    assert_eq!(client.line("DBSIZE").int(), 20);
}

#[test]
fn a_flush_leaves_nothing_that_a_script_or_a_loan_brings_back() {
    for node in nodes() {
        let (mut client, address) = (node.client(), node.listen());
        client.line("SET k before");
        let running = std::thread::spawn(move || {
            let script = "redis.call('SET', KEYS[1], 'w') while true do end";
            eval(&mut Client::connect(address), script, &["k", "other"], &[])
        });
        until_held(&node, "k");
        let flushing = std::thread::spawn(move || Client::connect(address).line("FLUSHALL"));
        let started = Instant::now();
        while client.line("SCRIPT KILL").is_error() {
            assert!(started.elapsed() < Duration::from_secs(20));
        }
        assert!(running.join().unwrap().is_error());
        assert_eq!(flushing.join().unwrap().text(), "OK");
        assert_eq!(client.line("DBSIZE").int(), 0);
        assert!(client.line("GET k").is_null());
    }
}

#[test]
fn a_watched_key_is_told_of_flushes_sweeps_and_buckets_but_not_of_what_was_taken_back() {
    for node in nodes() {
        let (mut client, mut other) = (node.client(), node.client());
        let mut attempt = |change: &mut dyn FnMut(&mut Client)| {
            client.line("WATCH k");
            change(&mut other);
            client.line("MULTI");
            client.line("PING");
            !client.line("EXEC").is_null()
        };
        assert!(attempt(&mut |other| drop(other.line("FLUSHALL"))), "nothing was there");
        assert!(!attempt(&mut |other| {
            other.line("SET k 1");
        }));
        assert!(!attempt(&mut |other| drop(other.line("FLUSHDB"))));
        assert!(!attempt(&mut |other| drop(
            other.line("RL.CHECK k LIMIT 5 PER 1m POLICY sliding_log")
        )));
        assert!(!attempt(&mut |other| drop(other.line("DEL k"))));
        assert!(attempt(&mut |other| {
            let script = "redis.call('SET', 'k', 1) local t = {} for i = 1, 1e8 do t[i] = {} end";
            assert!(eval(other, script, &[], &[]).is_error());
        }));
        // Its own writes, taken back and made again with the keys of a script, are no change.
        client.line("WATCH k");
        client.line("MULTI");
        client.line("SET k 1");
        client.command(&["EVAL", "return redis.call('INCR', 'another')", "0"]);
        client.command(&["EVAL", "return redis.call('INCR', 'yet another')", "0"]);
        assert_eq!(client.line("EXEC").items().len(), 3);
    }
}

#[test]
fn what_one_command_of_a_script_is_given_is_bounded() {
    for node in nodes() {
        let mut client = node.client();
        let script = "local s, t = ('x'):rep(16 * 1024 * 1024), {} for i = 1, 300 do t[i] = s end \
                      return redis.call('RPUSH', KEYS[1], unpack(t))";
        let error = eval(&mut client, script, &["list"], &[]);
        assert!(
            error.error().contains("ERR string exceeds maximum allowed size"),
            "{error:?}"
        );
        until_hit(&node, "string_bytes", 1.0);
        assert_eq!(client.line("EXISTS list").int(), 0);
        // A reply that repeats one long status is bounded, too.
        let script = "local e, t = {ok = ('x'):rep(16 * 1024 * 1024)}, {} for i = 1, 100 do t[i] = e end return t";
        let error = eval(&mut client, script, &[], &[]);
        assert!(error.error().contains("reply of the script is too large"), "{error:?}");
        // A command with subcommands is not mistaken for one of them.
        let script =
            "local all = #redis.call('COMMAND') return {all, redis.call('COMMAND', 'COUNT'), #redis.call('COMMAND')}";
        let counts: Vec<i64> = eval(&mut client, script, &[], &[])
            .items()
            .iter()
            .map(Value::int)
            .collect();
        assert!(
            counts[0] > 100 && counts.iter().all(|&count| count == counts[0]),
            "{counts:?}"
        );
    }
}
