//! Replies whose number of elements is known only after the last one.

use tollgate_protocol::{Proto, ReplyWriter};

/// Bytes that one step copies.
const STEP_BYTES: usize = 256 * 1024;

/// Writes the head of what was written from `start` on. It moves those bytes: for what one step has written.
pub(crate) fn write_head_before(
    out: &mut Vec<u8>,
    start: usize,
    proto: Proto,
    head: impl FnOnce(&mut ReplyWriter<'_>),
) {
    let end = out.len();
    head(&mut ReplyWriter::new(out, proto));
    let head_bytes = out.len() - end;
    out[start..].rotate_right(head_bytes);
}

/// Elements of a reply that is put together in several steps, encoded.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub encoded: Vec<u8>,
    copied: usize,
}

impl Gathered {
    /// Begins with what has been written from `start` on.
    pub(crate) fn take(out: &mut Vec<u8>, start: usize) -> Self {
        let encoded = out.split_off(start);
        Self { encoded, copied: 0 }
    }

    /// Copies some of it behind the head of the reply, and says whether that was the last.
    pub(crate) fn copy_some(&mut self, out: &mut Vec<u8>) -> bool {
        let end = self.encoded.len().min(self.copied + STEP_BYTES);
        out.extend_from_slice(&self.encoded[self.copied..end]);
        self.copied = end;
        end == self.encoded.len()
    }
}
