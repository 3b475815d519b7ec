//! What a check is measured against: limit, window and capacity.

use crate::{Burst, Limit, Window};
use thiserror::Error;

/// How a policy treats the capacity of its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurstRule {
    /// BURST may be given; without it the capacity is the limit.
    Limit,
    /// BURST may be given; without it the capacity is this number.
    Fixed(Burst),
    /// BURST is an error; the capacity is the limit.
    Refused,
}

/// A burst given to a policy that has none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("policy '{policy}' takes no BURST")]
pub struct QuotaError {
    /// The policy's name.
    pub policy: String,
}

/// L per W with capacity B: the parameters of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Tokens per window.
    pub limit: Limit,
    /// The window.
    pub window: Window,
    /// The capacity, with the policy's default already applied.
    pub burst: Burst,
}

impl Quota {
    /// Applies a policy's [`BurstRule`] to what was given.
    pub fn new(
        limit: Limit,
        window: Window,
        burst: Option<Burst>,
        rule: BurstRule,
        policy: &str,
    ) -> Result<Self, QuotaError> {
        // A limit is in the range of a burst: both are 1 to 10^12.
        let as_burst = |limit: Limit| {
            Burst::new(limit.get()).map_err(|_| QuotaError {
                policy: policy.to_owned(),
            })
        };
        let burst = match (rule, burst) {
            (BurstRule::Limit | BurstRule::Fixed(_), Some(burst)) => burst,
            (BurstRule::Fixed(burst), None) => burst,
            (BurstRule::Limit | BurstRule::Refused, None) => as_burst(limit)?,
            (BurstRule::Refused, Some(_)) => {
                return Err(QuotaError {
                    policy: policy.to_owned(),
                });
            }
        };
        Ok(Self { limit, window, burst })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_rules() {
        let limit = Limit::new(100).unwrap();
        let window = Window::parse(b"1m").unwrap();
        let given = Some(Burst::new(7).unwrap());
        let quota = |burst, rule| Quota::new(limit, window, burst, rule, "p").map(|q| q.burst.get());
        let one = Burst::new(1).unwrap();
        assert_eq!(quota(None, BurstRule::Limit), Ok(100));
        assert_eq!(quota(given, BurstRule::Limit), Ok(7));
        assert_eq!(quota(None, BurstRule::Fixed(one)), Ok(1));
        assert_eq!(quota(given, BurstRule::Fixed(one)), Ok(7));
        assert_eq!(quota(None, BurstRule::Refused), Ok(100));
        assert_eq!(
            quota(given, BurstRule::Refused).unwrap_err().to_string(),
            "policy 'p' takes no BURST"
        );
    }
}
