//! Where the keys of a command are, for workers of a clustered node.

use crate::node::Place;
use crate::worker::Worker;
use tollgate_commands::Spec;
use tollgate_protocol::Request;
use tollgate_store::slot_of;

/// Where the keys of a command are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// In this node, or in several.
    Here,
    /// One of them is in this slot, which is closing.
    Closing(u16),
    /// All in that place, which is no worker of this node.
    Elsewhere(usize),
}

impl Worker {
    /// Where the keys of a request are now. A command that was sent to this worker for its keys asks again before it runs, since a slot may
    /// have moved meanwhile.
    #[inline]
    pub fn whereabouts(&self, spec: &Spec, request: Request<'_>) -> Whereabouts {
        match self.node.cluster {
            None => Whereabouts::Here,
            Some(_) => self.find_keys(spec, request),
        }
    }

    fn find_keys(&self, spec: &Spec, request: Request<'_>) -> Whereabouts {
        let workers = self.node.workers();
        let mut only: Option<usize> = None;
        for position in spec.key_positions(request) {
            let slot = slot_of(request.arg(position));
            let place = match self.node.place(slot) {
                Place::Closing => return Whereabouts::Closing(slot),
                Place::Of(place) => place,
            };
            // Keys of several places have to be brought together, whichever those are.
            if place < workers || only.is_some_and(|only| only != place) {
                return Whereabouts::Here;
            }
            only = Some(place);
        }
        only.map_or(Whereabouts::Here, Whereabouts::Elsewhere)
    }

    /// Waits while a slot is closing.
    pub async fn until_open(&self, slot: u16) {
        let Some(links) = &self.links else { return };
        while self.node.place(slot) == Place::Closing {
            links.opened.notified().await;
        }
    }
}
