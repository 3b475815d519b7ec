//! Integers and their text.

use std::borrow::Cow;
use std::ops::Deref;

/// Longest text of an `i64`.
const DIGITS_MAX: usize = 20;

/// Bytes of a value, or the digits of one that is kept as an integer. It reads as a byte slice.
#[derive(Clone, Debug)]
pub struct Text<'a>(Source<'a>);

#[derive(Clone, Debug)]
enum Source<'a> {
    Bytes(&'a [u8]),
    Digits { digits: [u8; DIGITS_MAX], len: u8 },
}

impl<'a> Text<'a> {
    /// No bytes.
    pub const EMPTY: Text<'static> = Text(Source::Bytes(&[]));

    pub(crate) fn bytes(bytes: &'a [u8]) -> Text<'a> {
        Text(Source::Bytes(bytes))
    }

    pub(crate) fn integer(value: i64) -> Text<'a> {
        let mut digits = [0; DIGITS_MAX];
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value).as_bytes();
        digits[..text.len()].copy_from_slice(text);
        let len = text.len() as u8;
        Text(Source::Digits { digits, len })
    }

    /// The bytes of the value, or a copy of the digits.
    pub fn into_cow(self) -> Cow<'a, [u8]> {
        match self.0 {
            Source::Bytes(bytes) => Cow::Borrowed(bytes),
            Source::Digits { digits, len } => Cow::Owned(digits[..usize::from(len)].to_vec()),
        }
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Bytes(bytes) => bytes,
            Source::Digits { digits, len } => &digits[..usize::from(*len)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_protocol::parse_integer;

    #[test]
    fn the_text_of_an_integer_is_read_as_that() {
        for value in [0, 7, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_integer(&Text::integer(value)), Some(value));
        }
    }
}
