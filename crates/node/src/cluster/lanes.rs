//! Batches of one connection on their way to one peer, which are done in their order: those that are under way go to one worker of the
//! peer, and what has to be sent again waits for those before.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use tokio::sync::Notify;

/// The lanes that have batches under way, by the sender's number and the peer's place.
#[derive(Debug, Default)]
pub(super) struct Lanes(RefCell<HashMap<(u64, usize), Lane>>);

#[derive(Debug)]
struct Lane {
    /// The worker of the peer.
    worker: u16,
    last: Rc<Finished>,
}

/// Whether a batch is finished.
#[derive(Debug, Default)]
pub(super) struct Finished {
    is: Cell<bool>,
    told: Notify,
}

impl Finished {
    /// Waits until it is.
    pub(super) async fn wait(&self) {
        while !self.is.get() {
            self.told.notified().await;
        }
    }
}

/// A batch under way, which is finished when this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    lanes: Rc<Lanes>,
    of: (u64, usize),
    /// The worker of the peer that it goes to.
    pub(super) worker: u16,
    /// The one before it, if that is not finished.
    pub(super) before: Option<Rc<Finished>>,
    finished: Rc<Finished>,
}

impl Lanes {
    /// Notes that there is one more batch of a lane. `worker`: of the peer, if none is under way.
    pub(super) fn enter(self: &Rc<Self>, of: (u64, usize), worker: u16) -> UnderWay {
        let finished = Rc::<Finished>::default();
        let lane = Lane {
            worker,
            last: Rc::clone(&finished),
        };
        let mut lanes = self.0.borrow_mut();
        let before = lanes.insert(of, lane);
        let worker = before.as_ref().map_or(worker, |before| before.worker);
        if let Some(lane) = lanes.get_mut(&of) {
            lane.worker = worker;
        }
        UnderWay {
            lanes: Rc::clone(self),
            of,
            worker,
            before: before.map(|before| before.last),
            finished,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.finished.is.set(true);
        self.finished.told.notify_waiters();
        let mut lanes = self.lanes.0.borrow_mut();
        let is_last = |lane: &Lane| Rc::ptr_eq(&lane.last, &self.finished);
        if lanes.get(&self.of).is_some_and(is_last) {
            lanes.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_batch_goes_to_the_worker_of_the_one_before_and_can_wait_for_it() {
        let lanes = Rc::<Lanes>::default();
        let first = lanes.enter((1, 9), 0);
        assert!(first.before.is_none());
        let second = lanes.enter((1, 9), 3);
        assert_eq!((first.worker, second.worker), (0, 0));
        assert_eq!(lanes.enter((1, 8), 3).worker, 3, "to another peer");
        assert_eq!(lanes.enter((2, 9), 3).worker, 3, "of another connection");
        let mut wait = pin!(second.before.as_ref().unwrap().wait());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        drop(first);
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(lanes.enter((1, 9), 3).worker, 0, "one is under way");
    }

    #[test]
    fn nothing_is_left_of_a_lane_when_all_is_finished() {
        let lanes = Rc::<Lanes>::default();
        let (first, second) = (lanes.enter((1, 9), 0), lanes.enter((1, 9), 3));
        drop(second);
        drop(first);
        assert!(lanes.0.borrow().is_empty());
        assert_eq!(lanes.enter((1, 9), 3).worker, 3);
    }
}
