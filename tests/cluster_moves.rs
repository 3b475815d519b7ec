//! Slots that move under load, while keys of them are held for longer than a slot that moves waits for that.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tollgate_suite::{Client, Draw, Node, Value, until};

/// Keys of each load.
const KEYS: usize = 60;
/// Keys of a transaction.
const EXEC_KEYS: usize = 1_500;
/// How long a script holds its key: longer than commands wait for a slot that moves.
const HELD: Duration = Duration::from_millis(700);
/// Between two commands of a load.
const PACE: Duration = Duration::from_millis(1);

/// A node with two workers: the first of its cluster, or one that joins another.
fn start(name: &str, seed: Option<&Node>) -> Node {
    let mut args = vec!["--name", name, "--workers", "2", "--peer", "127.0.0.1:0"];
    args.extend(["--set", "script.budget_ms=30000"]);
    let peer = seed.map(|seed| seed.peer().expect("a peer address").to_string());
    if let Some(peer) = &peer {
        args.extend(["--join", peer]);
    }
    Node::start(&args)
}

fn until_spread(nodes: &[&Node]) {
    until("the slots are spread", || {
        let slots = |node: &Node| node.metric("tollgate_slots_held").unwrap_or(0.0);
        let held: Vec<f64> = nodes.iter().map(|node| slots(node)).collect();
        let share = 16384.0 / nodes.len() as f64;
        held.iter().sum::<f64>() == 16384.0 && held.iter().all(|&held| held > 0.7 * share && held < 1.2 * share)
    });
}

/// What a client has been told of its own keys, which nobody else changes.
struct Keys {
    name: String,
    values: Vec<Option<String>>,
}

impl Keys {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: vec![None; KEYS],
        }
    }

    fn key(&self, index: usize) -> String {
        format!("{}:{index}", self.name)
    }

    /// Asserts that a reply is the value of a key.
    fn is_value(&self, index: usize, reply: &Value) {
        let read = (!reply.is_null()).then(|| reply.text().to_owned());
        assert_eq!(read, self.values[index], "{}", self.key(index));
    }

    /// Does one of some commands, and asserts that the reply is what it must be.
    fn step(&mut self, client: &mut Client, draw: &mut Draw, round: usize) {
        let index = draw.below(KEYS);
        let key = self.key(index);
        // A few keys, which are in several places.
        let some: Vec<usize> = (0..3).map(|i| (index + i * 7) % KEYS).collect();
        let there = some.iter().filter(|&&index| self.values[index].is_some()).count() as i64;
        let of_some = |name: &str| -> Vec<String> {
            let keys = some.iter().map(|&index| self.key(index));
            std::iter::once(name.to_owned()).chain(keys).collect()
        };
        let value = format!("{round}");
        match draw.below(6) {
            0 => {
                assert_eq!(client.command(&["SET", &key, &value]).text(), "OK");
                self.values[index] = Some(value);
            }
            1 => {
                let reply = client.command(&["GET", &key]);
                self.is_value(index, &reply);
            }
            2 => {
                assert_eq!(client.command(&of_some("DEL")).int(), there);
                some.iter().for_each(|&index| self.values[index] = None);
            }
            3 => assert_eq!(client.command(&of_some("EXISTS")).int(), there),
            4 => {
                let script = "return redis.call('SET', KEYS[1], ARGV[1])";
                assert_eq!(client.command(&["EVAL", script, "1", &key, &value]).text(), "OK");
                self.values[index] = Some(value);
            }
            _ => {
                // One after the other, wherever each is done.
                let commands: Vec<Vec<String>> = (0..40)
                    .map(|i| match i % 2 {
                        0 => vec!["SET".to_owned(), key.clone(), format!("{round}.{i}")],
                        _ => vec!["GET".to_owned(), key.clone()],
                    })
                    .collect();
                for (i, reply) in client.pipeline(&commands).iter().enumerate() {
                    match i % 2 {
                        0 => assert_eq!(reply.text(), "OK"),
                        _ => assert_eq!(reply.text(), format!("{round}.{}", i - 1)),
                    }
                }
                self.values[index] = Some(format!("{round}.38"));
            }
        }
    }
}

/// Tells loads to end when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A load that ends when it is told.
fn load_keys(address: SocketAddr, name: &str, stop: &AtomicBool) -> Keys {
    let mut client = Client::connect(address);
    let mut draw = Draw::new(name.bytes().map(u64::from).sum());
    let mut keys = Keys::new(name);
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        keys.step(&mut client, &mut draw, round);
        std::thread::sleep(PACE);
    }
    keys
}

/// Scripts that hold a key for long, one after the other; how often they have counted it up.
fn load_scripts(address: SocketAddr, key: &str, stop: &AtomicBool, held: &AtomicI64) -> i64 {
    const COUNT: &str =
        "for i = 1, tonumber(ARGV[1]) do redis.call('INCR', KEYS[1]) end return tonumber(redis.call('GET', KEYS[1]))";
    let mut client = Client::connect(address);
    let (mut sum, mut times) = (0, 1_000);
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let reply = client.command(&["EVAL", COUNT, "1", key, &times.to_string()]);
        sum += times;
        assert_eq!(reply.int(), sum, "{key}");
        let took = started.elapsed();
        if took >= HELD {
            held.fetch_add(1, Ordering::Relaxed);
        } else {
            // As long as it has to be on this machine.
            times = (times as f64 * (HELD.as_secs_f64() / took.as_secs_f64()).min(10.0) * 1.1) as i64;
        }
    }
    sum
}

/// Transactions over many keys of one slot, at one of these nodes, or at the next if that one refuses keys of another; the value of all of
/// them.
fn load_transactions(nodes: &Mutex<Vec<SocketAddr>>, tag: &str, stop: &AtomicBool) -> usize {
    let (mut round, mut at) = (0, 0);
    let connect = |at: usize| {
        let nodes = nodes.lock().expect("no load has panicked");
        Client::connect(nodes[at % nodes.len()])
    };
    let mut client = connect(at);
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let mut commands = vec![vec!["MULTI".to_owned()]];
        let key = |i: usize| format!("{{{tag}}}:{i}");
        commands.extend((0..EXEC_KEYS).map(|i| vec!["SET".to_owned(), key(i), round.to_string()]));
        commands.push(vec!["EXEC".to_owned()]);
        let replies = client.pipeline(&commands);
        let done = replies.last().expect("a reply to EXEC");
        if done.is_error() && done.error().starts_with("CROSSSLOT ") {
            (round, at) = (round - 1, at + 1);
            client = connect(at);
            continue;
        }
        assert!(!done.is_error(), "{}", done.error());
        assert_eq!(done.items().len(), EXEC_KEYS);
        std::thread::sleep(50 * PACE);
    }
    round
}

/// A load whose replies may be errors; it ends when it is told, and must not hang before.
fn load_loosely(address: SocketAddr, name: &str, stop: &AtomicBool) {
    let mut client = Client::connect(address);
    let mut draw = Draw::new(7);
    while !stop.load(Ordering::Relaxed) {
        let key = format!("loose:{name}:{}", draw.below(KEYS));
        let reply = client.command(&["SET", &key, "v"]);
        assert!(
            !reply.is_error() || reply.error().starts_with("CLUSTERDOWN "),
            "{}",
            reply.error()
        );
        let reply = client.line(&format!("RL.CHECK {key}:bucket LIMIT 1000000 PER 1h"));
        assert!(!reply.is_error(), "{}", reply.error());
        std::thread::sleep(PACE);
    }
}

#[test]
fn scenario_slots_move_while_their_keys_are_written_and_held_and_a_node_dies() {
    let stop = AtomicBool::new(false);
    let stop_loosely = AtomicBool::new(false);
    let held = AtomicI64::new(0);
    let nodes: &Mutex<Vec<SocketAddr>> = &Mutex::default();
    let mut a = start("a", None);
    std::thread::scope(|scope| {
        // The loads end also if something is not as it should be.
        let _ends = (Ends(&stop), Ends(&stop_loosely));
        let (stop, held, at_a) = (&stop, &held, a.listen());
        nodes.lock().expect("no load has panicked").push(at_a);
        let mut loads = vec![scope.spawn(move || load_keys(at_a, "a", stop))];
        let scripts: Vec<_> = ["held:1", "held:2"]
            .map(|key| (key, scope.spawn(move || load_scripts(at_a, key, stop, held))))
            .into();
        let transactions = scope.spawn(|| load_transactions(nodes, "exec", stop));
        until("keys are held for long", || held.load(Ordering::Relaxed) > 1);
        let mut b = start("b", Some(&a));
        let at_b = b.listen();
        nodes.lock().expect("no load has panicked").push(at_b);
        loads.push(scope.spawn(move || load_keys(at_b, "b", stop)));
        until_spread(&[&a, &b]);
        let mut c = start("c", Some(&b));
        let at_c = c.listen();
        nodes.lock().expect("no load has panicked").push(at_c);
        loads.push(scope.spawn(move || load_keys(at_c, "c", stop)));
        until_spread(&[&a, &b, &c]);
        stop.store(true, Ordering::Relaxed);
        let keys: Vec<Keys> = loads.into_iter().map(|load| load.join().expect("a load")).collect();
        let counts: Vec<(&str, i64)> = scripts
            .into_iter()
            .map(|(key, load)| (key, load.join().expect("scripts")))
            .collect();
        let round = transactions.join().expect("transactions");
        let expect_all = |address: SocketAddr| {
            let mut client = Client::connect(address);
            for keys in &keys {
                for index in 0..KEYS {
                    let reply = client.command(&["GET", &keys.key(index)]);
                    keys.is_value(index, &reply);
                }
            }
            for (key, count) in &counts {
                assert_eq!(client.command(&["GET", key]).text(), count.to_string(), "{key}");
            }
            for i in (0..EXEC_KEYS).step_by(97) {
                let key = format!("{{exec}}:{i}");
                assert_eq!(client.command(&["GET", &key]).text(), round.to_string());
            }
        };
        [at_a, at_b, at_c].into_iter().for_each(expect_all);
        // What has changed is with the heirs some 20 ms later.
        std::thread::sleep(Duration::from_millis(500));
        let stop_loosely = &stop_loosely;
        let loose = [(at_a, "a"), (at_b, "b")]
            .map(|(address, name)| scope.spawn(move || load_loosely(address, name, stop_loosely)));
        std::thread::sleep(Duration::from_millis(100));
        c.kill();
        until_spread(&[&a, &b]);
        stop_loosely.store(true, Ordering::Relaxed);
        for load in loose {
            load.join().expect("a load");
        }
        [at_a, at_b].into_iter().for_each(expect_all);
        // Nothing stays held, or closed.
        let mut client = Client::connect(at_b);
        for key in keys.iter().flat_map(|keys| (0..KEYS).map(|index| keys.key(index))) {
            assert_eq!(client.command(&["SET", &key, "free"]).text(), "OK");
        }
        for (key, count) in &counts {
            assert_eq!(client.command(&["INCR", key]).int(), count + 1);
        }
        for i in (0..EXEC_KEYS).step_by(97) {
            assert_eq!(client.command(&["SET", &format!("{{exec}}:{i}"), "free"]).text(), "OK");
        }
        assert!(b.is_running());
    });
    assert!(a.is_running());
}
