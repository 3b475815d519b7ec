//! What changes a hash.

use crate::data::Edit;
use tollgate_values::{Encoding, Hash};

impl Edit<'_, Hash> {
    /// Says that so many fields are about to be set, before the first of them.
    pub(crate) fn expect(&mut self, fields: usize) {
        self.note_if_packed();
        self.unmarked().expect(fields);
    }

    /// Sets a field; whether it is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.note_if_packed();
        if self.notes() {
            let name: Box<[u8]> = field.into();
            match self.get(field).map(Box::<[u8]>::from) {
                Some(before) => self.note(name.len() + before.len(), move |hash| {
                    hash.set(&name, &before);
                }),
                None => self.note(name.len(), move |hash| {
                    hash.remove(&name);
                }),
            }
        }
        self.raw().set(field, value)
    }

    /// Removes a field; whether it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        if self.notes()
            && let Some(value) = self.get(field)
        {
            let (name, value) = (Box::<[u8]>::from(field), Box::<[u8]>::from(value));
            self.note_if_packed();
            self.note(name.len() + value.len(), move |hash| {
                hash.set(&name, &value);
            });
        }
        let removed = self.unmarked().remove(field);
        if removed {
            // Marked once it is known: to look first would cost as much as the removal.
            self.raw();
        }
        removed
    }

    /// A listpack has an order, which only a copy brings back.
    fn note_if_packed(&mut self) {
        if self.encoding() == Encoding::Listpack {
            self.note_copy();
        }
    }
}
