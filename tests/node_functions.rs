//! Functions on nodes with one worker and with several: seen everywhere at once, bounded, taken back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, Value, until};

fn load(client: &mut Client, code: &str) -> Value {
    client.command(&["FUNCTION", "LOAD", "REPLACE", code])
}

/// A library with one function `f`.
fn library(body: &str) -> String {
    format!("#!lua name=lib\nredis.register_function('f', function(keys, args) {body} end)")
}

#[test]
fn a_change_is_seen_by_every_worker_at_once() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers]);
        // Connections are spread over the workers.
        let mut clients: Vec<Client> = (0..6).map(|_| node.client()).collect();
        for round in 0..60 {
            let (changes, asks) = (round % clients.len(), (round / 2 + 1) % clients.len());
            let version = format!("return {round}");
            assert_eq!(load(&mut clients[changes], &library(&version)).text(), "lib");
            assert_eq!(clients[asks].line("FCALL f 0").int(), round as i64);
            assert_eq!(clients[asks].line("FCALL f 1 some:key").int(), round as i64);
            if round % 7 == 0 {
                let line = if round % 2 == 0 {
                    "FUNCTION FLUSH"
                } else {
                    "FUNCTION DELETE lib"
                };
                clients[asks].line(line);
                for client in &mut clients {
                    assert_eq!(client.line("FCALL f 0").error(), "ERR Function not found");
                }
            }
        }
        // In one read of one connection, too, whichever worker has the key.
        let commands: Vec<Vec<String>> = (0..40)
            .map(|number| match number % 2 {
                0 => vec![
                    "FUNCTION".into(),
                    "LOAD".into(),
                    "REPLACE".into(),
                    library(&format!("return {number}")),
                ],
                _ => vec!["FCALL".into(), "f".into(), "1".into(), format!("key:{number}")],
            })
            .collect();
        for (number, reply) in clients[0].pipeline(&commands).iter().enumerate() {
            match number % 2 {
                0 => assert_eq!(reply.text(), "lib"),
                _ => assert_eq!(reply.int(), number as i64 - 1),
            }
        }
    }
}

#[test]
fn a_library_is_replaced_whole() {
    let node = Node::start(&["--workers", "3"]);
    let address = node.listen();
    let versioned = |version: usize| {
        let functions = (0..20).map(|n| format!("redis.register_function('f{n}', function() return {version} end)\n"));
        format!("#!lua name=lib\n{}", functions.collect::<String>())
    };
    load(&mut node.client(), &versioned(0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let stop = &stop;
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let mut latest = 0;
                while !stop.load(Ordering::Relaxed) {
                    // All that comes later is of the same version or a later one.
                    for function in 0..20 {
                        let version = client.line(&format!("FCALL f{} 0", (function * 7 + reader) % 20)).int();
                        assert!(version >= latest, "{version} after {latest}");
                        latest = version;
                    }
                    assert_eq!(
                        client.line("FUNCTION LIST").items()[0].field("functions").items().len(),
                        20
                    );
                }
            });
        }
        let mut client = Client::connect(address);
        for version in 1..150 {
            load(&mut client, &versioned(version));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_function_reaches_keys_of_every_shard_declared_or_not() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers]);
        let mut client = node.client();
        load(
            &mut client,
            "#!lua name=lib\n\
             redis.register_function('move', function(keys, args) \
             redis.call('DECRBY', keys[1], args[1]) return redis.call('INCRBY', keys[2], args[1]) end)\n\
             redis.register_function('spread', function(keys, args) \
             for i = 1, 30 do redis.call('INCR', args[1] .. i) end return redis.call('DBSIZE') end)\n\
             redis.register_function{function_name='all', flags={'no-writes'}, callback=function(keys, args) \
             return #redis.call('KEYS', args[1]) end}",
        );
        for round in 1..=20 {
            let (from, to) = (format!("FCALL move 2 a{round} b{round} 5"), format!("GET a{round}"));
            assert_eq!(client.line(&from).int(), 5);
            assert_eq!(client.line(&to).text(), "-5");
        }
        assert_eq!(client.line("FCALL spread 0 x").int(), 70);
        assert_eq!(client.line("FCALL_RO all 0 x*").int(), 30);
        assert_eq!(client.line("GET x17").text(), "1");
    }
}

#[test]
fn a_function_that_is_stopped_leaves_nothing_behind() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers, "--set", "script.budget_ms=60"]);
        let mut client = node.client();
        load(
            &mut client,
            "#!lua name=lib\n\
             redis.register_function('endless', function(keys) redis.call('SET', keys[1], 'x') while true do end end)\n\
             redis.register_function('large', function(keys) redis.call('SET', keys[1], 'x') \
             local t = 'x' while true do t = t .. t end end)\n\
             redis.register_function('deep', function(keys) local function f() return 1 + f() end return f() end)\n\
             redis.register_function('fails', function(keys) redis.call('SET', keys[1], 'x') error('boo') end)",
        );
        let error = client.line("FCALL endless 1 k");
        assert!(
            error
                .error()
                .starts_with("ERR Script stopped after its budget of 60 ms script: endless, on @user_function:2."),
            "{error:?}"
        );
        let error = client.line("FCALL large 1 k");
        assert!(error.error().starts_with("ERR Script "), "{error:?}");
        assert!(client.line("FCALL deep 0").error().contains("stack overflow"));
        assert_eq!(client.line("EXISTS k").int(), 0);
        let error = client.line("FCALL fails 1 k");
        assert_eq!(
            error.error(),
            "ERR user_function:5: boo script: fails, on @user_function:5."
        );
        assert_eq!(client.line("GET k").text(), "x");
    }
}

#[test]
fn functions_are_shown_while_they_run_and_killed() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers, "--set", "script.budget_ms=30000"]);
        let address = node.listen();
        let mut client = node.client();
        load(
            &mut client,
            &library("redis.call('SET', keys[1], 'x') while true do end"),
        );
        assert_eq!(
            client.line("FUNCTION KILL").error(),
            "NOTBUSY No scripts in execution right now."
        );
        let running = std::thread::spawn(move || Client::connect(address).line("FCALL F 1 k argument"));
        until("the function is shown", || {
            !client.line("FUNCTION STATS").field("running_script").is_null()
        });
        let stats = client.line("FUNCTION STATS");
        let shown = stats.field("running_script");
        assert_eq!(shown.field("name").text(), "f");
        let command: Vec<&str> = shown.field("command").items().iter().map(Value::text).collect();
        assert_eq!(command, ["FCALL", "F", "1", "k", "argument"]);
        assert!((0..20_000).contains(&shown.field("duration_ms").int()));
        let counts = stats.field("engines").field("LUA");
        assert_eq!(
            (
                counts.field("libraries_count").int(),
                counts.field("functions_count").int()
            ),
            (1, 1)
        );
        let busy = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
        assert_eq!(client.line("SCRIPT KILL").error(), busy);
        assert_eq!(client.line("FUNCTION KILL").text(), "OK");
        let killed = "ERR Script killed by user with FUNCTION KILL... script: f, on @user_function:2.";
        assert_eq!(running.join().unwrap().error(), killed);
        assert_eq!(client.line("EXISTS k").int(), 0);
        // A script is not the business of FUNCTION KILL.
        let running = std::thread::spawn(move || Client::connect(address).command(&["EVAL", "while true do end", "0"]));
        let busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
        until("the script runs", || client.line("FUNCTION KILL").error() == busy);
        assert!(client.line("FUNCTION STATS").field("running_script").is_null());
        assert_eq!(client.line("SCRIPT KILL").text(), "OK");
        let error = running.join().unwrap();
        assert!(
            error
                .error()
                .starts_with("ERR Script killed by user with SCRIPT KILL..."),
            "{error:?}"
        );
        assert!(client.line("FUNCTION STATS").field("running_script").is_null());
    }
}

#[test]
fn a_function_that_runs_goes_on_when_its_library_is_replaced() {
    let node = Node::start(&["--workers", "1", "--set", "script.budget_ms=30000"]);
    let address = node.listen();
    let mut client = node.client();
    load(&mut client, &library("for i = 1, 3e7 do end return 'old'"));
    let running = std::thread::spawn(move || Client::connect(address).line("FCALL f 0"));
    until("the function runs", || {
        !client.line("FUNCTION STATS").field("running_script").is_null()
    });
    load(&mut client, &library("return 'new'"));
    assert_eq!(client.line("FCALL f 0").text(), "new");
    assert_eq!(running.join().unwrap().text(), "old");
}

#[test]
fn hostile_libraries_are_refused_and_the_node_goes_on() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers, "--set", "script.budget_ms=1000"]);
        let address = node.listen();
        let mut client = node.client();
        load(&mut client, &library("return 'first'"));
        let with = |body: &str| {
            format!("#!lua name=lib\n{body}\nredis.register_function('f', function() return 'second' end)")
        };
        // Others are served while one loads.
        let endless = with("while true do end");
        let loading = std::thread::spawn(move || load(&mut Client::connect(address), &endless));
        let (started, mut served, mut longest) = (Instant::now(), 0, Duration::ZERO);
        while !loading.is_finished() {
            let asked = Instant::now();
            assert_eq!(client.line("FCALL f 0").text(), "first");
            (served, longest) = (served + 1, longest.max(asked.elapsed()));
            assert!(started.elapsed() < Duration::from_secs(20));
        }
        let error = loading.join().unwrap();
        assert!(
            error
                .error()
                .starts_with("ERR Script stopped after its budget of 1000 ms"),
            "{error:?}"
        );
        assert!(served > 5, "{served} commands, the longest took {longest:?}");
        for (body, expected) in [
            (
                "local t = 'x' while true do t = t .. t end",
                "ERR Script needs more memory",
            ),
            ("local t = {} for i = 1, 1e9 do t[i] = {i} end", "ERR Script "),
            (
                "local function f() return 1 + f() end f()",
                "ERR Error registering functions: ERR user_function:2: stack overflow",
            ),
            (
                "local t = ('x'):rep(1e9)",
                "ERR Error registering functions: ERR user_function:2: resulting string too large",
            ),
            ("return (('x'):rep(1e6)):find(('.-'):rep(100) .. 'y')", "ERR "),
            (
                "for i = 1, 1e9 do redis.register_function('f' .. i, function() end) end",
                "ERR too many libraries of functions, at most 1000 of 16777216 bytes together",
            ),
            (
                "local d = ('d'):rep(1e6) for i = 1, 1e9 do redis.register_function{function_name='f' .. i, \
                 callback=function() end, description=d} end",
                "ERR too many libraries of functions",
            ),
        ] {
            let error = load(&mut client, &with(body));
            assert!(error.error().starts_with(expected), "{body}: {error:?}");
            assert_eq!(client.line("FCALL f 0").text(), "first", "{body}");
        }
        let nested = with(&format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000)));
        assert!(
            load(&mut client, &nested)
                .error()
                .starts_with("ERR Error compiling function: user_function:")
        );
        let long = with(&format!("-- {}", "x".repeat(1 << 20)));
        assert!(load(&mut client, &long).error().contains("a script may have 262144"));
        assert_eq!(client.line("FUNCTION LIST").items().len(), 1);
        assert_eq!(load(&mut client, &with("")).text(), "lib");
        assert_eq!(client.line("FCALL f 0").text(), "second");
        until("the bounds are counted", || {
            let hits = |limit: &str| node.metric(&format!("tollgate_limit_hit_total{{limit=\"{limit}\"}}"));
            hits("library_bytes") == Some(2.0)
                && hits("script_budget_ms") >= Some(1.0)
                && hits("script_memory_bytes") >= Some(1.0)
        });
    }
}

#[test]
fn a_load_can_be_killed() {
    let node = Node::start(&["--workers", "1", "--set", "script.budget_ms=30000"]);
    let address = node.listen();
    let mut client = node.client();
    let endless = "#!lua name=slow\nwhile true do end";
    let loading = std::thread::spawn(move || load(&mut Client::connect(address), endless));
    until("it loads", || !client.line("FUNCTION KILL").is_error());
    let error = loading.join().unwrap();
    let killed = "ERR Script killed by user with FUNCTION KILL... script: slow, on @user_function:";
    assert!(error.error().starts_with(killed), "{error:?}");
}

#[test]
fn libraries_have_bounds() {
    let node = Node::start(&[
        "--workers",
        "2",
        "--set",
        "limits.libraries=3",
        "--set",
        "limits.library_bytes=64KiB",
        "--set",
        "limits.compiled_scripts=2",
    ]);
    let mut client = node.client();
    let named = |name: &str, more: &str| {
        format!("#!lua name={name}\nredis.register_function('{name}', function() return '{name}' end) {more}")
    };
    for name in ["a", "b", "c", "c"] {
        assert_eq!(load(&mut client, &named(name, "")).text(), name);
    }
    let too_many = "ERR too many libraries of functions, at most 3 of 65536 bytes together; FUNCTION DELETE and FUNCTION FLUSH forget them";
    assert_eq!(load(&mut client, &named("d", "")).error(), too_many);
    assert_eq!(
        load(&mut client, &named("a", &format!("--{}", "x".repeat(1 << 16)))).error(),
        too_many
    );
    assert_eq!(
        client.command(&["FUNCTION", "RESTORE", &"x".repeat(1 << 17)]).error(),
        too_many
    );
    // More than are kept compiled: they are compiled again.
    for _ in 0..3 {
        for name in ["a", "b", "c"] {
            assert_eq!(client.line(&format!("FCALL {name} 0")).text(), name);
        }
    }
    client.line("FUNCTION DELETE b");
    assert_eq!(load(&mut client, &named("d", "")).text(), "d");
    until("the bounds are counted", || {
        let hits = |limit: &str| node.metric(&format!("tollgate_limit_hit_total{{limit=\"{limit}\"}}"));
        hits("libraries") == Some(1.0) && hits("library_bytes") == Some(2.0) && hits("compiled_scripts") >= Some(1.0)
    });
    let info = client.line("INFO memory");
    for line in ["number_of_libraries:3", "number_of_functions:3"] {
        assert!(info.text().contains(line), "{}", info.text());
    }
}

#[test]
fn calls_do_not_see_each_other() {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    load(
        &mut client,
        "#!lua name=lib\nlocal count, all = 0, {}\n\
         redis.register_function('f', function(keys, args) count = count + 1 all[#all + 1] = args[1] return {count, #all} end)",
    );
    for _ in 0..5 {
        let reply = client.line("FCALL f 0 x");
        assert_eq!(reply.items(), [Value::Int(1), Value::Int(1)]);
    }
}

#[test]
fn a_damaged_payload_changes_nothing() {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    load(&mut client, &library("return 'whole'"));
    load(
        &mut client,
        "#!lua name=other\nredis.register_function{function_name='g', callback=function() end, flags={'no-writes'}}",
    );
    let Value::Bulk(payload) = client.line("FUNCTION DUMP") else {
        panic!("no payload")
    };
    let before = client.line("FUNCTION LIST WITHCODE");
    let mut restore = |payload: &[u8], policy: &[u8]| client.command(&[&b"FUNCTION"[..], b"RESTORE", payload, policy]);
    for at in 0..payload.len() {
        for flip in [1, 0x20, 0x80, 0xff] {
            let mut damaged = payload.clone();
            damaged[at] ^= flip;
            let error = restore(&damaged, b"FLUSH");
            assert_eq!(
                error.error(),
                "ERR DUMP payload version or checksum are wrong",
                "{at} {flip}"
            );
        }
        assert!(restore(&payload[..at], b"REPLACE").is_error(), "{at}");
    }
    assert_eq!(restore(&payload, b"APPEND").error(), "ERR Library lib already exists");
    assert_eq!(restore(&payload, b"REPLACE").text(), "OK");
    assert_eq!(client.line("FUNCTION LIST WITHCODE"), before);
    client.line("FUNCTION FLUSH");
    assert_eq!(client.command(&[&b"FUNCTION"[..], b"RESTORE", &payload]).text(), "OK");
    assert_eq!(client.line("FUNCTION LIST WITHCODE"), before);
    assert_eq!(client.line("FUNCTION DUMP"), Value::Bulk(payload.clone()));
    assert_eq!(client.line("FCALL f 0").text(), "whole");
    // Of another node, and of none.
    let other = Node::start(&["--workers", "1"]);
    let mut client = other.client();
    let Value::Bulk(empty) = client.line("FUNCTION DUMP") else {
        panic!("no payload")
    };
    assert_eq!(client.command(&[&b"FUNCTION"[..], b"RESTORE", &payload]).text(), "OK");
    assert_eq!(client.line("FCALL f 0").text(), "whole");
    assert_eq!(
        client.command(&[&b"FUNCTION"[..], b"RESTORE", &empty, b"FLUSH"]).text(),
        "OK"
    );
    assert!(client.line("FUNCTION LIST").items().is_empty());
}

#[test]
fn a_transaction_with_libraries_starts_again_as_if_it_had_not_begun() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers]);
        let mut client = node.client();
        for round in 0..10 {
            client.line("FUNCTION FLUSH");
            load(
                &mut client,
                "#!lua name=old\nredis.register_function('old', function() return 'old' end)",
            );
            client.line("MULTI");
            client.line("FUNCTION DELETE old");
            // Without REPLACE: it must not be there already when all begins again for the keys of the calls.
            let code = library("redis.call('INCR', args[1]) return redis.call('INCR', args[2])");
            client.command(&["FUNCTION", "LOAD", &code]);
            client.line("INCR count");
            client.line(&format!("FCALL f 0 x{round} y{round}"));
            client.line(&format!("FCALL f 0 z{round} y{round}"));
            client.line("FCALL old 0");
            let replies = client.line("EXEC");
            let replies = replies.items();
            assert_eq!(replies[0].text(), "OK");
            assert_eq!(replies[1].text(), "lib");
            let counts: Vec<i64> = replies[2..5].iter().map(Value::int).collect();
            assert_eq!(counts, [round + 1, 1, 2]);
            assert_eq!(replies[5].error(), "ERR Function not found");
            assert_eq!(client.line(&format!("GET x{round}")).text(), "1");
        }
    }
}
