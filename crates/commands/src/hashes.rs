//! Hashes (<https://redis.io/docs/latest/develop/data-types/hashes/>).

mod edit;
#[cfg(test)]
mod tests;

use crate::data::Edit;
use crate::elements::{self, Part, Parts};
use crate::{CommandError, Env, Rest, STEP_ELEMENTS, Shard};
use tollgate_protocol::{LongDouble, ReplyWriter, Request, parse_integer};
use tollgate_values::Hash;

type More = Result<Option<Box<dyn Rest>>, CommandError>;

/// `HSET key field value [field value ...]`
pub(crate) fn hset(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    set_fields(shard, env, request, out, SetReply::Created)
}

/// `HMSET key field value [field value ...]`
pub(crate) fn hmset(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    set_fields(shard, env, request, out, SetReply::Ok)
}

#[derive(Clone, Copy)]
enum SetReply {
    /// How many fields are new.
    Created,
    Ok,
}

impl SetReply {
    fn write(self, env: &Env, out: &mut Vec<u8>, created: usize) {
        let mut reply = ReplyWriter::new(out, env.proto);
        match self {
            SetReply::Created => reply.int(created as i64),
            SetReply::Ok => reply.ok(),
        }
    }
}

fn set_fields(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>, reply: SetReply) -> More {
    if request.len() % 2 == 1 {
        return Err(CommandError::Arity(match reply {
            SetReply::Created => "hset".to_owned(),
            SetReply::Ok => "hmset".to_owned(),
        }));
    }
    let key = shard.data_key(env, request.arg(1))?;
    let mut fields = SetFields {
        at: 2,
        created: 0,
        reply,
    };
    shard.edit(env, &key, Hash::new, |edit| {
        edit.expect((request.len() - 2) / 2);
        fields.set_some(edit, request);
    })?;
    if fields.at < request.len() {
        return Ok(Some(Box::new(fields)));
    }
    reply.write(env, out, fields.created);
    Ok(None)
}

struct SetFields {
    /// The argument that is next.
    at: usize,
    created: usize,
    reply: SetReply,
}

impl SetFields {
    fn set_some(&mut self, edit: &mut Edit<'_, Hash>, request: Request<'_>) {
        let end = request.len().min(self.at + 2 * STEP_ELEMENTS);
        while self.at < end {
            self.created += usize::from(edit.set(request.arg(self.at), request.arg(self.at + 1)));
            self.at += 2;
        }
    }
}

impl Rest for SetFields {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let changed = shard.change_arg(env, request, 1, |edit| self.set_some(edit, request));
        // A hash that expired meanwhile gets no more fields.
        let done = changed.is_none() || self.at >= request.len();
        if done {
            self.reply.write(env, out, self.created);
        }
        done
    }
}

/// `HSETNX key field value`
pub(crate) fn hsetnx(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let field = request.arg(2);
    let set = shard.edit(env, &key, Hash::new, |edit| {
        edit.get(field).is_none() && edit.set(field, request.arg(3))
    })?;
    ReplyWriter::new(out, env.proto).int(i64::from(set));
    Ok(())
}

/// `HINCRBY key field increment`
pub(crate) fn hincrby(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let by = parse_integer(request.arg(3)).ok_or(CommandError::NotAnInteger)?;
    let key = shard.data_key(env, request.arg(1))?;
    let field = request.arg(2);
    let sum = shard.edit(env, &key, Hash::new, |edit| {
        let before = match edit.get(field) {
            Some(value) => parse_integer(value).ok_or(CommandError::Refused("hash value is not an integer"))?,
            None => 0,
        };
        let sum = before
            .checked_add(by)
            .ok_or(CommandError::Refused("increment or decrement would overflow"))?;
        edit.set(field, itoa::Buffer::new().format(sum).as_bytes());
        Ok::<_, CommandError>(sum)
    })??;
    ReplyWriter::new(out, env.proto).int(sum);
    Ok(())
}

/// `HINCRBYFLOAT key field increment`
pub(crate) fn hincrbyfloat(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let by = LongDouble::parse(request.arg(3)).ok_or(CommandError::Refused("value is not a valid float"))?;
    if !by.is_finite() {
        return Err(CommandError::Refused("value is NaN or Infinity"));
    }
    let key = shard.data_key(env, request.arg(1))?;
    let field = request.arg(2);
    let sum = shard.edit(env, &key, Hash::new, |edit| {
        let before = match edit.get(field) {
            Some(value) => LongDouble::parse(value).ok_or(CommandError::Refused("hash value is not a float"))?,
            None => LongDouble::from(0),
        };
        let sum = before
            .checked_add(by)
            .ok_or(CommandError::Refused("increment would produce NaN or Infinity"))?
            .to_text();
        edit.set(field, &sum);
        Ok::<_, CommandError>(sum)
    })??;
    ReplyWriter::new(out, env.proto).bulk(&sum);
    Ok(())
}

/// `HDEL key field [field ...]`
pub(crate) fn hdel(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let key = shard.data_key(env, request.arg(1))?;
    let mut fields = RemoveFields { at: 2, removed: 0 };
    if let Some((place, _)) = shard.read_at::<Hash>(env, &key)? {
        let gone = shard.change_at(&key, place, |edit| fields.remove_some(edit, request));
        if gone == Some(false) && fields.at < request.len() {
            return Ok(Some(Box::new(fields)));
        }
    }
    ReplyWriter::new(out, env.proto).int(fields.removed);
    Ok(None)
}

struct RemoveFields {
    /// The argument that is next.
    at: usize,
    removed: i64,
}

impl RemoveFields {
    /// Removes some fields, and says whether there is none left.
    fn remove_some(&mut self, edit: &mut Edit<'_, Hash>, request: Request<'_>) -> bool {
        let end = request.len().min(self.at + STEP_ELEMENTS);
        while self.at < end && !edit.is_empty() {
            self.removed += i64::from(edit.remove(request.arg(self.at)));
            self.at += 1;
        }
        edit.is_empty()
    }
}

impl Rest for RemoveFields {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let gone = shard.change_arg(env, request, 1, |edit| self.remove_some(edit, request));
        let done = gone != Some(false) || self.at >= request.len();
        if done {
            ReplyWriter::new(out, env.proto).int(self.removed);
        }
        done
    }
}

/// `HGET key field`
pub(crate) fn hget(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let hash = shard.read::<Hash>(env, &key)?;
    write_field(&mut ReplyWriter::new(out, env.proto), hash, request.arg(2));
    Ok(())
}

fn write_field(reply: &mut ReplyWriter<'_>, hash: Option<&Hash>, field: &[u8]) {
    match hash.and_then(|hash| hash.get(field)) {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

/// `HMGET key field [field ...]`
pub(crate) fn hmget(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let key = shard.data_key(env, request.arg(1))?;
    let hash = shard.read::<Hash>(env, &key)?;
    let mut reply = ReplyWriter::new(out, env.proto);
    reply.array(request.len() - 2);
    let mut fields = GetFields { at: 2 };
    Ok((!fields.write_some(hash, request, &mut reply)).then(|| Box::new(fields) as Box<dyn Rest>))
}

struct GetFields {
    /// The argument that is next.
    at: usize,
}

impl GetFields {
    /// Writes some fields, and says whether those were the last.
    fn write_some(&mut self, hash: Option<&Hash>, request: Request<'_>, reply: &mut ReplyWriter<'_>) -> bool {
        let end = request.len().min(self.at + STEP_ELEMENTS);
        (self.at..end).for_each(|at| write_field(reply, hash, request.arg(at)));
        self.at = end;
        end == request.len()
    }
}

impl Rest for GetFields {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let hash = shard.value_of_arg::<Hash>(env, request, 1);
        self.write_some(hash, request, &mut ReplyWriter::new(out, env.proto))
    }
}

/// `HGETALL key`
pub(crate) fn hgetall(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    elements::walk::<Hash>(shard, env, request, out, Parts::MAP)
}

/// `HKEYS key`
pub(crate) fn hkeys(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    elements::walk::<Hash>(shard, env, request, out, Parts::FIELDS)
}

/// `HVALS key`
pub(crate) fn hvals(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    elements::walk::<Hash>(shard, env, request, out, Parts::VALUES)
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
pub(crate) fn hscan(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    elements::scan::<Hash>(shard, env, request, out)
}

/// `HLEN key`
pub(crate) fn hlen(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let fields = shard.read::<Hash>(env, &key)?.map_or(0, Hash::len);
    ReplyWriter::new(out, env.proto).int(fields as i64);
    Ok(())
}

/// `HEXISTS key field`
pub(crate) fn hexists(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let value = shard.read::<Hash>(env, &key)?.and_then(|hash| hash.get(request.arg(2)));
    let exists = i64::from(value.is_some());
    ReplyWriter::new(out, env.proto).int(exists);
    Ok(())
}

/// `HSTRLEN key field`
pub(crate) fn hstrlen(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let value = shard.read::<Hash>(env, &key)?.and_then(|hash| hash.get(request.arg(2)));
    let bytes = value.map_or(0, <[u8]>::len);
    ReplyWriter::new(out, env.proto).int(bytes as i64);
    Ok(())
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub(crate) fn hrandfield(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let count = request.get(2).map(elements::parse_count).transpose()?;
    let part = match (request.get(3), request.len()) {
        (None, _) => Part::Name,
        (Some(option), 4) if option.eq_ignore_ascii_case(b"WITHVALUES") => Part::Pair,
        _ => return Err(CommandError::Syntax),
    };
    if part == Part::Pair && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err(CommandError::Refused("value is out of range"));
    }
    elements::sample::<Hash>(shard, env, request, out, count, part)
}
