//! The commands: one table that declares them all, one file a family, and the [`Shard`] they run on, which is a store of
//! buckets and the policies that decide.
//!
//! Nothing here knows a socket, a thread or a clock: requests come as slices, time as a parameter, replies go into a
//! buffer. The node crate moves them about.

mod batch;
mod bits;
mod blocking;
mod carry;
mod check;
mod client;
mod client_control;
mod client_list;
mod cluster;
mod command_docs;
mod command_info;
mod connection;
mod data;
mod data_copy;
mod double;
mod draws;
mod elements;
mod env;
mod error;
mod expiry;
mod face;
mod functions;
mod glob;
mod hashes;
mod holds;
mod info;
mod interest;
mod key_use;
mod keys;
mod keyspace;
mod latency;
mod lists;
mod lookup;
mod monitor;
mod node_view;
mod object;
mod pubsub;
mod rename;
mod room;
mod rules;
mod scripts;
mod server;
mod session;
mod sets;
mod shard;
mod slowlog;
mod sorted_sets;
mod stats;
mod strings;
mod syntax;
mod table;
#[cfg(test)]
mod test_node;
#[cfg(test)]
mod test_request;
#[cfg(test)]
mod test_shard;
#[cfg(test)]
mod test_undo;
mod transaction;
mod ttl;
mod undo;
mod wait;
mod warm;
mod work;

pub use batch::Batch;
pub use blocking::Blocking;
pub use carry::{
    As, CarryStats, ChangesWritten, Forgotten, JOURNAL_BUCKETS_MAX, LoanError, LoanReader, LoanWriter, Malformed, Owed,
    Share,
};
pub use check::{CheckQueue, DirectAgainst, DirectAnswer, DirectCheck, Flow};
pub use cluster::{ClusterNode, Topology};
pub use env::Env;
pub use error::CommandError;
pub use face::Face;
pub use functions::{Functions, FunctionsLimits, LibraryChange, LibraryRecord, LibraryVersion};
pub use holds::{Loan, RunId};
pub use info::memory_policy;
pub use interest::{Wakeup, WatchMark};
pub use keyspace::{
    KEYS_BYTES_MAX, KeyList, KeyspaceAnswer, KeyspaceCommand, KeyspaceLimits, KeyspaceOp, KeyspaceRun, Name, Pattern,
    STEP_ENTRIES_MAX, ScanCursor, ScanOp, Scanned, SlotPosition, SlotScan, SlotScanned, TypeFilter,
};
pub use latency::LatencyMonitor;
pub use lookup::{CommandTable, LastCommand};
pub use monitor::{ShownSource, is_shown, write_shown};
pub use node_view::{About, ClientInfo, ConnectionCall, NodeView, PolicyLabel, Totals};
pub use pubsub::{Delivery, PubSub, Published, Subscriptions};
pub use scripts::{
    KeyNeed, Names, Needs, ScriptBound, ScriptCommand, ScriptHost, ScriptLimits, ScriptRun, ScriptSource, ScriptStep,
    Scripts, ScriptsLimits,
};
pub use session::{CLIENT_NAME_MAX_BYTES, ReplyMode, Session};
pub use shard::{Shard, ShardConfig, ShardError, Step, WhenFull};
pub use slowlog::{SLOWLOG_ENTRIES_MAX, SlowCommand, SlowLog};
pub use stats::{FaultKind, PolicyStats, ShardStats, Verdict};
pub use table::{ALL, ConnectionFn, EachKeyFn, KeyFn, KeysFn, Rest, Run, STEP_ELEMENTS, Spec, Wide, WorkerCommand};
pub use transaction::{Transaction, Watching};
pub use ttl::EXPIRE_MAX_US;
pub use undo::UndoLog;
pub use wait::Wait;
pub use warm::{COMMANDS_AHEAD, Warmer};
pub use work::Popped;

pub use tollgate_store::CHANGES_BYTES_MAX;

/// The version of Redis whose commands, options, errors and replies these are.
pub const REDIS_VERSION: &str = "7.2.4";
