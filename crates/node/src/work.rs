//! Commands that may have to wait: for a key that is held, for keys of other shards, for their next slice.
//!
//! [`Worker::try_run`] does what can be done at once, which for most commands is all. What is left is [`Work`], which
//! [`Worker::finish`] brings to its end while others go on.

use crate::cluster::Whereabouts;
use crate::keyspace;
use crate::limits::Bound;
use crate::loans::Keys;
use crate::node::Place;
use crate::steps::Length;
use crate::stretch::Stretch;
use crate::worker::Worker;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_commands::{
    CheckQueue, CommandError, Env, Face, Flow, KeyNeed, KeyspaceAnswer, KeyspaceOp, Name, Names, Needs, Rest, Run,
    RunId, ScanCursor, ScriptBound, ScriptCommand, ScriptRun, ScriptStep, Spec, Step,
};
use tollgate_protocol::Request;
use tollgate_store::{Space, slot_of};

/// How long a script runs before others have their chance.
const SCRIPT_SLICE: Duration = Duration::from_millis(1);
/// How often a script starts again for one more key before it gets the whole node.
const ROUNDS_MAX: usize = 8;
/// How often a script starts again while it has the whole node: each time with more keys, so far fewer do.
const NODE_ROUNDS_MAX: usize = 1_000;
/// Keys lent together to a script that has the whole node; twice as many each time.
const LENT_TOGETHER: usize = 64;

/// What [`Worker::try_run`] came to.
#[must_use]
pub enum Ran {
    /// The command is answered, or queued.
    Done,
    /// Nothing happened yet: flush the queue, then try again.
    FlushFirst,
    /// There is more to do.
    Later(Work),
}

/// The rest of a command.
pub enum Work {
    /// It has not begun: this key of it is held.
    Held(Box<[u8]>),
    /// It has not begun, and can.
    Ready,
    /// It has not begun: something was long on this worker, and the sockets come first.
    Turn,
    /// It has not begun: its keys are in several shards.
    Borrow,
    /// It has not begun: one of its keys is in that slot, which is closing.
    Closing(u16),
    /// It has not begun: its keys are in that place, which is no worker of this node.
    Elsewhere(usize),
    /// It has not begun: this node does not know its script, which others may know.
    UnknownScript,
    /// It has not begun: it does the same to each of its keys, which are in several places.
    Apart,
    /// It has begun, on keys that it holds.
    Rest(Box<dyn Rest>, Keys),
    /// A script.
    Script(Box<ScriptWork>),
}

impl Work {
    /// What there is to do for a command whose keys are not here.
    pub fn of(whereabouts: Whereabouts) -> Self {
        match whereabouts {
            Whereabouts::Here => Self::Ready,
            Whereabouts::Closing(slot) => Self::Closing(slot),
            Whereabouts::Elsewhere(place) => Self::Elsewhere(place),
            Whereabouts::Several => Self::Apart,
        }
    }

    /// Whether it waits for others: for a key that somebody else has, for a slot, for another node, for its turn. Nothing of it is done then.
    pub fn waits(&self) -> bool {
        match self {
            // Once it has begun it may want a key that is held.
            Self::Turn => true,
            Self::Held(_) | Self::Closing(_) | Self::Elsewhere(_) | Self::UnknownScript | Self::Apart => true,
            Self::Script(script) => script.needs.is_some(),
            Self::Ready | Self::Borrow | Self::Rest(..) => false,
        }
    }
}

/// A script under way.
pub struct ScriptWork {
    run: ScriptRun,
    keys: Keys,
    /// All that it has asked for so far beyond this shard's free keys.
    wanted: Vec<KeyNeed>,
    needs: Option<Needs>,
    rounds: usize,
}

impl ScriptWork {
    /// Runs one slice; whether the script is done. Otherwise its keys are held, or [`ScriptWork::needs`] says what it waits for.
    fn slice(&mut self, worker: &Worker, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        match worker.script_slice(&mut self.run, &mut self.keys, request, out) {
            ScriptStep::Done => return true,
            ScriptStep::Yield => {}
            ScriptStep::Needs(needs) => self.needs = Some(needs),
        }
        false
    }

    /// What is known of its next step before it has begun.
    fn length(&self) -> Length {
        match self.run.was_long() {
            true => Length::Long,
            false => Length::Unknown,
        }
    }
}

impl Worker {
    /// Runs a command whose keys were in this worker's shard when they were last looked for, as far as that goes at once, or queues it.
    /// Looks again: its slots may have moved meanwhile. The reply, and its end in the queue, are written when it is done.
    pub fn try_run(
        self: &Rc<Self>,
        env: &Env,
        queue: &mut CheckQueue,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Ran {
        match self.whereabouts(spec, request) {
            Whereabouts::Here => self.try_run_here(env, queue, spec, request, out),
            elsewhere => Ran::Later(Work::of(elsewhere)),
        }
    }

    /// As [`Worker::try_run`], for a command that has just been seen to be for this shard: nothing was awaited since.
    pub fn try_run_here(
        self: &Rc<Self>,
        env: &Env,
        queue: &mut CheckQueue,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Ran {
        match spec.run {
            Run::Script(_) | Run::Keys(_) if !queue.is_empty() => return Ran::FlushFirst,
            Run::Script(_) if !self.steps.is_open() => return Ran::Later(Work::Turn),
            Run::Script(command) => {
                let ran = self.begin_script(env, (command, spec.face), request, out, Length::Long);
                if let Ran::Done = ran {
                    queue.note_end(out.len());
                }
                return ran;
            }
            Run::Keys(_) | Run::EachKey(_) if !self.has_all(spec, request) => {
                return match queue.is_empty() {
                    true => Ran::Later(Work::Borrow),
                    false => Ran::FlushFirst,
                };
            }
            _ => {}
        }
        // The borrow of the shard ends with this statement.
        let step = self.shard.borrow_mut().run(env, queue, spec, request, out);
        match step {
            Step::Done => Ran::Done,
            Step::FlushFirst => Ran::FlushFirst,
            Step::Wait => {
                let key = self
                    .shard
                    .borrow()
                    .blocked_key(spec, request)
                    .unwrap_or_default()
                    .into();
                Ran::Later(Work::Held(key))
            }
            Step::More(rest) => {
                let mut keys = Keys::new(self, self.next_run());
                for position in spec.key_positions(request) {
                    keys.hold(request.arg(position));
                }
                Ran::Later(Work::Rest(rest, keys))
            }
        }
    }

    /// Begins a script, which runs a step now unless that is known to be longer than `may_be`.
    fn begin_script(
        self: &Rc<Self>,
        env: &Env,
        (command, face): (ScriptCommand, Face),
        request: Request<'_>,
        out: &mut Vec<u8>,
        may_be: Length,
    ) -> Ran {
        let stretch = Stretch::short(Instant::now());
        let mut script = match self.new_script(env, command, face, request) {
            Ok(script) => script,
            Err(CommandError::NoScript) if self.may_ask_for_script(request.arg(1)) => {
                return Ran::Later(Work::UnknownScript);
            }
            Err(error) => {
                // It may have been compiled.
                self.steps.note(Length::Unknown, stretch.end_as_part(self.counters()));
                error.write(out, env.proto);
                return Ran::Done;
            }
        };
        let length = script.length();
        if length == Length::Long && may_be == Length::Unknown {
            self.steps.note(Length::Unknown, stretch.end_as_part(self.counters()));
            return Ran::Later(Work::Script(Box::new(script)));
        }
        let done = script.slice(self, request, out);
        let took = stretch.end_as_part(self.counters());
        script.run.note_long(Length::of(took) == Length::Long);
        self.steps.note(length, took);
        match done {
            // Most are done at once, and need no memory of their own.
            true => Ran::Done,
            false => Ran::Later(Work::Script(Box::new(script))),
        }
    }

    /// Whether this worker's shard has all keys of a request.
    fn has_all(&self, spec: &Spec, request: Request<'_>) -> bool {
        self.node.is_alone()
            || spec
                .key_positions(request)
                .all(|position| self.node.place(slot_of(request.arg(position))) == Place::Of(self.index))
    }

    /// Brings a command to its end. The queue is empty.
    pub async fn finish(
        self: &Rc<Self>,
        mut work: Work,
        env: &Env,
        queue: &mut CheckQueue,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        let mut env = *env;
        // Where its reply begins, if it has keys of other nodes.
        let mut start = out.len();
        loop {
            match work {
                Work::Ready | Work::Held(_) | Work::Turn => {
                    if let Work::Held(key) = &work {
                        self.until_free(key, None).await;
                    }
                    let pass = match work {
                        Work::Turn => Some(self.steps.pass(Length::Unknown).await),
                        _ => None,
                    };
                    env.now_us = self.node.clock.now_us();
                    let ran = match (pass, spec.run) {
                        (Some(_), Run::Script(command)) if self.whereabouts(spec, request) == Whereabouts::Here => {
                            let ran = self.begin_script(&env, (command, spec.face), request, out, Length::Unknown);
                            if let Ran::Done = ran {
                                queue.note_end(out.len());
                            }
                            ran
                        }
                        _ => self.try_run(&env, queue, spec, request, out),
                    };
                    match ran {
                        Ran::Done => return,
                        Ran::Later(rest) => work = rest,
                        // A check that was queued: it is decided with the others.
                        Ran::FlushFirst => return,
                    }
                }
                Work::Closing(slot) => {
                    work = match self.until_open_for(slot, spec, env.now_us).await {
                        true => Work::of(self.whereabouts(spec, request)),
                        // Nobody decides for it, as far as is known.
                        false => Work::Elsewhere(self.node.workers()),
                    };
                }
                Work::UnknownScript => {
                    self.ask_for_script(request.arg(1)).await;
                    work = Work::of(self.whereabouts(spec, request));
                }
                Work::Elsewhere(place) => {
                    self.forward_alone(place, &env, spec, request, out).await;
                    queue.note_end(out.len());
                    return;
                }
                Work::Apart => {
                    keyspace::run_each_key(self, &env, spec, request, out).await;
                    queue.note_end(out.len());
                    return;
                }
                Work::Borrow => {
                    let run = self.next_run();
                    let mut keys = Keys::new(self, run);
                    let positions = spec.key_positions(request);
                    let needs = positions.map(|position| KeyNeed {
                        space: self.shard.borrow().space_of(&env, spec, request, position),
                        key: request.arg(position).into(),
                    });
                    let needs = needs.collect();
                    if let Err(error) = keys.take(needs).await {
                        error.write(out, env.proto);
                        queue.note_end(out.len());
                        return;
                    }
                    env.now_us = self.node.clock.now_us();
                    start = out.len();
                    match keys.act(|shard| shard.run(&env, queue, spec, request, out)) {
                        Step::More(rest) => work = Work::Rest(rest, keys),
                        // Every key is this run's.
                        Step::Done | Step::FlushFirst | Step::Wait => {
                            return finish_keys(&mut keys, &env, queue, start, out).await;
                        }
                    }
                }
                Work::Rest(rest, mut keys) => {
                    // A reply that is too large ends the connection; what only reads need not go on then.
                    let out_max = match spec.has_flag("readonly") {
                        true => self.node.config.limits.output_bytes,
                        false => usize::MAX,
                    };
                    self.finish_rest(rest, &keys, &env, queue, request, (out, out_max))
                        .await;
                    return finish_keys(&mut keys, &env, queue, start, out).await;
                }
                Work::Script(script) => {
                    self.finish_script(*script, &env, spec, request, out).await;
                    queue.note_end(out.len());
                    return;
                }
            }
        }
    }

    /// Goes on with a command that has begun, on keys that are its own, while others have their chance.
    pub async fn finish_rest(
        self: &Rc<Self>,
        mut rest: Box<dyn Rest>,
        keys: &Keys,
        env: &Env,
        queue: &mut CheckQueue,
        request: Request<'_>,
        (out, out_max): (&mut Vec<u8>, usize),
    ) {
        loop {
            tokio::task::yield_now().await;
            let stretch = Stretch::long();
            let done = keys.act(|shard| {
                loop {
                    if shard.go_on(env, queue, &mut *rest, request, out) {
                        return true;
                    }
                    if stretch.started().elapsed() >= crate::turn::SLICE {
                        return false;
                    }
                }
            });
            stretch.end(self.counters());
            if done {
                return;
            }
            if out.len() > out_max {
                queue.note_end(out.len());
                return;
            }
        }
    }

    fn new_script(
        self: &Rc<Self>,
        env: &Env,
        command: ScriptCommand,
        face: Face,
        request: Request<'_>,
    ) -> Result<ScriptWork, CommandError> {
        let run = self.next_run();
        Ok(ScriptWork {
            run: self.prepare_script(env, command, request, run)?.on(face),
            keys: Keys::new(self, run),
            wanted: Vec::new(),
            needs: None,
            rounds: 0,
        })
    }

    /// Prepares a script's run.
    ///
    /// # Errors
    /// As [`ScriptRun::new`].
    pub fn prepare_script(
        &self,
        env: &Env,
        command: ScriptCommand,
        request: Request<'_>,
        run: RunId,
    ) -> Result<ScriptRun, CommandError> {
        let mut host = self.scripts.borrow_mut();
        let known = (&self.node.scripts, &self.node.functions);
        ScriptRun::new(&mut host, known, command, env, request, run)
    }

    /// Runs a slice of a script. If it goes on after others had their chance, the keys of this shard that it has used are held.
    pub fn script_slice(
        &self,
        run: &mut ScriptRun,
        keys: &mut Keys,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> ScriptStep {
        let step = {
            let (host, mut shard) = (self.scripts.borrow(), keys.shard().borrow_mut());
            run.slice(&host, &mut shard, &*self.node, request, out, SCRIPT_SLICE)
        };
        match &step {
            ScriptStep::Done => self.note_script(run),
            // Guests are its own already.
            ScriptStep::Yield if keys.are_abroad() => {}
            ScriptStep::Yield => {
                let own = run.touched().filter(|key| self.owner_of(key) == self.index);
                own.for_each(|key| keys.hold(key));
            }
            ScriptStep::Needs(_) => {}
        }
        step
    }

    async fn finish_script(
        self: &Rc<Self>,
        mut script: ScriptWork,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        loop {
            if let Some(needs) = script.needs.take() {
                if let Err(error) = self.provide(&mut script, needs, (env, spec, request)).await {
                    return error.write(out, env.proto);
                }
            } else {
                tokio::task::yield_now().await;
            }
            let done = {
                let _pass = self.steps.pass(Length::Long).await;
                let stretch = Stretch::long();
                let done = script.slice(self, request, out);
                // That others had the processor is not the script's doing.
                let took = stretch.end(self.counters());
                script.run.note_spent(took);
                script.run.note_long(Length::of(took) == Length::Long);
                self.steps.note(Length::Long, took);
                done
            };
            if done {
                break;
            }
        }
        if let Err(error) = script.keys.finish().await {
            out.truncate(start);
            error.write(out, env.proto);
        }
    }

    /// Counts a script that is done.
    fn note_script(&self, run: &ScriptRun) {
        let counters = self.counters();
        counters.scripts.add(1);
        let hit = run.bound_hit().map(|bound| match bound {
            ScriptBound::Budget => Bound::ScriptBudget,
            ScriptBound::Memory => Bound::ScriptMemory,
            ScriptBound::Step => Bound::ScriptStep,
        });
        if let Some(bound) = hit {
            counters.limit_hit(bound);
        }
        let spent_ms = run.spent().as_millis() as u64;
        if spent_ms >= self.node.config.script.slow_ms {
            match hit {
                Some(bound) => tracing::warn!(
                    event = "slow_script",
                    script = run.name(),
                    spent_ms,
                    stopped_by = bound.info().key,
                    "stopped"
                ),
                None => tracing::warn!(event = "slow_script", script = run.name(), spent_ms),
            }
        }
    }

    /// Gets what a script needs. It has nothing while it waits, so that nobody waits for it.
    async fn provide(
        self: &Rc<Self>,
        script: &mut ScriptWork,
        needs: Needs,
        (env, spec, request): (&Env, &'static Spec, Request<'_>),
    ) -> Result<(), CommandError> {
        self.counters().script_restarts.add(1);
        script.keys.give_back();
        script.rounds += 1;
        if script.rounds > NODE_ROUNDS_MAX {
            return Err(CommandError::TryAgain);
        }
        if script.rounds == 1 {
            // All that it names, so that it need not start again for each.
            let keys = spec.key_positions(request).map(|position| request.arg(position).into());
            let space = Space::Db(env.db);
            script.wanted.extend(keys.map(|key| KeyNeed { space, key }));
        }
        let is_abroad = matches!(&needs, Needs::Key(need) if self.node.lacks_slot(slot_of(&need.key)));
        if is_abroad {
            // With one key of another node all become guests, those of this shard, too.
            let space = Space::Db(env.db);
            let touched = script.run.touched().map(Box::from);
            script.wanted.extend(touched.map(|key| KeyNeed { space, key }));
        }
        let node_of = match &needs {
            Needs::Node(db) => Some(*db),
            Needs::Key(need) if script.rounds > ROUNDS_MAX && self.node.workers() > 1 && !is_abroad => match need.space
            {
                Space::Db(db) => Some(db),
                Space::Rule(_) | Space::StandIn(_) => Some(env.db),
            },
            Needs::Key(_) => None,
        };
        if let Needs::Key(need) = needs {
            let together = script.wanted.len().max(LENT_TOGETHER);
            let names = match need.space {
                Space::Db(db) => script.run.names(db),
                Space::Rule(_) | Space::StandIn(_) => None,
            };
            let others = names.into_iter().flat_map(|names| names.from(&need.key, together));
            let others: Vec<KeyNeed> = others
                .map(|key| KeyNeed {
                    space: need.space,
                    key: key.into(),
                })
                .collect();
            script.wanted.push(need);
            script.wanted.extend(others);
        }
        if let Some(db) = node_of
            && script.run.names(db).is_none()
        {
            if !script.keys.has_node() {
                script.keys.take_node().await?;
            }
            let names = self.names(db).await?;
            script.run.give_names(names);
        }
        script.keys.take(script.wanted.clone()).await
    }

    /// The names of all keys of a database in the other shards of this node, which are frozen.
    async fn names(self: &Rc<Self>, db: u8) -> Result<Names, CommandError> {
        let mut shards: Vec<Vec<Name>> = vec![Vec::new(); self.node.workers()];
        let mut clocks = HashMap::new();
        let mut count = 0;
        // A run with keys of other nodes is in a shard of its own: to it this worker's is another one.
        let may_be_abroad = self.node.cluster.is_some();
        let others = shards.iter_mut().enumerate();
        for (shard, names) in others.filter(|(shard, _)| *shard != self.index || may_be_abroad) {
            let mut cursor = Some(ScanCursor::START);
            while let Some(at) = cursor {
                let op = KeyspaceOp::Names { db, cursor: at };
                let Ok(KeyspaceAnswer::Names(more, next, offsets)) = self.node.ask_keyspace(shard, op).await else {
                    return Err(CommandError::TryAgain);
                };
                count += more.len();
                if count > self.node.config.limits.keys_reply {
                    self.counters().limit_hit(Bound::KeysReply);
                    return Err(CommandError::TooManyKeys);
                }
                names.extend(more);
                clocks.extend(offsets);
                cursor = next;
            }
        }
        Ok(Names::new(db, shards, clocks))
    }

    /// Decides what is queued, letting others run when the policies have used up their time, and waiting for keys that are held. Answers
    /// whether it did any of that.
    pub async fn flush(&self, env: &Env, queue: &mut CheckQueue, out: &mut Vec<u8>) -> bool {
        let mut waited = false;
        let mut env = *env;
        let mut open_queue = None;
        loop {
            let flow = self.shard.borrow_mut().flush(&env, queue, out);
            if flow != Flow::Done && open_queue.is_none() {
                open_queue = self.links.as_ref().map(|links| links.queues.open());
            }
            match flow {
                Flow::Done => return waited,
                Flow::Yield => tokio::task::yield_now().await,
                Flow::Wait => {
                    let key: Box<[u8]> = queue.first_key().unwrap_or_default().into();
                    self.until_free(&key, None).await;
                    env.now_us = self.node.clock.now_us();
                }
            }
            waited = true;
        }
    }
}

/// Gives keys back. If another node does not take them, the reply, which begins there and is the last that was noted, says so instead.
async fn finish_keys(keys: &mut Keys, env: &Env, queue: &mut CheckQueue, start: usize, out: &mut Vec<u8>) {
    if let Err(error) = keys.finish().await {
        out.truncate(start);
        error.write(out, env.proto);
        queue.amend_end(out.len());
    }
}
