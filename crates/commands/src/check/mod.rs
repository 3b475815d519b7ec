//! Checks: `RL.CHECK` and `CL.THROTTLE`, parsed, queued, decided by the policies in batches, and answered.

mod alone;
mod direct;
mod memo;
mod parse;
mod queue;
mod reply;

pub(crate) use alone::{Copied, rl_refund, rl_reset};
pub use direct::{DirectAgainst, DirectAnswer, DirectCheck};
pub(crate) use memo::OrderMemo;
pub(crate) use parse::{cl_throttle, rl_check};
pub use queue::{CheckQueue, Flow};
pub(crate) use reply::{Shown, write};

use tollgate_limiter::{OnFailure, Quota};
use tollgate_script::PolicyId;

/// The bucket that a check means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The plain bucket of the key in the selected database.
    Plain,
    /// The key's bucket under the rule of that number.
    Rule(u32),
}

/// The shape of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `RL.CHECK`: allowed, limit, remaining, retry_after_ms, reset_at_ms, source.
    RlCheck,
    /// `CL.THROTTLE`: limited, capacity, remaining, retry_after_s, reset_after_s.
    Throttle,
    /// `CL.THROTTLE` with a quantity of 0, decided as a peek for one token: redis-cell allows it unless the bucket is in debt,
    /// and then says when it is out of it. `token_us` is the time in which one token comes back, rounded up.
    ThrottleZero {
        /// Microseconds.
        token_us: u64,
    },
}

/// A parsed check: everything but the key, which is argument 1.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub subject: Subject,
    pub policy: PolicyId,
    pub quota: Quota,
    pub cost: u64,
    pub peek: bool,
    pub shape: Shape,
    /// What happens when nobody who has the bucket can be asked.
    pub on_failure: OnFailure,
}
