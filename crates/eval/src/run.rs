//! One run of a script, in slices.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;

use mlua::ffi;

use crate::engine::{Thread, Vm};
use crate::host::{Host, Resp};
use crate::json::JsonSettings;
use crate::library;
use crate::random::Random;
use crate::shared::Kill;
use crate::stack::{Stack, State};
use crate::tape::ReplySink;
use crate::to_reply::{ReplyBounds, one_line, write_reply};

/// Shortest slice: shorter ones would spend their time on being resumed.
const SLICE_MIN: Duration = Duration::from_micros(20);

/// What a run sets and the next one must not see.
#[derive(Default)]
pub(crate) struct RunState {
    pub(crate) resp: Cell<Resp>,
    pub(crate) random: Cell<Random>,
    pub(crate) json: Cell<JsonSettings>,
    pub(crate) phase: Cell<Phase>,
    /// The function that is to be called, between its registration and its call.
    pub(crate) callback: Cell<Option<c_int>>,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A script, or a function.
    #[default]
    Run,
    /// A library registers its functions.
    Load,
    /// A library registers its functions before one is called.
    Reload,
}

impl RunState {
    fn copy_from(&self, other: &RunState) {
        self.resp.set(other.resp.get());
        self.random.set(other.random.get());
        self.json.set(other.json.get());
        self.phase.set(other.phase.get());
        self.callback.set(other.callback.get());
    }
}

/// What a slice came to.
#[derive(Debug)]
pub enum Outcome {
    /// The slice is used up: resume again.
    Yielded,
    /// The script has returned: [`Run::write_reply`] gives what.
    Finished,
    /// The script failed.
    Failed(ScriptError),
    /// The host answered [`crate::HostAnswer::Elsewhere`]: undo, and start anew.
    Retry,
}

/// Why a run is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// SCRIPT KILL or FUNCTION KILL.
    User,
    /// It has used its budget.
    Budget(Duration),
}

/// What made a script fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The script raised an error, or a command did that it called.
    Raised,
    /// It needed more memory than [`crate::EngineLimits::memory_bytes`].
    Memory,
    /// It was for too long in something that cannot be interrupted, see [`crate::EngineLimits::step`].
    Step,
    /// [`Run::kill`] ended it.
    Killed(KillReason),
    /// Its reply is larger than its memory, has a million values, or takes longer to write than a step.
    Reply,
}

/// A script's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// What happened.
    pub failure: Failure,
    /// The text with its code: `ERR user_script:1: boo`.
    pub message: Vec<u8>,
    /// The line of the script, where it is known.
    pub line: Option<u32>,
    /// What messages call the script's text.
    pub chunk: &'static str,
}

impl ScriptError {
    /// The error as a reply of EVAL: `ERR user_script:1: boo script: <sha1>, on @user_script:1.` A function has its name for the SHA-1.
    pub fn to_reply(&self, name: &str) -> Vec<u8> {
        let mut text = one_line(&self.message);
        if let Some(line) = self.line {
            text.extend_from_slice(format!(" script: {name}, on @{}:{line}.", self.chunk).as_bytes());
        }
        text
    }

    fn own(chunk: &'static str, failure: Failure, message: String) -> Self {
        Self {
            failure,
            message: message.into_bytes(),
            line: None,
            chunk,
        }
    }
}

/// A run of a script: resumed until it is over, killed or dropped.
pub struct Run {
    vm: Rc<Vm>,
    thread: Option<Thread>,
    /// How many arguments are on its stack, above the function that takes them.
    arguments: c_int,
    chunk: &'static str,
    state: RunState,
    /// Threads to resume, innermost first; the last is the run's own. Empty before the end of the first slice.
    stopped: Vec<State>,
    /// Memory that the slices so far have added, in bytes.
    added_bytes: usize,
    is_over: bool,
    is_clean: bool,
}

impl Run {
    /// A run of the function on the thread's stack, below its arguments.
    pub(crate) fn new(vm: Rc<Vm>, thread: Thread, phase: Phase) -> Self {
        let state = RunState::default();
        state.random.set(vm.shared.random_seed());
        state.phase.set(phase);
        vm.runs.set(vm.runs.get() + 1);
        Self {
            vm,
            arguments: thread.stack.top() - 1,
            chunk: match phase {
                Phase::Run => "user_script",
                Phase::Load | Phase::Reload => library::CHUNK_NAME,
            },
            thread: Some(thread),
            state,
            stopped: Vec::new(),
            added_bytes: 0,
            is_over: false,
            is_clean: false,
        }
    }

    /// Goes on until `slice` is over, or the script is. Commands go to `host`.
    ///
    /// # Panics
    /// When the run is over already.
    pub fn resume(&mut self, host: &mut dyn Host, slice: Duration) -> Outcome {
        assert!(!self.is_over, "a run that is over is not resumed");
        let Some(thread) = &self.thread else {
            unreachable!("only drop takes the thread")
        };
        let stack = thread.stack;
        let vm = Rc::clone(&self.vm);
        let shared = &vm.shared;
        shared.run.copy_from(&self.state);
        shared.begin_slice(slice.max(SLICE_MIN));
        let used_bytes = shared.memory.used_bytes();
        let room_bytes = vm.limits.memory_bytes.saturating_sub(self.added_bytes);
        shared.memory.set_limit(used_bytes + room_bytes);
        let status = shared.lend_host(host, || self.step(&stack));
        shared.memory.set_limit(0);
        self.state.copy_from(&shared.run);
        self.added_bytes = (self.added_bytes + shared.memory.used_bytes()).saturating_sub(used_bytes);
        let outcome = self.outcome(&stack, status);
        self.is_over = !matches!(outcome, Outcome::Yielded);
        outcome
    }

    /// Ends a run between two slices: nothing of the script runs again, whatever it would have caught. The error is its
    /// client's reply.
    pub fn kill(self, reason: KillReason) -> ScriptError {
        let message = match reason {
            KillReason::User if self.chunk == library::CHUNK_NAME => {
                "ERR Script killed by user with FUNCTION KILL...".to_owned()
            }
            KillReason::User => "ERR Script killed by user with SCRIPT KILL...".to_owned(),
            KillReason::Budget(budget) => format!("ERR Script stopped after its budget of {} ms", budget.as_millis()),
        };
        let line = self.stopped.first().and_then(|&state| {
            // SAFETY: the innermost of the stopped threads, kept by the others and they by this run.
            line_of(&unsafe { Stack::new(state) })
        });
        ScriptError {
            line,
            ..ScriptError::own(self.chunk, Failure::Killed(reason), message)
        }
    }

    /// Resumes the threads that the last slice stopped. Returns the status of the run's own.
    fn step(&mut self, stack: &Stack) -> i32 {
        let main = self.vm.main().state();
        if self.stopped.is_empty() {
            // SAFETY: the function and its arguments are on the thread's stack.
            let status = unsafe { ffi::lua_resume_(stack.state(), main, self.arguments) };
            return self.after(stack, status, 1);
        }
        let mut resumed = 0;
        loop {
            let state = self.stopped[resumed];
            // SAFETY: the thread was stopped by a break; an inner one is kept by the stack of the next outer one, which
            // has not run since.
            let status = unsafe { ffi::lua_resume_(state, main, 0) };
            resumed += 1;
            // An inner coroutine that has yielded, returned or failed: the outer one takes over from there.
            if status == ffi::LUA_BREAK || resumed == self.stopped.len() {
                return self.after(stack, status, resumed);
            }
        }
    }

    /// `resumed` of the stopped threads have run, the last of them with this status.
    fn after(&mut self, stack: &Stack, mut status: i32, resumed: usize) -> i32 {
        // In Redis a script is no coroutine: yielding outside of one is an error, at that place.
        while status == ffi::LUA_YIELD && resumed >= self.stopped.len() {
            stack.set_top(0);
            stack.push_bytes(b"attempt to yield across metamethod/C-call boundary");
            // SAFETY: the thread has yielded, and the error is on its stack.
            status = unsafe { ffi::lua_resumeerror(stack.state(), self.vm.main().state()) };
        }
        if status == ffi::LUA_BREAK {
            let inner = self.vm.shared.stopped.take();
            // Before the first slice there is none.
            let resumed = resumed.min(self.stopped.len());
            self.stopped.splice(..resumed, inner);
            return ffi::LUA_BREAK;
        }
        status
    }

    fn outcome(&mut self, stack: &Stack, status: i32) -> Outcome {
        match (self.vm.shared.killed(), status) {
            // Before all else: the script may have come to its end before the next interrupt.
            (Some(Kill::Retry), _) => Outcome::Retry,
            (Some(Kill::Step), _) => Outcome::Failed(ScriptError::own(
                self.chunk,
                Failure::Step,
                format!(
                    "ERR Script stopped after {} ms in something that cannot be interrupted",
                    self.vm.limits.step.as_millis()
                ),
            )),
            (None, ffi::LUA_OK) => {
                self.is_clean = true;
                Outcome::Finished
            }
            (None, ffi::LUA_BREAK) => Outcome::Yielded,
            (None, ffi::LUA_ERRMEM) => {
                // Garbage is what the next run would start with.
                // SAFETY: the thread has failed and is not resumed again.
                unsafe { ffi::lua_resetthread(stack.state()) };
                if let Some(thread) = &mut self.thread {
                    thread.release_lists();
                }
                self.vm.collect();
                Outcome::Failed(ScriptError::own(
                    self.chunk,
                    Failure::Memory,
                    format!(
                        "ERR Script needs more memory than its limit of {} bytes",
                        self.vm.limits.memory_bytes
                    ),
                ))
            }
            (None, _) => Outcome::Failed(raised(stack, self.chunk)),
        }
    }

    /// Writes what the script returned: the first value, or null. Call it once, after [`Outcome::Finished`].
    ///
    /// # Errors
    /// When the reply is too large; what the sink has got then is part of one.
    pub fn write_reply(&mut self, sink: &mut dyn ReplySink) -> Result<(), ScriptError> {
        let Some(thread) = self.thread.as_ref().filter(|_| self.is_over && self.is_clean) else {
            sink.null();
            return Ok(());
        };
        let stack = thread.stack;
        // What else it returned does not count; a script that returned nothing returned nil.
        stack.set_top(1);
        let bounds = ReplyBounds {
            bytes: self.vm.limits.memory_bytes,
            time: self.vm.limits.step,
        };
        write_reply(&stack, self.state.resp.get(), bounds, sink).map_err(|_| {
            ScriptError::own(
                self.chunk,
                Failure::Reply,
                "ERR The reply of the script is too large".to_owned(),
            )
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(callback) = self.state.callback.take() {
            self.vm.main().release_reference(callback);
        }
        if let Some(thread) = self.thread.take() {
            self.vm.give_back(thread, self.is_clean);
        }
        self.vm.note_run_over();
    }
}

/// The error on the top of a thread that has failed.
fn raised(stack: &Stack, chunk: &'static str) -> ScriptError {
    let line = line_of(stack);
    let mut message = Vec::new();
    if stack.is_table(-1) && stack.has_room(2) {
        // An error reply keeps its own code.
        stack.get_field(-1, c"err");
        match stack.string(-1) {
            Some(text) => message.extend_from_slice(text),
            None => message.extend_from_slice(b"ERR table"),
        }
        stack.pop(1);
    } else {
        message.extend_from_slice(b"ERR ");
        match stack.kind(-1) {
            ffi::LUA_TSTRING | ffi::LUA_TNUMBER => message.extend_from_slice(stack.bytes(-1).unwrap_or_default()),
            ffi::LUA_TBOOLEAN if stack.boolean(-1) => message.extend_from_slice(b"true"),
            ffi::LUA_TBOOLEAN => message.extend_from_slice(b"false"),
            _ => message.extend_from_slice(stack.kind_name(-1).as_bytes()),
        }
        as_redis(&mut message);
    }
    ScriptError {
        failure: Failure::Raised,
        message,
        line,
        chunk,
    }
}

/// Redis words one message of its own in its Lua; the prelude's `pcall` does the same for what a script catches.
fn as_redis(message: &mut [u8]) {
    const READONLY: &[u8] = b"attempt to modify a readonly table";
    if message.ends_with(READONLY) {
        let at = message.len() - READONLY.len();
        message[at] = b'A';
    }
}

/// The line of the innermost function of the script, of a thread that has failed and still has its frames.
fn line_of(stack: &Stack) -> Option<u32> {
    const LEVELS_MAX: i32 = 8;
    for level in 0..LEVELS_MAX {
        // SAFETY: all fields are integers or pointers, for which zero is a value.
        let mut frame: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: `s` and `l` fill the fields that are read below; nothing is pushed.
        let is_there = unsafe { ffi::lua_getinfo(stack.state(), level, c"sl".as_ptr(), &raw mut frame) };
        if is_there == 0 {
            return None;
        }
        if frame.source.is_null() || frame.currentline <= 0 {
            continue;
        }
        // SAFETY: the name of a chunk is a string of the VM, kept by the function in the frame.
        let source = unsafe { std::ffi::CStr::from_ptr(frame.source) };
        // Chunks of our own begin with `=`.
        if source.to_bytes().first() == Some(&b'@') {
            return u32::try_from(frame.currentline).ok();
        }
    }
    None
}
