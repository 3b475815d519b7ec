//! A worker: one thread with its connections, its shard, its mailbox and the runtime that turns them.

use crate::cluster::{FromPeers, Links, Operation};
use crate::config::Config;
use crate::connection::{self, TurnBuffers};
use crate::joined::Joined;
use crate::limits::Bound;
use crate::link::{Link, Phase};
use crate::loans::{KeyJob, Waits};
use crate::metrics::WorkerCounters;
use crate::node::Node;
use crate::peers::{Accepted, Incoming};
use crate::remote::Job;
use crate::round::Round;
use crate::steps::Steps;
use crate::stretch::Stretch;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, LocalSet};
use tollgate_commands::{Delivery, Env, Face, ScriptHost, ScriptLimits, Session, Shard, ShardConfig, ShardError};
use tollgate_protocol::Proto;

/// Orders to a worker, besides jobs for its shard.
#[derive(Debug)]
pub enum Control {
    /// Serve this connection, which came to a listener that looks like that.
    Serve(std::net::TcpStream, Face),
    /// End this connection.
    Kill(u64),
    /// Serve this connection of a peer.
    ServePeer(Accepted),
    /// Do what an operator asks.
    Operate(Operation),
}

/// A connection as its worker keeps track of it.
#[derive(Debug)]
struct Tracked {
    task: AbortHandle,
    link: Rc<Link>,
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// What all workers share.
    pub node: Arc<Node>,
    /// Its shard. Borrowed for one command or one flush at a time, never across an await.
    pub shard: RefCell<Shard>,
    /// Wall time minus node clock, refreshed now and then.
    pub wall_offset_us: Cell<i64>,
    /// Checks of small turns that wait to be decided together.
    pub round: Round,
    /// Other small turns that are ready together.
    pub joined: Joined,
    /// Which scripts may go on, so that they do not keep it from its sockets.
    pub steps: Rc<Steps>,
    /// Its part of scripts. Borrowed like the shard.
    pub scripts: RefCell<ScriptHost>,
    /// Who waits for keys of its shard.
    pub waits: Waits,
    /// Runs so far.
    pub runs: Cell<u64>,
    /// What it has to do with other nodes, if this one is clustered.
    pub links: Option<Links>,
    // Boxed: they are large, and change hands several times a turn.
    #[expect(clippy::vec_box, reason = "moved out and in as boxes")]
    buffers: RefCell<Vec<Box<TurnBuffers>>>,
    tracked: RefCell<HashMap<u64, Tracked>>,
}

/// Buffers of turns that a worker keeps for the next ones: more only exist while turns wait for other shards or for slow clients.
const POOLED_BUFFERS: usize = 16;

impl Worker {
    /// One without connections, with an empty shard.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) fn new(node: Arc<Node>, index: usize, config: ShardConfig) -> Result<Self, StartError> {
        let guests = node.cluster.as_ref().map(|_| ShardConfig {
            slots: 0..0,
            // What is lent comes back, whatever there is room for.
            max_memory_bytes: 0,
            ..config.clone()
        });
        let guests = guests.map(Shard::new).transpose()?;
        let mut shard = Shard::new(config)?;
        let limits = &node.config.limits;
        shard.set_carry_bounds(limits.changes_bytes, limits.journal_buckets);
        let scripts = ScriptHost::new(script_limits(&node.config))?;
        let links = node.cluster.as_ref().zip(guests).map(|(cluster, guests)| {
            let slots = crate::node::slots_of(index, node.workers());
            Links::new(cluster, index, slots, limits, guests)
        });
        Ok(Self {
            index,
            wall_offset_us: Cell::new(0),
            round: Round::default(),
            joined: Joined::default(),
            steps: Rc::default(),
            scripts: RefCell::new(scripts),
            waits: Waits::default(),
            runs: Cell::new(0),
            links,
            node,
            shard: RefCell::new(shard),
            buffers: RefCell::default(),
            tracked: RefCell::default(),
        })
    }

    /// The counters that this worker alone writes.
    pub fn counters(&self) -> &WorkerCounters {
        self.node.metrics.worker(self.index)
    }

    /// Buffers for a turn.
    pub fn take_buffers(&self) -> Box<TurnBuffers> {
        self.buffers
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Box::new(TurnBuffers::new(self.node.workers())))
    }

    /// Gives the buffers of a finished turn back.
    pub fn return_buffers(&self, mut buffers: Box<TurnBuffers>) {
        let mut pool = self.buffers.borrow_mut();
        if pool.len() < POOLED_BUFFERS {
            buffers.reset();
            pool.push(buffers);
        }
    }

    /// The circumstances of a command that runs now.
    pub fn env(&self, now_us: u64, db: u8, proto: Proto) -> Env {
        Env {
            db,
            proto,
            now_us,
            wall_offset_us: self.wall_offset_us.get(),
        }
    }

    /// Starts serving a connection.
    fn serve(self: &Rc<Self>, stream: std::net::TcpStream, face: Face) -> std::io::Result<()> {
        let stream = TcpStream::from_std(stream)?;
        set_options(socket2::SockRef::from(&stream))?;
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        let id = self.node.clients.next_id();
        let mut session = Session::new(id, self.index, peer, local, self.node.clock.now_us(), &*self.node);
        session.face = face;
        let client = self.node.clients.add(self.index, &session);
        self.counters().connection_accepted();
        // Made here and not in the task: a task that is ended before it began would not drop what it was to make.
        let gone = Gone {
            worker: Rc::clone(self),
            id,
        };
        let (input, output) = stream.into_split();
        let link = Rc::new(Link::new(output));
        let task = {
            let (worker, link) = (Rc::clone(self), Rc::clone(&link));
            tokio::task::spawn_local(async move {
                let _gone = gone;
                connection::serve(worker, input, link, client, session).await;
            })
        };
        let task = task.abort_handle();
        self.tracked.borrow_mut().insert(id, Tracked { task, link });
        Ok(())
    }

    /// What the rest of a worker sees of a connection of it.
    pub fn link_of(&self, connection: u64) -> Option<Rc<Link>> {
        self.tracked
            .borrow()
            .get(&connection)
            .map(|tracked| Rc::clone(&tracked.link))
    }

    /// Writes a published message to connections of this worker that listen.
    pub fn push_message(&self, delivery: &Delivery) {
        self.node.delivered(self.index, delivery.bytes());
        let most = self.node.config.limits.output_bytes;
        let tracked = self.tracked.borrow();
        let mut bytes = Vec::new();
        for (connection, pattern) in &delivery.to {
            let Some(link) = tracked.get(connection).map(|tracked| &tracked.link) else {
                continue;
            };
            // It may have been said meanwhile that it does not want it any more.
            if !self
                .node
                .pubsub
                .has(delivery, pattern.as_deref(), self.index, *connection)
            {
                continue;
            }
            bytes.clear();
            delivery.write(pattern.as_deref(), link.proto.get(), &mut bytes);
            if !link.push(&bytes, most) {
                self.counters().limit_hit(Bound::OutputBytes);
            }
        }
    }

    /// Ends a connection, in the middle of a turn at its end. While it waits for its client to take replies, `at_once` says
    /// whether they are given up.
    fn end(tracked: &Tracked, at_once: bool) {
        match tracked.link.phase.get() {
            Phase::Idle | Phase::Writing if at_once => {
                // What it has in a round is not run any more.
                tracked.link.kill();
                tracked.task.abort();
            }
            Phase::Turn if at_once => tracked.link.kill(),
            Phase::Idle | Phase::Turn | Phase::Writing => tracked.link.ask_to_leave(),
        }
    }

    /// Housekeeping: publishes counters, follows the wall clock, sweeps. A pass of the sweep over the whole shard starts once an
    /// interval; it goes in steps, and between two of them the worker does other things for several times as long.
    async fn tidy(self: Rc<Self>) {
        let storage = &self.node.config.storage;
        let pass_interval = Duration::from_millis(storage.sweep_interval_ms);
        let step = Duration::from_micros(storage.sweep_budget_us);
        let mut published = Instant::now();
        loop {
            let pass_started = Instant::now();
            while self.tidy_step(step) {
                if published.elapsed() >= PUBLISH_INTERVAL {
                    published = Instant::now();
                    crate::publish::publish(&self);
                }
                tokio::time::sleep(step * TIDY_REST).await;
            }
            // The counters are wanted more often than passes.
            loop {
                published = Instant::now();
                crate::publish::publish(&self);
                self.follow_wall_clock();
                while self.collect_step(step) {
                    tokio::time::sleep(step * TIDY_REST).await;
                }
                let left = pass_interval.saturating_sub(pass_started.elapsed());
                if left.is_zero() {
                    break;
                }
                tokio::time::sleep(left.min(PUBLISH_INTERVAL)).await;
            }
        }
    }

    /// Follows the wall clock, but not its jitter: times in replies that mean the same instant are the same.
    fn follow_wall_clock(&self) {
        let offset_us = self.node.clock.wall_offset_us();
        if offset_us.abs_diff(self.wall_offset_us.get()) > WALL_JITTER_US {
            self.wall_offset_us.set(offset_us);
        }
    }

    /// One step of the sweep; whether the pass goes on.
    fn tidy_step(self: &Rc<Self>, budget: Duration) -> bool {
        let stretch = Stretch::long();
        let started = stretch.started();
        self.decide_overdue_round(started);
        let now_us = self.node.clock.at(started);
        let mut shard = self.shard.borrow_mut();
        let mut more = true;
        while more && started.elapsed() < budget {
            more = shard.tidy(now_us, TIDY_ENTRIES);
        }
        if let Some(links) = &self.links {
            // What runs have left; there is seldom anything.
            links.guests.borrow_mut().tidy(now_us, TIDY_ENTRIES);
        }
        stretch.end(self.counters());
        more
    }

    /// One step of freeing what scripts have left in their VM; whether there is more.
    fn collect_step(self: &Rc<Self>, budget: Duration) -> bool {
        let stretch = Stretch::long();
        self.decide_overdue_round(stretch.started());
        let more = self.scripts.borrow().collect_some(budget);
        stretch.end(self.counters());
        more
    }

    async fn run_control(
        self: Rc<Self>,
        mut control: mpsc::Receiver<Control>,
        incoming: Option<Rc<Incoming<FromPeers>>>,
    ) {
        loop {
            let order = tokio::select! {
                biased;
                order = control.recv() => order,
                () = self.node.until_draining() => return self.drain().await,
            };
            match order {
                None => return,
                Some(Control::Serve(stream, face)) => {
                    if let Err(error) = self.serve(stream, face) {
                        self.node.unplace_connection(self.index);
                        tracing::debug!(event = "connection_lost", %error);
                    }
                }
                Some(Control::ServePeer(accepted)) => {
                    if let Some(incoming) = &incoming
                        && let Err(error) = incoming.serve(accepted)
                    {
                        tracing::debug!(event = "peer_lost", %error);
                    }
                }
                Some(Control::Kill(id)) => {
                    if let Some(tracked) = self.tracked.borrow().get(&id) {
                        Self::end(tracked, true);
                    }
                }
                Some(Control::Operate(operation)) => self.operate(operation),
            }
        }
    }

    /// Ends all connections, each after what it has read is answered, and waits until the other workers have done so.
    async fn drain(self: &Rc<Self>) {
        self.tracked
            .borrow()
            .values()
            .for_each(|tracked| Self::end(tracked, false));
        while !self.tracked.borrow().is_empty() {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        // Of connections that were ended otherwise.
        self.decide_checks();
        while !self.joined.is_empty() || self.joined.has_late() {
            self.run_joined();
            tokio::time::sleep(DRAIN_POLL).await;
        }
        // The other workers' connections may still wait for this shard.
        self.node.worker_drained();
        while !self.node.all_drained() {
            tokio::time::sleep(DRAIN_POLL).await;
        }
    }
}

/// Sets the options of a client's socket.
fn set_options(socket: socket2::SockRef<'_>) -> std::io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    // A peer that is gone without a word must not keep its place for ever.
    socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE))
}

/// Silence after which a client's machine is asked whether it is still there, as Redis does.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// How often a draining worker looks whether it, or the others, are done.
const DRAIN_POLL: Duration = Duration::from_millis(1);

/// What the wall clock and the node's may differ by before times in replies follow the wall clock.
const WALL_JITTER_US: u64 = 1_500;
/// Entries that a step of the sweep looks at between two looks at the clock.
const TIDY_ENTRIES: usize = 128;
/// How many times as long as a step of the sweep the worker does other things before the next.
const TIDY_REST: u32 = 4;
/// How often counters are published.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);

/// Takes a connection off the lists when its task ends, however it ends.
struct Gone {
    worker: Rc<Worker>,
    id: u64,
}

impl Drop for Gone {
    fn drop(&mut self) {
        // Dropped last, which closes the socket: whoever sees that finds the connection on no list.
        let _tracked = self.worker.tracked.borrow_mut().remove(&self.id);
        self.worker.counters().connection_closed();
        self.worker.node.connection_ended(self.worker.index, self.id);
    }
}

/// Ends of the channels that a worker reads.
#[derive(Debug)]
pub struct Inbox {
    /// Jobs for its shard.
    pub mailbox: mpsc::Receiver<Job>,
    /// What other workers ask about single keys.
    pub key_jobs: mpsc::UnboundedReceiver<KeyJob>,
    /// Orders for itself.
    pub control: mpsc::Receiver<Control>,
}

/// What worker 0 accepts connections on.
#[derive(Debug)]
pub struct Listeners {
    /// Of clients.
    pub clients: std::net::TcpListener,
    /// Of clients of Redis Cluster.
    pub redirecting: Option<std::net::TcpListener>,
    /// Of peers.
    pub peers: Option<std::net::TcpListener>,
}

/// The body of a worker's thread. `ready` is told once the shard exists, or why it does not; `listeners` are worker 0's.
pub fn run(
    node: Arc<Node>,
    index: usize,
    config: ShardConfig,
    inbox: Inbox,
    listeners: Option<Listeners>,
    ready: std::sync::mpsc::Sender<Result<(), StartError>>,
) {
    let started = Worker::new(node, index, config).and_then(|worker| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok((Rc::new(worker), runtime))
    });
    let (worker, runtime) = match started {
        Ok(started) => started,
        Err(error) => {
            // The main thread waits for one message a worker.
            let _ = ready.send(Err(error));
            return;
        }
    };
    LocalSet::new().block_on(&runtime, async move {
        tokio::task::spawn_local(crate::mailbox::run(Rc::clone(&worker), inbox.mailbox));
        tokio::task::spawn_local(Rc::clone(&worker).tidy());
        tokio::task::spawn_local(Rc::clone(&worker).run_rounds());
        tokio::task::spawn_local(Rc::clone(&worker).run_steps());
        tokio::task::spawn_local(Rc::clone(&worker).run_key_jobs(inbox.key_jobs));
        if let Some(Listeners {
            clients,
            redirecting,
            peers,
        }) = listeners
        {
            let faces = [(Some(clients), Face::Default), (redirecting, Face::Redirect)];
            for (listener, face) in faces {
                if let Some(listener) = listener {
                    tokio::task::spawn_local(crate::accept::run(Arc::clone(&worker.node), listener, face));
                }
            }
            if let (Some(peers), Some(cluster)) = (peers, &worker.node.cluster) {
                let node = Arc::clone(&worker.node);
                tokio::task::spawn_local(crate::peers::accept(
                    Arc::clone(&cluster.peers),
                    peers,
                    move |accepted| {
                        // A worker that has too many orders waiting takes no new peers; they try again.
                        node.order(usize::from(accepted.to_worker()), Control::ServePeer(accepted));
                    },
                ));
            }
        }
        let incoming = worker.node.cluster.as_ref().map(|cluster| {
            let handler = Rc::new(FromPeers::new(Rc::clone(&worker)));
            Incoming::new(Arc::clone(&cluster.peers), index as u16, handler)
        });
        worker.begin_cluster();
        tokio::task::spawn_local(Rc::clone(&worker).run_cluster());
        if index == 0 {
            tokio::task::spawn_local(Rc::clone(&worker).keep_libraries());
        }
        let _ = ready.send(Ok(()));
        worker.run_control(inbox.control, incoming).await;
    });
}

/// Bounds of scripts, from the configuration.
fn script_limits(config: &Config) -> ScriptLimits {
    ScriptLimits {
        memory_bytes: config.script.memory_bytes,
        step: Duration::from_millis(config.script.step_ms),
        budget: Duration::from_millis(config.script.budget_ms),
        compiled: config.limits.compiled_scripts,
        compiled_bytes: config.limits.compiled_bytes,
    }
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its shard could not be made.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// The VM of scripts could not be set up.
    #[error("cannot start a worker: {0}")]
    Scripts(#[from] tollgate_eval::SetupError),
    /// The runtime could not be made.
    #[error("cannot start a worker: {0}")]
    Runtime(#[from] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_vanish_are_noticed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert!(!socket.keepalive().unwrap());
        set_options(socket2::SockRef::from(&stream)).unwrap();
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
        assert!(socket.tcp_nodelay().unwrap());
    }
}
