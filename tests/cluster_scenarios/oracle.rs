//! What a token bucket admits, and what was admitted beyond that.

use std::time::Duration;

/// Limit L per window W, burst B.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    pub limit: u64,
    pub window: Duration,
    pub burst: u64,
}

impl Quota {
    /// The most tokens that a bucket gives in a time that long: B + L·t/W.
    pub fn model(&self, elapsed_us: u64) -> u64 {
        self.burst + (u128::from(self.limit) * u128::from(elapsed_us) / self.window.as_micros()) as u64
    }

    /// Tokens that come in that time.
    pub fn tokens_per_s(&self) -> f64 {
        self.limit as f64 / self.window.as_secs_f64()
    }
}

/// Who decided a check, as its reply says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Holder,
    Heir,
    Local,
}

impl Source {
    pub fn named(name: &str) -> Self {
        match name {
            "owner" => Self::Holder,
            "heir" => Self::Heir,
            "local" => Self::Local,
            other => panic!("no source is called {other}"),
        }
    }
}

/// One check that was answered. Times are microseconds since the load began; it was decided between them.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    pub sent_us: u64,
    pub replied_us: u64,
    /// What it asked for.
    pub cost: u64,
    pub allowed: bool,
    pub source: Source,
}

/// What became of one key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Tokens asked for.
    pub offered: u64,
    /// Tokens given.
    pub admitted: u64,
    /// Tokens that the model gives in the time from the first check to the last.
    pub model: u64,
    /// The most tokens that were given too many in any interval.
    pub excess: u64,
    /// The most tokens that had to be there at a check which was denied, beyond what it asked for.
    pub short: u64,
    /// Tokens that a holder did not give: the heir did, or a local share.
    pub stood_in: u64,
}

/// Judges all checks of one key, whose bucket was full before.
pub fn judge(quota: Quota, checks: &[Check]) -> Judgement {
    let tokens = |checks: &mut dyn Iterator<Item = &Check>| checks.map(|check| check.cost).sum();
    let mut given: Vec<Check> = checks.iter().copied().filter(|check| check.allowed).collect();
    given.sort_by_key(|check| check.replied_us);
    let first_us = checks.iter().map(|check| check.sent_us).min().unwrap_or(0);
    let last_us = checks.iter().map(|check| check.replied_us).max().unwrap_or(0);
    let of_others = |check: &&Check| check.source != Source::Holder;
    Judgement {
        offered: tokens(&mut checks.iter()),
        admitted: tokens(&mut given.iter()),
        model: quota.model(last_us - first_us),
        excess: excess(quota, &given),
        short: short(quota, checks, &given, first_us),
        stood_in: tokens(&mut given.iter().filter(of_others)),
    }
}

/// What was given is in the order of the replies. Whatever was sent after one moment and answered before another was decided between them.
fn excess(quota: Quota, given: &[Check]) -> u64 {
    let mut most = 0;
    for first in given {
        let mut sum = 0;
        for last in given.iter().filter(|check| check.sent_us >= first.sent_us) {
            sum += last.cost;
            most = sum
                .saturating_sub(quota.model(last.replied_us - first.sent_us))
                .max(most);
        }
    }
    most
}

/// A bucket that denies has less than was asked for. What it has got by then is the burst and what came since the first check, if it was
/// never full again; what has gone out is at most what was asked for before the denial was answered.
fn short(quota: Quota, checks: &[Check], given: &[Check], first_us: u64) -> u64 {
    let was_short = |denied: &Check| {
        let gone: u64 = given
            .iter()
            .filter(|check| check.sent_us < denied.replied_us)
            .map(|check| check.cost)
            .sum();
        let came = quota.model(denied.sent_us - first_us);
        (came + 1).saturating_sub(gone + denied.cost)
    };
    // The last denial of several in a row says the most.
    let denied = checks
        .iter()
        .filter(|check| !check.allowed && check.cost <= quota.burst);
    denied.max_by_key(|check| check.sent_us).map_or(0, was_short)
}

mod tests {
    use super::*;

    const QUOTA: Quota = Quota {
        limit: 10,
        window: Duration::from_secs(10),
        burst: 5,
    };

    fn check(at_ms: u64, cost: u64, allowed: bool) -> Check {
        Check {
            sent_us: at_ms * 1_000,
            replied_us: at_ms * 1_000 + 500,
            cost,
            allowed,
            source: Source::Holder,
        }
    }

    #[test]
    fn a_bucket_that_keeps_to_its_model_has_no_excess() {
        // The burst at once, then one a second.
        let checks: Vec<Check> = (0..10)
            .map(|n| match n {
                0 => check(0, 5, true),
                n => check(n * 1_000, 1, true),
            })
            .collect();
        let judged = judge(QUOTA, &checks);
        assert_eq!((judged.admitted, judged.model, judged.excess), (14, 14, 0));
    }

    #[test]
    fn excess_is_found_in_the_middle() {
        // Idle for long, then a burst and one more, then idle.
        let mut checks = vec![check(0, 5, true), check(100_000, 5, true), check(100_001, 1, true)];
        let judged = judge(QUOTA, &checks);
        assert_eq!((judged.excess, judged.model), (1, 105));
        // A second later it would have been right.
        checks[2] = check(101_000, 1, true);
        assert_eq!(judge(QUOTA, &checks).excess, 0);
    }

    #[test]
    fn what_may_have_been_decided_in_another_order_is_no_excess() {
        let slow = Check {
            sent_us: 0,
            replied_us: 3_000_000,
            ..check(0, 1, true)
        };
        assert_eq!(judge(QUOTA, &[check(1, 5, true), slow]).excess, 0);
        assert_eq!(judge(QUOTA, &[check(1, 5, true), check(2, 1, true)]).excess, 1);
    }

    #[test]
    fn a_denial_that_should_not_have_been_is_short() {
        assert_eq!(judge(QUOTA, &[check(0, 5, true), check(500, 1, false)]).short, 0);
        // Three have come since.
        assert_eq!(judge(QUOTA, &[check(0, 5, true), check(3_500, 1, false)]).short, 3);
    }
}
