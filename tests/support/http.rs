use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const IO_LIMIT: Duration = Duration::from_secs(10);

/// What an HTTP server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// Header names in lower case, with their values, in the order received.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl HttpReply {
    /// The value of the first header called `name` (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.body))
    }
}

/// One HTTP/1.1 request on a connection of its own. A body is sent as JSON.
///
/// # Panics
/// If the server cannot be reached, is silent for ten seconds, or answers something that is not HTTP.
pub fn http(address: SocketAddr, method: &str, path: &str, body: &str) -> HttpReply {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("cannot reach {address}: {error}"));
    stream.set_read_timeout(Some(IO_LIMIT)).expect("the limit is not zero");
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    if !body.is_empty() {
        request.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        ));
    }
    request.push_str("\r\n");
    request.push_str(body);
    stream.write_all(request.as_bytes()).expect("the request can be sent");
    let mut reply = Vec::new();
    stream
        .read_to_end(&mut reply)
        .unwrap_or_else(|error| panic!("no whole reply to {method} {path}: {error}"));
    parse(&reply).unwrap_or_else(|| panic!("not HTTP: {}", String::from_utf8_lossy(&reply)))
}

fn parse(reply: &[u8]) -> Option<HttpReply> {
    let head_len = reply.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&reply[..head_len]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let chunked = headers
        .iter()
        .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let rest = &reply[head_len + 4..];
    let body = if chunked { join_chunks(rest)? } else { rest.to_vec() };
    Some(HttpReply {
        status,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn join_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_len = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line_len]).ok()?.trim(), 16).ok()?;
        rest = &rest[line_len + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_reply_with_a_length() {
        let reply = parse(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nX-A: b\r\n\r\nhi").unwrap();
        assert_eq!(
            (reply.status, reply.body.as_str(), reply.header("x-a")),
            (404, "hi", Some("b"))
        );
    }

    #[test]
    fn joins_chunks() {
        let reply =
            parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n");
        assert_eq!(reply.unwrap().body, "abc0123456789");
    }

    #[test]
    fn refuses_a_truncated_chunk_and_what_is_not_http() {
        assert_eq!(
            parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"),
            None
        );
        assert_eq!(parse(b"-ERR unknown command\r\n\r\n\r\n"), None);
    }
}
