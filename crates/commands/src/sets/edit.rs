//! What changes a set.

use crate::data::Edit;
use tollgate_values::{Encoding, Set};

impl Edit<'_, Set> {
    /// Says that so many members are about to be added, before the first of them.
    pub(crate) fn expect(&mut self, members: usize) {
        self.note_if_packed();
        self.unmarked().expect(members);
    }

    /// Adds a member; whether it is new.
    pub(crate) fn add(&mut self, member: &[u8]) -> bool {
        if self.notes() && !self.contains(member) {
            self.note_if_packed();
            let member: Box<[u8]> = member.into();
            self.note(member.len(), move |set| {
                set.remove(&member);
            });
        }
        let added = self.unmarked().add(member);
        self.mark_if(added)
    }

    /// Removes a member; whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        if self.notes() && self.contains(member) {
            self.note_if_packed();
            self.note_removed(member);
        }
        let removed = self.unmarked().remove(member);
        self.mark_if(removed)
    }

    /// Marks the set as changed once it is known to be: to look first would cost as much as the change.
    fn mark_if(&mut self, changed: bool) -> bool {
        if changed {
            self.raw();
        }
        changed
    }

    /// Takes out a random member.
    pub(crate) fn pop(&mut self, random: u64) -> Option<Vec<u8>> {
        self.note_if_packed();
        let member = self.raw().pop(random)?;
        self.note_removed(&member);
        Some(member)
    }

    /// Keeps what is left of the members in less room, if it is little.
    pub(crate) fn rebuild(&mut self) {
        // As many as make a hashtable of it again, as which the members come back that were removed.
        self.note(0, |set| set.expect(usize::MAX));
        self.unmarked().rebuild();
    }

    fn note_removed(&mut self, member: &[u8]) {
        if self.notes() {
            let member: Box<[u8]> = member.into();
            self.note(member.len(), move |set| {
                set.add(&member);
            });
        }
    }

    /// A small set has an order, which only a copy brings back.
    fn note_if_packed(&mut self) {
        if self.encoding() != Encoding::Hashtable {
            self.note_copy();
        }
    }
}
