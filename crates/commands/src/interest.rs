//! Who wants to know when a key changes: connections that watch it, connections that wait for it, and the shard it was lent by.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tollgate_store::{Key, Space, Store, slot_of};
use tollgate_values::Value;

use crate::{Env, RunId, Shard};

/// Set when a watched key changes (<https://redis.io/docs/latest/develop/interact/transactions/>).
#[derive(Debug, Default)]
pub struct WatchMark(AtomicBool);

impl WatchMark {
    /// Whether a key that it is for has changed.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sets it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Told when a key that a blocked connection waits for may have something for it.
#[derive(Debug, Default)]
pub struct Wakeup {
    called: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Wakeup {
    /// Calls whoever waits, now or later.
    pub fn call(&self) {
        self.called.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready once it was called since the last time this was ready.
    pub fn poll_called(&self, cx: &Context<'_>) -> Poll<()> {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        match self.called.swap(false, Ordering::AcqRel) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Watched keys up to which nobody looks for those that are no longer.
const TIDY_MIN: usize = 1_024;

type KeyOf = (Space, Box<[u8]>);

/// What is to be told of changes in a shard.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    watched: HashMap<KeyOf, Vec<Arc<WatchMark>>>,
    /// Watched keys at which those are looked for that nobody watches any more.
    tidy_at: usize,
    /// Longest first.
    waiting: HashMap<KeyOf, VecDeque<Arc<Wakeup>>>,
    /// Keys of other shards that are here, and whether they have changed.
    guests: HashMap<KeyOf, Guest>,
}

/// A key of another shard.
#[derive(Debug)]
struct Guest {
    run: RunId,
    changed: bool,
}

impl Interest {
    /// Whether nobody wants to know anything.
    #[inline]
    fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.waiting.is_empty() && self.guests.is_empty()
    }

    /// Whether a key is watched.
    #[inline]
    pub(crate) fn watches_any(&self) -> bool {
        !self.watched.is_empty() || !self.guests.is_empty()
    }

    pub(crate) fn admit(&mut self, space: Space, key: &[u8], run: RunId) {
        self.guests.insert((space, key.into()), Guest { run, changed: false });
    }

    /// Whether a key is here for that run.
    pub(crate) fn is_guest_of(&self, space: Space, key: &[u8], run: RunId) -> bool {
        // A look-up by parts would need a key type of its own; there are guests only while keys are lent.
        let guest = match self.guests.is_empty() {
            true => None,
            false => self.guests.get(&(space, key.into())),
        };
        guest.is_some_and(|guest| guest.run == run)
    }

    /// All guests of a run.
    pub(crate) fn guests_of_run(&self, run: RunId) -> Vec<(Space, Box<[u8]>)> {
        let of_run = self.guests.iter().filter(|(_, guest)| guest.run == run);
        of_run.map(|(of, _)| of.clone()).collect()
    }

    /// Whether a guest has changed.
    pub(crate) fn has_changed(&self, space: Space, key: &[u8]) -> bool {
        let guest = self.guests.get(&(space, Box::from(key)));
        guest.is_some_and(|guest| guest.changed)
    }

    /// Whether the guest has changed; `None` if there is none.
    pub(crate) fn dismiss(&mut self, space: Space, key: &[u8]) -> Option<bool> {
        self.guests.remove(&(space, key.into())).map(|guest| guest.changed)
    }

    fn changed(&mut self, key: &Key<'_>, store: &Store) {
        let of = (key.space(), Box::from(key.bytes()));
        if let Some(guest) = self.guests.get_mut(&of) {
            guest.changed = true;
            return;
        }
        if let Some(marks) = self.watched.remove(&of) {
            marks.iter().for_each(|mark| mark.set());
        }
        if let Some(waiting) = self.waiting.get(&of)
            && let Some(first) = waiting.front()
            && is_served_from(key, store)
        {
            first.call();
        }
    }
}

/// Whether a key holds something that is waited for.
fn is_served_from(key: &Key<'_>, store: &Store) -> bool {
    let stored = store.find(key).and_then(|place| store.value(place));
    stored.is_some_and(|stored| matches!(stored.value, Value::List(_) | Value::SortedSet(_)))
}

impl Shard {
    /// Notes that a key holds something else than before, for who watches it or waits for it.
    #[inline]
    pub(crate) fn note_change(&mut self, key: &Key<'_>) {
        if self.interest.is_empty() {
            return;
        }
        // What may be taken back is not told before it stands.
        match &mut self.undo {
            Some(undo) => undo.note_changed(key),
            None => self.interest.changed(key, &self.store),
        }
    }

    /// As [`Shard::note_change`], of a change that stands.
    pub(crate) fn note_standing_change(&mut self, space: Space, key: &[u8]) {
        if let Ok(key) = self.store.key(space, key) {
            self.interest.changed(&key, &self.store);
        }
    }

    /// Removes what a key holds if its time has come; whether it had.
    pub fn expire_if_due(&mut self, env: &Env, key: &[u8]) -> bool {
        let Ok(key) = self.data_key(env, key) else {
            return false;
        };
        let was_there = self.store.find(&key).is_some();
        was_there && self.settled(env, &key).is_none()
    }

    /// Sets a mark when a key changes.
    pub fn watch(&mut self, env: &Env, key: &[u8], mark: &Arc<WatchMark>) {
        // What has expired already is no change later.
        self.expire_if_due(env, key);
        let db = env.db;
        let watched = &mut self.interest.watched;
        if watched.len() >= self.interest.tidy_at {
            watched.retain(|_, marks| {
                marks.retain(|mark| Arc::strong_count(mark) > 1);
                !marks.is_empty()
            });
            self.interest.tidy_at = (2 * watched.len()).max(TIDY_MIN);
        }
        let marks = self.interest.watched.entry((Space::Db(db), key.into())).or_default();
        // Those of connections that no longer watch.
        marks.retain(|mark| Arc::strong_count(mark) > 1);
        marks.push(Arc::clone(mark));
    }

    /// Calls when a key may have something for a connection that waits; the longest waiting first. A call that is of no use to the one
    /// called must be passed on, see [`Shard::call_next`].
    pub fn wait_for(&mut self, db: u8, key: &[u8], wakeup: &Arc<Wakeup>) {
        let waiting = self.interest.waiting.entry((Space::Db(db), key.into())).or_default();
        if !waiting.iter().any(|other| Arc::ptr_eq(other, wakeup)) {
            waiting.push_back(Arc::clone(wakeup));
        }
    }

    /// Calls the longest waiting for a key if there is something for it.
    pub(crate) fn call_waiting(&self, key: &Key<'_>) {
        if self.interest.waiting.is_empty() {
            return;
        }
        let waiting = self.interest.waiting.get(&(key.space(), Box::from(key.bytes())));
        if let Some(first) = waiting.and_then(VecDeque::front)
            && is_served_from(key, &self.store)
        {
            first.call();
        }
    }

    /// Calls the one that waits behind another, to which a call was of no use, if there is something for it.
    pub fn call_next(&self, db: u8, key: &[u8], after: &Arc<Wakeup>) {
        let waiting = self.interest.waiting.get(&(Space::Db(db), Box::from(key)));
        let Some(waiting) = waiting else { return };
        let next = waiting.iter().skip_while(|other| !Arc::ptr_eq(other, after)).nth(1);
        if let Some(next) = next
            && let Ok(key) = self.bucket_key(Space::Db(db), key)
            && is_served_from(&key, &self.store)
        {
            next.call();
        }
    }

    /// A slot is elsewhere from now on: what happens to its watched keys is not seen here, and who waits for one has to wait there.
    pub(crate) fn end_interest_in(&mut self, slot: u16) {
        let Interest { watched, waiting, .. } = &mut self.interest;
        for (_, marks) in watched.extract_if(|(_, key), _| slot_of(key) == slot) {
            marks.iter().for_each(|mark| mark.set());
        }
        for (_, waiting) in waiting.extract_if(|(_, key), _| slot_of(key) == slot) {
            waiting.iter().for_each(|wakeup| wakeup.call());
        }
    }

    /// Sets the marks of all watched keys that exist, or are lent, of a database or of all.
    pub(crate) fn note_flush(&mut self, db: Option<u8>) {
        let watched = &self.interest.watched;
        let of_db = |space: &Space| db.is_none_or(|db| *space == Space::Db(db));
        let keys: Vec<KeyOf> = watched.keys().filter(|(space, _)| of_db(space)).cloned().collect();
        for (space, bytes) in keys {
            let exists = self
                .store
                .key(space, &bytes)
                .is_ok_and(|key| self.store.find(&key).is_some());
            if (exists || self.holds.is_lent(&bytes))
                && let Some(marks) = self.interest.watched.remove(&(space, bytes))
            {
                marks.iter().for_each(|mark| mark.set());
            }
        }
    }

    /// Ends [`Shard::wait_for`], and calls the next if there is something for it.
    pub fn pass_on(&mut self, db: u8, key: &[u8], wakeup: &Arc<Wakeup>) {
        let of = (Space::Db(db), Box::from(key));
        let Some(waiting) = self.interest.waiting.get_mut(&of) else {
            return;
        };
        waiting.retain(|other| !Arc::ptr_eq(other, wakeup));
        if self.holds.is_lent(key) {
            self.holds.call_when_back(key);
        }
        let Some(first) = waiting.front().map(Arc::clone) else {
            self.interest.waiting.remove(&of);
            return;
        };
        if let Ok(key) = self.bucket_key(Space::Db(db), key)
            && is_served_from(&key, &self.store)
        {
            first.call();
        }
    }
}
