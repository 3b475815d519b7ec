//! A node: workers, listeners, configuration, metrics.

mod accept;
pub mod admin;
mod admin_thread;
mod backend;
mod blocking;
mod clients;
mod clock;
pub mod config;
mod connection;
mod joined;
mod keyspace;
pub mod limits;
mod link;
mod listen;
mod loans;
pub mod logging;
mod mailbox;
pub mod metrics;
mod node;
mod order;
mod publish;
mod remote;
mod round;
mod server;
mod stretch;
mod transaction;
mod turn;
mod view;
mod work;
mod worker;

pub use server::{ServeError, serve};
