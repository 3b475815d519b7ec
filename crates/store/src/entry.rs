//! One entry in its page.
//!
//! ```text
//!  0 meta     u32   bits 0..3 number of numbers, 3 BLOB, 4 PINNED, 5 RULE, 6 OUTLINE, 7 VALUE, 16..32 key length
//!  4 params   u32
//!  8 expiry   u32   units since the store's base
//! 12 mark     u32   the slot's period in which this entry changed last
//! 16 body           numbers, [rule u32], key, padded to 4
//!    or, OUTLINE:   block u32, state length u32, hash u64; the body is in the block, unpadded
//!    or, OUTLINE and VALUE: the same without a state; the key and the Redis value are in the block
//! ```

use crate::blocks::{Blocks, Content};
use crate::changes::Role;
use crate::expiry::{Coarse, Expiry};
use crate::key::{Hasher, Key, Space};
use crate::layout::UNIT_BYTES;
use crate::value::StoredValue;
use crate::words::{set_u32, set_u64, u32_at, u64_at};
use std::ops::Deref;

/// The most numbers in a state.
pub const MAX_NUMBERS: usize = 4;

/// The longest state kept as a blob, in bytes.
pub const MAX_BLOB_BYTES: usize = 1 << 20;

/// A state that cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// More than [`MAX_NUMBERS`] numbers.
    #[error("a state of {numbers} numbers is more than {MAX_NUMBERS}")]
    TooManyNumbers {
        /// How many there are.
        numbers: usize,
    },
    /// A blob longer than [`MAX_BLOB_BYTES`].
    #[error("a state of {bytes} bytes is more than {MAX_BLOB_BYTES}")]
    BlobTooLong {
        /// Its length.
        bytes: usize,
    },
}

/// Up to [`MAX_NUMBERS`] numbers, by value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Numbers {
    values: [f64; MAX_NUMBERS],
    len: u8,
}

impl Numbers {
    /// The numbers in `values`.
    ///
    /// # Errors
    /// [`StateError::TooManyNumbers`].
    pub fn new(values: &[f64]) -> Result<Numbers, StateError> {
        let mut numbers = Numbers::default();
        numbers
            .values
            .get_mut(..values.len())
            .ok_or(StateError::TooManyNumbers { numbers: values.len() })?
            .copy_from_slice(values);
        numbers.len = values.len() as u8;
        Ok(numbers)
    }
}

impl Deref for Numbers {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.values[..usize::from(self.len)]
    }
}

/// The state of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State<'a> {
    /// A policy with fields.
    Numbers(Numbers),
    /// A policy whose state is one buffer.
    Blob(&'a [u8]),
}

/// A bucket as stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket<'a> {
    /// Number of the interned limit.
    pub params: u32,
    /// From when it may be dropped, as the store keeps it: rounded up.
    pub expiry: Expiry,
    /// A flag for the caller; the store does not look at it.
    pub pinned: bool,
    /// The slot's period in which it changed last.
    pub mark: u32,
    /// The policy's state.
    pub state: State<'a>,
    /// The key.
    pub key: &'a [u8],
}

/// An entry met by a scan, a sweep or a sample.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    /// What it belongs to.
    pub space: Space,
    /// Its slot.
    pub slot: u16,
    /// What the store is to its slot.
    pub role: Role,
    /// What it is.
    pub entry: Entry<'a>,
}

/// What an entry is.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A bucket.
    Bucket(Bucket<'a>),
    /// A Redis value.
    Value(&'a StoredValue),
}

impl<'a> Entry<'a> {
    /// Its key.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Entry::Bucket(bucket) => bucket.key,
            Entry::Value(stored) => stored.key(),
        }
    }

    /// From when it may be dropped.
    pub fn expiry(&self) -> Expiry {
        match self {
            Entry::Bucket(bucket) => bucket.expiry,
            Entry::Value(stored) => stored.expires,
        }
    }

    /// The number of the interned limit that it holds; a value holds none.
    pub fn params(&self) -> Option<u32> {
        match self {
            Entry::Bucket(bucket) => Some(bucket.params),
            Entry::Value(_) => None,
        }
    }
}

const NUMBERS_MASK: u32 = 0x7;
const BLOB: u32 = 1 << 3;
const PINNED: u32 = 1 << 4;
const RULE: u32 = 1 << 5;
const OUTLINE: u32 = 1 << 6;
const VALUE: u32 = 1 << 7;
/// The bits that are the same for all entries of a key.
pub(crate) const SHAPE_MASK: u32 = 0xffff_0000 | RULE;

const PARAMS: usize = 4;
const EXPIRY: usize = 8;
const MARK: usize = 12;
const BODY: usize = 16;
const STATE_LEN: usize = 20;
const HASH: usize = 24;
const OUTLINE_BYTES: usize = 32;

/// The largest entry that is kept in its page. Larger ones are in a block and leave [`OUTLINE_BYTES`] in the page, so that
/// a page of [`crate::MAX_PAGE_BYTES`] holds hundreds of entries whatever they are and a split divides them evenly.
const MAX_INLINE_BYTES: usize = 512;

pub(crate) fn shape(key_len: u16, rule: bool) -> u32 {
    u32::from(key_len) << 16 | if rule { RULE } else { 0 }
}

fn key_len(meta: u32) -> usize {
    (meta >> 16) as usize
}

fn rule_len(meta: u32) -> usize {
    if meta & RULE != 0 { 4 } else { 0 }
}

fn numbers_len(meta: u32) -> usize {
    (meta & NUMBERS_MASK) as usize * 8
}

/// Everything of a bucket but its key.
#[derive(Clone, Copy)]
pub(crate) struct BucketIn<'a> {
    pub(crate) params: u32,
    pub(crate) expiry: Coarse,
    pub(crate) pinned: bool,
    pub(crate) mark: u32,
    pub(crate) state: State<'a>,
}

impl BucketIn<'_> {
    fn state_len(&self) -> usize {
        match &self.state {
            State::Numbers(numbers) => numbers.len() * 8,
            State::Blob(blob) => blob.len(),
        }
    }

    fn meta(&self, key: &Key, outline: bool) -> u32 {
        let kind = match &self.state {
            State::Numbers(numbers) => u32::from(numbers.len),
            State::Blob(_) => BLOB,
        };
        let pinned = if self.pinned { PINNED } else { 0 };
        let outline = if outline { OUTLINE } else { 0 };
        key.shape | kind | pinned | outline
    }

    fn is_outline(&self, key: &Key) -> bool {
        matches!(self.state, State::Blob(_)) || self.inline_bytes(key) > MAX_INLINE_BYTES
    }

    fn inline_bytes(&self, key: &Key) -> usize {
        (BODY + self.state_len() + rule_len(key.shape) + key.bytes.len()).next_multiple_of(UNIT_BYTES)
    }

    /// Bytes that the entry takes in its page.
    pub(crate) fn page_bytes(&self, key: &Key) -> usize {
        if self.is_outline(key) {
            OUTLINE_BYTES
        } else {
            self.inline_bytes(key)
        }
    }

    fn write_body(&self, key: &Key, body: &mut [u8]) {
        let state_len = self.state_len();
        match &self.state {
            State::Numbers(numbers) => write_numbers(body, numbers),
            State::Blob(blob) => body[..state_len].copy_from_slice(blob),
        }
        let rule_len = rule_len(key.shape);
        if rule_len > 0 {
            set_u32(body, state_len, key.rule);
        }
        let key_at = state_len + rule_len;
        body[key_at..key_at + key.bytes.len()].copy_from_slice(key.bytes);
    }

    fn block(&self, key: &Key) -> Content {
        let len = self.state_len() + rule_len(key.shape) + key.bytes.len();
        let mut block = vec![0; len].into_boxed_slice();
        self.write_body(key, &mut block);
        Content::Bytes(block)
    }

    /// Writes a new entry into `entry`, which is [`BucketIn::page_bytes`] long.
    pub(crate) fn write(&self, key: &Key, entry: &mut [u8], blocks: &mut Option<Box<Blocks>>) {
        let outline = self.is_outline(key);
        set_u32(entry, 0, self.meta(key, outline));
        set_head(entry, self.params, self.expiry, self.mark);
        if outline {
            let number = blocks.get_or_insert_default().insert(self.block(key));
            set_u32(entry, BODY, number);
            set_u32(entry, STATE_LEN, self.state_len() as u32);
            set_u64(entry, HASH, key.hash);
        } else {
            self.write_body(key, &mut entry[BODY..]);
        }
    }

    /// Replaces the entry of the same key, if the new one takes the same place in the page.
    pub(crate) fn rewrite(&self, key: &Key, entry: &mut [u8], blocks: &mut Option<Box<Blocks>>) -> bool {
        let meta = u32_at(entry, 0);
        let outline = self.is_outline(key);
        match (meta & OUTLINE != 0, outline) {
            _ if meta & VALUE != 0 => return false,
            (false, false) if numbers_len(meta) == self.state_len() => self.write_body(key, &mut entry[BODY..]),
            (true, true) => {
                let blocks = blocks.get_or_insert_default();
                let number = u32_at(entry, BODY);
                let old_len = u32_at(entry, STATE_LEN) as usize;
                if old_len == self.state_len() {
                    self.write_body(key, blocks.bytes_mut(number));
                } else {
                    blocks.take(number);
                    // The number that was just freed is the next one given out.
                    let again = blocks.insert(self.block(key));
                    debug_assert_eq!(again, number);
                    set_u32(entry, STATE_LEN, self.state_len() as u32);
                }
            }
            _ => return false,
        }
        set_u32(entry, 0, self.meta(key, outline));
        set_head(entry, self.params, self.expiry, self.mark);
        true
    }
}

fn set_head(entry: &mut [u8], params: u32, expiry: Coarse, mark: u32) {
    set_u32(entry, PARAMS, params);
    set_u32(entry, EXPIRY, expiry.0);
    set_u32(entry, MARK, mark);
}

fn write_numbers(body: &mut [u8], numbers: &[f64]) {
    for (at, number) in numbers.iter().enumerate() {
        set_u64(body, at * 8, number.to_bits());
    }
}

/// Overwrites all but the key of an entry whose state is as many numbers, in place.
#[inline]
pub(crate) fn update(entry: &mut [u8], params: u32, expiry: Coarse, pinned: bool, mark: u32, numbers: &[f64]) -> bool {
    let meta = u32_at(entry, 0);
    if meta & (OUTLINE | BLOB) != 0 || (meta & NUMBERS_MASK) as usize != numbers.len() {
        return false;
    }
    let pinned = if pinned { PINNED } else { 0 };
    set_u32(entry, 0, meta & !PINNED | pinned);
    set_head(entry, params, expiry, mark);
    write_numbers(&mut entry[BODY..], numbers);
    true
}

/// A new entry.
pub(crate) enum New<'a> {
    /// A bucket.
    Bucket(&'a BucketIn<'a>),
    /// A Redis value.
    Value {
        /// Taken when it is written.
        stored: Option<Box<StoredValue>>,
        expiry: Coarse,
        mark: u32,
    },
}

impl New<'_> {
    pub(crate) fn expiry(&self) -> Coarse {
        match self {
            New::Bucket(bucket) => bucket.expiry,
            New::Value { expiry, .. } => *expiry,
        }
    }

    /// Of a value, whether it has no expiry.
    pub(crate) fn lasts(&self) -> Option<bool> {
        match self {
            New::Value {
                stored: Some(stored), ..
            } => Some(stored.expires == Expiry::NEVER),
            New::Value { stored: None, .. } | New::Bucket(_) => None,
        }
    }

    /// Bytes that the entry takes in its page.
    pub(crate) fn page_bytes(&self, key: &Key) -> usize {
        match self {
            New::Bucket(bucket) => bucket.page_bytes(key),
            New::Value { .. } => OUTLINE_BYTES,
        }
    }

    /// Writes the entry into `entry`, which is [`New::page_bytes`] long.
    pub(crate) fn write(&mut self, key: &Key, entry: &mut [u8], blocks: &mut Option<Box<Blocks>>) {
        match self {
            New::Bucket(bucket) => bucket.write(key, entry, blocks),
            New::Value { stored, expiry, mark } => {
                let Some(stored) = stored.take() else { return };
                let number = blocks.get_or_insert_default().insert(Content::Value(stored));
                set_u32(entry, 0, key.shape | OUTLINE | VALUE);
                set_head(entry, NO_PARAMS, *expiry, *mark);
                set_u32(entry, BODY, number);
                set_u32(entry, STATE_LEN, 0);
                set_u64(entry, HASH, key.hash);
            }
        }
    }
}

/// The mark of an entry: the slot's period in which it changed last.
#[inline]
pub(crate) fn mark(entry: &[u8]) -> u32 {
    u32_at(entry, MARK)
}

pub(crate) fn set_mark(entry: &mut [u8], mark: u32) {
    set_u32(entry, MARK, mark);
}

/// What a Redis value has in place of the number of an interned limit.
pub const NO_PARAMS: u32 = u32::MAX;

/// The number of the block of an entry that is a Redis value.
#[inline]
pub(crate) fn value_number(entry: &[u8]) -> Option<u32> {
    (u32_at(entry, 0) & VALUE != 0).then(|| u32_at(entry, BODY))
}

/// Notes that the value of an entry has changed.
pub(crate) fn mark_value(entry: &mut [u8], expiry: Coarse, mark: u32) {
    set_head(entry, NO_PARAMS, expiry, mark);
}

/// A stored entry: the bytes of its page from where it starts, and the page's blocks.
#[derive(Clone, Copy)]
pub(crate) struct EntryRef<'a> {
    bytes: &'a [u8],
    blocks: Option<&'a Blocks>,
}

impl<'a> EntryRef<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], blocks: Option<&'a Blocks>) -> EntryRef<'a> {
        EntryRef { bytes, blocks }
    }

    #[inline]
    fn meta(&self) -> u32 {
        u32_at(self.bytes, 0)
    }

    pub(crate) fn params(&self) -> u32 {
        u32_at(self.bytes, PARAMS)
    }

    /// The number of the interned limit that the entry holds: a value holds none.
    pub(crate) fn held_params(&self) -> Option<u32> {
        Some(self.params()).filter(|_| value_number(self.bytes).is_none())
    }

    pub(crate) fn expiry(&self) -> Coarse {
        Coarse(u32_at(self.bytes, EXPIRY))
    }

    #[inline]
    pub(crate) fn mark(&self) -> u32 {
        mark(self.bytes)
    }

    /// Bytes that it takes in its page.
    #[inline]
    pub(crate) fn page_bytes(&self) -> usize {
        let meta = self.meta();
        if meta & OUTLINE != 0 {
            OUTLINE_BYTES
        } else {
            (BODY + numbers_len(meta) + rule_len(meta) + key_len(meta)).next_multiple_of(UNIT_BYTES)
        }
    }

    /// The number of its block, if it has one.
    pub(crate) fn block(&self) -> Option<u32> {
        (self.meta() & OUTLINE != 0).then(|| u32_at(self.bytes, BODY))
    }

    /// State length and body.
    #[inline]
    fn body(&self) -> (usize, &'a [u8]) {
        let meta = self.meta();
        if meta & OUTLINE == 0 {
            return (numbers_len(meta), &self.bytes[BODY..]);
        }
        let block = self
            .blocks
            .map_or(&[][..], |blocks| blocks.bytes(u32_at(self.bytes, BODY)));
        (u32_at(self.bytes, STATE_LEN) as usize, block)
    }

    #[inline]
    pub(crate) fn is_of(&self, key: &Key) -> bool {
        let meta = self.meta();
        if (meta ^ key.shape) & SHAPE_MASK != 0 {
            return false;
        }
        if meta & VALUE != 0 {
            return self.value().is_some_and(|stored| stored.key() == key.bytes);
        }
        let (state_len, body) = self.body();
        let key_at = state_len + rule_len(meta);
        (meta & RULE == 0 || u32_at(body, state_len) == key.rule)
            && body[key_at..key_at + key.bytes.len()] == *key.bytes
    }

    /// The rule (0 without) and the key.
    #[inline]
    pub(crate) fn key(&self) -> (Option<u32>, &'a [u8]) {
        let meta = self.meta();
        if meta & VALUE != 0 {
            return (None, self.value().map_or(&[], StoredValue::key));
        }
        let (state_len, body) = self.body();
        let rule = (meta & RULE != 0).then(|| u32_at(body, state_len));
        let key_at = state_len + rule_len(meta);
        (rule, &body[key_at..key_at + key_len(meta)])
    }

    /// The hash of its key: stored beside a block, else computed from the at most [`MAX_INLINE_BYTES`] here.
    #[inline]
    pub(crate) fn hash(&self, hasher: &Hasher) -> u64 {
        if self.meta() & OUTLINE != 0 {
            return u64_at(self.bytes, HASH);
        }
        let (rule, key) = self.key();
        hasher.hash(rule, key)
    }

    #[inline]
    pub(crate) fn bucket(&self, expiry: Expiry) -> Bucket<'a> {
        let meta = self.meta();
        let (state_len, body) = self.body();
        let state = match self.numbers() {
            Some((numbers, _)) => State::Numbers(numbers),
            None => State::Blob(&body[..state_len]),
        };
        let key_at = state_len + rule_len(meta);
        Bucket {
            params: self.params(),
            expiry,
            pinned: meta & PINNED != 0,
            mark: self.mark(),
            state,
            key: &body[key_at..key_at + key_len(meta)],
        }
    }

    /// Reads where the block of the entry is, if it has one.
    #[inline]
    pub(crate) fn touch_block(&self) -> u64 {
        let block = self.block().zip(self.blocks);
        block.map_or(0, |(number, blocks)| blocks.touch(number))
    }

    /// The Redis value, if the entry is one.
    #[inline]
    pub(crate) fn value(&self) -> Option<&'a StoredValue> {
        let number = value_number(self.bytes)?;
        self.blocks?.value(number)
    }

    /// The state, if it is numbers, and whether the flag for the caller is set.
    #[inline]
    pub(crate) fn numbers(&self) -> Option<(Numbers, bool)> {
        let meta = self.meta();
        if meta & (BLOB | VALUE) != 0 {
            return None;
        }
        let (_, body) = self.body();
        let mut numbers = Numbers {
            len: (meta & NUMBERS_MASK) as u8,
            ..Numbers::default()
        };
        for (at, value) in numbers.values.iter_mut().take(usize::from(numbers.len)).enumerate() {
            *value = f64::from_bits(u64_at(body, at * 8));
        }
        Some((numbers, meta & PINNED != 0))
    }

    /// Its bytes in the page, alone.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.page_bytes()]
    }
}

/// Points an entry that has been moved to another page at its block there.
pub(crate) fn set_block(entry: &mut [u8], number: u32) {
    set_u32(entry, BODY, number);
}
