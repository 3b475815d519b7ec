//! The commands of small turns that are ready at the same time, run together.
//!
//! A client that sends one command and waits for the reply makes a turn of one command. The keys of many such clients are looked up
//! together before the first command runs, and what serves the sockets is not in the way of what serves the commands: see
//! [`crate::round`], which does the same for checks.

use crate::limits::Bound;
use crate::link::{Link, Phase};
use crate::stretch::Stretch;
use crate::turn::{LARGE_OUT_BYTES, SLICE};
use crate::work::{Ran, Work};
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_commands::{Batch, COMMANDS_AHEAD, CheckQueue, Env};

/// Bytes of a turn up to which its commands may be left to others; more are a pipeline, which is worth a turn of its own.
pub const JOINED_BYTES_MAX: usize = 512;
/// Batches that are kept for the next turns.
const SPARE_BATCHES: usize = 64;
/// Bytes of replies that are kept room for.
const KEPT_REPLY_BYTES: usize = 256 * 1024;

/// Turns that wait to be run by a worker.
#[derive(Debug, Default)]
pub struct Joined {
    turns: RefCell<VecDeque<JoinedTurn>>,
    /// Those whose commands could not be done at once.
    late: Cell<usize>,
    spare: RefCell<Vec<Batch>>,
    memory: RefCell<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    queue: CheckQueue,
    replies: Vec<u8>,
    done: Vec<Done>,
}

/// What turns that are run one after the other have in common.
struct Pass {
    now_us: u64,
    /// How long a command takes that SLOWLOG shows.
    slow_from: Duration,
    /// The last reading of the clock.
    read_at: Instant,
}

/// The commands of a turn.
#[derive(Debug)]
struct JoinedTurn {
    connection: u64,
    link: Rc<Link>,
    batch: Batch,
    /// When it was read.
    started: Instant,
}

/// A turn whose replies end there.
#[derive(Debug)]
struct Done {
    turn: JoinedTurn,
    end: usize,
}

/// A turn that goes on in a task of its own: a command could not be done at once, its slice is over, or it has many replies.
struct Late {
    turn: JoinedTurn,
    /// The command that comes next.
    at: usize,
    /// What is left of that one, if it has begun, in which circumstances, and since when.
    begun: Option<(Work, Env, Instant)>,
    /// Replies of the commands before it.
    out: Vec<u8>,
}

impl Joined {
    /// Whether no turn waits.
    pub fn is_empty(&self) -> bool {
        self.turns.borrow().is_empty()
    }

    /// Whether a turn is still under way that could not be done at once.
    pub fn has_late(&self) -> bool {
        self.late.get() > 0
    }

    /// When the first of those that wait was read.
    pub fn first_started(&self) -> Option<Instant> {
        self.turns.borrow().front().map(|turn| turn.started)
    }

    fn keep(&self, mut batch: Batch) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_BATCHES && batch.bytes() <= 4 * JOINED_BYTES_MAX {
            batch.clear();
            spare.push(batch);
        }
    }
}

impl Worker {
    /// Takes the commands of a turn that was read at `started`; they are run, and answered, with those of others.
    pub fn join(&self, batch: &mut Batch, connection: u64, link: &Rc<Link>, started: Instant) {
        link.enter_round();
        self.wake_decider();
        let empty = self.joined.spare.borrow_mut().pop().unwrap_or_default();
        self.joined.turns.borrow_mut().push_back(JoinedTurn {
            connection,
            link: Rc::clone(link),
            batch: std::mem::replace(batch, empty),
            started,
        });
    }

    /// Runs turns that wait, until there are none or others should have their chance.
    pub fn run_joined(self: &Rc<Self>) {
        if self.joined.is_empty() {
            return;
        }
        let stretch = Stretch::short(Instant::now());
        let now_us = self.node.clock.at(stretch.started());
        let counters = self.counters();
        // Nothing that a command calls comes here; it may end the round of checks.
        let mut memory = self.joined.memory.borrow_mut();
        let memory = &mut *memory;
        let mut pass = Pass {
            now_us,
            slow_from: self.node.slow_from(),
            read_at: stretch.started(),
        };
        let mut warmed = 0;
        loop {
            if warmed == 0 {
                warmed = self.warm_joined();
            }
            let Some(turn) = self.joined.turns.borrow_mut().pop_front() else {
                break;
            };
            warmed -= 1;
            self.run_one(turn, memory, &mut pass);
            if pass.read_at.saturating_duration_since(stretch.started()) >= SLICE {
                break;
            }
        }
        counters.rounds.add(1);
        counters.round_turns.add(memory.done.len() as u64);
        stretch.end(counters);
        let mut start = 0;
        for Done { turn, end } in &memory.done {
            self.send_joined(&turn.link, &memory.replies[start..*end]);
            start = *end;
        }
        let sent = Instant::now();
        for Done { turn, .. } in memory.done.drain(..) {
            counters.turn(turn.batch.len() as u64, sent.saturating_duration_since(turn.started));
            self.joined.keep(turn.batch);
        }
        memory.replies.clear();
        memory.replies.shrink_to(KEPT_REPLY_BYTES);
        if !self.joined.is_empty() {
            self.wake_decider();
        }
    }

    /// Prepares for the next turns, and says for how many.
    fn warm_joined(&self) -> usize {
        let turns = self.joined.turns.borrow();
        let turns = turns.iter().take(COMMANDS_AHEAD);
        let first = turns.clone().filter_map(|turn| turn.batch.get(0));
        self.shard
            .borrow()
            .warm_for(first.map(|(spec, db, _, request)| (spec, db, request)));
        turns.count()
    }

    /// Runs the commands of a turn; if one of them takes longer, a task of its own goes on with it.
    ///
    /// The clock is read after each command, which is measured from the reading before.
    fn run_one(self: &Rc<Self>, turn: JoinedTurn, memory: &mut Memory, pass: &mut Pass) {
        let Memory { queue, replies, done } = memory;
        if turn.link.is_killed() {
            return turn.link.give_up();
        }
        let start = replies.len();
        let slice_started = pass.read_at;
        for at in 0..turn.batch.len() {
            let Some((spec, db, proto, request)) = turn.batch.get(at) else {
                break;
            };
            let env = self.env(pass.now_us, db, proto);
            queue.start(false);
            // There are no checks among them, so nothing is queued.
            let ran = self.try_run(&env, queue, spec, request, replies);
            let since = std::mem::replace(&mut pass.read_at, Instant::now());
            let took = pass.read_at.saturating_duration_since(since);
            let (next, begun) = match ran {
                Ran::Later(work) => (at, Some((work, env, since))),
                Ran::Done | Ran::FlushFirst => {
                    if took >= pass.slow_from {
                        self.note_slow(took, Some(turn.connection), spec, request);
                    }
                    let is_over = pass.read_at.saturating_duration_since(slice_started) >= SLICE;
                    if at + 1 == turn.batch.len() || !is_over && replies.len() - start < LARGE_OUT_BYTES {
                        continue;
                    }
                    (at + 1, None)
                }
            };
            let out = replies.split_off(start);
            turn.link.phase.set(Phase::Turn);
            self.joined.late.set(self.joined.late.get() + 1);
            let late = Late {
                turn,
                at: next,
                begun,
                out,
            };
            tokio::task::spawn_local(Rc::clone(self).finish_late(late));
            return;
        }
        let end = replies.len();
        done.push(Done { turn, end });
    }

    async fn finish_late(self: Rc<Self>, late: Late) {
        let Late {
            turn,
            at,
            mut begun,
            mut out,
        } = late;
        let mut queue = CheckQueue::default();
        let mut slice_started = Instant::now();
        for at in at..turn.batch.len() {
            let Some((spec, db, proto, request)) = turn.batch.get(at) else {
                break;
            };
            if begun.is_none() {
                if turn.link.is_killed() || turn.link.is_broken() {
                    break;
                }
                if out.len() >= LARGE_OUT_BYTES && !self.send_part(&turn.link, &mut out).await {
                    break;
                }
                if slice_started.elapsed() >= SLICE {
                    tokio::task::yield_now().await;
                    slice_started = Instant::now();
                }
            }
            let (work, env, since) = match begun.take() {
                Some((work, env, since)) => (Some(work), env, since),
                None => {
                    let since = Instant::now();
                    let env = self.env(self.node.clock.at(since), db, proto);
                    match self.try_run(&env, &mut queue, spec, request, &mut out) {
                        Ran::Later(work) => (Some(work), env, since),
                        Ran::Done | Ran::FlushFirst => (None, env, since),
                    }
                }
            };
            if let Some(work) = work {
                self.finish(work, &env, &mut queue, spec, request, &mut out).await;
                slice_started = Instant::now();
            }
            let took = since.elapsed();
            if took >= self.node.slow_from() {
                self.note_slow(took, Some(turn.connection), spec, request);
            }
            debug_assert!(queue.is_empty());
        }
        self.joined.late.set(self.joined.late.get() - 1);
        turn.link.phase.set(Phase::Idle);
        match turn.link.is_killed() || turn.link.is_broken() {
            true => turn.link.give_up(),
            false => self.send_joined(&turn.link, &out),
        }
        self.counters().turn(turn.batch.len() as u64, turn.started.elapsed());
        self.joined.keep(turn.batch);
    }

    /// Sends what a late turn has so far; whether it goes on.
    async fn send_part(&self, link: &Link, out: &mut Vec<u8>) -> bool {
        if self.is_too_large(out) || link.send_in_round(out).await.is_err() {
            link.give_up();
            return false;
        }
        self.counters().sent_bytes.add(out.len() as u64);
        out.clear();
        true
    }

    fn is_too_large(&self, replies: &[u8]) -> bool {
        let is_too_large = replies.len() > self.node.config.limits.output_bytes;
        if is_too_large {
            self.counters().limit_hit(Bound::OutputBytes);
        }
        is_too_large
    }

    fn send_joined(&self, link: &Link, replies: &[u8]) {
        if self.is_too_large(replies) {
            return link.give_up();
        }
        self.counters().sent_bytes.add(replies.len() as u64);
        link.leave_round(replies);
    }
}
