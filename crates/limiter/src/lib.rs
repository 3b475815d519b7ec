//! The domain of a rate limiter: limits, windows, bursts, costs, rules and decisions, as types that cannot hold a wrong
//! value. They are checked once, where text enters, and trusted afterwards.
//!
//! This crate does no I/O, runs no Lua and reads no clock.

mod amount;
mod decision;
mod duration;
mod quota;
mod rule;

pub use amount::{AMOUNT_MAX, AmountError, Burst, Cost, Limit};
pub use decision::{Decision, Source, us_to_ms_ceil, us_to_s_ceil};
pub use duration::{DurationError, WINDOW_MAX_US, WINDOW_MIN_US, Window, format_duration_us, parse_duration};
pub use quota::{BurstRule, Quota, QuotaError, Terms};
pub use rule::{OnFailure, RULES_MAX, Rule, RuleError, RuleSet};

/// The policy of a check that names none.
pub const DEFAULT_POLICY: &str = "token_bucket";
