//! Replies between commands, scripts and clients.

use tollgate_eval::{ReplySink, Tape};
use tollgate_protocol::ReplyWriter;

/// Writes a script's reply for its client.
pub(crate) struct Wire<'a>(pub(crate) ReplyWriter<'a>);

impl ReplySink for Wire<'_> {
    fn integer(&mut self, value: i64) {
        self.0.int(value);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.0.bulk(bytes);
    }

    fn status(&mut self, text: &[u8]) {
        self.0.simple_bytes(text);
    }

    fn error(&mut self, text: &[u8]) {
        write_error(&mut self.0, text);
    }

    fn null(&mut self) {
        self.0.null();
    }

    fn array(&mut self, len: usize) {
        self.0.array(len);
    }

    fn map(&mut self, pairs: usize) {
        self.0.map(pairs);
    }

    fn set(&mut self, len: usize) {
        self.0.set(len);
    }

    fn boolean(&mut self, value: bool) {
        self.0.bool(value);
    }

    fn double(&mut self, value: f64) {
        self.0.double(value);
    }

    fn big_number(&mut self, digits: &[u8]) {
        self.0.big_number(digits);
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        let mut letters = *b"txt";
        letters.iter_mut().zip(format).for_each(|(to, &from)| *to = from);
        self.0.verbatim_as(letters, text);
    }
}

/// Writes an error with its code in front.
pub(crate) fn write_error(reply: &mut ReplyWriter<'_>, text: &[u8]) {
    match text.iter().position(|&byte| byte == b' ') {
        Some(blank) => reply.error_bytes(&text[..blank], &text[blank + 1..]),
        None => reply.error_bytes(text, b""),
    }
}

/// Puts a reply of a command, as it is on the wire, on a tape. What a command writes is whole and right; of anything else, what can be
/// read.
pub(crate) fn to_tape(mut bytes: &[u8], tape: &mut Tape) {
    while let Some((&kind, rest)) = bytes.split_first() {
        let Some(end) = rest.iter().position(|&byte| byte == b'\r') else {
            return;
        };
        let line = &rest[..end];
        bytes = rest.get(end + 2..).unwrap_or_default();
        let number = tollgate_protocol::parse_integer(line);
        let len = number.and_then(|number| usize::try_from(number).ok());
        match (kind, len) {
            (b':', _) => tape.integer(number.unwrap_or_default()),
            (b'+', _) => tape.status(line),
            (b'-', _) => tape.error(line),
            (b'_', _) | (b'$' | b'*', None) => tape.null(),
            (b'#', _) => tape.boolean(line == b"t"),
            (b',', _) => tape.double(parse_double(line)),
            (b'(', _) => tape.big_number(line),
            (b'*', Some(len)) => tape.array(len),
            (b'%', Some(len)) => tape.map(len),
            (b'~', Some(len)) => tape.set(len),
            (b'$' | b'=', Some(len)) => {
                let Some(text) = bytes.get(..len) else { return };
                match kind {
                    b'=' if len >= 4 => tape.verbatim(&text[..3], &text[4..]),
                    _ => tape.bulk(text),
                }
                bytes = bytes.get(len + 2..).unwrap_or_default();
            }
            _ => return,
        }
    }
}

fn parse_double(text: &[u8]) -> f64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().unwrap_or(f64::NAN)
}
