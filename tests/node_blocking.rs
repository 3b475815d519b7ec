//! BLPOP and its kin, on one worker and on several.

use std::time::{Duration, Instant};
use tollgate_suite::{Client, Node, RedisServer, Value, skip_without, until_blocked};

#[test]
fn what_is_there_is_taken_at_once() {
    for node in Node::of_each_size(&[]) {
        let mut client = node.client();
        client.line("RPUSH b 1 2 3");
        assert_eq!(client.line("BLPOP a b 0").items()[1].text(), "1");
        assert_eq!(client.line("BRPOP a b 0").items()[1].text(), "3");
        assert_eq!(client.line("BLMOVE b c LEFT RIGHT 0").text(), "2");
        assert_eq!(client.line("BRPOPLPUSH c d 0").text(), "2");
        client.line("ZADD z 1 x 2 y 3 w");
        assert_eq!(client.line("BZPOPMIN a z 0").items()[1].text(), "x");
        assert_eq!(client.line("BZPOPMAX a z 0").items()[1].text(), "w");
        assert_eq!(client.line("BZMPOP 0 2 a z MIN").items()[0].text(), "z");
        client.line("RPUSH l 1 2 3 4");
        assert_eq!(client.line("BLMPOP 0 2 a l RIGHT COUNT 3").items()[1].items().len(), 3);
        assert_eq!(client.line("DBSIZE").int(), 2);
    }
}

#[test]
fn a_push_wakes_the_one_that_waits_longest() {
    for node in Node::of_each_size(&[]) {
        let mut client = node.client();
        let mut waiting: Vec<Client> = (0..4).map(|_| node.client()).collect();
        for (number, waiter) in waiting.iter_mut().enumerate() {
            waiter.send(&["BLPOP", "other", "q", "0"]);
            until_blocked(&mut client, number + 1);
        }
        client.line("RPUSH q 0 1");
        assert_eq!(waiting[0].receive().items()[1].text(), "0");
        assert_eq!(waiting[1].receive().items()[1].text(), "1");
        until_blocked(&mut client, 2);
        // In a script and in a transaction, too.
        client.command(&["EVAL", "return redis.call('RPUSH', 'q', '2')", "0"]);
        assert_eq!(waiting[2].receive().items()[1].text(), "2");
        client.line("MULTI");
        client.line("RPUSH other 3");
        client.line("INCR n");
        client.line("EXEC");
        assert_eq!(waiting[3].receive().items()[0].text(), "other");
        until_blocked(&mut client, 0);
        assert_eq!(client.line("EXISTS q other").int(), 0);
    }
}

#[test]
fn waiting_ends_with_its_time_or_its_client() {
    for node in Node::of_each_size(&[]) {
        let (mut client, mut waiter) = (node.client(), node.client());
        let started = Instant::now();
        assert!(waiter.line("BLPOP a b 0.05").is_null());
        assert!(started.elapsed() >= Duration::from_millis(50));
        waiter.send(&["BLPOP", "a", "b", "0"]);
        until_blocked(&mut client, 1);
        drop(waiter);
        until_blocked(&mut client, 0);
        client.line("RPUSH a kept");
        assert_eq!(client.line("LLEN a").int(), 1);
        // What was sent behind it comes after it.
        let mut waiter = node.client();
        waiter.send(&["BRPOP", "none", "0"]);
        waiter.send(&["PING"]);
        until_blocked(&mut client, 1);
        client.line("LPUSH none x");
        assert_eq!(waiter.receive().items()[1].text(), "x");
        assert_eq!(waiter.receive().text(), "PONG");
    }
}

#[test]
fn a_call_that_is_of_no_use_is_passed_on() {
    for node in Node::of_each_size(&[]) {
        let mut client = node.client();
        let mut waiting: Vec<Client> = (0..3).map(|_| node.client()).collect();
        // It takes from src only.
        waiting[0].send(&["BLMOVE", "src", "dst", "LEFT", "LEFT", "0"]);
        until_blocked(&mut client, 1);
        waiting[1].send(&["BZPOPMIN", "dst", "0"]);
        until_blocked(&mut client, 2);
        waiting[2].send(&["BLPOP", "dst", "0"]);
        until_blocked(&mut client, 3);
        client.line("RPUSH dst x");
        assert_eq!(waiting[2].receive().items()[1].text(), "x");
        client.line("ZADD dst 1 y");
        assert_eq!(waiting[1].receive().items()[1].text(), "y");
        client.line("RPUSH src z");
        assert_eq!(waiting[0].receive().text(), "z");
    }
}

#[test]
fn replies_come_before_the_wait_and_a_client_that_left_is_noticed_behind_what_it_sent() {
    for node in Node::of_each_size(&[]) {
        let (mut client, mut waiter) = (node.client(), node.client());
        waiter.send_raw(b"INCR n\r\nBLPOP q 0\r\n");
        assert_eq!(waiter.receive().int(), 1);
        until_blocked(&mut client, 1);
        waiter.send(&["PING"]);
        std::thread::sleep(Duration::from_millis(20));
        drop(waiter);
        until_blocked(&mut client, 0);
        client.line("RPUSH q kept");
        assert_eq!(client.line("LLEN q").int(), 1);
    }
}

/// Every element that is pushed is popped once, whatever pushes and pops.
#[test]
fn nothing_is_popped_twice_or_lost() {
    const EACH: usize = 300;
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers, "--set", "limits.keys_wait_ms=20000"]);
        let address = node.listen();
        let popped = std::thread::scope(|scope| {
            let poppers: Vec<_> = (0..4)
                .map(|popper| {
                    scope.spawn(move || {
                        let mut client = Client::connect(address);
                        let mut popped = Vec::new();
                        loop {
                            let reply = match popper % 2 {
                                0 => client.line("BLPOP q1 q2 q3 0"),
                                _ => client.line("BRPOP q3 q1 q2 0"),
                            };
                            let element = reply.items()[1].text().to_owned();
                            if element == "end" {
                                return popped;
                            }
                            popped.push(element);
                        }
                    })
                })
                .collect();
            let pushers: Vec<_> = (0..3)
                .map(|pusher| {
                    scope.spawn(move || {
                        let mut client = Client::connect(address);
                        for number in 0..EACH {
                            let element = format!("{pusher}:{number}");
                            let queue = format!("q{}", 1 + (pusher + number) % 3);
                            match number % 3 {
                                0 => drop(client.command(&["RPUSH", &queue, &element])),
                                1 => drop(client.command(&[
                                    "EVAL",
                                    "return redis.call('LPUSH', ARGV[1], ARGV[2])",
                                    "0",
                                    &queue,
                                    &element,
                                ])),
                                _ => {
                                    client.command(&["RPUSH", "staging", &element]);
                                    client.command(&["LMOVE", "staging", &queue, "LEFT", "RIGHT"]);
                                }
                            }
                        }
                    })
                })
                .collect();
            for pusher in pushers {
                pusher.join().unwrap();
            }
            let mut client = Client::connect(address);
            for _ in 0..poppers.len() {
                // Behind all else in the list that both kinds look at last from their end.
                while ["q1", "q2", "q3"]
                    .iter()
                    .any(|queue| client.line(&format!("LLEN {queue}")).int() > 0)
                {}
                client.line("RPUSH q1 end");
            }
            poppers
                .into_iter()
                .flat_map(|popper| popper.join().unwrap())
                .collect::<Vec<_>>()
        });
        let mut popped = popped;
        popped.sort();
        let before = popped.len();
        popped.dedup();
        assert_eq!((popped.len(), before), (3 * EACH, 3 * EACH), "{workers} workers");
    }
}

#[test]
fn errors_and_what_transactions_get_are_as_of_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let (redis, node) = (RedisServer::start(&[]), Node::start(&["--workers", "2"]));
    let (mut reference, mut tested) = (redis.client(), node.client());
    let lines = [
        "SET s x",
        "BLPOP s 0.01",
        "BLPOP nothing s 0.01",
        "BLPOP a x",
        "BLPOP a -1",
        "BLPOP a",
        "BLMOVE a b LEFT MIDDLE x",
        "BLMOVE a b LEFT RIGHT x",
        "BLMOVE a s LEFT RIGHT 0.01",
        "BRPOPLPUSH a b 0.01",
        "BLMPOP x 1 a LEFT COUNT 0",
        "BLMPOP 0.01 0 a LEFT",
        "BLMPOP 0.01 1 a MIDDLE",
        "BLMPOP x 1 a LEFT",
        "BLMPOP 0.01 2 a LEFT",
        "BLMPOP 0.01 1 a LEFT COUNT 2",
        "BZPOPMIN s 0.01",
        "BZPOPMIN a 0.01",
        "BZMPOP 0.01 1 a MIN",
        "BZMPOP 0.01 1 a LEFT",
        "MULTI",
        "BLPOP a 0",
        "BLMOVE a b LEFT LEFT 0",
        "BRPOPLPUSH a b 0",
        "BLMPOP 0 1 a LEFT",
        "BZPOPMAX a 0",
        "BZMPOP 0 1 a MAX",
        "BLPOP a -1",
        "BLPOP s 0",
        "EXEC",
        "RPUSH l 1 2",
        "MULTI",
        "BLPOP a l 0",
        "BLMOVE l m LEFT LEFT 0",
        "EXEC",
        "LRANGE m 0 -1",
    ];
    for round in 0..2 {
        for line in lines {
            let (expected, answered): (Value, Value) = (reference.line(line), tested.line(line));
            assert_eq!(answered, expected, "{line}");
        }
        if round == 0 {
            for client in [&mut reference, &mut tested] {
                client.line("FLUSHALL");
                client.hello3();
            }
        }
    }
}
