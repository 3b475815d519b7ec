//! One policy VM: its driver, the buffers shared with it, its memory cap and its meter.

use std::io::Read;
use std::rc::Rc;
use std::time::Duration;

use mlua::chunk::ChunkMode;
use mlua::{Buffer, Function, Lua, Table, Value};

use crate::batch::{Batch, COUNT, HEADER, IMAGE_BYTES_MAX, MAX_BATCH, PROGRESS, RECORD, STOP, Status, status_at};
use crate::error::{Fault, HostError, PolicyError, first_line};
use crate::info::{PolicyId, PolicyInfo};
use crate::meter::Meter;
use crate::params::{Params, ParamsId};
use crate::residents::{RESIDENT_MAX, Residents};
use crate::sandbox::policy_vm;
use crate::source::{POLICY_SOURCE_BYTES_MAX, PolicySource, too_large};
use crate::validate::validate;

/// What one set of parameters takes in a VM: its table and its places in the driver's lists, rounded up.
const RESIDENT_BYTES: usize = 512;

/// From the deepest stack down to next to none.
const STACK_HALVINGS: u32 = 12;

/// Time that loading a file may take.
const LOAD_BUDGET: Duration = Duration::from_millis(100);

/// The budget of one run.
#[derive(Clone, Copy)]
pub(crate) struct RunBudget {
    pub(crate) op: Duration,
    /// What a run may add, in bytes.
    pub(crate) memory_bytes: usize,
}

pub(crate) struct Vm {
    lua: Lua,
    image: Buffer,
    run: Function,
    load: Function,
    place: Function,
    flush: Function,
    set_scratch: Function,
    wipe: Function,
    scratch: Buffer,
    scratch_other: Buffer,
    scratch_bytes: usize,
    /// None in the VM of the trusted files, which runs without interrupts and memory cap.
    meter: Option<Rc<Meter>>,
    budget: RunBudget,
    /// Memory that the host itself put to use, in bytes: what a run adds is counted from here.
    baseline_bytes: usize,
    /// Who has a table here.
    pub(crate) residents: Residents,
    resident_most: usize,
}

impl Vm {
    pub(crate) fn new(guarded: bool, budget: RunBudget) -> Result<Self, HostError> {
        let lua = policy_vm()?;
        let image = lua.create_buffer(vec![0; IMAGE_BYTES_MAX])?;
        let layout = lua.create_table()?;
        for (name, value) in [
            ("PROGRESS", PROGRESS),
            ("STOP", STOP),
            ("COUNT", COUNT),
            ("HEADER", HEADER),
            ("RECORD", RECORD),
        ] {
            layout.raw_set(name, value)?;
        }
        let driver: Table = lua
            .load(include_str!("driver.luau"))
            .set_name("=driver")
            .call((image.clone(), layout))?;
        let scratch = lua.create_buffer([])?;
        let meter = guarded.then(|| Meter::install(&lua, image.clone()));
        let mut vm = Self {
            run: driver.raw_get(if guarded { "run" } else { "run_trusted" })?,
            load: driver.raw_get("load")?,
            place: driver.raw_get("place")?,
            flush: driver.raw_get("flush")?,
            set_scratch: driver.raw_get("set_scratch")?,
            wipe: driver.raw_get("wipe")?,
            scratch_other: scratch.clone(),
            scratch,
            scratch_bytes: 0,
            lua,
            image,
            meter,
            budget,
            baseline_bytes: 0,
            residents: Residents::new(RESIDENT_MAX),
            resident_most: 0,
        };
        vm.rebase()?;
        Ok(vm)
    }

    /// Counts what is in use now, after a full collection, as the host's own.
    fn rebase(&mut self) -> Result<(), HostError> {
        self.lua.gc_collect()?;
        self.baseline_bytes = self.lua.used_memory() + (self.resident_most - self.residents.len()) * RESIDENT_BYTES;
        self.set_cap(true)
    }

    /// Sets the memory limit, or lifts it for what the host does itself.
    fn set_cap(&self, on: bool) -> Result<(), HostError> {
        if let Some(meter) = &self.meter {
            // What a run may add comes on top of the litter that it may find.
            let cap = self.baseline_bytes + self.litter_bytes() + self.budget.memory_bytes;
            self.lua.set_memory_limit(if on { cap } else { 0 })?;
            meter.set_watch_bytes(self.baseline_bytes + self.litter_bytes());
        }
        Ok(())
    }

    fn begin(&self, budget: Duration) {
        if let Some(meter) = &self.meter {
            meter.begin(budget);
        }
    }

    /// Collects all garbage. After a memory error nothing runs before that.
    fn collect(&self) {
        // A collection runs no code of a policy: the sandbox has no finalizers. Nothing can fail in it.
        let _ = self.lua.gc_collect();
    }

    /// Garbage that may be there when a run begins, in bytes.
    fn litter_bytes(&self) -> usize {
        self.budget.memory_bytes / 2
    }

    fn is_littered(&self) -> bool {
        self.meter.is_some() && self.lua.used_memory() > self.baseline_bytes + self.litter_bytes()
    }

    /// Collects garbage before it can count against a run. Returns false when policies hold on to so much memory that
    /// only a new VM helps.
    pub(crate) fn tidy(&self) -> bool {
        // A deep recursion leaves a large stack, of which each collection gives back half.
        for _ in 0..STACK_HALVINGS {
            let before = self.lua.used_memory();
            if !self.is_littered() {
                return true;
            }
            self.collect();
            if self.lua.used_memory() > before - before / 16 {
                break;
            }
        }
        !self.is_littered()
    }

    /// Compiles and validates a file, without making it known to the driver.
    pub(crate) fn compile(&mut self, source: &PolicySource, trusted: bool) -> Result<(PolicyInfo, Table), PolicyError> {
        let file = format!("{}.lua", source.name);
        if source.text.len() > POLICY_SOURCE_BYTES_MAX {
            return Err(too_large(&file, source.text.len()));
        }
        let invalid = |message: String| PolicyError::Invalid {
            file: file.clone(),
            message,
        };
        self.tidy();
        self.begin(LOAD_BUDGET);
        let value: Result<Value, mlua::Error> = self
            .lua
            .load(&source.text)
            .set_name(format!("={file}"))
            .set_mode(ChunkMode::Text)
            .eval();
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                let fault = self.fault_of(&error);
                let message = match fault {
                    Fault::Error(message) => located(&file, &message),
                    Fault::Budget { .. } => format!("loading it takes longer than {} ms", LOAD_BUDGET.as_millis()),
                    fault => format!("loading it {fault}"),
                };
                return Err(invalid(message));
            }
        };
        let validated = validate(&self.lua, &source.name, value, trusted).map_err(invalid);
        if validated.is_err() {
            self.collect();
        }
        validated
    }

    /// Makes a compiled policy known to the driver under this index, in place of the one that was there.
    pub(crate) fn install(&mut self, id: PolicyId, functions: &Table) -> Result<(), HostError> {
        self.set_cap(false)?;
        self.load.call::<()>((id.0, functions))?;
        self.rebase()
    }

    /// Puts parameters into a slot that they have claimed.
    pub(crate) fn place(&mut self, slot: u32, policy: PolicyId, params: &Params) -> Result<(), HostError> {
        let (num, den) = params.rate();
        self.set_cap(false)?;
        let limit = self.lua.create_table_with_capacity(0, 5)?;
        limit.raw_set("limit", params.limit as f64)?;
        limit.raw_set("window", params.window_us as f64)?;
        limit.raw_set("burst", params.burst as f64)?;
        limit.raw_set("num", num as f64)?;
        limit.raw_set("den", den as f64)?;
        limit.set_readonly(true);
        self.begin(Duration::MAX);
        self.place.call::<()>((slot, policy.0, limit))?;
        if self.residents.len() > self.resident_most {
            self.resident_most = self.residents.len();
            self.baseline_bytes += RESIDENT_BYTES;
        }
        self.set_cap(true)
    }

    /// Drops all parameters, and says whose they were.
    pub(crate) fn flush(&mut self) -> Result<impl Iterator<Item = ParamsId>, HostError> {
        self.set_cap(false)?;
        self.begin(Duration::MAX);
        self.flush.call::<()>(())?;
        self.collect();
        self.set_cap(true)?;
        Ok(self.residents.clear())
    }

    /// Runs the operations of `batch` whose routes are set; `fail` takes the fault of one. Returns false when it stopped
    /// because the run as a whole has used the budget of one operation; the rest are pending then, and at least one
    /// fewer than before.
    pub(crate) fn run(&mut self, batch: &mut Batch, mut fail: impl FnMut(&mut Batch, usize, Fault)) -> bool {
        let mut first = 0;
        batch.write_header(first);
        self.image.write_bytes(0, batch.image());
        self.begin(self.budget.op);
        let done = loop {
            let result = self.run.call::<()>(());
            self.read_image(batch);
            let Err(error) = result else {
                break batch.progress() >= batch.len();
            };
            let op = batch.progress();
            let fault = self.fault_of(&error);
            let mut next = op + 1;
            if matches!(fault, Fault::Memory { .. }) && op > first {
                // What earlier operations left behind counted, too: only a failure with all the room is its own.
                next = op;
            } else if op < batch.len() && batch.status(op) == Status::Pending {
                self.image.write_bytes(status_at(op), &[Status::Failed as u8]);
                fail(batch, op, fault);
            }
            first = next;
            if first >= batch.len() {
                break true;
            }
            if self.elapsed() > self.budget.op {
                break false;
            }
            batch.write_header(first);
            self.image.write_bytes(0, &batch.image()[..HEADER]);
        };
        batch.time_us += self.elapsed().as_micros() as u64;
        done
    }

    fn elapsed(&self) -> Duration {
        self.meter.as_ref().map_or(Duration::ZERO, |meter| meter.elapsed())
    }

    /// Copies the image back, in one read of the next size.
    fn read_image(&self, batch: &mut Batch) {
        let image = batch.image_mut();
        macro_rules! read {
            ($($records:literal)*) => {
                match (image.len() - HEADER) / RECORD {
                    $(0..=$records => {
                        let bytes = self.image.read_bytes::<{ HEADER + $records * RECORD }>(0);
                        image.copy_from_slice(&bytes[..image.len()]);
                    })*
                    _ => unreachable!("more than {MAX_BATCH} records"),
                }
            };
        }
        read!(1 2 4 8 16 32 64);
    }

    /// What an error of the interpreter says about the operation that ended with it.
    fn fault_of(&self, error: &mlua::Error) -> Fault {
        let over_budget = self.meter.as_ref().is_some_and(|meter| meter.take_over_budget());
        if over_budget {
            return Fault::Budget {
                budget_us: self.budget.op.as_micros() as u64,
            };
        }
        if is_memory_error(error) {
            self.collect();
            return Fault::Memory {
                cap_bytes: self.budget.memory_bytes,
            };
        }
        let text = match error {
            mlua::Error::RuntimeError(message) | mlua::Error::SyntaxError { message, .. } => message.clone(),
            other => other.to_string(),
        };
        let line = without_address(first_line(&text));
        match line.strip_prefix('@') {
            Some(result) => Fault::BadResult(result.to_owned()),
            None => Fault::Error(line.to_owned()),
        }
    }

    /// Makes the scratch buffers at least this large.
    pub(crate) fn reserve_scratch(&mut self, bytes: usize) -> Result<(), HostError> {
        if bytes <= self.scratch_bytes {
            return Ok(());
        }
        self.set_cap(false)?;
        self.scratch = self.lua.create_buffer_with_capacity(bytes)?;
        self.scratch_other = self.lua.create_buffer_with_capacity(bytes)?;
        self.begin(Duration::MAX);
        self.set_scratch.call::<()>((&self.scratch, &self.scratch_other))?;
        self.baseline_bytes += 2 * (bytes - self.scratch_bytes);
        self.scratch_bytes = bytes;
        self.collect();
        self.set_cap(true)
    }

    /// Puts a state into the scratch buffer, or the second one. What another state left there is wiped unless the files
    /// of this VM are trusted to read no further than the length.
    pub(crate) fn write_scratch(&mut self, bytes: &[u8], other: &[u8]) -> Result<(), HostError> {
        if self.meter.is_some() {
            self.begin(Duration::MAX);
            self.wipe.call::<()>(())?;
        }
        self.scratch.write_bytes(0, bytes);
        self.scratch_other.write_bytes(0, other);
        Ok(())
    }

    /// The first `len` bytes of the scratch buffer.
    pub(crate) fn read_scratch(&self, len: usize, into: &mut Vec<u8>) {
        into.clear();
        // The driver has checked `len` against the buffer's size; reading a buffer fails in no other way.
        let _ = self.scratch.clone().cursor().take(len as u64).read_to_end(into);
    }
}

/// Whether the error, or what caused it, is the memory cap.
fn is_memory_error(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => is_memory_error(cause),
        // An error raised in Lua by the allocator while a message was being made.
        mlua::Error::RuntimeError(message) => first_line(message) == "not enough memory",
        _ => false,
    }
}

/// The type alone of an error that is no text: `table: 0x…` as the interpreter shows it.
fn without_address(text: &str) -> &str {
    match text.split_once(": 0x") {
        Some((kind @ ("table" | "function" | "buffer" | "userdata" | "thread"), _)) => kind,
        _ => text,
    }
}

/// Turns `file:3: message` into `line 3: message`.
fn located(file: &str, message: &str) -> String {
    match message.strip_prefix(file).and_then(|rest| rest.strip_prefix(':')) {
        Some(rest) => format!("line {rest}"),
        None => message.to_owned(),
    }
}
