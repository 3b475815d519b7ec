//! What has happened to connections, until the worker's own task deals with it: who tells of it may be in the middle of something.

use crate::peers::PeerEvent;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// An event of a connection to a worker of a peer.
#[derive(Debug)]
pub struct LinkEvent {
    /// The peer's name.
    pub peer: Arc<str>,
    /// Which of its workers.
    pub worker: u16,
    /// What happened.
    pub event: PeerEvent,
}

/// Events in their order.
#[derive(Debug, Default)]
pub struct Heard {
    events: RefCell<VecDeque<LinkEvent>>,
    some: Notify,
}

impl Heard {
    /// Adds an event.
    pub fn push(&self, peer: Arc<str>, worker: u16, event: PeerEvent) {
        self.events.borrow_mut().push_back(LinkEvent { peer, worker, event });
        self.some.notify_one();
    }

    /// The next event, if there is one.
    pub fn take(&self) -> Option<LinkEvent> {
        self.events.borrow_mut().pop_front()
    }

    /// Waits until there may be one.
    pub async fn wait(&self) {
        self.some.notified().await;
    }
}
