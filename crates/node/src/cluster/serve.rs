//! Commands that peers have sent: run in the shards of this node, and their replies put in order.

use super::instead::Standing;
use crate::keyspace;
use crate::node::Place;
use crate::order::{Lost, Order};
use crate::remote::{Batch, Elsewhere, Lane, Replies};
use crate::worker::Worker;
use std::rc::Rc;
use tokio::sync::oneshot;
use tollgate_commands::{Env, LastCommand, Run, Spec};
use tollgate_protocol::{Progress, Proto, Request, Scanner};
use tollgate_store::slot_of;

/// Commands in a row for one database in one version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// How many.
    pub commands: u32,
    /// The database.
    pub db: u8,
    /// The protocol of the replies.
    pub proto: Proto,
}

/// Commands of a peer, sorted by who runs them.
pub struct Forwarded {
    lane: Lane,
    order: Order,
    /// What is answered without a shard.
    local: Vec<u8>,
    local_ends: Vec<u32>,
    /// Those whose slots are elsewhere.
    elsewhere: Vec<Elsewhere>,
    count: u32,
    parts: Vec<Part>,
    /// Whether checks are decided on replicas, in place of holders.
    stands_in: bool,
    /// For each worker: its collecting batch, as an index of `parts`.
    collecting: Vec<Option<usize>>,
}

/// A part of the commands.
enum Part {
    /// For the shard of that worker.
    Batch(usize, Batch),
    /// A command over keys of several shards.
    EachKey(Batch),
}

/// Bytes that are no requests. Whoever sent them is no peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl Forwarded {
    /// Reads commands, and looks up who runs them.
    ///
    /// # Errors
    /// They are not what a peer sends.
    pub fn read(
        worker: &Worker,
        lane: Lane,
        bytes: &[u8],
        stretches: &[Stretch],
        stands_in: bool,
    ) -> Result<Self, Malformed> {
        let mut forwarded = Self {
            lane,
            order: Order::default(),
            local: Vec::new(),
            local_ends: Vec::new(),
            elsewhere: Vec::new(),
            count: 0,
            parts: Vec::new(),
            stands_in,
            collecting: vec![None; worker.node.workers()],
        };
        let mut scanner = Scanner::new(worker.node.scan_limits);
        scanner.set_authenticated(true);
        let mut last = LastCommand::default();
        let mut stretches = stretches.iter().copied();
        let mut stretch = stretches.next().ok_or(Malformed)?;
        let now_us = worker.node.clock.now_us();
        let mut at = 0;
        while at < bytes.len() {
            while stretch.commands == 0 {
                stretch = stretches.next().ok_or(Malformed)?;
            }
            let Ok(Progress::Request { consumed }) = scanner.next(&bytes[at..]) else {
                return Err(Malformed);
            };
            let request = scanner.request(&bytes[at..]);
            let env = worker.env(now_us, stretch.db, stretch.proto);
            match worker.node.commands.resolve(request, &mut last) {
                Ok((spec, _)) => forwarded.sort(worker, &env, spec, request),
                Err(error) => {
                    error.write(&mut forwarded.local, stretch.proto);
                    forwarded.note_local();
                }
            }
            forwarded.count += 1;
            stretch.commands -= 1;
            at += consumed;
        }
        match stretch.commands == 0 && stretches.all(|stretch| stretch.commands == 0) {
            true => Ok(forwarded),
            false => Err(Malformed),
        }
    }

    fn note_local(&mut self) {
        self.local_ends.push(self.local.len() as u32);
        self.order.local(1);
    }

    fn sort(&mut self, worker: &Worker, env: &Env, spec: &'static Spec, request: Request<'_>) {
        let workers = worker.node.workers();
        if matches!(spec.run, Run::EachKey(_)) && goes_apart(worker, spec, request) {
            let mut batch = Batch::default();
            batch.push(spec, env, request);
            self.order.remote(self.parts.len(), 0);
            self.parts.push(Part::EachKey(batch));
            // What comes after it for the same keys comes after it.
            self.collecting.fill(None);
            return;
        }
        // The worker of a key here; the shard's own mailbox waits for a slot that closes.
        let place = |position: usize| {
            let slot = slot_of(request.arg(position));
            match worker.node.place(slot) {
                Place::Of(place) if place >= workers => None,
                Place::Of(place) => Some(place),
                Place::Closing => Some(worker.node.owner(slot)),
            }
        };
        let mut places = spec.key_positions(request).map(place);
        let first = places.next().unwrap_or(Some(worker.index));
        let (Some(first), others) = (first, places.collect::<Vec<_>>()) else {
            if self.stands_in && matches!(spec.run, Run::Check(_)) && worker.can_stand_in(slot_of(request.arg(1))) {
                worker.decide_instead(Standing::Heir, env, spec, request, &mut self.local);
                return self.note_local();
            }
            return self.note_elsewhere(worker, spec, request);
        };
        if others.contains(&None) {
            return self.note_elsewhere(worker, spec, request);
        }
        let part = *self.collecting[first].get_or_insert_with(|| {
            self.parts.push(Part::Batch(first, Batch::default()));
            self.parts.len() - 1
        });
        if let Part::Batch(_, batch) = &mut self.parts[part] {
            self.order.remote(part, batch.len());
            batch.push(spec, env, request);
        }
    }

    fn note_elsewhere(&mut self, worker: &Worker, spec: &Spec, request: Request<'_>) {
        self.elsewhere.push(Elsewhere {
            index: self.count,
            slot: worker.slot_elsewhere(spec, request),
        });
        self.note_local();
    }

    /// Runs them. A command that was not run, since its slot is elsewhere, has an empty reply.
    pub async fn run(self, worker: &Rc<Worker>) -> Replies {
        let mut batches = Vec::with_capacity(self.parts.len());
        let mut waiting = Vec::new();
        for part in self.parts {
            match part {
                Part::Batch(owner, batch) => waiting.push(worker.node.post_batch(owner, batch, Some(self.lane))),
                Part::EachKey(batch) => {
                    // After what came before it, and before what comes after it.
                    take_all(&mut waiting, &mut batches).await;
                    batches.push(Ok(run_each_key(worker, &batch).await));
                }
            }
        }
        take_all(&mut waiting, &mut batches).await;
        let mut elsewhere = self.elsewhere;
        if let (1, [Ok(only)]) = (batches.len(), &mut batches[..])
            && self.local_ends.is_empty()
        {
            return std::mem::take(only);
        }
        let mut replies = Replies::default();
        self.order
            .splice_all(&self.local, &self.local_ends, &batches, &mut replies);
        replies.elsewhere.append(&mut elsewhere);
        replies.elsewhere.sort_unstable_by_key(|command| command.index);
        replies
    }
}

/// Whether the keys of a command are in several places: of workers of this node, or of others.
fn goes_apart(worker: &Worker, spec: &Spec, request: Request<'_>) -> bool {
    let mut places = spec.key_positions(request).map(|position| {
        let slot = slot_of(request.arg(position));
        match worker.node.place(slot) {
            Place::Of(place) => place,
            Place::Closing => worker.node.owner(slot),
        }
    });
    let first = places.next();
    places.any(|place| Some(place) != first)
}

/// The reply in place of one that does not fit into a frame.
pub const TOO_LARGE: &[u8] =
    b"-ERR the replies of another node are too large to be sent together; the command was done\r\n";
/// Bytes of a frame beside the replies: of the frame itself, and for each command.
const FRAME_BESIDE_BYTES: usize = 1024;
const COMMAND_BESIDE_BYTES: usize = 16;

/// Leaves out replies, with an error in place of each, so that the others fit into a frame of `bytes_max`. Answers whether one was left
/// out.
pub fn fit(replies: &mut Replies, bytes_max: usize) -> bool {
    let count = replies.ends.len();
    let room = bytes_max.saturating_sub(FRAME_BESIDE_BYTES + count * COMMAND_BESIDE_BYTES);
    if replies.bytes.len() <= room {
        return false;
    }
    let mut rest = room.saturating_sub(count * TOO_LARGE.len());
    let mut fitting = Replies {
        elsewhere: std::mem::take(&mut replies.elsewhere),
        ..Replies::default()
    };
    for index in 0..count {
        let reply = replies.get(index).unwrap_or_default();
        if reply.len() <= TOO_LARGE.len() {
            fitting.bytes.extend_from_slice(reply);
        } else if reply.len() <= rest {
            rest -= reply.len();
            fitting.bytes.extend_from_slice(reply);
        } else {
            fitting.bytes.extend_from_slice(TOO_LARGE);
        }
        fitting.ends.push(fitting.bytes.len() as u32);
    }
    *replies = fitting;
    true
}

/// Waits for batches, and appends their replies.
async fn take_all(
    waiting: &mut Vec<Result<oneshot::Receiver<Replies>, Lost>>,
    batches: &mut Vec<Result<Replies, Lost>>,
) {
    for posted in waiting.drain(..) {
        batches.push(match posted {
            Ok(replies) => replies.await.map_err(|_| Lost::ShardGone),
            Err(lost) => Err(lost),
        });
    }
}

async fn run_each_key(worker: &Rc<Worker>, batch: &Batch) -> Replies {
    let mut replies = Replies::default();
    if let Some((spec, db, proto, request)) = batch.get(0) {
        let env = worker.env(worker.node.clock.now_us(), db, proto);
        keyspace::run_each_key(worker, &env, spec, request, &mut replies.bytes).await;
    }
    replies.ends.push(replies.bytes.len() as u32);
    replies
}
