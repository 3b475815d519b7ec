//! HSCAN, SSCAN, ZSCAN.

use super::{Gathered, Scan, write_head_before};
use crate::glob::{Case, Glob};
use crate::{CommandError, Env, Rest, STEP_ELEMENTS, Shard};
use std::marker::PhantomData;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};

/// How many elements are looked at if the client says nothing.
const SCAN_COUNT: usize = 10;

/// A cursor, as Redis reads it: with C's `strtoul`, which takes a sign, and nothing for 0, and sees a text that ends at a zero byte.
pub(crate) fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    const INVALID: CommandError = CommandError::Refused("invalid cursor");
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let (negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(INVALID);
    }
    let add = |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let number = digits.iter().try_fold(0, add).ok_or(INVALID)?;
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`, and SSCAN, ZSCAN
pub(crate) fn scan<T: Scan>(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let cursor = parse_cursor(request.arg(2))?;
    let key = shard.data_key(env, request.arg(1))?;
    let pattern_bytes_max = shard.pattern_bytes_max;
    let Some(value) = shard.read::<T>(env, &key)? else {
        write_head(&mut ReplyWriter::new(out, env.proto), 0, 0);
        return Ok(None);
    };
    let mut scan = Walk::<T>::parse(request, cursor, pattern_bytes_max)?;
    let start = out.len();
    if scan.look_at_some(value, &mut ReplyWriter::new(out, env.proto)) {
        write_head_before(out, start, env.proto, |reply| {
            write_head(reply, scan.cursor, scan.replies);
        });
        return Ok(None);
    }
    scan.gathered = Gathered::take(out, start);
    Ok(Some(Box::new(scan)))
}

fn write_head(reply: &mut ReplyWriter<'_>, cursor: u64, replies: usize) {
    reply.array(2);
    // A cursor of `values` is below 2^48.
    reply.bulk_int(cursor as i64);
    reply.array(replies);
}

struct Walk<T> {
    pattern: Option<Glob>,
    cursor: u64,
    /// Elements still to be looked at.
    left: usize,
    /// Replies that the elements which match are.
    replies: usize,
    gathered: Gathered,
    /// All has been looked at, and the head is written.
    headed: bool,
    value: PhantomData<fn() -> T>,
}

impl<T: Scan> Walk<T> {
    fn parse(request: Request<'_>, cursor: u64, pattern_bytes_max: usize) -> Result<Self, CommandError> {
        let mut scan = Self {
            pattern: None,
            cursor,
            left: SCAN_COUNT,
            replies: 0,
            gathered: Gathered::default(),
            headed: false,
            value: PhantomData,
        };
        let mut pattern = None;
        let mut at = 3;
        while at < request.len() {
            let (option, Some(value)) = (request.arg(at), request.get(at + 1)) else {
                return Err(CommandError::Syntax);
            };
            if option.eq_ignore_ascii_case(b"COUNT") {
                let count = parse_integer(value).ok_or(CommandError::NotAnInteger)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0);
                scan.left = count.ok_or(CommandError::Syntax)?;
            } else if option.eq_ignore_ascii_case(b"MATCH") {
                pattern = (value != b"*").then_some(value);
            } else {
                return Err(CommandError::Syntax);
            }
            at += 2;
        }
        if let Some(pattern) = pattern {
            if pattern.len() > pattern_bytes_max {
                return Err(CommandError::PatternTooLong(pattern_bytes_max));
            }
            scan.pattern = Some(Glob::new(pattern, Case::Sensitive));
        }
        Ok(scan)
    }

    /// Writes those of some elements that match; whether all that were asked for have been looked at.
    fn look_at_some(&mut self, value: &T, reply: &mut ReplyWriter<'_>) -> bool {
        let Self { pattern, replies, .. } = self;
        let mut looked_at = 0;
        let mut show = |name: &[u8], value: Option<&[u8]>| {
            looked_at += 1;
            if pattern.as_ref().is_none_or(|pattern| pattern.matches(name)) {
                reply.bulk(name);
                *replies += 1;
                if let Some(value) = value {
                    reply.bulk(value);
                    *replies += 1;
                }
            }
        };
        self.cursor = value.show_some(self.cursor, self.left.min(STEP_ELEMENTS), &mut show);
        self.left = self.left.saturating_sub(looked_at);
        self.cursor == 0 || self.left == 0
    }
}

impl<T: Scan> Rest for Walk<T> {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        if self.headed {
            return self.gathered.copy_some(out);
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        self.headed = match shard.value_of_arg::<T>(env, request, 1) {
            Some(value) => self.look_at_some(value, &mut ReplyWriter::new(&mut gathered.encoded, env.proto)),
            // No longer there, although its key was held: there is no more.
            None => {
                self.cursor = 0;
                true
            }
        };
        self.gathered = gathered;
        if self.headed {
            write_head(&mut ReplyWriter::new(out, env.proto), self.cursor, self.replies);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::parse_cursor;

    #[test]
    fn cursors_are_read_as_by_strtoul() {
        for (text, number) in [
            ("", 0),
            ("0", 0),
            ("007", 7),
            ("+5", 5),
            ("-1", u64::MAX),
            ("18446744073709551615", u64::MAX),
            ("-18446744073709551615", 1),
            ("1\0x", 1),
            ("\0", 0),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()), Ok(number), "{text}");
        }
        for text in ["x", "+", "-", "1x", " 1", "1 ", "18446744073709551616", "--1"] {
            assert!(parse_cursor(text.as_bytes()).is_err(), "{text}");
        }
    }
}
