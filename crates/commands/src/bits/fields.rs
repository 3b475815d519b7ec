//! BITFIELD: integers of 1 to 64 bits in a string.

use super::offset;
use crate::data::Edit;
use crate::strings::grow::{change_string, write_up_to};
use crate::table::{Rest, STEP_ELEMENTS};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::{StringValue, bits};

/// The argument with the first subcommand.
const FIRST: usize = 2;

/// An integer's type, as `i16` or `u8` name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FieldType {
    signed: bool,
    bits: u32,
}

impl FieldType {
    fn parse(text: &[u8]) -> Result<Self, CommandError> {
        let (signed, bits) = match text {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => (false, &b""[..]),
        };
        let bits_max = if signed { 64 } else { 63 };
        let bits = parse_integer(bits).filter(|bits| (1..=bits_max).contains(bits));
        let bits = bits.ok_or(CommandError::Refused(
            "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))?;
        Ok(Self {
            signed,
            bits: bits as u32,
        })
    }

    /// The least and the largest number of the type.
    fn bounds(self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// The number of these bits.
    fn number(self, bits: u64) -> i64 {
        let unused = u64::BITS - self.bits;
        match self.signed {
            true => (bits << unused) as i64 >> unused,
            false => bits as i64,
        }
    }

    /// The bits of a number, which may be outside of the type's bounds; nothing if it may not.
    fn fit(self, number: i128, overflow: Overflow) -> Option<u64> {
        let (least, most) = self.bounds();
        let is_inside = (least..=most).contains(&number);
        match overflow {
            Overflow::Fail => is_inside.then_some(number as u64),
            Overflow::Saturate => Some(number.clamp(least, most) as u64),
            Overflow::Wrap => Some(number as u64),
        }
        .map(|bits| bits & (u64::MAX >> (u64::BITS - self.bits)))
    }
}

/// What happens to a number that the type has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        let named = [("WRAP", Self::Wrap), ("SAT", Self::Saturate), ("FAIL", Self::Fail)];
        let found = named
            .iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        found
            .map(|(_, overflow)| *overflow)
            .ok_or(CommandError::Refused("Invalid OVERFLOW type specified"))
    }
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Get,
    Set(i64),
    Add(i64),
}

/// One subcommand.
#[derive(Debug, Clone, Copy)]
struct Operation {
    field: FieldType,
    offset: usize,
    act: Act,
}

impl Operation {
    /// The bits, and zeros behind the end of the string.
    fn old(self, text: &[u8]) -> u64 {
        bits::field(text, self.offset, self.field.bits)
    }

    /// What it writes, and what it answers: nothing of both if the number does not fit.
    fn write(self, old: u64, overflow: Overflow) -> Option<(u64, i64)> {
        let before = self.field.number(old);
        match self.act {
            Act::Get => Some((old, before)),
            // A negative number is a large one of a type without sign.
            Act::Set(number) if !self.field.signed => {
                Some((self.field.fit(i128::from(number as u64), overflow)?, before))
            }
            Act::Set(number) => {
                let (_, most) = self.field.bounds();
                // Redis takes the distance to the largest number in 64 bits; so small a number then looks too large to it.
                let looks_large = self.field.bits < 64 && most - i128::from(number) > i128::from(i64::MAX);
                let number = if overflow == Overflow::Saturate && looks_large {
                    most
                } else {
                    i128::from(number)
                };
                Some((self.field.fit(number, overflow)?, before))
            }
            Act::Add(by) => {
                let new = self.field.fit(i128::from(before) + i128::from(by), overflow)?;
                Some((new, self.field.number(new)))
            }
        }
    }
}

/// Reads the subcommands one after the other.
#[derive(Debug, Clone, Copy)]
struct Reader {
    at: usize,
    overflow: Overflow,
}

impl Reader {
    const START: Self = Self {
        at: FIRST,
        overflow: Overflow::Wrap,
    };

    /// The next one; nothing at the end.
    fn next(&mut self, shard: &Shard, request: Request<'_>) -> Result<Option<Operation>, CommandError> {
        while let Some(word) = request.get(self.at) {
            let args = request.len() - self.at - 1;
            let is = |name: &str, args_min: usize| word.eq_ignore_ascii_case(name.as_bytes()) && args >= args_min;
            if is("OVERFLOW", 1) {
                self.overflow = Overflow::parse(request.arg(self.at + 1))?;
                self.at += 2;
                continue;
            }
            let (sets, adds) = (is("SET", 3), is("INCRBY", 3));
            if !sets && !adds && !is("GET", 2) {
                return Err(CommandError::Syntax);
            }
            let field = FieldType::parse(request.arg(self.at + 1))?;
            let offset = offset(shard, request.arg(self.at + 2), Some(field.bits))?;
            let mut act = Act::Get;
            if sets || adds {
                let number = parse_integer(request.arg(self.at + 3)).ok_or(CommandError::NotAnInteger)?;
                act = if sets { Act::Set(number) } else { Act::Add(number) };
            }
            self.at += if matches!(act, Act::Get) { 3 } else { 4 };
            return Ok(Some(Operation { field, offset, act }));
        }
        Ok(None)
    }
}

/// `BITFIELD key [GET type offset | [OVERFLOW WRAP|SAT|FAIL] <SET type offset value | INCRBY type offset increment> ...]`
pub(crate) fn bitfield(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    start(shard, env, request, out, true)
}

/// `BITFIELD_RO key [GET type offset ...]`
pub(crate) fn bitfield_ro(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    start(shard, env, request, out, false)
}

fn start(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    may_write: bool,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let mut rest = FieldsRest {
        may_write,
        reader: Reader::START,
        operations: 0,
        grown_len: 0,
        stage: Stage::Checking,
    };
    // Few subcommands on a string that need not grow in steps are done at once.
    for _ in 0..3 {
        if rest.go_on(shard, env, request, out)? {
            return Ok(None);
        }
    }
    Ok(Some(Box::new(rest)))
}

/// All subcommands are checked, then the string grows, then they are run.
struct FieldsRest {
    may_write: bool,
    reader: Reader,
    operations: usize,
    /// Bytes that the string has to have; 0 if nothing is written.
    grown_len: usize,
    stage: Stage,
}

enum Stage {
    Checking,
    Checked,
    Growing(Box<dyn Rest>),
    Running,
}

impl FieldsRest {
    /// Whether it is done.
    fn go_on(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        match &mut self.stage {
            Stage::Checking => {
                if self.check(shard, request)? {
                    (self.stage, self.reader) = (Stage::Checked, Reader::START);
                }
                Ok(false)
            }
            Stage::Checked => {
                self.stage = match self.grow(shard, env, request, out)? {
                    Some(rest) => Stage::Growing(rest),
                    None => self.begin(env, out),
                };
                Ok(false)
            }
            Stage::Growing(rest) => {
                if rest.step(shard, env, request, out) {
                    self.stage = self.begin(env, out);
                }
                Ok(false)
            }
            Stage::Running => self.run(shard, env, request, out),
        }
    }

    fn begin(&self, env: &Env, out: &mut Vec<u8>) -> Stage {
        ReplyWriter::new(out, env.proto).array(self.operations);
        Stage::Running
    }

    /// Checks some subcommands; whether those were the last.
    fn check(&mut self, shard: &Shard, request: Request<'_>) -> Result<bool, CommandError> {
        for _ in 0..STEP_ELEMENTS {
            let Some(operation) = self.reader.next(shard, request)? else {
                if self.grown_len > 0 && !self.may_write {
                    return Err(CommandError::Refused("BITFIELD_RO only supports the GET subcommand"));
                }
                return Ok(true);
            };
            self.operations += 1;
            if !matches!(operation.act, Act::Get) {
                let end = operation.offset + operation.field.bits as usize;
                self.grown_len = self.grown_len.max(end.div_ceil(8));
            }
        }
        Ok(false)
    }

    fn grow(
        &self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Box<dyn Rest>>, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        shard.read::<StringValue>(env, &key)?;
        if self.grown_len == 0 {
            return Ok(None);
        }
        shard.make_room_for_value()?;
        let len = self.grown_len;
        let rest = write_up_to(shard, env, &key, len, (request, out), |_, _, _, _, _| Ok(()))?;
        if rest.is_none() {
            change_string(shard, env, &key, |edit| edit.grow(len))?;
        }
        Ok(rest)
    }

    /// Runs some subcommands; whether those were the last.
    fn run(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        let mut some = Vec::new();
        while some.len() < STEP_ELEMENTS
            && let Some(operation) = self.reader.next(shard, request)?
        {
            some.push((operation, self.reader.overflow));
        }
        let mut reply = ReplyWriter::new(out, env.proto);
        if self.grown_len == 0 {
            let string = shard.read::<StringValue>(env, &key)?;
            let text = string.map(StringValue::text);
            for (operation, _) in &some {
                let old = operation.old(text.as_deref().unwrap_or_default());
                reply.int(operation.field.number(old));
            }
        } else {
            change_string(shard, env, &key, |edit| run_all(edit, &some, &mut reply))?;
        }
        Ok(some.len() < STEP_ELEMENTS)
    }
}

fn run_all(edit: &mut Edit<'_, StringValue>, operations: &[(Operation, Overflow)], reply: &mut ReplyWriter<'_>) {
    for &(operation, overflow) in operations {
        let old = operation.old(&edit.text());
        match operation.write(old, overflow) {
            None => reply.null(),
            Some((new, answer)) => {
                if new != old {
                    edit.set_field(operation.offset, operation.field.bits, new);
                }
                reply.int(answer);
            }
        }
    }
}

impl Rest for FieldsRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        self.go_on(shard, env, request, out).unwrap_or_else(|error| {
            error.write(out, env.proto);
            true
        })
    }
}
