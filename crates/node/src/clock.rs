//! The node's clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall time at the node's start plus the monotonic time since: steps of the wall clock neither refill nor freeze buckets.
#[derive(Debug, Clone, Copy)]
pub struct NodeClock {
    started: Instant,
    started_unix_us: u64,
}

impl NodeClock {
    /// Starts the clock.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            started_unix_us: unix_us(),
        }
    }

    /// The reading at an instant, in microseconds.
    pub fn at(&self, instant: Instant) -> u64 {
        self.started_unix_us + instant.saturating_duration_since(self.started).as_micros() as u64
    }

    /// The reading now, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.at(Instant::now())
    }

    /// The reading at the start, in microseconds: Unix time then.
    pub fn started_us(&self) -> u64 {
        self.started_unix_us
    }

    /// How far the wall clock is ahead of this clock now, in microseconds.
    pub fn wall_offset_us(&self) -> i64 {
        unix_us() as i64 - self.now_us() as i64
    }
}

fn unix_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_micros() as u64)
}
