//! Small hashes, sets and sorted sets: all elements in one buffer.

use std::ops::Range;

use crate::allocation::size_class;
use crate::encoding::LISTPACK_ELEMENT_BYTES_MAX;

// The length before an element is one byte.
const _: () = assert!(LISTPACK_ELEMENT_BYTES_MAX <= u8::MAX as usize);

/// Records of `N` byte strings of up to 64 bytes, in the order in which they were put; each string has its length before it. The first one
/// of a record is its key, which is found by looking at each: O(records).
#[derive(Clone, Default)]
pub(crate) struct Listpack<const N: usize> {
    bytes: Vec<u8>,
    records: u16,
}

/// Where a record starts.
#[derive(Clone, Copy)]
pub(crate) struct Offset(usize);

impl<const N: usize> Listpack<N> {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.records)
    }

    /// The first byte of the buffer.
    #[inline]
    pub(crate) fn first_byte(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// Bytes allocated beside the struct itself. O(1).
    pub(crate) fn allocated_bytes(&self) -> usize {
        size_class(self.bytes.capacity())
    }

    /// The strings of each record.
    pub(crate) fn iter(&self) -> impl Iterator<Item = [&[u8]; N]> {
        self.offsets().map(|(_, record)| record)
    }

    fn offsets(&self) -> impl Iterator<Item = (Offset, [&[u8]; N])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let offset = (at < self.bytes.len()).then_some(Offset(at))?;
            let record = std::array::from_fn(|_| {
                let (start, end) = (at + 1, at + 1 + usize::from(self.bytes[at]));
                at = end;
                &self.bytes[start..end]
            });
            Some((offset, record))
        })
    }

    /// The record with that key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<(Offset, [&[u8]; N])> {
        self.offsets().find(|(_, record)| record[0] == key)
    }

    /// The record of that rank. O(rank).
    pub(crate) fn nth(&self, rank: usize) -> Option<[&[u8]; N]> {
        self.iter().nth(rank)
    }

    /// Appends a record. O(bytes), when there is no room.
    pub(crate) fn push(&mut self, record: [&[u8]; N]) {
        self.make_room(record.iter().map(|part| 1 + part.len()).sum());
        for part in record {
            debug_assert!(part.len() <= LISTPACK_ELEMENT_BYTES_MAX);
            self.bytes.push(part.len() as u8);
            self.bytes.extend_from_slice(part);
        }
        self.records += 1;
    }

    /// Puts a record where that rank is. O(bytes).
    pub(crate) fn insert(&mut self, rank: usize, record: [&[u8]; N]) {
        let (at, end) = (self.offset_of(rank), self.bytes.len());
        self.push(record);
        let added = self.bytes.len() - end;
        self.bytes[at..].rotate_right(added);
    }

    /// Takes out the records of those ranks, which are there. O(bytes).
    pub(crate) fn remove_ranks(&mut self, ranks: Range<usize>) {
        self.bytes.drain(self.offset_of(ranks.start)..self.offset_of(ranks.end));
        self.records -= ranks.len() as u16;
        self.give_back();
    }

    /// Where the record of that rank starts; the end, if there is none.
    fn offset_of(&self, rank: usize) -> usize {
        self.offsets()
            .nth(rank)
            .map_or(self.bytes.len(), |(offset, _)| offset.0)
    }

    /// Takes a record out; the others keep their order. O(bytes).
    pub(crate) fn remove(&mut self, record: Offset) {
        let end = (0..N).fold(record.0, |at, _| self.end_of(at));
        self.bytes.drain(record.0..end);
        self.records -= 1;
        self.give_back();
    }

    /// Puts another string in the place of the last one of a record. O(bytes).
    pub(crate) fn replace_last(&mut self, record: Offset, part: &[u8]) {
        debug_assert!(part.len() <= LISTPACK_ELEMENT_BYTES_MAX);
        let start = (1..N).fold(record.0, |at, _| self.end_of(at));
        let old = start + 1..self.end_of(start);
        if part.len() == old.len() {
            return self.bytes[old].copy_from_slice(part);
        }
        if part.len() > old.len() {
            self.make_room(part.len() - old.len());
        }
        self.bytes[start] = part.len() as u8;
        self.bytes.splice(old, part.iter().copied());
        self.give_back();
    }

    /// Where the string ends that starts there.
    fn end_of(&self, at: usize) -> usize {
        at + 1 + usize::from(self.bytes[at])
    }

    /// A large buffer grows by an eighth, a small one as little as it must.
    fn make_room(&mut self, more: usize) {
        let len = self.bytes.len();
        if self.bytes.capacity() - len < more {
            let wanted = len + if len < 256 { more } else { more.max(len / 8) };
            self.bytes.reserve_exact(size_class(wanted) - len);
        }
    }

    fn give_back(&mut self) {
        if self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to(size_class(self.bytes.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_order() {
        let mut listpack: Listpack<2> = Listpack::default();
        for number in 0..64 {
            listpack.push([&vec![b'k'; number], &[b'v'; 64]]);
        }
        let (third, record) = listpack.find(b"kk").expect("a record");
        assert_eq!(record, [&b"kk"[..], &[b'v'; 64]]);
        listpack.replace_last(third, b"");
        listpack.replace_last(third, b"other");
        let (second, _) = listpack.find(b"k").expect("a record");
        listpack.remove(second);
        assert_eq!(listpack.nth(1), Some([&b"kk"[..], b"other"]));
        assert_eq!((listpack.len(), listpack.iter().count()), (63, 63));
        assert!(listpack.find(b"k").is_none() && listpack.find(&[b'v'; 64]).is_none());
        assert_eq!(listpack.nth(62).map(|[key, _]| key.len()), Some(63));
    }

    #[test]
    fn a_small_one_has_no_room_to_spare() {
        let mut listpack: Listpack<2> = Listpack::default();
        listpack.push([b"tokens", b"9.5"]);
        listpack.push([b"updated", b"1752345678901"]);
        assert_eq!(listpack.allocated_bytes(), 48);
    }
}
