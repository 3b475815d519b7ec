//! How commands reach Redis values: by key, with type and expiry looked after.

use crate::keys::Present;
use crate::{CommandError, Env, Shard};
use tollgate_store::{Expiry, Key, Place, Space, Taken};
use tollgate_values::Value;

/// Entries dropped at most to make room for a value.
const DROPS_FOR_VALUE: usize = 8;

/// A type of value, as commands ask for it.
pub(crate) trait Typed: Sized {
    /// It, if the value is of this type.
    fn of(value: &Value) -> Option<&Self>;
    /// As [`Typed::of`], to change it.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
}

impl Typed for tollgate_values::StringValue {
    fn of(value: &Value) -> Option<&Self> {
        match value {
            Value::String(string) => Some(string),
            _ => None,
        }
    }

    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        match value {
            Value::String(string) => Some(string),
            _ => None,
        }
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

    /// Changes the value that [`Shard::read_at`] has just found at a place. `None` if it is no longer there, which nothing in between
    /// can have done.
    pub(crate) fn change_at<T: Typed, R>(&mut self, place: Place, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.store
            .change_value(place, |stored| T::of_mut(&mut stored.value).map(change))
            .flatten()
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
        self.remove_entry(key);
        let (clock_us, _) = self.slot_clock(env, key);
        if expires > Expiry::from_us(clock_us) {
            self.store.insert_value(key, Taken { expires, value });
        } else {
            self.store.bury(value);
        }
        Ok(())
    }

    /// Makes room before a value grows.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn make_room_for_value(&mut self) -> Result<(), CommandError> {
        self.make_room(DROPS_FOR_VALUE)
    }
}
