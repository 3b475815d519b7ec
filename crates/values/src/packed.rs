//! Byte strings in 24 bytes: short ones in place, longer ones on the heap.

use std::ops::Deref;
use std::sync::Arc;

use crate::allocation::size_class;

/// The longest byte string that needs no allocation.
const INLINE_BYTES: usize = 22;

/// A pointer to bytes on the heap.
pub(crate) trait Pointer: for<'a> From<&'a [u8]> + Deref<Target = [u8]> {
    /// Bytes allocated beside the bytes themselves.
    const HEADER_BYTES: usize;
    const ALIGN: usize;
}

impl Pointer for Box<[u8]> {
    const HEADER_BYTES: usize = 0;
    const ALIGN: usize = 1;
}

impl Pointer for Arc<[u8]> {
    /// Two counts.
    const HEADER_BYTES: usize = 2 * size_of::<usize>();
    const ALIGN: usize = align_of::<usize>();
}

/// Bytes of one owner.
pub(crate) type Owned = Packed<Box<[u8]>>;

/// Bytes that two structures of one value hold.
pub(crate) type Shared = Packed<Arc<[u8]>>;

/// An immutable byte string.
#[derive(Clone)]
pub(crate) struct Packed<P>(Place<P>);

#[derive(Clone)]
enum Place<P> {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Heap(P),
}

impl<P: Pointer> Packed<P> {
    /// O(length).
    pub(crate) fn new(bytes: &[u8]) -> Packed<P> {
        if bytes.len() > INLINE_BYTES {
            return Packed(Place::Heap(P::from(bytes)));
        }
        let mut inline = [0; INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        Packed(Place::Inline {
            len: bytes.len() as u8,
            bytes: inline,
        })
    }

    /// Bytes allocated on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Place::Inline { .. } => 0,
            Place::Heap(bytes) => size_class((P::HEADER_BYTES + bytes.len()).next_multiple_of(P::ALIGN)),
        }
    }
}

impl<P: Pointer> Deref for Packed<P> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Place::Heap(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        assert_eq!((size_of::<Owned>(), size_of::<Shared>()), (24, 24));
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).collect();
            let (owned, shared) = (Owned::new(&bytes), Shared::new(&bytes));
            assert_eq!((&*owned, &*shared), (&bytes[..], &bytes[..]));
            assert_eq!(owned.heap_bytes() == 0, len <= 22);
            assert!(shared.heap_bytes() >= owned.heap_bytes());
        }
    }
}
