//! Checks that do not come as commands: from HTTP.

use super::{Order, Shape, Subject};
use crate::shard::{Shard, terms_of};
use crate::{CommandError, Env};
use tollgate_limiter::{Burst, Cost, Decision, Limit, OnFailure, Quota, Window};

/// A check with its values already in range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectCheck {
    /// The key.
    pub key: Vec<u8>,
    /// What it is measured against.
    pub against: DirectAgainst,
    /// Tokens to take.
    pub cost: Cost,
    /// Decide without taking anything.
    pub peek: bool,
}

/// What a direct check is measured against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectAgainst {
    /// A limit of its own; the bucket is the plain one of the key in the environment's database.
    Limit {
        /// Tokens per window.
        limit: Limit,
        /// The window.
        window: Window,
        /// The capacity, if given.
        burst: Option<Burst>,
        /// The policy's name, if given.
        policy: Option<String>,
        /// What happens when nobody who has the bucket can be asked.
        on_failure: OnFailure,
    },
    /// A rule, by its id.
    Rule(String),
}

/// What a direct check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectAnswer {
    /// The decision.
    pub decision: Decision,
    /// Unix time in milliseconds at which the bucket is full again if left alone.
    pub reset_at_ms: u64,
}

impl Shard {
    /// Decides a check whose key is in this shard.
    ///
    /// # Errors
    /// As `RL.CHECK`; nothing has changed then.
    pub fn check_direct(&mut self, env: &Env, check: &DirectCheck) -> Result<DirectAnswer, CommandError> {
        let (subject, policy, quota, on_failure) = match &check.against {
            DirectAgainst::Rule(id) => {
                let (number, policy, quota) = self.rule(id.as_bytes())?;
                (Subject::Rule(number), policy, quota, OnFailure::default())
            }
            DirectAgainst::Limit {
                limit,
                window,
                burst,
                policy,
                on_failure,
            } => {
                let policy = self.policy_or_default(policy.as_deref().map(str::as_bytes))?;
                let info = self.policies.info(policy);
                (
                    Subject::Plain,
                    policy,
                    Quota::new(*limit, *window, *burst, &terms_of(info))?,
                    *on_failure,
                )
            }
        };
        let order = Order {
            subject,
            policy,
            quota,
            cost: check.cost.get(),
            peek: check.peek,
            shape: Shape::RlCheck,
            on_failure,
        };
        let shown = self.decide_alone(env, &order, &check.key)?;
        let reset_at_ms = env.unix_ms_ceil(shown.decision.full_at_us, shown.clock_offset_us);
        Ok(DirectAnswer {
            decision: shown.decision,
            reset_at_ms,
        })
    }
}
