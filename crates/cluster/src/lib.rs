//! What a cluster decides, as plain state machines: input in, effects out. No socket, no clock, no thread, no Lua.
//!
//! Times are readings of one node's monotonic clock in microseconds; between nodes only ages and readings of a slot's clock travel.

#![forbid(unsafe_code)]

pub mod circuit;
mod damping;
pub mod journal;
pub mod local;
mod member;
mod membership;
mod ring;
#[cfg(test)]
mod simulation;
pub mod slots;
mod view;
pub mod wire;

pub use member::{Epoch, Incarnation, Member, MemberState, SLOTS};
pub use membership::{ALONE_AFTER_US, LISTEN_US, Membership};
pub use ring::{LOAD_BOUND_PERCENT, Ring, VIRTUAL_NODES};
pub use view::{Heard, MAX_MEMBERS, MAX_WEIGHT, View};
