//! How long a worker works before it returns to its loop.

use crate::metrics::{WorkerCounters, thread_cpu_time_ns};
use std::time::{Duration, Instant};

/// A stretch of work under way.
///
/// What counts is the thread's CPU time: time in which the system ran something else is not ours. But asking for it is a system
/// call of nearly a microsecond on a virtual machine, a tenth of a small turn. So it is asked for where a stretch may be long;
/// a small turn counts with the time that has passed, which is never less.
#[derive(Debug)]
pub struct Stretch {
    started: Instant,
    started_cpu_ns: Option<u64>,
}

impl Stretch {
    /// Begins a stretch that may be long.
    pub fn long() -> Self {
        Self {
            started: Instant::now(),
            started_cpu_ns: Some(thread_cpu_time_ns()),
        }
    }

    /// Begins a stretch that is bounded to be short, at an instant already read.
    pub fn short(started: Instant) -> Self {
        Self {
            started,
            started_cpu_ns: None,
        }
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Ends it and counts it.
    pub fn end(self, counters: &WorkerCounters) {
        let passed = self.started.elapsed();
        let worked = match self.started_cpu_ns {
            Some(started_ns) => Duration::from_nanos(thread_cpu_time_ns().saturating_sub(started_ns)),
            None => passed,
        };
        counters.stretch(worked.min(passed));
    }
}
