//! What was last seen to remain of buckets at other nodes: a table of a fixed size, filled by the answers that pass by. A local share
//! begins with its part of that.

use std::cell::RefCell;
use tollgate_commands::{Run, Spec};
use tollgate_protocol::Request;

/// Buckets that are remembered at most; of two that fall on one place the later counts.
const PLACES: usize = 1 << 12;

/// What was seen of buckets.
#[derive(Debug)]
pub(super) struct Seen {
    /// Hash of the bucket's name, and what remained.
    places: RefCell<Box<[(u64, u64)]>>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            places: RefCell::new(vec![(0, 0); PLACES].into_boxed_slice()),
        }
    }
}

impl Seen {
    /// Notes the reply to a check.
    pub(super) fn note(&self, spec: &Spec, db: u8, request: Request<'_>, reply: &[u8]) {
        if let Run::Check(_) = spec.run
            && let Some(remaining) = remaining_of(reply)
        {
            let hash = hash_of(db, request);
            self.places.borrow_mut()[hash as usize % PLACES] = (hash, remaining);
        }
    }

    /// What remained of the bucket of a check, when it was last seen.
    pub(super) fn of(&self, db: u8, request: Request<'_>) -> Option<u64> {
        let hash = hash_of(db, request);
        let (known, remaining) = self.places.borrow()[hash as usize % PLACES];
        (known == hash).then_some(remaining)
    }
}

/// The third of the numbers of a reply, or what its map names so.
fn remaining_of(reply: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"remaining\r\n";
    let number = match reply.first()? {
        b'*' => reply.split(|&byte| byte == b'\n').nth(3)?,
        b'%' => {
            let at = reply.windows(NAME.len()).position(|window| window == NAME)?;
            reply[at + NAME.len()..].split(|&byte| byte == b'\n').next()?
        }
        _ => return None,
    };
    let digits = number.strip_prefix(b":")?.strip_suffix(b"\r")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A hash of which bucket a check is about: the key, and the rule or the database.
fn hash_of(db: u8, request: Request<'_>) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, bytes: &[u8]| {
        bytes.chunks(8).fold(hash ^ bytes.len() as u64, |hash, chunk| {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            (hash ^ word).wrapping_mul(STEP).rotate_left(29)
        })
    };
    let is_of_rule = request.len() > 3 && request.arg(2).eq_ignore_ascii_case(b"rule");
    let hash = match is_of_rule {
        true => mix(1 << 8, request.arg(3)),
        false => u64::from(db),
    };
    // 0 is a place that is empty.
    mix(hash, request.arg(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_commands::{CommandTable, LastCommand};
    use tollgate_protocol::{Progress, ScanLimits, Scanner};

    #[test]
    fn what_remains_is_read_from_replies_of_both_protocols() {
        assert_eq!(
            remaining_of(b"*6\r\n:1\r\n:100\r\n:42\r\n:0\r\n:9\r\n$5\r\nowner\r\n"),
            Some(42)
        );
        assert_eq!(remaining_of(b"*5\r\n:0\r\n:16\r\n:0\r\n:-1\r\n:2\r\n"), Some(0));
        assert_eq!(
            remaining_of(b"%6\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4\r\n"),
            Some(4)
        );
        for other in [&b"-ERR no\r\n"[..], b"", b"*6\r\n:1", b"%1\r\n", b":1\r\n"] {
            assert_eq!(remaining_of(other), None);
        }
    }

    #[test]
    fn buckets_are_told_apart_by_key_rule_and_database() {
        let seen = Seen::default();
        let requests = [
            "*6\r\n$8\r\nRL.CHECK\r\n$1\r\nk\r\n$5\r\nLIMIT\r\n$1\r\n5\r\n$3\r\nPER\r\n$2\r\n1m\r\n",
            "*4\r\n$8\r\nRL.CHECK\r\n$1\r\nk\r\n$4\r\nRULE\r\n$1\r\na\r\n",
            "*4\r\n$8\r\nRL.CHECK\r\n$1\r\nk\r\n$4\r\nrule\r\n$1\r\nb\r\n",
            "*4\r\n$8\r\nRL.CHECK\r\n$1\r\nl\r\n$4\r\nrule\r\n$1\r\nb\r\n",
        ];
        let mut number = 0;
        let with = |text: &str, act: &mut dyn FnMut(&'static Spec, Request<'_>)| {
            let mut scanner = Scanner::new(ScanLimits::default());
            let Ok(Progress::Request { .. }) = scanner.next(text.as_bytes()) else {
                panic!("{text}");
            };
            let request = scanner.request(text.as_bytes());
            let (spec, _) = CommandTable::default()
                .resolve(request, &mut LastCommand::default())
                .expect("a command");
            act(spec, request);
        };
        for text in requests {
            with(text, &mut |spec, request| {
                number += 1;
                assert_eq!(seen.of(0, request), None);
                let reply = format!("*6\r\n:1\r\n:9\r\n:{number}\r\n");
                seen.note(spec, 0, request, reply.as_bytes());
                assert_eq!(seen.of(0, request), Some(number));
            });
        }
        with(requests[0], &mut |_, request| {
            assert_eq!((seen.of(0, request), seen.of(1, request)), (Some(1), None));
        });
        with(requests[1], &mut |_, request| assert_eq!(seen.of(7, request), Some(2)));
    }
}
