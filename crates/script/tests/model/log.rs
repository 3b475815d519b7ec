//! The exact log.

use super::{Limit, Model, time, wait};

/// The time of every admitted token, oldest first.
#[derive(Debug, Clone)]
pub struct SlidingLog {
    tokens: Vec<i64>,
    /// Time of the last change.
    latest: i64,
}

impl SlidingLog {
    /// The tokens that count at `now_us`, and the time that it counts as.
    fn alive(&self, limit: &Limit, now_us: u64) -> (Vec<i64>, i64) {
        if self.tokens.is_empty() {
            return (Vec::new(), now_us as i64);
        }
        let now = self.latest.max(now_us as i64);
        let alive = self.tokens.iter().copied();
        let alive = alive.filter(|&at| at + limit.window_us as i64 > now).collect();
        (alive, now)
    }

    fn set(&mut self, limit: &Limit, mut tokens: Vec<i64>, latest: i64) {
        // A debt's tokens beyond the newest L are as old as the first of those.
        if let Some(beyond) = tokens.len().checked_sub(limit.limit as usize) {
            let first = tokens[beyond.min(tokens.len() - 1)];
            tokens[..beyond].fill(first);
        }
        *self = Self { tokens, latest };
    }
}

impl Model for SlidingLog {
    const POLICY: &'static str = "sliding_log";

    fn new() -> Self {
        Self {
            tokens: Vec::new(),
            latest: 0,
        }
    }

    fn check(&mut self, limit: &Limit, now_us: u64, cost: u64) -> (bool, u64, i64) {
        let (mut tokens, now) = self.alive(limit, now_us);
        let used = tokens.len() as u64;
        let remaining = limit.limit.saturating_sub(used);
        if cost == 0 {
            return (true, remaining, 0);
        }
        if cost <= remaining {
            tokens.extend((0..cost).map(|_| now));
            self.set(limit, tokens, now);
            return (true, remaining - cost, 0);
        }
        if cost > limit.limit {
            return (false, remaining, -1);
        }
        let must_expire = used + cost - limit.limit;
        let expires_at = tokens[must_expire as usize - 1] + limit.window_us as i64;
        (false, remaining, wait(i128::from(expires_at), now_us))
    }

    fn full_at(&self, limit: &Limit) -> u64 {
        match self.tokens.last() {
            None => 0,
            Some(&last) => time(i128::from(last) + i128::from(limit.window_us)),
        }
    }

    fn give(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (mut tokens, now) = self.alive(limit, now_us);
        tokens.truncate(tokens.len().saturating_sub(amount as usize));
        self.set(limit, tokens, now);
    }

    fn take(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (mut tokens, now) = self.alive(limit, now_us);
        let most = (2 * limit.limit).saturating_sub(tokens.len() as u64);
        if amount.min(most) == 0 {
            return;
        }
        tokens.extend((0..amount.min(most)).map(|_| now));
        self.set(limit, tokens, now);
    }

    fn resize(&mut self, old: &Limit, new: &Limit, now_us: u64) {
        let (mut tokens, now) = self.alive(old, now_us);
        for at in &mut tokens {
            // The same share of the window has passed.
            let age = i128::from(now - *at) * i128::from(new.window_us) / i128::from(old.window_us);
            *at = now - age as i64;
        }
        self.set(new, tokens, now);
    }
}
