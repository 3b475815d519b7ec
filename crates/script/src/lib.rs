//! Runs rate-limiting policies written in Lua (Luau, through `mlua`).
//!
//! A policy file is the single definition of its algorithm. A [`PolicyHost`] belongs to one shard and one thread; it
//! holds the compiled policies, interns the parameters of limits and decides whole [`Batch`]es of checks with one call
//! into Luau. Time is always a parameter, in microseconds; nothing here reads a wall clock, keeps a bucket or does I/O
//! (reading a directory of policy files apart).
//!
//! # The policy interface
//!
//! A file is one Luau chunk that returns a table of these members; any other member is an error.
//!
//! ```lua
//! return {
//!   version = 1,                        -- positive integer; raise it when the meaning of the fields changes
//!   fields = { "level", "filled_at" },  -- names of the 1 to 4 numbers that are a bucket's state, or "buffer"
//!   burst = "limit",                    -- default capacity: "limit", a number, or "none" (BURST is then an error)
//!   check = function(limit, now, cost, ...) return allowed, remaining, retry_after_us, ... end,
//!   full_at = function(limit, ...) return time_us end,
//!   give = function(limit, now, amount, ...) return ... end,              -- optional: refund
//!   take = function(limit, now, amount, ...) return ... end,              -- optional: debt, down to -burst
//!   resize = function(old_limit, limit, now, ...) return ... end,         -- optional: changed limit
//!   split = function(limit, part, now, i, k, ...) return ... end,         -- optional: sub-bucket i (0-based) of k
//!   merge = function(limit, a, b, now, ...) return ... end,               -- optional: a's fields, then b's
//!   max_bytes = function(limit) return bytes end,                         -- with fields = "buffer", and only then
//! }
//! ```
//!
//! `...` stands for the state: the fields in order, nil on a bucket's first check; trailing nils are not stored. With
//! `fields = "buffer"` the state arguments are a scratch buffer and the length used in it (0 on a first check), and the
//! state result is the new length alone; the buffer is changed in place and stored only if the call succeeds. `limit` is
//! a read-only table `{ limit, window, burst, num, den }`: tokens, microseconds, tokens, and limit/window in lowest
//! terms (tokens per microsecond).
//!
//! Functions must be pure. A policy sees `math` (without `random`), `bit32`, `buffer` (numbers only, at most
//! [`POLICY_BUFFER_BYTES_MAX`] a buffer), and `assert`, `error`, `type`, `typeof`, `tonumber`, `tostring`, `select`,
//! `next`, `pairs`, `ipairs`, `rawequal`, `rawget`, `rawlen`; all read-only. Globals cannot be written. What a file
//! changes in its own local variables does persist while the file is loaded, differs from shard to shard and is lost
//! without notice: state belongs in the fields.

#[cfg(panic = "abort")]
compile_error!("Luau's errors are C++ exceptions that pass through Rust frames: build with panic = \"unwind\"");

mod batch;
mod entries;
mod error;
mod host;
mod index;
mod info;
mod meter;
mod params;
mod residents;
mod sandbox;
mod single;
mod source;
mod validate;
mod vm;

pub use batch::{Batch, MAX_BATCH, OpIx, Outcome, StateAfter, StateIn, StateIx};
pub use error::{Fault, HostError, PolicyError, PolicyFault, TooManyParams};
pub use host::{PolicyHost, PolicyLimits, Progress, Replaced};
pub use info::{BurstRule, Fields, PolicyId, PolicyInfo};
pub use params::{Params, ParamsId};
pub use sandbox::POLICY_BUFFER_BYTES_MAX;
pub use single::{State, Stored};
pub use source::{POLICY_SOURCE_BYTES_MAX, PolicySource, builtin_policies, load_dir};
