//! A minimal client of the Redis protocol: one connection, one request at a time, RESP2.

use bytes::BytesMut;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use thiserror::Error;
use tollgate_protocol::{Proto, Reply, decode_reply, encode_request};

/// Longest time to connect, and to wait for a reply.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest reply in bytes. The replies to a check are below 200; the bound also keeps the decoder from recursing far.
const REPLY_MAX_BYTES: usize = 1 << 14;

/// How an answer of HTTP starts.
const HTTP: &[u8] = b"HTTP/";

/// What can go wrong with a node that is asked.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address is none.
    #[error("{flag} must be host:port, such as 127.0.0.1:6379 or [::1]:6379, not {addr:?}")]
    Address {
        /// The flag that has it.
        flag: &'static str,
        /// What it is.
        addr: String,
    },
    /// No connection.
    #[error("{addr}: {source}; is a node running there? (tollgate serve, or {flag})")]
    Connect {
        /// The flag that has the address.
        flag: &'static str,
        /// The node's address.
        addr: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or the address has a name that is none.
    #[error("{addr}: {source}")]
    Io {
        /// The node's address.
        addr: String,
        /// Why.
        source: io::Error,
    },
    /// The node answered an error.
    #[error("{addr} answered: {text}{}", hint(.text))]
    Server {
        /// The node's address.
        addr: String,
        /// Its error.
        text: String,
    },
    /// What came back is no reply to this request.
    #[error("{addr} does not answer as a node of tollgate: {what}")]
    Reply {
        /// The node's address.
        addr: String,
        /// What is wrong with it.
        what: String,
    },
}

/// What to do about an error of a node, where the text of it does not say.
fn hint(text: &str) -> &'static str {
    if text.starts_with("NOAUTH ") {
        " Give the password with --password-file FILE, or TOLLGATE_AUTH_PASSWORD_FILE"
    } else {
        ""
    }
}

/// Whether `addr` is `host:port`, an IPv6 address being in brackets.
fn is_host_and_port(addr: &str) -> bool {
    addr.rsplit_once(':').is_some_and(|(host, port)| {
        let host_is_whole = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        !host.is_empty() && host_is_whole && port.parse::<u16>().is_ok()
    })
}

/// Connects to the address that `flag` has, trying every one that the name has. To connect, read and write may take `timeout` each.
pub fn connect(flag: &'static str, addr: &str, timeout: Duration) -> Result<TcpStream, ClientError> {
    if !is_host_and_port(addr) {
        let addr = addr.to_owned();
        return Err(ClientError::Address { flag, addr });
    }
    let io = |source| ClientError::Io {
        addr: addr.to_owned(),
        source,
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for socket in addr.to_socket_addrs().map_err(io)? {
        match TcpStream::connect_timeout(&socket, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout)).map_err(io)?;
                stream.set_write_timeout(Some(timeout)).map_err(io)?;
                stream.set_nodelay(true).map_err(io)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(ClientError::Connect {
        flag,
        addr: addr.to_owned(),
        source: last,
    })
}

/// A connection to a node.
pub struct Client {
    addr: String,
    stream: TcpStream,
}

impl Client {
    /// Connects.
    pub fn connect(addr: &str) -> Result<Self, ClientError> {
        Ok(Self {
            addr: addr.to_owned(),
            stream: connect("--addr", addr, TIMEOUT)?,
        })
    }

    /// Sends one command and reads its reply; an error reply is an error.
    pub fn call(&mut self, arguments: &[&[u8]]) -> Result<Reply, ClientError> {
        let mut request = Vec::new();
        encode_request(arguments, &mut request);
        self.stream.write_all(&request).map_err(|source| self.io(source))?;
        match self.read_reply()? {
            Reply::Error(text) => Err(ClientError::Server {
                addr: self.addr.clone(),
                text: String::from_utf8_lossy(&text).into_owned(),
            }),
            reply => Ok(reply),
        }
    }

    fn read_reply(&mut self) -> Result<Reply, ClientError> {
        let mut reply = BytesMut::new();
        let mut chunk = [0; 4_096];
        loop {
            let count = match self.stream.read(&mut chunk) {
                Ok(0) => Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the connection was closed",
                )),
                Ok(count) => Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in 5 s"))
                }
                Err(error) => Err(error),
            }
            .map_err(|source| self.io(source))?;
            reply.extend_from_slice(&chunk[..count]);
            // As much of it as has come: no reply of the protocol starts with an H.
            let is_http = reply.starts_with(&HTTP[..reply.len().min(HTTP.len())]);
            match decode_reply(&mut reply, Proto::Resp2) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) if reply.len() > REPLY_MAX_BYTES => {
                    return Err(self.unexpected("the reply is too long".to_owned()));
                }
                Ok(None) => {}
                Err(_) if is_http => {
                    return Err(self.unexpected("it speaks HTTP; is this the HTTP port?".to_owned()));
                }
                Err(error) => return Err(self.unexpected(error.to_string())),
            }
        }
    }

    fn io(&self, source: io::Error) -> ClientError {
        ClientError::Io {
            addr: self.addr.clone(),
            source,
        }
    }

    /// An error about a reply.
    pub fn unexpected(&self, what: String) -> ClientError {
        ClientError::Reply {
            addr: self.addr.clone(),
            what,
        }
    }
}
