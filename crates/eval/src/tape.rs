//! Replies: the visitor that they are written to, and the tape that holds one until it is a Lua value.
//!
//! A reply could be pushed to Lua while a command writes it, but then a full memory cap would unwind through the
//! command. The tape takes no Lua memory, and what it holds of the common replies is one node and the bytes.

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

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node {
    Integer(i64),
    Bulk(Span),
    Status(Span),
    Error(Span),
    Null,
    Array(usize),
    Map(usize),
    Set(usize),
    Boolean(bool),
    Double(f64),
    BigNumber(Span),
    /// The text and, three bytes before it, its format.
    Verbatim(Span),
}

/// Bytes of the tape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    start: usize,
    len: usize,
}

/// Largest tape whose memory is kept for the next reply, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// One reply of a command to a script.
#[derive(Debug, Default)]
pub struct Tape {
    nodes: Vec<Node>,
    bytes: Vec<u8>,
}

impl Tape {
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.bytes.clear();
        self.nodes.shrink_to(KEPT_BYTES_MAX / size_of::<Node>());
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }

    pub(crate) fn node(&self, index: usize) -> Option<Node> {
        self.nodes.get(index).copied()
    }

    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.start..span.start + span.len]
    }

    /// The format of a verbatim text.
    pub(crate) fn format(&self, span: Span) -> &[u8] {
        &self.bytes[span.start - 3..span.start]
    }

    /// The text of the error that the reply is.
    pub(crate) fn error_text(&self) -> Option<&[u8]> {
        match self.nodes.first() {
            Some(&Node::Error(span)) => Some(self.bytes(span)),
            _ => None,
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Span {
            start,
            len: bytes.len(),
        }
    }
}

impl ReplySink for Tape {
    fn integer(&mut self, value: i64) {
        self.nodes.push(Node::Integer(value));
    }

    fn bulk(&mut self, bytes: &[u8]) {
        let span = self.keep(bytes);
        self.nodes.push(Node::Bulk(span));
    }

    fn status(&mut self, text: &[u8]) {
        let span = self.keep(text);
        self.nodes.push(Node::Status(span));
    }

    fn error(&mut self, text: &[u8]) {
        let span = self.keep(text);
        self.nodes.push(Node::Error(span));
    }

    fn null(&mut self) {
        self.nodes.push(Node::Null);
    }

    fn array(&mut self, len: usize) {
        self.nodes.push(Node::Array(len));
    }

    fn map(&mut self, pairs: usize) {
        self.nodes.push(Node::Map(pairs));
    }

    fn set(&mut self, len: usize) {
        self.nodes.push(Node::Set(len));
    }

    fn boolean(&mut self, value: bool) {
        self.nodes.push(Node::Boolean(value));
    }

    fn double(&mut self, value: f64) {
        self.nodes.push(Node::Double(value));
    }

    fn big_number(&mut self, digits: &[u8]) {
        let span = self.keep(digits);
        self.nodes.push(Node::BigNumber(span));
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        let mut letters = *b"txt";
        letters.iter_mut().zip(format).for_each(|(to, &from)| *to = from);
        self.keep(&letters);
        let span = self.keep(text);
        self.nodes.push(Node::Verbatim(span));
    }
}
