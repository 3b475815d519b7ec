//! What allocations take, and how buffers grow.

use std::collections::VecDeque;

/// What jemalloc does not take from a page that it shares out among small allocations.
const LARGE_BYTES: usize = 14_337;

const PAGE_BYTES: usize = 4096;

/// The bytes that jemalloc 5.3.1 gives for an allocation of `bytes` (jemalloc(3), "Implementation notes"): 8, multiples of 16 up to
/// 128, then four classes for each doubling, and above 14 KiB whole pages (its `disable_large_size_classes`, which is set unless
/// configured otherwise). O(1).
pub const fn size_class(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        129..LARGE_BYTES => bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2)),
        _ => bytes.next_multiple_of(PAGE_BYTES),
    }
}

/// How many `T` fit into the allocation that `wanted` of them get.
pub(crate) const fn capacity_for<T>(wanted: usize) -> usize {
    size_class(wanted * size_of::<T>()) / size_of::<T>()
}

/// What a full buffer of `len` elements grows to: a quarter more, so that an eighth of a buffer is unused on average.
const fn grown<T>(len: usize) -> usize {
    let step = len / 4;
    capacity_for::<T>(len + if step < 2 { 2 } else { step })
}

/// What a buffer with so much room shrinks to, if it is worth it: more than half is empty.
const fn shrunk<T>(len: usize, capacity: usize) -> Option<usize> {
    if len == 0 || (capacity > 4 && len < capacity / 2) {
        Some(capacity_for::<T>(len + len / 8))
    } else {
        None
    }
}

/// A growable buffer whose capacity this crate chooses.
pub(crate) trait Buffer {
    /// Makes room for one more element.
    fn make_room(&mut self);
    /// Gives back what is empty once that is more than half.
    fn give_back(&mut self);
    /// Bytes allocated for the elements themselves.
    fn buffer_bytes(&self) -> usize;
}

macro_rules! buffer {
    ($of:ident) => {
        impl<T> Buffer for $of<T> {
            #[inline]
            fn make_room(&mut self) {
                if self.len() == self.capacity() {
                    self.reserve_exact(grown::<T>(self.len()) - self.len());
                }
            }

            #[inline]
            fn give_back(&mut self) {
                if let Some(capacity) = shrunk::<T>(self.len(), self.capacity()) {
                    self.shrink_to(capacity);
                }
            }

            #[inline]
            fn buffer_bytes(&self) -> usize {
                size_class(self.capacity() * size_of::<T>())
            }
        }
    };
}

buffer!(Vec);
buffer!(VecDeque);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_of_jemalloc() {
        let expected = [
            (0, 0),
            (1, 8),
            (9, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (257, 320),
            (4097, 5120),
            (12_289, 14_336),
            (14_337, 16_384),
            (65_537, 69_632),
        ];
        for (bytes, class) in expected {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn a_buffer_uses_the_whole_of_its_size_class() {
        let mut buffer: Vec<[u8; 24]> = Vec::new();
        for len in 1..2000 {
            buffer.make_room();
            buffer.push([0; 24]);
            assert!(
                buffer.buffer_bytes() - buffer.capacity() * 24 < 24,
                "{} at {len}",
                buffer.capacity()
            );
            assert!(buffer.capacity() <= len + len / 2 + 3, "{} at {len}", buffer.capacity());
        }
        while buffer.pop().is_some() {
            buffer.give_back();
            assert!(buffer.capacity() <= (2 * buffer.len()).max(4) + 1);
        }
    }
}
