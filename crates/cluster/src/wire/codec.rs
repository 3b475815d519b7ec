//! Values as bytes: the one place that knows bincode.
//!
//! Integers are little endian and of variable length, as bincode's standard configuration has them. A body says nothing of itself, so
//! both sides must know what it is: see the [module's](super) word on versions.

use bincode::config::Configuration;
use bincode::enc::write::Writer;
use bincode::error::{DecodeError, EncodeError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest body that is read, in bytes, whatever frames are allowed.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Why a value was not read or written.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    /// The bytes are not what was expected: they end too early, or have a value that does not exist.
    #[error("malformed body: {0}")]
    Malformed(String),
    /// It is longer than [`BODY_BYTES_MAX`], or claims to be.
    #[error("a body is longer than it may be")]
    TooLong,
    /// A type that has no form as bytes.
    #[error("cannot be written: {0}")]
    Unwritable(String),
}

impl From<DecodeError> for CodecError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::LimitExceeded => Self::TooLong,
            other => Self::Malformed(other.to_string()),
        }
    }
}

impl From<EncodeError> for CodecError {
    fn from(error: EncodeError) -> Self {
        Self::Unwritable(error.to_string())
    }
}

/// Appends a value.
///
/// # Errors
/// [`CodecError::Unwritable`] for a type that has no form as bytes, such as a sequence that does not know its length. `out` may then have
/// a part of it.
pub fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    bincode::serde::encode_into_writer(value, Append(out), bincode::config::standard())?;
    Ok(())
}

/// Reads a value from the front of `body`, and says how many bytes it took; what follows belongs to later versions.
///
/// Never allocates much more than `body` has, whatever lengths it claims: bytes are copied only once they are seen to be there, a text's
/// claim is bounded by the limit, and a list begins with 1 MiB at most.
///
/// # Errors
/// [`CodecError::Malformed`] or [`CodecError::TooLong`].
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<(T, usize), CodecError> {
    // The limit is a constant of the type, so there is one for each magnitude. It counts values by their size in memory, which is up to
    // 16 times that in the body.
    match body.len() {
        ..=0x400 => decode_within::<T, { 16 << 10 }>(body),
        0x401..=0x1_0000 => decode_within::<T, { 16 << 16 }>(body),
        0x1_0001..=0x10_0000 => decode_within::<T, { 16 << 20 }>(body),
        0x10_0001..=BODY_BYTES_MAX => decode_within::<T, { 16 * BODY_BYTES_MAX }>(body),
        _ => Err(CodecError::TooLong),
    }
}

fn decode_within<'a, T: Deserialize<'a>, const LIMIT: usize>(body: &'a [u8]) -> Result<(T, usize), CodecError> {
    const fn config<const LIMIT: usize>()
    -> Configuration<bincode::config::LittleEndian, bincode::config::Varint, bincode::config::Limit<LIMIT>> {
        bincode::config::standard().with_limit::<LIMIT>()
    }
    Ok(bincode::serde::borrow_decode_from_slice(body, config::<LIMIT>())?)
}

/// The end of a vector, as bincode writes to it.
struct Append<'a>(&'a mut Vec<u8>);

impl Writer for Append<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// For `#[serde(with = "…")]` on fields of bytes (`&[u8]`, `Vec<u8>`, `Bytes`, `Box<[u8]>`): copied as a whole instead of one by one, in
/// the same form, and never before they are seen to be there. A borrowed field needs `#[serde(borrow)]` too.
pub mod bytes {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;
    use std::fmt;
    use std::marker::PhantomData;

    /// Writes them.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes.as_ref())
    }

    /// Reads them.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>, T: FromBytes<'de>>(deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor(PhantomData))
    }

    /// What can be made of bytes of a body.
    pub trait FromBytes<'de> {
        /// Makes it.
        fn from_bytes(bytes: &'de [u8]) -> Self;
    }

    impl<'de> FromBytes<'de> for &'de [u8] {
        fn from_bytes(bytes: &'de [u8]) -> Self {
            bytes
        }
    }

    impl FromBytes<'_> for Vec<u8> {
        fn from_bytes(bytes: &[u8]) -> Self {
            bytes.to_vec()
        }
    }

    impl FromBytes<'_> for Box<[u8]> {
        fn from_bytes(bytes: &[u8]) -> Self {
            bytes.into()
        }
    }

    impl FromBytes<'_> for ::bytes::Bytes {
        fn from_bytes(bytes: &[u8]) -> Self {
            Self::copy_from_slice(bytes)
        }
    }

    struct BytesVisitor<T>(PhantomData<T>);

    impl<'de, T: FromBytes<'de>> Visitor<'de> for BytesVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<T, E> {
            Ok(T::from_bytes(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Everything<'a> {
        name: Arc<str>,
        numbers: Vec<u64>,
        #[serde(borrow, with = "bytes")]
        borrowed: &'a [u8],
        #[serde(with = "bytes")]
        owned: Vec<u8>,
        maybe: Option<Box<str>>,
    }

    fn example() -> Everything<'static> {
        Everything {
            name: "node-1".into(),
            numbers: vec![0, 250, 251, 1 << 16, u64::MAX],
            borrowed: b"\0\xff",
            owned: vec![7; 300],
            maybe: Some("x".into()),
        }
    }

    #[test]
    fn what_is_written_reads_back_and_what_follows_stays() {
        let mut out = b"before".to_vec();
        encode(&example(), &mut out).unwrap();
        let len = out.len() - 6;
        out.extend_from_slice(b"after");
        assert_eq!(decode(&out[6..]), Ok((example(), len)));
    }

    #[test]
    fn every_cut_is_malformed() {
        let mut out = Vec::new();
        encode(&example(), &mut out).unwrap();
        for cut in 0..out.len() {
            let error = decode::<Everything<'_>>(&out[..cut]).unwrap_err();
            assert!(matches!(error, CodecError::Malformed(_)), "{cut}: {error}");
        }
    }

    #[test]
    fn bytes_have_the_form_of_a_list_of_bytes() {
        #[derive(Serialize)]
        struct Whole(#[serde(with = "bytes")] Vec<u8>);
        for len in [0, 1, 250, 251, 70_000] {
            let (mut whole, mut one_by_one) = (Vec::new(), Vec::new());
            encode(&Whole(vec![9; len]), &mut whole).unwrap();
            encode(&vec![9u8; len], &mut one_by_one).unwrap();
            assert!(whole == one_by_one, "{len}");
        }
    }

    #[test]
    fn claimed_lengths_are_not_believed() {
        // A length of 4 GB, and of nearly 2^64, in 20 bytes.
        for claim in [
            [252, 0, 0, 0, 0xff].as_slice(),
            &[253, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            let mut body = claim.to_vec();
            body.resize(20, b'a');
            assert!(matches!(decode::<Arc<str>>(&body), Err(CodecError::TooLong)));
            assert!(matches!(decode::<&str>(&body), Err(CodecError::TooLong)));
            assert!(decode::<Vec<u64>>(&body).is_err());
            assert!(decode::<Vec<String>>(&body).is_err());
            #[derive(Debug, Deserialize)]
            struct Owned(#[serde(with = "bytes")] Vec<u8>);
            let error = decode::<Owned>(&body).map(|(owned, _)| owned.0).unwrap_err();
            assert!(matches!(error, CodecError::TooLong | CodecError::Malformed(_)));
        }
    }

    #[test]
    fn bodies_of_every_magnitude_are_read() {
        for len in [0, 1 << 9, 1 << 12, 1 << 18, 1 << 22] {
            // One byte each in the body, eight in memory.
            let numbers = vec![1u64; len];
            let mut out = Vec::new();
            encode(&numbers, &mut out).unwrap();
            assert!(decode::<Vec<u64>>(&out).unwrap().0 == numbers);
        }
        let too_long = vec![0; BODY_BYTES_MAX + 1];
        assert_eq!(decode::<u8>(&too_long), Err(CodecError::TooLong));
    }
}
