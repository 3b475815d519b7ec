//! A run of a script, in slices, on one shard.

mod load;
mod program;

use super::ScriptCommand;
use super::call::Calls;
use super::host::ScriptHost;
use super::names::Names;
use super::registry::{Running, Scripts};
use super::touched::Touched;
use super::wire::{Wire, write_error};
use crate::functions::{Functions, LibraryChange, LibraryVersion};
use crate::node_view::NodeView;
use crate::{CommandError, Env, Face, Published, RunId, Shard, UndoLog};
use program::Program;
use std::sync::Arc;
use std::time::Duration;
use tollgate_eval::{Failure, KillReason, Outcome};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_store::Space;

/// The first argument that is a key or an argument of the script.
const FIRST: usize = 3;

/// A key that a run cannot go on without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyNeed {
    /// What it belongs to.
    pub space: Space,
    /// The key.
    pub key: Box<[u8]>,
}

/// What a run cannot go on without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// A key that is held, or of another shard.
    Key(KeyNeed),
    /// The whole node, and the names of the keys of this database in the other shards, for KEYS, SCAN and the like.
    Node(u8),
}

/// What a slice of a run came to.
#[derive(Debug)]
pub enum ScriptStep {
    /// The reply is written, and what was written stands.
    Done,
    /// The slice is over. The keys that were asked for so far have to be held: [`ScriptRun::touched`].
    Yield,
    /// Nothing was done: get this, and call again.
    Needs(Needs),
}

/// A bound that ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptBound {
    /// The time of all its slices.
    Budget,
    /// Its memory, or the size of its reply.
    Memory,
    /// The time of something that cannot be interrupted.
    Step,
}

/// A run. It belongs to the thread of its host.
pub struct ScriptRun {
    program: Program,
    run: Option<tollgate_eval::Run>,
    pub(crate) id: RunId,
    env: Env,
    keys: usize,
    read_only: bool,
    undo: Option<UndoLog>,
    touched: Touched,
    spent: Duration,
    running: Option<Arc<Running>>,
    library_change: Option<LibraryChange>,
    keeps_log: bool,
    published: Vec<Published>,
    /// What monitors are to read of its commands.
    shown: Vec<u8>,
    /// Which bound ended it.
    hit: Option<ScriptBound>,
    /// The database that its commands use: SELECT changes it.
    selected: u8,
    /// Of each database that it asked for.
    names: Vec<Names>,
    /// Where it came from: on the redirecting face it has no keys of other nodes.
    face: Face,
}

impl std::fmt::Debug for ScriptRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptRun")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl ScriptRun {
    /// Prepares a run.
    ///
    /// # Errors
    /// The request is not well formed, its script or function is not known, or it does not compile.
    pub fn new(
        host: &mut ScriptHost,
        (scripts, functions): (&Scripts, &Functions),
        command: ScriptCommand,
        env: &Env,
        request: Request<'_>,
        id: RunId,
    ) -> Result<Self, CommandError> {
        let (program, keys, read_only) = Program::of(host, (scripts, functions), command, request)?;
        Ok(Self {
            program,
            run: None,
            id,
            env: *env,
            keys,
            read_only,
            undo: None,
            touched: Touched::default(),
            spent: Duration::ZERO,
            running: None,
            library_change: None,
            keeps_log: false,
            published: Vec::new(),
            shown: Vec::new(),
            hit: None,
            selected: env.db,
            names: Vec::new(),
            face: Face::Default,
        })
    }

    /// Says which face it comes from.
    pub fn on(mut self, face: Face) -> Self {
        self.face = face;
        self
    }

    /// Keeps the log of what it wrote when it is done, for who may have to take that back later. The logs of what came before take so many
    /// bytes.
    pub fn keep_log(mut self, before_bytes: usize) -> Self {
        self.keeps_log = true;
        self.undo = Some(UndoLog::after(before_bytes));
        self
    }

    /// Says that the library which it loads was loaded by another node before, in that change.
    pub fn change_of(mut self, version: LibraryVersion) -> Self {
        if let Program::Load(loading) = &mut self.program {
            loading.version = Some(version);
        }
        self
    }

    /// The bound that ended it.
    pub fn bound_hit(&self) -> Option<ScriptBound> {
        self.hit
    }

    /// What a run that is done wants published, see [`ScriptRun::keep_log`].
    pub fn take_published(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.published)
    }

    /// What monitors are to read of the commands of a run that is done, see [`ScriptRun::keep_log`].
    pub fn take_shown(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.shown)
    }

    /// The log of what a run wrote that is done, see [`ScriptRun::keep_log`].
    pub fn take_log(&mut self) -> Option<UndoLog> {
        self.undo.take()
    }

    /// What a run that is done has changed of the libraries.
    pub fn take_library_change(&mut self) -> Option<LibraryChange> {
        self.library_change.take()
    }

    /// Gives it the names that it needs; the whole node belongs to it from now on.
    pub fn give_names(&mut self, names: Names) {
        self.names.push(names);
    }

    /// The names of a database that it was given.
    pub fn names(&self, db: u8) -> Option<&Names> {
        self.names.iter().find(|names| names.db() == db)
    }

    /// The keys asked for since the run began.
    pub fn touched(&self) -> impl Iterator<Item = &[u8]> {
        self.touched.iter()
    }

    /// The script's SHA-1, or the function's name.
    pub fn name(&self) -> &str {
        self.program.name()
    }

    /// Time that its slices have taken so far, as far as it was told.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// Counts the time that a slice took.
    pub fn note_spent(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Whether the last step of this script was long, in this run or the one before, see [`ScriptRun::note_long`]. Of functions that is not
    /// known.
    pub fn was_long(&self) -> bool {
        match &self.program {
            Program::Script(compiled) => compiled.was_long.get(),
            Program::Function(_) | Program::Load(_) => false,
        }
    }

    /// Notes whether a step was long.
    pub fn note_long(&self, was_long: bool) {
        if let Program::Script(compiled) = &self.program {
            compiled.was_long.set(was_long);
        }
    }

    /// Runs a slice on a shard. `request` is the same each time.
    pub fn slice(
        &mut self,
        host: &ScriptHost,
        shard: &mut Shard,
        node: &dyn NodeView,
        request: Request<'_>,
        out: &mut Vec<u8>,
        slice: Duration,
    ) -> ScriptStep {
        if let Program::Load(_) = self.program {
            return self.load_slice(host, node, request, out, slice);
        }
        let start = out.len();
        let mut run = match self.run.take() {
            Some(run) => run,
            None => match self.begin(host, shard, request) {
                Ok(run) => run,
                Err(need) => return ScriptStep::Needs(need),
            },
        };
        if let Some(reason) = self.stopped(host) {
            if let KillReason::Budget(_) = reason {
                self.hit = Some(ScriptBound::Budget);
            }
            let error = run.kill(reason);
            self.roll_back(shard);
            write_error(&mut ReplyWriter::new(out, self.env.proto), &error.to_reply(self.name()));
            return ScriptStep::Done;
        }
        if !self.read_only {
            shard.undo = Some(self.undo.take().unwrap_or_default());
        }
        shard.set_running(Some(self.id));
        let mut calls = Calls::new(
            host,
            shard,
            node,
            Env {
                db: self.selected,
                ..self.env
            },
            self.id,
            &mut self.touched,
        );
        calls.read_only = self.read_only;
        calls.names = &self.names;
        calls.face = self.face;
        calls.function = self.program.function();
        calls.shown = node.is_monitored().then(|| std::mem::take(&mut self.shown));
        let outcome = run.resume(&mut calls, slice);
        let needs = calls.needs.take();
        let published = calls.session.take().and_then(|session| session.published);
        self.published.extend(published.into_iter().flatten());
        self.shown = calls.shown.take().unwrap_or_default();
        let env = calls.env;
        calls.end();
        shard.set_running(None);
        self.undo = shard.undo.take();
        match outcome {
            Outcome::Yielded => {
                self.selected = env.db;
                self.run = Some(run);
                self.note_running(node, request);
                ScriptStep::Yield
            }
            Outcome::Retry => {
                self.note_running(node, request);
                drop(run);
                self.roll_back(shard);
                // A script may have asked for several keys before it was stopped; one at a time is enough.
                ScriptStep::Needs(needs.unwrap_or(Needs::Node(self.env.db)))
            }
            Outcome::Finished => {
                let mut wire = Wire(ReplyWriter::new(out, self.env.proto));
                let written = run.write_reply(&mut wire);
                drop(run);
                match written {
                    Ok(()) => self.commit(shard, node),
                    Err(error) => {
                        self.hit = Some(ScriptBound::Memory);
                        out.truncate(start);
                        write_error(&mut ReplyWriter::new(out, self.env.proto), &error.to_reply(self.name()));
                        self.roll_back(shard);
                    }
                }
                ScriptStep::Done
            }
            Outcome::Failed(error) => {
                drop(run);
                self.hit = bound_of(error.failure);
                match error.failure {
                    // As in Redis: what a script wrote before it failed stands.
                    Failure::Raised => self.commit(shard, node),
                    _ => self.roll_back(shard),
                }
                write_error(&mut ReplyWriter::new(out, self.env.proto), &error.to_reply(self.name()));
                ScriptStep::Done
            }
        }
    }

    /// Starts, unless a key that the request names is not here.
    fn begin(&mut self, host: &ScriptHost, shard: &Shard, request: Request<'_>) -> Result<tollgate_eval::Run, Needs> {
        self.touched.clear();
        self.selected = self.env.db;
        let args = request.from_arg(FIRST);
        for key in args.iter().take(self.keys) {
            if !shard.is_usable(Space::Db(self.env.db), key, self.id) {
                return Err(Needs::Key(KeyNeed {
                    space: Space::Db(self.env.db),
                    key: key.into(),
                }));
            }
            self.touched.add(key);
        }
        let (keys, arguments) = (args.iter().take(self.keys), args.iter().skip(self.keys));
        Ok(match &self.program {
            Program::Script(compiled) => host.engine.start(&compiled.script, keys, arguments),
            Program::Function(callable) => host.engine.call(&callable.library.code, keys, arguments),
            Program::Load(_) => unreachable!("a library is loaded by `load_slice`"),
        })
    }

    fn note_running(&mut self, node: &dyn NodeView, request: Request<'_>) {
        if self.running.is_none() {
            self.running = Some(node.scripts().note_running(self.program.kind(request)));
        }
    }

    fn stopped(&self, host: &ScriptHost) -> Option<KillReason> {
        if self.running.as_ref().is_some_and(|running| running.is_killed()) {
            return Some(KillReason::User);
        }
        let budget = host.limits.budget;
        (self.spent >= budget).then_some(KillReason::Budget(budget))
    }

    fn roll_back(&mut self, shard: &mut Shard) {
        self.published.clear();
        self.shown.clear();
        if let Some(undo) = self.undo.take() {
            shard.roll_back(undo);
        }
    }

    fn commit(&mut self, shard: &mut Shard, node: &dyn NodeView) {
        if self.keeps_log {
            return;
        }
        self.published.drain(..).for_each(|published| published.send(node));
        if !self.shown.is_empty() {
            node.show(std::mem::take(&mut self.shown));
        }
        if let Some(undo) = self.undo.take() {
            shard.commit(undo);
        }
    }
}

/// The bound that made a run fail.
fn bound_of(failure: Failure) -> Option<ScriptBound> {
    match failure {
        Failure::Memory | Failure::Reply => Some(ScriptBound::Memory),
        Failure::Step => Some(ScriptBound::Step),
        Failure::Raised | Failure::Killed(_) => None,
    }
}
