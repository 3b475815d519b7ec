//! Replies, written straight into a connection's out buffer.
//!
//! Not redis-protocol's encoder, for a measured reason: the reply of `RL.CHECK` in RESP2, five integers and a short bulk string,
//! takes 37 ns here and 315 ns there (`examples/measure.rs`, release, one x86-64 core), which needs a tree of frames, measures
//! it, and fills the room with zeros before it writes. Its doubles are not in Redis's notation either, and for the other
//! kinds a frame is as much code as the bytes. It is the reference in the tests: all that is written here, it reads back.

use crate::decimal::{OVERWRITTEN, digit_count, write_digits, write_digits_before};
use crate::double::format_double;
use crate::error::ProtocolError;

/// The version of the protocol that a connection speaks. `HELLO` changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Proto {
    /// RESP2, which every connection starts with.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// Appends replies to `out`.
///
/// What RESP2 has no type for is written as Redis does: a map as an array of twice the length, a double, big number or
/// verbatim text as a bulk string, a boolean as 1 or 0. An aggregate's writer is given the count first; the elements follow.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    out: &'a mut Vec<u8>,
    proto: Proto,
}

impl<'a> ReplyWriter<'a> {
    /// A writer that appends to `out`.
    #[inline]
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, proto: Proto) -> Self {
        Self { out, proto }
    }

    /// The protocol that this writer speaks.
    #[inline]
    #[must_use]
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Bytes in the out buffer, so that a caller can tell whether anything was written, or cut it off again.
    #[inline]
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Drops everything written after `position`.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Appends bytes that are a reply already, such as another shard's answer in this protocol.
    #[inline]
    pub fn raw(&mut self, reply: &[u8]) {
        self.out.extend_from_slice(reply);
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string. Line ends in `text` become blanks.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.line(text.as_bytes());
    }

    /// [`simple`](Self::simple) with bytes that need not be UTF-8, such as a script's own status.
    pub fn simple_bytes(&mut self, text: &[u8]) {
        self.out.push(b'+');
        self.line(text);
    }

    /// An error: a code that clients act on (`ERR`, `WRONGTYPE`) and a text for people. As in Redis, line ends at either end of `text`
    /// are dropped and others become blanks. Without a text the code stands alone.
    pub fn error(&mut self, code: &str, text: &str) {
        self.error_bytes(code.as_bytes(), text.as_bytes());
    }

    /// The error that ends a connection whose request was refused.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        if let ProtocolError::ExpectedDollar(byte) = error {
            // Redis puts the byte itself there, which need not be text.
            let mut text = *b"Protocol error: expected '$', got ' '";
            let at = text.len() - 2;
            text[at] = *byte;
            self.error_bytes(b"ERR", &text);
        } else {
            self.error("ERR", &error.to_string());
        }
    }

    /// [`error`](Self::error) with bytes that need not be UTF-8, such as a script's own error.
    pub fn error_bytes(&mut self, code: &[u8], text: &[u8]) {
        self.out.push(b'-');
        self.sanitised(code);
        let text = trim_line_ends(text);
        if !text.is_empty() {
            self.out.push(b' ');
            self.sanitised(text);
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.count(b':', value),
            Err(_) => self.negative_int(value),
        }
    }

    /// The head of an array of `len` replies, and the first of them, which are integers. What checks answer, so it is put
    /// together beside the buffer and copied once.
    #[inline]
    pub fn array_of_ints<const N: usize>(&mut self, len: usize, numbers: [i64; N]) {
        debug_assert!(N <= len);
        let mut lines = [[0; LINE_BYTES_MAX + OVERWRITTEN]; N];
        let lines = lines.as_flattened_mut();
        self.len(b'*', len);
        let mut at = 0;
        for number in numbers {
            lines[at..at + 2].copy_from_slice(b":-");
            at += 1 + usize::from(number < 0);
            at = write_digits(lines, at, number.unsigned_abs());
            lines[at..at + 2].copy_from_slice(b"\r\n");
            at += 2;
        }
        self.out.extend_from_slice(&lines[..at]);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, data: &[u8]) {
        self.out.reserve(data.len() + LINE_BYTES_MAX + 2);
        self.len(b'$', data.len());
        self.out.extend_from_slice(data);
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer as a bulk string.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        let magnitude = value.unsigned_abs();
        self.len(b'$', digit_count(magnitude) + usize::from(value < 0));
        self.digits_line(if value < 0 { b"-" } else { b"" }, magnitude);
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.proto {
            Proto::Resp2 => b"$-1\r\n",
            Proto::Resp3 => b"_\r\n",
        });
    }

    /// No value where an array was due (`EXEC`, `BLPOP`).
    #[inline]
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.proto {
            Proto::Resp2 => b"*-1\r\n",
            Proto::Resp3 => b"_\r\n",
        });
    }

    /// A boolean; 1 or 0 in RESP2.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.proto, value) {
            (Proto::Resp2, false) => b":0\r\n",
            (Proto::Resp2, true) => b":1\r\n",
            (Proto::Resp3, false) => b"#f\r\n",
            (Proto::Resp3, true) => b"#t\r\n",
        });
    }

    /// A floating point number with Redis's text; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        let text = format_double(value);
        match self.proto {
            Proto::Resp2 => self.bulk(text.as_bytes()),
            Proto::Resp3 => {
                self.out.push(b',');
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A whole number of any size, given as its digits; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.proto {
            Proto::Resp2 => self.bulk(digits),
            Proto::Resp3 => {
                self.out.push(b'(');
                self.line(digits);
            }
        }
    }

    /// Plain text for people (`INFO`, `CLIENT LIST`); a bulk string in RESP2.
    pub fn verbatim(&mut self, text: &[u8]) {
        self.verbatim_as(*b"txt", text);
    }

    /// [`verbatim`](Self::verbatim) with a format of three letters.
    pub fn verbatim_as(&mut self, format: [u8; 3], text: &[u8]) {
        match self.proto {
            Proto::Resp2 => self.bulk(text),
            Proto::Resp3 => {
                self.len(b'=', format.len() + 1 + text.len());
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// The head of an array; `len` replies follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.len(b'*', len);
    }

    /// The head of a map; `len` pairs of replies follow, key before value.
    #[inline]
    pub fn map(&mut self, len: usize) {
        match self.proto {
            Proto::Resp2 => self.len(b'*', 2 * len),
            Proto::Resp3 => self.len(b'%', len),
        }
    }

    /// The head of a set; `len` replies follow.
    #[inline]
    pub fn set(&mut self, len: usize) {
        let kind = self.in_resp3(b'~');
        self.len(kind, len);
    }

    /// The head of a message that answers no request; `len` replies follow.
    #[inline]
    pub fn push(&mut self, len: usize) {
        let kind = self.in_resp3(b'>');
        self.len(kind, len);
    }

    /// `kind` where there is RESP3, else an array.
    #[inline]
    fn in_resp3(&self, kind: u8) -> u8 {
        match self.proto {
            Proto::Resp2 => b'*',
            Proto::Resp3 => kind,
        }
    }

    /// A kind, a count, and the line end. Up to three digits are a copy of known size without a loop.
    #[inline]
    fn count(&mut self, kind: u8, count: u64) {
        let digit = |unit: u64| b'0' + (count / unit % 10) as u8;
        match count {
            0..=9 => self.out.extend_from_slice(&[kind, digit(1), b'\r', b'\n']),
            10..=99 => self.out.extend_from_slice(&[kind, digit(10), digit(1), b'\r', b'\n']),
            100..=999 => {
                self.out
                    .extend_from_slice(&[kind, digit(100), digit(10), digit(1), b'\r', b'\n']);
            }
            _ => self.digits_line(&[kind], count),
        }
    }

    #[inline]
    fn len(&mut self, kind: u8, len: usize) {
        self.count(kind, len as u64);
    }

    #[cold]
    fn negative_int(&mut self, value: i64) {
        self.digits_line(b":-", value.unsigned_abs());
    }

    /// At most two bytes of prefix, the digits, and the line end. Copies a line of fixed size and cuts off what is too much: cheaper
    /// than a copy of a length that the compiler does not know.
    #[inline]
    fn digits_line(&mut self, prefix: &[u8], n: u64) {
        let mut line = [0; LINE_BYTES_MAX];
        let digits_end = prefix.len() + digit_count(n);
        line[..prefix.len()].copy_from_slice(prefix);
        write_digits_before(&mut line, digits_end, n);
        line[digits_end] = b'\r';
        line[digits_end + 1] = b'\n';
        let line_end = self.out.len() + digits_end + 2;
        self.out.extend_from_slice(&line);
        self.out.truncate(line_end);
    }

    fn line(&mut self, text: &[u8]) {
        self.sanitised(text);
        self.out.extend_from_slice(b"\r\n");
    }

    /// `text` with blanks for line ends, which would end the reply early.
    fn sanitised(&mut self, text: &[u8]) {
        let start = self.out.len();
        self.out.extend_from_slice(text);
        for byte in &mut self.out[start..] {
            if is_line_end(*byte) {
                *byte = b' ';
            }
        }
    }
}

/// Two bytes of prefix, the 20 digits of a `u64`, two bytes of line end.
const LINE_BYTES_MAX: usize = 24;

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn trim_line_ends(text: &[u8]) -> &[u8] {
    let Some(start) = text.iter().position(|byte| !is_line_end(*byte)) else {
        return &[];
    };
    let end = text
        .iter()
        .rposition(|byte| !is_line_end(*byte))
        .map_or(start, |last| last + 1);
    &text[start..end]
}
