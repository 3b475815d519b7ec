//! The simulator: the real machines and circuits on a network, clocks, stores and a membership that are made up, from a seed.
//!
//! `make simulate` runs 1,000 seeds; `make simulate SEED=n` runs one and says what happened.

mod decisions;
mod effects;
mod faults;
mod judging;
mod lives;
mod membership;
mod network;
mod node;
mod operations;
mod oracle;
mod random;
mod requests;
mod store;
mod tests;
mod world;

pub(crate) use store::{KeyRule, ModelStore};
