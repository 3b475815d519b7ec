//! The memory of turns.

use crate::order::{Lost, Order};
use crate::remote::{Batch, Replies};
use crate::stretch::Stretch;
use std::collections::HashMap;
use tokio::sync::oneshot;
use tollgate_commands::{CheckQueue, Face, LastCommand, Warmer};

/// Bytes that one read takes at most: what bounds a turn.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of replies that pooled buffers keep room for.
const KEPT_OUT_BYTES: usize = 256 * 1024;

/// The memory of a turn, reused from turn to turn.
#[derive(Debug)]
pub struct TurnBuffers {
    /// What was read.
    pub input: Box<[u8]>,
    /// How much of it.
    pub filled: usize,
    /// Replies, ready to be sent once the turn is finished.
    pub out: Vec<u8>,
    /// Local replies of a segment that has remote ones too.
    pub(super) local: Vec<u8>,
    pub(super) queue: CheckQueue,
    /// Commands that may be left to be run with those of others: all that came so far, or none.
    pub(super) joining: Batch,
    pub(super) last_command: LastCommand,
    /// The face whose commands that is of.
    pub(super) face: Face,
    pub(super) warmer: Warmer,
    pub(super) order: Order,
    /// For each worker, and then each peer: commands that go there with the next send.
    pub(super) outgoing: Vec<Batch>,
    /// For each: the number of its outgoing batch, if that is not empty.
    pub(super) numbers: Vec<usize>,
    /// The batches of this segment by number.
    pub(super) sent: Vec<Sent>,
    /// Where commands of this segment have gone, by slot: others for the slot must not overtake them. None on a node that is alone.
    pub(super) sent_slots: HashMap<u16, usize>,
    /// What the turn has worked since it began, or last let others run; none after it waited for anybody.
    pub(super) stretch: Option<Stretch>,
}

/// A batch of a segment.
#[derive(Debug)]
pub(super) enum Sent {
    /// Commands are still added to it.
    Collecting,
    /// It is on its way.
    Waiting(oneshot::Receiver<Replies>),
    /// It was not taken.
    Lost(Lost),
}

impl TurnBuffers {
    /// Buffers for a node of that many workers.
    pub fn new(workers: usize) -> Self {
        let mut outgoing = Vec::new();
        outgoing.resize_with(workers, Batch::default);
        Self {
            input: vec![0; READ_BYTES].into_boxed_slice(),
            filled: 0,
            out: Vec::new(),
            local: Vec::new(),
            queue: CheckQueue::default(),
            joining: Batch::default(),
            last_command: LastCommand::default(),
            face: Face::Default,
            warmer: Warmer::default(),
            order: Order::default(),
            outgoing,
            numbers: vec![0; workers],
            stretch: None,
            sent: Vec::new(),
            sent_slots: HashMap::new(),
        }
    }

    /// Makes room for a batch to that place; see [`crate::node::Place`].
    pub(super) fn make_room_for(&mut self, place: usize) {
        if self.outgoing.len() <= place {
            self.outgoing.resize_with(place + 1, Batch::default);
            self.numbers.resize(place + 1, 0);
        }
    }

    /// What the turn that is over has worked since it last let others run; none if it has waited since.
    pub fn take_stretch(&mut self) -> Option<Stretch> {
        self.stretch.take()
    }

    /// Empties them, giving back what one large turn needed.
    pub fn reset(&mut self) {
        self.filled = 0;
        self.out.clear();
        self.out.shrink_to(KEPT_OUT_BYTES);
        self.local.clear();
        self.local.shrink_to(KEPT_OUT_BYTES);
        self.order.clear();
        self.sent.clear();
        self.stretch = None;
        self.sent_slots.clear();
        debug_assert!(self.queue.is_empty() && self.joining.is_empty());
    }
}
