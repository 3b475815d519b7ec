//! A worker's mailbox: what other threads want of its shard, a slice at a time.
//!
//! Nobody who waits for the mailbox may wait for a slow policy in somebody else's batch. So a batch that is not done when its
//! slice is over is set aside: it goes on in a task of its own, a slice at a time like a turn, and the mailbox goes on with the
//! next job. Batches of one connection keep their order: those that come while one of its batches is aside go behind it.
//!
//! Many may want a key that is held. They wait without being in the way of others: only so many batches that go on by themselves keep
//! the mailbox from taking more, and only so many may wait, beyond which commands are refused.
//!
//! A batch whose replies have become many sends those, and goes on when they have gone to the client.

use crate::cluster::{OpenQueue, TOO_LARGE, Whereabouts};
use crate::limits::Bound;
use crate::node::Place;
use crate::order::Lost;
use crate::remote::{Batch, CheckResult, Elsewhere, Job, Lane, More, Replies};
use crate::stretch::Stretch;
use crate::turn::{LARGE_OUT_BYTES, SLICE};
use crate::work::{Ran, Work};
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};
use tollgate_commands::{COMMANDS_AHEAD, CheckQueue, CommandError, DirectCheck, Env, Flow};
use tollgate_protocol::Proto;
use tollgate_store::slot_of;

/// How long jobs are taken before the worker's own connections have their chance. The last of them may go on to the end of a
/// turn's slice.
const TAKE_JOBS: Duration = Duration::from_micros(200);

/// Runs the jobs of a mailbox until nobody can send any more.
pub async fn run(worker: Rc<Worker>, mut jobs: mpsc::Receiver<Job>) {
    let mut mailbox = Mailbox {
        aside: Rc::default(),
        spare: None,
        worker,
    };
    while let Some(job) = jobs.recv().await {
        let stretch = Stretch::long();
        let started = stretch.started();
        mailbox.worker.notice_pause(mailbox.worker.node.clock.at(started));
        mailbox.worker.decide_overdue_round(started);
        let mut next = Some(job);
        while let Some(job) = next {
            mailbox.run_job(job, started);
            next = match started.elapsed() < TAKE_JOBS && mailbox.has_room_aside() {
                true => take_ready(&mut jobs).await,
                false => None,
            };
        }
        stretch.end(mailbox.worker.counters());
        // A full mailbox must not keep this worker's own connections waiting.
        tokio::task::yield_now().await;
        while !mailbox.has_room_aside() {
            mailbox.aside.one_done.notified().await;
        }
    }
}

/// A job that is there already. Unlike `try_recv` it never waits for a sender that has been interrupted.
async fn take_ready(jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
    poll_fn(|cx| match jobs.poll_recv(cx) {
        Poll::Ready(job) => Poll::Ready(job),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl Worker {
    /// Decides a check that does not come as a command.
    ///
    /// # Errors
    /// As those of RL.CHECK; [`CommandError::TryAgain`] if its slot has gone meanwhile, or is about to.
    fn check_direct(&self, now_us: u64, db: u8, check: &DirectCheck) -> CheckResult {
        if self.node.place(slot_of(&check.key)) != Place::Of(self.index) {
            return Err(CommandError::TryAgain);
        }
        let env = self.env(now_us, db, Proto::Resp2);
        self.shard.borrow_mut().check_direct(&env, check)
    }
}

/// A mailbox at work.
struct Mailbox {
    worker: Rc<Worker>,
    aside: Rc<Aside>,
    /// The queue of the last batch, for the next.
    spare: Option<CheckQueue>,
}

/// The batches that were set aside.
#[derive(Default)]
struct Aside {
    /// By connection, while a batch of it is aside: its next batches.
    waiting: RefCell<HashMap<Lane, VecDeque<Posted>>>,
    /// How many there are of each kind.
    counts: [Cell<usize>; 3],
    /// Told when there is one less that is busy.
    one_done: Notify,
}

/// What a batch is set aside for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It goes on by itself, a slice at a time.
    Busy,
    /// It waits for a key that is held, for a slot that closes, for another node, or for the batch before it.
    Held,
    /// It waits until its client has taken what it was sent: at most one batch of each connection.
    Sending,
}

/// A batch, and who wants its replies.
struct Posted {
    batch: Batch,
    reply_to: oneshot::Sender<Replies>,
}

impl Mailbox {
    /// Whether another batch may be set aside: as many as the mailbox itself may hold.
    fn has_room_aside(&self) -> bool {
        self.aside.count(Kind::Busy) < self.worker.node.config.limits.mailbox_batches
    }

    /// Runs a job, a batch to the end of the slice at most.
    fn run_job(&mut self, job: Job, slice_started: Instant) {
        let worker = &self.worker;
        let now_us = || worker.node.clock.at(slice_started);
        // Whoever asked may be gone; then nobody wants the answer.
        match job {
            Job::Batch {
                batch,
                connection,
                reply_to,
            } => self.run_batch(connection, Posted { batch, reply_to }, slice_started),
            Job::Instead(standing, batch, reply_to) => {
                let _ = reply_to.send(worker.decide_all_instead(standing, &batch));
            }
            Job::Check(db, check, reply_to) => {
                if worker.shard.borrow().is_blocked(&check.key) {
                    let worker = Rc::clone(worker);
                    tokio::task::spawn_local(async move {
                        worker.until_free(&check.key, None).await;
                        let now_us = worker.node.clock.now_us();
                        let _ = reply_to.send(worker.check_direct(now_us, db, &check));
                    });
                    return;
                }
                let _ = reply_to.send(worker.check_direct(now_us(), db, &check));
            }
        }
    }

    fn run_batch(&mut self, connection: Option<Lane>, posted: Posted, slice_started: Instant) {
        if let Some(connection) = connection
            && let Some(waiting) = self.aside.waiting.borrow_mut().get_mut(&connection)
        {
            if !self.aside.may_hold(&self.worker) {
                Running::new(posted, Some(connection), CheckQueue::default()).refuse_rest(&self.worker);
                return;
            }
            waiting.push_back(posted);
            self.aside.change(Kind::Held, 1);
            return;
        }
        let mut running = Running::new(posted, connection, self.spare.take().unwrap_or_default());
        match running.run(&self.worker, slice_started) {
            Flow::Done => self.spare = Some(running.answer()),
            flow if running.kind(flow) == Kind::Held && !self.aside.may_hold(&self.worker) => {
                self.spare = Some(running.refuse_rest(&self.worker));
            }
            flow @ (Flow::Yield | Flow::Wait) => {
                if let Some(connection) = connection {
                    self.aside.waiting.borrow_mut().insert(connection, VecDeque::new());
                }
                let kind = running.kind(flow);
                self.aside.change(kind, 1);
                let (worker, aside) = (Rc::clone(&self.worker), Rc::clone(&self.aside));
                tokio::task::spawn_local(aside.go_on(worker, connection, (running, kind)));
            }
        }
    }
}

impl Aside {
    /// Whether another batch may wait.
    fn may_hold(&self, worker: &Worker) -> bool {
        self.count(Kind::Held) < worker.node.config.limits.mailbox_batches
    }

    fn count(&self, kind: Kind) -> usize {
        self.counts[kind as usize].get()
    }

    /// Counts one more or one less.
    fn change(&self, kind: Kind, change: isize) {
        let count = &self.counts[kind as usize];
        count.set(count.get().saturating_add_signed(change));
        if change < 0 && kind == Kind::Busy {
            self.one_done.notify_one();
        }
    }

    /// Brings a batch to its end, and then those of its connection that came meanwhile.
    async fn go_on(
        self: Rc<Self>,
        worker: Rc<Worker>,
        connection: Option<Lane>,
        (mut running, mut kind): (Running, Kind),
    ) {
        loop {
            running.go_on(&worker).await;
            let stretch = Stretch::long();
            worker.notice_pause(worker.node.clock.at(stretch.started()));
            let flow = running.run(&worker, stretch.started());
            stretch.end(worker.counters());
            self.change(kind, -1);
            let queue = if flow == Flow::Done {
                running.answer()
            } else {
                kind = running.kind(flow);
                if kind != Kind::Held || self.may_hold(&worker) {
                    self.change(kind, 1);
                    continue;
                }
                running.refuse_rest(&worker)
            };
            let Some(connection) = connection else { return };
            let mut waiting = self.waiting.borrow_mut();
            let Some(next) = waiting.get_mut(&connection).and_then(VecDeque::pop_front) else {
                waiting.remove(&connection);
                return;
            };
            running = Running::new(next, Some(connection), queue);
            // As it was counted.
            kind = Kind::Held;
        }
    }
}

/// A batch under way.
struct Running {
    posted: Posted,
    /// Where its commands come from, if that is known.
    connection: Option<Lane>,
    /// How many of its commands are answered or queued.
    taken: usize,
    /// What is left of the command that comes next, and its circumstances.
    work: Option<(Work, Env)>,
    /// The slot of the command that comes next, while that is closing.
    closing: Option<u16>,
    /// Whether that command has waited for its slot as long as it may.
    has_waited: bool,
    /// Says that checks are queued while others run.
    open_queue: Option<OpenQueue>,
    queue: CheckQueue,
    replies: Replies,
    /// How many commands were answered by parts that are sent.
    sent: usize,
    /// Whether the replies are so many that they are sent before it goes on.
    is_large: bool,
    /// Whether the replies are more than a peer can be sent: those that come now are left out, and what only reads is not done.
    is_over: bool,
}

impl Running {
    fn new(posted: Posted, connection: Option<Lane>, mut queue: CheckQueue) -> Self {
        queue.start(true);
        Self {
            replies: Replies {
                bytes: Vec::new(),
                ends: Vec::with_capacity(posted.batch.len()),
                more: None,
                elsewhere: Vec::new(),
            },
            sent: 0,
            is_large: false,
            is_over: false,
            posted,
            connection,
            taken: 0,
            work: None,
            closing: None,
            has_waited: false,
            open_queue: None,
            queue,
        }
    }

    /// What it is set aside for, having stopped like that.
    fn kind(&self, flow: Flow) -> Kind {
        let waits = self.work.as_ref().is_some_and(|(work, _)| work.waits());
        if self.is_large {
            Kind::Sending
        } else if flow == Flow::Wait || waits {
            Kind::Held
        } else {
            Kind::Busy
        }
    }

    /// Sends the replies so far, and waits until they have gone on.
    async fn send_part(&mut self) {
        self.is_large = false;
        let (go_on, wanted) = oneshot::channel();
        let (reply_to, replies) = oneshot::channel();
        self.sent += self.queue.ends().len();
        let part = Replies {
            bytes: std::mem::take(&mut self.replies.bytes),
            ends: self.queue.ends().to_vec(),
            elsewhere: Vec::new(),
            more: Some(Box::new(More { go_on, replies })),
        };
        self.queue.start(true);
        let asker = std::mem::replace(&mut self.posted.reply_to, reply_to);
        // An asker that is gone wants none of the rest, but all that was sent is run.
        let _ = asker.send(part);
        let _ = wanted.await;
    }

    /// Refuses what is not answered yet, and sends all replies; returns the queue.
    fn refuse_rest(mut self, worker: &Worker) -> CheckQueue {
        worker.counters().limit_hit(Bound::MailboxBatches);
        worker.shard.borrow_mut().forget_checks(&mut self.queue);
        while self.sent + self.queue.ends().len() < self.posted.batch.len() {
            self.replies.bytes.extend_from_slice(Lost::MailboxFull.reply());
            self.queue.note_end(self.replies.bytes.len());
        }
        self.answer()
    }

    /// The connection of this node that it comes from.
    fn client(&self) -> Option<u64> {
        self.connection.and_then(Lane::client)
    }

    /// Bytes of replies beyond which the rest is left out: a peer takes no more than a frame.
    fn reply_bytes_max(&self, worker: &Worker) -> usize {
        match self.connection {
            Some(Lane::Peer(..)) => worker.node.config.limits.peer_frame_bytes,
            _ => usize::MAX,
        }
    }

    /// Does what the batch stopped for: sends a part, brings a command to its end, or waits.
    async fn go_on(&mut self, worker: &Rc<Worker>) {
        if self.is_large {
            return self.send_part().await;
        }
        if let Some((work, env)) = self.work.take() {
            if let Some((spec, _, _, request)) = self.posted.batch.get(self.taken) {
                let client = self.client();
                let out = &mut self.replies.bytes;
                let started = Instant::now();
                worker.finish(work, &env, &mut self.queue, spec, request, out).await;
                let took = started.elapsed();
                if took >= worker.node.slow_from() {
                    worker.note_slow(took, client, spec, request);
                }
            }
            self.taken += 1;
            if self.replies.bytes.len() > self.reply_bytes_max(worker) {
                self.is_over = true;
                worker.counters().limit_hit(Bound::PeerFrameBytes);
            }
            if self.is_over && self.queue.is_empty() {
                self.queue.shorten_last(&mut self.replies.bytes, TOO_LARGE);
            }
            return;
        }
        if let Some(slot) = self.closing.take() {
            if let Some((spec, ..)) = self.posted.batch.get(self.taken) {
                let asked_us = self.posted.batch.asked_us();
                self.has_waited = !worker.until_open_for(slot, spec, asked_us).await;
            }
            return;
        }
        tokio::task::yield_now().await;
        if let Some(key) = self.queue.first_key() {
            let key: Box<[u8]> = key.into();
            worker.until_free(&key, None).await;
        }
    }

    /// Goes on until the batch is done or the slice is over; no longer than that by more than one policy may take.
    fn run(&mut self, worker: &Rc<Worker>, slice_started: Instant) -> Flow {
        self.open_queue = None;
        let flow = self.run_slice(worker, slice_started);
        if !self.queue.is_empty()
            && let Some(links) = &worker.links
        {
            self.open_queue = Some(links.queues.open());
        }
        flow
    }

    fn run_slice(&mut self, worker: &Rc<Worker>, slice_started: Instant) -> Flow {
        let now_us = worker.node.clock.at(slice_started);
        let slow_from = worker.node.slow_from();
        let client = self.client();
        let reply_bytes_max = self.reply_bytes_max(worker);
        let mut since = Instant::now();
        let out = &mut self.replies.bytes;
        while let Some((spec, db, proto, request)) = self.posted.batch.get(self.taken) {
            if self.taken.is_multiple_of(COMMANDS_AHEAD) {
                let next = (self.taken..).map_while(|index| self.posted.batch.get(index));
                let next = next.map(|(spec, db, _, request)| (spec, db, request));
                worker.shard.borrow().warm_for(next);
            }
            let env = worker.env(now_us, db, proto);
            let whereabouts = worker.whereabouts(spec, request);
            if whereabouts != Whereabouts::Here {
                let flow = worker.shard.borrow_mut().flush(&env, &mut self.queue, out);
                if flow != Flow::Done {
                    return flow;
                }
            }
            match whereabouts {
                Whereabouts::Here => {}
                Whereabouts::Closing(slot) if !std::mem::take(&mut self.has_waited) => {
                    self.closing = Some(slot);
                    return Flow::Wait;
                }
                // A peer looks for it itself.
                Whereabouts::Closing(_) | Whereabouts::Elsewhere(_)
                    if matches!(self.connection, Some(Lane::Peer(..))) =>
                {
                    self.replies.elsewhere.push(Elsewhere {
                        index: self.taken as u32,
                        slot: worker.slot_elsewhere(spec, request),
                    });
                    self.queue.note_end(out.len());
                    self.taken += 1;
                    continue;
                }
                Whereabouts::Closing(_) => {
                    let env = worker.env(self.posted.batch.asked_us(), db, proto);
                    self.work = Some((Work::Elsewhere(worker.node.workers()), env));
                    return Flow::Yield;
                }
                Whereabouts::Several => {
                    self.work = Some((Work::Apart, env));
                    return Flow::Yield;
                }
                Whereabouts::Elsewhere(place) => {
                    self.work = Some((Work::Elsewhere(place), env));
                    return Flow::Yield;
                }
            }
            if self.is_over && spec.has_flag("readonly") {
                // Nobody would read it.
                out.extend_from_slice(TOO_LARGE);
                self.queue.note_end(out.len());
                self.taken += 1;
                continue;
            }
            match worker.try_run_here(&env, &mut self.queue, spec, request, out) {
                Ran::Done => {
                    self.taken += 1;
                    if out.len() > reply_bytes_max {
                        self.is_over = true;
                        worker.counters().limit_hit(Bound::PeerFrameBytes);
                    }
                    if self.is_over && self.queue.is_empty() {
                        self.queue.shorten_last(out, TOO_LARGE);
                    }
                }
                Ran::FlushFirst => {
                    // The borrow must not live longer.
                    let flow = worker.shard.borrow_mut().flush(&env, &mut self.queue, out);
                    if flow != Flow::Done {
                        return flow;
                    }
                }
                Ran::Later(work) => {
                    self.work = Some((work, env));
                    return Flow::Yield;
                }
            }
            // What was queued costs nothing yet; anything else may have asked a slow policy.
            if self.queue.is_empty() {
                let now = Instant::now();
                let took = now.saturating_duration_since(since);
                since = now;
                if took >= slow_from {
                    worker.note_slow(took, client, spec, request);
                }
                if self.taken == self.posted.batch.len() {
                    break;
                }
                // Only a connection of this node takes parts; who sends for a peer, or a single command, wants all at once.
                self.is_large = client.is_some() && out.len() >= LARGE_OUT_BYTES;
                if self.is_large || now.saturating_duration_since(slice_started) >= SLICE {
                    return Flow::Yield;
                }
            }
        }
        // Each queued check carries its own database and protocol.
        let env = worker.env(now_us, 0, Proto::Resp2);
        worker.shard.borrow_mut().flush(&env, &mut self.queue, out)
    }

    /// Sends the replies of a finished batch; returns its queue.
    fn answer(self) -> CheckQueue {
        let Self {
            posted,
            queue,
            mut replies,
            sent,
            ..
        } = self;
        replies.ends.extend_from_slice(queue.ends());
        debug_assert_eq!(sent + replies.ends.len(), posted.batch.len());
        // The asker may be gone; then nobody wants the replies.
        let _ = posted.reply_to.send(replies);
        queue
    }
}
