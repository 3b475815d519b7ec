//! Single requests, one at a time: set-up and checks before a run.

use crate::request::Template;
use crate::{Error, Result};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a single reply may take.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// A reply (RESP2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A simple or bulk string.
    Text(String),
    /// A number.
    Integer(i64),
    /// An array.
    Array(Vec<Value>),
    /// No value.
    Null,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Null => write!(f, "null"),
            Self::Array(values) => {
                write!(f, "[")?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at == 0 { "" } else { ", " })?;
                }
                write!(f, "]")
            }
        }
    }
}

/// A blocking connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).map_err(Error::io(format!("connect to {address}")))?;
        stream
            .set_read_timeout(Some(REPLY_MAX))
            .map_err(Error::io("prepare a socket"))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends these words and returns the reply; an error reply is an error.
    pub fn call(&mut self, words: &[&str]) -> Result<Value> {
        self.call_template(&Template::new(words), 0)
    }

    /// Sends a request with the key of this number and returns the reply; an error reply is an error.
    pub fn call_template(&mut self, template: &Template, key: u64) -> Result<Value> {
        self.stream
            .get_mut()
            .write_all(&template.with_key(key))
            .map_err(Error::io("write"))?;
        self.value().map_err(|error| match error {
            Error::BadReply { reply, .. } => Error::BadReply {
                request: template.words().to_owned(),
                reply,
            },
            other => other,
        })
    }

    fn value(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map_err(Error::io("read a reply"))?;
        let bad = |reply: &str| Error::BadReply {
            request: String::new(),
            reply: reply.to_owned(),
        };
        let text = line.strip_suffix("\r\n").ok_or(Error::Closed)?;
        let (kind, rest) = text.split_at_checked(1).ok_or_else(|| bad(text))?;
        let number = || rest.parse::<i64>().map_err(|_| bad(text));
        match kind {
            "+" => Ok(Value::Text(rest.to_owned())),
            ":" => Ok(Value::Integer(number()?)),
            "$" => match usize::try_from(number()?) {
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes).map_err(Error::io("read a reply"))?;
                    bytes.truncate(length);
                    Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
                }
                Err(_) => Ok(Value::Null),
            },
            "*" => match number()? {
                -1 => Ok(Value::Null),
                count => (0..count)
                    .map(|_| self.value())
                    .collect::<Result<_>>()
                    .map(Value::Array),
            },
            "-" => Err(bad(rest)),
            _ => Err(bad(text)),
        }
    }
}
