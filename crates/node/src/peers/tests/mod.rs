//! Two nodes on loopback, each with a runtime of its own.

mod hostile;
mod lifetime;
mod nodes;
mod pipelines;
