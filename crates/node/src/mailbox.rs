//! A worker's mailbox: what other threads want of its shard, a slice at a time.
//!
//! Nobody who waits for the mailbox may wait for a slow policy in somebody else's batch. So a batch that is not done when its
//! slice is over is set aside: it goes on in a task of its own, a slice at a time like a turn, and the mailbox goes on with the
//! next job. Batches of one connection keep their order: those that come while one of its batches is aside go behind it.

use crate::cluster::{OpenQueue, Whereabouts};
use crate::remote::{Batch, Job, Lane, Replies};
use crate::stretch::Stretch;
use crate::turn::SLICE;
use crate::work::{Ran, Work};
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};
use tollgate_commands::{COMMANDS_AHEAD, CheckQueue, Env, Flow};
use tollgate_protocol::Proto;

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
    /// Batches aside, those that wait included.
    batches: Cell<usize>,
    /// Told when there is one less.
    one_done: Notify,
}

/// A batch, and who wants its replies.
struct Posted {
    batch: Batch,
    reply_to: oneshot::Sender<Replies>,
}

impl Mailbox {
    /// Whether another batch may be set aside: as many as the mailbox itself may hold.
    fn has_room_aside(&self) -> bool {
        self.aside.batches.get() < self.worker.node.config.limits.mailbox_batches
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
                        let env = worker.env(worker.node.clock.now_us(), db, Proto::Resp2);
                        let answer = worker.shard.borrow_mut().check_direct(&env, &check);
                        let _ = reply_to.send(answer);
                    });
                    return;
                }
                let env = worker.env(now_us(), db, Proto::Resp2);
                let answer = worker.shard.borrow_mut().check_direct(&env, &check);
                let _ = reply_to.send(answer);
            }
        }
    }

    fn run_batch(&mut self, connection: Option<Lane>, posted: Posted, slice_started: Instant) {
        if let Some(connection) = connection
            && let Some(waiting) = self.aside.waiting.borrow_mut().get_mut(&connection)
        {
            waiting.push_back(posted);
            self.aside.count_one();
            return;
        }
        let mut running = Running::new(posted, connection, self.spare.take().unwrap_or_default());
        match running.run(&self.worker, slice_started) {
            Flow::Done => self.spare = Some(running.answer()),
            Flow::Yield | Flow::Wait => {
                if let Some(connection) = connection {
                    self.aside.waiting.borrow_mut().insert(connection, VecDeque::new());
                }
                self.aside.count_one();
                let (worker, aside) = (Rc::clone(&self.worker), Rc::clone(&self.aside));
                tokio::task::spawn_local(aside.go_on(worker, connection, running));
            }
        }
    }
}

impl Aside {
    fn count_one(&self) {
        self.batches.set(self.batches.get() + 1);
    }

    /// Brings a batch to its end, and then those of its connection that came meanwhile.
    async fn go_on(self: Rc<Self>, worker: Rc<Worker>, connection: Option<Lane>, mut running: Running) {
        loop {
            running.go_on(&worker).await;
            let stretch = Stretch::long();
            let flow = running.run(&worker, stretch.started());
            stretch.end(worker.counters());
            if flow != Flow::Done {
                continue;
            }
            let queue = running.answer();
            self.batches.set(self.batches.get() - 1);
            self.one_done.notify_one();
            let Some(connection) = connection else { return };
            let mut waiting = self.waiting.borrow_mut();
            let Some(next) = waiting.get_mut(&connection).and_then(VecDeque::pop_front) else {
                waiting.remove(&connection);
                return;
            };
            running = Running::new(next, Some(connection), queue);
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
    /// Says that checks are queued while others run.
    open_queue: Option<OpenQueue>,
    queue: CheckQueue,
    replies: Replies,
}

impl Running {
    fn new(posted: Posted, connection: Option<Lane>, mut queue: CheckQueue) -> Self {
        queue.start(true);
        Self {
            replies: Replies {
                bytes: Vec::new(),
                ends: Vec::with_capacity(posted.batch.len()),
                elsewhere: Vec::new(),
            },
            posted,
            connection,
            taken: 0,
            work: None,
            closing: None,
            open_queue: None,
            queue,
        }
    }

    /// The connection of this node that it comes from.
    fn client(&self) -> Option<u64> {
        self.connection.and_then(Lane::client)
    }

    /// Does what the batch stopped for: brings a command to its end, or waits.
    async fn go_on(&mut self, worker: &Rc<Worker>) {
        if let Some((work, env)) = self.work.take() {
            if let Some((spec, _, _, request)) = self.posted.batch.get(self.taken) {
                let client = self.client();
                let out = &mut self.replies.bytes;
                let started = Instant::now();
                worker.finish(work, &env, &mut self.queue, spec, request, out).await;
                let took = started.elapsed();
                if took >= worker.node.slowlog.slower_than() {
                    worker.note_slow(took, client, spec, request);
                }
            }
            self.taken += 1;
            return;
        }
        if let Some(slot) = self.closing.take() {
            return worker.until_open(slot).await;
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
        let slow_from = worker.node.slowlog.slower_than();
        let client = self.client();
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
                Whereabouts::Closing(slot) => {
                    self.closing = Some(slot);
                    return Flow::Wait;
                }
                // A peer looks for it itself.
                Whereabouts::Elsewhere(_) if matches!(self.connection, Some(Lane::Peer(..))) => {
                    self.replies.elsewhere.push(self.taken as u32);
                    self.queue.note_end(out.len());
                    self.taken += 1;
                    continue;
                }
                Whereabouts::Elsewhere(place) => {
                    self.work = Some((Work::Elsewhere(place), env));
                    return Flow::Yield;
                }
            }
            match worker.try_run(&env, &mut self.queue, spec, request, out) {
                Ran::Done => self.taken += 1,
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
                if now.saturating_duration_since(slice_started) >= SLICE && self.taken < self.posted.batch.len() {
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
            ..
        } = self;
        replies.ends.extend_from_slice(queue.ends());
        debug_assert_eq!(replies.ends.len(), posted.batch.len());
        // The asker may be gone; then nobody wants the replies.
        let _ = posted.reply_to.send(replies);
        queue
    }
}
