//! Commands that wait until a key has something for them: BLPOP and its kin.
//!
//! They try, on keys that they hold or have borrowed. If there is nothing, they leave word at every key before they let go of it, so
//! that no push is missed, and wait; the one that waits longest is called first.

use crate::cluster::At;
use crate::link::{Link, Phase};
use crate::loans::{KeyJob, Keys};
use crate::node::Place;
use crate::worker::Worker;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{Interest, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_commands::{Blocking, CheckQueue, CommandError, Env, KeyNeed, Popped, Spec, Wait, Wakeup, WorkerCommand};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_store::{Space, slot_of};

/// The longest sleep that the runtime takes; who waits for longer waits for ever.
const SLEEP_MAX: Duration = Duration::from_secs(366 * 86_400);

/// How often a client that has sent more meanwhile is asked whether it is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The connections of a node that wait, so that CLIENT UNBLOCK finds them.
#[derive(Debug, Default)]
pub struct Blocked {
    by_connection: Mutex<HashMap<u64, Arc<Waiting>>>,
}

/// One that waits.
#[derive(Debug, Default)]
struct Waiting {
    wakeup: Arc<Wakeup>,
    unblocked: AtomicBool,
    with_error: AtomicBool,
}

impl Blocked {
    /// CLIENT UNBLOCK; whether the connection was waiting.
    pub fn unblock(&self, connection: u64, with_error: bool) -> bool {
        let waiting = self.lock().get(&connection).cloned();
        let Some(waiting) = waiting else { return false };
        waiting.with_error.store(with_error, Ordering::Relaxed);
        waiting.unblocked.store(true, Ordering::Release);
        waiting.wakeup.call();
        true
    }

    /// Whether a connection waits.
    pub fn has(&self, connection: u64) -> bool {
        self.lock().contains_key(&connection)
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Waiting>>> {
        self.by_connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Word left at keys, until it is taken back.
struct Registered<'a> {
    worker: &'a Rc<Worker>,
    connection: u64,
    waiting: Arc<Waiting>,
    /// Keys of this node, and the workers where it was left.
    keys: Vec<(u8, Box<[u8]>, usize)>,
    /// Its number for other nodes.
    number: u64,
    /// The workers of other nodes where it was left.
    abroad: Vec<At>,
}

impl Registered<'_> {
    /// Passes a call on that was of no use here.
    fn pass_call_on(&self) {
        for (db, key, owner) in &self.keys {
            let job = KeyJob::CallNext(*db, key.clone(), Arc::clone(&self.waiting.wakeup));
            self.worker.node.key_job(*owner, job);
        }
        for at in &self.abroad {
            self.worker.call_next_abroad(self.number, at);
        }
    }

    /// Leaves word at a key, which is held meanwhile, where it is not left already.
    ///
    /// # Errors
    /// Another node refuses it.
    async fn leave(&mut self, db: u8, key: &[u8]) -> Result<(), CommandError> {
        let (worker, wakeup) = (self.worker, &self.waiting.wakeup);
        let workers = worker.node.workers();
        match worker.node.place(slot_of(key)) {
            Place::Of(peer) if peer > workers => {
                let at = worker.await_abroad(peer, self.number, wakeup, (db, key)).await?;
                match at {
                    Some(at) if self.abroad.iter().any(|known| known.is(&at)) => {}
                    Some(at) => self.abroad.push(at),
                    // It is elsewhere by now, although it was this run's: it is looked for again.
                    None => wakeup.call(),
                }
            }
            _ => {
                let owner = worker.owner_of(key);
                let (done, is_done) = oneshot::channel();
                let job = KeyJob::Wait(db, key.into(), Arc::clone(wakeup), done);
                worker.node.key_job(owner, job);
                if !self.keys.iter().any(|(of, known, _)| *of == db && **known == *key) {
                    self.keys.push((db, key.into(), owner));
                }
                // A worker that is gone has nothing that could come.
                if !is_done.await.unwrap_or(true) {
                    wakeup.call();
                }
            }
        }
        Ok(())
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.worker.node.blocked.lock().remove(&self.connection);
        for (db, key, owner) in self.keys.drain(..) {
            let job = KeyJob::PassOn(db, key, Arc::clone(&self.waiting.wakeup));
            self.worker.node.key_job(owner, job);
        }
        self.worker.end_await_abroad(self.number, &self.abroad);
    }
}

/// Why a wait is over.
enum Over {
    Called,
    Timeout,
    /// Messages for its client were sent.
    Owing,
    /// The client has gone, or the node wants it to.
    Gone,
}

impl Worker {
    /// Runs a command that may wait, and writes its reply.
    pub async fn run_blocking(
        self: &Rc<Self>,
        blocking: &Blocking,
        connection: u64,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        if let Err(error) = self.pop(blocking, connection, env, spec, request, out).await {
            error.write(out, env.proto);
        }
    }

    async fn pop(
        self: &Rc<Self>,
        blocking: &Blocking,
        connection: u64,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        let timeout = (blocking.timeout)(request)?;
        let deadline = timeout
            .filter(|timeout| *timeout < SLEEP_MAX)
            .map(|timeout| Instant::now() + timeout);
        let admitted = self.shard.borrow().admit_awaited(spec, request);
        if admitted.is_err() {
            self.shard.borrow_mut().note_too_many_awaited();
        }
        admitted?;
        let needs: Vec<KeyNeed> = spec
            .key_positions(request)
            .map(|position| KeyNeed {
                space: Space::Db(env.db),
                key: request.arg(position).into(),
            })
            .collect();
        let mut registered: Option<Registered<'_>> = None;
        loop {
            let mut keys = Keys::new(self, self.next_run());
            keys.take(needs.clone()).await?;
            let now = self.env(self.node.clock.now_us(), env.db, env.proto);
            let start = out.len();
            let popped = keys.act(|shard| (blocking.attempt)(shard, &now, request, out));
            let popped = match popped {
                // What came is of a type that it does not wait for.
                Err(CommandError::WrongType) if registered.is_some() => Popped::Nothing,
                popped => popped?,
            };
            match popped {
                Popped::All => return finish_keys(&mut keys, start, out).await,
                Popped::More(rest) => {
                    self.finish_rest(
                        rest,
                        &keys,
                        &now,
                        &mut CheckQueue::default(),
                        request,
                        (out, usize::MAX),
                    )
                    .await;
                    return finish_keys(&mut keys, start, out).await;
                }
                Popped::Nothing => {}
            }
            let is_first = registered.is_none();
            let word = registered.get_or_insert_with(|| self.new_word(connection));
            if is_first || self.node.cluster.is_some() {
                // Perhaps a key has moved: where word was left already, it keeps its turn.
                for need in &needs[..blocking.sources.min(needs.len())] {
                    word.leave(env.db, &need.key).await?;
                }
            }
            drop(keys);
            if !is_first {
                // A call was of no use: perhaps it is for the next, now that the keys are back.
                word.pass_call_on();
            }
            self.send_before_waiting(connection, out).await;
            let Some(waiting) = registered.as_ref().map(|registered| Arc::clone(&registered.waiting)) else {
                continue;
            };
            match self.until_called(connection, &waiting.wakeup, deadline).await {
                Over::Called if waiting.unblocked.load(Ordering::Acquire) => {
                    if waiting.with_error.load(Ordering::Relaxed) {
                        return Err(CommandError::Unblocked);
                    }
                    break;
                }
                Over::Called => {}
                Over::Owing => continue,
                Over::Timeout | Over::Gone => break,
            }
        }
        blocking.write_nothing(&mut ReplyWriter::new(out, env.proto), false);
        Ok(())
    }

    /// Runs WAIT or WAITAOF, and writes its reply. Nothing that it waits for ever comes.
    pub async fn run_wait(
        self: &Rc<Self>,
        command: WorkerCommand,
        connection: u64,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Wait, CommandError> {
        let wait = Wait::parse(command, request)?;
        if wait.is_satisfied {
            return Ok(wait);
        }
        let deadline = wait.timeout.filter(|timeout| *timeout < SLEEP_MAX);
        let deadline = deadline.map(|timeout| Instant::now() + timeout);
        let registered = self.new_word(connection);
        let waiting = &registered.waiting;
        loop {
            self.send_before_waiting(connection, out).await;
            match self.until_called(connection, &waiting.wakeup, deadline).await {
                Over::Called if waiting.unblocked.load(Ordering::Acquire) => {
                    return match waiting.with_error.load(Ordering::Relaxed) {
                        true => Err(CommandError::Unblocked),
                        false => Ok(wait),
                    };
                }
                Over::Called | Over::Owing => {}
                Over::Timeout | Over::Gone => return Ok(wait),
            }
        }
    }

    /// Waits until called, but no longer than that. `false` if the client is gone, or is to go.
    pub async fn until_called_or(&self, connection: u64, wakeup: &Wakeup, longest: Duration) -> bool {
        let deadline = Some(Instant::now() + longest.min(SLEEP_MAX));
        loop {
            match self.until_called(connection, wakeup, deadline).await {
                Over::Called | Over::Timeout => return true,
                Over::Owing => self.send_before_waiting(connection, &mut Vec::new()).await,
                Over::Gone => return false,
            }
        }
    }

    /// A client that waits, so far for nothing.
    fn new_word(self: &Rc<Self>, connection: u64) -> Registered<'_> {
        let waiting = Arc::<Waiting>::default();
        self.node.blocked.lock().insert(connection, Arc::clone(&waiting));
        Registered {
            worker: self,
            connection,
            waiting,
            keys: Vec::new(),
            number: self.next_run().0,
            abroad: Vec::new(),
        }
    }

    async fn until_called(&self, connection: u64, wakeup: &Wakeup, deadline: Option<Instant>) -> Over {
        let link: Option<Rc<Link>> = self.link_of(connection);
        let mut sleep = pin!(tokio::time::sleep_until(
            deadline.unwrap_or_else(|| Instant::now() + SLEEP_MAX)
        ));
        let mut look_again = pin!(tokio::time::sleep(LOOK_AGAIN));
        poll_fn(|cx| {
            if wakeup.poll_called(cx).is_ready() {
                return Poll::Ready(Over::Called);
            }
            if deadline.is_some() && sleep.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Over::Timeout);
            }
            let Some(link) = &link else { return Poll::Pending };
            link.wait(cx);
            if link.should_leave() || link.is_broken() {
                return Poll::Ready(Over::Gone);
            }
            if link.owes() {
                return Poll::Ready(Over::Owing);
            }
            // The end of what the client sends; requests that it sent meanwhile wait, and hide it: then it is looked for now and then.
            let mut byte = [0];
            match link.socket().poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Over::Gone),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
            let ready = pin!(link.socket().ready(Interest::READABLE));
            if let Poll::Ready(Ok(ready)) = ready.poll(cx)
                && ready.is_read_closed()
            {
                return Poll::Ready(Over::Gone);
            }
            look_again.as_mut().reset(Instant::now() + LOOK_AGAIN);
            let _ = look_again.as_mut().poll(cx);
            Poll::Pending
        })
        .await
    }

    /// Sends the replies to what came before a command that waits.
    pub async fn send_before_waiting(&self, connection: u64, out: &mut Vec<u8>) {
        let Some(link) = self.link_of(connection) else { return };
        self.counters().sent_bytes.add(out.len() as u64);
        // A client that takes nothing can be ended meanwhile: nothing is half done.
        link.phase.set(Phase::Writing);
        // One that is gone is noticed next.
        let _ = link.send(out).await;
        out.clear();
        if link.owes() {
            let _ = link.send(&link.take_owed()).await;
        }
        link.phase.set(Phase::Turn);
    }
}

/// Gives keys back. If another node does not take them, the reply that begins there is not to be sent.
///
/// # Errors
/// [`CommandError::Torn`].
async fn finish_keys(keys: &mut Keys, start: usize, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let finished = keys.finish().await;
    if finished.is_err() {
        out.truncate(start);
    }
    finished
}
