//! Strings.

pub mod bits;
mod growth;

pub use growth::Growth;

use std::ops::Range;

use crate::allocation::size_class;
use crate::encoding::{EMBSTR_BYTES_MAX, Encoding};
use crate::text::Text;
use tollgate_protocol::parse_integer;

/// Buffers grow to twice what is asked for up to this, as those of Redis do, and by an eighth above.
const DOUBLED_BYTES: usize = 1 << 20;

/// A [string](https://redis.io/docs/latest/develop/data-types/strings/): an integer, or bytes in one buffer.
#[derive(Clone)]
pub struct StringValue(Content);

#[derive(Clone)]
enum Content {
    Integer(i64),
    /// As it was set.
    Whole(Box<[u8]>),
    /// Modified in place, perhaps with room for more.
    Modified(Vec<u8>),
}

impl StringValue {
    /// What [SET](https://redis.io/docs/latest/commands/set/) stores: an integer if the text is that of one. O(bytes).
    pub fn new(text: &[u8]) -> StringValue {
        match parse_integer(text) {
            Some(integer) => StringValue::from_integer(integer),
            None => StringValue::from_bytes(text),
        }
    }

    /// What [INCRBYFLOAT](https://redis.io/docs/latest/commands/incrbyfloat/) stores: text, even if it is that of an integer. O(bytes).
    pub fn from_bytes(text: &[u8]) -> StringValue {
        StringValue(Content::Whole(text.into()))
    }

    /// What [INCRBY](https://redis.io/docs/latest/commands/incrby/) stores. O(1).
    pub const fn from_integer(integer: i64) -> StringValue {
        StringValue(Content::Integer(integer))
    }

    /// Without bytes, to be modified: what SETRANGE, SETBIT and BITOP begin with where there is no key. O(1).
    pub const fn for_modification() -> StringValue {
        StringValue(Content::Modified(Vec::new()))
    }

    /// What [BITOP](https://redis.io/docs/latest/commands/bitop/) stores: bytes that something has put together. O(1).
    pub const fn from_buffer(buffer: Vec<u8>) -> StringValue {
        StringValue(Content::Modified(buffer))
    }

    /// The bytes, or the digits. O(1).
    pub fn text(&self) -> Text<'_> {
        match &self.0 {
            Content::Integer(integer) => Text::integer(*integer),
            Content::Whole(bytes) => Text::bytes(bytes),
            Content::Modified(bytes) => Text::bytes(bytes),
        }
    }

    /// The number that INCR goes on from: also that of bytes that are the text of one. O(1).
    pub fn integer(&self) -> Option<i64> {
        match &self.0 {
            Content::Integer(integer) => Some(*integer),
            _ => parse_integer(&self.text()),
        }
    }

    /// Bytes or digits ([STRLEN](https://redis.io/docs/latest/commands/strlen/)). O(1).
    pub fn len(&self) -> usize {
        self.text().len()
    }

    /// Whether it has no byte. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first byte of what is beside the struct.
    #[inline]
    pub(crate) fn first_byte(&self) -> Option<u8> {
        match &self.0 {
            Content::Integer(_) => None,
            Content::Whole(bytes) => bytes.first().copied(),
            Content::Modified(bytes) => bytes.first().copied(),
        }
    }

    /// Bytes allocated, with the box it is in. O(1).
    pub fn bytes(&self) -> usize {
        size_class(size_of::<StringValue>())
            + match &self.0 {
                Content::Integer(_) => 0,
                Content::Whole(bytes) => size_class(bytes.len()),
                Content::Modified(bytes) => size_class(bytes.capacity()),
            }
    }

    /// An integer, up to 44 bytes that were not modified, or others. O(1).
    pub fn encoding(&self) -> Encoding {
        match &self.0 {
            Content::Integer(_) => Encoding::Int,
            Content::Whole(bytes) if bytes.len() <= EMBSTR_BYTES_MAX => Encoding::Embstr,
            _ => Encoding::Raw,
        }
    }

    /// Appends, and says how long it is then ([APPEND](https://redis.io/docs/latest/commands/append/)). O(bytes appended); now and
    /// then all bytes are copied, in all no more often than each is appended, or eight times above 1 MiB.
    pub fn append(&mut self, more: &[u8]) -> usize {
        let buffer = self.modify(|len| len + more.len());
        buffer.extend_from_slice(more);
        buffer.len()
    }

    /// Overwrites from `offset` on, with zeros between the end and there, and says how long it is then
    /// ([SETRANGE](https://redis.io/docs/latest/commands/setrange/)). Nothing to write changes nothing. O(bytes up to the new end), if
    /// it grows. The caller bounds `offset`.
    pub fn set_range(&mut self, offset: usize, part: &[u8]) -> usize {
        if part.is_empty() {
            return self.len();
        }
        let end = offset + part.len();
        let buffer = self.modify_up_to(end);
        buffer[offset..end].copy_from_slice(part);
        buffer.len()
    }

    /// Which bytes [GETRANGE](https://redis.io/docs/latest/commands/getrange/) means: both ends belong to it, negative ones count from
    /// the end. O(1).
    pub fn resolve(&self, start: i64, end: i64) -> Range<usize> {
        let len = self.len() as i64;
        if len == 0 || (start < 0 && end < 0 && start > end) {
            return 0..0;
        }
        let from_start = |index: i64| {
            if index < 0 {
                index.saturating_add(len).max(0)
            } else {
                index
            }
        };
        let (start, end) = (from_start(start), from_start(end).min(len - 1));
        if start > end {
            0..0
        } else {
            start as usize..end as usize + 1
        }
    }

    /// Sets a bit, the highest of the first byte being the first, and says what it was; zeros come between the end and there
    /// ([SETBIT](https://redis.io/docs/latest/commands/setbit/)). As [`StringValue::set_range`]. The caller bounds `offset_bits`.
    pub fn set_bit(&mut self, offset_bits: usize, on: bool) -> bool {
        let byte = offset_bits / 8;
        let buffer = self.modify_up_to(byte + 1);
        let mask = 0x80 >> (offset_bits % 8);
        let old = buffer[byte] & mask != 0;
        buffer[byte] = if on { buffer[byte] | mask } else { buffer[byte] & !mask };
        old
    }

    /// Sets an integer of up to 64 bits, the low ones of `value`, whose highest is that bit
    /// ([BITFIELD](https://redis.io/docs/latest/commands/bitfield/)). As [`StringValue::set_bit`].
    pub fn set_field(&mut self, offset_bits: usize, bits: u32, value: u64) {
        let end_bits = offset_bits + bits as usize;
        let buffer = self.modify_up_to(end_bits.div_ceil(8));
        bits::set_field(buffer, offset_bits, bits, value);
    }

    /// As one that was modified, with zeros up to that length at least. As [`StringValue::set_range`].
    pub fn grow(&mut self, len: usize) {
        self.modify_up_to(len);
    }

    /// Drops what is beyond that length. O(1).
    pub fn truncate(&mut self, len: usize) {
        self.modify(|old| old).truncate(len);
    }

    /// The bytes for modification, with zeros up to that length at least.
    fn modify_up_to(&mut self, len: usize) -> &mut Vec<u8> {
        let buffer = self.modify(|old| if old == 0 { 0 } else { old.max(len) });
        if buffer.is_empty() {
            // Zeroed by the allocator, which need not touch much of it.
            *buffer = vec![0; size_class(len)];
            buffer.truncate(len);
        } else if buffer.len() < len {
            buffer.resize(len, 0);
        }
        buffer
    }

    /// The bytes for modification, with room for the length to come.
    fn modify(&mut self, new_len: impl FnOnce(usize) -> usize) -> &mut Vec<u8> {
        let new_len = new_len(self.len());
        if !matches!(self.0, Content::Modified(_)) {
            let old = match std::mem::replace(&mut self.0, Content::Integer(0)) {
                Content::Integer(integer) => Text::integer(integer).to_vec(),
                Content::Whole(bytes) => bytes.into_vec(),
                Content::Modified(bytes) => bytes,
            };
            self.0 = Content::Modified(old);
        }
        // It is, after the lines above.
        let Content::Modified(buffer) = &mut self.0 else {
            unreachable!()
        };
        if buffer.capacity() < new_len {
            // The first write takes what it needs; whoever writes again will do so once more.
            let room = match new_len {
                _ if buffer.is_empty() => new_len,
                0..DOUBLED_BYTES => 2 * new_len,
                _ => new_len + new_len / 8,
            };
            buffer.reserve_exact(size_class(room) - buffer.len());
        }
        buffer
    }
}

impl std::fmt::Debug for StringValue {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("StringValue")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}
