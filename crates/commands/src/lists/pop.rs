//! LMPOP, LPOP, RPOP, and what their blocking forms need.

use super::parse_end;
use crate::data::Edit;
use crate::sorted_sets::{parse_multiple_pop, pop_count};
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Popped, pop_first, steps};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::{End, List};

/// How a pop answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PopReply {
    /// One element: LPOP.
    Element,
    /// An array of elements: LPOP with a count.
    Elements,
    /// The key and one element in one array: BLPOP.
    KeyThenElement,
    /// The key, and an array of elements: LMPOP, BLMPOP.
    KeyAndElements,
}

impl PopReply {
    fn head(self, reply: &mut ReplyWriter<'_>, key: &[u8], elements: usize) {
        if matches!(self, Self::KeyThenElement | Self::KeyAndElements) {
            reply.array(2);
            reply.bulk(key);
        }
        if matches!(self, Self::Elements | Self::KeyAndElements) {
            reply.array(elements);
        }
    }
}

/// Pops up to `count` elements, at least one, of the key at a position of the request, and answers with them.
///
/// # Errors
/// The key holds something else. Nothing has changed then.
pub(crate) fn pop_elements(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    key_at: usize,
    (end, count): (End, usize),
    reply: PopReply,
    out: &mut Vec<u8>,
) -> Result<Popped, CommandError> {
    let key = shard.data_key(env, request.arg(key_at))?;
    let Some(list) = shard.read::<List>(env, &key)? else {
        return Ok(Popped::Nothing);
    };
    let mut left = count.min(list.len());
    reply.head(&mut ReplyWriter::new(out, env.proto), request.arg(key_at), left);
    let mut step = move |shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>| {
        let here = left.min(STEP_ELEMENTS);
        let mut reply = ReplyWriter::new(out, env.proto);
        if pop_some(shard, env, request.arg(key_at), (end, here), &mut reply).is_none() {
            // No longer there, although its key was held: a reply that has begun has to be whole.
            (0..here).for_each(|_| reply.null());
        }
        left -= here;
        left == 0
    };
    Ok(if step(shard, env, request, out) {
        Popped::All
    } else {
        Popped::More(steps(step))
    })
}

fn pop_some(
    shard: &mut Shard,
    env: &Env,
    key: &[u8],
    (end, count): (End, usize),
    reply: &mut ReplyWriter<'_>,
) -> Option<()> {
    let key = shard.data_key(env, key).ok()?;
    let (place, list) = shard.read_at::<List>(env, &key).ok()??;
    let len = list.len();
    match end {
        End::Left => list.range(0..count).for_each(|element| reply.bulk(element)),
        End::Right => list
            .range_back(len - count.min(len)..len)
            .for_each(|element| reply.bulk(element)),
    }
    shard.change_at(&key, place, |edit: &mut Edit<'_, List>| edit.remove_end(end, count))
}

/// `LPOP key [count]`
pub(crate) fn lpop(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    pop(End::Left, "lpop", shard, env, request, out)
}

/// `RPOP key [count]`
pub(crate) fn rpop(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    pop(End::Right, "rpop", shard, env, request, out)
}

fn pop(
    end: End,
    command: &str,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    if request.len() > 3 {
        return Err(CommandError::Arity(command.to_owned()));
    }
    let count = request.get(2).map(pop_count).transpose()?;
    if count == Some(0) {
        let key = shard.data_key(env, request.arg(1))?;
        if shard.read::<List>(env, &key)?.is_some() {
            ReplyWriter::new(out, env.proto).array(0);
            return Ok(None);
        }
    } else {
        let reply = match count {
            None => PopReply::Element,
            Some(_) => PopReply::Elements,
        };
        match pop_elements(shard, env, request, 1, (end, count.unwrap_or(1)), reply, out)? {
            Popped::All => return Ok(None),
            Popped::More(rest) => return Ok(Some(rest)),
            Popped::Nothing => {}
        }
    }
    let mut reply = ReplyWriter::new(out, env.proto);
    match count {
        None => reply.null(),
        Some(_) => reply.null_array(),
    }
    Ok(None)
}

/// `LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]`
pub(crate) fn lmpop(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let (keys, end, count) = parse_multiple_pop(request, 1, parse_end)?;
    let pop = move |shard: &mut Shard, env: &Env, request: Request<'_>, at: usize, out: &mut Vec<u8>| {
        pop_elements(shard, env, request, at, (end, count), PopReply::KeyAndElements, out)
    };
    pop_first(keys, pop, shard, env, request, out)
}
