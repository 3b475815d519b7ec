//! What all threads of a node share.

use crate::blocking::Blocked;
use crate::clients::Clients;
use crate::clock::NodeClock;
use crate::cluster::{Cluster, Route};
use crate::config::Config;
use crate::limits::Bound;
use crate::loans::KeyJob;
use crate::metrics::{Counter, Metrics};
use crate::monitors::Monitors;
use crate::order::Lost;
use crate::pause::{Attention, Pause};
use crate::remote::{Batch, CheckResult, Job, Lane, Replies};
use crate::worker::Control;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, RwLock, mpsc, oneshot};
use tollgate_commands::{
    About, CommandError, CommandTable, Delivery, DirectCheck, Face, Functions, FunctionsLimits, KeyspaceAnswer,
    KeyspaceOp, LatencyMonitor, PolicyLabel, PubSub, Scripts, ScriptsLimits, SlowLog,
};
use tollgate_limiter::RuleSet;
use tollgate_protocol::ScanLimits;
use tollgate_store::{DATABASES, SLOTS};

/// One node.
#[derive(Debug)]
pub struct Node {
    /// Its configuration.
    pub config: Config,
    /// Its clock.
    pub clock: NodeClock,
    /// What it has to do with others, if it is one of a cluster.
    pub cluster: Option<Cluster>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Its clients.
    pub clients: Clients,
    /// The commands by name.
    pub commands: CommandTable,
    /// Those of the redirecting face.
    pub redirecting_commands: CommandTable,
    /// Bounds of requests.
    pub scan_limits: ScanLimits,
    /// What does not change while it runs.
    pub about: About,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it listens for clients of Redis Cluster, if it does.
    pub redirect_listen: Option<SocketAddr>,
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// The policies, by the numbers of the shards' hosts.
    pub policies: Vec<PolicyLabel>,
    /// The scripts that clients have given.
    pub scripts: Scripts,
    /// The libraries of functions that clients have given.
    pub functions: Functions,
    /// Who listens to what.
    pub pubsub: Arc<PubSub>,
    /// The connections that wait for a key to have something.
    pub blocked: Blocked,
    /// What turns have to look after besides their commands.
    pub attention: Attention,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// The commands that took long.
    pub slowlog: SlowLog,
    /// When commands took long.
    pub latency: LatencyMonitor,
    /// Who monitors.
    pub monitors: Monitors,
    /// Bytes of messages on their way to each worker.
    pub(crate) on_their_way_bytes: Vec<AtomicUsize>,
    /// Held by every run that has keys of other shards, and all of it by one that has the whole node.
    pub borrowing: Arc<RwLock<()>>,
    mailboxes: Vec<mpsc::Sender<Job>>,
    key_jobs: Vec<mpsc::UnboundedSender<KeyJob>>,
    controls: Vec<mpsc::Sender<Control>>,
    /// Connections of each worker.
    loads: Vec<AtomicUsize>,
    /// Keys of each worker, by keyspace.
    pub keys: Vec<KeyCounts>,
    draining: AtomicBool,
    shard_slots: Arc<[Range<u16>]>,
    drain_begins: Notify,
    drained: AtomicUsize,
}

/// How many keys a worker's shard has, by database, and buckets of rules. A worker writes its own now and then.
#[derive(Debug, Default)]
pub struct KeyCounts {
    /// By database.
    pub databases: [Counter; DATABASES as usize],
    /// Of those, the ones that have an expiry.
    pub expiring: [Counter; DATABASES as usize],
    /// Of rules.
    pub rules: Counter,
}

/// Ends of the channels to the workers.
#[derive(Debug)]
pub struct Outboxes {
    /// To their shards, in their order.
    pub mailboxes: Vec<mpsc::Sender<Job>>,
    /// To their shards, about single keys.
    pub key_jobs: Vec<mpsc::UnboundedSender<KeyJob>>,
    /// To themselves.
    pub controls: Vec<mpsc::Sender<Control>>,
}

/// What a node is made of, apart from its channels.
#[derive(Debug)]
pub struct Parts {
    /// The configuration.
    pub config: Config,
    /// The clock.
    pub clock: NodeClock,
    /// What it has to do with others, if it is one of a cluster.
    pub cluster: Option<Cluster>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it listens for clients of Redis Cluster, if it does.
    pub redirect_listen: Option<SocketAddr>,
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// The policies.
    pub policies: Vec<PolicyLabel>,
    /// What does not change while it runs.
    pub about: About,
}

impl Node {
    /// Puts a node together.
    pub fn new(parts: Parts, outboxes: Outboxes) -> Self {
        let limits = &parts.config.limits;
        let scan_limits = ScanLimits {
            max_args: limits.request_args,
            max_bulk_bytes: limits.bulk_bytes,
            max_inline_bytes: limits.inline_bytes,
            max_request_bytes: limits.request_bytes,
        };
        let scripts = Scripts::new(ScriptsLimits {
            scripts: limits.scripts,
            bytes: limits.script_bytes,
        });
        let functions = Functions::new(FunctionsLimits {
            libraries: limits.libraries,
            bytes: limits.library_bytes,
        });
        let functions = functions.of_node(parts.about.name.as_str().into());
        let slowlog = SlowLog::new(
            outboxes.mailboxes.len(),
            parts.config.slowlog.slower_than_us,
            limits.slowlog_entries,
        );
        let mut loads = Vec::new();
        loads.resize_with(outboxes.mailboxes.len(), AtomicUsize::default);
        let workers = outboxes.mailboxes.len();
        let shard_slots = (0..workers).map(|worker| slots_of(worker, workers)).collect();
        let mut keys = Vec::new();
        keys.resize_with(outboxes.mailboxes.len(), KeyCounts::default);
        Self {
            config: parts.config,
            clock: parts.clock,
            cluster: parts.cluster,
            metrics: parts.metrics,
            clients: Clients::default(),
            commands: CommandTable::default(),
            redirecting_commands: CommandTable::of(Face::Redirect),
            scan_limits,
            about: parts.about,
            listen: parts.listen,
            redirect_listen: parts.redirect_listen,
            rules: parts.rules,
            policies: parts.policies,
            scripts,
            functions,
            pubsub: Arc::default(),
            blocked: Blocked::default(),
            attention: Attention::default(),
            pause: Pause::default(),
            slowlog,
            latency: LatencyMonitor::default(),
            monitors: Monitors::default(),
            on_their_way_bytes: (0..workers).map(|_| AtomicUsize::default()).collect(),
            borrowing: Arc::default(),
            mailboxes: outboxes.mailboxes,
            key_jobs: outboxes.key_jobs,
            controls: outboxes.controls,
            loads,
            keys,
            shard_slots,
            drain_begins: Notify::new(),
            draining: AtomicBool::new(false),
            drained: AtomicUsize::new(0),
        }
    }

    /// The commands of a face.
    pub fn commands_of(&self, face: Face) -> &CommandTable {
        match face {
            Face::Default => &self.commands,
            Face::Redirect => &self.redirecting_commands,
        }
    }

    /// Commands that take so long are noted, by SLOWLOG or LATENCY.
    #[inline]
    pub fn slow_from(&self) -> Duration {
        self.slowlog.slower_than().min(self.latency.noted_from())
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// The slots of each shard, in ascending order.
    pub fn shard_slots(&self) -> Arc<[Range<u16>]> {
        Arc::clone(&self.shard_slots)
    }

    /// The worker whose shard has the slot.
    pub fn owner(&self, slot: u16) -> usize {
        owner(slot, self.workers())
    }

    /// Whether its only worker decides everything.
    pub fn is_alone(&self) -> bool {
        self.workers() == 1 && self.cluster.is_none()
    }

    /// Where commands for a slot go now.
    #[inline]
    pub fn place(&self, slot: u16) -> Place {
        let route = self
            .cluster
            .as_ref()
            .map_or(Route::Here, |cluster| cluster.routes.get(slot));
        match route {
            Route::Here => Place::Of(self.owner(slot)),
            Route::Closing => Place::Closing,
            Route::Nobody => Place::Of(self.workers()),
            Route::Peer(peer) => Place::Of(self.workers() + 1 + usize::from(peer)),
        }
    }

    /// Whether a slot is at another node, or nowhere.
    pub fn lacks_slot(&self, slot: u16) -> bool {
        matches!(self.place(slot), Place::Of(place) if place >= self.workers())
    }

    /// Sends commands to a worker's shard. Batches of one `connection` are run in the order in which they are sent.
    pub fn post_batch(
        &self,
        worker: usize,
        batch: Batch,
        connection: Option<Lane>,
    ) -> Result<oneshot::Receiver<Replies>, Lost> {
        let (reply_to, replies) = oneshot::channel();
        let job = Job::Batch {
            batch,
            connection,
            reply_to,
        };
        self.post(worker, job).map(|()| replies)
    }

    /// Asks a worker's shard for one step of a command over all shards. Not through its mailbox, which may be full of what waits for who
    /// asks.
    pub fn ask_keyspace(&self, worker: usize, op: KeyspaceOp) -> oneshot::Receiver<KeyspaceAnswer> {
        let (reply_to, answer) = oneshot::channel();
        self.key_job(worker, KeyJob::Keyspace(op, reply_to));
        answer
    }

    /// Sends one check to a worker's shard.
    pub fn post_check(
        &self,
        worker: usize,
        db: u8,
        check: DirectCheck,
    ) -> Result<oneshot::Receiver<CheckResult>, Lost> {
        let (reply_to, answer) = oneshot::channel();
        self.post(worker, Job::Check(db, check, reply_to)).map(|()| answer)
    }

    /// Sends a message to a worker's listeners.
    ///
    /// # Errors
    /// Too many bytes are on their way to it.
    pub fn deliver(&self, worker: usize, delivery: Delivery) -> Result<(), CommandError> {
        self.take_room(worker, delivery.bytes())?;
        self.key_job(worker, KeyJob::Deliver(delivery));
        Ok(())
    }

    /// Counts bytes of a message that is on its way to a worker.
    ///
    /// # Errors
    /// There are too many.
    pub fn take_room(&self, worker: usize, bytes: usize) -> Result<(), CommandError> {
        let before = self.on_their_way_bytes[worker].fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.config.limits.published_bytes {
            self.on_their_way_bytes[worker].fetch_sub(bytes, Ordering::Relaxed);
            self.metrics.shared.limit_hit(Bound::PublishedBytes);
            return Err(CommandError::SubscribersBehind);
        }
        Ok(())
    }

    /// A message has arrived at a worker.
    pub fn delivered(&self, worker: usize, bytes: usize) {
        self.on_their_way_bytes[worker].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Asks a worker something about a key of its shard. A worker that is gone answers nothing.
    pub fn key_job(&self, worker: usize, job: KeyJob) {
        let _ = self.key_jobs[worker].send(job);
    }

    /// Puts a job into a worker's mailbox.
    ///
    /// # Errors
    /// It was not taken.
    pub fn post_job(&self, worker: usize, job: Job) -> Result<(), Lost> {
        self.post(worker, job)
    }

    fn post(&self, worker: usize, job: Job) -> Result<(), Lost> {
        self.mailboxes[worker].try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Lost::MailboxFull,
            mpsc::error::TrySendError::Closed(_) => Lost::ShardGone,
        })
    }

    /// The worker with the fewest connections, counted as having one more.
    pub fn place_connection(&self) -> usize {
        let mut place = 0;
        for (worker, load) in self.loads.iter().enumerate() {
            if load.load(Ordering::Relaxed) < self.loads[place].load(Ordering::Relaxed) {
                place = worker;
            }
        }
        self.loads[place].fetch_add(1, Ordering::Relaxed);
        place
    }

    /// Connections in all.
    pub fn connections(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    /// Takes back what [`Node::place_connection`] counted, for a connection that never got to its worker.
    pub fn unplace_connection(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection has ended.
    pub fn connection_ended(&self, worker: usize, id: u64) {
        self.clients.remove(id);
        if self.attention.get() & Attention::MONITORED != 0 {
            self.monitors.remove(id, &self.attention);
        }
        self.unplace_connection(worker);
    }

    /// Tells a worker something. `false` if it is gone or has too many orders waiting.
    pub fn order(&self, worker: usize, order: Control) -> bool {
        self.controls[worker].try_send(order).is_ok()
    }

    /// Begins to drain: no new connections, and every worker ends those it has.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        // Every worker waits for that: an order could be one too many.
        self.drain_begins.notify_waiters();
    }

    /// Whether the node is on its way out.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Waits until the node begins to drain.
    pub async fn until_draining(&self) {
        let begins = self.drain_begins.notified();
        // Registered first: a drain that begins between the two is not missed.
        tokio::pin!(begins);
        begins.as_mut().enable();
        if !self.is_draining() {
            begins.await;
        }
    }

    /// A worker has no connections left.
    pub fn worker_drained(&self) {
        self.drained.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether no worker has connections left.
    pub fn all_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire) >= self.workers()
    }
}

/// Where commands for a slot go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// There: to the worker of that number, from the number of workers on to nobody yet, to the first peer, to the second, and so on.
    Of(usize),
    /// That is open: wait until it is known.
    Closing,
}

/// The worker, of so many, that has the slot: contiguous ranges of nearly equal length.
pub fn owner(slot: u16, workers: usize) -> usize {
    usize::from(slot) * workers / usize::from(SLOTS)
}

/// The slots of a worker, of so many.
pub fn slots_of(worker: usize, workers: usize) -> Range<u16> {
    let start = |worker: usize| (worker * usize::from(SLOTS)).div_ceil(workers) as u16;
    start(worker)..start(worker + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_ranges_agree() {
        for workers in [1, 2, 3, 7, 16, 255, 256] {
            let mut next = 0;
            for worker in 0..workers {
                let range = slots_of(worker, workers);
                assert_eq!(range.start, next);
                next = range.end;
                assert!(
                    range.clone().all(|slot| owner(slot, workers) == worker),
                    "{workers} workers, {range:?}"
                );
            }
            assert_eq!(next, SLOTS);
        }
    }
}
