//! What a C function writes before it becomes a string of the VM: bounded in bytes and in time while it is written.

use crate::stack::{Fail, Stack};
use crate::text::STRING_BYTES_MAX;

/// Bytes between two looks at the clock.
const TICK_BYTES: usize = 64 * 1024;

/// Bytes that become a string.
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// The string has to fit beside what was written here, which is not the VM's memory yet.
    most_bytes: usize,
    /// How many there are before the next look.
    look_at: usize,
}

impl Output {
    pub(crate) fn new(stack: &Stack) -> Self {
        let most_bytes = stack.shared().room_bytes() / 2;
        Self {
            bytes: Vec::new(),
            most_bytes,
            look_at: TICK_BYTES.min(most_bytes),
        }
    }

    /// To write a bounded number of bytes to. What is longer asks [`Output::admit`] before; all ask [`Output::check`] now and then.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Ends the run if it takes too long, and fails if there are too many bytes.
    #[inline]
    pub(crate) fn check(&mut self, stack: &Stack) -> Result<(), Fail> {
        match self.bytes.len() < self.look_at {
            true => Ok(()),
            false => self.admit(stack, 0),
        }
    }

    /// As [`Output::check`], before so many bytes are written.
    pub(crate) fn admit(&mut self, stack: &Stack, more: usize) -> Result<(), Fail> {
        let bytes = self.bytes.len() + more;
        if bytes > self.most_bytes {
            return Err(Fail::text("not enough memory"));
        }
        if bytes > STRING_BYTES_MAX {
            return Err(Fail::text("resulting string too large"));
        }
        if bytes >= self.look_at {
            self.look_at = (bytes + TICK_BYTES).min(self.most_bytes + 1);
            stack.shared().tick()?;
        }
        Ok(())
    }

    /// Pushes the string.
    pub(crate) fn finish(&mut self, stack: &Stack) -> Result<(), Fail> {
        self.admit(stack, 0)?;
        stack.push_bytes(&self.bytes);
        Ok(())
    }
}
