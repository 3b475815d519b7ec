//! A node: workers, listeners, configuration, metrics.

mod accept;
pub mod admin;
mod admin_thread;
mod attend;
mod backend;
mod blocking;
mod clients;
mod clock;
pub mod config;
mod connection;
pub mod gossip;
mod joined;
mod keyspace;
pub mod limits;
mod link;
mod listen;
mod loans;
pub mod logging;
mod mailbox;
pub mod metrics;
mod monitors;
mod node;
mod order;
mod pause;
mod publish;
mod remote;
mod round;
mod server;
mod slow;
mod stretch;
mod transaction;
mod turn;
mod view;
mod work;
mod worker;

pub use server::{ServeError, serve};
