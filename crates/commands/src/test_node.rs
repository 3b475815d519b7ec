//! A node for unit tests.

use crate::node_view::{About, ClientInfo, NodeView, PolicyLabel, Totals};
use crate::{
    ClusterNode, CommandError, Delivery, Env, Functions, FunctionsLimits, KeyspaceLimits, LatencyMonitor, PubSub,
    Scripts, ScriptsLimits, Session, SlowLog, Topology, WhenFull,
};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use tollgate_limiter::RuleSet;
use tollgate_protocol::{Proto, Request};

/// A node that is given its answers.
pub(crate) struct TestNode {
    pub about: About,
    pub password: Option<Vec<u8>>,
    pub rules: Arc<RuleSet>,
    pub clients: Vec<ClientInfo>,
    pub closed: RefCell<Vec<u64>>,
    pub scripts: Scripts,
    pub functions: Functions,
    pub pubsub: Arc<PubSub>,
    pub delivered: RefCell<Vec<(usize, Delivery)>>,
    /// Each pause, and nothing for its end.
    pub paused: RefCell<Vec<Option<(u64, bool)>>>,
    pub slowlog: SlowLog,
    pub latency: LatencyMonitor,
    pub shown: RefCell<Option<Vec<u8>>>,
    pub topology: Option<Topology>,
}

impl Default for TestNode {
    fn default() -> Self {
        Self {
            about: About {
                name: "node-1".to_owned(),
                version: "0.1.0",
                run_id: "ab".repeat(20),
                pid: 7,
                tcp_port: 6379,
                workers: 2,
                started_us: 1_000_000,
                executable: String::new(),
                config_file: String::new(),
                connections_max: 10_000,
                pattern_bytes_max: 512,
                subscriptions_max: 4,
                max_memory_bytes: 0,
                when_full: WhenFull::Shed,
            },
            password: None,
            rules: Arc::default(),
            clients: Vec::new(),
            closed: RefCell::default(),
            scripts: Scripts::new(ScriptsLimits {
                scripts: 10,
                bytes: 1000,
            }),
            functions: Functions::new(FunctionsLimits {
                libraries: 3,
                bytes: 10_000,
            }),
            pubsub: Arc::default(),
            delivered: RefCell::default(),
            paused: RefCell::default(),
            slowlog: SlowLog::new(1, 10_000, 128),
            latency: LatencyMonitor::default(),
            shown: RefCell::default(),
            topology: None,
        }
    }
}

impl NodeView for TestNode {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs_password(&self) -> bool {
        self.password.is_some()
    }

    fn password_matches(&self, guess: &[u8]) -> bool {
        self.password.as_ref().is_none_or(|password| password == guess)
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("latency-monitor-threshold", "0"),
            ("maxmemory", "0"),
            ("save", ""),
            ("slowlog-log-slower-than", "10000"),
            ("slowlog-max-len", "128"),
            ("storage.idle_ms", "3600000"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    fn rules(&self) -> Arc<RuleSet> {
        self.rules.clone()
    }

    fn policies(&self) -> Vec<PolicyLabel> {
        vec![PolicyLabel {
            name: "token_bucket".to_owned(),
            version: 1,
        }]
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals {
            connections: 1,
            ..Totals::default()
        };
        totals.keys[0] = 3;
        totals.expiring[0] = 2;
        totals
    }

    fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    fn functions(&self) -> &Functions {
        &self.functions
    }

    fn pubsub(&self) -> &Arc<PubSub> {
        &self.pubsub
    }

    fn deliver(&self, worker: usize, delivery: Delivery) -> Result<(), CommandError> {
        self.delivered.borrow_mut().push((worker, delivery));
        Ok(())
    }

    fn has_peers(&self) -> bool {
        false
    }

    fn publish_elsewhere(&self, _: &[u8], _: &[u8], _: bool) {}

    fn shard_slots(&self) -> Arc<[Range<u16>]> {
        std::iter::once(0..tollgate_store::SLOTS).collect()
    }

    fn has_slot(&self, _slot: u16) -> bool {
        true
    }

    fn keyspace_limits(&self) -> KeyspaceLimits {
        KeyspaceLimits {
            keys_max: 1000,
            pattern_bytes_max: 512,
        }
    }

    fn topology(&self) -> Topology {
        let alone = || Topology {
            nodes: vec![ClusterNode {
                name: self.about.name.clone(),
                host: "127.0.0.1".to_owned(),
                port: self.about.tcp_port,
                peer_port: 7379,
                epoch: 1,
                heard_unix_ms: 0,
                is_suspect: false,
            }],
            me: 0,
            holders: vec![Some(0); usize::from(tollgate_store::SLOTS)],
            epoch: 1,
            messages_sent: 0,
            messages_received: 0,
        };
        self.topology.clone().unwrap_or_else(alone)
    }

    fn is_elsewhere(&self, slot: u16) -> bool {
        let topology = self.topology();
        topology
            .holders
            .get(usize::from(slot))
            .is_none_or(|holder| *holder != Some(topology.me as u16))
    }

    fn clients(&self) -> Vec<ClientInfo> {
        self.clients.clone()
    }

    fn unblock_client(&self, _: u64, _: bool) -> bool {
        false
    }

    fn pause_clients(&self, until_us: u64, all: bool) {
        self.paused.borrow_mut().push(Some((until_us, all)));
    }

    fn unpause_clients(&self) {
        self.paused.borrow_mut().push(None);
    }

    fn slowlog(&self) -> &SlowLog {
        &self.slowlog
    }

    fn latency(&self) -> &LatencyMonitor {
        &self.latency
    }

    fn is_monitored(&self) -> bool {
        self.shown.borrow().is_some()
    }

    fn show(&self, lines: Vec<u8>) {
        self.shown.borrow_mut().get_or_insert_default().extend(lines);
    }

    fn end_monitor(&self, _: u64) {}

    fn close_client(&self, id: u64) -> bool {
        self.closed.borrow_mut().push(id);
        self.clients.iter().any(|client| client.id == id)
    }
}

/// A session of that node.
pub(crate) fn session(node: &TestNode, id: u64) -> Session {
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    Session::new(id, 0, address(40_000 + id as u16), address(6379), 1_000_000, node)
}

/// Resolves and runs a connection command as the node does, and returns what the client reads.
pub(crate) fn run(node: &TestNode, session: &mut Session, request: Request<'_>) -> String {
    use crate::{CommandTable, ConnectionCall, LastCommand, Run};
    let env: Env = session.env(5_000_000, 1_000_000_000_000_000);
    let mut out = Vec::new();
    let result = CommandTable::default()
        .resolve(request, &mut LastCommand::default())
        .and_then(|(spec, _)| {
            session.may_run(spec)?;
            session.begin(spec, env.now_us);
            let Run::Connection(run) = spec.run else {
                panic!("{} is no command of a connection", spec.name)
            };
            run(&mut ConnectionCall {
                session,
                node,
                env: &env,
                request,
                out: &mut out,
            })
        });
    if let Err(error) = result {
        assert!(out.is_empty(), "an error after a part of a reply");
        error.write(&mut out, session.proto);
    }
    String::from_utf8(out).unwrap()
}

/// As [`run`], in a new session of a node without a password.
pub(crate) fn run_alone(proto: Proto, line: &str) -> String {
    let node = TestNode::default();
    let mut session = session(&node, 1);
    session.proto = proto;
    crate::test_request::with_line(line, |request| run(&node, &mut session, request))
}
