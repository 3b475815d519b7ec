//! Exact models of the five policies, written from the specification and independently of the Lua files: rational
//! numbers of any size and plain vectors, no attempt at speed. `subject` runs the Lua files, `cases` makes sequences.

// Every test binary uses a part of this; tests may unwrap.
#![allow(dead_code, clippy::unwrap_used)]

pub mod bucket;
pub mod cases;
pub mod log;
pub mod subject;
pub mod walk;
pub mod window;

use num_bigint::BigInt;
use num_rational::BigRational;

/// An exact number.
pub type Exact = BigRational;

/// The clock's readings end before this, in microseconds; a later time is shown as this one.
pub const END_OF_TIME_US: u64 = 1 << 53;

/// The parameters of a bucket: tokens per window, the window, the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    pub limit: u64,
    pub window_us: u64,
    pub burst: u64,
}

impl Limit {
    /// Tokens per microsecond.
    pub fn rate(&self) -> Exact {
        exact(self.limit) / exact(self.window_us)
    }
}

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub allowed: bool,
    pub remaining: u64,
    pub retry_after_us: i64,
    /// Not before `now`.
    pub full_at_us: u64,
}

/// The exact behaviour of a policy: one bucket.
pub trait Model: Clone + std::fmt::Debug {
    /// The name of the file in `lua/`.
    const POLICY: &'static str;

    /// A bucket that has not been seen before.
    fn new() -> Self;
    /// Decides, and takes the cost when it is admitted.
    fn check(&mut self, limit: &Limit, now_us: u64, cost: u64) -> (bool, u64, i64);
    /// When the bucket is full again if left alone.
    fn full_at(&self, limit: &Limit) -> u64;
    /// A refund.
    fn give(&mut self, limit: &Limit, now_us: u64, amount: u64);
    /// A debt.
    fn take(&mut self, limit: &Limit, now_us: u64, amount: u64);
    /// A changed limit.
    fn resize(&mut self, old: &Limit, new: &Limit, now_us: u64);

    /// A check and when the bucket is full after it, as the host answers.
    fn answer(&mut self, limit: &Limit, now_us: u64, cost: u64) -> Answer {
        let (allowed, remaining, retry_after_us) = self.check(limit, now_us, cost);
        Answer {
            allowed,
            remaining,
            retry_after_us,
            full_at_us: self.full_at(limit).max(now_us),
        }
    }
}

/// A whole number as an exact one.
pub fn exact(number: impl Into<BigInt>) -> Exact {
    Exact::from_integer(number.into())
}

/// The largest whole number that is not above `number`.
pub fn floor(number: &Exact) -> i128 {
    i128::try_from(number.floor().to_integer()).expect("fits by the domain's bounds")
}

/// The smallest whole number that is not below `number`.
pub fn ceil(number: &Exact) -> i128 {
    i128::try_from(number.ceil().to_integer()).expect("fits by the domain's bounds")
}

/// A time, cut off at the end of time.
pub fn time(us: i128) -> u64 {
    u64::try_from(us.min(i128::from(END_OF_TIME_US))).expect("no time before 0")
}

/// The wait from `now_us` until `ready_at`.
pub fn wait(ready_at: i128, now_us: u64) -> i64 {
    time(ready_at) as i64 - now_us as i64
}

/// A test a policy: `each_policy!(property)` calls `property(name)` for all five.
#[macro_export]
macro_rules! each_policy {
    ($($property:ident),* $(,)?) => {$(
        mod $property {
            #[test]
            fn token_bucket() {
                super::$property("token_bucket");
            }
            #[test]
            fn leaky_bucket() {
                super::$property("leaky_bucket");
            }
            #[test]
            fn fixed_window() {
                super::$property("fixed_window");
            }
            #[test]
            fn sliding_window() {
                super::$property("sliding_window");
            }
            #[test]
            fn sliding_log() {
                super::$property("sliding_log");
            }
        }
    )*};
}
