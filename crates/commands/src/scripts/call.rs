//! What a script reaches: the commands.

use super::host::ScriptHost;
use super::names::Names;
use super::run::{KeyNeed, Needs};
use super::touched::Touched;
use crate::check::{CheckQueue, Flow};
use crate::keyspace::{KeyspaceAnswer, KeyspaceCommand};
use crate::monitor::{ShownSource, is_shown, write_shown};
use crate::node_view::{ConnectionCall, NodeView};
use crate::table::{Run, Spec};
use crate::{CommandError, Env, Face, KeyspaceRun, LastCommand, RunId, Session, Shard, Step, Wait};
use std::sync::Arc;
use std::time::Duration;
use tollgate_eval::{Host, HostAnswer, LogLevel, Registration, ReplySink, Resp, Tape, thread_time};
use tollgate_protocol::{Proto, ReplyWriter, Request};
use tollgate_store::{MAX_KEY_BYTES, Role, Space, slot_of};

/// Bytes for monitors that a script collects until it is done; of one with more, monitors may read again what it does once more.
const SHOWN_MAX_BYTES: usize = 1 << 20;

/// The commands, for a script.
pub(crate) struct Calls<'a> {
    host: &'a ScriptHost,
    shard: &'a mut Shard,
    node: &'a dyn NodeView,
    pub(crate) env: Env,
    id: RunId,
    pub(crate) read_only: bool,
    pub(crate) names: &'a [Names],
    /// Where the script came from.
    pub(crate) face: Face,
    /// The function that is called, if one is.
    pub(crate) function: Option<&'a str>,
    touched: &'a mut Touched,
    /// What the run has to wait for, once it was refused a key.
    pub(crate) needs: Option<Needs>,
    memory: Box<CallMemory>,
    /// For commands about the connection; made when one comes.
    pub(crate) session: Option<Box<Session>>,
    /// What monitors read of its commands, if there are monitors.
    pub(crate) shown: Option<Vec<u8>>,
}

/// How long a command of a script may go on, in time of this thread: nothing else goes on meanwhile.
struct Patience {
    begin: Duration,
    longest: Duration,
}

impl Patience {
    fn new(longest: Duration) -> Self {
        Self {
            begin: thread_time(),
            longest,
        }
    }

    fn is_over(&self) -> bool {
        thread_time().saturating_sub(self.begin) > self.longest
    }
}

/// Memory of calls, kept from run to run.
#[derive(Default)]
pub(crate) struct CallMemory {
    known: Known,
    queue: CheckQueue,
    /// For commands about the connection, while it is as new but for its database and protocol.
    session: Option<Box<Session>>,
}

/// Commands that scripts have called lately, and what a script may do with them, by the name as the script has it.
#[derive(Default)]
struct Known([KnownCommand; KNOWN_COMMANDS]);

const KNOWN_COMMANDS: usize = 16;

#[derive(Default)]
struct KnownCommand {
    last: LastCommand,
    /// What `last` has, if scripts may call it and its flags do not depend on a subcommand.
    plain: Option<PlainCommand>,
}

#[derive(Clone, Copy)]
struct PlainCommand {
    spec: &'static Spec,
    is_write: bool,
    /// Its keys are argument 1 alone, in the selected database.
    has_one_key: bool,
}

impl PlainCommand {
    fn of(spec: &'static Spec) -> Self {
        Self {
            spec,
            is_write: spec.has_flag("write"),
            has_one_key: spec.keys == (1, 1, 1) && spec.counted == 0 && !spec.name.starts_with("rl."),
        }
    }
}

impl Known {
    /// The place for a command of that name.
    fn of(&mut self, name: &[u8]) -> &mut KnownCommand {
        let byte = |at: usize| usize::from(name.get(at).copied().unwrap_or_default());
        // Commands that are used together differ in these.
        let hash = byte(0) ^ byte(1) << 1 ^ byte(3) << 2 ^ name.len();
        &mut self.0[hash % KNOWN_COMMANDS]
    }
}

impl<'a> Calls<'a> {
    pub(crate) fn new(
        host: &'a ScriptHost,
        shard: &'a mut Shard,
        node: &'a dyn NodeView,
        env: Env,
        id: RunId,
        touched: &'a mut Touched,
    ) -> Self {
        Self {
            host,
            shard,
            node,
            env,
            id,
            read_only: false,
            names: &[],
            face: Face::Default,
            function: None,
            touched,
            needs: None,
            memory: host.call_memory.take().unwrap_or_default(),
            session: None,
            shown: None,
        }
    }

    /// Ends it: the memory is for the next.
    pub(crate) fn end(self) {
        self.host.call_memory.set(Some(self.memory));
    }

    /// Notes that the run asks for a key; whether it may use it now. If not, what it has to wait for is noted.
    fn reach(&mut self, space: Space, key: &[u8]) -> Result<bool, CommandError> {
        if key.len() > MAX_KEY_BYTES {
            return Err(CommandError::KeyTooLong(MAX_KEY_BYTES));
        }
        if !self.shard.is_usable(space, key, self.id) {
            if self.face.redirects() && self.node.is_elsewhere(slot_of(key)) {
                return Err(CommandError::Refused(
                    "Script attempted to access a non local key in a cluster node",
                ));
            }
            let is_nowhere = self.names.iter().any(|names| names.lacks(space, key))
                && !self.shard.is_own(key)
                && self.node.has_slot(slot_of(key));
            if !is_nowhere {
                let key = key.into();
                self.needs = Some(Needs::Key(KeyNeed { space, key }));
                return Ok(false);
            }
            let clock_offset_us = self.names.first().map_or(0, |names| names.clock_offset_us(key));
            self.shard.admit_nothing(space, key, clock_offset_us, self.id);
        }
        self.touched.add(key);
        Ok(true)
    }

    /// As [`Calls::reach`], for all keys of a command.
    fn reach_all(&mut self, env: &Env, spec: &Spec, request: Request<'_>) -> Result<bool, CommandError> {
        for position in spec.key_positions(request) {
            let space = self.shard.space_of(env, spec, request, position);
            if !self.reach(space, request.arg(position))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a command and leaves its reply in `out`.
    fn run(&mut self, request: Request<'_>, resp: Resp, out: &mut Vec<u8>) -> Result<HostAnswer, CommandError> {
        let PlainCommand { spec, has_one_key, .. } = self.resolve(request)?;
        let env = Env {
            proto: match resp {
                Resp::Two => Proto::Resp2,
                Resp::Three => Proto::Resp3,
            },
            ..self.env
        };
        let may_go_on = match has_one_key {
            true => self.reach(Space::Db(env.db), request.arg(1))?,
            false => self.reach_all(&env, spec, request)?,
        };
        if !may_go_on {
            return Ok(HostAnswer::Elsewhere);
        }
        if let Some(shown) = &mut self.shown
            && is_shown(spec)
        {
            write_shown(&env, ShownSource::Script, spec.name, request, shown);
            if shown.len() >= SHOWN_MAX_BYTES {
                self.node.show(std::mem::take(shown));
            }
        }
        match spec.run {
            Run::Connection(run) => {
                // What TIME was given is as new after it.
                let stays_new = spec.name == "time" && self.session.is_none();
                let kept = self.session.take().or_else(|| self.memory.session.take());
                let mut session = kept.unwrap_or_else(|| Box::new(Session::of_script(env.db)));
                (session.db, session.proto, session.face) = (env.db, env.proto, self.face);
                let done = run(&mut ConnectionCall {
                    session: &mut session,
                    node: self.node,
                    env: &env,
                    request,
                    out,
                });
                self.env.db = session.db;
                match stays_new {
                    true => self.memory.session = Some(session),
                    false => self.session = Some(session),
                }
                done?;
            }
            Run::Keyspace(KeyspaceCommand::FlushAll | KeyspaceCommand::FlushDb) => {
                // It could not be taken back.
                return Err(CommandError::Refused("This Redis command is not allowed from script"));
            }
            Run::Keyspace(command) => {
                let slots = self.node.shard_slots();
                let names = self.names.iter().find(|names| names.db() == env.db);
                // A run with keys of other nodes is in a shard that has no slots of its own.
                let has_others = slots.len() > 1 || self.shard.store().slots().is_empty();
                if has_others && names.is_none() {
                    self.needs = Some(Needs::Node(env.db));
                    return Ok(HostAnswer::Elsewhere);
                }
                let own = self.shard.store().slots();
                let mut run =
                    KeyspaceRun::new(command, &env, request, Arc::clone(&slots), self.node.keyspace_limits())?;
                let patience = Patience::new(self.host.limits.step);
                while let Some((index, op)) = run.ask() {
                    if patience.is_over() {
                        return Ok(HostAnswer::TooLong);
                    }
                    let answer = match names {
                        Some(names) if slots[index] != own => {
                            names.answer(self.shard, self.id, index, &slots[index], &env, &op)?
                        }
                        names => {
                            let guests = names.map_or(0, |names| names.guests(self.shard, self.id));
                            match self.shard.keyspace(&op, env.now_us) {
                                // Guests are counted with the shards that they belong to.
                                KeyspaceAnswer::Len(len) => KeyspaceAnswer::Len(len - guests),
                                answer => answer,
                            }
                        }
                    };
                    run.take(answer)?;
                }
                run.finish(&env, out);
            }
            // Of those only WAIT and WAITAOF are for scripts. Nothing waits here.
            Run::Worker(command) => Wait::parse(command, request)?.write(&mut ReplyWriter::new(out, env.proto)),
            _ => return Ok(self.run_in_shard(&env, spec, request, out)),
        }
        Ok(HostAnswer::Replied)
    }

    fn run_in_shard(&mut self, env: &Env, spec: &'static Spec, request: Request<'_>, out: &mut Vec<u8>) -> HostAnswer {
        let queue = &mut self.memory.queue;
        queue.start(false);
        match self.shard.run(env, queue, spec, request, out) {
            Step::More(mut rest) => {
                let patience = Patience::new(self.host.limits.step);
                while !self.shard.go_on(env, queue, &mut *rest, request, out) {
                    if patience.is_over() {
                        // What it has done is taken back with the rest of the script.
                        return HostAnswer::TooLong;
                    }
                }
            }
            // Keys were looked at before, and the queue is empty.
            Step::Done | Step::FlushFirst | Step::Wait => {}
        }
        while !queue.is_empty() && self.shard.flush(env, queue, out) == Flow::Yield {}
        HostAnswer::Replied
    }

    fn resolve(&mut self, request: Request<'_>) -> Result<PlainCommand, CommandError> {
        let known = self.memory.known.of(request.arg(0));
        if let Some(plain) = known.plain.filter(|_| known.last.is(request.arg(0)))
            && plain.spec.takes(request.len())
            && !(plain.is_write && self.read_only)
        {
            return Ok(plain);
        }
        known.plain = None;
        let (spec, _) = self
            .host
            .table
            .resolve(request, &mut known.last)
            .map_err(|error| match error {
                CommandError::Arity(_) => {
                    CommandError::Refused("Wrong number of args calling Redis command from script")
                }
                _ => CommandError::Refused("Unknown Redis command called from script"),
            })?;
        if spec.has_flag("noscript") || matches!(spec.run, Run::Script(_)) {
            return Err(CommandError::Refused("This Redis command is not allowed from script"));
        }
        let plain = PlainCommand::of(spec);
        if self.read_only && plain.is_write {
            return Err(CommandError::Refused(
                "Write commands are not allowed from read-only scripts.",
            ));
        }
        if spec.subcommands.is_empty() && !spec.name.contains('|') {
            known.plain = Some(plain);
        }
        Ok(plain)
    }
}

impl Host for Calls<'_> {
    fn call(&mut self, request: Request<'_>, resp: Resp, tape: &mut Tape) -> HostAnswer {
        match self.run(request, resp, tape.wire()) {
            Ok(answer) => answer,
            Err(error) => {
                tape.wire().clear();
                tape.error(error.to_string().as_bytes());
                HostAnswer::Replied
            }
        }
    }

    fn admit_arguments(&mut self, bytes: usize) -> Result<(), Vec<u8>> {
        // So much can be one string, or what a script has in its memory; and positions in it have 32 bits.
        let bytes_max = self.shard.string_bytes_max.max(self.host.limits.memory_bytes);
        if bytes > bytes_max.min(u32::MAX as usize) {
            self.shard.stats.strings_too_long += 1;
            return Err(CommandError::StringTooLong.to_string().into_bytes());
        }
        Ok(())
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        // There is one user, who may do everything.
        let name = arguments.first()?;
        self.host.table.find(name).map(|_| true)
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        log(level, message);
    }

    fn register(&mut self, function: &Registration<'_>) -> Result<bool, String> {
        Ok(self.function.is_some_and(|name| name.as_bytes() == function.name))
    }
}

/// Logs what a script wants logged.
pub(crate) fn log(level: LogLevel, message: &[u8]) {
    let message = String::from_utf8_lossy(message);
    match level {
        LogLevel::Debug => tracing::debug!(event = "script_log", %message),
        LogLevel::Verbose | LogLevel::Notice => tracing::info!(event = "script_log", %message),
        LogLevel::Warning => tracing::warn!(event = "script_log", %message),
    }
}

impl Shard {
    /// Whether a key is of a slot of this shard.
    fn is_own(&self, key: &[u8]) -> bool {
        let slots = self.store().slots();
        if slots.len() == usize::from(tollgate_store::SLOTS) && self.store().holds_all() {
            return true;
        }
        let slot = slot_of(key);
        slots.contains(&slot) && self.store().role(slot) == Role::Held
    }

    /// Whether a run can use a key here now: it is this shard's and free, or the run's guest.
    pub(crate) fn is_usable(&self, space: Space, key: &[u8], run: RunId) -> bool {
        match self.is_own(key) {
            true => !self.has_holds() || !self.is_blocked_for(key, Some(run)),
            false => self.interest.is_guest_of(space, key, run),
        }
    }
}
