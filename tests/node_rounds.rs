//! Rounds: small turns that are ready together are done together, and each client gets its own replies.

use std::collections::VecDeque;
use std::time::Duration;
use tollgate_suite::{Client, Draw, Node, Value, encode_command, until_hit};

const CLIENTS: usize = 64;

fn metric(node: &Node, name: &str) -> u64 {
    let body = node.http("GET", "/metrics", "").body;
    let line = body.lines().find(|line| line.split(' ').next() == Some(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.and_then(|value| value.parse().ok()).expect(name)
}

/// Sends a request of each client before any reply is read, so that many are ready at the same time.
fn together(clients: &mut [Client], request: impl Fn(usize) -> String) -> Vec<Value> {
    for (number, client) in clients.iter_mut().enumerate() {
        let request = request(number);
        client.send(&request.split(' ').collect::<Vec<_>>());
    }
    clients.iter_mut().map(Client::receive).collect()
}

fn admitted(reply: &Value) -> i64 {
    reply.items()[0].int()
}

#[test]
fn one_limit_holds_over_the_clients_of_a_round() {
    for workers in ["1", "2"] {
        let node = Node::start(&["--workers", workers]);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| node.client()).collect();
        let mut sum = 0;
        for _ in 0..20 {
            sum += together(&mut clients, |_| "RL.CHECK one LIMIT 100 PER 30d".into())
                .iter()
                .map(admitted)
                .sum::<i64>();
        }
        assert_eq!(sum, 100, "{workers} workers");
        let (rounds, turns) = (
            metric(&node, "tollgate_rounds_total"),
            metric(&node, "tollgate_round_turns_total"),
        );
        assert!(rounds > 0 && turns > rounds, "{turns} turns in {rounds} rounds");
        if workers == "1" {
            assert_eq!(turns, 20 * CLIENTS as u64);
        }
    }
}

#[test]
fn each_client_of_a_round_has_its_protocol_database_and_replies() {
    let node = Node::start(&["--workers", "1"]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| node.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        if number % 2 == 1 {
            client.hello3();
        }
        assert_eq!(client.line(&format!("SELECT {}", number % 16)).text(), "OK");
    }
    for turn in 1..=8 {
        let replies = together(&mut clients, |number| {
            if number % 3 == 0 {
                format!("RL.CHECK k LIMIT {} PER 30d", 1_000 + number)
            } else {
                format!("RL.CHECK k:{number} LIMIT {} PER 30d", 1_000 + number)
            }
        });
        for (number, reply) in replies.iter().enumerate() {
            let limit = 1_000 + number as i64;
            let (shown, remaining) = if number % 2 == 1 {
                (reply.field("limit").int(), reply.field("remaining").int())
            } else {
                (reply.items()[1].int(), reply.items()[2].int())
            };
            assert_eq!(shown, limit, "client {number}");
            if number % 3 != 0 {
                assert_eq!(remaining, limit - turn, "client {number}");
            }
        }
    }
    // Those with a common key have it by database: 22 clients share 16 databases.
    let mut used = [0; 16];
    (0..CLIENTS)
        .filter(|number| number % 3 == 0)
        .for_each(|number| used[number % 16] += 8);
    for (db, used) in used.iter().enumerate().filter(|(_, used)| **used > 0) {
        let mut client = node.client();
        client.line(&format!("SELECT {db}"));
        let reply = client.line("RL.CHECK k LIMIT 1000 PER 30d PEEK");
        assert_eq!(reply.items()[2].int(), 1_000 - used, "database {db}");
    }
}

#[test]
fn a_client_that_goes_on_before_its_round_is_decided_gets_its_replies_in_order() {
    let node = Node::start(&["--workers", "1"]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| node.client()).collect();
    for turn in 0..50 {
        for client in &mut clients {
            client.send(&["RL.CHECK", "shared", "LIMIT", "1000000", "PER", "30d"]);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&["ECHO", &format!("{turn}:{number}")]);
            client.send(&["RL.CHECK", "other", "LIMIT", "1000000", "PER", "30d"]);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(admitted(&client.receive()), 1);
            assert_eq!(client.receive().text(), format!("{turn}:{number}"));
            assert_eq!(admitted(&client.receive()), 1);
        }
    }
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_reply() {
    let node = Node::start(&["--workers", "1"]);
    for _ in 0..50 {
        let mut clients: Vec<Client> = (0..8).map(|_| node.client()).collect();
        for client in &mut clients {
            client.send(&["RL.CHECK", "k", "LIMIT", "1000000", "PER", "30d"]);
            client.shutdown_write();
        }
        for client in &mut clients {
            let reply = client.receive_to_end();
            assert!(
                reply.starts_with(b"*6\r\n:1\r\n"),
                "{:?}",
                String::from_utf8_lossy(&reply)
            );
        }
    }
}

#[test]
fn clients_that_vanish_cost_the_others_nothing() {
    let node = Node::start(&["--workers", "1"]);
    let mut staying: Vec<Client> = (0..16).map(|_| node.client()).collect();
    for _ in 0..50 {
        let mut vanishing: Vec<Client> = (0..16).map(|_| node.client()).collect();
        for client in &mut vanishing {
            client.send(&["RL.CHECK", "gone", "LIMIT", "1000000", "PER", "30d"]);
        }
        drop(vanishing);
        let replies = together(&mut staying, |number| {
            format!("RL.CHECK stays:{number} LIMIT 1000 PER 30d")
        });
        assert!(replies.iter().all(|reply| admitted(reply) == 1));
    }
}

#[test]
fn custom_policies_stay_out_of_rounds_and_in_order() {
    let node = Node::start(&["--workers", "1", "--lua", "lua/examples"]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| node.client()).collect();
    for _ in 0..10 {
        let replies = together(&mut clients, |number| {
            let policy = if number % 2 == 0 { "penalty_box" } else { "token_bucket" };
            format!("RL.CHECK k:{number} LIMIT 5 PER 30d POLICY {policy}")
        });
        assert!(replies.iter().all(|reply| reply.items()[1].int() == 5));
    }
    assert_eq!(metric(&node, "tollgate_round_turns_total"), 10 * CLIENTS as u64 / 2);
}

#[test]
fn a_drain_answers_whole_or_not_at_all() {
    for _ in 0..10 {
        let mut node = Node::start(&["--workers", "1"]);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| node.client()).collect();
        for client in &mut clients {
            assert_eq!(client.line("PING").text(), "PONG");
        }
        for client in &mut clients {
            client.send(&["RL.CHECK", "k", "LIMIT", "1000000", "PER", "30d"]);
        }
        // Some are read before the signal is, some are not, and some are in a round just then.
        assert!(node.stop().success());
        for client in &mut clients {
            let reply = client.receive_to_end();
            let whole = reply.starts_with(b"*6\r\n:1\r\n") && reply.ends_with(b"$5\r\nowner\r\n");
            assert!(whole || reply.is_empty(), "{:?}", String::from_utf8_lossy(&reply));
        }
    }
}

#[test]
fn every_command_of_a_long_turn_is_counted() {
    let node = Node::start(&["--workers", "1"]);
    let mut client = node.client();
    // More than a turn keeps before it sends, then checks that could join a round.
    let mut commands = vec![vec!["COMMAND", "DOCS"]; 100];
    commands.extend(vec![vec!["RL.CHECK", "k", "LIMIT", "10", "PER", "30d"]; 3]);
    let before = metric(&node, "tollgate_commands_total");
    let replies = client.pipeline(&commands);
    assert!(
        replies[..100]
            .iter()
            .map(|reply| format!("{reply:?}").len())
            .sum::<usize>()
            > 1 << 20
    );
    assert_eq!(metric(&node, "tollgate_commands_total"), before + 103);
}

/// A client with a counter of its own, and the replies that it has to get.
struct Counting {
    client: Client,
    number: usize,
    count: i64,
    /// In order: an integer, or a text.
    expected: VecDeque<Result<i64, String>>,
}

impl Counting {
    /// A request on the counter, or on nothing, and the reply to expect.
    fn request(&mut self, draw: &mut Draw) -> Vec<u8> {
        let key = format!("count:{}", self.number);
        let (words, reply) = match draw.below(10) {
            0..=3 => {
                self.count += 1;
                (vec!["INCR".to_owned(), key], Ok(self.count))
            }
            4 => (vec!["GET".into(), key], Err(self.count.to_string())),
            5 => (vec!["ECHO".into(), key.clone()], Err(key)),
            6 => (
                format!("RL.CHECK limit:{} LIMIT 1000000 PER 30d", self.number)
                    .split(' ')
                    .map(str::to_owned)
                    .collect(),
                Err(String::new()),
            ),
            7 => (vec!["EXISTS".into(), key.clone(), key.clone(), "nothing".into()], Ok(2)),
            8 => {
                self.count += 1;
                let script = "return redis.call('INCR', KEYS[1])";
                (["EVAL", script, "1", &key].map(str::to_owned).to_vec(), Ok(self.count))
            }
            _ => {
                // It takes several slices.
                let script =
                    "local n = 0 for i = 1, 100000 do n = n + i % 7 end return redis.call('INCRBY', KEYS[1], 2)";
                self.count += 2;
                (["EVAL", script, "1", &key].map(str::to_owned).to_vec(), Ok(self.count))
            }
        };
        self.expected.push_back(reply);
        encode_command(&words)
    }

    fn check(&mut self) {
        let reply = self.client.receive();
        match self.expected.pop_front().expect("a reply that was asked for") {
            Ok(number) => assert_eq!(reply.int(), number, "client {}", self.number),
            Err(text) if text.is_empty() => assert_eq!(admitted(&reply), 1),
            Err(text) => assert_eq!(reply.text(), text, "client {}", self.number),
        }
    }
}

#[test]
fn turns_of_any_size_are_answered_in_order_whatever_is_in_them() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers]);
        let mut draw = Draw::new(7);
        let mut clients: Vec<Counting> = (0..CLIENTS)
            .map(|number| {
                let mut client = node.client();
                client.line(&format!("SET count:{number} 0"));
                Counting {
                    client,
                    number,
                    count: 0,
                    expected: VecDeque::new(),
                }
            })
            .collect();
        for _ in 0..60 {
            for counting in &mut clients {
                // Most turns have one command, some several, and some end in the middle of one.
                let commands = if draw.one_in(4) { 1 + draw.below(12) } else { 1 };
                let bytes: Vec<u8> = (0..commands).flat_map(|_| counting.request(&mut draw)).collect();
                let cut = if draw.one_in(3) {
                    draw.below(bytes.len())
                } else {
                    bytes.len()
                };
                counting.client.send_raw(&bytes[..cut]);
                if cut < bytes.len() {
                    counting.client.send_raw(&bytes[cut..]);
                }
            }
            for counting in &mut clients {
                while counting.expected.len() > draw.below(4) {
                    counting.check();
                }
            }
        }
        for counting in &mut clients {
            while !counting.expected.is_empty() {
                counting.check();
            }
        }
        assert!(metric(&node, "tollgate_rounds_total") > 0);
    }
}

#[test]
fn a_reply_that_takes_long_comes_before_the_next() {
    for workers in ["1", "3"] {
        let patient = [
            "--set",
            "script.budget_ms=30000",
            "--set",
            "node.drain_ms=60000",
            "--set",
            "limits.keys_wait_ms=60000",
        ];
        let mut node = Node::start(&[&["--workers", workers][..], &patient].concat());
        let slow = "local n = 0 for i = 1, 20000000 do n = n + i % 7 end return redis.call('INCR', KEYS[1])";
        let mut clients: Vec<Client> = (0..4).map(|_| node.client()).collect();
        for client in &mut clients {
            client.send(&["EVAL", slow, "1", "slow"]);
        }
        // Others are answered meanwhile, on the same worker too.
        let mut others: Vec<Client> = (0..4).map(|_| node.client()).collect();
        for client in &mut others {
            assert!(client.line("INCR other").int() > 0);
        }
        for client in &mut clients {
            client.send(&["GET", "slow"]);
            assert!(client.is_silent_for(Duration::from_millis(50)));
        }
        let mut counts: Vec<i64> = clients
            .iter_mut()
            .map(|client| {
                let count = client.receive().int();
                assert!(client.receive().text().parse::<i64>().expect("a number") >= count);
                count
            })
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 2, 3, 4]);
        // Asked to end, it still answers what it has read.
        for client in &mut clients {
            client.send(&["EVAL", slow, "1", "slow"]);
            assert!(client.is_silent_for(Duration::from_millis(50)));
        }
        node.signal("TERM");
        let mut counts: Vec<i64> = clients.iter_mut().map(|client| client.receive().int()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [5, 6, 7, 8]);
        assert!(node.wait().success());
    }
}

#[test]
fn a_small_turn_may_have_large_replies() {
    let node = Node::start(&["--workers", "1", "--set", "limits.output_bytes=4MiB"]);
    let mut client = node.client();
    let value = "v".repeat(3 << 20);
    assert_eq!(client.command(&["SET", "large", &value]).text(), "OK");
    // Each reply is within the bound, all together are not.
    let turn = "GET large\r\n".repeat(20) + "ECHO middle\r\nGET large\r\nGET other\r\nECHO end\r\n";
    for _ in 0..2 {
        client.send_raw(turn.as_bytes());
        for _ in 0..20 {
            assert_eq!(client.receive().text().len(), value.len());
        }
        assert_eq!(client.receive().text(), "middle");
        assert_eq!(client.receive().text().len(), value.len());
        assert!(client.receive().is_null());
        assert_eq!(client.receive().text(), "end");
        let turn = "GET large\r\n".repeat(5);
        client.send_raw(turn.as_bytes());
        for _ in 0..5 {
            assert_eq!(client.receive().text().len(), value.len());
        }
    }
}

#[test]
fn a_client_that_is_given_up_gets_and_does_nothing_more() {
    let node = Node::start(&["--workers", "1", "--set", "limits.output_bytes=1MiB"]);
    let mut other = node.client();
    for part in ["a", "b"] {
        assert_eq!(other.command(&["SET", part, &"v".repeat(700_000)]).text(), "OK");
    }
    for _ in 0..20 {
        let mut client = node.client();
        client.send(&["MGET", "a", "b"]);
        client.send(&["SET", "written", "1"]);
        assert!(client.receive_to_end().is_empty());
    }
    assert_eq!(other.line("EXISTS written").int(), 0);
    until_hit(&node, "output_bytes", 20.0);
}

#[test]
fn a_client_that_was_killed_runs_nothing_that_waits() {
    let node = Node::start(&["--workers", "1", "--set", "script.budget_ms=30000"]);
    let slow = "local n = 0 for i = 1, 30000000 do n = n + i % 7 end return redis.call('SET', KEYS[1], 1)";
    let mut holder = node.client();
    holder.send(&["EVAL", slow, "1", "held"]);
    let mut waiting = node.client();
    let id = waiting.line("CLIENT ID").int();
    // It waits for the key, and has more to do.
    waiting.send_raw(b"APPEND held x\r\nSET written 1\r\n");
    assert!(waiting.is_silent_for(Duration::from_millis(50)));
    let mut other = node.client();
    assert_eq!(other.line(&format!("CLIENT KILL ID {id}")).int(), 1);
    assert_eq!(holder.receive().text(), "OK");
    assert!(waiting.receive_to_end().is_empty());
    assert_eq!(other.line("EXISTS written").int(), 0);
}
