//! Looking ahead in a pipeline.

/// Arguments of a request that are looked at.
const SEEN_ARGS: usize = 4;
/// Arguments that a request may have to be looked past, and digits of a length: what is larger is not worth looking past.
const ARGS_MAX: usize = 64;
const LENGTH_DIGITS_MAX: usize = 4;

/// A request ahead: its first arguments, as far as it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead<'a> {
    args: [&'a [u8]; SEEN_ARGS],
}

impl<'a> Ahead<'a> {
    /// An argument, if it is one of the first four and there is one.
    #[must_use]
    pub fn arg(&self, index: usize) -> Option<&'a [u8]> {
        self.args.get(index).copied().filter(|arg| !arg.is_empty())
    }
}

/// The whole requests at the start of `bytes`, which begins with one, for whoever wants to prepare for them. It stops at the first that
/// is not whole, not small, or not an array, and checks nothing: what a request is, the [`Scanner`](crate::Scanner) says.
pub fn look_ahead(bytes: &[u8]) -> impl Iterator<Item = Ahead<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let count = number_line(&mut rest, b'*')?;
        if count > ARGS_MAX {
            return None;
        }
        let mut args = [&[][..]; SEEN_ARGS];
        for index in 0..count {
            let len = number_line(&mut rest, b'$')?;
            let (arg, after) = rest.split_at_checked(len)?;
            if let Some(seen) = args.get_mut(index) {
                *seen = arg;
            }
            rest = after.get(2..)?;
        }
        Some(Ahead { args })
    })
}

/// Takes a line of that kind with a small number.
#[inline]
fn number_line(rest: &mut &[u8], kind: u8) -> Option<usize> {
    let (&first, after) = rest.split_first()?;
    if first != kind {
        return None;
    }
    let mut number = 0;
    for (digits, &byte) in after.iter().enumerate() {
        match byte {
            b'0'..=b'9' if digits < LENGTH_DIGITS_MAX => number = 10 * number + usize::from(byte - b'0'),
            b'\r' => {
                *rest = after.get(digits + 2..)?;
                return Some(number);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Progress, ScanLimits, Scanner, encode_request};

    /// What the scanner says of the requests that can be looked at.
    fn scanned(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut scanner = Scanner::new(ScanLimits::default());
        let (mut at, mut requests) = (0, Vec::new());
        while let Ok(Progress::Request { consumed }) = scanner.next(&bytes[at..]) {
            let request = scanner.request(&bytes[at..]);
            requests.push(request.iter().take(SEEN_ARGS).map(<[u8]>::to_vec).collect());
            at += consumed;
        }
        requests
    }

    fn seen(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
        look_ahead(bytes)
            .map(|ahead| {
                ahead
                    .args
                    .iter()
                    .take_while(|arg| !arg.is_empty())
                    .map(|arg| arg.to_vec())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn sees_what_the_scanner_finds() {
        let mut bytes = Vec::new();
        for words in [
            &["GET", "key"][..],
            &["PING"],
            &["EVALSHA", "0123", "1", "key", "a", "b"],
            &["SET", "key", "a value\r\nof two lines"],
        ] {
            encode_request(words, &mut bytes);
        }
        assert_eq!(seen(&bytes).len(), 4);
        assert_eq!(seen(&bytes), scanned(&bytes));
        // Cut anywhere, it sees the whole ones.
        for end in 0..bytes.len() {
            assert_eq!(seen(&bytes[..end]), scanned(&bytes[..end]), "{end}");
        }
    }

    #[test]
    fn stops_at_what_is_large_or_odd() {
        let request = |words: &[&str]| {
            let mut bytes = Vec::new();
            encode_request(words, &mut bytes);
            bytes
        };
        let get = request(&["GET", "key"]);
        let many = request(&vec!["x"; ARGS_MAX + 1]);
        let long = request(&["GET", &"k".repeat(10_000)]);
        for odd in [
            &b"PING\r\n"[..],
            b"*-1\r\n",
            b"*1x\r\n",
            b"*\x001\r\n",
            b"$4\r\nPING\r\n",
            &many,
            &long,
        ] {
            let bytes = [&get[..], odd, &get].concat();
            assert_eq!(look_ahead(&bytes).count(), 1, "{}", odd.escape_ascii());
        }
    }
}
