//! What a worker of a clustered node has to do with others.

use super::Cluster;
use super::events::Heard;
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
use tokio::sync::Notify;
use tollgate_cluster::View;
use tollgate_cluster::circuit::Circuits;
use tollgate_cluster::slots::{Effect, Machine, Settings};

/// What a worker of a clustered node has to do with others.
#[derive(Debug)]
pub struct Links {
    /// Told when a slot is no longer closing, or another node has it.
    pub opened: Notify,
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
    /// The members.
    pub view: RefCell<Arc<View>>,
    /// When the machine was told the time last, by the node's clock.
    pub ticked_us: Cell<u64>,
    /// Of which slots, by their place in the machine, the shard keeps a journal; and the machine's number for that choice.
    pub(super) journaled: RefCell<(Vec<bool>, u64)>,
    /// The machine's version and the view of what was told last of the slots.
    pub(super) told: Cell<Option<(u64, u64)>>,
    /// Messages of this step.
    pub(super) outbox: Outbox,
    /// What was last seen to remain of buckets at other nodes.
    pub(super) seen: Seen,
    /// The peers of which it was logged that they make no sense.
    pub(super) nonsense: RefCell<BTreeSet<Arc<str>>>,
    /// What has happened to connections and is not dealt with yet.
    pub(super) heard: Rc<Heard>,
    /// A list that is emptied after use.
    pub(super) effects: RefCell<Vec<Effect>>,
}

impl Links {
    /// No connections yet.
    pub fn new(cluster: &Cluster, worker: usize, slots: Range<u16>, limits: &Limits) -> Self {
        let heard = Rc::<Heard>::default();
        // There are far fewer workers than that.
        let number = worker as u16;
        Self {
            opened: Notify::new(),
            queues: Rc::default(),
            flushing: Rc::default(),
            unknown_scripts: UnknownScripts::default(),
            peers: Peers::new(Arc::clone(&cluster.peers), number, {
                let heard = Rc::clone(&heard);
                move |name, worker, event| heard.push(Arc::clone(name), worker, event)
            }),
            machine: RefCell::new(Machine::new(cluster.me.clone(), slots, settings(limits))),
            circuits: RefCell::default(),
            view: RefCell::new(Arc::clone(&cluster.view().borrow())),
            ticked_us: Cell::new(0),
            journaled: RefCell::new((Vec::new(), u64::MAX)),
            told: Cell::default(),
            outbox: Outbox::default(),
            seen: Seen::default(),
            nonsense: RefCell::default(),
            heard,
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
