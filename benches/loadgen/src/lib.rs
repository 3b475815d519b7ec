//! The load generator of every bench.
