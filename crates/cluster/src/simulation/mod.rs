//! The simulator: the real machines on a network, clocks and stores that are made up, from a seed.

mod store;

pub(crate) use store::{KeyRule, ModelStore};
