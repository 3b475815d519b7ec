//! How long a worker works before it returns to its loop.

use crate::metrics::{WorkerCounters, thread_cpu_time_ns};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// What a short stretch may count besides itself, at most.
const MARK_AGE_MAX: Duration = Duration::from_micros(250);
/// A stretch that was over sooner is not worth asking for the CPU time of.
const ASKED_FROM: Duration = Duration::from_micros(100);

thread_local! {
    /// When the CPU time of this thread was last asked for, and what it was then.
    static MARK: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
}

/// A stretch of work under way.
///
/// What counts is the thread's CPU time: time in which the system ran something else is not ours. But asking for it is a system
/// call of nearly a microsecond on a virtual machine, a tenth of a small turn. So it is asked for where a stretch may be long; short
/// ones have a common mark that is a quarter of a millisecond old at most, so that one of them which turns out to be long is counted
/// with up to that much more than its own, and never with less.
#[derive(Debug)]
pub struct Stretch {
    started: Instant,
    /// The thread's CPU time when it began, or somewhat before.
    started_cpu_ns: u64,
}

impl Stretch {
    /// Begins a stretch that may be long.
    pub fn long() -> Self {
        Self::marked(Instant::now())
    }

    /// Begins a stretch that is bounded to be short, at an instant just read.
    pub fn short(started: Instant) -> Self {
        match MARK.get() {
            Some((at, started_cpu_ns)) if started.saturating_duration_since(at) <= MARK_AGE_MAX => Self {
                started,
                started_cpu_ns,
            },
            _ => Self::marked(started),
        }
    }

    fn marked(started: Instant) -> Self {
        let started_cpu_ns = thread_cpu_time_ns();
        MARK.set(Some((started, started_cpu_ns)));
        Self {
            started,
            started_cpu_ns,
        }
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Ends it, counts it, and says how long it was.
    pub fn end(self, counters: &WorkerCounters) -> Duration {
        let worked = self.worked();
        counters.stretch(worked);
        worked
    }

    /// Ends what may be a part of another stretch, and says how long it was. It counts by itself only as one that may be the longest:
    /// the other may be broken off.
    pub fn end_as_part(self, counters: &WorkerCounters) -> Duration {
        let worked = self.worked();
        counters.longest_stretch_ns.raise(worked.as_nanos() as u64);
        worked
    }

    fn worked(&self) -> Duration {
        let passed = self.started.elapsed();
        match passed >= ASKED_FROM {
            false => passed,
            true => passed.min(Duration::from_nanos(
                thread_cpu_time_ns().saturating_sub(self.started_cpu_ns),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for that much time of this thread.
    fn work(time: Duration) {
        let begin = thread_cpu_time_ns();
        while thread_cpu_time_ns() - begin < time.as_nanos() as u64 {}
    }

    fn longest(counters: &WorkerCounters) -> Duration {
        Duration::from_nanos(counters.longest_stretch_ns.get())
    }

    #[test]
    fn time_that_others_had_does_not_count() {
        for begin in [Stretch::long, || Stretch::short(Instant::now())] {
            let counters = WorkerCounters::new(1);
            for _ in 0..20 {
                let stretch = begin();
                work(Duration::from_micros(150));
                std::thread::sleep(Duration::from_millis(20));
                stretch.end(&counters);
            }
            let longest = longest(&counters);
            assert!(longest >= Duration::from_micros(150), "{longest:?}");
            // Generous: a sleep costs some processor time itself.
            assert!(longest < Duration::from_millis(10), "{longest:?}");
        }
    }

    #[test]
    fn a_short_one_counts_no_less_than_it_worked() {
        let counters = WorkerCounters::new(1);
        for time_us in [1, 50, 99, 300, 1_000, 3_000] {
            let stretch = Stretch::short(Instant::now());
            work(Duration::from_micros(time_us));
            stretch.end(&counters);
            assert!(longest(&counters) >= Duration::from_micros(time_us), "{time_us}");
        }
    }
}
