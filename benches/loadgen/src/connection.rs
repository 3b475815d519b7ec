//! One non-blocking connection: bytes to send, replies to count.

use crate::reply::ReplyCounter;
use crate::{Error, Result};
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// Bytes read at once; more than the replies of the deepest pipeline we run.
pub const READ_BYTES: usize = 256 * 1024;

/// A socket in a poll, edge-triggered.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    replies: ReplyCounter,
}

/// What one turn of reading brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Whole replies.
    pub replies: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Connection {
    /// Connects, without delay for small writes, and registers with `poll` as `token`.
    pub fn open(address: SocketAddr, poll: &Poll, token: usize) -> Result<Self> {
        let stream = std::net::TcpStream::connect(address).map_err(Error::io(format!("connect to {address}")))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(true))
            .map_err(Error::io("prepare a socket"))?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry()
            .register(&mut stream, Token(token), Interest::READABLE | Interest::WRITABLE)
            .map_err(Error::io("register a socket"))?;
        Ok(Self {
            stream,
            replies: ReplyCounter::default(),
        })
    }

    /// Writes as much as the socket takes; how much that was.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_gone(&e) => return Err(Error::Closed),
                Err(e) => return Err(Error::io("write")(e)),
            }
        }
        Ok(written)
    }

    /// Reads until the socket is empty.
    ///
    /// # Errors
    ///
    /// The first error reply, with `request` as what was asked.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8], request: &str) -> Result<Received> {
        let mut received = Received::default();
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(Error::Closed),
                Ok(n) => {
                    received.bytes += n as u64;
                    let fed = self.replies.feed(&buffer[..n]);
                    received.replies += fed.map_err(|reply| bad_reply(request, reply))?;
                    if let Some(error) = self.replies.first_error() {
                        return Err(bad_reply(request, error.to_owned()));
                    }
                    // A short read of a stream means that it is empty; what comes later is a new edge.
                    if n < buffer.len() {
                        return Ok(received);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(received),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_gone(&e) => return Err(Error::Closed),
                Err(e) => return Err(Error::io("read")(e)),
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn bad_reply(request: &str, reply: String) -> Error {
    Error::BadReply {
        request: request.to_owned(),
        reply,
    }
}
