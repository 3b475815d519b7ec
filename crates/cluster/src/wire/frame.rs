//! Frames: how messages lie one after the other in a stream.
//!
//! ```text
//! u32 length of the rest │ u8 kind │ u64 id │ body            little endian
//! u32 length of the rest │ (u8 kind │ u64 id │ body) sealed │ 16 bytes of seal
//! ```

use super::keys::{FrameKey, TAG_BYTES};
use thiserror::Error;

/// Bytes of a frame before its body: length, kind, id.
pub const HEADER_BYTES: usize = LENGTH_BYTES + HEAD_BYTES;
/// Bytes that a seal adds to a frame.
pub const SEAL_BYTES: usize = TAG_BYTES;
/// Bytes of one frame, unless told otherwise.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = 1 + 8;
/// An empty buffer larger than this is given back.
const KEPT_BYTES: usize = 1 << 20;

/// What is wrong with a stream. Nothing more can be read from it.
#[derive(Debug, Clone, Copy, Error, PartialEq, Eq)]
pub enum FrameError {
    /// A frame says that it is longer than frames may be.
    #[error("a frame of {bytes} bytes, more than {max_bytes}")]
    TooLong {
        /// What it says.
        bytes: u64,
        /// The bound.
        max_bytes: usize,
    },
    /// A frame says that it is shorter than any is.
    #[error("a frame of {0} bytes, too few for a kind and an id")]
    TooShort(u32),
    /// Its seal is wrong: it was made with another key, came before, or was changed on its way.
    #[error("a frame whose seal is wrong")]
    Seal,
}

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind of its message, as a number: see [`super::Kind`].
    pub kind: u8,
    /// What ties an answer to its request; 0 if none is wanted.
    pub id: u64,
    /// The message.
    pub body: &'a [u8],
}

/// Takes frames from a stream that arrives in pieces of any size.
#[derive(Debug)]
pub struct FrameReader {
    buffer: Vec<u8>,
    /// Where the next frame begins in it.
    at: usize,
    max_bytes: usize,
    key: Option<FrameKey>,
    failed: Option<FrameError>,
}

impl FrameReader {
    /// A reader of frames that have `max_bytes` at most, length and seal included.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            max_bytes,
            key: None,
            failed: None,
        }
    }

    /// A reader that goes on where a handshake ended, with what has arrived since.
    pub(super) fn continued(rest: &[u8], max_bytes: usize, key: Option<FrameKey>) -> Self {
        Self {
            buffer: rest.to_vec(),
            key,
            ..Self::new(max_bytes)
        }
    }

    /// Where bytes that have arrived are appended; nothing else may be done to it.
    pub fn input(&mut self) -> &mut Vec<u8> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            if self.buffer.capacity() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        } else if self.at >= self.buffer.len() / 2 {
            // Less is moved than was read, so moving costs a constant for each byte.
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        &mut self.buffer
    }

    /// Bytes that have arrived and are in no frame yet.
    pub fn pending(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Passes bytes that are in no frame.
    pub(super) fn skip(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.pending().len());
        self.at += bytes;
    }

    /// The next frame, if all of it has arrived. A frame's memory is taken as its bytes arrive, not when its length does.
    ///
    /// # Errors
    /// [`FrameError`]; from then on always the same.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.advance() {
            Ok(None) => Ok(None),
            Ok(Some((start, end))) => {
                let (kind, rest) = self.buffer[start..end].split_at(1);
                let (id, body) = rest.split_at(8);
                Ok(Some(Frame {
                    kind: kind[0],
                    id: le_u64(id),
                    body,
                }))
            }
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// Passes the next frame, opened if frames are sealed; where its kind begins and its body ends.
    fn advance(&mut self) -> Result<Option<(usize, usize)>, FrameError> {
        let seal = if self.key.is_some() { SEAL_BYTES } else { 0 };
        let Some(length) = self.buffer.get(self.at..self.at + LENGTH_BYTES) else {
            return Ok(None);
        };
        let length = le_u32(length);
        let bytes = u64::from(length) + LENGTH_BYTES as u64;
        if bytes > self.max_bytes as u64 {
            return Err(FrameError::TooLong {
                bytes,
                max_bytes: self.max_bytes,
            });
        }
        if (length as usize) < HEAD_BYTES + seal {
            return Err(FrameError::TooShort(length));
        }
        let start = self.at + LENGTH_BYTES;
        let Some(rest) = self.buffer.get_mut(start..start + length as usize) else {
            return Ok(None);
        };
        if let Some(key) = &mut self.key
            && !key.open(rest)
        {
            return Err(FrameError::Seal);
        }
        self.at = start + length as usize;
        Ok(Some((start, self.at - seal)))
    }
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn le_u64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Appends frames to a stream.
#[derive(Debug)]
pub struct FrameWriter {
    max_bytes: usize,
    key: Option<FrameKey>,
}

impl FrameWriter {
    /// A writer of frames that have `max_bytes` at most.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, key: None }
    }

    pub(super) fn sealed(max_bytes: usize, key: Option<FrameKey>) -> Self {
        Self { max_bytes, key }
    }

    /// Appends a frame whose body `body` appends.
    ///
    /// # Errors
    /// [`FrameError::TooLong`], or what `body` says; then `out` is as before.
    pub fn write<E: From<FrameError>>(
        &mut self,
        out: &mut Vec<u8>,
        kind: u8,
        id: u64,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        out.push(kind);
        out.extend_from_slice(&id.to_le_bytes());
        let written = body(out);
        let seal = if self.key.is_some() { SEAL_BYTES } else { 0 };
        let bytes = out.len() - start + seal;
        let too_long = FrameError::TooLong {
            bytes: bytes as u64,
            max_bytes: self.max_bytes,
        };
        let length = u32::try_from(bytes - LENGTH_BYTES);
        let (Ok(()), Ok(length), true) = (&written, length, bytes <= self.max_bytes) else {
            out.truncate(start);
            written?;
            return Err(too_long.into());
        };
        out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        if let Some(key) = &mut self.key {
            let seal = key.seal(&mut out[start + LENGTH_BYTES..]);
            out.extend_from_slice(&seal);
        }
        Ok(())
    }

    /// Appends a frame of a body that is there.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; then `out` is as before.
    pub fn write_body(&mut self, out: &mut Vec<u8>, kind: u8, id: u64, body: &[u8]) -> Result<(), FrameError> {
        self.write(out, kind, id, |out| {
            out.extend_from_slice(body);
            Ok(())
        })
    }
}
