//! The node as one of a cluster: where commands go, and what goes between the slot machines and the shards.

mod forward;
mod places;
mod queues;
mod routes;
mod serve;

pub use places::Whereabouts;
pub use queues::{OpenQueue, OpenQueues};
pub use routes::{Route, Routes};

use std::rc::Rc;
use tokio::sync::Notify;
use tollgate_store::SLOTS;

/// What all workers of a clustered node share.
#[derive(Debug)]
pub struct Cluster {
    /// Where commands for each slot go.
    pub routes: Routes,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            routes: Routes::new(SLOTS),
        }
    }
}

/// What a worker of a clustered node has to do with others.
#[derive(Debug, Default)]
pub struct Links {
    /// Told when a slot is no longer closing.
    pub opened: Notify,
    /// The queues that a closing slot waits for.
    pub queues: Rc<OpenQueues>,
}
