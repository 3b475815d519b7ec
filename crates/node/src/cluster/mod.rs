//! The node as one of a cluster: where commands go, and what goes between the slot machines and the shards.

mod asking;
mod borrower;
mod events;
mod forward;
mod instead;
mod interest;
mod keeper;
mod lanes;
mod lender;
mod links;
mod open;
mod operate;
mod outbox;
mod places;
mod queues;
mod report;
mod routes;
mod seen;
mod serve;
mod store;
mod unknown;
mod wide;

pub use asking::At;
pub use borrower::{Abroad, Obstacle};
pub use instead::Standing;
pub use keeper::FromPeers;
pub use links::Links;
pub use operate::{Operation, drain};
pub use places::{Whereabouts, class_of};
pub use queues::OpenQueue;
pub use report::report;
pub use routes::{Route, Routes};
pub use serve::TOO_LARGE;
pub use wide::{Outbound, SlotsDone, SlotsOp, Unanswered};

use crate::gossip::{Gossip, GossipStatus, Home, Inputs};
use crate::metrics::Counter;
use crate::peers::PeerConfig;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::{Notify, watch};
use tollgate_cluster::{Incarnation, MemberState, View};
use tollgate_store::SLOTS;

/// What a node must be to hold slots.
const SERVES: u8 = 1;
const HAS_LIBRARIES: u8 = 2;
/// Names of peers that have numbers: as many as there are numbers.
const NAMES_MAX: usize = 1 << 16;

/// What all threads of a clustered node share.
#[derive(Debug)]
pub struct Cluster {
    /// This life of this node.
    pub me: Incarnation,
    /// Where commands for each slot go.
    pub routes: Routes,
    /// Told when a slot of any worker is no longer closing, or another node has it.
    pub opened: Notify,
    /// What connections to peers have in common.
    pub peers: Arc<PeerConfig>,
    /// Where others, and clients of Redis Cluster, are told to reach this node.
    pub told: Told,
    /// Whether the node was told of others; else it is the first.
    pub has_seeds: bool,
    /// What each worker's slots come to.
    pub workers: Vec<WorkerSlots>,
    /// Names of peers by the numbers that routes have for them.
    names: RwLock<Vec<Arc<str>>>,
    /// Of [`SERVES`] and [`HAS_LIBRARIES`].
    prepared: AtomicU8,
    gossip: Mutex<Option<Gossip>>,
    inputs: watch::Sender<Inputs>,
    view: watch::Receiver<Arc<View>>,
    status: watch::Receiver<Arc<GossipStatus>>,
}

/// Where others are told to reach a node, as `host:port`.
#[derive(Debug, Clone)]
pub struct Told {
    /// Peers.
    pub peer: Arc<str>,
    /// Clients of Redis Cluster, if it listens for them.
    pub redirect_listen: Option<Arc<str>>,
}

/// What a worker's slots come to; each worker writes its own.
#[derive(Debug, Default)]
pub struct WorkerSlots {
    /// The hash of the view that the rest speaks of.
    pub view: Counter,
    /// How many slots it holds.
    pub held: Counter,
    /// How many of them have another target in that view.
    pub astray: Counter,
    /// A sum over them and their epochs.
    pub sum: Counter,
    /// Buckets of which it owes something to other nodes.
    pub owed: Counter,
}

impl Cluster {
    /// What gossip has begun.
    pub fn new(gossip: Gossip, peers: Arc<PeerConfig>, told: Told, has_seeds: bool, workers: usize) -> Self {
        Self {
            me: gossip.me().clone(),
            routes: Routes::new(SLOTS),
            opened: Notify::new(),
            peers,
            told,
            has_seeds,
            workers: (0..workers).map(|_| WorkerSlots::default()).collect(),
            names: RwLock::default(),
            prepared: AtomicU8::new(0),
            inputs: gossip.inputs().clone(),
            view: gossip.view(),
            status: gossip.status(),
            gossip: Mutex::new(Some(gossip)),
        }
    }

    /// The view, whenever it changes.
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Whether there are other members.
    pub fn has_peers(&self) -> bool {
        self.view.borrow().members().len() > 1
    }

    /// What gossip has to tell.
    pub fn status(&self) -> Arc<GossipStatus> {
        Arc::clone(&self.status.borrow())
    }

    /// The node serves.
    pub fn serves(&self) {
        self.note_prepared(SERVES);
    }

    /// The node has the libraries of functions that others have, as far as those could be had.
    pub fn has_libraries(&self) {
        self.note_prepared(HAS_LIBRARIES);
    }

    /// With both it has all that it must have to hold slots.
    fn note_prepared(&self, what: u8) {
        let before = self.prepared.fetch_or(what, Ordering::AcqRel);
        if before | what == SERVES | HAS_LIBRARIES {
            self.inputs.send_modify(|inputs| inputs.prepared = true);
        }
    }

    /// The node gives its slots away.
    pub fn leave(&self) {
        self.inputs.send_modify(|inputs| inputs.leaving = true);
    }

    /// It does not any more, and takes some again.
    pub fn stay(&self) {
        self.inputs.send_modify(|inputs| inputs.leaving = false);
    }

    /// Whether it gives them away, or has.
    pub fn is_leaving(&self) -> bool {
        self.inputs.borrow().leaving
    }

    /// Whether the node has slots that another takes, or owes another what it admitted in its place.
    pub fn gives_slots_away(&self) -> bool {
        let view = self.view.borrow();
        let others = view
            .members()
            .iter()
            .any(|member| member.id.name != self.me.name && member.state == MemberState::Ready);
        let drained = |slots: &WorkerSlots| slots.held.get() == 0 && slots.owed.get() == 0;
        others && !self.workers.iter().all(drained)
    }

    /// Tells the others what the workers' slots come to.
    pub fn tell_home(&self) {
        let view_hash = self.view.borrow().hash();
        let home = Home {
            view_hash,
            at_home: self
                .workers
                .iter()
                .all(|slots| slots.view.get() == view_hash && slots.astray.get() == 0),
            slots_hash: self
                .workers
                .iter()
                .fold(0, |sum, slots| sum.wrapping_add(slots.sum.get())),
        };
        self.inputs
            .send_if_modified(|inputs| std::mem::replace(&mut inputs.home, home) != home);
    }

    /// Ends gossip.
    pub fn stop(&self) {
        if let Some(gossip) = self.gossip.lock().take() {
            gossip.stop();
        }
    }

    /// The number that routes have for a peer.
    pub fn number_of(&self, name: &Arc<str>) -> u16 {
        let find = |names: &[Arc<str>]| names.iter().position(|known| known == name);
        if let Some(number) = find(&self.names.read()) {
            return number as u16;
        }
        let mut names = self.names.write();
        if let Some(number) = find(&names) {
            return number as u16;
        }
        if names.len() < NAMES_MAX {
            names.push(Arc::clone(name));
            return (names.len() - 1) as u16;
        }
        // A cluster that has seen so many names over the years: one is forgotten by which nothing is routed.
        let mut used = vec![false; names.len()];
        for slot in 0..SLOTS {
            if let Route::Peer(number) = self.routes.get(slot) {
                used[usize::from(number)] = true;
            }
        }
        let view = self.view.borrow();
        let is_free = |number: &usize| !used[*number] && view.member(&names[*number]).is_none();
        // There are more names than slots and members.
        let free = (0..names.len()).find(is_free).unwrap_or(0);
        names[free] = Arc::clone(name);
        free as u16
    }

    /// The peer of a number.
    pub fn name_of(&self, number: u16) -> Option<Arc<str>> {
        self.names.read().get(usize::from(number)).cloned()
    }
}

#[cfg(test)]
mod tests;
