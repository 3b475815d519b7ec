//! Requests as ready bytes in which only the key changes.

use crate::keys::{KEY_BYTES, first_key, patch};
use std::ops::Range;

/// Stands for the key in the words of a [`Template`].
pub const KEY: &str = "{key}";

/// One request in RESP, with the place of its key.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    key: Option<usize>,
    words: String,
}

impl Template {
    /// A request of these words; the first that is [`KEY`] is where a 20-byte key goes.
    pub fn new<S: AsRef<str>>(words: &[S]) -> Self {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        let mut key = None;
        for word in words.iter().map(AsRef::as_ref) {
            let is_key = word == KEY && key.is_none();
            let length = if is_key { KEY_BYTES } else { word.len() };
            bytes.extend_from_slice(format!("${length}\r\n").as_bytes());
            if is_key {
                key = Some(bytes.len());
                bytes.extend_from_slice(&first_key());
            } else {
                bytes.extend_from_slice(word.as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        }
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        Self {
            bytes,
            key,
            words: words.join(" "),
        }
    }

    /// Bytes of one request.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a request has at least its header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The request as a person writes it.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The request with the key of this number.
    pub fn with_key(&self, number: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some(range) = self.key_range() {
            patch(&mut bytes[range], number);
        }
        bytes
    }

    /// Appends the request with the key of this number.
    #[inline]
    pub fn append(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(range) = self.key_range() {
            patch(&mut out[start + range.start..start + range.end], number);
        }
    }

    /// `count` requests in a row, to be patched by [`Template::patch_batch`].
    pub fn batch(&self, count: usize) -> Vec<u8> {
        self.bytes.repeat(count)
    }

    /// Puts new keys into the bytes of a [`Template::batch`].
    #[inline]
    pub fn patch_batch(&self, batch: &mut [u8], mut next: impl FnMut() -> u64) {
        debug_assert_eq!(batch.len() % self.bytes.len(), 0);
        let Some(range) = self.key_range() else {
            return;
        };
        for request in batch.chunks_exact_mut(self.bytes.len()) {
            patch(&mut request[range.clone()], next());
        }
    }

    fn key_range(&self) -> Option<Range<usize>> {
        self.key.map(|at| at..at + KEY_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_the_requests_one_after_another() {
        let template = Template::new(&["INCR", KEY]);
        let mut batch = template.batch(2);
        let mut number = 0;
        template.patch_batch(&mut batch, || {
            number += 1;
            number
        });
        assert_eq!(
            String::from_utf8(batch).unwrap(),
            "*2\r\n$4\r\nINCR\r\n$20\r\nbucket:0000000000001\r\n\
             *2\r\n$4\r\nINCR\r\n$20\r\nbucket:0000000000002\r\n"
        );
        let mut appended = Vec::new();
        template.append(1, &mut appended);
        assert_eq!(appended, template.with_key(1));
    }

    #[test]
    fn a_request_without_a_key_stays_as_it_is() {
        let template = Template::new(&["PING"]);
        assert_eq!(template.with_key(5), b"*1\r\n$4\r\nPING\r\n");
    }
}
