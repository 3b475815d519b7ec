//! What takes back the writes of a script that is stopped, or that has to start again.
//!
//! While a shard has an [`UndoLog`], the first write to a key notes what it held: nothing, a bucket, or a value. A small value is
//! copied, so that its order and encoding come back, too; a replaced or removed one is moved into the log. A large value is neither
//! copied nor moved: each change to it notes its inverse.

use crate::Shard;
use crate::data::DROPS_FOR_VALUE;
use crate::rename::in_clock_ahead;
use crate::table::Spec;
use std::collections::HashSet;
use tollgate_script::ParamsId;
use tollgate_store::{Entry, Expiry, Key, Numbers, Place, Space, State, Taken};
use tollgate_values::Value;

/// Bytes of the largest value that is copied before its first change.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Steps up to which they are searched for a key.
const SEARCHED_MAX: usize = 16;

/// Takes one change back.
pub(crate) type Inverse<T> = Box<dyn FnOnce(&mut T)>;

/// The writes of one run, newest last.
#[derive(Default)]
pub struct UndoLog {
    steps: Vec<Undo>,
    /// Keys of which the log has all that they held, so that what else happens to them needs no note; as long as there are few steps,
    /// they are searched instead.
    complete: HashSet<(Space, Box<[u8]>)>,
    /// How many steps have all that a key held.
    restores: usize,
    /// What it takes, and those before it of the same run: copies, inverses and names of keys. What was moved here counts no more than
    /// where it was.
    bytes: usize,
    /// Keys whose change somebody wants to know about.
    changed: HashSet<(Space, Box<[u8]>)>,
}

impl std::fmt::Debug for UndoLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UndoLog")
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

struct Undo {
    space: Space,
    key: Box<[u8]>,
    act: Act,
}

enum Act {
    /// The key held this.
    Restore(Held),
    /// Its value was changed.
    Change(Inverse<Value>),
    /// Its value had this expiry.
    Expiry(Expiry),
    /// It has what another key held, whose slot's clock is so far behind.
    Moved { from: (Space, Box<[u8]>), ahead_us: i64 },
}

/// What a key held.
#[derive(Debug)]
pub enum Held {
    /// Nothing.
    Nothing,
    /// A value.
    Value(Taken),
    /// A bucket.
    Bucket(HeldBucket),
}

/// A bucket outside of its store. Its parameters are counted as in use.
#[derive(Debug)]
pub struct HeldBucket {
    pub(crate) params: ParamsId,
    pub(crate) expiry: Expiry,
    pub(crate) pinned: bool,
    pub(crate) state: HeldState,
}

/// The state of such a bucket.
#[derive(Debug)]
pub(crate) enum HeldState {
    Numbers(Numbers),
    Blob(Box<[u8]>),
}

impl HeldState {
    fn bytes(&self) -> usize {
        match self {
            Self::Numbers(_) => 0,
            Self::Blob(bytes) => bytes.len(),
        }
    }
}

impl UndoLog {
    /// The log of what comes after other writes of the same run, whose logs take so many bytes.
    pub fn after(bytes: usize) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Bytes that it takes, and those before it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn is_complete(&self, key: &Key<'_>) -> bool {
        if self.restores == 0 {
            return false;
        }
        if self.complete.is_empty() {
            // The newest step that says whether the log has all.
            let is_it = |space: Space, bytes: &[u8]| space == key.space() && *bytes == *key.bytes();
            let found = self.steps.iter().rev().find_map(|step| match &step.act {
                Act::Restore(_) => is_it(step.space, &step.key).then_some(true),
                Act::Moved { from, .. } => (is_it(step.space, &step.key) || is_it(from.0, &from.1)).then_some(false),
                Act::Change(_) | Act::Expiry(_) => None,
            });
            return found.unwrap_or(false);
        }
        // A look-up by parts would need a key type of its own.
        self.complete.contains(&(key.space(), Box::from(key.bytes())))
    }

    /// `copied_bytes` is what the step has copied, beyond its own size.
    fn note(&mut self, key: &Key<'_>, act: Act, copied_bytes: usize) {
        self.bytes += size_of::<Undo>() + key.bytes().len() + copied_bytes;
        let is_all = matches!(act, Act::Restore(_));
        self.steps.push(Undo {
            space: key.space(),
            key: key.bytes().into(),
            act,
        });
        if !is_all {
            return;
        }
        self.restores += 1;
        if !self.complete.is_empty() {
            self.complete.insert((key.space(), key.bytes().into()));
        } else if self.steps.len() >= SEARCHED_MAX {
            for step in &self.steps {
                let of = (step.space, step.key.clone());
                match &step.act {
                    Act::Restore(_) => {
                        self.complete.insert(of);
                    }
                    Act::Moved { from, .. } => {
                        self.complete.remove(&of);
                        self.complete.remove(from);
                    }
                    Act::Change(_) | Act::Expiry(_) => {}
                }
            }
        }
    }

    /// What either key holds now is not what the log has of it.
    pub(crate) fn note_move(&mut self, from: &Key<'_>, to: &Key<'_>, ahead_us: i64) {
        let from = (from.space(), Box::from(from.bytes()));
        self.complete.remove(&from);
        self.complete.remove(&(to.space(), Box::from(to.bytes())));
        let bytes = from.1.len();
        self.note(to, Act::Moved { from, ahead_us }, bytes);
    }

    pub(crate) fn note_changed(&mut self, key: &Key<'_>) {
        self.changed.insert((key.space(), key.bytes().into()));
    }

    pub(crate) fn note_inverse(&mut self, key: &Key<'_>, inverse: Inverse<Value>, kept_bytes: usize) {
        self.note(key, Act::Change(inverse), kept_bytes);
    }
}

/// How a write is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noting {
    /// Not at all: nothing is to be undone, or the log has all that the key held.
    Nothing,
    /// By its inverse.
    Inverse,
}

impl Shard {
    /// Prepares the log for a change of the value at a place.
    pub(crate) fn note_before_change(&mut self, key: &Key<'_>, place: Place) -> Noting {
        let Some(undo) = &mut self.undo else {
            return Noting::Nothing;
        };
        if undo.is_complete(key) {
            return Noting::Nothing;
        }
        let Some(stored) = self.store.value(place) else {
            return Noting::Nothing;
        };
        if stored.value.bytes() > COPIED_BYTES_MAX {
            return Noting::Inverse;
        }
        let bytes = stored.value.bytes();
        let before = Taken {
            expires: stored.expires,
            value: stored.value.clone(),
        };
        undo.note(key, Act::Restore(Held::Value(before)), bytes);
        Noting::Nothing
    }

    /// Prepares the log for a change of the expiry of a key's value.
    pub(crate) fn note_before_expiry(&mut self, key: &Key<'_>, place: Place) {
        if let (Some(undo), Some(stored)) = (&mut self.undo, self.store.value(place))
            && !undo.is_complete(key)
        {
            undo.note(key, Act::Expiry(stored.expires), 0);
        }
    }

    /// Prepares the log for a change of a bucket, or for the making of one.
    pub(crate) fn note_before_bucket(&mut self, key: &Key<'_>) {
        if self.undo.as_ref().is_none_or(|undo| undo.is_complete(key)) {
            return;
        }
        let before = match self.store.find(key) {
            None => Held::Nothing,
            Some(place) => match self.copy_bucket(place) {
                Some(bucket) => Held::Bucket(bucket),
                // A value: the change will be refused, or begins with the removal of what has expired.
                None => return,
            },
        };
        if let Some(undo) = &mut self.undo {
            let bytes = match &before {
                Held::Bucket(bucket) => bucket.state.bytes(),
                Held::Nothing | Held::Value(_) => 0,
            };
            undo.note(key, Act::Restore(before), bytes);
        }
    }

    /// Whether a command may write no more, since the log of the run has grown to its bound.
    #[inline]
    pub(crate) fn is_undo_full(&self, spec: &Spec) -> bool {
        let is_full = self.undo.as_ref().is_some_and(|undo| undo.bytes >= self.undo_bytes_max);
        is_full && spec.has_flag("write")
    }

    fn copy_bucket(&mut self, place: Place) -> Option<HeldBucket> {
        let Entry::Bucket(bucket) = self.store.view(place).entry else {
            return None;
        };
        let params = ParamsId(bucket.params);
        let held = HeldBucket {
            params,
            expiry: bucket.expiry,
            pinned: bucket.pinned,
            state: match bucket.state {
                State::Numbers(numbers) => HeldState::Numbers(numbers),
                State::Blob(bytes) => HeldState::Blob(bytes.into()),
            },
        };
        self.policies.retain(params);
        Some(held)
    }

    /// Notes that a key which holds nothing is about to get something.
    pub(crate) fn note_before_insert(&mut self, key: &Key<'_>) {
        if let Some(undo) = &mut self.undo
            && !undo.is_complete(key)
        {
            undo.note(key, Act::Restore(Held::Nothing), 0);
        }
    }

    /// Takes what a key holds out of the store. What is counted of a bucket stays counted.
    pub(crate) fn take_held(&mut self, key: &Key<'_>) -> Held {
        let Some(place) = self.store.find(key) else {
            return Held::Nothing;
        };
        if let Some(bucket) = self.copy_bucket(place) {
            self.remove_unnoted(key);
            return Held::Bucket(bucket);
        }
        match self.store.take_value(place) {
            Some(taken) => Held::Value(taken),
            None => Held::Nothing,
        }
    }

    /// Puts back what [`Shard::take_held`] took. Room is made if it can be, but what existed before is never refused.
    pub(crate) fn put_held(&mut self, key: &Key<'_>, held: Held) {
        self.remove_unnoted(key);
        match held {
            Held::Nothing => {}
            Held::Value(taken) => {
                let _ = self.make_room(DROPS_FOR_VALUE);
                self.store.insert_value(key, taken);
            }
            Held::Bucket(bucket) => {
                let state = match &bucket.state {
                    HeldState::Numbers(numbers) => State::Numbers(*numbers),
                    HeldState::Blob(bytes) => State::Blob(bytes),
                };
                let put = self
                    .store
                    .put(key, bucket.params.0, bucket.expiry, bucket.pinned, state);
                debug_assert!(put.is_ok(), "it was in a store before");
            }
        }
    }

    /// Removes what a key holds, for a write that is to be undone perhaps: a value is moved into the log. Whether there was anything.
    pub(crate) fn remove_noted(&mut self, key: &Key<'_>) -> bool {
        if self.undo.as_ref().is_none_or(|undo| undo.is_complete(key)) {
            return self.remove_unnoted(key);
        }
        let held = self.take_held(key);
        let existed = !matches!(held, Held::Nothing);
        if let Some(undo) = self.undo.as_mut().filter(|_| existed) {
            undo.note(key, Act::Restore(held), 0);
        }
        existed
    }

    pub(crate) fn move_held(&mut self, from: &Key<'_>, to: &Key<'_>, ahead_us: i64) {
        let mut held = self.take_held(from);
        if let Held::Value(taken) = &mut held {
            taken.expires = in_clock_ahead(taken.expires, ahead_us);
        }
        self.put_held(to, held);
    }

    /// Gives the shard a log to note writes in, or takes it away.
    pub fn swap_log(&mut self, log: Option<UndoLog>) -> Option<UndoLog> {
        std::mem::replace(&mut self.undo, log)
    }

    /// Takes the writes of a log back, and ends it.
    pub fn roll_back(&mut self, log: UndoLog) {
        debug_assert!(self.undo.is_none());
        for Undo { space, key, act } in log.steps.into_iter().rev() {
            // The key was this store's when it was noted.
            let Ok(key) = self.store.key(space, &key) else { continue };
            match act {
                Act::Restore(held) => self.put_held(&key, held),
                Act::Change(inverse) => {
                    if let Some(place) = self.store.find(&key) {
                        self.store.change_value(place, |stored| inverse(&mut stored.value));
                    }
                }
                Act::Moved {
                    from: (space, bytes),
                    ahead_us,
                } => {
                    if let Ok(from) = self.store.key(space, &bytes) {
                        self.move_held(&key, &from, -ahead_us);
                    }
                }
                Act::Expiry(expires) => {
                    if let Some(place) = self.store.find(&key) {
                        self.store.set_value_expiry(place, expires);
                    }
                }
            }
        }
    }

    /// Ends a log whose writes stand.
    pub fn commit(&mut self, log: UndoLog) {
        for (space, key) in log.changed {
            self.note_standing_change(space, &key);
        }
        for step in log.steps {
            match step.act {
                Act::Restore(Held::Bucket(bucket)) => self.policies.release(bucket.params),
                Act::Restore(Held::Value(taken)) => self.store.bury(taken.value),
                _ => {}
            }
        }
    }
}
