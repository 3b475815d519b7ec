//! A turn: what one read of a connection asks for, run, and its replies put in order.

mod buffers;
mod joining;
mod segment;

pub use buffers::TurnBuffers;

use crate::keyspace;
use crate::limits::Bound;
use crate::link::Link;
use crate::loans::Keys;
use crate::node::Place;
use crate::steps::{Length, Pass};
use crate::stretch::Stretch;
use crate::transaction;
use crate::work::{Ran, Work};
use crate::worker::Worker;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_commands::{
    COMMANDS_AHEAD, CommandError, CommandTable, ConnectionCall, Env, Face, LastCommand, ReplyMode, Run, Session, Spec,
};
use tollgate_protocol::{ReplyWriter, Request, look_ahead};
use tollgate_store::slot_of;

/// Bytes with which several requests may be waiting.
const LOOK_AHEAD_BYTES_MIN: usize = 100;
/// Bytes of replies after which a turn sends what it has before it goes on.
pub const LARGE_OUT_BYTES: usize = 1 << 20;
/// How long a turn may run commands that are not batched before others get their chance.
pub const SLICE: Duration = Duration::from_micros(300);

/// Whether a request is a line of HTTP.
fn is_http(request: Request<'_>) -> bool {
    request.arg(0).eq_ignore_ascii_case(b"post") || request.arg(0).eq_ignore_ascii_case(b"host:")
}

/// One turn of one connection.
///
/// Replies are kept in order by segments. As long as all of a segment is done here, replies are written where they belong. From the first
/// command on that goes elsewhere, local replies and those of batches are put together when the segment is finished: at the end of the
/// turn, or before a command that runs on several shards.
pub struct Turn<'a> {
    worker: &'a Rc<Worker>,
    buffers: &'a mut TurnBuffers,
    /// The commands of the connection's face.
    commands: &'a CommandTable,
    /// The connection's number, which keeps its batches in order.
    connection: u64,
    now_us: u64,
    /// Whether this worker decides everything.
    single: bool,
    /// Whether replies are written where they belong, since none of this segment comes from elsewhere.
    direct: bool,
    /// Whether its commands may be left to be run with those of others.
    may_join: bool,
    /// The way to the client.
    link: &'a Rc<Link>,
    /// When its requests were read.
    started: Instant,
    /// When this worker last had the chance to do something else.
    slice_started: Instant,
    /// When the clock was read last: what a command takes is measured from there.
    read_at: Instant,
    /// Commands that take so long are noted.
    slow_from: Duration,
    /// The bytes of finished replies that are kept, while the connection wants no more of them.
    kept: Option<usize>,
}

impl<'a> Turn<'a> {
    /// Starts a turn of that connection whose requests were read when `stretch` began.
    pub fn new(
        worker: &'a Rc<Worker>,
        buffers: &'a mut TurnBuffers,
        (connection, link): (u64, &'a Rc<Link>),
        face: Face,
        stretch: Stretch,
    ) -> Self {
        buffers.queue.start(false);
        let started = stretch.started();
        buffers.stretch = Some(stretch);
        if buffers.face != face {
            buffers.face = face;
            buffers.last_command = LastCommand::default();
        }
        Self {
            worker,
            buffers,
            commands: worker.node.commands_of(face),
            connection,
            now_us: worker.node.clock.at(started),
            single: worker.node.is_alone(),
            direct: true,
            may_join: false,
            link,
            started,
            slice_started: started,
            read_at: started,
            slow_from: worker.node.slow_from(),
            kept: None,
        }
    }

    /// Starts to measure from now.
    fn read_clock(&mut self) {
        self.read_at = Instant::now();
    }

    /// Notes a command that has taken from `since` to the last reading of the clock, if that was long.
    fn note_if_slow(&self, since: Instant, spec: &Spec, request: Request<'_>) {
        let took = self.read_at.saturating_duration_since(since);
        if took >= self.slow_from {
            self.worker.note_slow(took, Some(self.connection), spec, request);
        }
    }

    /// The worker of the connection.
    pub(crate) fn worker(&self) -> &'a Rc<Worker> {
        self.worker
    }

    /// See [`Turn::run_muted`].
    pub(crate) fn kept_mut(&mut self) -> &mut Option<usize> {
        &mut self.kept
    }

    /// Notes that the turn waits.
    pub(crate) fn broke(&mut self) {
        if let Some(stretch) = self.buffers.take_stretch() {
            stretch.end(self.worker.counters());
        }
    }

    /// Notes that the turn goes on, from the last reading of the clock.
    fn goes_on(&mut self) {
        self.buffers.stretch.get_or_insert_with(|| Stretch::short(self.read_at));
    }

    /// Reads the clock again, after a wait that was not short.
    pub fn refresh_clock(&mut self) {
        self.read_clock();
        self.now_us = self.worker.node.clock.at(self.read_at);
        self.worker.notice_pause(self.now_us);
        self.goes_on();
    }

    /// The replies of finished segments.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.buffers.out
    }

    /// Whether there are so many replies that they should be sent before the turn goes on.
    pub fn is_large(&self) -> bool {
        self.buffers.out.len() + self.buffers.local.len() >= LARGE_OUT_BYTES
    }

    pub(crate) fn env(&self, session: &Session) -> Env {
        self.worker.env(self.now_us, session.db, session.proto)
    }

    /// Prepares for the requests that come next, with which `bytes` begins; `ran` is how many this turn has run.
    #[inline]
    pub fn look_ahead(&mut self, session: &Session, bytes: &[u8], ran: u64) {
        if ran.is_multiple_of(COMMANDS_AHEAD as u64) && bytes.len() >= LOOK_AHEAD_BYTES_MIN {
            let (node, warmer) = (&self.worker.node, &mut self.buffers.warmer);
            // The borrow of the shard ends with this statement.
            warmer.before(
                &node.commands,
                &self.worker.shard.borrow(),
                session.db,
                look_ahead(bytes),
            );
        }
    }

    /// What a request asks for, if that is well formed.
    pub(crate) fn resolve(&mut self, request: Request<'_>) -> Option<&'static Spec> {
        let resolved = self.commands.resolve(request, &mut self.buffers.last_command);
        resolved.ok().map(|(spec, _)| spec)
    }

    /// Runs a request, or queues it, or sends it on its way.
    pub async fn run(&mut self, session: &mut Session, request: Request<'_>) {
        match session.replies {
            ReplyMode::On => self.execute(session, request).await,
            _ => self.run_muted(session, request).await,
        }
        if session.replies != ReplyMode::On {
            session.next_reply();
        }
    }

    /// As [`Turn::run`], for one whose reply is wanted.
    pub(crate) async fn execute(&mut self, session: &mut Session, request: Request<'_>) {
        let mut env = self.env(session);
        let resolved = self.commands.resolve(request, &mut self.buffers.last_command);
        let found = resolved.and_then(|found| session.may_run(found.0).map(|()| found));
        if self.may_join {
            if let Ok((spec, key)) = found
                && session.transaction.is_none()
                && self.joins(spec, key, request)
            {
                session.begin(spec, self.now_us);
                self.buffers.joining.push(spec, &env, request);
                return;
            }
            self.may_join = false;
            self.run_joining().await;
        }
        let (spec, key) = match found {
            Ok(found) => found,
            Err(_) if is_http(request) => {
                // As Redis does: a browser may be made to send commands in the body of a request.
                tracing::warn!(event = "http_on_redis_port", client = %session.peer);
                session.close_after_reply = true;
                return;
            }
            Err(error) => {
                if let Some(transaction) = &mut session.transaction {
                    transaction.is_broken = true;
                }
                return self.refuse(&env, &error).await;
            }
        };
        if self.worker.node.attention.get() != 0 {
            if !self.attend(session, spec, request).await {
                return;
            }
            env = self.env(session);
        }
        if let Some(transaction) = &mut session.transaction
            && transaction::is_queued(spec)
        {
            match self.worker.enqueue(transaction, &env, spec, request) {
                Ok(()) => self.write_queued(&env).await,
                Err(error) => self.refuse(&env, &error).await,
            }
            session.note_change();
            return;
        }
        session.begin(spec, self.now_us);
        if let Some(wide) = self.worker.wide(spec) {
            self.finish(session).await;
            self.broke();
            let since = Instant::now();
            let (worker, out) = (self.worker, &mut self.buffers.out);
            worker.run_everywhere(wide, session, &env, (spec, request), out).await;
            self.end_if_killed(session);
            self.refresh_clock();
            return self.note_if_slow(since, spec, request);
        }
        match spec.run {
            Run::Check(_) | Run::Key(_) => {
                // The table gives these commands a key, and resolve has checked that it is there.
                let owner = match key {
                    Some(key) if !self.single => {
                        let slot = slot_of(request.arg(key));
                        let owner = self.place_of(&env, spec, slot).await;
                        match self.overtakes(spec, request) {
                            true => {
                                self.finish(session).await;
                                self.place_of(&env, spec, slot).await
                            }
                            false => owner,
                        }
                    }
                    _ => self.worker.index,
                };
                if owner == self.worker.index {
                    env.now_us = self.now_us;
                    self.run_here(&env, spec, request, true).await
                } else {
                    self.send_later(owner, &env, spec, request).await;
                }
            }
            Run::Keys(_) | Run::Script(_) => {
                self.until_open(&env, spec, request).await;
                if self.overtakes(spec, request) {
                    self.finish(session).await;
                }
                match self.owner_of_keys(spec, request) {
                    Some(owner) if owner != self.worker.index => {
                        self.send_later(owner, &env, spec, request).await;
                    }
                    _ => {
                        self.finish_if_sent(session).await;
                        env.now_us = self.now_us;
                        self.run_here(&env, spec, request, false).await;
                    }
                }
            }
            Run::EachKey(_) => {
                if self.overtakes(spec, request) {
                    self.finish(session).await;
                }
                match self.owner_of_all(request) {
                    Some(owner) if request.len() <= keyspace::KEYS_AT_ONCE => match owner == self.worker.index {
                        true => self.run_here(&env, spec, request, true).await,
                        false => {
                            self.send_later(owner, &env, spec, request).await;
                            if owner >= self.worker.node.workers() && request.len() > 2 {
                                // The peer may do it in parts: what comes in another batch must not overtake those.
                                self.finish(session).await;
                            }
                        }
                    },
                    _ => self.run_each_key(session, &env, spec, request).await,
                }
            }
            Run::Connection(run) => {
                if matches!(spec.group, "pubsub" | "scripting") {
                    // Others see what it does, so what came before must be done.
                    self.finish_if_sent(session).await;
                }
                self.flush(&env).await;
                let pass = match spec.group == "scripting" {
                    // It may compile.
                    true => Some(self.pass().await),
                    false => None,
                };
                env.now_us = self.now_us;
                let Self {
                    worker,
                    buffers,
                    direct,
                    ..
                } = self;
                let out = if *direct { &mut buffers.out } else { &mut buffers.local };
                let mut call = ConnectionCall {
                    session,
                    node: &*worker.node,
                    env: &env,
                    request,
                    out,
                };
                if let Err(error) = run(&mut call) {
                    if let CommandError::PatternTooLong(_) = error {
                        worker.counters().limit_hit(Bound::PatternBytes);
                    }
                    error.write(out, session.proto);
                }
                if pass.is_some() {
                    worker.steps.note(Length::Unknown, self.read_at.elapsed());
                }
                drop(pass);
                self.wrote_local();
                // Others answer from what is at hand.
                if matches!(spec.group, "server" | "scripting") {
                    // CONFIG SET may have changed it.
                    self.slow_from = self.worker.node.slow_from();
                    let since = self.read_at;
                    self.read_clock();
                    self.note_if_slow(since, spec, request);
                }
            }
            Run::Block(blocking) => {
                self.finish(session).await;
                self.broke();
                self.worker.node.clients.note(session);
                let (worker, out) = (self.worker, &mut self.buffers.out);
                let connection = self.connection;
                worker
                    .run_blocking(blocking, connection, &env, spec, request, out)
                    .await;
                self.end_if_killed(session);
                self.refresh_clock();
            }
            Run::Worker(command) => {
                // MULTI and the like change nothing that others see; EXEC waits for what came before.
                self.finish(session).await;
                self.broke();
                let worker = self.worker;
                let out = &mut self.buffers.out;
                worker
                    .run_transaction_command(command, session, &env, request, out)
                    .await;
                self.end_if_killed(session);
                self.refresh_clock();
            }
            // resolve goes down to the subcommand.
            Run::Container => self.refuse(&env, &CommandError::Syntax).await,
            Run::Keyspace(command) => {
                self.finish(session).await;
                self.broke();
                let since = Instant::now();
                let mut keys = Keys::new(self.worker, self.worker.next_run());
                // What empties a database must not meet keys that are lent or held. In a cluster each node sees to that for itself.
                let takes_node = command.empties() && self.worker.node.cluster.is_none();
                let ready = match takes_node {
                    true => keys.take_node().await,
                    false => Ok(()),
                };
                match ready {
                    Ok(()) => {
                        let out = &mut self.buffers.out;
                        keyspace::run(self.worker, &env, (command, session.face), request, out, takes_node).await;
                    }
                    Err(error) => error.write(&mut self.buffers.out, env.proto),
                }
                drop(keys);
                self.refresh_clock();
                self.note_if_slow(since, spec, request);
            }
        }
    }

    /// Runs a command that does the same to each of its keys, in the shards that have them.
    async fn run_each_key(&mut self, session: &Session, env: &Env, spec: &'static Spec, request: Request<'_>) {
        self.finish(session).await;
        self.broke();
        let since = Instant::now();
        keyspace::run_each_key(self.worker, env, spec, request, &mut self.buffers.out).await;
        self.refresh_clock();
        self.note_if_slow(since, spec, request);
    }

    /// Lets the connection end after a wait in which it was killed.
    fn end_if_killed(&self, session: &mut Session) {
        let link = self.worker.link_of(self.connection);
        session.close_after_reply |= link.is_some_and(|link| link.is_killed());
    }

    /// Whether one of the slots of a command has gone elsewhere since this segment has sent commands for it, so that it could be done before
    /// those. Checks are done in any order.
    fn overtakes(&self, spec: &Spec, request: Request<'_>) -> bool {
        let sent = &self.buffers.sent_slots;
        !sent.is_empty()
            && !matches!(spec.run, Run::Check(_))
            && spec.key_positions(request).any(|position| {
                let slot = slot_of(request.arg(position));
                sent.get(&slot)
                    .is_some_and(|&place| self.worker.node.place(slot) != Place::Of(place))
            })
    }

    /// The worker whose shard has every key of a request for that command; none if there are several, or no key.
    fn owner_of_keys(&self, spec: &Spec, request: Request<'_>) -> Option<usize> {
        if self.single {
            return None;
        }
        let positions = spec.key_positions(request);
        let mut places = positions.map(|position| self.worker.node.place(slot_of(request.arg(position))));
        let first = places.next()?;
        match first {
            Place::Of(place) if places.all(|place| place == first) => Some(place),
            _ => None,
        }
    }

    /// The worker whose shard has every key of the request; none if there are several.
    fn owner_of_all(&self, request: Request<'_>) -> Option<usize> {
        if self.single {
            return Some(self.worker.index);
        }
        let mut places = request.iter().skip(1).map(|key| self.worker.node.place(slot_of(key)));
        let first = places.next()?;
        match first {
            Place::Of(place) if places.all(|place| place == first) => Some(place),
            _ => None,
        }
    }

    /// Where a command for a slot goes, once that is known; if that takes too long, to whoever can decide it in place of the holder.
    async fn place_of(&mut self, env: &Env, spec: &Spec, slot: u16) -> usize {
        if let Place::Of(place) = self.worker.node.place(slot) {
            return place;
        }
        let owner = self.worker.node.owner(slot);
        if owner != self.worker.index {
            // That worker waits for it.
            return owner;
        }
        self.wait_for_slot(env, spec, slot).await;
        match self.worker.node.place(slot) {
            Place::Of(place) => place,
            Place::Closing => self.worker.node.workers(),
        }
    }

    pub(crate) async fn wait_for_slot(&mut self, env: &Env, spec: &Spec, slot: u16) {
        // What this turn has queued is decided first: the slot waits for that.
        self.broke();
        self.flush(env).await;
        self.worker.until_open_for(slot, spec, env.now_us).await;
        self.refresh_clock();
    }

    /// Waits until it is known where every key of a request is.
    async fn until_open(&mut self, env: &Env, spec: &Spec, request: Request<'_>) {
        if self.worker.node.cluster.is_none() {
            return;
        }
        for position in spec.key_positions(request) {
            let slot = slot_of(request.arg(position));
            if self.worker.node.place(slot) == Place::Closing {
                self.wait_for_slot(env, spec, slot).await;
            }
        }
    }

    /// Runs a command of this worker's shard. `is_seen`: nothing was awaited since its keys were seen to be there.
    async fn run_here(&mut self, env: &Env, spec: &'static Spec, request: Request<'_>, mut is_seen: bool) {
        let mut since = self.read_at;
        let mut env = *env;
        loop {
            let TurnBuffers { queue, out, local, .. } = &mut *self.buffers;
            let out = if self.direct { out } else { local };
            let ran = match is_seen {
                true => self.worker.try_run_here(&env, queue, spec, request, out),
                false => self.worker.try_run(&env, queue, spec, request, out),
            };
            match ran {
                Ran::Done => break,
                Ran::FlushFirst => {
                    self.flush(&env).await;
                    env.now_us = self.now_us;
                    is_seen = false;
                    since = self.read_at;
                }
                Ran::Later(work) => {
                    self.finish_work(work, &env, spec, request).await;
                    break;
                }
            }
        }
        // What was queued costs nothing yet; anything else may have asked a slow policy.
        if self.buffers.queue.is_empty() {
            let took = self.take_turns().await.saturating_duration_since(since);
            if took >= self.slow_from {
                self.worker.note_slow(took, Some(self.connection), spec, request);
            }
        }
        if !self.direct {
            self.buffers.order.local(1);
        }
    }

    /// Brings a command to its end that could not be done at once. What was queued is decided first: it came before.
    async fn finish_work(&mut self, work: Work, env: &Env, spec: &'static Spec, request: Request<'_>) {
        self.broke();
        self.flush(env).await;
        let TurnBuffers { queue, out, local, .. } = &mut *self.buffers;
        let out = if self.direct { out } else { local };
        self.worker.finish(work, env, queue, spec, request, out).await;
        self.refresh_clock();
        self.slice_started = Instant::now();
    }

    /// Waits until what may be long may begin.
    async fn pass(&mut self) -> Pass {
        let waits = !self.worker.steps.is_open();
        if waits {
            self.broke();
        }
        let pass = self.worker.steps.pass(Length::Unknown).await;
        match waits {
            true => self.refresh_clock(),
            false => self.read_clock(),
        }
        pass
    }

    /// Answers that a command is queued.
    async fn write_queued(&mut self, env: &Env) {
        self.answer(env, |out| ReplyWriter::new(out, env.proto).simple("QUEUED"))
            .await;
    }

    pub(crate) async fn refuse(&mut self, env: &Env, error: &CommandError) {
        self.answer(env, |out| error.write(out, env.proto)).await;
    }

    /// Answers without asking a shard, after what was queued.
    async fn answer(&mut self, env: &Env, write: impl FnOnce(&mut Vec<u8>)) {
        self.flush(env).await;
        write(match self.direct {
            true => &mut self.buffers.out,
            false => &mut self.buffers.local,
        });
        self.wrote_local();
    }

    /// Notes that a reply was written straight into the local replies.
    fn wrote_local(&mut self) {
        if !self.direct {
            self.buffers.queue.note_end(self.buffers.local.len());
            self.buffers.order.local(1);
        }
    }

    async fn flush(&mut self, env: &Env) {
        let TurnBuffers { queue, out, local, .. } = &mut *self.buffers;
        let out = if self.direct { out } else { local };
        if self.worker.flush(env, queue, out).await {
            // What others did meanwhile is not its own. It may have waited for long.
            self.buffers.stretch = None;
            self.refresh_clock();
        }
        self.take_turns().await;
    }

    /// Lets others run if this turn has had its slice. Answers when that was looked at.
    async fn take_turns(&mut self) -> Instant {
        let now = Instant::now();
        self.read_at = now;
        if now.saturating_duration_since(self.slice_started) >= SLICE {
            self.broke();
            tokio::task::yield_now().await;
            self.slice_started = Instant::now();
            self.read_at = self.slice_started;
            self.goes_on();
            self.worker.notice_pause(self.worker.node.clock.at(self.read_at));
        }
        now
    }
}
