//! Growing a large string without copying all of it at once.

use super::{Content, StringValue};
use crate::allocation::size_class;

/// A string on its way into a larger buffer.
#[derive(Debug)]
pub struct Growth {
    buffer: Vec<u8>,
    copied: usize,
}

impl StringValue {
    /// How many bytes are copied, or filled with zeros, before something is written up to that length. A string without bytes gets its
    /// zeros from the allocator, which need not touch them. O(1).
    pub fn growth_bytes(&self, len: usize) -> usize {
        let old = self.len();
        if old == 0 || len <= old {
            return 0;
        }
        let has_room = matches!(&self.0, Content::Modified(buffer) if buffer.capacity() >= len);
        if has_room { len - old } else { len }
    }

    /// Begins to grow, with zeros, to a length that is not less than it has. The string itself changes when [`Growth::finish`]ed. O(1).
    pub fn start_growth(&self, len: usize) -> Growth {
        debug_assert!(len >= self.len());
        let room = if len < super::DOUBLED_BYTES {
            2 * len
        } else {
            len + len / 8
        };
        let mut buffer = vec![0; size_class(room)];
        buffer.truncate(len);
        Growth { buffer, copied: 0 }
    }
}

impl Growth {
    /// Copies so many bytes of the string, which must not change before the end; whether that was the last of it. O(bytes).
    pub fn copy_some(&mut self, from: &StringValue, bytes: usize) -> bool {
        let text = from.text();
        let end = text.len().min(self.copied + bytes);
        self.buffer[self.copied..end].copy_from_slice(&text[self.copied..end]);
        self.copied = end;
        end == text.len()
    }

    /// The string as it has grown. O(1).
    pub fn finish(self) -> StringValue {
        StringValue(Content::Modified(self.buffer))
    }
}
