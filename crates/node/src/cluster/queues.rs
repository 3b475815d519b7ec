//! Checks that are queued while their turn waits: a slot closes only after those that were queued for it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use tokio::sync::Notify;

/// The queues of a worker that are not empty while others run.
#[derive(Debug, Default)]
pub struct OpenQueues {
    next: Cell<u64>,
    open: RefCell<BTreeSet<u64>>,
    one_empty: Notify,
}

/// A queue that is not empty, until this is dropped.
#[derive(Debug)]
pub struct OpenQueue {
    queues: Rc<OpenQueues>,
    number: u64,
}

impl OpenQueues {
    /// Notes that there is one more.
    pub fn open(self: &Rc<Self>) -> OpenQueue {
        let number = self.next.get();
        self.next.set(number + 1);
        self.open.borrow_mut().insert(number);
        OpenQueue {
            queues: Rc::clone(self),
            number,
        }
    }

    /// Waits until every queue that is open now is empty.
    pub async fn until_empty(&self) {
        let end = self.next.get();
        while self.open.borrow().first().is_some_and(|&first| first < end) {
            self.one_empty.notified().await;
        }
    }
}

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.queues.open.borrow_mut().remove(&self.number);
        self.queues.one_empty.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn those_that_came_later_are_not_waited_for() {
        let queues = Rc::new(OpenQueues::default());
        let (first, second) = (queues.open(), queues.open());
        let mut wait = pin!(queues.until_empty());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        let _later = queues.open();
        drop(second);
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        drop(first);
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(()));
    }
}
