//! Strings as bits (<https://redis.io/docs/latest/develop/data-types/bitmaps/>): GETBIT, SETBIT, BITCOUNT, BITPOS.

pub(crate) mod fields;
pub(crate) mod operation;

use crate::strings::grow::{STEP_BYTES, change_string, write_up_to};
use crate::table::Rest;
use crate::{CommandError, Env, Shard};
use std::ops::Range;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::{StringValue, bits};

/// The offset of a bit; `#n` means the n-th of the integers of `field_bits` where that is given.
fn offset(shard: &Shard, text: &[u8], field_bits: Option<u32>) -> Result<usize, CommandError> {
    let (text, factor) = match (text, field_bits) {
        ([b'#', text @ ..], Some(bits)) => (text, i64::from(bits)),
        (text, _) => (text, 1),
    };
    let number = parse_integer(text).ok_or(CommandError::BitOffset { beyond_bound: false })?;
    // As in Redis, which multiplies without looking.
    let offset = usize::try_from(number.wrapping_mul(factor));
    let offset = offset.map_err(|_| CommandError::BitOffset { beyond_bound: false })?;
    if offset / 8 >= shard.string_bytes_max {
        return Err(CommandError::BitOffset { beyond_bound: true });
    }
    Ok(offset)
}

/// `GETBIT key offset`
pub(crate) fn getbit(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let offset = offset(shard, request.arg(2), None)?;
    let key = shard.data_key(env, request.arg(1))?;
    let string = shard.read::<StringValue>(env, &key)?;
    let is_set = string.is_some_and(|string| bits::get(&string.text(), offset));
    ReplyWriter::new(out, env.proto).int(i64::from(is_set));
    Ok(())
}

/// `SETBIT key offset value`
pub(crate) fn setbit(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let offset_bits = offset(shard, request.arg(2), None)?;
    if !matches!(parse_integer(request.arg(3)), Some(0 | 1)) {
        return Err(CommandError::Refused("bit is not an integer or out of range"));
    }
    let key = shard.data_key(env, request.arg(1))?;
    shard.read::<StringValue>(env, &key)?;
    shard.make_room_for_value()?;
    let len = offset_bits / 8 + 1;
    write_up_to(shard, env, &key, len, (request, out), |shard, env, request, _, out| {
        let offset = offset(shard, request.arg(2), None)?;
        let on = request.arg(3) == b"1";
        let key = shard.data_key(env, request.arg(1))?;
        let old = change_string(shard, env, &key, |edit| {
            edit.grow(offset / 8 + 1);
            let old = bits::get(&edit.text(), offset);
            if old != on {
                edit.set_field(offset, 1, u64::from(on));
            }
            old
        })?;
        ReplyWriter::new(out, env.proto).int(i64::from(old));
        Ok(())
    })
}

/// What the two ends of BITCOUNT and BITPOS mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(word: Option<&[u8]>) -> Result<Self, CommandError> {
        match word {
            None => Ok(Self::Byte),
            Some(word) if word.eq_ignore_ascii_case(b"BYTE") => Ok(Self::Byte),
            Some(word) if word.eq_ignore_ascii_case(b"BIT") => Ok(Self::Bit),
            Some(_) => Err(CommandError::Syntax),
        }
    }

    /// The bits from `start` to `end`, which belongs to it, of so many bytes. Negative ends count from the end.
    fn range(self, bytes: usize, start: i64, end: i64) -> Range<usize> {
        let bits_in_one = if self == Self::Bit { 1 } else { 8 };
        let all = (bytes * 8 / bits_in_one) as i64;
        let from_start = |at: i64| if at < 0 { (all + at).max(0) } else { at };
        let (start, end) = (from_start(start), from_start(end).min(all - 1));
        if start > end {
            return 0..0;
        }
        start as usize * bits_in_one..(end as usize + 1) * bits_in_one
    }
}

fn integer(request: Request<'_>, at: usize) -> Result<i64, CommandError> {
    request
        .get(at)
        .and_then(parse_integer)
        .ok_or(CommandError::NotAnInteger)
}

/// `BITCOUNT key [start end [BYTE|BIT]]`
pub(crate) fn bitcount(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let Some(bytes) = shard.read::<StringValue>(env, &key)?.map(StringValue::len) else {
        // Redis does not look at the other arguments then.
        ReplyWriter::new(out, env.proto).int(0);
        return Ok(None);
    };
    let range = match request.len() {
        2 => 0..bytes * 8,
        4 | 5 => {
            let (start, end) = (integer(request, 2)?, integer(request, 3)?);
            if start < 0 && end < 0 && start > end {
                0..0
            } else {
                Unit::parse(request.get(4))?.range(bytes, start, end)
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    let mut rest = CountRest { range, count: 0 };
    Ok((!rest.step(shard, env, request, out)).then(|| Box::new(rest) as _))
}

struct CountRest {
    /// The bits that are not counted yet.
    range: Range<usize>,
    count: usize,
}

/// The bits of a range that one step looks at; the others stay in it.
fn next_part(range: &mut Range<usize>) -> Range<usize> {
    /// Looking at bytes is some times as fast as copying them.
    const STEP_BITS: usize = 8 * 4 * STEP_BYTES;
    let end = range.end.min(range.start.saturating_add(STEP_BITS));
    std::mem::replace(range, end..range.end).start..end
}

impl Rest for CountRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let part = next_part(&mut self.range);
        let key = shard.data_key(env, request.arg(1)).ok();
        // It is there, as its range is.
        if let Some(string) = key.and_then(|key| shard.read::<StringValue>(env, &key).ok().flatten()) {
            self.count += bits::count(&string.text(), part);
        }
        let done = self.range.is_empty();
        if done {
            ReplyWriter::new(out, env.proto).int(self.count as i64);
        }
        done
    }
}

/// `BITPOS key bit [start [end [BYTE|BIT]]]`
pub(crate) fn bitpos(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let bit = match integer(request, 2)? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::Refused("The bit argument must be 1 or 0.")),
    };
    let key = shard.data_key(env, request.arg(1))?;
    let Some(bytes) = shard.read::<StringValue>(env, &key)?.map(StringValue::len) else {
        // As many zeros as one likes, whatever the other arguments say.
        ReplyWriter::new(out, env.proto).int(if bit { -1 } else { 0 });
        return Ok(None);
    };
    let (range, is_open) = match request.len() {
        3 => (0..bytes * 8, true),
        4..=6 => {
            let start = integer(request, 3)?;
            let unit = Unit::parse(request.get(5))?;
            let end = if request.len() > 4 { integer(request, 4)? } else { -1 };
            (unit.range(bytes, start, end), request.len() == 4)
        }
        _ => return Err(CommandError::Syntax),
    };
    // Behind a string are zeros, unless the end was given.
    let otherwise = if bit || !is_open || range.is_empty() {
        -1
    } else {
        bytes as i64 * 8
    };
    let mut rest = FindRest { range, bit, otherwise };
    Ok((!rest.step(shard, env, request, out)).then(|| Box::new(rest) as _))
}

struct FindRest {
    /// The bits that were not looked at yet.
    range: Range<usize>,
    bit: bool,
    /// What is answered if none of them is so.
    otherwise: i64,
}

impl Rest for FindRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let part = next_part(&mut self.range);
        let key = shard.data_key(env, request.arg(1)).ok();
        let string = key.and_then(|key| shard.read::<StringValue>(env, &key).ok().flatten());
        let found = string.and_then(|string| bits::find(&string.text(), part, self.bit));
        let done = found.is_some() || self.range.is_empty();
        if done {
            ReplyWriter::new(out, env.proto).int(found.map_or(self.otherwise, |offset| offset as i64));
        }
        done
    }
}
