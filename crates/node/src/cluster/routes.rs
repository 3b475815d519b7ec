//! Where commands for a slot go: a table that every worker reads for every command, and few write.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where a command for a slot goes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To the shard of this node that has the slot.
    Here,
    /// The slot is on its way to another node, or back: wait until it is one or the other.
    Closing,
    /// To the peer of that number.
    Peer(u16),
    /// Nobody is known to decide for the slot.
    Nobody,
}

/// Bits of a route: what it is, and the peer's number.
const HERE: u32 = 0;
const CLOSING: u32 = 1 << 16;
const PEER: u32 = 2 << 16;
const NOBODY: u32 = 3 << 16;

/// The routes of all slots.
#[derive(Debug)]
pub struct Routes {
    slots: Box<[AtomicU32]>,
    /// The epoch of each, for those who ask: nobody acts on it.
    epochs: Box<[AtomicU64]>,
}

impl Routes {
    /// All slots decided by nobody.
    pub fn new(slots: u16) -> Self {
        Self {
            slots: (0..slots).map(|_| AtomicU32::new(NOBODY)).collect(),
            epochs: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The route of a slot.
    #[inline]
    pub fn get(&self, slot: u16) -> Route {
        // Whoever acts on a route that has just changed is told so at the slot's shard.
        let Some(route) = self.slots.get(usize::from(slot)) else {
            return Route::Nobody;
        };
        let route = route.load(Ordering::Relaxed);
        match route & !0xffff {
            HERE => Route::Here,
            CLOSING => Route::Closing,
            PEER => Route::Peer(route as u16),
            _ => Route::Nobody,
        }
    }

    /// The epoch of a slot.
    pub fn epoch(&self, slot: u16) -> u64 {
        let epoch = self.epochs.get(usize::from(slot));
        epoch.map_or(0, |epoch| epoch.load(Ordering::Relaxed))
    }

    /// Notes the epoch of a slot, as [`Routes::set`] its route.
    pub fn set_epoch(&self, slot: u16, epoch: u64) {
        if let Some(slot) = self.epochs.get(usize::from(slot)) {
            slot.store(epoch, Ordering::Relaxed);
        }
    }

    /// Whether somebody decides for each slot.
    pub fn are_known(&self) -> bool {
        (0..self.slots.len()).all(|slot| self.get(slot as u16) != Route::Nobody)
    }

    /// Changes the route of a slot. Only the worker that has the slot's place in this node does.
    pub fn set(&self, slot: u16, route: Route) {
        let value = match route {
            Route::Here => HERE,
            Route::Closing => CLOSING,
            Route::Peer(peer) => PEER | u32::from(peer),
            Route::Nobody => NOBODY,
        };
        if let Some(slot) = self.slots.get(usize::from(slot)) {
            slot.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_what_was_set() {
        let routes = Routes::new(3);
        assert_eq!(routes.get(0), Route::Nobody);
        for route in [
            Route::Here,
            Route::Closing,
            Route::Peer(0),
            Route::Peer(u16::MAX),
            Route::Nobody,
        ] {
            routes.set(1, route);
            assert_eq!(routes.get(1), route);
        }
        routes.set_epoch(1, 7);
        assert_eq!((routes.epoch(1), routes.epoch(2), routes.epoch(9)), (7, 0, 0));
        assert!(!routes.are_known());
        (0..3).for_each(|slot| routes.set(slot, Route::Peer(0)));
        assert!(routes.are_known());
        routes.set(2, Route::Nobody);
        routes.set(9, Route::Here);
        assert_eq!(routes.get(9), Route::Nobody);
        assert_eq!(routes.get(2), Route::Nobody);
    }
}
