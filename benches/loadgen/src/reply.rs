//! Replies, only counted: RESP2 and RESP3, resumable at any byte, without building values.

/// Counts whole replies in a stream of bytes and remembers the first error in it.
#[derive(Debug, Default)]
pub struct ReplyCounter {
    /// Elements still missing in the reply that is being read; 0 between replies.
    elements_left: u64,
    /// Bytes of a bulk string (with its line end) still to be skipped.
    skip_bytes: usize,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    first_error: Option<String>,
}

/// A line of a reply is never longer in what we ask for; more is not RESP.
const LINE_BYTES_MAX: usize = 64 * 1024;

impl ReplyCounter {
    /// Takes the next bytes of the stream and returns how many replies ended in them.
    ///
    /// # Errors
    ///
    /// When the bytes are not RESP: what was wrong.
    #[inline]
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<u64, String> {
        let mut replies = 0;
        while !bytes.is_empty() {
            if self.skip_bytes > 0 {
                let skipped = self.skip_bytes.min(bytes.len());
                self.skip_bytes -= skipped;
                bytes = &bytes[skipped..];
                if self.skip_bytes == 0 && self.elements_left == 0 {
                    replies += 1;
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|&b| b == b'\n') else {
                if self.partial.len() + bytes.len() > LINE_BYTES_MAX {
                    return Err("a line without an end".to_owned());
                }
                self.partial.extend_from_slice(bytes);
                break;
            };
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            let whole = if self.partial.is_empty() {
                self.line(line)?
            } else {
                let mut joined = std::mem::take(&mut self.partial);
                joined.extend_from_slice(line);
                self.line(&joined)?
            };
            replies += u64::from(whole);
        }
        Ok(replies)
    }

    /// The first error reply seen, at any depth.
    pub fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }

    /// Takes one line with its end; true when a reply ended with it.
    #[inline]
    fn line(&mut self, line: &[u8]) -> Result<bool, String> {
        let not_resp = || format!("not RESP: {:?}", String::from_utf8_lossy(line));
        let [kind, text @ .., b'\r', b'\n'] = line else {
            return Err(not_resp());
        };
        let starts = self.elements_left == 0;
        let mut left = if starts { 1 } else { self.elements_left };
        match kind {
            b'+' | b':' | b'_' | b'#' | b',' | b'(' => left -= 1,
            b'-' => {
                left -= 1;
                self.first_error
                    .get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
            }
            b'$' | b'=' | b'!' => {
                left -= 1;
                let length = length(text).ok_or_else(not_resp)?;
                if *kind == b'!' {
                    self.first_error.get_or_insert_with(|| "a bulk error".to_owned());
                }
                if let Some(length) = length {
                    self.skip_bytes = length + 2;
                }
            }
            b'*' | b'~' | b'>' => {
                left -= 1;
                left += length(text).ok_or_else(not_resp)?.unwrap_or(0) as u64;
            }
            b'%' => {
                left -= 1;
                left += 2 * length(text).ok_or_else(not_resp)?.unwrap_or(0) as u64;
            }
            b'|' => left += 2 * length(text).ok_or_else(not_resp)?.unwrap_or(0) as u64,
            _ => return Err(not_resp()),
        }
        self.elements_left = left;
        Ok(left == 0 && self.skip_bytes == 0)
    }
}

/// A length in a header: `Some(None)` for -1, the RESP2 null.
#[inline]
fn length(text: &[u8]) -> Option<Option<usize>> {
    if text == b"-1" {
        return Some(None);
    }
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    let mut value = 0usize;
    for &digit in text {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + usize::from(digit - b'0');
    }
    Some(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten replies of every shape.
    const STREAM: &[u8] = b"+OK\r\n:1\r\n$5\r\na\r\nbc\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n\
        *3\r\n:1\r\n*2\r\n$1\r\nx\r\n:2\r\n+y\r\n%1\r\n+k\r\n~1\r\n_\r\n|1\r\n+a\r\n:1\r\n#t\r\n";

    #[test]
    fn counts_every_shape_however_it_is_cut() {
        for cut in 1..=STREAM.len() {
            let mut counter = ReplyCounter::default();
            let mut replies = 0;
            for part in STREAM.chunks(cut) {
                replies += counter.feed(part).unwrap();
            }
            assert_eq!(replies, 10, "in pieces of {cut}");
            assert_eq!(counter.first_error(), None);
        }
    }

    #[test]
    fn an_error_is_remembered_at_any_depth() {
        for stream in [&b"+OK\r\n-ERR no\r\n-ERR later\r\n"[..], b"*2\r\n:1\r\n-ERR no\r\n"] {
            let mut counter = ReplyCounter::default();
            counter.feed(stream).unwrap();
            assert_eq!(counter.first_error(), Some("ERR no"));
        }
    }

    #[test]
    fn what_is_not_resp_is_refused() {
        for stream in [&b"hello\r\n"[..], b"$x\r\n", b":1\n", b"*99999999999\r\n", b"\r\n"] {
            assert!(ReplyCounter::default().feed(stream).is_err(), "{stream:?}");
        }
    }
}
