//! What FUNCTION DUMP answers and FUNCTION RESTORE takes.
//!
//! `TGFN`, one byte with the version, of each library the length of its text (four bytes, the least first) and the text, and a CRC-64 of
//! all that (eight bytes, the least first). Functions are not in it: a library that is restored is loaded again.

use super::library::Library;
use crc::{CRC_64_XZ, Crc, Table};
use std::sync::Arc;

const MAGIC: &[u8; 5] = b"TGFN\x01";
const CHECKSUM_BYTES: usize = 8;
const LENGTH_BYTES: usize = 4;

/// Why a payload is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// It is none of this version, or is damaged.
    Checksum,
    /// Its checksum is right, but not what it says.
    Contents,
}

/// Bytes of a payload beside the texts of so many libraries.
pub(crate) fn overhead_bytes(libraries: usize) -> usize {
    MAGIC.len() + CHECKSUM_BYTES + libraries.saturating_mul(LENGTH_BYTES)
}

/// The payload of some libraries.
pub(crate) fn write(libraries: &[Arc<Library>]) -> Vec<u8> {
    let texts: usize = libraries.iter().map(|library| library.text.len()).sum();
    let mut payload = Vec::with_capacity(texts + overhead_bytes(libraries.len()));
    payload.extend_from_slice(MAGIC);
    for library in libraries {
        // A text is at most as long as a script may be.
        payload.extend_from_slice(&(library.text.len() as u32).to_le_bytes());
        payload.extend_from_slice(&library.text);
    }
    let checksum = crc64(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// The texts in a payload.
pub(crate) fn read(payload: &[u8]) -> Result<Vec<&[u8]>, PayloadError> {
    let (body, checksum) = payload
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(PayloadError::Checksum)?;
    let mut rest = body.strip_prefix(MAGIC).ok_or(PayloadError::Checksum)?;
    if crc64(body) != u64::from_le_bytes(*checksum) {
        return Err(PayloadError::Checksum);
    }
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(PayloadError::Contents)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, tail) = tail.split_at_checked(length).ok_or(PayloadError::Contents)?;
        texts.push(text);
        rest = tail;
    }
    Ok(texts)
}

/// CRC-64 of ECMA-182, reflected, as of the `xz` format: finds every error of one byte.
static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

fn crc64(bytes: &[u8]) -> u64 {
    CRC.checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::library::Header;

    fn library(text: &str) -> Arc<Library> {
        let header = Header::read(text.as_bytes()).unwrap();
        Arc::new(Library::new(header, text.as_bytes().into(), Vec::new()))
    }

    #[test]
    fn the_checksum_is_that_of_xz() {
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn texts_come_back() {
        let texts = [
            "#!lua name=a\n",
            "#!lua name=b\nredis.register_function('f', function() end)\0",
        ];
        let payload = write(&texts.map(library));
        assert_eq!(read(&payload), Ok(texts.iter().map(|text| text.as_bytes()).collect()));
        assert_eq!(read(&write(&[])), Ok(Vec::new()));
        assert_eq!(payload.len(), texts.concat().len() + overhead_bytes(2));
    }

    #[test]
    fn every_damaged_payload_is_refused() {
        let payload = write(&["#!lua name=a\nx", "#!lua name=b\ny"].map(library));
        for at in 0..payload.len() {
            for flip in 1..=255 {
                let mut damaged = payload.clone();
                damaged[at] ^= flip;
                assert_eq!(read(&damaged), Err(PayloadError::Checksum), "{at} {flip}");
            }
            assert_eq!(read(&payload[..at]), Err(PayloadError::Checksum));
            assert_eq!(read(&payload[at + 1..]), Err(PayloadError::Checksum));
        }
        let mut longer = payload.clone();
        longer.push(0);
        assert_eq!(read(&longer), Err(PayloadError::Checksum));
    }

    #[test]
    fn what_a_right_checksum_covers_is_checked_too() {
        let sealed = |body: &[u8]| [body, &crc64(body).to_le_bytes()].concat();
        assert_eq!(read(&sealed(b"TGFN\x01")), Ok(Vec::new()));
        for body in [
            &b"TGFN\x01\x01"[..],
            b"TGFN\x01\x02\0\0\0x",
            b"TGFN\x01\xff\xff\xff\xffx",
        ] {
            assert_eq!(read(&sealed(body)), Err(PayloadError::Contents));
        }
        assert_eq!(read(&sealed(b"TGFN\x02")), Err(PayloadError::Checksum));
    }
}
