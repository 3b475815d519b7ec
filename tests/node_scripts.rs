//! Scripts and transactions over keys of one shard and of several.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value};

fn eval(client: &mut Client, script: &str, keys: &[&str], args: &[&str]) -> Value {
    let count = keys.len().to_string();
    client.command(&[&["EVAL", script, &count], keys, args].concat())
}

/// Nodes with one worker and with several.
fn nodes() -> impl Iterator<Item = Node> {
    let start = |workers| Node::start(&["--workers", workers, "--set", "script.budget_ms=30000"]);
    ["1", "3"].into_iter().map(start)
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
        std::thread::sleep(took / 4);
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
