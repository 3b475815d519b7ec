//! A blocking RESP client for tests.
//!
//! The decoder is written here and not taken from the code under test, so that a wrong encoding cannot be hidden by a
//! decoder that shares the mistake. Unlike most clients it keeps apart what differs on the wire: the three nulls, simple
//! and bulk strings, and the order of a map.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take before a test gives up on it.
const REPLY_LIMIT: Duration = Duration::from_secs(10);
/// Deeper replies than this are refused; no command nests deeper than `COMMAND DOCS`.
const DEPTH_MAX: usize = 32;

/// A reply, in RESP2 or RESP3.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `+OK`
    Simple(String),
    /// `-ERR ...`, without the dash
    Error(String),
    /// `:1`
    Int(i64),
    /// `$3`
    Bulk(Vec<u8>),
    /// `*2`
    Array(Vec<Value>),
    /// `$-1`, RESP2
    NullBulk,
    /// `*-1`, RESP2
    NullArray,
    /// `_`, RESP3
    Null,
    /// `#t`
    Bool(bool),
    /// `,1.5`, as its text
    Double(String),
    /// `(123`, as its text
    BigNumber(String),
    /// `!21`
    BulkError(Vec<u8>),
    /// `=15`, with the three-letter format before the colon
    Verbatim(Vec<u8>),
    /// `%2`, in the order received
    Map(Vec<(Value, Value)>),
    /// `~2`, in the order received
    Set(Vec<Value>),
    /// `>2`
    Push(Vec<Value>),
}

impl Value {
    /// The integer.
    ///
    /// # Panics
    /// If it is none.
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            other => panic!("no integer: {other:?}"),
        }
    }

    /// The text of a simple or bulk string.
    ///
    /// # Panics
    /// If it is neither, or is not UTF-8.
    pub fn text(&self) -> &str {
        match self {
            Self::Simple(text) => text,
            Self::Bulk(bytes) => {
                std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("not UTF-8: {}", bytes.escape_ascii()))
            }
            other => panic!("no string: {other:?}"),
        }
    }

    /// The message of an error.
    ///
    /// # Panics
    /// If it is none.
    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            other => panic!("no error: {other:?}"),
        }
    }

    /// The elements of an array, set or push.
    ///
    /// # Panics
    /// If it is none of these.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("no array: {other:?}"),
        }
    }

    /// The value under `field` of a RESP3 map, or of a RESP2 array of names and values in turn.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn field(&self, field: &str) -> &Value {
        let named = |name: &Value| matches!(name, Self::Simple(_) | Self::Bulk(_)) && name.text() == field;
        let found = match self {
            Self::Map(pairs) => pairs.iter().find(|(name, _)| named(name)).map(|(_, value)| value),
            Self::Array(items) => items.chunks_exact(2).find(|pair| named(&pair[0])).map(|pair| &pair[1]),
            other => panic!("no map: {other:?}"),
        };
        found.unwrap_or_else(|| panic!("no field {field} in {self:?}"))
    }

    /// True for each of the three nulls.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullBulk | Self::NullArray)
    }

    /// True for an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::BulkError(_))
    }
}

/// Bytes that are no RESP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError(pub String);

/// Reads one reply from the front of `bytes`: the reply and its length, or `None` if it is not whole yet.
pub fn decode(bytes: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    Ok(reader.value(0)?.map(|value| (value, reader.at)))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Option<Value>, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError(format!("nested deeper than {DEPTH_MAX}")));
        }
        let Some((kind, line)) = self.line()? else {
            return Ok(None);
        };
        let wrong = || DecodeError(format!("{}{line}", kind.escape_ascii()));
        let number = || line.parse::<i64>().map_err(|_| wrong());
        Ok(Some(match kind {
            b'+' => Value::Simple(line),
            b'-' => Value::Error(line),
            b':' => Value::Int(number()?),
            b',' => Value::Double(line),
            b'(' => Value::BigNumber(line),
            b'_' if line.is_empty() => Value::Null,
            b'#' if line == "t" || line == "f" => Value::Bool(line == "t"),
            b'$' if line == "-1" => Value::NullBulk,
            b'*' if line == "-1" => Value::NullArray,
            b'$' | b'!' | b'=' => {
                let len = line.parse::<usize>().map_err(|_| wrong())?;
                let Some(bytes) = self.blob(len)? else {
                    return Ok(None);
                };
                match kind {
                    b'$' => Value::Bulk(bytes),
                    b'!' => Value::BulkError(bytes),
                    _ => Value::Verbatim(bytes),
                }
            }
            b'*' | b'~' | b'>' | b'%' => {
                let len = line.parse::<usize>().map_err(|_| wrong())?;
                let count = if kind == b'%' { len * 2 } else { len };
                let mut items = Vec::new();
                for _ in 0..count {
                    let Some(item) = self.value(depth + 1)? else {
                        return Ok(None);
                    };
                    items.push(item);
                }
                match kind {
                    b'*' => Value::Array(items),
                    b'~' => Value::Set(items),
                    b'>' => Value::Push(items),
                    _ => Value::Map(pairs(items)),
                }
            }
            _ => return Err(wrong()),
        }))
    }

    /// The type byte and the rest of a line.
    fn line(&mut self) -> Result<Option<(u8, String)>, DecodeError> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else {
            return Ok(None);
        };
        let Some((kind, line)) = rest[..end].split_first() else {
            return Err(DecodeError("an empty line".to_owned()));
        };
        let line = String::from_utf8(line.to_vec())
            .map_err(|_| DecodeError(format!("a line that is not UTF-8: {}", line.escape_ascii())))?;
        self.at += end + 2;
        Ok(Some((*kind, line)))
    }

    fn blob(&mut self, len: usize) -> Result<Option<Vec<u8>>, DecodeError> {
        let rest = &self.bytes[self.at..];
        if rest.len() < len + 2 {
            return Ok(None);
        }
        if &rest[len..len + 2] != b"\r\n" {
            return Err(DecodeError(format!("no line end after a string of {len} bytes")));
        }
        self.at += len + 2;
        Ok(Some(rest[..len].to_vec()))
    }
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    let mut pairs = Vec::with_capacity(items.len() / 2);
    while let (Some(name), Some(value)) = (items.next(), items.next()) {
        pairs.push((name, value));
    }
    pairs
}

/// A request as an array of bulk strings.
pub fn encode_command<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects, without a handshake.
    ///
    /// # Panics
    /// If nothing listens.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("cannot reach {address}: {error}"));
        stream
            .set_read_timeout(Some(REPLY_LIMIT))
            .expect("the limit is not zero");
        stream.set_nodelay(true).expect("a TCP socket has this option");
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the bytes can be sent");
    }

    /// Sends one command and waits for no reply.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.send_raw(&encode_command(args));
    }

    /// Waits for one reply.
    ///
    /// # Panics
    /// If the connection is closed, silent for ten seconds, or sends what is no RESP.
    pub fn receive(&mut self) -> Value {
        loop {
            if let Some((value, len)) = decode(&self.received).unwrap_or_else(|error| panic!("{error:?}")) {
                self.received.drain(..len);
                return value;
            }
            assert!(
                self.fill() > 0,
                "closed before a whole reply; it sent {}",
                self.received.escape_ascii()
            );
        }
    }

    /// Sends one command and waits for its reply.
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.send(args);
        self.receive()
    }

    /// Like [`Client::command`], for arguments without blanks in them: `client.line("CL.THROTTLE k 15 30 60")`.
    pub fn line(&mut self, line: &str) -> Value {
        self.command(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Sends all `commands` in one write, then waits for a reply to each.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> Vec<Value> {
        let request: Vec<u8> = commands.iter().flat_map(|args| encode_command(args)).collect();
        // Sent by a second thread, so that a server that answers before it has read all is not blocked by us.
        let mut writer = self.stream.try_clone().expect("a socket can be shared");
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(&request).expect("the pipeline can be sent"));
            commands.iter().map(|_| self.receive()).collect()
        })
    }

    /// Switches to RESP3.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn hello3(&mut self) -> Value {
        let reply = self.line("HELLO 3");
        assert!(matches!(reply, Value::Map(_)), "HELLO 3 answered {reply:?}");
        reply
    }

    /// Waits for exactly `len` bytes, as they came.
    ///
    /// # Panics
    /// If the connection is closed or silent for ten seconds before.
    pub fn receive_raw(&mut self, len: usize) -> Vec<u8> {
        while self.received.len() < len {
            assert!(self.fill() > 0, "closed after {} bytes of {len}", self.received.len());
        }
        self.received.drain(..len).collect()
    }

    /// Everything the server sends until it closes the connection.
    ///
    /// # Panics
    /// If it has not closed it after ten seconds of silence.
    pub fn receive_to_end(&mut self) -> Vec<u8> {
        while self.fill() > 0 {}
        std::mem::take(&mut self.received)
    }

    /// True when the server sends nothing for `wait` and keeps the connection open.
    pub fn is_silent_for(&mut self, wait: Duration) -> bool {
        if !self.received.is_empty() {
            return false;
        }
        self.stream.set_read_timeout(Some(wait)).expect("the wait is not zero");
        let mut byte = [0];
        let silent = match self.stream.peek(&mut byte) {
            Ok(_) => false,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        self.stream
            .set_read_timeout(Some(REPLY_LIMIT))
            .expect("the limit is not zero");
        silent
    }

    /// Tells the server that no more requests come; replies can still be read.
    pub fn shutdown_write(&mut self) {
        self.stream
            .shutdown(std::net::Shutdown::Write)
            .expect("the connection is open");
    }

    /// Reads once: the number of bytes, 0 when the server has closed or reset the connection.
    fn fill(&mut self) -> usize {
        let mut chunk = [0; 16 * 1024];
        let len = match self.stream.read(&mut chunk) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no reply: {error}; so far it sent {}", self.received.escape_ascii()),
        };
        self.received.extend_from_slice(&chunk[..len]);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_apart_what_differs_on_the_wire() {
        let cases: &[(&[u8], Value)] = &[
            (b"+OK\r\n", Value::Simple("OK".into())),
            (b"-ERR no\r\n", Value::Error("ERR no".into())),
            (b":-7\r\n", Value::Int(-7)),
            (b"$0\r\n\r\n", Value::Bulk(vec![])),
            (b"$4\r\n\r\n\x00\xff\r\n", Value::Bulk(b"\r\n\x00\xff".to_vec())),
            (b"$-1\r\n", Value::NullBulk),
            (b"*-1\r\n", Value::NullArray),
            (b"_\r\n", Value::Null),
            (b"#t\r\n", Value::Bool(true)),
            (b",inf\r\n", Value::Double("inf".into())),
            (b"=6\r\ntxt:ab\r\n", Value::Verbatim(b"txt:ab".to_vec())),
            (
                b"*2\r\n:1\r\n*0\r\n",
                Value::Array(vec![Value::Int(1), Value::Array(vec![])]),
            ),
            (
                b"%1\r\n+a\r\n:1\r\n",
                Value::Map(vec![(Value::Simple("a".into()), Value::Int(1))]),
            ),
            (b"~1\r\n:1\r\n", Value::Set(vec![Value::Int(1)])),
            (b">1\r\n:1\r\n", Value::Push(vec![Value::Int(1)])),
        ];
        for (bytes, value) in cases {
            assert_eq!(
                decode(bytes),
                Ok(Some((value.clone(), bytes.len()))),
                "{}",
                bytes.escape_ascii()
            );
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), Ok(None), "{} cut at {cut}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn refuses_what_is_no_resp() {
        for bytes in [
            &b"\r\n"[..],
            b"?1\r\n",
            b":x\r\n",
            b"$-2\r\n",
            b"$1\r\nabc",
            b"#x\r\n",
            b"+\xff\r\n",
        ] {
            assert!(decode(bytes).is_err(), "{}", bytes.escape_ascii());
        }
        assert!(decode(&b"*1\r\n".repeat(DEPTH_MAX + 2)).is_err());
    }

    #[test]
    fn encodes_binary_arguments() {
        assert_eq!(
            encode_command(&[&b"a"[..], b"\r\n\x00"]),
            b"*2\r\n$1\r\na\r\n$3\r\n\r\n\x00\r\n"
        );
    }

    #[test]
    fn finds_fields_in_both_forms() {
        let (map, _) = decode(b"%1\r\n$1\r\na\r\n:1\r\n").unwrap().unwrap();
        let (flat, _) = decode(b"*2\r\n$1\r\na\r\n:1\r\n").unwrap().unwrap();
        assert_eq!((map.field("a").int(), flat.field("a").int()), (1, 1));
    }
}
