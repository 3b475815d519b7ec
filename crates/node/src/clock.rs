//! The node's clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The environment variable by which tests give a node a wall clock that is wrong, in milliseconds. Builds for use do not look at it.
#[cfg(debug_assertions)]
const WRONG_BY_MS: &str = "TEST_WALL_CLOCK_WRONG_BY_MS";

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

/// Wall time since 1970.
pub fn wall_time() -> Duration {
    let right = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match wrong_by_ms() {
        ms @ 0.. => right + Duration::from_millis(ms.unsigned_abs()),
        ms => right.saturating_sub(Duration::from_millis(ms.unsigned_abs())),
    }
}

#[cfg(debug_assertions)]
fn wrong_by_ms() -> i64 {
    static WRONG_BY: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    *WRONG_BY.get_or_init(|| {
        let text = std::env::var(WRONG_BY_MS).unwrap_or_default();
        text.parse().unwrap_or(0)
    })
}

#[cfg(not(debug_assertions))]
const fn wrong_by_ms() -> i64 {
    0
}

fn unix_us() -> u64 {
    // 64 bits of microseconds are 584,000 years.
    wall_time().as_micros() as u64
}
