//! HSCAN, SSCAN, ZSCAN: walking over the elements of one value.

use crate::data::Typed;
use crate::glob::{Case, Glob};
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin};
use crate::{CommandError, Env, Shard};
use std::marker::PhantomData;
use tollgate_protocol::{Proto, ReplyWriter, Request, parse_integer};

/// COUNT where none is given.
const COUNT: usize = 10;

/// A type of value whose elements can be walked over.
pub(crate) trait Scan: Typed {
    /// Shows about so many elements from the cursor on; where to go on. Of those whose name is wanted it writes what the reply has,
    /// and answers how many replies that was.
    fn scan_some(
        &self,
        cursor: u64,
        count: usize,
        wants: &dyn Fn(&[u8]) -> bool,
        reply: &mut ReplyWriter<'_>,
    ) -> Scanned;
}

/// What a step of a scan came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scanned {
    /// Where to go on; 0 at the end.
    pub(crate) next: u64,
    /// Elements looked at.
    pub(crate) looked_at: usize,
    /// Replies written.
    pub(crate) written: usize,
}

/// `?SCAN key cursor [MATCH pattern] [COUNT count]`
pub(crate) fn scan<T: Scan>(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let cursor = parse_cursor(request.arg(2))?;
    let key = shard.data_key(env, request.arg(1))?;
    if shard.read::<T>(env, &key)?.is_none() {
        // Redis does not read the options then.
        write_reply(0, 0, &[], &mut ReplyWriter::new(out, env.proto));
        return Ok(None);
    }
    let (pattern, count) = parse_options(shard, request)?;
    let walk = Walk::<T> {
        cursor,
        left: count,
        pattern,
        encoded: Vec::new(),
        written: 0,
        of: PhantomData,
    };
    begin(walk, shard, env, request, out)
}

/// A cursor as Redis reads it, with `strtoul`: one that no step has answered ends the scan.
fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    let invalid = CommandError::Refused("invalid cursor");
    if text.is_empty() {
        return Ok(0);
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    // `parse` would take a sign of its own.
    let number = match digits.first() {
        Some(b'0'..=b'9') => std::str::from_utf8(digits)
            .ok()
            .and_then(|text| text.parse::<u64>().ok()),
        _ => None,
    };
    let number = number.ok_or(invalid)?;
    Ok(if negative { number.wrapping_neg() } else { number })
}

fn parse_options(shard: &Shard, request: Request<'_>) -> Result<(Option<Glob>, usize), CommandError> {
    let (mut pattern, mut count) = (None, COUNT);
    let mut at = 3;
    while at < request.len() {
        let (word, value) = (request.arg(at), request.get(at + 1));
        match value {
            Some(value) if word.eq_ignore_ascii_case(b"COUNT") => {
                let number = parse_integer(value).ok_or(CommandError::NotAnInteger)?;
                count = usize::try_from(number)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or(CommandError::Syntax)?;
            }
            Some(value) if word.eq_ignore_ascii_case(b"MATCH") => pattern = Some(value),
            _ => return Err(CommandError::Syntax),
        }
        at += 2;
    }
    let bytes_max = shard.pattern_bytes_max;
    if pattern.is_some_and(|pattern| pattern.len() > bytes_max) {
        return Err(CommandError::PatternTooLong(bytes_max));
    }
    let pattern = pattern.filter(|&pattern| pattern != b"*");
    Ok((pattern.map(|pattern| Glob::new(pattern, Case::Sensitive)), count))
}

/// A scan that has begun.
struct Walk<T> {
    cursor: u64,
    /// Elements that are still to be looked at.
    left: usize,
    pattern: Option<Glob>,
    encoded: Vec<u8>,
    written: usize,
    of: PhantomData<T>,
}

impl<T: Scan> Work for Walk<T> {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        let wants = |name: &[u8]| self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name));
        // In RESP3 too, what a scan shows are bulk strings.
        let mut reply = ReplyWriter::new(&mut self.encoded, Proto::Resp2);
        let count = self.left.min(STEP_ELEMENTS);
        let scanned = match shard.read::<T>(env, &key)? {
            Some(value) => value.scan_some(self.cursor, count, &wants, &mut reply),
            None => Scanned::default(),
        };
        self.cursor = scanned.next;
        self.left = self.left.saturating_sub(scanned.looked_at);
        self.written += scanned.written;
        if self.cursor != 0 && self.left > 0 {
            return Ok(false);
        }
        let mut reply = ReplyWriter::new(out, env.proto);
        write_reply(self.cursor, self.written, &self.encoded, &mut reply);
        Ok(true)
    }
}

fn write_reply(cursor: u64, elements: usize, encoded: &[u8], reply: &mut ReplyWriter<'_>) {
    reply.array(2);
    // Cursors of values are below 2^48.
    reply.bulk_int(cursor as i64);
    reply.array(elements);
    reply.raw(encoded);
}
