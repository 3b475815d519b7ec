//! The commands: one table that declares them all, one file a family, and the [`Shard`] they run on, which is a store of
//! buckets and the policies that decide.
//!
//! Nothing here knows a socket, a thread or a clock: requests come as slices, time as a parameter, replies go into a
//! buffer. The node crate moves them about.

mod check;
mod env;
mod error;
mod lookup;
mod shard;
mod table;

pub use check::{CheckQueue, Flow};
pub use env::Env;
pub use error::CommandError;
pub use lookup::CommandTable;
pub use shard::{PolicyStats, Shard, ShardConfig, ShardStats, Verdict};
pub use table::{ALL, Run, Spec};
