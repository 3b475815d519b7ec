//! Bits of a byte string; the highest bit of the first byte is bit 0.
//!
//! These take as long as the bytes they look at. A caller with many bytes asks for a part at a time.

use std::ops::Range;

/// Bit at that offset; beyond the end all are 0 ([GETBIT](https://redis.io/docs/latest/commands/getbit/)). O(1).
pub fn get(bytes: &[u8], offset_bits: usize) -> bool {
    bytes
        .get(offset_bits / 8)
        .is_some_and(|byte| byte & (0x80 >> (offset_bits % 8)) != 0)
}

/// The integer of up to 64 bits whose highest is that bit; beyond the end all are 0
/// ([BITFIELD](https://redis.io/docs/latest/commands/bitfield/)). O(1).
pub fn field(bytes: &[u8], offset_bits: usize, bits: u32) -> u64 {
    debug_assert!((1..=u64::BITS).contains(&bits));
    let window = window(bytes, offset_bits / 8);
    (u128::from_be_bytes(window) >> below(offset_bits, bits)) as u64 & mask(bits)
}

/// Sets it to the low bits of `value`. The bytes reach as far.
pub(super) fn set_field(bytes: &mut [u8], offset_bits: usize, bits: u32, value: u64) {
    debug_assert!(offset_bits + bits as usize <= 8 * bytes.len());
    let first = offset_bits / 8;
    let shift = below(offset_bits, bits);
    let old = u128::from_be_bytes(window(bytes, first)) & !(u128::from(mask(bits)) << shift);
    let new = (old | u128::from(value & mask(bits)) << shift).to_be_bytes();
    let rest = &mut bytes[first..];
    let len = rest.len().min(new.len());
    rest[..len].copy_from_slice(&new[..len]);
}

/// The bytes from that one on, in which there is every integer of 64 bits that begins in the first.
fn window(bytes: &[u8], first: usize) -> [u8; 16] {
    let mut window = [0; 16];
    let rest = bytes.get(first..).unwrap_or_default();
    let len = rest.len().min(window.len());
    window[..len].copy_from_slice(&rest[..len]);
    window
}

/// Bits of the window after the integer.
fn below(offset_bits: usize, bits: u32) -> u32 {
    u128::BITS - (offset_bits % 8) as u32 - bits
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (u64::BITS - bits)
}

/// How many bits of that range are 1, which ends no later than the bytes
/// ([BITCOUNT](https://redis.io/docs/latest/commands/bitcount/)). O(bytes), some billions a second.
pub fn count(bytes: &[u8], range: Range<usize>) -> usize {
    let Some((first, last)) = ends(&range) else { return 0 };
    let (words, rest) = bytes[first..=last].as_chunks();
    let whole: usize = words
        .iter()
        .map(|word| u64::from_ne_bytes(*word).count_ones() as usize)
        .sum();
    let rest: usize = rest.iter().map(|byte| byte.count_ones() as usize).sum();
    let before = bytes[first] & !from_bit(range.start);
    let after = bytes[last] & after_bit(range.end - 1);
    whole + rest - before.count_ones() as usize - after.count_ones() as usize
}

/// The first bit of that range that is so, which ends no later than the bytes
/// ([BITPOS](https://redis.io/docs/latest/commands/bitpos/)). O(bytes).
pub fn find(bytes: &[u8], range: Range<usize>, bit: bool) -> Option<usize> {
    let (first, last) = ends(&range)?;
    let flip: u8 = if bit { 0 } else { 0xff };
    let found = |at: usize, byte: u8| (byte != 0).then(|| at * 8 + byte.leading_zeros() as usize);
    let in_range = |offset: &usize| *offset < range.end;
    if let Some(offset) = found(first, (bytes[first] ^ flip) & from_bit(range.start)) {
        return Some(offset).filter(in_range);
    }
    let rest = &bytes[first + 1..=last.max(first)];
    let none_in = |word: &&[u8; 8]| **word == [flip; 8];
    let skipped = 8 * rest.as_chunks().0.iter().take_while(none_in).count();
    let at = rest[skipped..].iter().position(|byte| byte ^ flip != 0)? + skipped;
    found(first + 1 + at, rest[at] ^ flip).filter(in_range)
}

/// The first and the last byte of a range that is not empty.
fn ends(range: &Range<usize>) -> Option<(usize, usize)> {
    (!range.is_empty()).then(|| (range.start / 8, (range.end - 1) / 8))
}

/// The bits of its byte from that one on.
fn from_bit(offset_bits: usize) -> u8 {
    0xff >> (offset_bits % 8)
}

/// The bits of its byte after that one.
fn after_bit(offset_bits: usize) -> u8 {
    0x7f >> (offset_bits % 8)
}
