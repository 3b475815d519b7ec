//! A worker's part of scripts and functions: its VM, and what it has compiled.

use super::ScriptCommand;
use super::call::CallMemory;
use super::registry::{CHUNK_NAME, ScriptSource, Scripts, Sha, sha_of};
use crate::functions::{Callable, CompiledLibraries, Functions};
use crate::{CommandError, CommandTable};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tollgate_eval::{Engine, EngineLimits, Script, SetupError};
use tollgate_protocol::Request;

/// Bounds of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptLimits {
    /// Memory that one run may add, in bytes.
    pub memory_bytes: usize,
    /// How long a run may stay in something that cannot be interrupted.
    pub step: Duration,
    /// Time of a run, all its slices together.
    pub budget: Duration,
    /// Compiled scripts and libraries that a worker keeps.
    pub compiled: usize,
    /// Memory of the compiled scripts and libraries that a worker keeps, in bytes.
    pub compiled_bytes: usize,
}

/// A script, compiled.
pub(crate) struct Compiled {
    pub(crate) source: Arc<ScriptSource>,
    pub(crate) script: Script,
    /// Whether its last step was long, as whoever runs it says.
    pub(crate) was_long: Cell<bool>,
}

/// Compiles scripts and starts runs. Belongs to one thread.
pub struct ScriptHost {
    pub(crate) engine: Engine,
    pub(crate) table: CommandTable,
    pub(crate) limits: ScriptLimits,
    /// Not there while a run has it.
    pub(crate) call_memory: Cell<Option<Box<CallMemory>>>,
    compiled: HashMap<Sha, Rc<Compiled>>,
    libraries: CompiledLibraries,
    generation: u64,
    /// How often all compiled scripts were dropped because they were too many.
    dropped: u64,
    /// The same because they were too large.
    dropped_large: u64,
    /// The script that was asked for last: most clients ask for the same again.
    last: Option<Rc<Compiled>>,
}

impl std::fmt::Debug for ScriptHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptHost")
            .field("compiled", &self.compiled.len())
            .finish_non_exhaustive()
    }
}

impl ScriptHost {
    /// A host with nothing compiled.
    ///
    /// # Errors
    /// The VM could not be set up: a fault of the build.
    pub fn new(limits: ScriptLimits) -> Result<Self, SetupError> {
        let engine = Engine::new(EngineLimits {
            memory_bytes: limits.memory_bytes,
            step: limits.step,
        })?;
        Ok(Self {
            engine,
            table: CommandTable::default(),
            limits,
            call_memory: Cell::default(),
            compiled: HashMap::new(),
            libraries: CompiledLibraries::default(),
            generation: 0,
            dropped: 0,
            dropped_large: 0,
            last: None,
        })
    }

    /// Memory of the VM, in bytes: compiled scripts, and what runs hold.
    pub fn used_bytes(&self) -> usize {
        self.engine.used_bytes()
    }

    /// Housekeeping: frees for about `time` what runs have left. Whether there is more to do.
    pub fn collect_some(&self, time: Duration) -> bool {
        self.engine.collect_some(time)
    }

    /// How often all compiled scripts were dropped because they were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How often all compiled scripts were dropped because they were too large.
    pub fn dropped_large(&self) -> u64 {
        self.dropped_large
    }

    /// The script that a request asks for.
    ///
    /// # Errors
    /// NOSCRIPT, or what the compiler says.
    pub(crate) fn script(
        &mut self,
        scripts: &Scripts,
        command: ScriptCommand,
        request: Request<'_>,
    ) -> Result<Rc<Compiled>, CommandError> {
        let generation = scripts.generation();
        if self.generation != generation {
            self.generation = generation;
            self.last = None;
            self.compiled.clear();
            self.engine.collect_later();
        }
        let given = request.arg(1);
        if let Some(last) = &self.last {
            let same = match command.is_by_sha() {
                true => given == last.source.sha,
                false => *given == *last.source.text,
            };
            if same {
                return Ok(Rc::clone(last));
            }
        }
        let source = if command.is_by_sha() {
            let sha = sha_of(given).ok_or(CommandError::NoScript)?;
            if let Some(compiled) = self.compiled.get(&sha) {
                self.last = Some(Rc::clone(compiled));
                return Ok(Rc::clone(compiled));
            }
            scripts.find(given).ok_or(CommandError::NoScript)?
        } else {
            scripts.read(given)?
        };
        let compiled = match self.compiled.get(&source.sha) {
            Some(compiled) => Rc::clone(compiled),
            None => self.compile(scripts, source)?,
        };
        self.last = Some(Rc::clone(&compiled));
        Ok(compiled)
    }

    fn compile(&mut self, scripts: &Scripts, source: Arc<ScriptSource>) -> Result<Rc<Compiled>, CommandError> {
        let script = self
            .engine
            .compile(&source.text, CHUNK_NAME)
            .map_err(|error| CommandError::Script(error.to_string().into_bytes()))?;
        // What EVAL was given is known from now on, if there is room.
        let known = scripts.keep(&source);
        let compiled = Rc::new(Compiled {
            source,
            script,
            was_long: Cell::new(false),
        });
        if known {
            self.make_room();
            self.compiled.insert(compiled.source.sha, Rc::clone(&compiled));
        }
        Ok(compiled)
    }

    /// The function of that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn function(&mut self, functions: &Functions, name: &[u8]) -> Result<Callable, CommandError> {
        const NOT_FOUND: CommandError = CommandError::Refused("Function not found");
        if let Some(callable) = self.libraries.last(&self.engine, functions, name) {
            return Ok(callable);
        }
        let found = functions.find(name).ok_or(NOT_FOUND)?;
        if let Some(callable) = self.libraries.get(&found, name) {
            return Ok(callable);
        }
        self.make_room();
        self.libraries.compile(&self.engine, &found)?;
        self.libraries.get(&found, name).ok_or(NOT_FOUND)
    }

    /// Makes room for one more that is compiled.
    fn make_room(&mut self) {
        let is_full = self.compiled.len() + self.libraries.len() >= self.limits.compiled;
        if is_full || self.engine.compiled_bytes() > self.limits.compiled_bytes {
            // Rare, and compiling takes less than a search for what is used least would cost each run.
            self.compiled.clear();
            self.libraries.clear();
            self.last = None;
            self.engine.collect();
            match is_full {
                true => self.dropped += 1,
                false => self.dropped_large += 1,
            }
        }
    }
}
