//! The slot of a key, as Redis Cluster computes it.

/// Number of slots, as in Redis Cluster.
pub const SLOTS: u16 = 16_384;

/// The slot of `key`: CRC16 (XMODEM) of the key, or of its hash tag, modulo [`SLOTS`].
///
/// The hash tag is what stands between the first `{` and the first `}` after it, when that is not empty (Redis Cluster
/// specification, "Hash tags").
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

#[inline]
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    has_brace(key).then(|| tag_of_braces(key)).flatten()
}

/// Whether there is a `{`, which most keys are without: eight bytes at a time.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (words, rest) = key.as_chunks::<8>();
    let mut marks = 0;
    for word in words {
        // A byte that is `{` becomes zero, which is the only one that borrows from its own top bit.
        let word = u64::from_ne_bytes(*word) ^ (ONES * b'{' as u64);
        marks |= word.wrapping_sub(ONES) & !word;
    }
    marks & (ONES << 7) != 0 || rest.contains(&b'{')
}

#[cold]
fn tag_of_braces(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

/// Bytes taken in one step.
const STRIDE: usize = 8;

/// `TABLES[k][b]`: the checksum of byte `b` followed by `k` zero bytes, so that a whole stride is a xor of look-ups that
/// do not wait for each other.
static TABLES: [[u16; 256]; STRIDE] = tables();

const fn tables() -> [[u16; 256]; STRIDE] {
    let mut tables = [[0u16; 256]; STRIDE];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                (crc << 1) ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = (crc << 8) ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    let (strides, rest) = bytes.as_chunks::<STRIDE>();
    for stride in strides {
        crc = TABLES[7][(stride[0] ^ (crc >> 8) as u8) as usize]
            ^ TABLES[6][(stride[1] ^ crc as u8) as usize]
            ^ TABLES[5][stride[2] as usize]
            ^ TABLES[4][stride[3] as usize]
            ^ TABLES[3][stride[4] as usize]
            ^ TABLES[2][stride[5] as usize]
            ^ TABLES[1][stride[6] as usize]
            ^ TABLES[0][stride[7] as usize];
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        crc = TABLES[3][(half[0] ^ (crc >> 8) as u8) as usize]
            ^ TABLES[2][(half[1] ^ crc as u8) as usize]
            ^ TABLES[1][half[2] as usize]
            ^ TABLES[0][half[3] as usize];
    }
    for &byte in rest {
        crc = (crc << 8) ^ TABLES[0][(byte ^ (crc >> 8) as u8) as usize];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc16_bit_by_bit(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0u16, |crc, &byte| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                (crc << 1) ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 }
            })
        })
    }

    #[test]
    fn known_vectors() {
        // CRC-16/XMODEM check value; the slots are what CLUSTER KEYSLOT of Redis answers.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b""), 0);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"bar"), 5061);
        assert_eq!(slot_of(b"hello"), 866);
        assert_eq!(slot_of(b"somekey"), 11058);
        assert_eq!(slot_of(b"foo{hash_tag}"), 2515);
        assert_eq!(slot_of(b"bar{hash_tag}"), 2515);
    }

    #[test]
    fn hash_tag_rules() {
        let whole = |key: &[u8]| crc16(key) % SLOTS;
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), whole(b"foo{}{bar}"));
        assert_eq!(slot_of(b"foo{{bar}}zap"), whole(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), whole(b"bar"));
        assert_eq!(slot_of(b"foo{bar"), whole(b"foo{bar"));
        assert_eq!(slot_of(b"foo}bar{"), whole(b"foo}bar{"));
        assert_eq!(slot_of(b"}{a}"), whole(b"a"));
    }

    #[test]
    fn a_brace_is_seen_wherever_it_is() {
        for len in 0..40 {
            let mut key = vec![b'z'; len];
            assert!(!has_brace(&key));
            for at in 0..len {
                for byte in 0..=255 {
                    key[at] = byte;
                    assert_eq!(has_brace(&key), byte == b'{', "{byte} at {at} of {len}");
                }
                key[at] = b'|';
            }
        }
    }

    #[test]
    fn every_length_equals_the_definition() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 167 + 13) as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(crc16(&bytes[..len]), crc16_bit_by_bit(&bytes[..len]));
        }
    }
}
