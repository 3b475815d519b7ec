//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first, the top bit set on all but the last.

/// Bytes of the longest.
const BYTES_MAX: usize = 10;

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front; `None` if there is none whole, or if it is none of 64 bits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for (at, &byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * at as u32;
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(number);
        }
    }
    None
}

/// Appends bytes after their number.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes what [`put_bytes`] has written from the front; `None`, and nothing is taken, if it is not all there.
pub fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = *bytes;
    let len = usize::try_from(take(&mut rest)?).ok()?;
    let (taken, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(number in prop_oneof![any::<u64>(), 0..300_u64], more in any::<u8>()) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            for cut in 0..bytes.len() {
                prop_assert_eq!(take(&mut &bytes[..cut]), None);
            }
            bytes.push(more);
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Some(number));
            prop_assert_eq!(rest, &[more]);
        }

        #[test]
        fn any_bytes_are_a_number_or_none(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut rest = &bytes[..];
            if take(&mut rest).is_none() {
                prop_assert_eq!(rest.len(), bytes.len());
            }
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(take(&mut &bytes[..]), Some(u64::MAX));
        bytes[9] = 2;
        assert_eq!(take(&mut &bytes[..]), None);
        assert_eq!(take(&mut &[0x80; 11][..]), None);
    }
}
