//! Lists.

mod listpack;
mod search;

use std::collections::VecDeque;
use std::ops::Range;

use crate::allocation::{Buffer, size_class};
use crate::encoding::{Encoding, LIST_LISTPACK_BYTES_MAX};
use crate::packed::Owned;
use crate::sequence::{At, Chunk, Sequence};
pub use search::{PositionSearch, Removal};

/// Most elements of a deque.
const DEQUE_ELEMENTS: usize = if cfg!(test) { 16 } else { 512 };

/// A [list](https://redis.io/docs/latest/develop/data-types/lists/): deques of up to 512 elements, one after the other.
#[derive(Clone)]
pub struct List {
    deques: Sequence<Deque>,
    /// What all elements would take in one listpack.
    listpack_bytes: usize,
    quicklist: bool,
}

/// The left or the right of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where index 0 is.
    Left,
    /// Where index -1 is.
    Right,
}

#[derive(Clone, Default)]
struct Deque {
    elements: VecDeque<Owned>,
    heap_bytes: usize,
}

impl Chunk for Deque {
    fn len(&self) -> usize {
        self.elements.len()
    }

    fn allocated_bytes(&self) -> usize {
        self.elements.buffer_bytes() + self.heap_bytes
    }

    fn truncate(&mut self, len: usize) {
        self.heap_bytes -= self.elements.range(len..).map(Owned::heap_bytes).sum::<usize>();
        self.elements.truncate(len);
        self.elements.give_back();
    }
}

impl Deque {
    fn of(element: Owned) -> Deque {
        let mut deque = Deque::default();
        deque.insert(0, element);
        deque
    }

    fn insert(&mut self, at: usize, element: Owned) {
        self.heap_bytes += element.heap_bytes();
        self.elements.make_room();
        self.elements.insert(at, element);
    }

    fn replace(&mut self, at: usize, element: Owned) -> Owned {
        self.heap_bytes += element.heap_bytes();
        let old = std::mem::replace(&mut self.elements[at], element);
        self.heap_bytes -= old.heap_bytes();
        old
    }

    fn remove(&mut self, range: Range<usize>, show: &mut dyn FnMut(&Owned)) {
        for element in self.elements.drain(range) {
            self.heap_bytes -= element.heap_bytes();
            show(&element);
        }
        self.elements.give_back();
    }

    fn split_off(&mut self, at: usize) -> Deque {
        let elements = self.elements.split_off(at);
        let heap_bytes = elements.iter().map(Owned::heap_bytes).sum();
        self.heap_bytes -= heap_bytes;
        self.elements.give_back();
        Deque { elements, heap_bytes }
    }

    fn join(&mut self, next: Deque) {
        self.elements.reserve_exact(next.elements.len());
        self.elements.extend(next.elements);
        self.heap_bytes += next.heap_bytes;
    }
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl List {
    /// Without elements. Redis has no such value: give it some.
    pub fn new() -> List {
        List {
            deques: Sequence::new(Deque::default()),
            listpack_bytes: listpack::EMPTY_BYTES,
            quicklist: false,
        }
    }

    /// How many elements. O(1).
    pub fn len(&self) -> usize {
        self.deques.len()
    }

    /// Whether it has no element. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated, with the box it is in. O(1).
    pub fn bytes(&self) -> usize {
        size_class(size_of::<List>()) + self.deques.allocated_bytes()
    }

    /// A listpack until an insertion makes it larger than 8 KiB, then a quicklist, and a listpack again when a removal leaves 4 KiB.
    /// (Redis also wants what is left to be in one of the quicklist's nodes, which is mostly so.) O(1).
    pub fn encoding(&self) -> Encoding {
        if self.quicklist {
            Encoding::Quicklist
        } else {
            Encoding::Listpack
        }
    }

    /// Says that a command is about to push or insert elements of so many bytes in all, or to set one: it decides about the encoding
    /// beforehand, as in Redis. Once for all elements of a command; nothing else makes a quicklist. O(1).
    pub fn expect(&mut self, elements_bytes: usize) {
        self.quicklist |= self.listpack_bytes + elements_bytes > LIST_LISTPACK_BYTES_MAX;
    }

    fn after_removal(&mut self) {
        self.quicklist &= self.listpack_bytes > LIST_LISTPACK_BYTES_MAX / 2;
    }

    /// Puts an element at an end ([LPUSH](https://redis.io/docs/latest/commands/lpush/),
    /// [RPUSH](https://redis.io/docs/latest/commands/rpush/)); see [`List::expect`]. O(1).
    pub fn push(&mut self, end: End, element: &[u8]) {
        self.listpack_bytes += listpack::element_bytes(element);
        let element = Owned::new(element);
        let at = match end {
            End::Left => At::FIRST,
            End::Right => self.deques.last(),
        };
        let len = self.deques.chunk(at).len();
        let within = if end == End::Left { 0 } else { len };
        if len < DEQUE_ELEMENTS {
            self.deques.edit(at, |deque| deque.insert(within, element));
        } else if end == End::Right {
            self.deques.insert_after(at, Deque::of(element));
        } else {
            // A deque is put after another: the first one's elements move behind the new element's.
            let first = self.deques.edit(at, std::mem::take);
            self.deques.edit(at, |deque| deque.insert(0, element));
            self.deques.insert_after(at, first);
        }
    }

    /// Takes an element from an end ([LPOP](https://redis.io/docs/latest/commands/lpop/),
    /// [RPOP](https://redis.io/docs/latest/commands/rpop/)). O(1), now and then O(groups).
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        let last = self.len().checked_sub(1)?;
        let index = if end == End::Left { 0 } else { last };
        let mut popped = Vec::new();
        self.remove_range(index..index + 1, &mut |element| popped = element.to_vec());
        Some(popped)
    }

    /// The element at an index from the left ([LINDEX](https://redis.io/docs/latest/commands/lindex/)). O(deques).
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let (at, within) = self.deques.at_rank(index);
        self.deques.chunk(at).elements.get(within).map(|element| &**element)
    }

    /// Puts another element at an index ([LSET](https://redis.io/docs/latest/commands/lset/)); says whether there is one. See
    /// [`List::expect`]. O(deques).
    pub fn set(&mut self, index: usize, element: &[u8]) -> bool {
        if index >= self.len() {
            return false;
        }
        let (at, within) = self.deques.at_rank(index);
        let old = self.deques.edit(at, |deque| deque.replace(within, Owned::new(element)));
        self.listpack_bytes += listpack::element_bytes(element);
        self.listpack_bytes -= listpack::element_bytes(&old);
        self.after_removal();
        true
    }

    /// Puts an element before the one at an index, or at the end ([LINSERT](https://redis.io/docs/latest/commands/linsert/)): find the
    /// pivot with [`PositionSearch`]. See [`List::expect`]. O(deques), which splits one at most.
    pub fn insert(&mut self, index: usize, element: &[u8]) {
        if index >= self.len() {
            return self.push(End::Right, element);
        }
        self.listpack_bytes += listpack::element_bytes(element);
        let element = Owned::new(element);
        let (mut at, mut within) = self.deques.at_rank(index);
        if self.deques.chunk(at).len() >= DEQUE_ELEMENTS {
            let keep = DEQUE_ELEMENTS / 2;
            let upper = self.deques.edit(at, |deque| deque.split_off(keep));
            let upper = self.deques.insert_after(at, upper);
            // Inserting a deque can have moved the lower half to another group.
            at = if within > keep {
                upper
            } else {
                self.deques.previous(upper).unwrap_or(upper)
            };
            within = if within > keep { within - keep } else { within };
        }
        self.deques.edit(at, |deque| deque.insert(within, element));
    }

    /// Makes the encoding what it was before changes that have been taken back: what [`List::encoding`] said then. O(1).
    pub fn restore_encoding(&mut self, encoding: Encoding) {
        self.quicklist = encoding == Encoding::Quicklist;
    }

    /// The elements at those indexes ([LRANGE](https://redis.io/docs/latest/commands/lrange/)). O(deques) to start, then O(1) a step.
    pub fn range(&self, indexes: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let (at, within) = self.deques.at_rank(indexes.start.min(self.len()));
        let elements = self.deques.chunks_from(at).flat_map(|deque| &deque.elements);
        elements.skip(within).take(indexes.len()).map(|element| &**element)
    }

    /// The elements at those indexes, from the right: what RPOP takes. O(deques) to start, then O(1) a step.
    pub fn range_back(&self, indexes: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let end = indexes.end.min(self.len());
        let elements = self.elements_back_from(end).map(|element| &**element);
        elements.take(end.saturating_sub(indexes.start))
    }

    /// Removes the elements at those indexes: a step of LPOP and RPOP. O(indexes + deques).
    pub fn remove(&mut self, indexes: Range<usize>) {
        let end = indexes.end.min(self.len());
        self.remove_range(indexes.start.min(end)..end, &mut |_| {});
    }

    /// A step of [LTRIM](https://redis.io/docs/latest/commands/ltrim/): removes up to `budget` elements outside of those indexes, first
    /// from the right. Says which indexes are to be kept in the next step, or that there is none. O(budget + deques).
    #[must_use = "there may be more to remove"]
    pub fn trim_some(&mut self, keep: Range<usize>, budget: usize) -> Option<Range<usize>> {
        let len = self.len();
        let keep = if keep.is_empty() || keep.start >= len {
            0..0
        } else {
            keep.start..keep.end.min(len)
        };
        let right = (len - keep.end).min(budget);
        self.remove_range(len - right..len, &mut |_| {});
        let left = keep.start.min(budget - right);
        self.remove_range(0..left, &mut |_| {});
        let keep = keep.start - left..keep.end - left;
        (keep != (0..self.len())).then_some(keep)
    }

    /// Removes the elements at those indexes, which are there.
    fn remove_range(&mut self, indexes: Range<usize>, show: &mut dyn FnMut(&Owned)) {
        let mut left = indexes.len();
        let mut freed = 0;
        while left > 0 {
            let (at, within) = self.deques.at_rank(indexes.start);
            let here = left.min(self.deques.chunk(at).len() - within);
            debug_assert!(here > 0);
            self.deques.edit(at, |deque| {
                deque.remove(within..within + here, &mut |element| {
                    freed += listpack::element_bytes(element);
                    show(element);
                });
            });
            self.tidy(at);
            left -= here;
        }
        self.listpack_bytes -= freed;
        self.after_removal();
    }

    fn tidy(&mut self, at: At) {
        self.deques
            .tidy(at, DEQUE_ELEMENTS / 4, DEQUE_ELEMENTS * 3 / 4, Deque::join);
    }

    /// See [`crate::Value::drop_some`].
    #[must_use = "until it says true, there is more to drop"]
    pub fn drop_some(&mut self, elements: usize) -> bool {
        self.deques.drop_some(elements)
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.deques.check();
        let bytes: usize = self.range(0..self.len()).map(listpack::element_bytes).sum();
        assert_eq!(self.listpack_bytes, listpack::EMPTY_BYTES + bytes);
        assert!(self.deques.chunks_from(At::FIRST).all(|deque| {
            deque.len() <= DEQUE_ELEMENTS
                && deque.heap_bytes == deque.elements.iter().map(Owned::heap_bytes).sum::<usize>()
        }));
    }
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("List")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}
