//! Steps that may be long: between two of them a worker looks at its sockets.
//!
//! What nothing can interrupt, such as a search for a pattern in a script, or a compiler, may keep a worker for milliseconds. Of many
//! clients that ask for such a thing at the same time, each would have its own before the system is asked for more to do, and all others
//! would wait for the sum. So once something was long, whoever may be long waits until the sockets were looked at and those that were
//! ready had their turn; then one of those that wait goes on. Those that are known to be long take turns with those that may be short.

use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot;

/// What is as long as a turn's slice is long.
const LONG: Duration = crate::turn::SLICE;

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Nothing: it may be short.
    Unknown,
    /// One before it was long.
    Long,
}

impl Length {
    /// What a step that took so long says of the next.
    pub fn of(took: Duration) -> Self {
        match took >= LONG {
            true => Self::Long,
            false => Self::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// A step may begin.
    #[default]
    Open,
    /// One of those that waited goes first.
    Passed,
    /// A step was long, and the sockets have not been looked at since.
    Closed,
}

/// Who may be long, on one worker.
#[derive(Debug, Default)]
pub struct Steps {
    state: Cell<State>,
    /// Who wait, those of which nothing is known and those that are known to be long.
    waiting: [RefCell<VecDeque<oneshot::Sender<Pass>>>; 2],
    /// What the next that goes on should be, if such a one waits.
    next: Cell<usize>,
    /// Wakes the task that looks at the sockets.
    opener: RefCell<Option<Waker>>,
}

/// Allows one step.
#[derive(Debug)]
pub struct Pass(Rc<Steps>);

impl Steps {
    /// Whether a step may begin now, without a pass.
    pub fn is_open(&self) -> bool {
        self.state.get() == State::Open
    }

    /// Waits until a step may begin.
    pub async fn pass(self: &Rc<Self>, length: Length) -> Pass {
        loop {
            if self.is_open() {
                self.state.set(State::Passed);
                return Pass(Rc::clone(self));
            }
            let (pass_to, pass) = oneshot::channel();
            self.waiting[length as usize].borrow_mut().push_back(pass_to);
            if let Ok(pass) = pass.await {
                return pass;
            }
        }
    }

    /// Notes how long a step was.
    pub fn note(&self, length: Length, took: Duration) {
        if Length::of(took) != Length::Long {
            return;
        }
        self.state.set(State::Closed);
        self.next.set(1 - length as usize);
        if let Some(opener) = self.opener.take() {
            opener.wake();
        }
    }

    /// Lets the next go on, or whoever comes.
    fn open(self: &Rc<Self>) {
        let next = self.next.get();
        let waits = [next, 1 - next].into_iter().find_map(|queue| self.pop(queue));
        match waits {
            Some(pass_to) => {
                self.state.set(State::Passed);
                // It was there just now.
                let _ = pass_to.send(Pass(Rc::clone(self)));
            }
            None => self.state.set(State::Open),
        }
    }

    /// The first that still waits.
    fn pop(&self, queue: usize) -> Option<oneshot::Sender<Pass>> {
        let mut waiting = self.waiting[queue].borrow_mut();
        std::iter::from_fn(|| waiting.pop_front()).find(|pass_to| !pass_to.is_closed())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // After a step that was long, the sockets come first.
        if self.0.state.get() == State::Passed {
            self.0.open();
        }
    }
}

/// Goes on behind all that is ready now. What has yielded goes on in any order.
async fn go_last() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Worker {
    /// Opens what a long step has closed, once the sockets were looked at.
    pub async fn run_steps(self: Rc<Self>) {
        let steps = &self.steps;
        loop {
            poll_fn(|cx| match steps.state.get() {
                State::Closed => Poll::Ready(()),
                State::Open | State::Passed => {
                    *steps.opener.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            })
            .await;
            // The runtime looks at the sockets before it goes on with what has yielded.
            tokio::task::yield_now().await;
            go_last().await;
            steps.open();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::{LocalSet, spawn_local, yield_now};

    const SHORT: Duration = Duration::ZERO;

    /// Has one begin that is as long as that, and notes when it did.
    fn begin(steps: &Rc<Steps>, began: &Rc<RefCell<Vec<u32>>>, number: u32, length: Length, took: Duration) {
        let (steps, began) = (Rc::clone(steps), Rc::clone(began));
        spawn_local(async move {
            let _pass = steps.pass(length).await;
            began.borrow_mut().push(number);
            steps.note(length, took);
        });
    }

    async fn settle() {
        for _ in 0..4 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn after_a_long_step_the_next_waits_until_it_is_opened() {
        let work = async {
            let (steps, began) = (Rc::<Steps>::default(), Rc::default());
            for number in 0..3 {
                begin(&steps, &began, number, Length::Unknown, SHORT);
            }
            settle().await;
            assert_eq!(*began.borrow(), [0, 1, 2]);
            for number in 3..6 {
                begin(&steps, &began, number, Length::Unknown, LONG);
            }
            for opened in 3..6 {
                settle().await;
                assert_eq!(began.borrow().last(), Some(&opened));
                assert!(!steps.is_open());
                steps.open();
            }
            assert!(steps.is_open());
        };
        LocalSet::new().run_until(work).await;
    }

    #[tokio::test]
    async fn those_known_to_be_long_take_turns_with_the_others() {
        let work = async {
            let (steps, began) = (Rc::<Steps>::default(), Rc::default());
            steps.note(Length::Unknown, LONG);
            for number in 0..3 {
                begin(&steps, &began, number, Length::Long, LONG);
            }
            settle().await;
            // These came later. All that are short go on before the next of the long ones.
            for number in 10..13 {
                begin(&steps, &began, number, Length::Unknown, SHORT);
            }
            for number in 20..22 {
                begin(&steps, &began, number, Length::Unknown, LONG);
            }
            while !steps.is_open() {
                settle().await;
                steps.open();
            }
            assert_eq!(*began.borrow(), [0, 10, 11, 12, 20, 1, 21, 2]);
        };
        LocalSet::new().run_until(work).await;
    }

    #[tokio::test]
    async fn who_is_gone_is_passed_over() {
        let work = async {
            let (steps, began) = (Rc::<Steps>::default(), Rc::default());
            steps.note(Length::Unknown, LONG);
            let task = {
                let steps = Rc::clone(&steps);
                spawn_local(async move { drop(steps.pass(Length::Unknown).await) })
            };
            begin(&steps, &began, 1, Length::Unknown, SHORT);
            settle().await;
            task.abort();
            settle().await;
            steps.open();
            settle().await;
            assert_eq!(*began.borrow(), [1]);
            // One that is given a pass and ends before it takes it gives it to the next.
            steps.note(Length::Unknown, LONG);
            let mut waiting = Box::pin(steps.pass(Length::Unknown));
            assert!(poll_once(&mut waiting).is_pending());
            steps.open();
            assert!(!steps.is_open());
            drop(waiting);
            assert!(steps.is_open());
        };
        LocalSet::new().run_until(work).await;
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(Waker::noop()))
    }
}
