//! Whether the node serves.

use std::sync::atomic::{AtomicU8, Ordering};

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

/// Starting, then ready, then draining; what `/readyz` answers.
#[derive(Debug, Default)]
pub struct Readiness(AtomicU8);

impl Readiness {
    /// The node serves from now on.
    pub fn ready(&self) {
        // A node that drains already does not become ready again.
        let _ = self
            .0
            .compare_exchange(STARTING, READY, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The node is on its way out.
    pub fn draining(&self) {
        self.0.store(DRAINING, Ordering::Release);
    }

    /// Why the node does not serve; `None` if it does.
    pub fn reason(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Acquire) {
            STARTING => Some("starting"),
            DRAINING => Some("draining"),
            _ => None,
        }
    }
}
