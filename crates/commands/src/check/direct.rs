//! Checks that do not come as commands: from HTTP.

use super::{Order, Shape, Subject};
use crate::shard::{Shard, burst_rule};
use crate::{CommandError, Env};
use tollgate_limiter::{Burst, Cost, Decision, Limit, OnFailure, Quota, Window};
use tollgate_script::{Fault, PolicyId};

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
        let (subject, policy, quota) = match &check.against {
            DirectAgainst::Rule(id) => {
                let (number, policy, quota) = self.rule(id.as_bytes())?;
                (Subject::Rule(number), policy, quota)
            }
            DirectAgainst::Limit {
                limit,
                window,
                burst,
                policy,
            } => {
                let policy = self.policy_or_default(policy.as_deref().map(str::as_bytes))?;
                let info = self.policies.info(policy);
                (
                    Subject::Plain,
                    policy,
                    Quota::new(*limit, *window, *burst, burst_rule(info), &info.name)?,
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
            on_failure: OnFailure::Local,
        };
        let shown = self
            .decide_alone(env, &order, &check.key)
            .map_err(|error| match error {
                CommandError::PolicyFault { .. } => self.refusal(env, policy, quota).unwrap_or(error),
                error => error,
            })?;
        let reset_at_ms = env.unix_ms_ceil(shown.decision.full_at_us, shown.clock_offset_us);
        Ok(DirectAnswer {
            decision: shown.decision,
            reset_at_ms,
        })
    }

    /// The error of a check whose limit is at fault and not the policy: it decides nothing under it, not even for a new bucket.
    fn refusal(&mut self, env: &Env, policy: PolicyId, quota: Quota) -> Option<CommandError> {
        let params = self.intern(policy, quota).ok()?;
        let fault = self.policies.probe(params, env.now_us as i64).err()?;
        match fault.fault {
            Fault::Error(_) | Fault::StateSize { .. } => Some(CommandError::LimitRefused {
                policy: self.policies.info(policy).name.clone(),
                reason: fault.fault.to_string(),
            }),
            // Too slow, or no answer at all: that says nothing of the limit.
            Fault::Budget { .. } | Fault::Memory { .. } | Fault::BadResult(_) | Fault::Lacks(_) => None,
        }
    }
}
