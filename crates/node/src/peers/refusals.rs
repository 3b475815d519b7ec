//! Who was refused and why: logged once, counted each time by those who refuse.

use parking_lot::Mutex;
use std::collections::HashSet;
use tollgate_cluster::wire::Refusal;

/// Which refusals have been logged. Shared by the workers of a node.
#[derive(Debug, Default)]
pub struct Refusals {
    logged: Mutex<HashSet<(String, &'static str)>>,
}

/// How many are remembered. Who has that many addresses to be refused from has been seen.
const LOGGED_MAX: usize = 1_024;

impl Refusals {
    /// Logs a refusal, unless that has been done for this peer and reason. `who` is a name if it has proved it, or is the one that was
    /// asked for; otherwise an address without its port.
    pub fn log(&self, who: &str, refusal: &Refusal) {
        let reason = refusal.reason();
        {
            let mut logged = self.logged.lock();
            if logged.len() >= LOGGED_MAX || !logged.insert((who.to_owned(), reason)) {
                return;
            }
        }
        tracing::warn!(event = "peer_refused", peer = who, reason, why = %refusal);
    }

    /// Forgets what was logged of a peer: it is a peer now.
    pub fn forget(&self, who: &str) {
        let mut logged = self.logged.lock();
        if !logged.is_empty() {
            logged.retain(|(logged, _)| logged != who);
        }
    }

    /// How many are remembered.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.logged.lock().len()
    }
}
