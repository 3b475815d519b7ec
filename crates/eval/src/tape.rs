//! Replies: the visitor that they are written to, and the tape that holds one until it is a Lua value.
//!
//! A reply could be pushed to Lua while a command writes it, but then a full memory cap would unwind through the
//! command. The tape takes no Lua memory. It holds the reply as it is on the wire, in RESP2 or 3 or a mixture, since that is what
//! commands write.

use crate::to_reply::one_line;

/// Takes one reply, in order: a container is announced with its length and followed by its items.
pub trait ReplySink {
    /// An integer.
    fn integer(&mut self, value: i64);
    /// A binary string.
    fn bulk(&mut self, bytes: &[u8]);
    /// A status, as `OK`.
    fn status(&mut self, text: &[u8]);
    /// An error with its code, as `ERR no such key`.
    fn error(&mut self, text: &[u8]);
    /// Nothing: the null bulk of RESP2, the null of RESP3.
    fn null(&mut self);
    /// An array of `len` items.
    fn array(&mut self, len: usize);
    /// A map of `pairs` keys and values: RESP2 has an array of both.
    fn map(&mut self, pairs: usize);
    /// A set of `len` items: RESP2 has an array.
    fn set(&mut self, len: usize);
    /// A boolean: RESP2 has 1 or 0.
    fn boolean(&mut self, value: bool);
    /// A double: RESP2 has its text.
    fn double(&mut self, value: f64);
    /// A big number, as its digits: RESP2 has a binary string.
    fn big_number(&mut self, digits: &[u8]);
    /// A text with its format of three letters: RESP2 has a binary string.
    fn verbatim(&mut self, format: &[u8], text: &[u8]);
}

/// A value of a reply, or the beginning of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Integer(i64),
    Bulk(&'a [u8]),
    Status(&'a [u8]),
    Error(&'a [u8]),
    Null,
    Array(usize),
    Map(usize),
    Set(usize),
    Boolean(bool),
    Double(f64),
    BigNumber(&'a [u8]),
    /// The format and the text.
    Verbatim(&'a [u8], &'a [u8]),
}

/// Largest tape whose memory is kept for the next reply, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// One reply of a command to a script.
#[derive(Debug, Default)]
pub struct Tape {
    wire: Vec<u8>,
}

impl Tape {
    /// The reply as it is on the wire, for who writes it so. It must be one whole reply in the end; of anything else, what can be read
    /// counts.
    pub fn wire(&mut self) -> &mut Vec<u8> {
        &mut self.wire
    }

    pub(crate) fn clear(&mut self) {
        self.wire.clear();
        self.wire.shrink_to(KEPT_BYTES_MAX);
    }

    /// Its values, in order.
    pub(crate) fn nodes(&self) -> Nodes<'_> {
        Nodes { rest: &self.wire }
    }

    /// The text of the error that the reply is.
    pub(crate) fn error_text(&self) -> Option<&[u8]> {
        let is_error = self.wire.first() == Some(&b'-');
        match is_error.then(|| self.nodes().next())?? {
            Node::Error(text) => Some(text),
            _ => None,
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.wire.push(kind);
        self.wire.extend_from_slice(text);
        self.wire.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, kind: u8, count: usize) {
        self.line(kind, itoa::Buffer::new().format(count).as_bytes());
    }
}

/// Reads a tape.
pub(crate) struct Nodes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Nodes<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        // Most nodes.
        if matches!(kind, b':' | b'$' | b'*')
            && let Some((number, rest)) = short_line(rest)
        {
            self.rest = rest;
            return Some(match kind {
                b'$' => Node::Bulk(self.take(number as usize)?),
                b'*' => Node::Array(number as usize),
                _ => Node::Integer(number as i64),
            });
        }
        let end = rest.iter().position(|&byte| byte == b'\r')?;
        let line = &rest[..end];
        self.rest = rest.get(end + 2..)?;
        Some(match kind {
            b'$' => match length(line) {
                Some(len) => Node::Bulk(self.take(len)?),
                None => Node::Null,
            },
            b':' => Node::Integer(integer(line)),
            b'*' => length(line).map_or(Node::Null, Node::Array),
            b'+' => Node::Status(line),
            b'-' => Node::Error(line),
            b'_' => Node::Null,
            b'#' => Node::Boolean(line == b"t"),
            b',' => Node::Double(double(line)),
            b'(' => Node::BigNumber(line),
            b'%' => Node::Map(length(line)?),
            b'~' => Node::Set(length(line)?),
            b'=' => {
                let text = self.take(length(line)?)?;
                Node::Verbatim(text.get(..3)?, text.get(4..)?)
            }
            _ => return None,
        })
    }
}

impl<'a> Nodes<'a> {
    /// The bytes that come next, which end with a line.
    #[inline]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest.get(2..)?;
        Some(bytes)
    }
}

/// The number of a line of some digits, and what comes after it. Of a longer number, a negative one, or part of a line, nothing.
#[inline]
fn short_line(rest: &[u8]) -> Option<(u64, &[u8])> {
    /// A number of so many digits fits.
    const DIGITS_MAX: usize = 18;
    let mut number = 0_u64;
    for (at, &byte) in rest.iter().enumerate().take(DIGITS_MAX + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return match &rest[at..] {
                [b'\r', b'\n', after @ ..] if at > 0 => Some((number, after)),
                _ => None,
            };
        }
        number = number * 10 + u64::from(digit);
    }
    None
}

/// A length; `None` for the one of nothing, -1.
#[inline]
fn length(line: &[u8]) -> Option<usize> {
    let mut length = 0_usize;
    for &byte in line {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        length = length.checked_mul(10)?.checked_add(usize::from(digit))?;
    }
    Some(length)
}

#[inline]
fn integer(line: &[u8]) -> i64 {
    let (is_negative, digits) = match line {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let number = digits.iter().fold(0_i64, |number, &byte| {
        number.wrapping_mul(10).wrapping_sub(i64::from(byte.wrapping_sub(b'0')))
    });
    // Counted downwards, so that the least fits.
    if is_negative { number } else { number.wrapping_neg() }
}

fn double(text: &[u8]) -> f64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().unwrap_or(f64::NAN)
}

impl ReplySink for Tape {
    fn integer(&mut self, value: i64) {
        self.line(b':', itoa::Buffer::new().format(value).as_bytes());
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.count(b'$', bytes.len());
        self.wire.extend_from_slice(bytes);
        self.wire.extend_from_slice(b"\r\n");
    }

    fn status(&mut self, text: &[u8]) {
        self.line(b'+', &one_line(text));
    }

    fn error(&mut self, text: &[u8]) {
        self.line(b'-', &one_line(text));
    }

    fn null(&mut self) {
        self.line(b'_', b"");
    }

    fn array(&mut self, len: usize) {
        self.count(b'*', len);
    }

    fn map(&mut self, pairs: usize) {
        self.count(b'%', pairs);
    }

    fn set(&mut self, len: usize) {
        self.count(b'~', len);
    }

    fn boolean(&mut self, value: bool) {
        self.line(b'#', if value { b"t" } else { b"f" });
    }

    fn double(&mut self, value: f64) {
        self.line(b',', value.to_string().as_bytes());
    }

    fn big_number(&mut self, digits: &[u8]) {
        self.line(b'(', &one_line(digits));
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        let mut letters = *b"txt:";
        letters[..3].iter_mut().zip(format).for_each(|(to, &from)| *to = from);
        self.count(b'=', letters.len() + text.len());
        self.wire.extend_from_slice(&letters);
        self.wire.extend_from_slice(text);
        self.wire.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut tape = Tape::default();
        tape.array(3);
        [0, 7, -1, i64::MAX, i64::MIN]
            .into_iter()
            .for_each(|value| tape.integer(value));
        tape.bulk(b"a\r\nb");
        tape.status(b"OK");
        tape.null();
        tape.map(1);
        tape.set(0);
        tape.boolean(true);
        [0.1, -2.5e300, f64::INFINITY]
            .into_iter()
            .for_each(|value| tape.double(value));
        tape.big_number(b"-123");
        tape.verbatim(b"mkd", b"text");
        tape.error(b"ERR no\r\nline");
        tape.wire().extend_from_slice(b"$-1\r\n*-1\r\n$0\r\n\r\n");
        let read: Vec<_> = tape.nodes().collect();
        let expected = [
            Node::Array(3),
            Node::Integer(0),
            Node::Integer(7),
            Node::Integer(-1),
            Node::Integer(i64::MAX),
            Node::Integer(i64::MIN),
            Node::Bulk(b"a\r\nb"),
            Node::Status(b"OK"),
            Node::Null,
            Node::Map(1),
            Node::Set(0),
            Node::Boolean(true),
            Node::Double(0.1),
            Node::Double(-2.5e300),
            Node::Double(f64::INFINITY),
            Node::BigNumber(b"-123"),
            Node::Verbatim(b"mkd", b"text"),
            Node::Error(b"ERR no  line"),
            Node::Null,
            Node::Null,
            Node::Bulk(b""),
        ];
        assert_eq!(read, expected);
        assert_eq!(tape.error_text(), None);
        // Cut anywhere, it ends there.
        let whole = std::mem::take(tape.wire());
        for end in 0..whole.len() {
            let mut tape = Tape::default();
            tape.wire().extend_from_slice(&whole[..end]);
            let count = tape.nodes().count();
            assert!(tape.nodes().zip(expected).all(|(node, whole)| node == whole), "{end}");
            assert!(count < expected.len());
        }
    }
}
