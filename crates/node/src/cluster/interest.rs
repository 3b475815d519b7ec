//! Keys of this worker's slots that clients of other nodes watch, or wait for.

use crate::limits::Bound;
use crate::node::Place;
use crate::peers::{PeerId, ReplyHandle};
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::AbortHandle;
use tollgate_cluster::wire::{Await, AwaitAct, Called, Noted, Outcome, Watch, WatchAct, read_message};
use tollgate_commands::{Wakeup, WatchMark};
use tollgate_protocol::Proto;
use tollgate_store::{DATABASES, MAX_KEY_BYTES, slot_of};

/// A client of another node: by the connection that its requests come over, and its number there.
type Client = (u64, u64);

/// What clients of other nodes want to know of this worker's keys.
#[derive(Debug, Default)]
pub struct Interest {
    watches: RefCell<HashMap<Client, Watched>>,
    waiters: RefCell<HashMap<Client, Waiter>>,
    /// Keys of both.
    keys: Cell<usize>,
}

#[derive(Debug, Default)]
struct Watched {
    mark: Arc<WatchMark>,
    keys: usize,
}

#[derive(Debug)]
struct Waiter {
    wakeup: Arc<Wakeup>,
    keys: Vec<(u8, Box<[u8]>)>,
    /// The name and the worker of its node.
    peer: (Arc<str>, u16),
    /// Passes calls on.
    task: AbortHandle,
}

impl Worker {
    /// Does what a peer asks about keys that its client watches, and answers.
    pub(super) fn serve_watch(&self, from: &PeerId, body: &[u8], reply: ReplyHandle) {
        let Ok(watch) = read_message::<Watch<'_>>(from.version, body) else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let Some(interest) = self.links.as_ref().map(|links| &links.interest) else {
            return;
        };
        let client = (from.connection, watch.watch);
        let outcome = match watch.act {
            WatchAct::Begin { db, key } => self.may_note(db, key, || {
                self.decide_checks();
                let mark = {
                    let mut watches = interest.watches.borrow_mut();
                    let watched = watches.entry(client).or_default();
                    watched.keys += 1;
                    Arc::clone(&watched.mark)
                };
                let env = self.env(self.node.clock.now_us(), db, Proto::Resp2);
                self.shard.borrow_mut().watch(&env, key, &mark);
                true
            }),
            WatchAct::Ask => match interest.watches.borrow().get(&client) {
                Some(watched) if !watched.mark.is_set() => Outcome::Yes,
                _ => Outcome::No,
            },
            WatchAct::End => {
                self.end_watches(|of| *of == client);
                Outcome::Yes
            }
        };
        let _ = reply.reply(&Noted { outcome });
    }

    /// Does what a peer asks about keys that its client waits for, and answers.
    pub(super) fn serve_await(self: &Rc<Self>, from: &PeerId, body: &[u8], reply: ReplyHandle) {
        let Ok(awaited) = read_message::<Await<'_>>(from.version, body) else {
            let _ = reply.not_understood();
            return;
        };
        let Some(interest) = self.links.as_ref().map(|links| &links.interest) else {
            return;
        };
        let client = (from.connection, awaited.waiter);
        let outcome = match awaited.act {
            AwaitAct::Begin { db, key } => self.may_note(db, key, || {
                let mut waiters = interest.waiters.borrow_mut();
                let waiter = waiters
                    .entry(client)
                    .or_insert_with(|| self.new_waiter(from, awaited.waiter));
                let is_new = !waiter.keys.iter().any(|(of, known)| *of == db && **known == *key);
                if is_new {
                    waiter.keys.push((db, key.into()));
                }
                // One that is known keeps its turn.
                self.shard.borrow_mut().wait_for(db, key, &waiter.wakeup);
                is_new
            }),
            AwaitAct::CallNext => {
                if let Some(waiter) = interest.waiters.borrow().get(&client) {
                    let shard = self.shard.borrow();
                    for (db, key) in &waiter.keys {
                        shard.call_next(*db, key, &waiter.wakeup);
                    }
                }
                Outcome::Yes
            }
            AwaitAct::End => {
                self.end_waiters(|of| *of == client);
                Outcome::Yes
            }
        };
        let _ = reply.reply(&Noted { outcome });
    }

    /// Notes interest in a key, if it is here and there is room. `note` says whether it is new.
    fn may_note(&self, db: u8, key: &[u8], note: impl FnOnce() -> bool) -> Outcome<'static> {
        let Some(links) = &self.links else { return Outcome::No };
        if db >= DATABASES || key.len() > MAX_KEY_BYTES || self.node.place(slot_of(key)) != Place::Of(self.index) {
            return Outcome::No;
        }
        let keys = &links.interest.keys;
        if keys.get() >= self.node.config.limits.lent_keys {
            self.counters().limit_hit(Bound::LentKeys);
            return Outcome::Refused {
                why: Bound::LentKeys.error(),
            };
        }
        let is_new = note();
        keys.set(keys.get() + usize::from(is_new));
        Outcome::Yes
    }

    fn new_waiter(self: &Rc<Self>, from: &PeerId, waiter: u64) -> Waiter {
        let wakeup = Arc::<Wakeup>::default();
        let peer = (Arc::clone(&from.id.name), from.worker);
        let (worker, called, to) = (Rc::clone(self), Arc::clone(&wakeup), peer.clone());
        let task = tokio::task::spawn_local(async move {
            loop {
                poll_fn(|cx| called.poll_called(cx)).await;
                worker.call_abroad(&to, waiter);
            }
        });
        Waiter {
            wakeup,
            keys: Vec::new(),
            peer,
            task: task.abort_handle(),
        }
    }

    /// Calls a client of another node. If that gets lost, so does the connection, and with the next all its clients are called.
    fn call_abroad(&self, (peer, worker): &(Arc<str>, u16), waiter: u64) {
        if let Some(links) = &self.links {
            let _ = links.peers.send(peer, *worker, &Called { waiter });
        }
    }

    /// Calls all clients of a worker of a peer, since calls may have been lost.
    pub(super) fn call_all_of(&self, peer: &str, worker: u16) {
        let Some(links) = &self.links else { return };
        for ((_, number), waiter) in links.interest.waiters.borrow().iter() {
            if &*waiter.peer.0 == peer && waiter.peer.1 == worker {
                self.call_abroad(&waiter.peer, *number);
            }
        }
    }

    /// A connection of a peer is over, and with it what was noted for its clients.
    pub(super) fn forget_interest_over(&self, connection: u64) {
        self.end_watches(|(of, _)| *of == connection);
        self.end_waiters(|(of, _)| *of == connection);
    }

    fn end_watches(&self, goes: impl Fn(&Client) -> bool) {
        let Some(links) = &self.links else { return };
        let interest = &links.interest;
        // The shard looks for marks that nobody has any more.
        for (_, watched) in interest.watches.borrow_mut().extract_if(|client, _| goes(client)) {
            interest.keys.set(interest.keys.get() - watched.keys);
        }
    }

    fn end_waiters(&self, goes: impl Fn(&Client) -> bool) {
        let Some(links) = &self.links else { return };
        let interest = &links.interest;
        for (_, waiter) in interest.waiters.borrow_mut().extract_if(|client, _| goes(client)) {
            interest.keys.set(interest.keys.get() - waiter.keys.len());
            waiter.task.abort();
            let mut shard = self.shard.borrow_mut();
            for (db, key) in &waiter.keys {
                shard.pass_on(*db, key, &waiter.wakeup);
            }
        }
    }
}
