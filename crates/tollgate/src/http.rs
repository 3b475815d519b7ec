//! A minimal client of the admin listener: one request of HTTP/1.1 a connection.

use crate::client::{ClientError, connect};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{Read, Write};
use std::time::Duration;
use tollgate_node::config::Password;

/// Longest time to wait for an answer: a node waits for its peers, too.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer in bytes: a thousand members have less.
const ANSWER_MAX_BYTES: u64 = 4 << 20;

/// What a node answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends one request and reads the answer. A body is JSON.
pub fn request(
    addr: &str,
    password: Option<&Password>,
    method: &str,
    path: &str,
    body: &str,
) -> Result<Answer, ClientError> {
    let mut stream = connect("--admin", addr, TIMEOUT)?;
    let io = |source| ClientError::Io {
        addr: addr.to_owned(),
        source,
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n");
    if let Some(password) = password {
        // Basic, since a password may have bytes that a header cannot.
        let pair = [b":".as_slice(), password.as_bytes()].concat();
        head.push_str(&format!("authorization: Basic {}\r\n", STANDARD.encode(pair)));
    }
    if !body.is_empty() {
        let length = body.len();
        head.push_str(&format!(
            "content-type: application/json\r\ncontent-length: {length}\r\n"
        ));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).map_err(io)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer).map_err(io)?;
    parse(&answer).ok_or_else(|| ClientError::Reply {
        addr: addr.to_owned(),
        what: match answer.first() {
            Some(b'-' | b'+' | b'$' | b'*') => "it speaks the Redis protocol; is this --listen?".to_owned(),
            _ => "the answer is no HTTP".to_owned(),
        },
    })
}

/// An answer whose body ends with the connection, or says its length.
fn parse(answer: &[u8]) -> Option<Answer> {
    let head_bytes = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..head_bytes]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>())
    });
    let body = &answer[head_bytes + 4..];
    let body = match length {
        Some(length) => body.get(..length.ok()?)?,
        None => body,
    };
    Some(Answer {
        status,
        body: body.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_whole_answers_and_no_others() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
        let answer = Answer {
            status: 404,
            body: b"{}".to_vec(),
        };
        assert_eq!(parse(whole), Some(answer));
        assert_eq!(parse(&whole[..whole.len() - 1]), None, "cut short");
        for bad in [
            b"".as_slice(),
            b"-ERR unknown command\r\n\r\n",
            b"HTTP/1.1 x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        ] {
            assert_eq!(parse(bad), None);
        }
    }
}
