//! How commands reach Redis values: by key, with type, expiry, memory, undoing and whoever watches a key looked after.
//!
//! Every write goes through [`Shard::change_at`], [`Shard::edit`], [`Shard::set_value`], [`Shard::set_value_expiry`],
//! [`Shard::move_entry`] or [`Shard::remove_entry`].

use crate::keys::Present;
use crate::undo::{Inverse, Noting};
use crate::{CommandError, Env, Shard};
use std::ops::Deref;
use tollgate_store::{Expiry, Key, Place, Space, Taken};
use tollgate_values::{Hash, HashSeed, List, Set, SortedSet, StringValue, Value};

/// Entries dropped at most to make room for a value.
pub(crate) const DROPS_FOR_VALUE: usize = 8;

/// A type of value, as commands ask for it.
pub(crate) trait Typed: Sized + 'static {
    /// It, if the value is of this type.
    fn of(value: &Value) -> Option<&Self>;
    /// As [`Typed::of`], to change it.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// As a value of any type.
    fn into_value(self) -> Value;
    /// Whether a key with it does not exist: all but strings go when their last element does.
    fn is_gone(&self) -> bool;
    /// Bytes that it has allocated.
    fn allocated_bytes(&self) -> usize;
}

macro_rules! typed {
    ($kind:ident, $gone:expr) => {
        typed!($kind, $kind, $gone);
    };
    ($variant:ident, $kind:ident, $gone:expr) => {
        impl Typed for $kind {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$variant(Box::new(self))
            }

            fn is_gone(&self) -> bool {
                $gone(self)
            }

            fn allocated_bytes(&self) -> usize {
                self.bytes()
            }
        }
    };
}

typed!(String, StringValue, |_: &StringValue| false);
typed!(List, List::is_empty);
typed!(Set, Set::is_empty);
typed!(Hash, Hash::is_empty);
typed!(SortedSet, SortedSet::is_empty);

/// A value under change. It reads as the value; what changes it are methods of each type's own file, which note the inverse where one
/// is wanted.
pub(crate) struct Edit<'a, T> {
    value: &'a mut T,
    inverses: Option<&'a mut Vec<Inverse<T>>>,
    /// Bytes that they take.
    inverses_bytes: usize,
    /// The inverse that was noted first brings back all of it.
    copied: bool,
    changed: bool,
}

impl<T> Deref for Edit<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<'a, T> Edit<'a, T> {
    fn new(value: &'a mut T, inverses: Option<&'a mut Vec<Inverse<T>>>) -> Self {
        Self {
            value,
            inverses,
            inverses_bytes: 0,
            copied: false,
            changed: false,
        }
    }

    /// Whether the inverse of a change has to be noted.
    pub(crate) fn notes(&self) -> bool {
        self.inverses.is_some() && !self.copied
    }

    /// Notes what takes the change back that comes next, or that was just made; it keeps so many bytes of elements. Nothing happens
    /// where no inverse is wanted; ask [`Edit::notes`] before making an expensive one.
    pub(crate) fn note(&mut self, kept_bytes: usize, inverse: impl FnOnce(&mut T) + 'static) {
        if let Some(inverses) = self.inverses.as_mut().filter(|_| !self.copied) {
            self.inverses_bytes += size_of::<Inverse<T>>() + size_of_val(&inverse) + kept_bytes;
            inverses.push(Box::new(inverse));
        }
    }

    /// Notes a copy of the value, after which none of this edit's changes has to be noted: where an inverse would not bring back the
    /// order of the elements, or how they are kept.
    pub(crate) fn note_copy(&mut self)
    where
        T: Typed + Clone,
    {
        if self.notes() {
            let before = self.value.clone();
            self.note(before.allocated_bytes(), move |value| *value = before);
            self.copied = true;
        }
    }

    /// The value, to change it without that counting as a change: only how it is kept, or until it turns out whether anything changes.
    pub(crate) fn unmarked(&mut self) -> &mut T {
        self.value
    }

    /// The value, to change it. Until this is called, nothing has changed.
    pub(crate) fn raw(&mut self) -> &mut T {
        self.changed = true;
        self.value
    }
}

impl Shard {
    /// The key of the selected database.
    pub(crate) fn data_key<'a>(&self, env: &Env, key: &'a [u8]) -> Result<Key<'a>, CommandError> {
        self.bucket_key(Space::Db(env.db), key)
    }

    /// What a key holds if it exists. What does not exist any more but was not dropped yet is dropped now, so that something else
    /// can be stored.
    pub(crate) fn settled(&mut self, env: &Env, key: &Key<'_>) -> Option<Present> {
        let present = self.present(env.now_us, key);
        if present.is_none() {
            self.remove_entry(key);
        }
        present
    }

    /// The value of a key, if it exists, and where it is.
    ///
    /// # Errors
    /// WRONGTYPE if it is of another type, or a bucket.
    pub(crate) fn read_at<T: Typed>(&mut self, env: &Env, key: &Key<'_>) -> Result<Option<(Place, &T)>, CommandError> {
        let Some(Present { place, .. }) = self.settled(env, key) else {
            return Ok(None);
        };
        let value = self.store.value(place).and_then(|stored| T::of(&stored.value));
        value.map(|value| Some((place, value))).ok_or(CommandError::WrongType)
    }

    /// The value of a key, if it exists.
    ///
    /// # Errors
    /// As [`Shard::read_at`].
    pub(crate) fn read<T: Typed>(&mut self, env: &Env, key: &Key<'_>) -> Result<Option<&T>, CommandError> {
        Ok(self.read_at(env, key)?.map(|(_, value)| value))
    }

    /// Changes the value that [`Shard::read_at`] has just found at a place; one that has no element left is removed. `None` if it is no
    /// longer there, which nothing in between can have done.
    pub(crate) fn change_at<T: Typed, R>(
        &mut self,
        key: &Key<'_>,
        place: Place,
        change: impl FnOnce(&mut Edit<'_, T>) -> R,
    ) -> Option<R> {
        let mut inverses = match self.note_before_change(key, place) {
            Noting::Nothing => None,
            Noting::Inverse => Some(Vec::new()),
        };
        let (result, changed, gone, inverses_bytes) = self
            .store
            .change_value(place, |stored| {
                let mut edit = Edit::new(T::of_mut(&mut stored.value)?, inverses.as_mut());
                let result = change(&mut edit);
                Some((result, edit.changed, edit.is_gone(), edit.inverses_bytes))
            })
            .flatten()?;
        if let (Some(inverses), Some(undo)) = (inverses.filter(|inverses| !inverses.is_empty()), &mut self.undo) {
            undo.note_inverse(
                key,
                Box::new(move |value| {
                    if let Some(value) = T::of_mut(value) {
                        inverses.into_iter().rev().for_each(|inverse| inverse(value));
                    }
                }),
                inverses_bytes,
            );
        }
        if gone {
            self.remove_entry(key);
        } else if changed {
            self.note_change(key);
        }
        Some(result)
    }

    /// Changes the value of a key; without one, what `create` makes is changed and then stored for ever. A value without elements is
    /// not kept, nor is one made that `change` leaves unchanged.
    ///
    /// # Errors
    /// WRONGTYPE; out of memory. Nothing has changed then.
    pub(crate) fn edit<T: Typed, R>(
        &mut self,
        env: &Env,
        key: &Key<'_>,
        create: impl FnOnce(HashSeed) -> T,
        change: impl FnOnce(&mut Edit<'_, T>) -> R,
    ) -> Result<R, CommandError> {
        self.make_room_for_value()?;
        if let Some((place, _)) = self.read_at::<T>(env, key)? {
            let changed = self.change_at(key, place, change);
            return changed.ok_or(CommandError::WrongType);
        }
        let mut value = create(self.hash_seed);
        let mut edit = Edit::new(&mut value, None);
        let result = change(&mut edit);
        if edit.changed && !edit.is_gone() {
            self.note_before_insert(key);
            let expires = Expiry::NEVER;
            self.store.insert_value(
                key,
                Taken {
                    expires,
                    value: value.into_value(),
                },
            );
            self.note_change(key);
        }
        Ok(result)
    }

    /// Stores a value in place of whatever the key holds.
    ///
    /// # Errors
    /// Out of memory; nothing has changed then.
    pub(crate) fn set_value(
        &mut self,
        env: &Env,
        key: &Key<'_>,
        value: Value,
        expires: Expiry,
    ) -> Result<(), CommandError> {
        self.make_room(DROPS_FOR_VALUE)?;
        self.put_value(env, key, value, expires);
        Ok(())
    }

    /// As [`Shard::set_value`], in a command that has begun to write and must not fail: it has made room before.
    pub(crate) fn put_value(&mut self, env: &Env, key: &Key<'_>, value: Value, expires: Expiry) {
        let (clock_us, _) = self.slot_clock(env, key);
        let stays = expires > Expiry::from_us(clock_us);
        // Where a value is already, its entry stays: taking it out and putting another in costs four times as much.
        if stays
            && self.undo.is_none()
            && let Some(place) = self.store.find(key)
            && self.store.value(place).is_some()
        {
            let before = self.store.change_value(place, |stored| {
                stored.expires = expires;
                std::mem::replace(&mut stored.value, value)
            });
            before.into_iter().for_each(|before| self.store.bury(before));
            return self.note_change(key);
        }
        if !self.remove_noted(key) {
            self.note_before_insert(key);
        }
        if stays {
            self.store.insert_value(key, Taken { expires, value });
        } else {
            self.store.bury(value);
        }
        self.note_change(key);
    }

    /// Sets until when the value of a key exists; one whose time has passed is removed.
    pub(crate) fn set_value_expiry(&mut self, env: &Env, key: &Key<'_>, expires: Expiry) {
        let (clock_us, _) = self.slot_clock(env, key);
        if expires <= Expiry::from_us(clock_us) {
            self.remove_entry(key);
        } else if let Some(place) = self.store.find(key) {
            self.note_before_expiry(key, place);
            self.store.set_value_expiry(place, expires);
            self.note_change(key);
        }
    }

    /// Removes what a key holds; whether that was anything.
    pub(crate) fn remove_entry(&mut self, key: &Key<'_>) -> bool {
        let existed = self.remove_noted(key);
        if existed {
            self.note_change(key);
            if self.has_journals() {
                self.journal_returned(key, None);
            }
        }
        existed
    }

    /// Moves what a key holds to another one in this shard, in place of what that holds, and whose slot's clock is so far ahead.
    pub(crate) fn move_entry(&mut self, from: &Key<'_>, to: &Key<'_>, ahead_us: i64) {
        if !self.remove_noted(to) {
            self.note_before_insert(to);
        }
        self.move_held(from, to, ahead_us);
        if let Some(undo) = &mut self.undo {
            undo.note_move(from, to, ahead_us);
        }
        self.note_change(from);
        self.note_change(to);
    }

    /// Makes room before a value grows.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn make_room_for_value(&mut self) -> Result<(), CommandError> {
        self.make_room(DROPS_FOR_VALUE)
    }
}
