//! MULTI, EXEC, WATCH: commands that run together.
//!
//! EXEC takes all keys of its commands, and those that are watched, before it begins; so nobody sees it half done, however many slices it
//! takes. Only a script in it can ask for more keys: then all is taken back, and EXEC starts again with those, too.

use crate::keyspace;
use crate::limits::Bound;
use crate::loans::{KeyJob, Keys};
use crate::node::Place;
use crate::steps::Length;
use crate::stretch::Stretch;
use crate::worker::Worker;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tollgate_commands::{
    CheckQueue, CommandError, ConnectionCall, Env, Face, Flow, KeyNeed, LibraryChange, Needs, NodeView, Published, Run,
    ScriptCommand, ScriptStep, Session, Shard, ShownSource, Spec, Step, Transaction, UndoLog, Wait, WatchMark,
    Watching, WorkerCommand, is_shown, write_shown,
};
use tollgate_protocol::{Proto, ReplyWriter, Request};
use tollgate_store::{DATABASES, MAX_KEY_BYTES, Space, slot_of};

/// How often EXEC starts again for the keys of its scripts.
const ROUNDS_MAX: usize = 64;

/// Whether a command is queued while there is a transaction.
pub fn is_queued(spec: &Spec) -> bool {
    let at_once = matches!(
        spec.run,
        Run::Worker(WorkerCommand::Multi | WorkerCommand::Exec | WorkerCommand::Discard | WorkerCommand::Watch)
    );
    !at_once && !matches!(spec.name, "quit" | "reset")
}

impl Worker {
    /// Queues a command of a transaction.
    ///
    /// # Errors
    /// There is no room; the transaction is broken then.
    pub fn enqueue(
        &self,
        transaction: &mut Transaction,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        // An argument takes a place in the list, too.
        let bytes: usize = request.iter().map(|argument| argument.len() + size_of::<u64>()).sum();
        if transaction.commands.bytes() + bytes > self.node.config.limits.transaction_bytes {
            transaction.is_broken = true;
            self.counters().limit_hit(Bound::TransactionBytes);
            return Err(CommandError::Refused("transaction is too large"));
        }
        transaction.commands.push(spec, env, request);
        Ok(())
    }

    /// Runs one of the commands about transactions, and writes its reply.
    pub async fn run_transaction_command(
        self: &Rc<Self>,
        command: WorkerCommand,
        session: &mut Session,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        session.note_change();
        let done = match command {
            WorkerCommand::Multi if session.transaction.is_some() => {
                Err(CommandError::Refused("MULTI calls can not be nested"))
            }
            WorkerCommand::Multi => {
                session.transaction = Some(Box::default());
                Ok(())
            }
            WorkerCommand::Discard if session.transaction.take().is_none() => {
                Err(CommandError::Refused("DISCARD without MULTI"))
            }
            WorkerCommand::Discard | WorkerCommand::Unwatch => {
                session.watching = None;
                Ok(())
            }
            WorkerCommand::Watch if session.transaction.is_some() => {
                Err(CommandError::Refused("WATCH inside MULTI is not allowed"))
            }
            WorkerCommand::Watch => self.watch(session, env, request).await,
            WorkerCommand::Exec => return self.exec(session, env, request, out).await,
            WorkerCommand::Wait | WorkerCommand::WaitAof => {
                self.node.clients.note(session);
                match self.run_wait(command, session.id, request, out).await {
                    Ok(wait) => return wait.write(&mut ReplyWriter::new(out, env.proto)),
                    Err(error) => Err(error),
                }
            }
            // As in Redis, who says it twice is answered once.
            WorkerCommand::Monitor if session.is_monitor => return,
            WorkerCommand::Monitor => {
                session.is_monitor = true;
                self.node.monitors.add(self.index, session.id, &self.node.attention);
                Ok(())
            }
        };
        match done {
            Ok(()) => ReplyWriter::new(out, env.proto).ok(),
            Err(error) => error.write(out, env.proto),
        }
    }

    async fn watch(&self, session: &mut Session, env: &Env, request: Request<'_>) -> Result<(), CommandError> {
        let watching = session.watching.get_or_insert_with(Box::<Watching>::default);
        for key in request.iter().skip(1) {
            if watching.has(env.db, key) {
                continue;
            }
            if watching.keys.len() >= self.node.config.limits.watched_keys {
                self.counters().limit_hit(Bound::WatchedKeys);
                return Err(CommandError::Refused("too many watched keys"));
            }
            let patience = Duration::from_millis(self.node.config.limits.keys_wait_ms as u64);
            let watched = tokio::time::timeout(patience, self.watch_key(env.db, key, &watching.mark)).await;
            match watched {
                Ok(watched) => watched?,
                Err(_) => {
                    self.counters().limit_hit(Bound::KeysWaitMs);
                    return Err(CommandError::NoHolder);
                }
            }
            watching.keys.push((env.db, key.into()));
        }
        Ok(())
    }

    /// Watches a key where it is.
    async fn watch_key(&self, db: u8, key: &[u8], mark: &Arc<WatchMark>) -> Result<(), CommandError> {
        if key.len() > MAX_KEY_BYTES {
            // There never is such a key.
            return Ok(());
        }
        let (slot, workers) = (slot_of(key), self.node.workers());
        loop {
            self.until_open(slot).await;
            let is_noted = match self.node.place(slot) {
                Place::Of(owner) if owner < workers => {
                    let (done, is_done) = oneshot::channel();
                    self.node
                        .key_job(owner, KeyJob::Watch(db, key.into(), Arc::clone(mark), done));
                    // A worker that is gone has nothing that could change.
                    is_done.await.unwrap_or(true)
                }
                Place::Of(peer) if peer > workers => self.watch_abroad(peer, db, key, mark).await?,
                Place::Of(_) | Place::Closing => false,
            };
            if is_noted {
                return Ok(());
            }
            self.until_moved(slot).await;
        }
    }

    async fn exec(self: &Rc<Self>, session: &mut Session, env: &Env, request: Request<'_>, out: &mut Vec<u8>) {
        let watching = session.watching.take();
        let Some(transaction) = session.transaction.take() else {
            session.watching = watching;
            return CommandError::Refused("EXEC without MULTI").write(out, env.proto);
        };
        if transaction.is_broken {
            return CommandError::ExecAbort.write(out, env.proto);
        }
        let run = self.next_run();
        let mut keys = Keys::new(self, run);
        let mut wanted = self.needs_of(&transaction, watching.as_deref(), session.db);
        let (start, db, proto) = (out.len(), session.db, session.proto);
        // What empties a database must not meet keys that are lent or held.
        if transaction.empties()
            && let Err(error) = keys.take_node().await
        {
            return error.write(out, env.proto);
        }
        self.know_scripts(&transaction).await;
        let libraries = self.node.functions.newest_change();
        let mut answered = Answered::default();
        for round in 0.. {
            if let Err(error) = keys.take(wanted.clone()).await {
                return error.write(out, env.proto);
            }
            let now_us = self.node.clock.now_us();
            if let Some(watching) = &watching
                && (self.has_changed(&keys, watching, now_us) || self.has_changed_abroad(&watching.mark).await)
            {
                return ReplyWriter::new(out, session.proto).null_array();
            }
            let mut exec = Exec {
                worker: self,
                keys: &mut keys,
                logs: transaction.has_scripts().then(Vec::new),
                slice_started: Instant::now(),
                now_us,
                shown: self.node.is_monitored().then(Vec::new),
                answered: &mut answered,
                wanted: &wanted,
            };
            session.published = exec.logs.is_some().then(Vec::new);
            session.library_changes = exec.logs.is_some().then(Vec::new);
            let needs = exec.run(&transaction, session, out).await;
            if let Some(mut shown) = exec.shown
                && needs.is_ok()
            {
                let env = self.env(now_us, session.db, env.proto);
                write_shown(&env, ShownSource::Client(session.peer), "exec", request, &mut shown);
                self.node.show(shown);
            }
            let logs = exec.logs.unwrap_or_default();
            let published = session.published.take().unwrap_or_default();
            let library_changes = session.library_changes.take().unwrap_or_default();
            let Err(needs) = needs else {
                published.iter().for_each(|published| published.send(&*self.node));
                logs.into_iter().for_each(|log| keys.shard().borrow_mut().commit(log));
                self.tell_libraries(libraries).await;
                if let Err(error) = keys.finish().await {
                    out.truncate(start);
                    error.write(out, proto);
                }
                return;
            };
            logs.into_iter()
                .rev()
                .for_each(|log| keys.shard().borrow_mut().roll_back(log));
            library_changes
                .into_iter()
                .rev()
                .for_each(|change| self.node.functions.take_back(change));
            out.truncate(start);
            (session.db, session.proto) = (db, proto);
            keys.give_back();
            self.counters().script_restarts.add(1);
            match needs {
                Stop::Needs(Needs::Key(need)) if round < ROUNDS_MAX => wanted.push(need),
                Stop::Needs(Needs::Key(_)) => return CommandError::TryAgain.write(out, env.proto),
                Stop::Failed(error) => return error.write(out, env.proto),
                Stop::Needs(Needs::Node(_)) => {
                    let refused = "KEYS, SCAN and the like are not possible for a script in a transaction on a node with several workers, or \
                                   with keys of several nodes";
                    return CommandError::Refused(refused).write(out, env.proto);
                }
            }
        }
    }

    /// All keys of a transaction, and those that are watched.
    fn needs_of(&self, transaction: &Transaction, watching: Option<&Watching>, mut db: u8) -> Vec<KeyNeed> {
        let mut needs = Vec::new();
        let shard = self.shard.borrow();
        let mut index = 0;
        while let Some((spec, _, proto, request)) = transaction.commands.get(index) {
            index += 1;
            if spec.name == "select"
                && let Some(number) = request.get(1).and_then(tollgate_protocol::parse_integer)
                && let Ok(number) = u8::try_from(number)
                && number < DATABASES
            {
                db = number;
            }
            let env = self.env(0, db, proto);
            // Its command says that a key is too long.
            let positions = spec.key_positions(request);
            let positions = positions.filter(|&position| request.arg(position).len() <= MAX_KEY_BYTES);
            needs.extend(positions.map(|position| KeyNeed {
                space: shard.space_of(&env, spec, request, position),
                key: request.arg(position).into(),
            }));
        }
        let watched = watching.into_iter().flat_map(|watching| &watching.keys);
        needs.extend(watched.map(|(db, key)| KeyNeed {
            space: Space::Db(*db),
            key: key.clone(),
        }));
        needs
    }

    /// Whether a watched key has changed, or has expired. All are here.
    fn has_changed(&self, keys: &Keys, watching: &Watching, now_us: u64) -> bool {
        let mut shard = keys.shard().borrow_mut();
        watching.mark.is_set()
            || watching.keys.iter().any(|(db, key)| {
                let env = self.env(now_us, *db, tollgate_protocol::Proto::Resp2);
                shard.expire_if_due(&env, key)
            })
    }
}

/// EXEC under way.
struct Exec<'a> {
    worker: &'a Rc<Worker>,
    keys: &'a mut Keys,
    /// What was written so far, if that may have to be taken back.
    logs: Option<Vec<UndoLog>>,
    slice_started: Instant,
    now_us: u64,
    /// What monitors are to read, if there are monitors.
    shown: Option<Vec<u8>>,
    answered: &'a mut Answered,
    /// Its keys.
    wanted: &'a [KeyNeed],
}

/// Why EXEC does not go on.
enum Stop {
    /// A script needs more keys: all is taken back, and it starts again.
    Needs(Needs),
    /// It has lost its keys.
    Failed(CommandError),
}

/// The replies to commands about the connection and the server, which are not taken back when a transaction starts again: they are not
/// run again either. By the number of the command; with the database and the protocol that it left. All together they are no more than
/// one client may be sent.
#[derive(Default)]
struct Answered(HashMap<usize, (Vec<u8>, u8, Proto)>);

impl Exec<'_> {
    /// Runs all commands and writes the reply, unless a script needs more keys.
    async fn run(&mut self, transaction: &Transaction, session: &mut Session, out: &mut Vec<u8>) -> Result<(), Stop> {
        ReplyWriter::new(out, session.proto).array(transaction.commands.len());
        let slow_from = self.worker.node.slow_from();
        let mut since = Instant::now();
        let mut index = 0;
        while let Some((spec, _, _, request)) = transaction.commands.get(index) {
            index += 1;
            let env = self.worker.env(self.now_us, session.db, session.proto);
            if let Some(shown) = &mut self.shown
                && is_shown(spec)
            {
                write_shown(&env, ShownSource::Client(session.peer), spec.name, request, shown);
            }
            match spec.run {
                Run::Connection(_) if self.answered.0.contains_key(&index) => {
                    if let Some((reply, db, proto)) = self.answered.0.get(&index) {
                        out.extend_from_slice(reply);
                        (session.db, session.proto) = (*db, *proto);
                    }
                }
                Run::Connection(_) if session.published.is_none() && self.worker.wide(spec).is_some() => {
                    if let Some(wide) = self.worker.wide(spec) {
                        let command = (spec, request);
                        self.worker.run_everywhere(wide, session, &env, command, out).await;
                    }
                }
                Run::Connection(run) => {
                    let start = out.len();
                    let mut call = ConnectionCall {
                        session,
                        node: &*self.worker.node,
                        env: &env,
                        request,
                        out,
                    };
                    if let Err(error) = run(&mut call) {
                        error.write(out, session.proto);
                    }
                    let is_kept = self.logs.is_some() && out.len() <= self.worker.node.config.limits.output_bytes;
                    if is_kept && matches!(spec.group, "connection" | "server") {
                        let reply = out[start..].to_vec();
                        self.answered.0.insert(index, (reply, session.db, session.proto));
                    }
                }
                Run::Keyspace(command) => {
                    let gives_way = command.empties() && self.keys.are_abroad();
                    if gives_way {
                        self.give_way().await?;
                    }
                    let has_node = self.keys.has_node();
                    keyspace::run(self.worker, &env, (command, session.face), request, out, has_node).await;
                    if gives_way {
                        let taken = self.keys.take(self.wanted.to_vec()).await;
                        taken.map_err(Stop::Failed)?;
                    }
                }
                Run::Script(command) => {
                    let (published, change) = self.script((command, spec.face), &env, request, out).await?;
                    session.published.get_or_insert_default().extend(published);
                    session.library_changes.get_or_insert_default().extend(change);
                }
                Run::Worker(command @ (WorkerCommand::Wait | WorkerCommand::WaitAof)) => {
                    // Nothing waits here.
                    match Wait::parse(command, request) {
                        Ok(wait) => wait.write(&mut ReplyWriter::new(out, session.proto)),
                        Err(error) => error.write(out, session.proto),
                    }
                }
                Run::Worker(WorkerCommand::Monitor) => {
                    CommandError::Refused("MONITOR isn't allowed for DENY BLOCKING client").write(out, session.proto);
                }
                // UNWATCH: EXEC has forgotten what was watched.
                Run::Worker(_) => ReplyWriter::new(out, session.proto).ok(),
                Run::Container => CommandError::Syntax.write(out, session.proto),
                // What would wait elsewhere answers at once here.
                Run::Check(_) | Run::Key(_) | Run::Keys(_) | Run::EachKey(_) | Run::Block(_) => {
                    self.in_shard(&env, spec, request, out).await;
                }
            }
            // The connection is closed for a reply that is too large; all commands are run all the same.
            out.truncate(self.worker.node.config.limits.output_bytes.saturating_add(1));
            let now = self.take_turns().await;
            let took = now.saturating_duration_since(since);
            since = now;
            if took >= slow_from {
                self.worker.note_slow(took, Some(session.id), spec, request);
            }
        }
        Ok(())
    }

    /// Gives its keys back for a flush, since no node empties itself while somebody has keys of it. What was done so far stands.
    async fn give_way(&mut self) -> Result<(), Stop> {
        if let Some(logs) = &mut self.logs {
            let mut shard = self.keys.shard().borrow_mut();
            logs.drain(..).for_each(|log| shard.commit(log));
        }
        self.keys.finish().await.map_err(Stop::Failed)
    }

    /// Lets others run if this has had its slice: its keys are held. Answers when that was looked at.
    async fn take_turns(&mut self) -> Instant {
        let now = Instant::now();
        if now.saturating_duration_since(self.slice_started) >= crate::turn::SLICE {
            tokio::task::yield_now().await;
            self.slice_started = Instant::now();
        }
        now
    }

    async fn in_shard(&mut self, env: &Env, spec: &'static Spec, request: Request<'_>, out: &mut Vec<u8>) {
        let mut queue = CheckQueue::default();
        queue.start(false);
        let step = self.noted(|shard| shard.run(env, &mut queue, spec, request, out));
        if let Step::More(mut rest) = step {
            while !self.noted(|shard| shard.go_on(env, &mut queue, &mut *rest, request, out)) {
                self.take_turns().await;
            }
        }
        while self.noted(|shard| shard.flush(env, &mut queue, out)) != Flow::Done {
            self.take_turns().await;
        }
    }

    /// Does something as this run, with what it writes in the log if there is one.
    fn noted<T>(&mut self, act: impl FnOnce(&mut Shard) -> T) -> T {
        let logs = &mut self.logs;
        self.keys.act(|shard| {
            if let Some(logs) = logs {
                let log: UndoLog = logs.pop().unwrap_or_default();
                shard.swap_log(Some(log));
            }
            let result = act(shard);
            if let Some(logs) = logs {
                logs.extend(shard.swap_log(None));
            }
            result
        })
    }

    /// Bytes of what was noted so far to be taken back.
    fn log_bytes(&self) -> usize {
        let last = self.logs.as_ref().and_then(|logs| logs.last());
        last.map_or(0, UndoLog::bytes)
    }

    async fn script(
        &mut self,
        (command, face): (ScriptCommand, Face),
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(Vec<Published>, Option<LibraryChange>), Stop> {
        let before_bytes = self.log_bytes();
        let steps = &self.worker.steps;
        let mut pass = steps.pass(Length::Unknown).await;
        let mut stretch = Stretch::long();
        let made = self.worker.prepare_script(env, command, request, self.keys.run());
        let mut run = match made {
            Ok(run) => run.keep_log(before_bytes).on(face),
            Err(error) => {
                error.write(out, env.proto);
                // It may have been compiled.
                steps.note(Length::Unknown, stretch.end(self.worker.counters()));
                return Ok((Vec::new(), None));
            }
        };
        loop {
            let step = self.worker.script_slice(&mut run, self.keys, request, out);
            let took = stretch.end(self.worker.counters());
            run.note_spent(took);
            steps.note(Length::Unknown, took);
            drop(pass);
            match step {
                ScriptStep::Done => break,
                ScriptStep::Yield => tokio::task::yield_now().await,
                ScriptStep::Needs(needs) => return Err(Stop::Needs(needs)),
            }
            pass = steps.pass(Length::Unknown).await;
            stretch = Stretch::long();
        }
        if let Some(logs) = &mut self.logs {
            // What comes after it has a log of its own: each takes back to where it began.
            logs.extend(run.take_log());
            let bytes = logs.last().map_or(0, UndoLog::bytes);
            logs.push(UndoLog::after(bytes));
        }
        if let Some(shown) = &mut self.shown {
            shown.extend(run.take_shown());
        }
        Ok((run.take_published(), run.take_library_change()))
    }
}
