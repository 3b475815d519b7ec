//! One VM of client scripts.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::chunk::Compiler;
use mlua::ffi;

use crate::globals::install;
use crate::library::{self, Environments, Purpose};
use crate::list::List;
use crate::run::{Phase, Run};
use crate::shared::{Shared, allocate, interrupt, outer_stopped};
use crate::stack::{Stack, State};

const SCRIPT: &str = "script (new function)";
const LIBRARY: &str = "function";

/// Largest script, in bytes. Bounds what the compiler, which nothing interrupts, and one straight line of code can cost: at worst
/// (many small functions or fields) 0.8 µs of processor time a byte, so 0.2 s.
pub const SCRIPT_SOURCE_BYTES_MAX: usize = 1 << 18;

/// Threads that are kept for the next run.
const IDLE_THREADS_MAX: usize = 16;

/// What the compiler knows without looking at the globals, and would call even where it is not: it must take these names for variables.
const UNKNOWN_TO_COMPILER: [&str; 6] = ["bit32", "buffer", "integer", "rawlen", "typeof", "vector"];

/// The same of what is not in a library that is there.
const REMOVED_MEMBERS: [&str; 8] = [
    "math.clamp",
    "math.isfinite",
    "math.isinf",
    "math.isnan",
    "math.lerp",
    "math.round",
    "math.sign",
    "table.unpack",
];

/// Cycles of the garbage collector until all is free that is garbage now: the one that is going on may have marked it already.
const CYCLES: u32 = 2;

/// Bounds of the runs of an [`Engine`].
#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// What one run may add to the VM's memory, in bytes.
    pub memory_bytes: usize,
    /// How long past the end of its slice a run may stay in something that cannot be interrupted: a library function
    /// over a large input, a metamethod. It is ended then.
    pub step: Duration,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            step: Duration::from_millis(50),
        }
    }
}

/// Why a script was refused. Shown as the reply that Redis gives, with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// What was compiled.
    what: &'static str,
    message: String,
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ERR Error compiling {}: {}", self.what, self.message)
    }
}

impl std::error::Error for CompileError {}

/// The VM could not be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupError(String);

impl std::fmt::Display for SetupError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Luau: {}", self.0)
    }
}

impl std::error::Error for SetupError {}

/// Compiles scripts and runs them; see the crate's documentation. It belongs to one thread.
#[derive(Clone)]
pub struct Engine {
    vm: Rc<Vm>,
}

/// A compiled script. Keeps its engine's VM alive.
pub struct Script {
    vm: Rc<Vm>,
    reference: c_int,
    /// What it takes of the VM's memory, about.
    bytes: usize,
}

/// A compiled library, for calls of its functions. Keeps its engine's VM alive.
pub struct Library(Script);

impl Engine {
    /// A VM with the libraries of Redis in it.
    ///
    /// # Errors
    /// When the interpreter refuses its own libraries: a fault of this crate.
    pub fn new(limits: EngineLimits) -> Result<Self, SetupError> {
        let vm = Vm::new(limits)?;
        Ok(Self { vm: Rc::new(vm) })
    }

    /// Compiles a script. `chunk_name` is what error messages call it: `user_script`, as Redis has it.
    ///
    /// # Errors
    /// When the text is no Luau, or larger than [`SCRIPT_SOURCE_BYTES_MAX`].
    pub fn compile(&self, source: &[u8], chunk_name: &str) -> Result<Script, CompileError> {
        let (reference, bytes) = self.vm.load(source, chunk_name)?;
        Ok(Script::new(&self.vm, reference, bytes))
    }

    /// Prepares a run; nothing of the script is executed before [`Run::resume`].
    ///
    /// # Panics
    /// When the script is one of another engine.
    pub fn start<K, A>(&self, script: &Script, keys: K, arguments: A) -> Run
    where
        K: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator + Clone>,
        A: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator + Clone>,
    {
        assert!(
            Rc::ptr_eq(&self.vm, &script.vm),
            "a script runs in the engine that compiled it"
        );
        let mut thread = self.vm.take_thread();
        thread.stack.push_reference(script.reference);
        thread.push_lists(keys, arguments);
        Run::new(Rc::clone(&self.vm), thread, Phase::Run)
    }

    /// Prepares to load a library: its run registers the functions with the host, and returns nothing. `code` is without the line that
    /// names the library, but with that line's end.
    ///
    /// # Errors
    /// As [`Engine::compile`].
    pub fn load_library(&self, code: &[u8]) -> Result<Run, CompileError> {
        let (reference, _) = self.vm.load_library(code, Purpose::Load)?;
        let thread = self.vm.take_thread();
        thread.stack.push_reference(reference);
        thread.stack.release_reference(reference);
        Ok(Run::new(Rc::clone(&self.vm), thread, Phase::Load))
    }

    /// Compiles a library, which has been loaded once, for calls of its functions.
    ///
    /// # Errors
    /// As [`Engine::compile`].
    pub fn compile_library(&self, code: &[u8]) -> Result<Library, CompileError> {
        let (reference, bytes) = self.vm.load_library(code, Purpose::Call)?;
        Ok(Library(Script::new(&self.vm, reference, bytes)))
    }

    /// Prepares a call of a function: of the one for which [`Host::register`](crate::Host::register) answers that it is.
    ///
    /// # Panics
    /// When the library is one of another engine.
    pub fn call<K, A>(&self, library: &Library, keys: K, arguments: A) -> Run
    where
        K: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator + Clone>,
        A: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator + Clone>,
    {
        let Library(script) = library;
        assert!(
            Rc::ptr_eq(&self.vm, &script.vm),
            "a function runs in the engine that compiled it"
        );
        let mut thread = self.vm.take_thread();
        self.vm.libraries.push_invoke(&thread.stack);
        thread.stack.push_reference(script.reference);
        thread.push_lists(keys, arguments);
        Run::new(Rc::clone(&self.vm), thread, Phase::Reload)
    }

    /// Memory that the VM uses, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.vm.shared.memory.used_bytes()
    }

    /// Memory that the environment, compiled scripts and libraries take, in bytes.
    pub fn compiled_bytes(&self) -> usize {
        self.vm.shared.idle_bytes()
    }

    /// Collects all garbage.
    pub fn collect(&self) {
        self.vm.collect();
    }

    /// Has [`Engine::collect_some`] collect, for scripts that were dropped.
    pub fn collect_later(&self) {
        self.vm.cycles_left.set(CYCLES);
    }

    /// Goes on for about `time` with collecting what runs have left, if that is more than the compiled scripts and no run is under
    /// way, which would collect for itself. Whether there is more to do.
    pub fn collect_some(&self, time: Duration) -> bool {
        self.vm.collect_some(time)
    }
}

impl Script {
    fn new(vm: &Rc<Vm>, reference: c_int, bytes: usize) -> Self {
        vm.shared.add_idle_bytes(bytes);
        Self {
            vm: Rc::clone(vm),
            reference,
            bytes,
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.vm.shared.remove_idle_bytes(self.bytes);
        // Made by `load_in`, given back once.
        self.vm.main().release_reference(self.reference);
    }
}

/// A thread, and the reference that keeps it.
pub(crate) struct Thread {
    pub(crate) stack: Stack,
    reference: c_int,
    keys: List,
    arguments: List,
}

impl Thread {
    fn push_lists<K, A>(&mut self, keys: K, arguments: A)
    where
        K: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator + Clone>,
        A: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator + Clone>,
    {
        self.keys.push(&self.stack, keys.into_iter());
        self.arguments.push(&self.stack, arguments.into_iter());
    }

    /// Keeps nothing of what the run was given.
    pub(crate) fn release_lists(&mut self) {
        self.keys.release(&self.stack);
        self.arguments.release(&self.stack);
    }
}

pub(crate) struct Vm {
    state: State,
    pub(crate) shared: Box<Shared>,
    pub(crate) limits: EngineLimits,
    libraries: Environments,
    idle: RefCell<Vec<Thread>>,
    /// Runs that are under way.
    pub(crate) runs: Cell<usize>,
    /// Cycles of the garbage collector that [`Vm::collect_some`] has still to finish.
    cycles_left: Cell<u32>,
}

impl Vm {
    fn new(limits: EngineLimits) -> Result<Self, SetupError> {
        let shared = Box::new(Shared::new(limits.step));
        let memory = (&raw const shared.memory).cast_mut();
        // SAFETY: the box outlives the VM, which `drop` closes first.
        let state = unsafe { ffi::lua_newstate(allocate, memory.cast()) };
        if state.is_null() {
            return Err(SetupError("no memory for a VM".to_owned()));
        }
        // SAFETY: a pointer to the VM's callbacks is good as long as the VM is.
        let callbacks = unsafe { &mut *ffi::lua_callbacks(state) };
        callbacks.userdata = (&raw const *shared).cast_mut().cast();
        callbacks.interrupt = Some(interrupt);
        callbacks.debuginterrupt = Some(outer_stopped);
        let vm = Self {
            state,
            shared,
            limits,
            libraries: Environments::default(),
            idle: RefCell::new(Vec::new()),
            runs: Cell::new(0),
            cycles_left: Cell::new(0),
        };
        install(&vm.main()).map_err(SetupError)?;
        let main = vm.main();
        vm.libraries.install(&main, || vm.new_thread()).map_err(SetupError)?;
        vm.collect();
        Ok(vm)
    }

    /// The main thread: nothing runs there, values are made there.
    pub(crate) fn main(&self) -> Stack {
        // SAFETY: the VM is alive, and `new` set the user data.
        unsafe { Stack::new(self.state) }
    }

    fn load(&self, source: &[u8], chunk_name: &str) -> Result<(c_int, usize), CompileError> {
        script_text(source, chunk_name)
            .and_then(|text| self.load_in(&self.main(), &text, chunk_name))
            .map_err(|message| CompileError { what: SCRIPT, message })
    }

    fn load_library(&self, code: &[u8], purpose: Purpose) -> Result<(c_int, usize), CompileError> {
        self.load_in(self.libraries.compiler(purpose), code, library::CHUNK_NAME)
            .map_err(|message| CompileError { what: LIBRARY, message })
    }

    /// A reference to the text as a function with the globals of a thread, and what it takes, in bytes.
    fn load_in(&self, stack: &Stack, text: &[u8], chunk_name: &str) -> Result<(c_int, usize), String> {
        let before_bytes = self.shared.memory.used_bytes();
        load_text(stack, text, '@', chunk_name)?;
        let after_bytes = self.shared.memory.used_bytes();
        let reference = stack.make_reference();
        stack.pop(1);
        Ok((reference, after_bytes.saturating_sub(before_bytes)))
    }

    /// An idle thread, or a new one, with an empty stack.
    fn take_thread(&self) -> Thread {
        if let Some(thread) = self.idle.borrow_mut().pop() {
            return thread;
        }
        self.new_thread()
    }

    fn new_thread(&self) -> Thread {
        let main = self.main();
        // SAFETY: a new thread lives while it is referenced: until `give_back` lets go of it, or as long as the VM.
        let stack = unsafe { Stack::new(ffi::lua_newthread(self.state)) };
        let reference = main.make_reference();
        main.pop(1);
        Thread {
            stack,
            reference,
            keys: List::default(),
            arguments: List::default(),
        }
    }

    /// Takes back a thread whatever state it is in; it must not run now.
    pub(crate) fn give_back(&self, mut thread: Thread, is_clean: bool) {
        if is_clean {
            thread.stack.set_top(0);
            thread.keys.settle(&thread.stack);
            thread.arguments.settle(&thread.stack);
        } else {
            thread.release_lists();
            // SAFETY: of this VM, and not running.
            unsafe { ffi::lua_resetthread(thread.stack.state()) };
        }
        let mut idle = self.idle.borrow_mut();
        // A thread keeps the stack that it grew: after a run that held much, another is made.
        if idle.len() < IDLE_THREADS_MAX && !self.shared.holds_garbage() {
            idle.push(thread);
        } else {
            thread.release_lists();
            // SAFETY: made by `take_thread`, given back once.
            unsafe { ffi::lua_unref(self.state, thread.reference) };
        }
    }

    pub(crate) fn collect(&self) {
        // SAFETY: nothing runs in this VM now, and no finalizer runs code.
        unsafe { ffi::lua_gc(self.state, ffi::LUA_GCCOLLECT, 0) };
        self.shared.count_idle_bytes();
        self.cycles_left.set(0);
    }

    /// What the run leaves became garbage after a cycle that is going on may have marked it.
    pub(crate) fn note_run_over(&self) {
        self.runs.set(self.runs.get() - 1);
        if self.cycles_left.get() > 0 {
            self.cycles_left.set(CYCLES);
        }
    }

    fn collect_some(&self, time: Duration) -> bool {
        /// Of a step: well below a millisecond.
        const STEP_KIB: c_int = 64;
        if self.runs.get() > 0 {
            return false;
        }
        if self.cycles_left.get() == 0 {
            if !self.shared.holds_garbage() {
                return false;
            }
            self.cycles_left.set(CYCLES);
        }
        let started = Instant::now();
        while started.elapsed() < time {
            // SAFETY: nothing runs in this VM now, and no finalizer runs code.
            let is_cycle_over = unsafe { ffi::lua_gc(self.state, ffi::LUA_GCSTEP, STEP_KIB) } != 0;
            if is_cycle_over {
                self.cycles_left.set(self.cycles_left.get() - 1);
                if self.cycles_left.get() == 0 {
                    self.shared.count_idle_bytes();
                    return false;
                }
            }
        }
        true
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // SAFETY: scripts and runs keep the VM, so nothing refers to it any more.
        unsafe { ffi::lua_close(self.state) };
    }
}

/// The script as a function of KEYS and ARGV, or the message. One that may ask for arguments of its own (`...`) is a function in that
/// function: it is given none.
fn script_text(source: &[u8], chunk_name: &str) -> Result<Vec<u8>, String> {
    let text = with_parameters(source, b"");
    if memchr::memmem::find(source, b"...").is_none() {
        return Ok(text);
    }
    // By itself it must be whole.
    compile_text(&text, 1, chunk_name)?;
    let mut text = with_parameters(source, b"return(function(...)");
    text.extend_from_slice(b"\nend)()");
    Ok(text)
}

/// The script with its parameters, and `then` before it. In Redis they are globals; as locals they cost less, and runs that take
/// turns cannot see each other's. On the first line, so that lines keep their numbers.
fn with_parameters(source: &[u8], then: &[u8]) -> Vec<u8> {
    let mut text = b"local KEYS,ARGV=... ".to_vec();
    text.extend_from_slice(then);
    // The line `#!lua flags=…` is for who reads the flags.
    let source = match source {
        [b'#', b'!', ..] => {
            let end = source.iter().position(|&byte| byte == b'\n').unwrap_or(source.len());
            &source[end..]
        }
        _ => source,
    };
    text.extend_from_slice(source);
    text
}

/// Whether a script compiles. Needs no engine.
///
/// # Errors
/// As [`Engine::compile`].
pub fn check_source(source: &[u8], chunk_name: &str) -> Result<(), CompileError> {
    let compiled = script_text(source, chunk_name).and_then(|text| compile_text(&text, 1, chunk_name));
    compiled
        .map(drop)
        .map_err(|message| CompileError { what: SCRIPT, message })
}

/// Luau text as bytecode, or the message.
fn compile_text(text: &[u8], debug_level: u8, chunk_name: &str) -> Result<Vec<u8>, String> {
    if text.len() > SCRIPT_SOURCE_BYTES_MAX {
        return Err(format!(
            "{chunk_name}:1: {} bytes; a script may have {SCRIPT_SOURCE_BYTES_MAX}",
            text.len()
        ));
    }
    // The parser takes it for the end, and would leave out what comes after it.
    if let Some(at) = memchr::memchr(0, text) {
        let line = 1 + memchr::memchr_iter(b'\n', &text[..at]).count();
        return Err(format!("{chunk_name}:{line}: unexpected NUL byte"));
    }
    Compiler::new()
        .set_optimization_level(1)
        .set_debug_level(debug_level)
        // Ours is faster than the compiler's.
        .set_disabled_builtins(["tonumber"].into_iter().chain(REMOVED_MEMBERS))
        .set_mutable_globals(UNKNOWN_TO_COMPILER)
        .compile(text)
        .map_err(|error| located(chunk_name, &error))
}

/// Compiles Luau text and pushes it as a function, or gives the message. Bytecode is no text: it does not parse.
/// `mark` tells scripts (`@`) from what is the environment's own (`=`).
pub(crate) fn load_text(stack: &Stack, text: &[u8], mark: char, chunk_name: &str) -> Result<(), String> {
    // Without line numbers, an error that a library function raises in our own code names no place there.
    let debug_level = if mark == '=' { 0 } else { 1 };
    let bytecode = compile_text(text, debug_level, chunk_name)?;
    let name = CString::new(format!("{mark}{chunk_name}")).unwrap_or_else(|_| c"@user_script".to_owned());
    stack.require(2);
    // SAFETY: the bytecode comes from the compiler of the same version.
    let status = unsafe {
        ffi::luau_load(
            stack.state(),
            name.as_ptr(),
            bytecode.as_ptr().cast(),
            bytecode.len(),
            0,
        )
    };
    if status != 0 {
        let message = String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default()).into_owned();
        stack.pop(1);
        return Err(message);
    }
    Ok(())
}

/// `user_script:3: what is wrong`
fn located(chunk_name: &str, error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    // The compiler leaves the name to whoever loads its output.
    let line = text.lines().next().unwrap_or_default();
    format!("{chunk_name}:{line}")
}
