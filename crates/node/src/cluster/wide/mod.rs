//! Commands that cover all nodes, so that a cluster looks like one Redis.
//!
//! Over the keys of all nodes (SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHALL, FLUSHDB) they go by slots: each step is done in a slot by who holds
//! it, and in one that is on its way once it has arrived. What nodes have beside keys (listeners, scripts, libraries of functions) they
//! tell each other and ask each other for. Everything waits for a bounded time only, and names who does not answer.

mod command;
mod flush;
mod keyspace;
mod libraries;
mod parts;
mod publish;
mod scan;
mod scripts;
mod serve;
mod steps;

pub use parts::Unanswered;
pub use publish::Outbound;
pub use scripts::UnknownScripts;
pub use steps::{SlotsDone, SlotsOp};

use command::{ANSWER_PATIENCE, integer_of};
use std::time::Duration;

/// How long slots without a holder, and nodes that cannot be asked, are waited for before they are looked at again.
const AGAIN: Duration = Duration::from_millis(5);
