//! CLIENT PAUSE: commands that wait until a time, or until CLIENT UNPAUSE.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tollgate_commands::{Run, Session, Spec, Wakeup};

/// What turns have to look after besides their commands. Zero most of the time, so that they look no further.
#[derive(Debug, Default)]
pub struct Attention(AtomicU8);

impl Attention {
    /// Some commands wait.
    pub const PAUSED: u8 = 1;
    /// Somebody monitors.
    pub const MONITORED: u8 = 2;

    /// All that is set.
    pub fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets or clears one of them.
    pub fn set(&self, what: u8, on: bool) {
        match on {
            true => self.0.fetch_or(what, Ordering::Relaxed),
            false => self.0.fetch_and(!what, Ordering::Relaxed),
        };
    }
}

/// Whether commands wait, and for how long.
#[derive(Debug, Default)]
pub struct Pause {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Until that time of the node's clock, in microseconds.
    until_us: Option<u64>,
    /// Not only those that write.
    all: bool,
    /// The connections that wait; each takes itself off when it goes on.
    waiting: HashMap<u64, Arc<Wakeup>>,
}

impl State {
    /// Calls those that wait: each looks how long it is to wait now.
    fn call(&self) {
        self.waiting.values().for_each(|waiting| waiting.call());
    }
}

impl Pause {
    /// Lets commands wait until then. What is paused already stays so for as long and as much as it was to be.
    pub fn start(&self, now_us: u64, until_us: u64, all: bool, attention: &Attention) {
        let mut state = self.state.lock();
        let running = state.until_us.filter(|&until_us| until_us > now_us);
        state.all = all || (running.is_some() && state.all);
        state.until_us = Some(running.unwrap_or(0).max(until_us));
        attention.set(Attention::PAUSED, true);
        state.call();
    }

    /// Lets them go on.
    pub fn end(&self, attention: &Attention) {
        let mut state = self.state.lock();
        state.until_us = None;
        attention.set(Attention::PAUSED, false);
        state.call();
    }

    /// Until when such a command waits, if it does. `waiting`, of that connection, is called when that may have changed.
    pub fn until(
        &self,
        now_us: u64,
        writes: bool,
        (connection, waiting): (u64, &Arc<Wakeup>),
        attention: &Attention,
    ) -> Option<u64> {
        let mut state = self.state.lock();
        let until_us = state.until_us.filter(|&until_us| until_us > now_us);
        if until_us.is_none() && state.until_us.take().is_some() {
            attention.set(Attention::PAUSED, false);
        }
        let until_us = until_us.filter(|_| writes || state.all);
        match until_us {
            Some(_) => {
                state.waiting.entry(connection).or_insert_with(|| Arc::clone(waiting));
            }
            None => {
                state.waiting.remove(&connection);
            }
        }
        until_us
    }

    /// Forgets one that waits no longer.
    pub fn forget(&self, connection: u64) {
        self.state.lock().waiting.remove(&connection);
    }

    /// Whether a connection waits.
    pub fn has(&self, connection: u64) -> bool {
        self.state.lock().waiting.contains_key(&connection)
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

/// Whether a command counts as one that writes: it may, or others see what it does.
pub fn writes(spec: &Spec) -> bool {
    spec.has_flag("write")
        || matches!(spec.name, "publish" | "spublish")
        || (matches!(spec.run, Run::Script(_)) && !spec.has_flag("readonly"))
}

/// Whether EXEC would write.
pub fn exec_writes(session: &Session) -> bool {
    let Some(transaction) = &session.transaction else {
        return false;
    };
    let mut commands = (0..transaction.commands.len()).filter_map(|index| transaction.commands.get(index));
    commands.any(|(spec, ..)| writes(spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_and_stricter_pause_wins_and_ends_by_itself() {
        let (pause, attention, waiting) = (Pause::default(), Attention::default(), Arc::<Wakeup>::default());
        pause.start(10, 100, false, &attention);
        assert_eq!(attention.get(), Attention::PAUSED);
        assert_eq!(pause.until(20, true, (7, &waiting), &attention), Some(100));
        assert_eq!(pause.until(20, false, (7, &waiting), &attention), None);
        assert_eq!(pause.count(), 0, "it does not wait any more");
        pause.start(20, 50, true, &attention);
        assert_eq!(pause.until(30, false, (7, &waiting), &attention), Some(100));
        pause.start(30, 200, false, &attention);
        assert_eq!(pause.until(30, false, (7, &waiting), &attention), Some(200));
        assert_eq!(pause.count(), 1);
        assert_eq!(pause.until(200, true, (7, &waiting), &attention), None);
        assert_eq!((pause.count(), attention.get()), (0, 0));
        // What is over has no part in the next.
        pause.start(300, 400, false, &attention);
        assert_eq!(pause.until(300, false, (7, &waiting), &attention), None);
        assert_eq!(pause.until(300, true, (7, &waiting), &attention), Some(400));
        pause.end(&attention);
        assert_eq!(pause.until(300, true, (7, &waiting), &attention), None);
        assert_eq!((pause.count(), attention.get()), (0, 0));
    }
}
