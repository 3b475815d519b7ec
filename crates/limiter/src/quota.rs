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

/// What a policy says of the parameters of its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// How it treats the capacity.
    pub burst: BurstRule,
    /// The largest limit that it takes, in tokens.
    pub limit_max: u64,
}

/// Parameters that a policy does not take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaError {
    /// A burst given to a policy that has none.
    #[error("policy '{policy}' takes no BURST")]
    Burst {
        /// The policy's name.
        policy: String,
    },
    /// A limit above the largest that the policy takes.
    #[error("LIMIT must be at most {limit_max} for policy '{policy}'")]
    Limit {
        /// The policy's name.
        policy: String,
        /// The largest limit that it takes, in tokens.
        limit_max: u64,
    },
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
    /// Applies a policy's [`Terms`] to what was given.
    ///
    /// # Errors
    /// What the policy does not take.
    pub fn new(limit: Limit, window: Window, burst: Option<Burst>, terms: &Terms<'_>) -> Result<Self, QuotaError> {
        if limit.get() > terms.limit_max {
            return Err(QuotaError::Limit {
                policy: terms.policy.to_owned(),
                limit_max: terms.limit_max,
            });
        }
        let no_burst = || QuotaError::Burst {
            policy: terms.policy.to_owned(),
        };
        let burst = match (terms.burst, burst) {
            (BurstRule::Limit | BurstRule::Fixed(_), Some(burst)) => burst,
            (BurstRule::Fixed(burst), None) => burst,
            // A limit is in the range of a burst: both are 1 to 10^12.
            (BurstRule::Limit | BurstRule::Refused, None) => Burst::new(limit.get()).map_err(|_| no_burst())?,
            (BurstRule::Refused, Some(_)) => return Err(no_burst()),
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
        let quota = |burst, rule| {
            let terms = Terms {
                policy: "p",
                burst: rule,
                limit_max: 100,
            };
            Quota::new(limit, window, burst, &terms).map(|q| q.burst.get())
        };
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

    #[test]
    fn the_largest_limit_is_the_policys() {
        let window = Window::parse(b"1m").unwrap();
        let terms = Terms {
            policy: "p",
            burst: BurstRule::Limit,
            limit_max: 10,
        };
        let quota = |limit| Quota::new(Limit::new(limit).unwrap(), window, None, &terms);
        assert_eq!(quota(10).unwrap().burst.get(), 10);
        assert_eq!(
            quota(11).unwrap_err().to_string(),
            "LIMIT must be at most 10 for policy 'p'"
        );
    }
}
