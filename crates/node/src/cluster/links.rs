//! What a worker of a clustered node has to do with others.

use super::Cluster;
use super::asking::Asking;
use super::events::Heard;
use super::interest::Interest;
use super::lanes::Lanes;
use super::lender::Lender;
use super::outbox::Outbox;
use super::queues::OpenQueues;
use super::seen::Seen;
use super::wide::UnknownScripts;
use crate::limits::Limits;
use crate::peers::Peers;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tollgate_cluster::View;
use tollgate_cluster::circuit::Circuits;
use tollgate_cluster::slots::{Effect, Machine, Settings};
use tollgate_commands::Shard;

/// What a worker of a clustered node has to do with others.
#[derive(Debug)]
pub struct Links {
    /// The queues that a closing slot waits for.
    pub queues: Rc<OpenQueues>,
    /// The flushes that a closing slot waits for.
    pub(super) flushing: Rc<OpenQueues>,
    /// Scripts that no node knew a moment ago.
    pub(super) unknown_scripts: UnknownScripts,
    /// Connections to peers.
    pub peers: Peers,
    /// Who holds the worker's slots.
    pub machine: RefCell<Machine>,
    /// How peers answer.
    pub circuits: RefCell<Circuits>,
    /// The shard of the runs that have keys of other nodes; it has no slots, but what is lent to them. Borrowed like the worker's own.
    pub guests: RefCell<Shard>,
    /// What is lent to runs of other nodes.
    pub lender: Lender,
    /// What clients of other nodes want to know of this worker's keys.
    pub interest: Interest,
    /// What this worker's clients want to know of other nodes' keys.
    pub asking: Asking,
    /// The members.
    pub view: RefCell<Arc<View>>,
    /// When the machine was told the time last, by the node's clock.
    pub ticked_us: Cell<u64>,
    /// Of which slots, by their place in the machine, the shard keeps a journal; and the machine's number for that choice.
    pub(super) journaled: RefCell<(Vec<bool>, u64)>,
    /// The machine's version and the view of what was told last of the slots.
    pub(super) told: Cell<Option<(u64, u64)>>,
    /// Batches of connections on their way to peers.
    pub(super) lanes: Rc<Lanes>,
    /// Messages of this step.
    pub(super) outbox: Outbox,
    /// What was last seen to remain of buckets at other nodes.
    pub(super) seen: Seen,
    /// The peers of which it was logged that they make no sense.
    pub(super) nonsense: RefCell<BTreeSet<Arc<str>>>,
    /// What has happened to connections and is not dealt with yet.
    pub(super) heard: Rc<Heard>,
    /// Whether this step has opened a slot, or given it to another node.
    pub(super) has_opened: Cell<bool>,
    /// A list that is emptied after use.
    pub(super) effects: RefCell<Vec<Effect>>,
}

impl Links {
    /// No connections yet.
    pub fn new(cluster: &Cluster, worker: usize, slots: Range<u16>, limits: &Limits, guests: Shard) -> Self {
        let heard = Rc::<Heard>::default();
        // There are far fewer workers than that.
        let number = worker as u16;
        Self {
            queues: Rc::default(),
            flushing: Rc::default(),
            unknown_scripts: UnknownScripts::default(),
            peers: Peers::new(Arc::clone(&cluster.peers), number, {
                let heard = Rc::clone(&heard);
                move |name, worker, event| heard.push(Arc::clone(name), worker, event)
            }),
            machine: RefCell::new(Machine::new(cluster.me.clone(), slots, settings(limits))),
            circuits: RefCell::default(),
            guests: RefCell::new(guests),
            lender: Lender::default(),
            interest: Interest::default(),
            asking: Asking::default(),
            view: RefCell::new(Arc::clone(&cluster.view().borrow())),
            ticked_us: Cell::new(0),
            journaled: RefCell::new((Vec::new(), u64::MAX)),
            told: Cell::default(),
            lanes: Rc::default(),
            outbox: Outbox::default(),
            seen: Seen::default(),
            nonsense: RefCell::default(),
            heard,
            has_opened: Cell::default(),
            effects: RefCell::default(),
        }
    }
}

/// The bounds of a machine. A batch of entries is far smaller than a frame.
fn settings(limits: &Limits) -> Settings {
    let defaults = Settings::default();
    Settings {
        batch_bytes: defaults.batch_bytes.min(limits.peer_frame_bytes / 4),
        copy_in_flight_bytes_max: limits.slot_copy_bytes,
        copies_max: limits.slot_copies,
        moves_max: limits.slot_moves,
        journal_buckets_max: limits.journal_buckets,
        ..defaults
    }
}
