//! Redis values in the slot maps, beside the buckets.

use crate::blocks::Content;
use crate::changes::Role;
use crate::entry::{self, New};
use crate::expiry::Expiry;
use crate::key::Key;
use crate::store::{Place, Store};
use tollgate_values::{Value, size_class};

/// A Redis value with its key and the time from which it does not exist any more.
///
/// The entry in the page has that time rounded up, for the sweep; this is what counts.
#[derive(Debug)]
pub struct StoredValue {
    key: Box<[u8]>,
    /// In microseconds of the slot's clock.
    pub expires: Expiry,
    /// The value.
    pub value: Value,
}

impl StoredValue {
    /// Its key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Reads the start of its key, and of what the value points to.
    #[inline]
    pub(crate) fn touch_content(&self) -> u64 {
        u64::from(self.key.first().copied().unwrap_or_default()) + self.value.touch_box()
    }

    /// Bytes that it has allocated.
    pub(crate) fn allocated_bytes(&self) -> usize {
        // Value::bytes counts what is beyond the struct itself.
        size_class(size_of::<StoredValue>()) + size_class(self.key.len()) + self.value.bytes()
    }
}

/// A key as it was taken out of the store, to be put back, given to another key or lent.
#[derive(Debug)]
pub struct Taken {
    /// In microseconds of the slot's clock.
    pub expires: Expiry,
    /// The value.
    pub value: Value,
}

impl Store {
    /// The value at a place; `None` if a bucket is there.
    #[inline]
    pub fn value(&self, place: Place) -> Option<&StoredValue> {
        self.entry(place).value()
    }

    /// Changes the value at a place, and marks the entry as changed. `None` if a bucket is there. A value that has become empty
    /// has to be removed by the caller, as has one whose new expiry has passed.
    pub fn change_value<T>(&mut self, place: Place, change: impl FnOnce(&mut StoredValue) -> T) -> Option<T> {
        self.check(place);
        let local = usize::from(place.local_slot);
        let base = self.base;
        let mark = self.metas[local].period;
        let is_held = self.metas[local].role == Role::Held;
        let table = &mut self.tables[usize::from(place.keyspace)];
        let (map, shop) = table.map_to_change(local, &self.hasher, self.bounds);
        let before = map.allocated_bytes();
        let changed = map.change(place.page, |page| {
            let mut view = page.view_mut(shop.arena);
            let (bytes, blocks) = view.entry_mut(place.spot.offset);
            let number = entry::value_number(bytes)?;
            let (changed, before, expires) = blocks.as_deref_mut()?.change_value(number, |stored| {
                let before = stored.expires;
                let changed = change(stored);
                (changed, before, stored.expires)
            })?;
            let coarse = base.round_up(expires);
            let is_listed = entry::mark(bytes) == mark;
            entry::mark_value(bytes, coarse, mark);
            page.min_expiry = page.min_expiry.min(coarse.0);
            Some((changed, before, expires, is_listed))
        });
        self.bytes = self.bytes - before + map.allocated_bytes();
        let (changed, was, is, is_listed) = changed?;
        table.count_expiry(local, is_held, was, is);
        if !is_listed {
            self.list_marked(place);
        }
        Some(changed)
    }

    /// Sets until when the value at a place exists, and marks the entry as changed; `false` if a bucket is there.
    pub fn set_value_expiry(&mut self, place: Place, expires: Expiry) -> bool {
        self.check(place);
        let local = usize::from(place.local_slot);
        let coarse = self.base.round_up(expires);
        let mark = self.metas[local].period;
        let is_held = self.metas[local].role == Role::Held;
        let table = &mut self.tables[usize::from(place.keyspace)];
        let page = table.maps[local].page_mut(place.page);
        let mut view = page.view_mut(&mut table.arena);
        let (bytes, blocks) = view.entry_mut(place.spot.offset);
        let Some(stored) = entry::value_number(bytes).and_then(|number| blocks.as_deref_mut()?.value_mut(number))
        else {
            return false;
        };
        let before = std::mem::replace(&mut stored.expires, expires);
        let is_listed = entry::mark(bytes) == mark;
        entry::mark_value(bytes, coarse, mark);
        page.min_expiry = page.min_expiry.min(coarse.0);
        table.count_expiry(local, is_held, before, expires);
        if !is_listed {
            self.list_marked(place);
        }
        true
    }

    /// Adds the value of a key that has no entry.
    ///
    /// # Panics
    /// In debug builds, when the key has an entry.
    pub fn insert_value(&mut self, key: &Key, taken: Taken) -> Place {
        debug_assert!(self.find(key).is_none());
        let local = self.local(key.slot());
        self.list_key(key, local);
        let mark = self.metas[local].period;
        let expiry = self.base.round_up(taken.expires);
        let stored = Box::new(StoredValue {
            key: key.bytes().into(),
            expires: taken.expires,
            value: taken.value,
        });
        self.insert_entry(
            key,
            local,
            &mut New::Value {
                stored: Some(stored),
                expiry,
                mark,
            },
        )
    }

    /// Takes the value of a key out of the store; `None` if there is none, or a bucket.
    pub fn take_value(&mut self, place: Place) -> Option<Taken> {
        self.value(place)?;
        match self.remove_entry(place)? {
            Content::Value(stored) => Some(Taken {
                expires: stored.expires,
                value: stored.value,
            }),
            Content::Bytes(_) => None,
        }
    }
}
