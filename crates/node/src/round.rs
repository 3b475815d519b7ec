//! A round: the checks of small turns that are ready at the same time, decided together.
//!
//! A client that sends one check and waits makes a turn of one check. Decided alone, each would wait for its own cache misses
//! and call the policies for itself. So the connections that are ready in one turn of the loop leave their checks here; a task
//! that was woken by the first of them, and so runs after them, decides all at once and sends each its replies.

use crate::cluster::OpenQueue;
use crate::link::Link;
use crate::stretch::Stretch;
use crate::worker::Worker;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tollgate_commands::{CheckQueue, Flow};
use tollgate_protocol::Proto;

/// Checks of a turn up to which it joins the round; more make a batch of their own.
const CHECKS_OF_A_TURN: usize = 8;
/// How long the first of a round waits before work that may be long: it waits for this and one piece of such work at most.
const PATIENCE: Duration = Duration::from_micros(200);

/// The round of a worker.
#[derive(Debug)]
pub struct Round {
    /// Checks of the members, one member after the other.
    queue: RefCell<CheckQueue>,
    members: RefCell<Vec<Member>>,
    replies: RefCell<Vec<u8>>,
    /// Rounds that wait for a key.
    stuck: RefCell<Vec<Stuck>>,
    /// Wakes the task that decides.
    decider: RefCell<Option<Waker>>,
}

/// A round that waits for a key which somebody holds.
#[derive(Debug)]
struct Stuck {
    queue: CheckQueue,
    members: Vec<Member>,
    replies: Vec<u8>,
    /// Slots that close wait for it.
    _open_queue: Option<OpenQueue>,
}

/// A turn of a round.
#[derive(Debug)]
struct Member {
    link: Rc<Link>,
    /// How many checks are its own.
    checks: usize,
    /// When it was read.
    started: Instant,
}

impl Default for Round {
    fn default() -> Self {
        let mut queue = CheckQueue::default();
        queue.start(true);
        Self {
            queue: RefCell::new(queue),
            members: RefCell::default(),
            replies: RefCell::default(),
            stuck: RefCell::default(),
            decider: RefCell::default(),
        }
    }
}

impl Round {
    /// Whether a turn with these checks, and nothing else, may join.
    pub fn admits(&self, queue: &CheckQueue) -> bool {
        // Policies that may be slow could keep other connections waiting; those built in cannot.
        (1..=CHECKS_OF_A_TURN).contains(&queue.len()) && queue.is_trusted()
    }
}

impl Worker {
    /// Takes the checks of a turn that was read at `started` into the round, which answers them.
    pub fn join_round(&self, queue: &mut CheckQueue, link: &Rc<Link>, started: Instant) {
        if !self.round.queue.borrow().has_room_for(queue) {
            self.decide_checks();
        }
        link.enter_round();
        self.wake_decider();
        let mut members = self.round.members.borrow_mut();
        members.push(Member {
            link: Rc::clone(link),
            checks: queue.len(),
            started,
        });
        self.round.queue.borrow_mut().append(queue);
    }

    /// Sees to it that what waits for the others of its round is done after them.
    pub fn wake_decider(&self) {
        if let Some(decider) = self.round.decider.take() {
            decider.wake();
        }
    }

    /// Does what waits for the others of its round if the first has waited for long by `now`. Called before work that may be long
    /// itself.
    pub fn decide_overdue_round(self: &Rc<Self>, now: Instant) {
        let is_overdue =
            |first: Option<Instant>| first.is_some_and(|first| now.saturating_duration_since(first) >= PATIENCE);
        if is_overdue(self.round.members.borrow().first().map(|member| member.started)) {
            self.decide_checks();
        }
        if is_overdue(self.joined.first_started()) {
            self.run_joined();
        }
    }

    /// Does what waits for the others of its round, as far as that goes in a slice.
    pub fn decide_round(self: &Rc<Self>) {
        self.decide_checks();
        self.run_joined();
    }

    /// Decides the checks of the round and sends their replies.
    pub fn decide_checks(&self) {
        let mut members = self.round.members.borrow_mut();
        if members.is_empty() {
            return;
        }
        let stretch = Stretch::short(Instant::now());
        let mut queue = self.round.queue.borrow_mut();
        let mut replies = self.round.replies.borrow_mut();
        // Each check carries its own database and protocol.
        let env = self.env(self.node.clock.at(stretch.started()), 0, Proto::Resp2);
        // They are few and of policies that cannot be slow, so there is no need to let others run in between.
        let flow = loop {
            match self.shard.borrow_mut().flush(&env, &mut queue, &mut replies) {
                Flow::Yield => {}
                flow => break flow,
            }
        };
        stretch.end(self.counters());
        if flow == Flow::Wait {
            self.round.stuck.borrow_mut().push(Stuck {
                queue: std::mem::take(&mut *queue),
                members: std::mem::take(&mut *members),
                replies: std::mem::take(&mut *replies),
                _open_queue: self.links.as_ref().map(|links| links.queues.open()),
            });
            self.wake_decider();
        } else {
            self.answer_round(&mut members, &queue, &replies);
            replies.clear();
        }
        queue.start(true);
    }

    /// Sends the replies of a round whose checks are all decided.
    fn answer_round(&self, members: &mut Vec<Member>, queue: &CheckQueue, replies: &[u8]) {
        let counters = self.counters();
        counters.sent_bytes.add(replies.len() as u64);
        counters.rounds.add(1);
        counters.round_turns.add(members.len() as u64);
        let mut checks = 0;
        let mut start = 0;
        for member in members.iter() {
            checks += member.checks;
            let end = queue.ends()[checks - 1] as usize;
            member.link.leave_round(&replies[start..end]);
            start = end;
        }
        // One reading for all: late for the first, by the time of the other sends, but never early.
        let sent = Instant::now();
        for member in members.drain(..) {
            counters.turn(member.checks as u64, sent.saturating_duration_since(member.started));
        }
    }

    /// Brings a round to its end that waits for a key.
    async fn finish_stuck(self: Rc<Self>, mut stuck: Stuck) {
        let env = self.env(self.node.clock.now_us(), 0, Proto::Resp2);
        self.flush(&env, &mut stuck.queue, &mut stuck.replies).await;
        self.answer_round(&mut stuck.members, &stuck.queue, &stuck.replies);
    }

    /// Decides rounds, each after the turns that were ready with its first.
    pub async fn run_rounds(self: Rc<Self>) {
        loop {
            poll_fn(|cx| {
                let round = &self.round;
                if round.members.borrow().is_empty() && round.stuck.borrow().is_empty() && self.joined.is_empty() {
                    *self.round.decider.borrow_mut() = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            self.notice_pause(self.node.clock.now_us());
            self.decide_round();
            for stuck in self.round.stuck.take() {
                tokio::task::spawn_local(Rc::clone(&self).finish_stuck(stuck));
            }
            if !self.joined.is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }
}
