//! What a cluster decides, as plain state machines: input in, effects out. No socket, no clock, no thread, no Lua.
//!
//! Times are readings of one node's monotonic clock in microseconds; between nodes only ages and readings of a slot's clock travel.

#![forbid(unsafe_code)]

pub mod circuit;
pub mod journal;
pub mod local;
mod member;
#[cfg(test)]
mod simulation;
pub mod slots;

pub use member::{Epoch, Incarnation, Member, MemberState, SLOTS};
