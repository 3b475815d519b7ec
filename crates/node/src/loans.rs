//! Keys for a run: held in this worker's shard, or lent by others.
//!
//! Taking goes in ascending (slot, key) order, so no two runs wait for each other, and within a time; letting go is immediate. A run
//! that needs the whole node waits until no other has loans, and then freezes every shard.

use crate::cluster::{Abroad, Obstacle, Outbound, SlotsDone, SlotsOp};
use crate::limits::Bound;
use crate::node::Place;
use crate::peers::{PeerError, Pending};
use crate::stretch::Stretch;
use crate::worker::Worker;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, mpsc, oneshot};
use tollgate_commands::{
    CommandError, Delivery, KeyNeed, KeyspaceAnswer, KeyspaceOp, Loan, RunId, Shard, Wakeup, WatchMark,
};
use tollgate_protocol::Proto;
use tollgate_store::slot_of;

/// What must not wait in a mailbox behind commands that wait for keys. Of messages `limits.published_bytes` are under way; of the rest no
/// more than connections and loans have, so the channel needs no bound of its own.
#[derive(Debug)]
pub enum KeyJob {
    /// Lend keys to a run, in this order: each once it is free, or, as the `bool` says, only if all are.
    Lend(
        Vec<KeyNeed>,
        RunId,
        bool,
        oneshot::Sender<Result<Vec<Loan>, CommandError>>,
    ),
    /// A loan comes back.
    Return(Loan),
    /// The whole shard is for that run.
    Freeze(RunId, oneshot::Sender<()>),
    /// It is for all again.
    Thaw,
    /// Set a mark when a key of a database changes. `false`: its slot is elsewhere.
    Watch(u8, Box<[u8]>, Arc<WatchMark>, oneshot::Sender<bool>),
    /// Call when a key of a database may have something for a connection that waits. `false`: its slot is elsewhere.
    Wait(u8, Box<[u8]>, Arc<Wakeup>, oneshot::Sender<bool>),
    /// Do so no longer.
    PassOn(u8, Box<[u8]>, Arc<Wakeup>),
    /// A published message.
    Deliver(Delivery),
    /// Lines for those who monitor.
    Show(Arc<[u8]>),
    /// Call the one that waits behind this one: a call was of no use to it.
    CallNext(u8, Box<[u8]>, Arc<Wakeup>),
    /// Do one bounded step of a command over all shards.
    Keyspace(KeyspaceOp, oneshot::Sender<KeyspaceAnswer>),
    /// Do one of a command over all nodes.
    Slots(SlotsOp, oneshot::Sender<SlotsDone>),
    /// A published message for other nodes.
    Publish(Outbound),
}

/// Who waits for keys of this worker's shard that are held.
#[derive(Debug, Default)]
pub struct Waits {
    /// Told when any key is let go of.
    any: Notify,
    by_key: RefCell<HashMap<Box<[u8]>, Rc<Notify>>>,
}

impl Waits {
    /// What is told when a key is let go of.
    pub fn of(&self, key: &[u8]) -> Rc<Notify> {
        Rc::clone(self.by_key.borrow_mut().entry(key.into()).or_default())
    }

    /// Wakes who waits for a key.
    pub fn wake(&self, key: &[u8]) {
        self.any.notify_waiters();
        if let Some(notify) = self.by_key.borrow_mut().remove(key) {
            notify.notify_waiters();
        }
    }

    fn wake_all(&self) {
        for (_, notify) in self.by_key.borrow_mut().drain() {
            notify.notify_waiters();
        }
    }
}

/// The keys of a run, until they are given back.
#[derive(Debug)]
pub struct Keys {
    worker: Rc<Worker>,
    run: RunId,
    /// Held in this worker's shard.
    own: Vec<Box<[u8]>>,
    access: Access,
    /// Whether they are guests, all of them, since some are of other nodes.
    is_abroad: bool,
    /// What other nodes have lent, or were asked for.
    abroad: Vec<Abroad>,
}

/// What keeps a run that needs the whole node apart from those that have loans.
#[derive(Debug)]
enum Access {
    /// No key of another shard.
    Local,
    /// Some keys of others.
    Some(#[expect(dead_code, reason = "held, not read")] OwnedRwLockReadGuard<()>),
    /// All.
    Node(#[expect(dead_code, reason = "held, not read")] OwnedRwLockWriteGuard<()>),
}

impl Keys {
    /// No keys yet.
    pub fn new(worker: &Rc<Worker>, run: RunId) -> Self {
        Self {
            worker: Rc::clone(worker),
            run,
            own: Vec::new(),
            access: Access::Local,
            is_abroad: false,
            abroad: Vec::new(),
        }
    }

    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Whether some are of other nodes.
    pub fn are_abroad(&self) -> bool {
        self.is_abroad
    }

    /// The shard where the run's commands are done: the worker's, or, if some of the keys are of other nodes, that of its guests, where all
    /// of them are then.
    pub fn shard(&self) -> &RefCell<Shard> {
        match &self.worker.links {
            Some(links) if self.is_abroad => &links.guests,
            _ => &self.worker.shard,
        }
    }

    /// Does something there as this run: its keys are not blocked for it.
    pub fn act<T>(&self, act: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shard = self.shard().borrow_mut();
        shard.set_running(Some(self.run));
        let result = act(&mut shard);
        shard.set_running(None);
        result
    }

    /// Holds a key of this worker's shard that is free.
    pub fn hold(&mut self, key: &[u8]) {
        if self.worker.hold(key, self.run) {
            self.own.push(key.into());
        }
    }

    /// Takes keys, in order, waiting for those that are in use. It has none before.
    ///
    /// # Errors
    /// The time is over, or a key is no key; then it has none.
    pub async fn take(&mut self, mut needs: Vec<KeyNeed>) -> Result<(), CommandError> {
        debug_assert!(self.own.is_empty());
        needs.sort_by_cached_key(|need| (slot_of(&need.key), need.key.clone(), need.space));
        needs.dedup();
        let patience = Duration::from_millis(self.worker.node.config.limits.keys_wait_ms as u64);
        let taken = match tokio::time::timeout(patience, self.take_all(&needs)).await {
            Ok(taken) => taken,
            Err(_) => {
                self.worker.counters().limit_hit(Bound::KeysWaitMs);
                let node = &self.worker.node;
                let nowhere = |need: &KeyNeed| node.place(slot_of(&need.key)) == Place::Of(node.workers());
                Err(match needs.iter().any(nowhere) {
                    true => CommandError::NoHolder,
                    false => CommandError::TryAgain,
                })
            }
        };
        if taken.is_err() {
            self.give_back();
        }
        taken
    }

    /// Takes keys that are in order. Where somebody else must go on first, it gives back what it has, and begins again.
    async fn take_all(&mut self, needs: &[KeyNeed]) -> Result<(), CommandError> {
        // Mostly nobody is in the way, and each node has to be asked only once.
        let mut at_once = true;
        loop {
            let slot = match self.take_some_way(needs, at_once).await {
                Ok(()) => return Ok(()),
                Err(Obstacle::Error(error)) => return Err(error),
                Err(Obstacle::Moved(slot)) => Some(slot),
                Err(Obstacle::Busy) => None,
            };
            self.give_back();
            match slot {
                Some(slot) => self.worker.until_moved(slot).await,
                // In order, then.
                None if at_once => at_once = false,
                None => tokio::time::sleep(BUSY).await,
            }
        }
    }

    /// Takes keys in their order, waiting for each that is in use. With `at_once` those of other nodes, if there are some, and all others
    /// with them, are asked for at the same time, and none is waited for.
    async fn take_some_way(&mut self, needs: &[KeyNeed], at_once: bool) -> Result<(), Obstacle> {
        let worker = Rc::clone(&self.worker);
        let workers = worker.node.workers();
        if worker.node.cluster.is_some() {
            for need in needs {
                worker.until_open(slot_of(&need.key)).await;
            }
        }
        // Also for keys of this shard alone: whoever takes the whole node must not wait for one who waits for it.
        if matches!(self.access, Access::Local) {
            self.access = Access::Some(Arc::clone(&worker.node.borrowing).read_owned().await);
        }
        let places: Vec<Place> = needs.iter().map(|need| worker.node.place(slot_of(&need.key))).collect();
        self.is_abroad = places
            .iter()
            .any(|place| matches!(place, Place::Of(place) if *place >= workers));
        if self.is_abroad && at_once {
            return self.take_at_once(needs, &places).await;
        }
        // Those of a shard are next to each other: it has a range of slots, and they are sorted by slot.
        let mut left = needs;
        for together in places.chunk_by(|a, b| a == b) {
            let (needs, rest) = left.split_at(together.len());
            left = rest;
            match together.first() {
                Some(&Place::Of(owner)) if owner == worker.index => self.take_own(needs).await?,
                Some(&Place::Of(owner)) if owner < workers => {
                    for needs in needs.chunks(LENT_AT_ONCE) {
                        let arriving = worker.ask_shard(owner, needs, self.run, true);
                        self.admit_lent(arriving, needs).await?;
                    }
                }
                Some(&Place::Of(peer)) if peer > workers => {
                    let run = self.run;
                    worker.borrow_abroad(&mut self.abroad, peer, needs, run).await?;
                }
                _ => return Err(Obstacle::Moved(needs.first().map_or(0, |need| slot_of(&need.key)))),
            }
        }
        Ok(())
    }

    /// Takes keys that are free, all at the same time.
    async fn take_at_once(&mut self, needs: &[KeyNeed], places: &[Place]) -> Result<(), Obstacle> {
        let (worker, run) = (Rc::clone(&self.worker), self.run);
        let workers = worker.node.workers();
        let mut by_place: Vec<(Place, Vec<KeyNeed>)> = Vec::new();
        for (need, place) in needs.iter().zip(places) {
            match by_place.iter_mut().find(|(of, _)| of == place) {
                Some((_, needs)) => needs.push(need.clone()),
                None => by_place.push((*place, vec![need.clone()])),
            }
        }
        let (mut of_shards, mut of_peers) = (Vec::new(), Vec::new());
        for (place, needs) in &by_place {
            match *place {
                Place::Of(owner) if owner == worker.index => {}
                Place::Of(owner) if owner < workers => {
                    let together = needs.chunks(LENT_AT_ONCE);
                    of_shards.extend(together.map(|needs| (worker.ask_shard(owner, needs, run, false), needs)));
                }
                Place::Of(peer) if peer > workers => {
                    of_peers.extend(worker.ask_abroad(&mut self.abroad, peer, needs, run)?);
                }
                _ => return Err(Obstacle::Moved(needs.first().map_or(0, |need| slot_of(&need.key)))),
            }
        }
        let own = by_place.iter().find(|(place, _)| *place == Place::Of(worker.index));
        if let Some((_, own)) = own {
            let are_free = {
                let shard = worker.shard.borrow();
                own.iter().all(|need| shard.may_lend(&need.key, run))
            };
            match are_free {
                // It does not wait for anything.
                true => self.take_own(own).await?,
                false => return Err(Obstacle::Busy),
            }
        }
        for (arriving, needs) in of_shards {
            self.admit_lent(arriving, needs).await?;
        }
        for asked in of_peers {
            worker.take_asked(&mut self.abroad, asked, run).await?;
        }
        Ok(())
    }

    /// Takes in what another shard lends.
    async fn admit_lent(&self, arriving: Arriving, needs: &[KeyNeed]) -> Result<(), Obstacle> {
        for loan in arriving.loans(needs).await? {
            self.shard().borrow_mut().admit(loan, self.run);
        }
        self.worker.counters().keys_borrowed.add(needs.len() as u64);
        Ok(())
    }

    /// Takes keys of this worker's own shard.
    async fn take_own(&mut self, needs: &[KeyNeed]) -> Result<(), Obstacle> {
        let worker = Rc::clone(&self.worker);
        for need in needs {
            match self.is_abroad {
                true => worker.until_lendable(&need.key, self.run).await,
                false => worker.until_free(&need.key, Some(self.run)).await,
            }
            if worker.must_be_here(&need.key).is_err() {
                return Err(Obstacle::Moved(slot_of(&need.key)));
            }
            if self.is_abroad {
                worker.decide_checks();
                let loan = worker.shard.borrow_mut().lend(need.space, &need.key, self.run)?;
                self.shard().borrow_mut().admit(loan, self.run);
            } else {
                self.hold(&need.key);
            }
        }
        Ok(())
    }

    /// Takes the whole node: waits for all who have loans, and freezes every shard.
    ///
    /// # Errors
    /// The time is over.
    pub async fn take_node(&mut self) -> Result<(), CommandError> {
        debug_assert!(self.own.is_empty());
        let worker = Rc::clone(&self.worker);
        let patience = Duration::from_millis(worker.node.config.limits.keys_wait_ms as u64);
        let all = async {
            let all = Arc::clone(&worker.node.borrowing).write_owned().await;
            self.access = Access::Node(all);
            for shard in 0..worker.node.workers() {
                let (frozen, is_frozen) = oneshot::channel();
                worker.node.key_job(shard, KeyJob::Freeze(self.run, frozen));
                // A worker that is gone has nothing that could change.
                let _ = is_frozen.await;
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            worker.counters().limit_hit(Bound::KeysWaitMs);
            return Err(CommandError::TryAgain);
        }
        Ok(())
    }

    /// Whether it has the whole node.
    pub fn has_node(&self) -> bool {
        matches!(self.access, Access::Node(_))
    }

    /// Gives the keys back, but not the node. Whoever has changed them asks with [`Keys::finish`] whether they have arrived.
    pub fn give_back(&mut self) {
        self.hand_back();
    }

    /// Gives the keys back, but not the node, and waits until other nodes have what has changed.
    ///
    /// # Errors
    /// [`CommandError::Torn`].
    pub async fn finish(&mut self) -> Result<(), CommandError> {
        let mut finished = Ok(());
        for sent in self.hand_back() {
            finished = finished.and(self.worker.until_taken(sent).await);
        }
        finished
    }

    fn hand_back(&mut self) -> Vec<Result<Pending, PeerError>> {
        let worker = &self.worker;
        let waiting = worker.hand_back_abroad(std::mem::take(&mut self.abroad), self.run);
        let guests = match self.access {
            Access::Local => Vec::new(),
            Access::Some(_) | Access::Node(_) => self.shard().borrow().guests(self.run),
        };
        for (space, key) in guests {
            let loan = self.shard().borrow_mut().dismiss(space, &key, self.run);
            let Some(loan) = loan else { continue };
            match worker.owner_of(&key) {
                owner if owner == worker.index => worker.take_back(loan),
                owner => worker.node.key_job(owner, KeyJob::Return(loan)),
            }
        }
        self.is_abroad = false;
        for key in self.own.drain(..) {
            worker.shard.borrow_mut().release(&key, self.run);
            worker.waits.wake(&key);
        }
        if let Access::Some(_) = self.access {
            self.access = Access::Local;
        }
        waiting
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.give_back();
        if self.has_node() {
            for shard in 0..self.worker.node.workers() {
                self.worker.node.key_job(shard, KeyJob::Thaw);
            }
        }
    }
}

/// How long a run waits that is in the way of others, before it begins again.
const BUSY: Duration = Duration::from_millis(2);
/// Keys that are lent together: as many as take a worker about as long as a turn.
const LENT_AT_ONCE: usize = 256;

/// Loans that are put together. What is not sent is taken back.
struct Lending<'a> {
    worker: &'a Worker,
    needs: Vec<KeyNeed>,
    run: RunId,
    /// Of the first of `needs`.
    loans: Vec<Loan>,
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        self.loans.drain(..).for_each(|loan| self.worker.take_back(loan));
    }
}

/// Loans on their way. If nobody takes them, they go back.
struct Arriving {
    worker: Rc<Worker>,
    owner: usize,
    answer: oneshot::Receiver<Result<Vec<Loan>, CommandError>>,
}

impl Arriving {
    /// The loans.
    async fn loans(mut self, needs: &[KeyNeed]) -> Result<Vec<Loan>, Obstacle> {
        // The other worker is gone only when the node is.
        match (&mut self.answer).await.unwrap_or(Err(CommandError::TryAgain)) {
            Ok(loans) => Ok(loans),
            Err(CommandError::OtherNode) => {
                let slot = needs.first().map_or(0, |need| slot_of(&need.key));
                Err(Obstacle::Moved(slot))
            }
            Err(CommandError::TryAgain) => Err(Obstacle::Busy),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.answer.close();
        for loan in self.answer.try_recv().into_iter().flatten().flatten() {
            self.worker.node.key_job(self.owner, KeyJob::Return(loan));
        }
    }
}

impl Worker {
    /// The worker whose shard has a key.
    pub fn owner_of(&self, key: &[u8]) -> usize {
        match self.node.workers() {
            1 => 0,
            _ => self.node.owner(slot_of(key)),
        }
    }

    /// A number for a run.
    pub fn next_run(&self) -> RunId {
        let number = self.runs.get();
        self.runs.set(number + 1);
        RunId((self.index as u64) << 48 | number)
    }

    /// Holds a key of this shard that is free; whether it was not held before.
    pub fn hold(&self, key: &[u8], run: RunId) -> bool {
        // Nothing in a round waits for a key: while keys are held, there is no round.
        self.decide_checks();
        self.shard.borrow_mut().hold(key, run)
    }

    /// Waits until a run, or what belongs to none, can have a key of this shard.
    pub async fn until_free(&self, key: &[u8], run: Option<RunId>) {
        while self.shard.borrow().is_blocked_for(key, run) {
            let notify = self.waits.of(key);
            self.counters().keys_waited.add(1);
            notify.notified().await;
        }
    }

    /// # Errors
    /// Another node has the slot of a key, or it is on its way.
    fn must_be_here(&self, key: &[u8]) -> Result<(), CommandError> {
        match self.node.place(slot_of(key)) == Place::Of(self.index) {
            true => Ok(()),
            false => Err(CommandError::OtherNode),
        }
    }

    /// Lets all look again who wait for a key that is held.
    pub fn wake_waiting(&self) {
        self.waits.any.notify_waiters();
        self.waits.wake_all();
    }

    /// Waits until no key of a slot is held or lent.
    pub async fn until_no_holds(&self, slot: u16) {
        while self.shard.borrow().has_holds_in(slot) {
            self.waits.any.notified().await;
        }
    }

    async fn until_lendable(&self, key: &[u8], run: RunId) {
        while !self.shard.borrow().may_lend(key, run) {
            let notify = self.waits.of(key);
            notify.notified().await;
        }
    }

    /// Asks one other shard for keys.
    fn ask_shard(self: &Rc<Self>, owner: usize, needs: &[KeyNeed], run: RunId, waits: bool) -> Arriving {
        let (reply_to, answer) = oneshot::channel();
        self.node
            .key_job(owner, KeyJob::Lend(needs.to_vec(), run, waits, reply_to));
        Arriving {
            worker: Rc::clone(self),
            owner,
            answer,
        }
    }

    /// Lends keys that are free, from the front of what is wanted.
    ///
    /// # Errors
    /// One of them is no key.
    fn lend_free(&self, lending: &mut Lending<'_>) -> Result<(), CommandError> {
        self.decide_checks();
        while let Some(need) = lending.needs.get(lending.loans.len())
            && self.shard.borrow().may_lend(&need.key, lending.run)
        {
            self.must_be_here(&need.key)?;
            let loan = self.shard.borrow_mut().lend(need.space, &need.key, lending.run)?;
            lending.loans.push(loan);
        }
        Ok(())
    }

    /// Lends keys, each once it is free.
    async fn lend(&self, mut lending: Lending<'_>, mut reply_to: oneshot::Sender<Result<Vec<Loan>, CommandError>>) {
        loop {
            let lent = self.lend_free(&mut lending);
            let next = lending.needs.get(lending.loans.len());
            let (Ok(()), Some(next)) = (&lent, next) else {
                let answer = lent.map(|()| std::mem::take(&mut lending.loans));
                if let Err(Ok(loans)) = reply_to.send(answer) {
                    loans.into_iter().for_each(|loan| self.take_back(loan));
                }
                // What an error has left of them goes back.
                return;
            };
            tokio::select! {
                () = self.until_lendable(&next.key, lending.run) => {}
                () = reply_to.closed() => return,
            }
        }
    }

    fn take_back(&self, loan: Loan) {
        let key = loan.key.clone();
        if self.shard.borrow_mut().take_back(loan) {
            self.waits.wake(&key);
        }
    }

    /// Does what other workers ask about keys of this shard.
    pub async fn run_key_jobs(self: Rc<Self>, mut jobs: mpsc::UnboundedReceiver<KeyJob>) {
        while let Some(job) = jobs.recv().await {
            match job {
                KeyJob::Lend(needs, run, waits, reply_to) => {
                    let worker = Rc::clone(&self);
                    let are_free = {
                        let shard = self.shard.borrow();
                        needs.iter().all(|need| shard.may_lend(&need.key, run))
                    };
                    if !are_free && !waits {
                        // Whoever asked may be gone.
                        let _ = reply_to.send(Err(CommandError::TryAgain));
                        continue;
                    }
                    let lend = async move {
                        let lending = Lending {
                            worker: &worker,
                            needs,
                            run,
                            loans: Vec::new(),
                        };
                        worker.lend(lending, reply_to).await;
                    };
                    match are_free {
                        // It does not wait for anything.
                        true => {
                            let stretch = Stretch::long();
                            lend.await;
                            stretch.end(self.counters());
                        }
                        false => drop(tokio::task::spawn_local(lend)),
                    }
                }
                KeyJob::Return(loan) => self.take_back(loan),
                KeyJob::Freeze(run, frozen) => {
                    self.decide_checks();
                    self.shard.borrow_mut().freeze(Some(run));
                    let worker = Rc::clone(&self);
                    // Who has keys already comes to an end without any more of them.
                    tokio::task::spawn_local(async move {
                        while worker.shard.borrow().has_holds_of_others(run) {
                            worker.waits.any.notified().await;
                        }
                        let _ = frozen.send(());
                    });
                }
                KeyJob::Thaw => {
                    self.shard.borrow_mut().freeze(None);
                    self.waits.any.notify_waiters();
                    self.waits.wake_all();
                }
                KeyJob::Watch(db, key, mark, done) => {
                    let is_here = self.must_be_here(&key).is_ok();
                    if is_here {
                        self.decide_checks();
                        let env = self.env(self.node.clock.now_us(), db, Proto::Resp2);
                        self.shard.borrow_mut().watch(&env, &key, &mark);
                    }
                    let _ = done.send(is_here);
                }
                KeyJob::Wait(db, key, wakeup, done) => {
                    let is_here = !self.node.lacks_slot(slot_of(&key));
                    if is_here {
                        self.shard.borrow_mut().wait_for(db, &key, &wakeup);
                    }
                    let _ = done.send(is_here);
                }
                KeyJob::PassOn(db, key, wakeup) => self.shard.borrow_mut().pass_on(db, &key, &wakeup),
                KeyJob::CallNext(db, key, wakeup) => self.shard.borrow().call_next(db, &key, &wakeup),
                KeyJob::Keyspace(op, reply_to) => {
                    let stretch = Stretch::long();
                    self.decide_overdue_round(stretch.started());
                    let now_us = self.node.clock.at(stretch.started());
                    let answer = self.shard.borrow_mut().keyspace(&op, now_us);
                    stretch.end(self.counters());
                    // Whoever asked may be gone.
                    let _ = reply_to.send(answer);
                    tokio::task::yield_now().await;
                }
                KeyJob::Slots(op, reply_to) => {
                    self.run_slots_op(op, reply_to);
                    tokio::task::yield_now().await;
                }
                KeyJob::Publish(outbound) => self.publish_to_peers(outbound),
                KeyJob::Deliver(delivery) => self.push_message(&delivery),
                KeyJob::Show(lines) => self.push_shown(&lines),
            }
        }
    }
}
