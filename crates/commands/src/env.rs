//! What a command needs to know of the call besides its arguments.

use tollgate_protocol::Proto;
use tollgate_store::Expiry;

/// The circumstances of one command. All times are microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Env {
    /// The selected database, 0 to 15.
    pub db: u8,
    /// The protocol version of the connection.
    pub proto: Proto,
    /// The node's clock: wall time at start plus the monotonic time since. A slot's clock is this plus the slot's offset.
    pub now_us: u64,
    /// Wall time minus the node's clock, so that times in replies are Unix times although buckets do not see the wall clock.
    pub wall_offset_us: i64,
}

impl Env {
    /// A time in a slot's clock as Unix time in milliseconds, rounded up; none for never.
    pub(crate) fn unix_ms_of(&self, expiry: Expiry, clock_offset_us: i64) -> Option<u64> {
        let ahead_us = i128::from(self.wall_offset_us.saturating_sub(clock_offset_us));
        let unix_us = expiry.exact_us()?.saturating_add_signed(ahead_us);
        // An expiry in microseconds divided by a thousand fits, and so does the clock.
        u64::try_from(unix_us.div_ceil(1_000)).ok()
    }

    /// A reading of a slot's clock as Unix time in milliseconds, rounded up.
    pub fn unix_ms_ceil(&self, clock_us: u64, clock_offset_us: i64) -> u64 {
        let unix_us = clock_us.saturating_add_signed(self.wall_offset_us.saturating_sub(clock_offset_us));
        tollgate_limiter::us_to_ms_ceil(unix_us)
    }
}
