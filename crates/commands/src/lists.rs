//! Lists (<https://redis.io/docs/latest/develop/data-types/lists/>).

mod edit;
mod pop;
mod push;
mod search;
#[cfg(test)]
mod tests;
mod transfer;

pub(crate) use pop::{PopReply, lmpop, lpop, pop_elements, rpop};
pub(crate) use push::{lpush, lpushx, rpush, rpushx};
pub(crate) use search::{linsert, lpos, lrem};
pub(crate) use transfer::{lmove, move_element, rpoplpush};

use crate::data::Edit;
use crate::sorted_sets::resolve_indexes;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin, steps};
use crate::{CommandError, Env, Shard};
use std::ops::Range;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::{End, List};

/// `LEFT` or `RIGHT`.
pub(crate) fn parse_end(word: &[u8]) -> Result<End, CommandError> {
    match word {
        word if word.eq_ignore_ascii_case(b"LEFT") => Ok(End::Left),
        word if word.eq_ignore_ascii_case(b"RIGHT") => Ok(End::Right),
        _ => Err(CommandError::Syntax),
    }
}

fn parse_index(text: &[u8]) -> Result<i64, CommandError> {
    parse_integer(text).ok_or(CommandError::NotAnInteger)
}

/// The index from the left, if there is one: a negative one counts from the right.
fn resolve_index(index: i64, len: usize) -> Option<usize> {
    // No list has 2^63 elements.
    let from_left = if index < 0 { len as i64 + index } else { index };
    usize::try_from(from_left).ok().filter(|&index| index < len)
}

/// `LLEN key`
pub(crate) fn llen(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let elements = shard.read::<List>(env, &key)?.map_or(0, List::len);
    ReplyWriter::new(out, env.proto).int(elements as i64);
    Ok(())
}

/// `LINDEX key index`
pub(crate) fn lindex(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let element = match shard.read::<List>(env, &key)? {
        // Redis does not read the index then.
        None => None,
        Some(list) => resolve_index(parse_index(request.arg(2))?, list.len()).and_then(|index| list.get(index)),
    };
    let mut reply = ReplyWriter::new(out, env.proto);
    match element {
        Some(element) => reply.bulk(element),
        None => reply.null(),
    }
    Ok(())
}

/// `LSET key index element`
pub(crate) fn lset(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    shard.make_room_for_value()?;
    let Some((place, list)) = shard.read_at::<List>(env, &key)? else {
        return Err(CommandError::Refused("no such key"));
    };
    let index = resolve_index(parse_index(request.arg(2))?, list.len());
    let element = request.arg(3);
    shard.change_at(&key, place, |edit: &mut Edit<'_, List>| {
        // Whether or not there is such an index.
        edit.expect(element.len());
        if let Some(index) = index {
            edit.set(index, element);
        }
    });
    index.ok_or(CommandError::Refused("index out of range"))?;
    ReplyWriter::new(out, env.proto).ok();
    Ok(())
}

/// `LRANGE key start stop`
pub(crate) fn lrange(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let (first, last) = (parse_index(request.arg(2))?, parse_index(request.arg(3))?);
    let key = shard.data_key(env, request.arg(1))?;
    let mut reply = ReplyWriter::new(out, env.proto);
    let Some(list) = shard.read::<List>(env, &key)? else {
        reply.array(0);
        return Ok(None);
    };
    let mut left = resolve_indexes(first, last, list.len());
    reply.array(left.len());
    write_elements(Some(list), take_first(&mut left), &mut reply);
    if left.is_empty() {
        return Ok(None);
    }
    Ok(Some(steps(move |shard, env, request, out| {
        let list = shard.value_of_arg::<List>(env, request, 1);
        write_elements(list, take_first(&mut left), &mut ReplyWriter::new(out, env.proto));
        left.is_empty()
    })))
}

/// Takes up to a step's indexes off a range.
fn take_first(indexes: &mut Range<usize>) -> Range<usize> {
    let start = indexes.start;
    indexes.start = indexes.end.min(start + STEP_ELEMENTS);
    start..indexes.start
}

/// Writes the elements at those indexes. A list that is no longer there, although its key was held, has nulls: a reply that has begun
/// has to be whole.
fn write_elements(list: Option<&List>, indexes: Range<usize>, reply: &mut ReplyWriter<'_>) {
    match list {
        Some(list) => list.range(indexes).for_each(|element| reply.bulk(element)),
        None => indexes.for_each(|_| reply.null()),
    }
}

/// `LTRIM key start stop`
pub(crate) fn ltrim(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let (first, last) = (parse_index(request.arg(2))?, parse_index(request.arg(3))?);
    let key = shard.data_key(env, request.arg(1))?;
    let list = shard.read::<List>(env, &key)?;
    let keep = list.map(|list| resolve_indexes(first, last, list.len()));
    begin(Trim { keep }, shard, env, request, out)
}

/// An LTRIM that has begun.
struct Trim {
    /// Which indexes stay, while others are to be removed.
    keep: Option<Range<usize>>,
}

impl Work for Trim {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        let found = shard.read_at::<List>(env, &key)?.map(|(place, _)| place);
        self.keep = self.keep.take().zip(found).and_then(|(keep, place)| {
            let left = shard.change_at(&key, place, |edit: &mut Edit<'_, List>| {
                edit.trim_some(keep, STEP_ELEMENTS)
            });
            left.flatten()
        });
        if self.keep.is_some() {
            return Ok(false);
        }
        ReplyWriter::new(out, env.proto).ok();
        Ok(true)
    }
}
