//! The buckets: tokens or water as an exact number, and the time it was true.

use super::{Exact, Limit, Model, ceil, exact, floor, time, wait};

/// Tokens come in, checks take them out.
#[derive(Debug, Clone)]
pub struct TokenBucket(Option<(Exact, u64)>);

impl TokenBucket {
    /// The tokens at `now_us`, and the time up to which they are counted.
    pub fn level(&self, limit: &Limit, now_us: u64) -> (Exact, u64) {
        let full = exact(limit.burst);
        match &self.0 {
            None => (full, now_us),
            Some((tokens, filled_at)) if now_us <= *filled_at => (tokens.clone(), *filled_at),
            Some((tokens, filled_at)) => {
                let gained = exact(now_us - filled_at) * limit.rate();
                ((tokens + gained).min(full), now_us)
            }
        }
    }
}

impl Model for TokenBucket {
    const POLICY: &'static str = "token_bucket";

    fn new() -> Self {
        Self(None)
    }

    fn check(&mut self, limit: &Limit, now_us: u64, cost: u64) -> (bool, u64, i64) {
        let (tokens, filled_at) = self.level(limit, now_us);
        let remaining = floor(&tokens).max(0) as u64;
        if cost == 0 {
            return (true, remaining, 0);
        }
        if exact(cost) <= tokens {
            self.0 = Some((tokens - exact(cost), filled_at));
            return (true, remaining - cost, 0);
        }
        if cost > limit.burst {
            return (false, remaining, -1);
        }
        let missing = exact(cost) - tokens;
        let ready_at = i128::from(filled_at) + ceil(&(missing / limit.rate()));
        (false, remaining, wait(ready_at, now_us))
    }

    fn full_at(&self, limit: &Limit) -> u64 {
        match &self.0 {
            None => 0,
            Some((tokens, filled_at)) => {
                let missing = exact(limit.burst) - tokens;
                time(i128::from(*filled_at) + ceil(&(missing / limit.rate())))
            }
        }
    }

    fn give(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (tokens, filled_at) = self.level(limit, now_us);
        self.0 = Some(((tokens + exact(amount)).min(exact(limit.burst)), filled_at));
    }

    fn take(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (tokens, filled_at) = self.level(limit, now_us);
        let lowest = tokens.clone().min(-exact(limit.burst));
        self.0 = Some(((tokens - exact(amount)).max(lowest), filled_at));
    }

    fn resize(&mut self, old: &Limit, new: &Limit, now_us: u64) {
        if self.0.is_none() {
            return;
        }
        let (tokens, filled_at) = self.level(old, now_us);
        // The smallest amount under the new limit is 1/den of a token; less than that is lost.
        let den = Exact::from_integer(new.rate().denom().clone());
        let kept = ((tokens + exact(new.burst) - exact(old.burst)) * &den).floor() / den;
        self.0 = Some((kept, filled_at));
    }
}

/// Checks pour water in, it leaks out.
#[derive(Debug, Clone)]
pub struct LeakyBucket(Option<(Exact, u64)>);

impl LeakyBucket {
    /// The water at `now_us`, and the time up to which it has leaked.
    pub fn water(&self, limit: &Limit, now_us: u64) -> (Exact, u64) {
        match &self.0 {
            None => (exact(0), now_us),
            Some((water, leaked_at)) if now_us <= *leaked_at => (water.clone(), *leaked_at),
            Some((water, leaked_at)) => {
                let left = water - exact(now_us - leaked_at) * limit.rate();
                (left.max(exact(0)), now_us)
            }
        }
    }
}

impl Model for LeakyBucket {
    const POLICY: &'static str = "leaky_bucket";

    fn new() -> Self {
        Self(None)
    }

    fn check(&mut self, limit: &Limit, now_us: u64, cost: u64) -> (bool, u64, i64) {
        let (water, leaked_at) = self.water(limit, now_us);
        let room = exact(limit.burst) - &water;
        let remaining = floor(&room).max(0) as u64;
        if cost == 0 {
            return (true, remaining, 0);
        }
        if exact(cost) <= room {
            self.0 = Some((water + exact(cost), leaked_at));
            return (true, remaining - cost, 0);
        }
        if cost > limit.burst {
            return (false, remaining, -1);
        }
        let surplus = exact(cost) - room;
        debug_assert!(surplus > exact(0));
        let ready_at = i128::from(leaked_at) + ceil(&(surplus / limit.rate()));
        (false, remaining, wait(ready_at, now_us))
    }

    fn full_at(&self, limit: &Limit) -> u64 {
        match &self.0 {
            None => 0,
            Some((water, leaked_at)) => time(i128::from(*leaked_at) + ceil(&(water / limit.rate()))),
        }
    }

    fn give(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (water, leaked_at) = self.water(limit, now_us);
        self.0 = Some(((water - exact(amount)).max(exact(0)), leaked_at));
    }

    fn take(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (water, leaked_at) = self.water(limit, now_us);
        let highest = water.clone().max(exact(2 * limit.burst));
        self.0 = Some(((water + exact(amount)).min(highest), leaked_at));
    }

    fn resize(&mut self, old: &Limit, new: &Limit, now_us: u64) {
        if self.0.is_none() {
            return;
        }
        let (water, leaked_at) = self.water(old, now_us);
        let den = Exact::from_integer(new.rate().denom().clone());
        self.0 = Some(((water * &den).ceil() / den, leaked_at));
    }
}
