//! Changes to lists, each with its inverse.

use crate::data::Edit;
use std::ops::Range;
use tollgate_values::{End, List, Removal};

impl Edit<'_, List> {
    /// Notes an inverse that makes the encoding what it was, too.
    fn note_change(&mut self, kept_bytes: usize, inverse: impl FnOnce(&mut List) + 'static) {
        let encoding = self.encoding();
        self.note(kept_bytes, move |list| {
            inverse(list);
            list.restore_encoding(encoding);
        });
    }

    /// Says that elements of so many bytes in all are about to be pushed or inserted: see [`List::expect`]. No change by itself.
    pub(crate) fn expect(&mut self, elements_bytes: usize) {
        self.note_change(0, |_| {});
        self.unmarked().expect(elements_bytes);
    }

    /// Puts an element at an end.
    pub(crate) fn push(&mut self, end: End, element: &[u8]) {
        self.note_change(0, move |list| {
            let last = list.len() - 1;
            match end {
                End::Left => list.remove(0..1),
                End::Right => list.remove(last..last + 1),
            }
        });
        self.raw().push(end, element);
    }

    /// Puts another element at an index, which is there.
    pub(crate) fn set(&mut self, index: usize, element: &[u8]) {
        if self.notes() {
            let before: Box<[u8]> = self.get(index).unwrap_or_default().into();
            self.note_change(before.len(), move |list| {
                list.set(index, &before);
            });
        }
        self.raw().set(index, element);
    }

    /// Puts an element before the one at an index, or at the end.
    pub(crate) fn insert(&mut self, index: usize, element: &[u8]) {
        self.note_change(0, move |list| list.remove(index..index + 1));
        self.raw().insert(index, element);
    }

    /// Removes some elements at an end, no more than a step's.
    pub(crate) fn remove_end(&mut self, end: End, count: usize) {
        let len = self.len();
        let count = count.min(len);
        if count == 0 {
            return;
        }
        let indexes = match end {
            End::Left => 0..count,
            End::Right => len - count..len,
        };
        if self.notes() {
            let removed = copies(self, indexes.clone());
            let bytes = size_of_val(&*removed) + removed.iter().map(|element| element.len()).sum::<usize>();
            self.note_change(bytes, move |list| put_back(list, end, &removed));
        }
        self.raw().remove(indexes);
    }

    /// A step of LTRIM: see [`List::trim_some`].
    pub(crate) fn trim_some(&mut self, keep: Range<usize>, budget: usize) -> Option<Range<usize>> {
        let len = self.len();
        let keep = if keep.is_empty() { 0..0 } else { keep };
        if keep == (0..len) {
            return None;
        }
        let right = (len - keep.end).min(budget);
        let left = keep.start.min(budget - right);
        self.remove_end(End::Right, right);
        self.remove_end(End::Left, left);
        let keep = keep.start - left..keep.end - left;
        (keep != (0..self.len())).then_some(keep)
    }

    /// A step of LREM: see [`List::remove_some`].
    pub(crate) fn remove_some(&mut self, removal: &mut Removal, element: &[u8], budget: usize) -> bool {
        let notes = self.notes();
        let encoding = self.encoding();
        let removed_before = removal.removed();
        let mut indexes = Vec::new();
        let done = self.unmarked().remove_some(removal, element, budget, &mut |index| {
            if notes {
                indexes.push(index);
            }
        });
        if removal.removed() > removed_before {
            // It has changed.
            self.raw();
        }
        if !indexes.is_empty() {
            let element: Box<[u8]> = element.into();
            let bytes = size_of_val(&*indexes) + element.len();
            self.note(bytes, move |list| {
                indexes.iter().rev().for_each(|&index| list.insert(index, &element));
                list.restore_encoding(encoding);
            });
        }
        done
    }
}

fn copies(list: &List, indexes: Range<usize>) -> Vec<Box<[u8]>> {
    list.range(indexes).map(Box::from).collect()
}

/// Puts elements that were at an end there again.
fn put_back(list: &mut List, end: End, elements: &[Box<[u8]>]) {
    match end {
        End::Left => elements.iter().rev().for_each(|element| list.push(end, element)),
        End::Right => elements.iter().for_each(|element| list.push(end, element)),
    }
}
