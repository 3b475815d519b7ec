//! ZMPOP, ZPOPMAX, ZPOPMIN, and what their blocking forms need.

use super::Show;
use crate::data::Edit;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Popped, pop_first, steps};
use crate::{CommandError, Env, Shard};
use std::ops::Range;
use tollgate_protocol::{Proto, ReplyWriter, Request, parse_integer};
use tollgate_values::SortedSet;

/// Which members a pop takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Those with the lowest scores.
    Min,
    /// Those with the highest.
    Max,
}

impl Side {
    /// `MIN` or `MAX`.
    pub(crate) fn parse(word: &[u8]) -> Result<Self, CommandError> {
        match word {
            word if word.eq_ignore_ascii_case(b"MIN") => Ok(Self::Min),
            word if word.eq_ignore_ascii_case(b"MAX") => Ok(Self::Max),
            _ => Err(CommandError::Syntax),
        }
    }

    /// The ranks of the next members of so many to be popped.
    fn ranks(self, set: &SortedSet, count: usize) -> Range<usize> {
        let count = count.min(set.len());
        match self {
            Self::Min => 0..count,
            Self::Max => set.len() - count..set.len(),
        }
    }
}

/// How a pop answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PopReply {
    /// Members and scores in one array: ZPOPMIN, and with a count in RESP2.
    Flat,
    /// An array of members with their scores: ZPOPMIN with a count in RESP3.
    Pairs,
    /// The key, a member and its score in one array: BZPOPMIN.
    KeyThenFlat,
    /// The key, and an array of members with their scores: ZMPOP, BZMPOP.
    KeyAndPairs,
}

impl PopReply {
    fn show(self) -> Show {
        match self {
            Self::Flat | Self::KeyThenFlat => Show::Flat,
            Self::Pairs | Self::KeyAndPairs => Show::Pairs,
        }
    }

    fn head(self, reply: &mut ReplyWriter<'_>, key: &[u8], members: usize) {
        match self {
            Self::Flat | Self::Pairs => self.show().head(reply, members),
            Self::KeyThenFlat => {
                reply.array(1 + 2 * members);
                reply.bulk(key);
            }
            Self::KeyAndPairs => {
                reply.array(2);
                reply.bulk(key);
                reply.array(members);
            }
        }
    }
}

/// Pops up to `count` members, at least one, of the key at a position of the request, and answers with them.
///
/// # Errors
/// The key holds something else. Nothing has changed then.
pub(crate) fn pop_members(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    key_at: usize,
    (side, count): (Side, usize),
    reply: PopReply,
    out: &mut Vec<u8>,
) -> Result<Popped, CommandError> {
    let key = shard.data_key(env, request.arg(key_at))?;
    let Some(set) = shard.read::<SortedSet>(env, &key)? else {
        return Ok(Popped::Nothing);
    };
    let mut left = count.min(set.len());
    let mut writer = ReplyWriter::new(out, env.proto);
    reply.head(&mut writer, request.arg(key_at), left);
    let show = reply.show();
    let mut step = move |shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>| {
        let here = left.min(STEP_ELEMENTS);
        let mut reply = ReplyWriter::new(out, env.proto);
        if pop_some(shard, env, request.arg(key_at), (side, here), show, &mut reply).is_none() {
            show.missing(&mut reply, here);
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
    (side, count): (Side, usize),
    show: Show,
    reply: &mut ReplyWriter<'_>,
) -> Option<()> {
    let key = shard.data_key(env, key).ok()?;
    let (place, set) = shard.read_at::<SortedSet>(env, &key).ok()??;
    let ranks = side.ranks(set, count);
    match side {
        Side::Min => set.range(ranks.clone()).for_each(|member| show.member(reply, member)),
        Side::Max => set
            .range_back(ranks.clone())
            .for_each(|member| show.member(reply, member)),
    }
    shard.change_at(&key, place, |edit: &mut Edit<'_, SortedSet>| edit.remove_ranks(ranks))
}

/// `ZPOPMIN key [count]`
pub(crate) fn zpopmin(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    pop(Side::Min, shard, env, request, out)
}

/// `ZPOPMAX key [count]`
pub(crate) fn zpopmax(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    pop(Side::Max, shard, env, request, out)
}

fn pop(
    side: Side,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    if request.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let (count, reply) = match request.get(2) {
        None => (1, PopReply::Flat),
        Some(count) if env.proto == Proto::Resp2 => (pop_count(count)?, PopReply::Flat),
        Some(count) => (pop_count(count)?, PopReply::Pairs),
    };
    if count == 0 {
        let key = shard.data_key(env, request.arg(1))?;
        shard.read::<SortedSet>(env, &key)?;
    } else {
        match pop_members(shard, env, request, 1, (side, count), reply, out)? {
            Popped::All => return Ok(None),
            Popped::More(rest) => return Ok(Some(rest)),
            Popped::Nothing => {}
        }
    }
    ReplyWriter::new(out, env.proto).array(0);
    Ok(None)
}

/// The count of ZPOPMIN and its like, which may be 0.
pub(crate) fn pop_count(text: &[u8]) -> Result<usize, CommandError> {
    let count = parse_integer(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::Refused("value is out of range, must be positive"))
}

/// `ZMPOP numkeys key [key ...] MIN|MAX [COUNT count]`
pub(crate) fn zmpop(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let (keys, side, count) = parse_multiple_pop(request, 1, Side::parse)?;
    let pop = move |shard: &mut Shard, env: &Env, request: Request<'_>, at: usize, out: &mut Vec<u8>| {
        pop_members(shard, env, request, at, (side, count), PopReply::KeyAndPairs, out)
    };
    pop_first(keys, pop, shard, env, request, out)
}

/// The arguments of LMPOP, ZMPOP and their blocking forms from the number of keys on: the positions of the keys, which end is meant,
/// and how many elements.
pub(crate) fn parse_multiple_pop<E>(
    request: Request<'_>,
    counted: usize,
    end: impl FnOnce(&[u8]) -> Result<E, CommandError>,
) -> Result<(Range<usize>, E, usize), CommandError> {
    let positive = |text: &[u8], error: &'static str| {
        let number = parse_integer(text).and_then(|number| usize::try_from(number).ok());
        number.filter(|&number| number > 0).ok_or(CommandError::Refused(error))
    };
    let keys = positive(request.arg(counted), "numkeys should be greater than 0")?;
    let first = counted + 1;
    let end_at = first.saturating_add(keys);
    let end = end(request.get(end_at).ok_or(CommandError::Syntax)?)?;
    let mut count = None;
    let mut at = end_at + 1;
    while let Some(word) = request.get(at) {
        match request.get(at + 1) {
            Some(value) if count.is_none() && word.eq_ignore_ascii_case(b"COUNT") => {
                count = Some(positive(value, "count should be greater than 0")?);
            }
            _ => return Err(CommandError::Syntax),
        }
        at += 2;
    }
    Ok((first..end_at, end, count.unwrap_or(1)))
}
