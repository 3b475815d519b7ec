//! What the callbacks of one VM share: its memory, the clock that interrupts it, and the run that is going on.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use mlua::ffi;

use crate::call::Arguments;
use crate::host::Host;
use crate::random::Random;
use crate::run::RunState;
use crate::stack::{Fail, Stack, State};
use crate::tape::Tape;

/// Interrupts between two looks at the clock: a look costs about ten times what an interrupt does.
const LOOK_EVERY: u32 = 8;

/// Memory beyond twice that of an idle VM (what the garbage collector lets it grow to) from which every interrupt looks at
/// the clock, in bytes: a run holds large values then, and the step between two interrupts may be long.
const WATCH_BYTES: usize = 1 << 20;

/// Why a run was ended from within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// One step that cannot be interrupted went on for too long.
    Step,
    /// The host said that a key is elsewhere.
    Retry,
}

/// Memory of the VM. Luau's allocator gets a pointer to this.
#[derive(Default)]
pub(crate) struct Memory {
    used_bytes: Cell<usize>,
    /// 0: no limit.
    limit_bytes: Cell<usize>,
    made: Cell<Made>,
}

/// What was allocated so far, whether or not it was freed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Made {
    /// Bytes, wrapping.
    pub(crate) bytes: usize,
    /// Blocks that large arrays of tables may be, wrapping.
    pub(crate) large_blocks: usize,
}

/// Smaller blocks than this come out of pages, whose size is no multiple of 16 as that of arrays is, in bytes.
const LARGE_BLOCK_BYTES: usize = 1024;

impl Memory {
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    /// What was allocated so far.
    pub(crate) fn made(&self) -> Made {
        self.made.get()
    }

    /// What may still be allocated, in bytes.
    fn room_bytes(&self) -> usize {
        match self.limit_bytes.get() {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.used_bytes.get()),
        }
    }

    /// Only what a script does is limited: outside of a run nothing could handle the error.
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit_bytes.set(bytes);
    }
}

/// `lua_Alloc`: frees, makes, or resizes.
pub(crate) unsafe extern "C" fn allocate(
    memory: *mut c_void,
    block: *mut c_void,
    old_bytes: usize,
    new_bytes: usize,
) -> *mut c_void {
    // SAFETY: the engine passed a Memory that outlives the VM.
    let memory = unsafe { &*memory.cast::<Memory>() };
    let used = memory.used_bytes.get();
    let layout = |bytes| Layout::from_size_align(bytes, 16).ok();
    let old = layout(old_bytes).filter(|_| !block.is_null());
    if new_bytes == 0 {
        if let Some(old) = old {
            // SAFETY: Luau frees what this function gave it, with the size that it asked for.
            unsafe { dealloc(block.cast(), old) };
            memory.used_bytes.set(used - old_bytes);
        }
        return std::ptr::null_mut();
    }
    let Some(new) = layout(new_bytes) else {
        return std::ptr::null_mut();
    };
    let after = used - old.map_or(0, |old| old.size()) + new_bytes;
    let limit = memory.limit_bytes.get();
    if limit != 0 && after > limit && after > used {
        return std::ptr::null_mut();
    }
    // SAFETY: neither size is 0; `old` is the layout that the block was made with.
    let made = unsafe {
        match old {
            Some(old) => realloc(block.cast(), old, new_bytes),
            None => alloc(new),
        }
    };
    if made.is_null() {
        std::alloc::handle_alloc_error(new);
    }
    memory.used_bytes.set(after);
    let Made { bytes, large_blocks } = memory.made.get();
    let is_large = new_bytes > LARGE_BLOCK_BYTES && new_bytes.is_multiple_of(16);
    memory.made.set(Made {
        bytes: bytes.wrapping_add(new_bytes),
        large_blocks: large_blocks.wrapping_add(usize::from(is_large)),
    });
    made.cast()
}

/// See the file's head.
pub(crate) struct Shared {
    pub(crate) memory: Memory,
    interrupts_left: Cell<u32>,
    watch_bytes: Cell<usize>,
    /// Memory that libraries and compiled scripts take, about, in bytes.
    idle_bytes: Cell<usize>,
    slice: Cell<Duration>,
    /// Known from the first look at the clock: most runs are over before there is one.
    slice_end: Cell<Option<Instant>>,
    /// The cycle counter at which the clock is worth a look.
    clock_from: Cell<u64>,
    /// The cycle counter at which the slice is over for certain.
    over_from: Cell<u64>,
    /// How long past the end of a slice something may go on that cannot be interrupted, in time of this thread: that
    /// others had the processor is not the script's doing.
    step: Duration,
    /// This thread's time when that was first seen.
    step_begin: Cell<Option<Duration>>,
    kill: Cell<Option<Kill>>,
    /// The threads that a slice's end has stopped, innermost first.
    pub(crate) stopped: RefCell<Vec<State>>,
    host: Cell<Option<NonNull<dyn Host>>>,
    /// The state of the run that is going on.
    pub(crate) run: RunState,
    pub(crate) tape: RefCell<Tape>,
    pub(crate) arguments: RefCell<Arguments>,
    /// Where runs begin their random numbers.
    pub(crate) seeds: Cell<Random>,
}

/// The processor's cycle counter, a quarter of the price of the clock; where there is none to read, the greatest.
fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    u64::MAX
}

/// Processor time of this thread.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Differs from VM to VM and from start to start: the standard library's hash keys do.
fn fresh_seed() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u32
}

impl Shared {
    pub(crate) fn new(step: Duration) -> Self {
        Self {
            memory: Memory::default(),
            interrupts_left: Cell::new(LOOK_EVERY),
            watch_bytes: Cell::new(usize::MAX),
            idle_bytes: Cell::new(0),
            slice: Cell::new(Duration::ZERO),
            slice_end: Cell::new(None),
            clock_from: Cell::new(0),
            over_from: Cell::new(0),
            step,
            step_begin: Cell::new(None),
            kill: Cell::new(None),
            stopped: RefCell::new(Vec::new()),
            host: Cell::new(None),
            run: RunState::default(),
            tape: RefCell::new(Tape::default()),
            arguments: RefCell::new(Arguments::default()),
            seeds: Cell::new(Random::seeded(fresh_seed())),
        }
    }

    /// Counts this much more as what an idle VM has.
    pub(crate) fn add_idle_bytes(&self, more: usize) {
        self.idle_bytes.set(self.idle_bytes.get() + more);
    }

    /// Counts this much less.
    pub(crate) fn remove_idle_bytes(&self, less: usize) {
        self.idle_bytes.set(self.idle_bytes.get().saturating_sub(less));
    }

    /// An idle VM has what it has now.
    pub(crate) fn count_idle_bytes(&self) {
        self.idle_bytes.set(self.memory.used_bytes());
    }

    pub(crate) fn idle_bytes(&self) -> usize {
        self.idle_bytes.get()
    }

    /// Whether there is more garbage than an idle VM has in use, or runs that hold much.
    pub(crate) fn holds_garbage(&self) -> bool {
        self.memory.used_bytes() > 2 * self.idle_bytes.get() + WATCH_BYTES
    }

    /// Lets the interrupt stop what runs from now on once `slice` is over.
    pub(crate) fn begin_slice(&self, slice: Duration) {
        self.interrupts_left.set(LOOK_EVERY);
        self.watch_bytes.set(2 * self.idle_bytes.get() + WATCH_BYTES);
        self.slice.set(slice);
        self.slice_end.set(None);
        self.step_begin.set(None);
        // A cycle counter of 1 GHz or more: a third of the slice at 3 GHz.
        let (now, slice_ns) = (cycles(), slice.as_nanos() as u64);
        self.clock_from.set(now.saturating_add(slice_ns));
        // And of at most 8 GHz.
        self.over_from.set(now.saturating_add(8 * slice_ns));
        self.kill.set(None);
    }

    /// The end of the slice: half of it from the first look on, or now if that came late.
    fn slice_end(&self, now: Instant) -> Instant {
        self.slice_end.get().unwrap_or_else(|| {
            let end = match cycles() {
                u64::MAX => now + self.slice.get() / 2,
                cycles if cycles >= self.over_from.get() => now,
                _ => now + self.slice.get() / 2,
            };
            self.slice_end.set(Some(end));
            end
        })
    }

    /// Why the slice was ended from within, if it was.
    pub(crate) fn killed(&self) -> Option<Kill> {
        self.kill.get()
    }

    /// Ends the run: every interrupt from now on raises an error, so that no `pcall` can hold it up.
    pub(crate) fn kill(&self, why: Kill) -> Fail {
        self.kill.set(Some(why));
        self.interrupts_left.set(1);
        Fail::Killed
    }

    /// After something that may have taken long: the next interrupt looks at the clock if it is worth that.
    #[inline]
    pub(crate) fn look_soon(&self) {
        if cycles() >= self.clock_from.get() {
            self.interrupts_left.set(1);
        }
    }

    /// For what C functions build outside of the VM: what the run may still add, in bytes.
    pub(crate) fn room_bytes(&self) -> usize {
        self.memory.room_bytes()
    }

    /// For loops of C functions: ends the run when this step has gone on for too long.
    pub(crate) fn tick(&self) -> Result<(), Fail> {
        if self.kill.get().is_some() {
            return Err(Fail::Killed);
        }
        let now = Instant::now();
        if now > self.slice_end(now) && self.is_step_over() {
            return Err(self.kill(Kill::Step));
        }
        Ok(())
    }

    /// Whether this thread has worked for longer than a step since it was first asked in this slice.
    fn is_step_over(&self) -> bool {
        let worked = thread_time();
        match self.step_begin.get() {
            Some(begin) => worked.saturating_sub(begin) > self.step,
            None => {
                self.step_begin.set(Some(worked));
                false
            }
        }
    }

    /// Calls `body` with the host of the slice, if a slice is going on.
    pub(crate) fn with_host<T>(&self, body: impl FnOnce(&mut dyn Host) -> T) -> Option<T> {
        // Taken out, so that no second reference can be made while the first is in use.
        let mut host = self.host.take()?;
        // SAFETY: `lend_host` borrows the host for as long as it is here.
        let result = body(unsafe { host.as_mut() });
        self.host.set(Some(host));
        Some(result)
    }

    /// Runs `body`, during which C functions reach `host`.
    pub(crate) fn lend_host<T>(&self, host: &mut dyn Host, body: impl FnOnce() -> T) -> T {
        let host = NonNull::from(host);
        // SAFETY: only the lifetime changes; the host is taken back before this function's borrow of it ends.
        let host: NonNull<dyn Host + 'static> = unsafe { std::mem::transmute(host) };
        self.host.set(Some(host));
        let result = body();
        self.host.set(None);
        result
    }

    /// The rare part of an interrupt.
    fn look(&self, stack: &Stack) -> Result<(), Fail> {
        if self.kill.get().is_some() {
            return Err(Fail::Killed);
        }
        self.interrupts_left.set(LOOK_EVERY);
        if cycles() < self.clock_from.get() {
            return Ok(());
        }
        let now = Instant::now();
        if now < self.slice_end(now) {
            return Ok(());
        }
        // SAFETY: the thread is the one that was interrupted.
        if unsafe { ffi::lua_isyieldable(stack.state()) } != 0 {
            let mut stopped = self.stopped.borrow_mut();
            stopped.clear();
            stopped.push(stack.state());
            // SAFETY: as above, and it was found to be stoppable.
            unsafe { ffi::lua_break(stack.state()) };
        } else if self.is_step_over() {
            return Err(self.kill(Kill::Step));
        }
        Ok(())
    }
}

/// Called by Luau at every call, return and loop, and within patterns.
pub(crate) unsafe extern "C-unwind" fn interrupt(state: State, gc: c_int) {
    if gc >= 0 {
        return;
    }
    // SAFETY: Luau calls with the running thread.
    let stack = unsafe { Stack::new(state) };
    let shared = stack.shared();
    let left = shared.interrupts_left.get();
    if left > 1 && shared.memory.used_bytes() <= shared.watch_bytes.get() {
        shared.interrupts_left.set(left - 1);
    } else if shared.look(&stack).is_err() {
        // SAFETY: an interrupt has no frame of its own: the room is made first. Nothing here has a destructor.
        unsafe {
            ffi::lua_rawcheckstack(state, 1);
            stack.push_killed();
            ffi::lua_error(state);
        }
    }
}

/// Called by Luau when a thread stops because the coroutine that it had resumed was stopped.
pub(crate) unsafe extern "C-unwind" fn outer_stopped(state: State, _: *mut ffi::lua_Debug) {
    // SAFETY: Luau calls with the running thread.
    let stack = unsafe { Stack::new(state) };
    stack.shared().stopped.borrow_mut().push(state);
}
