//! Real client libraries beside the load, each in a process of its own.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tollgate_suite::find_tool;

use crate::load::Target;
use crate::oracle::{Check, Quota, Source};
use crate::outcome::{Fault, Records};

/// Commands a second.
const RATE: u32 = 60;
/// Keys of each kind of check.
const KEYS: usize = 20;

/// A client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// redis-py, through the default face.
    RedisPy,
    /// ioredis as a client of Redis Cluster.
    Ioredis,
    /// `redis-cli -c`. It stays with the node to which it was sent last, and gives up when that one ends.
    RedisCli,
}

impl Library {
    pub fn name(self) -> &'static str {
        match self {
            Self::RedisPy => "redis-py",
            Self::Ioredis => "ioredis cluster",
            Self::RedisCli => "redis-cli -c",
        }
    }

    /// The program that runs it; none if the runner has not set up what it needs, but in CI it has to.
    fn program(self) -> Option<Command> {
        let (variable, file) = match self {
            Self::RedisPy => ("SCENARIO_PYTHON", "second_client.py"),
            Self::Ioredis => ("SCENARIO_NODE_PATH", "ioredis_cluster.cjs"),
            Self::RedisCli => ("SCENARIO_PYTHON", "redis_cli_cluster.py"),
        };
        let found = std::env::var_os(variable).filter(|_| self != Self::RedisCli || find_tool("redis-cli").is_some());
        let Some(found) = found else {
            let in_ci = std::env::var("CI").is_ok_and(|value| value == "1" || value == "true");
            assert!(!in_ci, "tests/run.py sets up what {} needs", self.name());
            println!("without {}: what it needs is not set up", self.name());
            return None;
        };
        let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/cluster_scenarios", file]
            .iter()
            .collect();
        let mut command = match self {
            Self::Ioredis => {
                let mut node = Command::new("node");
                node.env("NODE_PATH", found);
                node
            }
            Self::RedisPy | Self::RedisCli => Command::new(found),
        };
        command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
        Some(command)
    }
}

/// A client library in a process of its own.
pub struct SecondClient {
    pub library: Library,
    child: Child,
    orders: Option<ChildStdin>,
}

impl SecondClient {
    /// Starts it, if what it needs is there. Times count from `began`.
    pub fn start(library: Library, quota: Quota, began: Instant, targets: &[Target]) -> Option<Self> {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
        let began_us = now_us - began.elapsed().as_micros() as u64;
        let numbers = [
            quota.limit,
            quota.window.as_millis() as u64,
            quota.burst,
            RATE.into(),
            began_us,
        ];
        let mut child = library
            .program()?
            .args(numbers.map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let orders = child.stdin.take();
        let mut client = Self { library, child, orders };
        client.set_targets(targets);
        Some(client)
    }

    /// It uses these nodes from its next command on.
    pub fn set_targets(&mut self, targets: &[Target]) {
        let targets: Vec<_> = targets.iter().map(|target| (&target.name, target.at.port())).collect();
        self.say(&serde_json::json!({ "targets": targets }).to_string());
    }

    fn say(&mut self, line: &str) {
        let orders = self.orders.as_mut().expect("it is told nothing after its end");
        writeln!(orders, "{line}").expect("it runs");
    }

    /// Ends it, and returns what it has seen.
    pub fn end(mut self) -> Records {
        self.say("");
        drop(self.orders.take());
        let mut text = String::new();
        let mut out = self.child.stdout.take().expect("a pipe");
        std::io::Read::read_to_string(&mut out, &mut text).expect("text");
        let status = self.child.wait().expect("it can be waited for");
        assert!(status.success(), "{} ended with {status}", self.library.name());
        read(&serde_json::from_str(&text).expect("JSON"))
    }
}

impl Drop for SecondClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(seen: &serde_json::Value) -> Records {
    let list = |name: &str| seen[name].as_array().unwrap_or_else(|| panic!("no {name}"));
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let mut records = Records::new(KEYS, KEYS);
    for (name, checks) in [("checks", &mut records.checks), ("throttles", &mut records.throttles)] {
        for check in list(name) {
            checks[number(&check[0]) as usize].push(Check {
                sent_us: number(&check[1]),
                replied_us: number(&check[2]),
                cost: number(&check[3]),
                allowed: check[4].as_bool().expect("true or false"),
                source: Source::named(&text(&check[5])),
            });
        }
    }
    for fault in list("faults") {
        records.faults.push(Fault {
            at_us: number(&fault[0]),
            node: text(&fault[1]),
            is_check: fault[2].as_bool().expect("true or false"),
            text: text(&fault[3]),
        });
    }
    for latency in list("latencies") {
        let of_node = records.latencies_us.entry(text(&latency[0])).or_default();
        of_node.push((number(&latency[1]), number(&latency[2]) as u32));
    }
    let pairs = |name: &str| {
        list(name)
            .iter()
            .map(|pair| (number(&pair[0]), number(&pair[1])))
            .collect()
    };
    records.lost = pairs("lost");
    records.doubled = pairs("doubled");
    records.others = number(&seen["others"]);
    records.unknown = number(&seen["unknown"]);
    records
}
