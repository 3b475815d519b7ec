//! Keys of this worker's slots that are lent to runs of other nodes.
//!
//! A key stays where it is while it is lent, as it is, and is held: commands of others for it wait, its slot stays, and whoever follows the
//! slot is told nothing. What comes back is stored as one change. If nothing does, since the connection is over, the borrower is in no
//! view, or its time is over, the key is free again as it was.

use crate::limits::Bound;
use crate::node::Place;
use crate::peers::{PeerId, ReplyHandle};
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use tokio::sync::Notify;
use tollgate_cluster::wire::{GiveBack, GivenBack, Lend, Lent, LentOutcome, Part, Piece, Within, read_message};
use tollgate_cluster::{Incarnation, View};
use tollgate_commands::{Loan, LoanError, LoanReader, LoanWriter, RunId};
use tollgate_store::{DATABASES, MAX_KEY_BYTES, Space, slot_of};

/// Bytes of a key that are written before others have their chance.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes after which no further key goes into an answer.
const ANSWER_BYTES: usize = 1 << 20;

/// A run of another node: by the connection that its requests come over, and its number there.
type Borrower = (u64, u64);

/// What is lent to other nodes.
#[derive(Debug, Default)]
pub struct Lender {
    runs: RefCell<HashMap<Borrower, Rc<LentRun>>>,
    /// Keys that are lent, or wanted.
    keys: Cell<usize>,
}

/// What is lent to a run.
#[derive(Debug)]
struct LentRun {
    /// The run that holds the keys here in its place.
    id: RunId,
    peer: Incarnation,
    since_us: u64,
    /// By their numbers.
    keys: RefCell<Vec<(Space, Box<[u8]>)>>,
    /// How many it counts for.
    wanted: Cell<usize>,
    /// What has come back so far.
    pieces: RefCell<Vec<(u32, Vec<u8>)>>,
    /// Bytes of that.
    pieces_bytes: Cell<usize>,
    is_over: Cell<bool>,
    ended: Notify,
}

/// What came of waiting for a key.
enum Holding {
    Held,
    Busy,
    NotHere,
    Over,
}

impl Worker {
    /// The space of that name, if this node has it.
    pub(super) fn space_within(&self, within: Within<'_>) -> Option<Space> {
        match within {
            Within::Db(number) => (number < DATABASES).then_some(Space::Db(number)),
            Within::Rule(id) => self
                .node
                .rules
                .get(id.as_bytes())
                .map(|(number, _)| Space::Rule(number)),
        }
    }

    /// Lends keys to a run of a peer, and answers.
    pub(super) fn serve_lend(self: &Rc<Self>, from: &PeerId, body: &[u8], reply: ReplyHandle) {
        let Some(links) = &self.links else { return };
        let Ok(lend) = read_message::<Lend<'_>>(from.version, body) else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let mut wanted = Vec::with_capacity(lend.keys.len());
        for key in &lend.keys {
            let space = self.space_within(key.within);
            let Some(space) = space.filter(|_| key.key.len() <= MAX_KEY_BYTES) else {
                return answer(reply, LentOutcome::Refused { why: UNKNOWN_RULE });
            };
            wanted.push((space, Box::from(key.key)));
        }
        let lender = &links.lender;
        let count = lender.keys.get() + wanted.len();
        if count > self.node.config.limits.lent_keys {
            self.counters().limit_hit(Bound::LentKeys);
            return answer(
                reply,
                LentOutcome::Refused {
                    why: Bound::LentKeys.error(),
                },
            );
        }
        lender.keys.set(count);
        let run = Rc::clone(
            lender
                .runs
                .borrow_mut()
                .entry((from.connection, lend.run))
                .or_insert_with(|| {
                    Rc::new(LentRun {
                        id: self.next_run(),
                        peer: from.id.clone(),
                        since_us: self.node.clock.now_us(),
                        keys: RefCell::default(),
                        wanted: Cell::new(0),
                        pieces: RefCell::default(),
                        pieces_bytes: Cell::new(0),
                        is_over: Cell::new(false),
                        ended: Notify::new(),
                    })
                }),
        );
        run.wanted.set(run.wanted.get() + wanted.len());
        let (worker, waits) = (Rc::clone(self), lend.waits);
        tokio::task::spawn_local(async move { worker.lend_abroad(&run, wanted, waits, reply).await });
    }

    async fn lend_abroad(&self, run: &LentRun, wanted: Vec<(Space, Box<[u8]>)>, waits: bool, reply: ReplyHandle) {
        let limits = &self.node.config.limits;
        let answer_bytes = ANSWER_BYTES.min(limits.peer_frame_bytes / 4);
        let key_bytes = limits.lent_key_bytes.min(limits.peer_frame_bytes / 2);
        let mut clocks_us = Vec::with_capacity(wanted.len());
        let mut bytes = Vec::new();
        let mut pieces: Vec<(u32, Range<usize>)> = Vec::new();
        for (space, key) in wanted {
            let refused = match self.hold_for(run, &key, waits).await {
                Holding::Held => None,
                Holding::Busy => Some(LentOutcome::Busy),
                Holding::NotHere => Some(LentOutcome::NotHere { slot: slot_of(&key) }),
                Holding::Over => return,
            };
            match refused {
                None => {}
                Some(outcome) if clocks_us.is_empty() => return answer(reply, outcome),
                // Those that are here already are lent, and the rest is asked for again.
                Some(_) => break,
            }
            let number = run.keys.borrow().len() as u32;
            run.keys.borrow_mut().push((space, key.clone()));
            let (start, mut writer) = (bytes.len(), LoanWriter::default());
            loop {
                let before = bytes.len();
                let is_last = self
                    .shard
                    .borrow()
                    .write_loan(space, &key, &mut writer, PIECE_BYTES, &mut bytes);
                if bytes.len() > before {
                    pieces.push((number, before..bytes.len()));
                }
                if bytes.len() - start > key_bytes {
                    self.counters().limit_hit(Bound::LentKeyBytes);
                    let why = Bound::LentKeyBytes.error();
                    return answer(reply, LentOutcome::Refused { why });
                }
                if is_last {
                    break;
                }
                tokio::task::yield_now().await;
                if run.is_over.get() {
                    return;
                }
            }
            let now_us = self.node.clock.now_us();
            clocks_us.push(self.shard.borrow().slot_clock_at(slot_of(&key), now_us));
            if bytes.len() >= answer_bytes {
                break;
            }
        }
        self.counters().keys_lent.add(clocks_us.len() as u64);
        let pieces = pieces.into_iter().map(|(key, range)| Piece {
            key,
            bytes: &bytes[range],
        });
        answer(
            reply,
            LentOutcome::Lent {
                clocks_us,
                pieces: pieces.collect(),
            },
        );
    }

    /// Holds a key for a run of another node. Only for keys that are in use it waits: for what else is in the way, the run has to give back
    /// what it has first.
    async fn hold_for(&self, run: &LentRun, key: &[u8], waits: bool) -> Holding {
        loop {
            if run.is_over.get() {
                return Holding::Over;
            }
            if self.node.place(slot_of(key)) != Place::Of(self.index) {
                return Holding::NotHere;
            }
            let (is_frozen, is_blocked) = {
                let shard = self.shard.borrow();
                (shard.is_frozen_for(run.id), shard.is_blocked_for(key, Some(run.id)))
            };
            if is_frozen {
                return Holding::Busy;
            }
            if !is_blocked {
                self.hold(key, run.id);
                return Holding::Held;
            }
            if !waits {
                return Holding::Busy;
            }
            self.counters().keys_waited.add(1);
            let free = self.waits.of(key);
            tokio::select! {
                () = free.notified() => {}
                () = run.ended.notified() => {}
            }
        }
    }

    /// Takes back what a run of a peer has had, and answers.
    pub(super) fn serve_give_back(&self, from: &PeerId, body: &[u8], reply: ReplyHandle) {
        let Some(links) = &self.links else { return };
        let Ok(back) = read_message::<GiveBack<'_>>(from.version, body) else {
            let _ = reply.not_understood();
            return;
        };
        let borrower = (from.connection, back.run);
        if back.part == Part::More {
            let run = links.lender.runs.borrow().get(&borrower).cloned();
            if let Some(run) = run {
                self.collect(&run, &back.pieces);
            }
            return;
        }
        let run = links.lender.runs.borrow_mut().remove(&borrower);
        let is_kept = run.is_some_and(|run| {
            let is_kept = back.part == Part::Last && self.store_given_back(&run, &back.pieces);
            self.end_lent(&run);
            is_kept
        });
        // If the connection is over, nobody waits for that.
        let _ = reply.reply(&GivenBack { is_kept });
    }

    /// Keeps what comes back in parts until the last has come.
    fn collect(&self, run: &LentRun, pieces: &[Piece<'_>]) {
        let bytes: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        run.pieces_bytes.set(run.pieces_bytes.get() + bytes);
        if run.pieces_bytes.get() <= self.node.config.limits.peer_queue_bytes {
            let pieces = pieces.iter().map(|piece| (piece.key, piece.bytes.to_vec()));
            run.pieces.borrow_mut().extend(pieces);
        }
    }

    /// Stores what a run has made of its keys: all of it, or nothing if that cannot be. Whether it was stored.
    fn store_given_back(&self, run: &LentRun, last: &[Piece<'_>]) -> bool {
        let (Some(links), earlier) = (&self.links, run.pieces.take()) else {
            return false;
        };
        let earlier_bytes: usize = earlier.iter().map(|(_, bytes)| bytes.len()).sum();
        if earlier_bytes != run.pieces_bytes.get() {
            self.counters().limit_hit(Bound::PeerQueueBytes);
            return false;
        }
        let pieces = earlier
            .iter()
            .map(|(key, bytes)| (*key, &bytes[..]))
            .chain(last.iter().map(|piece| (piece.key, piece.bytes)));
        let keys = run.keys.borrow();
        let loans = self.read_given_back(&keys, pieces);
        let Ok(loans) = loans else {
            tracing::warn!(event = "peer_nonsense", peer = %run.peer.name);
            return false;
        };
        let machine = links.machine.borrow();
        if !loans.iter().all(|loan| machine.is_held(slot_of(&loan.key))) {
            return false;
        }
        let mut shard = self.shard.borrow_mut();
        loans.into_iter().for_each(|loan| shard.replace_held(loan));
        true
    }

    fn read_given_back<'a>(
        &self,
        keys: &[(Space, Box<[u8]>)],
        pieces: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Result<Vec<Loan>, LoanError> {
        let shard = self.shard.borrow();
        let mut loans = Vec::new();
        let mut reading: Option<(u32, LoanReader)> = None;
        let finish = |(number, reader): (u32, LoanReader)| {
            let (space, key) = keys.get(number as usize).ok_or(LoanError::Malformed)?;
            reader.finish(*space, key, 0)
        };
        for (number, piece) in pieces {
            let (space, key) = keys.get(number as usize).ok_or(LoanError::Malformed)?;
            if let Some(before) = reading.take_if(|(before, _)| *before != number) {
                loans.push(finish(before)?);
            }
            let (_, reader) = reading.get_or_insert_with(|| (number, LoanReader::default()));
            shard.read_loan(reader, *space, key, piece)?;
        }
        if let Some(last) = reading {
            loans.push(finish(last)?);
        }
        Ok(loans)
    }

    /// Lets go of the keys of a run.
    fn end_lent(&self, run: &LentRun) {
        run.is_over.set(true);
        run.ended.notify_waiters();
        for (_, key) in run.keys.take() {
            self.shard.borrow_mut().release(&key, run.id);
            self.waits.wake(&key);
        }
        if let Some(links) = &self.links {
            links.lender.keys.set(links.lender.keys.get() - run.wanted.take());
        }
    }

    /// A connection of a peer is over: what was lent over it is free again.
    pub(super) fn free_lent_over(&self, connection: u64) {
        self.free_lent(|&(of, _), _| of == connection);
    }

    /// Frees what was lent to nodes that are in no view any more.
    pub(super) fn free_lent_to_gone(&self, view: &View) {
        let is_gone = |peer: &Incarnation| {
            let member = view.member(&peer.name);
            member.is_none_or(|member| member.id != *peer)
        };
        self.free_lent(|_, run| is_gone(&run.peer));
    }

    /// Frees what has been lent for too long.
    pub(super) fn free_overdue(&self) {
        let now_us = self.node.clock.now_us();
        let lent_us = self.node.config.limits.lent_ms as u64 * 1_000;
        let freed = self.free_lent(|_, run| now_us > run.since_us.saturating_add(lent_us));
        if freed > 0 {
            self.counters().limit_hit(Bound::LentMs);
        }
        if let Some(links) = &self.links {
            self.counters().keys_lent_now.set(links.lender.keys.get() as u64);
        }
    }

    fn free_lent(&self, goes: impl Fn(&Borrower, &LentRun) -> bool) -> usize {
        let Some(links) = &self.links else { return 0 };
        let freed: Vec<_> = {
            let mut runs = links.lender.runs.borrow_mut();
            runs.extract_if(|borrower, run| goes(borrower, run)).collect()
        };
        for (_, run) in &freed {
            tracing::debug!(event = "loan_freed", peer = %run.peer.name, keys = run.keys.borrow().len());
            self.end_lent(run);
        }
        freed.len()
    }
}

/// The error of a key of a rule that this node does not have.
const UNKNOWN_RULE: &str = "ERR another node does not know the rule of a key";

fn answer(reply: ReplyHandle, outcome: LentOutcome<'_>) {
    // Who has gone wants no answer, and gets its keys taken away.
    let _ = reply.reply(&Lent { outcome });
}
