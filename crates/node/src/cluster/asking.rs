//! Clients of this worker that watch keys of other nodes, or wait for them.

use crate::node::Place;
use crate::peers::{PeerError, PeerLink};
use crate::worker::Worker;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tollgate_cluster::wire::{Await, AwaitAct, Called, Kind, Message, Noted, Outcome, Watch, WatchAct, read_message};
use tollgate_commands::{CommandError, Wakeup, WatchMark};
use tollgate_store::slot_of;

/// What this worker's clients have other nodes look after.
#[derive(Debug, Default)]
pub struct Asking {
    /// By the address of the mark, which stays its own for as long as it is here.
    watches: RefCell<HashMap<usize, WatchAbroad>>,
    /// By their numbers.
    waiters: RefCell<HashMap<u64, WaiterAbroad>>,
}

/// Keys of other nodes that a client watches.
#[derive(Debug)]
struct WatchAbroad {
    mark: Weak<WatchMark>,
    number: u64,
    keys: Vec<WatchedAbroad>,
}

/// Where a key is watched.
#[derive(Debug)]
struct WatchedAbroad {
    slot: u16,
    place: Place,
    at: At,
}

/// A client that waits.
#[derive(Debug)]
struct WaiterAbroad {
    wakeup: Weak<Wakeup>,
    links: Vec<Rc<PeerLink>>,
}

/// A connection to a worker of a peer.
#[derive(Debug, Clone)]
pub struct At {
    link: Rc<PeerLink>,
    connection: u64,
}

impl At {
    /// Whether it is still the same connection: what was noted over it went with it.
    fn stands(&self) -> bool {
        self.link.connection() == self.connection && self.link.is_up()
    }

    /// Whether that is the same connection.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.link, &other.link) && self.connection == other.connection
    }
}

/// What a peer says.
enum Answered {
    Yes(At),
    /// No, or there is no answer.
    No,
    Refused(CommandError),
}

impl Worker {
    /// The connection to the worker of a peer that has a slot, by its place.
    fn link_to(&self, place: usize, slot: u16) -> Option<Rc<PeerLink>> {
        let (cluster, links) = (self.node.cluster.as_ref()?, self.links.as_ref()?);
        let number = place.checked_sub(self.node.workers() + 1)?;
        // Numbers of peers have 16 bits.
        let peer = cluster.name_of(number as u16)?;
        links.peers.link(&peer, self.worker_of(&peer, slot)).ok()
    }

    async fn ask_about<'a, M: Message<'a>>(&self, link: &Rc<PeerLink>, message: &M) -> Answered {
        let patience = Duration::from_millis(self.node.config.limits.keys_wait_ms as u64);
        let answer = match link.request(message) {
            Ok(pending) => tokio::time::timeout(patience, pending).await,
            Err(_) => return Answered::No,
        };
        let answer = match answer {
            Ok(Ok(answer)) if answer.kind == Kind::Noted => answer,
            Ok(Err(PeerError::NotUnderstood)) => {
                let why = "ERR another node does not look after keys for clients of this one";
                return Answered::Refused(CommandError::OfNode(why.into()));
            }
            _ => return Answered::No,
        };
        match read_message::<Noted<'_>>(answer.version, &answer.body) {
            Ok(Noted { outcome: Outcome::Yes }) => Answered::Yes(At {
                link: Rc::clone(link),
                connection: link.connection(),
            }),
            Ok(Noted {
                outcome: Outcome::Refused { why },
            }) => Answered::Refused(CommandError::OfNode(why.to_owned())),
            _ => Answered::No,
        }
    }

    /// Watches a key of a peer, of which that was the place; `false`: it has moved meanwhile.
    ///
    /// # Errors
    /// The peer refuses.
    pub async fn watch_abroad(
        &self,
        place: usize,
        db: u8,
        key: &[u8],
        mark: &Arc<WatchMark>,
    ) -> Result<bool, CommandError> {
        let slot = slot_of(key);
        let (Some(link), Some(links)) = (self.link_to(place, slot), &self.links) else {
            return Ok(false);
        };
        let address = Arc::as_ptr(mark) as usize;
        let number = {
            let mut watches = links.asking.watches.borrow_mut();
            let watch = watches.entry(address).or_insert_with(|| WatchAbroad {
                mark: Arc::downgrade(mark),
                number: self.next_run().0,
                keys: Vec::new(),
            });
            watch.number
        };
        let act = WatchAct::Begin { db, key };
        let at = match self.ask_about(&link, &Watch { watch: number, act }).await {
            Answered::Yes(at) => at,
            Answered::No => return Ok(false),
            Answered::Refused(error) => return Err(error),
        };
        if let Some(watch) = links.asking.watches.borrow_mut().get_mut(&address) {
            watch.keys.push(WatchedAbroad {
                slot,
                place: Place::Of(place),
                at,
            });
        }
        Ok(true)
    }

    /// Whether a key of another node may have changed since it was watched; all are this run's now. What cannot be known has changed.
    pub async fn has_changed_abroad(&self, mark: &Arc<WatchMark>) -> bool {
        let Some(links) = &self.links else { return false };
        let address = Arc::as_ptr(mark) as usize;
        let (number, at) = {
            let watches = links.asking.watches.borrow();
            let Some(watch) = watches.get(&address) else {
                return false;
            };
            let has_moved = |key: &WatchedAbroad| !key.at.stands() || self.node.place(key.slot) != key.place;
            if watch.keys.iter().any(has_moved) {
                return true;
            }
            let mut at: Vec<At> = Vec::new();
            for key in &watch.keys {
                if !at.iter().any(|known| known.is(&key.at)) {
                    at.push(key.at.clone());
                }
            }
            (watch.number, at)
        };
        for at in at {
            let ask = Watch {
                watch: number,
                act: WatchAct::Ask,
            };
            match self.ask_about(&at.link, &ask).await {
                Answered::Yes(answered) if answered.is(&at) => {}
                _ => return true,
            }
        }
        false
    }

    /// Ends what other nodes look after for clients that do not watch any more.
    pub(super) fn end_watches_abroad(&self) {
        let Some(links) = &self.links else { return };
        let mut watches = links.asking.watches.borrow_mut();
        for (_, watch) in watches.extract_if(|_, watch| watch.mark.strong_count() == 0) {
            let mut told: Vec<At> = Vec::new();
            for key in watch.keys {
                if !told.iter().any(|at| at.is(&key.at)) {
                    if key.at.stands() {
                        let end = Watch {
                            watch: watch.number,
                            act: WatchAct::End,
                        };
                        // If that does not arrive the connection is over, and with it the watch.
                        let _ = key.at.link.send(&end);
                    }
                    told.push(key.at);
                }
            }
        }
    }

    /// Waits for a key of a peer, of which this is the place, under a number; `None`: it has moved meanwhile.
    ///
    /// # Errors
    /// The peer refuses.
    pub async fn await_abroad(
        &self,
        place: usize,
        waiter: u64,
        wakeup: &Arc<Wakeup>,
        (db, key): (u8, &[u8]),
    ) -> Result<Option<At>, CommandError> {
        let (Some(link), Some(links)) = (self.link_to(place, slot_of(key)), &self.links) else {
            return Ok(None);
        };
        {
            let mut waiters = links.asking.waiters.borrow_mut();
            let known = waiters.entry(waiter).or_insert_with(|| WaiterAbroad {
                wakeup: Arc::downgrade(wakeup),
                links: Vec::new(),
            });
            if !known.links.iter().any(|known| Rc::ptr_eq(known, &link)) {
                known.links.push(Rc::clone(&link));
            }
        }
        let act = AwaitAct::Begin { db, key };
        match self.ask_about(&link, &Await { waiter, act }).await {
            Answered::Yes(at) => Ok(Some(at)),
            Answered::No => Ok(None),
            Answered::Refused(error) => Err(error),
        }
    }

    /// A call was of no use to a client: it is for those behind it.
    pub fn call_next_abroad(&self, waiter: u64, at: &At) {
        if at.stands() {
            let act = AwaitAct::CallNext;
            let _ = at.link.send(&Await { waiter, act });
        }
    }

    /// A client waits no more.
    pub fn end_await_abroad(&self, waiter: u64, at: &[At]) {
        let Some(links) = &self.links else { return };
        links.asking.waiters.borrow_mut().remove(&waiter);
        for at in at.iter().filter(|at| at.stands()) {
            let act = AwaitAct::End;
            // If that does not arrive the connection is over, and with it what was noted.
            let _ = at.link.send(&Await { waiter, act });
        }
    }

    /// A peer calls a client of this worker.
    pub(super) fn take_call(&self, version: u16, body: &[u8]) {
        let (Some(links), Ok(Called { waiter })) = (&self.links, read_message::<Called>(version, body)) else {
            return;
        };
        let wakeup = links
            .asking
            .waiters
            .borrow()
            .get(&waiter)
            .map(|waiter| waiter.wakeup.upgrade());
        if let Some(wakeup) = wakeup.flatten() {
            wakeup.call();
        }
    }

    /// Calls all clients for whom a worker of a peer looked after keys over a connection that is over.
    pub(super) fn call_all_over(&self, peer: &str, worker: u16) {
        let Some(links) = &self.links else { return };
        for waiter in links.asking.waiters.borrow().values() {
            if waiter.links.iter().any(|link| link.is_to(peer, worker))
                && let Some(wakeup) = waiter.wakeup.upgrade()
            {
                wakeup.call();
            }
        }
    }
}
