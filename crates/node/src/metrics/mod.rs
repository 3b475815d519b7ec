//! Counters and their Prometheus text.
//!
//! Each worker has a block of counters that it alone writes, with plain loads and stores; the admin thread reads and sums
//! them when it is scraped. What happens seldom and on other threads is in [`SharedCounters`].

mod counter;
mod histogram;
mod process;
mod render;
mod text;

pub use counter::{Counter, SharedCounter};
pub use histogram::Histogram;
pub use process::{cpu_times_us, process_cpu_time_ns, resident_bytes, thread_cpu_time_ns};
pub use text::CONTENT_TYPE;

use crate::gossip::GossipCounters;
use crate::limits::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tollgate_cluster::wire::Refusal;
use tollgate_protocol::ProtocolError;

/// How a call of a policy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyFaultKind {
    /// The file raised an error.
    Error,
    /// It ran longer than its budget.
    Budget,
    /// It took more memory than it may.
    Memory,
    /// It returned what its contract excludes.
    BadResult,
}

impl PolicyFaultKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [PolicyFaultKind; 4] = [Self::Error, Self::Budget, Self::Memory, Self::BadResult];

    /// Its label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Budget => "budget",
            Self::Memory => "memory",
            Self::BadResult => "bad_result",
        }
    }
}

/// Checks of one policy on one worker.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct PolicyCounters {
    /// Admitted.
    pub allowed: Counter,
    /// Denied.
    pub denied: Counter,
    /// Answered with an error.
    pub errors: Counter,
    faults: [Counter; PolicyFaultKind::ALL.len()],
}

impl PolicyCounters {
    /// Failed calls of one kind.
    pub fn faults(&self, kind: PolicyFaultKind) -> &Counter {
        &self.faults[kind as usize]
    }
}

/// What one worker counts. It alone writes; the block is on cache lines of its own, and past the neighbour that the
/// processor fetches along.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// By policy, in the order of the names given to [`Metrics::new`].
    pub policies: Box<[PolicyCounters]>,
    /// Commands answered.
    pub commands: Counter,
    /// Commands that went to the shard of another worker.
    pub forwarded_commands: Counter,
    /// Slots that the worker holds.
    pub slots_held: Counter,
    /// Of those, slots whose place is elsewhere.
    pub slots_astray: Counter,
    /// Checks decided on a replica, in place of a holder that did not answer.
    pub decided_as_heir: Counter,
    /// Checks decided by this node's share of the limit, since neither holder nor heir answered.
    pub decided_locally: Counter,
    /// Answers of peers that were not there when they were due.
    pub peer_deadlines: Counter,
    /// Batches in which they went.
    pub forwarded_batches: Counter,
    /// Rounds decided.
    pub rounds: Counter,
    /// Turns that they were made of.
    pub round_turns: Counter,
    /// Requests that broke the protocol.
    pub protocol_errors: Counter,
    /// Connections taken on.
    pub connections_opened: Counter,
    /// Connections ended.
    pub connections_closed: Counter,
    /// Connections refused.
    pub connections_rejected: Counter,
    /// Bytes read from clients.
    pub received_bytes: Counter,
    /// Bytes written to clients.
    pub sent_bytes: Counter,
    /// Buckets of this worker's shard now.
    pub buckets: Counter,
    /// Redis values of this worker's shard now.
    pub values: Counter,
    /// Bytes that both take now.
    pub stored_bytes: Counter,
    /// Bytes that the limits of buckets take now.
    pub limits_bytes: Counter,
    /// Buckets dropped because they were full again.
    pub expired: Counter,
    /// Buckets dropped for want of memory.
    pub shed: Counter,
    /// Entries of other nodes that could not be kept as they were, by [`ENTRY_REFUSALS`].
    pub slot_entries_refused: [Counter; ENTRY_REFUSALS.len()],
    /// Debits taken from buckets of this worker's shard.
    pub debits_taken: Counter,
    /// Debits that no bucket could owe.
    pub debits_lost: Counter,
    /// From the read of a turn to its write, once for each command of the turn.
    pub command_duration: Histogram,
    /// From the read of a turn to its write, once a turn.
    pub turn_duration: Histogram,
    /// Work between two returns to the loop.
    pub stretches: Histogram,
    /// The longest of them, in nanoseconds.
    pub longest_stretch_ns: Counter,
    /// Runs of scripts and functions that are over.
    pub scripts: Counter,
    /// Bytes of the VM of scripts now.
    pub script_bytes: Counter,
    /// Times that something waited for a key that was held.
    pub keys_waited: Counter,
    /// Keys lent by other shards to runs of this worker.
    pub keys_borrowed: Counter,
    /// Keys of this worker's shard lent to runs of other nodes.
    pub keys_lent: Counter,
    /// Those that are lent or wanted now.
    pub keys_lent_now: Counter,
    /// Loans that their node has not taken back as a run of this worker left them.
    pub loans_torn: Counter,
    /// Times that a script started again because it needed another key.
    pub script_restarts: Counter,
    /// Connections to and from peers that stood.
    pub peer_connections_opened: Counter,
    /// Those that ended.
    pub peer_connections_closed: Counter,
    /// Frames from peers.
    pub peer_frames_in: Counter,
    /// Frames to peers.
    pub peer_frames_out: Counter,
    /// Bytes read from peers.
    pub peer_bytes_in: Counter,
    /// Bytes written to peers.
    pub peer_bytes_out: Counter,
    /// Frames of kinds that this version does not know.
    pub peer_unknown_kinds: Counter,
    /// Messages of peers about slots that make no sense.
    pub peer_nonsense: Counter,
    /// Buckets of which this node owes something to other nodes, or may.
    pub journal_buckets: Counter,
    /// Tokens that it owed and has forgotten, since there was no room for them.
    pub journal_tokens_dropped: Counter,
    peer_refusals: [Counter; Refusal::REASONS.len()],
    limit_hits: [Counter; Bound::COUNT],
}

/// Why an entry of another node is not kept as it was: its policy or rule does not exist here, its policy is of another version, there
/// are too many different limits, there is no memory, or it makes no sense.
pub const ENTRY_REFUSALS: [&str; 6] = [
    "unknown_policy",
    "unknown_rule",
    "other_version",
    "interned_limits",
    "memory",
    "malformed",
];

impl WorkerCounters {
    pub(crate) fn new(policies: usize) -> Self {
        Self {
            policies: (0..policies).map(|_| PolicyCounters::default()).collect(),
            commands: Counter::default(),
            forwarded_commands: Counter::default(),
            slots_held: Counter::default(),
            slots_astray: Counter::default(),
            decided_as_heir: Counter::default(),
            decided_locally: Counter::default(),
            peer_deadlines: Counter::default(),
            forwarded_batches: Counter::default(),
            rounds: Counter::default(),
            round_turns: Counter::default(),
            protocol_errors: Counter::default(),
            connections_opened: Counter::default(),
            connections_closed: Counter::default(),
            connections_rejected: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            buckets: Counter::default(),
            values: Counter::default(),
            stored_bytes: Counter::default(),
            limits_bytes: Counter::default(),
            expired: Counter::default(),
            shed: Counter::default(),
            slot_entries_refused: std::array::from_fn(|_| Counter::default()),
            debits_taken: Counter::default(),
            debits_lost: Counter::default(),
            command_duration: Histogram::default(),
            turn_duration: Histogram::default(),
            stretches: Histogram::default(),
            longest_stretch_ns: Counter::default(),
            scripts: Counter::default(),
            script_bytes: Counter::default(),
            keys_waited: Counter::default(),
            keys_borrowed: Counter::default(),
            keys_lent: Counter::default(),
            keys_lent_now: Counter::default(),
            loans_torn: Counter::default(),
            script_restarts: Counter::default(),
            peer_connections_opened: Counter::default(),
            peer_connections_closed: Counter::default(),
            peer_frames_in: Counter::default(),
            peer_frames_out: Counter::default(),
            peer_bytes_in: Counter::default(),
            peer_bytes_out: Counter::default(),
            peer_unknown_kinds: Counter::default(),
            peer_nonsense: Counter::default(),
            journal_buckets: Counter::default(),
            journal_tokens_dropped: Counter::default(),
            peer_refusals: std::array::from_fn(|_| Counter::default()),
            limit_hits: std::array::from_fn(|_| Counter::default()),
        }
    }

    /// Counts a connection between nodes that did not come about, by `Refusal::reason`.
    pub fn peer_refused(&self, reason: &'static str) {
        self.peer_refusals(reason).add(1);
    }

    /// Connections between nodes that did not come about for that reason; one that is not listed counts as the last, `other`.
    pub fn peer_refusals(&self, reason: &'static str) -> &Counter {
        let listed = Refusal::REASONS.iter().position(|known| *known == reason);
        &self.peer_refusals[listed.unwrap_or(Refusal::REASONS.len() - 1)]
    }

    /// Connections to and from peers now.
    pub fn peer_connections(&self) -> u64 {
        self.peer_connections_opened
            .get()
            .saturating_sub(self.peer_connections_closed.get())
    }

    /// Counts a turn of `commands` commands that took `duration` from its read to its write.
    #[inline]
    pub fn turn(&self, commands: u64, duration: Duration) {
        // 64 bits of nanoseconds are 584 years.
        let duration_ns = duration.as_nanos() as u64;
        self.commands.add(commands);
        self.turn_duration.record(duration_ns, 1);
        self.command_duration.record(duration_ns, commands);
    }

    /// Counts a stretch of work between two returns to the loop.
    #[inline]
    pub fn stretch(&self, duration: Duration) {
        let duration_ns = duration.as_nanos() as u64;
        self.stretches.record(duration_ns, 1);
        self.longest_stretch_ns.raise(duration_ns);
    }

    /// Counts that a bound was hit.
    #[inline]
    pub fn limit_hit(&self, bound: Bound) {
        self.limit_hits[bound as usize].add(1);
    }

    /// Times that a bound was hit on this worker.
    pub fn limit_hits(&self, bound: Bound) -> &Counter {
        &self.limit_hits[bound as usize]
    }

    /// Counts a connection taken on.
    pub fn connection_accepted(&self) {
        self.connections_opened.add(1);
    }

    /// Connections that this worker has.
    pub fn connections(&self) -> u64 {
        self.connections_opened
            .get()
            .saturating_sub(self.connections_closed.get())
    }

    /// Counts a connection refused.
    pub fn connection_rejected(&self) {
        self.connections_rejected.add(1);
    }

    /// Counts the end of a connection.
    pub fn connection_closed(&self) {
        self.connections_closed.add(1);
    }

    /// Counts a request that broke the protocol, and the bound that it broke, if it broke one. A length that is no number
    /// counts as one that is too large, since the scanner's error is the same.
    pub fn protocol_error(&self, error: &ProtocolError) {
        self.protocol_errors.add(1);
        match error {
            ProtocolError::InvalidMultibulkLength | ProtocolError::UnauthenticatedMultibulkLength => {
                self.limit_hit(Bound::RequestArgs);
            }
            ProtocolError::InvalidBulkLength | ProtocolError::UnauthenticatedBulkLength => {
                self.limit_hit(Bound::BulkBytes);
            }
            ProtocolError::TooBigInlineRequest
            | ProtocolError::TooBigMultibulkCount
            | ProtocolError::TooBigBulkCount => self.limit_hit(Bound::InlineBytes),
            ProtocolError::TooBigRequest => self.limit_hit(Bound::RequestBytes),
            ProtocolError::ExpectedDollar(_) | ProtocolError::UnbalancedQuotes => {}
        }
    }
}

/// What other threads count.
#[derive(Debug)]
pub struct SharedCounters {
    limit_hits: [SharedCounter; Bound::COUNT],
}

impl SharedCounters {
    /// Counts that a bound was hit.
    pub fn limit_hit(&self, bound: Bound) {
        self.limit_hits[bound as usize].add(1);
    }

    /// Times that a bound was hit outside the workers.
    pub fn limit_hits(&self, bound: Bound) -> &SharedCounter {
        &self.limit_hits[bound as usize]
    }
}

/// Everything a node counts.
#[derive(Debug)]
pub struct Metrics {
    node: String,
    policies: Vec<String>,
    workers: Box<[WorkerCounters]>,
    started: Instant,
    started_unix_s: f64,
    /// What other threads than workers count.
    pub shared: SharedCounters,
    /// What gossip counts.
    pub gossip: Arc<GossipCounters>,
}

impl Metrics {
    /// Counters for that many workers and these policies, all zero.
    pub fn new(node: impl Into<String>, workers: usize, policies: Vec<String>) -> Self {
        Self {
            node: node.into(),
            workers: (0..workers).map(|_| WorkerCounters::new(policies.len())).collect(),
            policies,
            started: Instant::now(),
            started_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |now| now.as_secs_f64()),
            shared: SharedCounters {
                limit_hits: std::array::from_fn(|_| SharedCounter::default()),
            },
            gossip: Arc::default(),
        }
    }

    /// The counters of one worker, which alone may write them.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker(&self, worker: usize) -> &WorkerCounters {
        &self.workers[worker]
    }

    /// The counters of all workers, to read.
    pub fn workers(&self) -> &[WorkerCounters] {
        &self.workers
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// A counter of all workers together.
    pub fn sum(&self, counter: impl Fn(&WorkerCounters) -> &Counter) -> u64 {
        self.workers
            .iter()
            .fold(0, |sum, worker| sum.wrapping_add(counter(worker).get()))
    }
}
