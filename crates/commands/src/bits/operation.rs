//! BITOP: bits of several strings, one by one.

use crate::strings::grow::STEP_BYTES;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_store::Expiry;
use tollgate_values::{StringValue, Value};

/// The argument with the first key that is read.
const FIRST: usize = 3;
/// Bytes of the result that are put together from all strings before those behind them.
const PART_BYTES: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        let named = [
            ("AND", Self::And),
            ("OR", Self::Or),
            ("XOR", Self::Xor),
            ("NOT", Self::Not),
        ];
        let found = named
            .iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, operation)| *operation).ok_or(CommandError::Syntax)
    }

    /// Puts the first string in, whose missing bytes are zeros, as those of `into` are.
    fn begin(self, into: &mut [u8], first: &[u8]) {
        into[..first.len()].copy_from_slice(first);
        if self == Self::Not {
            into.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Puts another one in.
    fn go_on(self, into: &mut [u8], other: &[u8]) {
        let (both, alone) = into.split_at_mut(other.len());
        let pairs = both.iter_mut().zip(other);
        match self {
            Self::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                alone.fill(0);
            }
            Self::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Self::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Self::Not => {}
        }
    }
}

/// `BITOP AND|OR|XOR|NOT destkey key [key ...]`
pub(crate) fn bitop(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let operation = Operation::parse(request.arg(1))?;
    if operation == Operation::Not && request.len() != FIRST + 1 {
        return Err(CommandError::Refused(
            "BITOP NOT must be called with a single source key.",
        ));
    }
    shard.make_room_for_value()?;
    let mut rest = BitopRest {
        operation,
        measured: 0,
        result: Vec::new(),
        at: 0,
        source: 0,
    };
    // Small strings are measured and put together at once.
    let done = rest.go_on(shard, env, request, out)? || rest.go_on(shard, env, request, out)?;
    Ok((!done).then(|| Box::new(rest) as _))
}

/// First all strings are measured, then the result is put together part by part, string by string.
struct BitopRest {
    operation: Operation,
    /// Strings that were measured.
    measured: usize,
    /// As long as the longest string that was measured.
    result: Vec<u8>,
    /// Where the part begins.
    at: usize,
    /// Strings that are in that part.
    source: usize,
}

impl BitopRest {
    /// Whether it is done.
    fn go_on(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let sources = request.len() - FIRST;
        if self.measured < sources {
            self.measure(shard, env, request)?;
            return Ok(false);
        }
        let mut left = STEP_BYTES;
        while self.at < self.result.len() {
            let cost = self.put_in(shard, env, request);
            self.source += 1;
            if self.source == sources {
                (self.at, self.source) = (self.at + PART_BYTES, 0);
            }
            left = left.saturating_sub(cost);
            if left == 0 {
                return Ok(false);
            }
        }
        self.store(shard, env, request, out)?;
        Ok(true)
    }

    fn measure(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>) -> Result<(), CommandError> {
        let end = (request.len() - FIRST).min(self.measured + STEP_ELEMENTS);
        let mut longest = self.result.len();
        for at in self.measured..end {
            let key = shard.data_key(env, request.arg(FIRST + at))?;
            let len = shard.read::<StringValue>(env, &key)?.map_or(0, StringValue::len);
            longest = longest.max(len);
        }
        if longest > self.result.len() {
            // Nothing is in it yet; zeros come from the allocator, which need not touch them.
            self.result = vec![0; longest];
        }
        self.measured = end;
        Ok(())
    }

    /// Puts the next string into the part; about how many bytes that touched.
    fn put_in(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>) -> usize {
        /// What finding a string counts for.
        const FOUND_BYTES: usize = STEP_BYTES / STEP_ELEMENTS;
        let end = self.result.len().min(self.at + PART_BYTES);
        let part = &mut self.result[self.at..end];
        let key = shard.data_key(env, request.arg(FIRST + self.source)).ok();
        let string = key.and_then(|key| shard.read::<StringValue>(env, &key).ok().flatten());
        let text = string.map(StringValue::text);
        let bytes = text.as_deref().unwrap_or_default();
        let bytes = &bytes[self.at.min(bytes.len())..end.min(bytes.len())];
        if self.source == 0 {
            self.operation.begin(part, bytes);
        } else {
            self.operation.go_on(part, bytes);
        }
        part.len() + FOUND_BYTES
    }

    fn store(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        let key = shard.data_key(env, request.arg(2))?;
        let len = self.result.len();
        if len == 0 {
            shard.remove_entry(&key);
        } else {
            let string = StringValue::from_buffer(std::mem::take(&mut self.result));
            shard.set_value(env, &key, Value::String(Box::new(string)), Expiry::NEVER)?;
        }
        ReplyWriter::new(out, env.proto).int(len as i64);
        Ok(())
    }
}

impl Rest for BitopRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        self.go_on(shard, env, request, out).unwrap_or_else(|error| {
            error.write(out, env.proto);
            true
        })
    }
}
