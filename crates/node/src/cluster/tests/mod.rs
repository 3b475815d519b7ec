//! A worker of a clustered node, in one thread with its peers, whom the tests speak for.

mod forwarding;
mod holding;
mod keeping;
mod peer;

use crate::config::{Config, Sources};
use crate::gossip::Files;
use crate::metrics::Metrics;
use crate::node::{Node, Parts};
use crate::remote::{Batch, Replies};
use crate::server;
use crate::worker::{Inbox, Worker};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use tollgate_cluster::slots::View;
use tollgate_cluster::{Incarnation, SLOTS};
use tollgate_commands::LastCommand;
use tollgate_protocol::{Progress, Proto, ScanLimits, Scanner};
use tollgate_script::builtin_policies;
use tollgate_values::HashSeed;

/// Runs a test with the only worker of a node that holds all slots. Nothing tells its machine the time.
fn with_worker(test: impl AsyncFnOnce(Rc<Worker>, Inbox)) {
    let set = ["cluster.peer=127.0.0.1:0", "node.name=a", "node.workers=1"].map(str::to_owned);
    let sources = Sources {
        set: set.to_vec(),
        ..Sources::default()
    };
    let config = Config::load(&sources).unwrap();
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let policy_sources: Arc<[_]> = builtin_policies().into();
    let policy_limits = server::policy_limits(&config);
    let policies = server::labels(&server::compile(&config, &policy_sources, policy_limits).unwrap());
    let names = policies.iter().map(|policy| policy.name.clone()).collect();
    let metrics = Arc::new(Metrics::new("a", 1, names));
    let bound = crate::gossip_thread::bind(&config).unwrap().unwrap();
    let (cluster, _listener) = bound.start(&config, listen, None, Files::default(), &metrics).unwrap();
    let clock = crate::clock::NodeClock::start();
    let (outboxes, mut inboxes) = server::channels(&config, 1);
    let about = server::about(&config, &clock, listen, 1);
    let rules = Arc::new(config.rules.clone());
    let parts = Parts {
        config,
        clock,
        cluster: Some(cluster),
        metrics,
        listen,
        redirect_listen: None,
        rules: Arc::clone(&rules),
        policies,
        about,
    };
    let node = Arc::new(Node::new(parts, outboxes));
    let seeds = (1, HashSeed::new(2));
    let shard = server::shard_config(&node, 0, &policy_sources, policy_limits, &rules, seeds);
    let worker = Rc::new(Worker::new(node, 0, shard).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        worker.begin_cluster();
        test(worker, inboxes.remove(0)).await;
    });
}

fn peer_id(name: &str) -> Incarnation {
    Incarnation {
        name: name.into(),
        generation: 1,
    }
}

/// Makes the machine see these members beside this node, to which all slots belong.
fn see_members(worker: &Rc<Worker>, others: &[&str]) {
    see_ring(worker, others, 0, 1);
}

/// Makes the machine see these members beside this node, in the order of their names, and one to which all slots belong, and their heir.
fn see_ring(worker: &Rc<Worker>, others: &[&str], target: u16, heir: u16) {
    let me = worker.node.cluster.as_ref().unwrap().me.clone();
    let mut members = vec![(me, false)];
    members.extend(others.iter().map(|name| (peer_id(name), false)));
    let view = View {
        members,
        targets: vec![target; usize::from(SLOTS)].into(),
        heirs: vec![heir; usize::from(SLOTS)].into(),
    };
    worker.step_slots(|machine, step| machine.view(&view, step));
}

/// Makes the machine see that member beside this node, which has all slots but one: that is the member's.
fn see_target(worker: &Rc<Worker>, other: &str, slot: u16) {
    let me = worker.node.cluster.as_ref().unwrap().me.clone();
    let mut targets = vec![0; usize::from(SLOTS)];
    targets[usize::from(slot)] = 1;
    let view = View {
        members: vec![(me, false), (peer_id(other), false)],
        targets: targets.into(),
        heirs: vec![tollgate_cluster::slots::NOBODY; usize::from(SLOTS)].into(),
    };
    worker.step_slots(|machine, step| machine.view(&view, step));
}

/// Lets all tasks go on that can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// A batch of one command.
fn batch(worker: &Worker, command: &str) -> Batch {
    batch_of(worker, &[command])
}

/// A batch of commands.
fn batch_of(worker: &Worker, commands: &[&str]) -> Batch {
    let mut batch = Batch::default();
    let mut scanner = Scanner::new(ScanLimits::default());
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
        let Ok(Progress::Request { .. }) = scanner.next(text.as_bytes()) else {
            panic!("{command:.40}");
        };
        let request = scanner.request(text.as_bytes());
        let resolved = worker.node.commands.resolve(request, &mut LastCommand::default());
        let (spec, _) = resolved.unwrap();
        let env = worker.env(worker.node.clock.now_us(), 0, Proto::Resp2);
        batch.push(spec, &env, request);
    }
    batch
}

const CHECK: &str = "RL.CHECK k LIMIT 5 PER 1h";

fn text(replies: &Replies) -> String {
    String::from_utf8(replies.bytes.clone()).unwrap()
}
