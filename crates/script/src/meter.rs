//! The clock that stops a policy: Luau calls an interrupt at every call, return and loop iteration.
//!
//! Looking at the clock costs twice as much as the interrupt itself, so it is looked at only every [`LOOK_EVERY`]
//! interrupts, and at every one while the VM holds much memory: then the steps between two interrupts may be long
//! (joining or comparing strings near the memory cap).

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::{Buffer, Lua, VmState};

use crate::batch::{PROGRESS, STOP};

/// Interrupts between two looks at the clock.
const LOOK_EVERY: u32 = 16;

/// Measures the operations of one run.
pub(crate) struct Meter {
    interrupts_left: Cell<u32>,
    /// The first look at the clock in this run.
    run_start: Cell<Option<Instant>>,
    /// The operation of the last look, and the first look at which it ran.
    op: Cell<u32>,
    op_start: Cell<Option<Instant>>,
    budget: Cell<Duration>,
    over_budget: Cell<bool>,
    /// Memory in use above which every interrupt looks at the clock, in bytes.
    watch_bytes: Cell<usize>,
}

impl Meter {
    /// A meter that is called by the interrupts of `lua` and reads the progress of a run from `image`.
    pub(crate) fn install(lua: &Lua, image: Buffer) -> Rc<Meter> {
        let meter = Rc::new(Meter {
            interrupts_left: Cell::new(LOOK_EVERY),
            run_start: Cell::new(None),
            op: Cell::new(u32::MAX),
            op_start: Cell::new(None),
            budget: Cell::new(Duration::MAX),
            over_budget: Cell::new(false),
            watch_bytes: Cell::new(usize::MAX),
        });
        let hook = Rc::clone(&meter);
        lua.set_interrupt(move |lua| {
            let left = hook.interrupts_left.get() - 1;
            if left > 0 && lua.used_memory() <= hook.watch_bytes.get() {
                hook.interrupts_left.set(left);
                return Ok(VmState::Continue);
            }
            hook.interrupts_left.set(LOOK_EVERY);
            hook.look(&image)
        });
        meter
    }

    /// Starts a run in which an operation may take `budget`.
    pub(crate) fn begin(&self, budget: Duration) {
        self.interrupts_left.set(LOOK_EVERY);
        self.run_start.set(None);
        self.op.set(u32::MAX);
        self.budget.set(budget);
        self.over_budget.set(false);
    }

    /// Whether the operation that just failed was stopped by the meter; forgets it.
    pub(crate) fn take_over_budget(&self) -> bool {
        self.op.set(u32::MAX);
        self.over_budget.replace(false)
    }

    /// Time since the first look of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.run_start.get().map_or(Duration::ZERO, |start| start.elapsed())
    }

    pub(crate) fn set_watch_bytes(&self, bytes: usize) {
        self.watch_bytes.set(bytes);
    }

    fn look(&self, image: &Buffer) -> mlua::Result<VmState> {
        let now = Instant::now();
        let op = u32::from_le_bytes(image.read_bytes::<4>(PROGRESS));
        let run_start = self.run_start.get().unwrap_or(now);
        self.run_start.set(Some(run_start));
        let op_start = match self.op_start.get() {
            Some(start) if self.op.get() == op => start,
            _ => {
                self.op.set(op);
                self.op_start.set(Some(now));
                now
            }
        };
        let budget = self.budget.get();
        if now - op_start > budget {
            self.over_budget.set(true);
            return Err(mlua::Error::runtime("over budget"));
        }
        if now - run_start > budget {
            image.write_bytes(STOP, &[1]);
        }
        Ok(VmState::Continue)
    }
}
