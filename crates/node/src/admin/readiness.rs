//! Whether the node serves.

use std::sync::atomic::{AtomicU8, Ordering};

const STARTING: u8 = 0;
const JOINING: u8 = 1;
const READY: u8 = 2;
const DRAINING: u8 = 3;

/// Starting, joining if there is somebody to join, then ready, then draining; what `/readyz` answers.
#[derive(Debug, Default)]
pub struct Readiness(AtomicU8);

impl Readiness {
    /// The node serves, and is not in the ring yet.
    pub fn joining(&self) {
        self.0.fetch_max(JOINING, Ordering::AcqRel);
    }

    /// The node serves from now on. One that drains already does not become ready again.
    pub fn ready(&self) {
        self.0.fetch_max(READY, Ordering::AcqRel);
    }

    /// The node is on its way out.
    pub fn draining(&self) {
        self.0.store(DRAINING, Ordering::Release);
    }

    /// Why the node does not serve; `None` if it does.
    pub fn reason(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Acquire) {
            STARTING => Some("starting"),
            JOINING => Some("joining"),
            DRAINING => Some("draining"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_one_way() {
        let readiness = Readiness::default();
        assert_eq!(readiness.reason(), Some("starting"));
        readiness.joining();
        assert_eq!(readiness.reason(), Some("joining"));
        readiness.ready();
        readiness.joining();
        assert_eq!(readiness.reason(), None);
        readiness.draining();
        readiness.ready();
        assert_eq!(readiness.reason(), Some("draining"));
    }
}
