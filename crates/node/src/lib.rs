//! A node: workers, listeners, configuration, metrics.

pub mod config;
pub mod limits;
pub mod logging;
pub mod metrics;
