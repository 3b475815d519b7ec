//! Replies of scripts to clients.

use tollgate_eval::ReplySink;
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
        // A blank at the end stays.
        Some(blank) if blank + 1 < text.len() => reply.error_bytes(&text[..blank], &text[blank + 1..]),
        _ => reply.error_bytes(text, b""),
    }
}
