//! The two policies that count in windows.

use super::{Exact, Limit, Model, ceil, exact, floor, time, wait};

/// A window that the first admitted check opens.
#[derive(Debug, Clone)]
pub struct FixedWindow(Option<(u64, i64)>);

impl FixedWindow {
    /// Used, and when the window was opened.
    fn current(&self, limit: &Limit, now_us: u64) -> (u64, i64) {
        let now = now_us as i64;
        match self.0 {
            // Nothing used: as if new, but time does not run backwards.
            Some((0, opened_at)) => (0, opened_at.max(now)),
            Some((used, opened_at)) if now < opened_at + limit.window_us as i64 => (used, opened_at),
            _ => (0, now),
        }
    }
}

impl Model for FixedWindow {
    const POLICY: &'static str = "fixed_window";

    fn new() -> Self {
        Self(None)
    }

    fn check(&mut self, limit: &Limit, now_us: u64, cost: u64) -> (bool, u64, i64) {
        let (used, opened_at) = self.current(limit, now_us);
        let remaining = limit.limit.saturating_sub(used);
        if cost == 0 {
            return (true, remaining, 0);
        }
        if cost <= remaining {
            self.0 = Some((used + cost, opened_at));
            return (true, remaining - cost, 0);
        }
        if cost > limit.limit {
            return (false, remaining, -1);
        }
        let closes_at = i128::from(opened_at) + i128::from(limit.window_us);
        (false, remaining, wait(closes_at, now_us))
    }

    fn full_at(&self, limit: &Limit) -> u64 {
        match self.0 {
            None => 0,
            Some((0, opened_at)) => opened_at as u64,
            Some((_, opened_at)) => time(i128::from(opened_at) + i128::from(limit.window_us)),
        }
    }

    fn give(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (used, opened_at) = self.current(limit, now_us);
        self.0 = Some(if amount < used {
            (used - amount, opened_at)
        } else {
            (0, opened_at.max(now_us as i64))
        });
    }

    fn take(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (used, opened_at) = self.current(limit, now_us);
        self.0 = Some((used.max((used + amount).min(2 * limit.limit)), opened_at));
    }

    fn resize(&mut self, old: &Limit, new: &Limit, now_us: u64) {
        let (used, opened_at) = self.current(old, now_us);
        if used == 0 {
            self.0 = None;
            return;
        }
        // The same share of the window has passed.
        let now = opened_at.max(now_us as i64);
        let passed = exact(now - opened_at) * exact(new.window_us) / exact(old.window_us);
        self.0 = Some((used, now - floor(&passed) as i64));
    }
}

/// Weighted count of the current and the previous window.
#[derive(Debug, Clone, Default)]
pub struct SlidingWindow {
    /// Time of the last change, current and previous count.
    state: Option<(u64, u64, u64)>,
}

impl SlidingWindow {
    /// Time, current, previous as of `now_us`.
    fn roll(&self, limit: &Limit, now_us: u64) -> (u64, u64, u64) {
        let Some((changed_at, current, previous)) = self.state else {
            return (now_us, 0, 0);
        };
        let time = now_us.max(changed_at);
        match time / limit.window_us - changed_at / limit.window_us {
            0 => (time, current, previous),
            1 => (time, 0, current),
            _ => (time, 0, 0),
        }
    }

    /// What is taken to have been used in the last window's length, `e` after the current window began.
    fn estimate(current: u64, previous: u64, e: u64, window_us: u64) -> Exact {
        exact(current) + exact(previous) * exact(window_us - e) / exact(window_us)
    }

    fn set(&mut self, time: u64, current: u64, previous: u64) {
        self.state = Some((time, current, previous));
    }
}

impl Model for SlidingWindow {
    const POLICY: &'static str = "sliding_window";

    fn new() -> Self {
        Self::default()
    }

    fn check(&mut self, limit: &Limit, now_us: u64, cost: u64) -> (bool, u64, i64) {
        let window = limit.window_us;
        let (time, current, previous) = self.roll(limit, now_us);
        let left = exact(limit.limit) - Self::estimate(current, previous, time % window, window);
        let remaining = floor(&left).max(0) as u64;
        if cost == 0 {
            return (true, remaining, 0);
        }
        if exact(cost) <= left {
            self.set(time, current + cost, previous);
            return (true, remaining - cost, 0);
        }
        if cost > limit.limit {
            return (false, remaining, -1);
        }
        // The first e at which current + previous · (window - e) / window + cost <= limit, in this window or the next.
        let began_at = time - time % window;
        let (start, current, previous) = if current + cost <= limit.limit {
            (began_at, current, previous)
        } else {
            (began_at + window, 0, current)
        };
        let weight = exact(limit.limit - cost - current) / exact(previous);
        let e = exact(window) * (exact(1) - weight);
        (false, remaining, wait(i128::from(start) + ceil(&e), now_us))
    }

    fn full_at(&self, limit: &Limit) -> u64 {
        let Some((changed_at, current, previous)) = self.state else {
            return 0;
        };
        let window = limit.window_us;
        let next = i128::from(changed_at - changed_at % window + window);
        match (current, previous) {
            (0, 0) => changed_at,
            (0, _) => time(next),
            _ => time(next + i128::from(window)),
        }
    }

    fn give(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let (time, current, previous) = self.roll(limit, now_us);
        let older = amount.saturating_sub(current);
        self.set(time, current.saturating_sub(amount), previous.saturating_sub(older));
    }

    fn take(&mut self, limit: &Limit, now_us: u64, amount: u64) {
        let window = limit.window_us;
        let (time, current, previous) = self.roll(limit, now_us);
        let used = ceil(&Self::estimate(current, previous, time % window, window)) as u64;
        let most = (2 * limit.limit).saturating_sub(used);
        self.set(time, current + amount.min(most), previous);
    }

    fn resize(&mut self, old: &Limit, new: &Limit, now_us: u64) {
        let (time, current, previous) = self.roll(old, now_us);
        let used = Self::estimate(current, previous, time % old.window_us, old.window_us);
        if used == exact(0) {
            self.state = None;
        } else if old.window_us == new.window_us {
            self.set(time, current, previous);
        } else {
            self.set(time, ceil(&used) as u64, 0);
        }
    }
}
