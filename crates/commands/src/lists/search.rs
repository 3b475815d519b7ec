//! LINSERT, LPOS, LREM: elements that are equal to one.

use super::parse_index;
use crate::data::Edit;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::{List, PositionSearch, Removal};

/// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
pub(crate) fn lpos(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let (mut rank, mut count, mut maxlen) = (1, None, 0);
    let mut at = 3;
    while let Some(word) = request.get(at) {
        let value = request.get(at + 1).ok_or(CommandError::Syntax)?;
        if word.eq_ignore_ascii_case(b"RANK") {
            rank = parse_rank(value)?;
        } else if word.eq_ignore_ascii_case(b"COUNT") {
            count = Some(parse_bound(value, "COUNT can't be negative")?);
        } else if word.eq_ignore_ascii_case(b"MAXLEN") {
            maxlen = parse_bound(value, "MAXLEN can't be negative")?;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    // Only rank 0 is none, and has been refused.
    let search = PositionSearch::new(rank, count.unwrap_or(1), maxlen).ok_or(CommandError::Syntax)?;
    let work = Positions {
        search,
        one: count.is_none(),
        found: 0,
        encoded: Vec::new(),
    };
    begin(work, shard, env, request, out)
}

fn parse_rank(text: &[u8]) -> Result<i64, CommandError> {
    let rank = parse_integer(text).ok_or(CommandError::NotAnInteger)?;
    match rank {
        i64::MIN => Err(CommandError::Refused(
            "value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        0 => Err(CommandError::Refused(
            "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from \
             the end of the list",
        )),
        rank => Ok(rank),
    }
}

fn parse_bound(text: &[u8], error: &'static str) -> Result<usize, CommandError> {
    let bound = parse_integer(text).and_then(|bound| usize::try_from(bound).ok());
    bound.ok_or(CommandError::Refused(error))
}

/// An LPOS that has begun.
struct Positions {
    search: PositionSearch,
    /// Without COUNT the answer is one index, or null.
    one: bool,
    found: usize,
    encoded: Vec<u8>,
}

impl Work for Positions {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        if let Some(list) = shard.read::<List>(env, &key)? {
            let (found, mut reply) = (&mut self.found, ReplyWriter::new(&mut self.encoded, env.proto));
            let mut show = |index: usize| {
                *found += 1;
                reply.int(index as i64);
            };
            if !list.search_some(&mut self.search, request.arg(2), STEP_ELEMENTS, &mut show) {
                return Ok(false);
            }
        }
        let mut reply = ReplyWriter::new(out, env.proto);
        match self.found {
            0 if self.one => reply.null(),
            _ if self.one => {}
            found => reply.array(found),
        }
        reply.raw(&self.encoded);
        Ok(true)
    }
}

/// `LINSERT key BEFORE|AFTER pivot element`
pub(crate) fn linsert(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let after = match request.arg(2) {
        word if word.eq_ignore_ascii_case(b"AFTER") => true,
        word if word.eq_ignore_ascii_case(b"BEFORE") => false,
        _ => return Err(CommandError::Syntax),
    };
    // Only rank 0 is none.
    let search = PositionSearch::new(1, 1, 0).ok_or(CommandError::Syntax)?;
    begin(Insert { search, after }, shard, env, request, out)
}

/// A LINSERT that looks for its pivot.
struct Insert {
    search: PositionSearch,
    after: bool,
}

impl Work for Insert {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        shard.make_room_for_value()?;
        let Some((place, list)) = shard.read_at::<List>(env, &key)? else {
            ReplyWriter::new(out, env.proto).int(0);
            return Ok(true);
        };
        let mut pivot = None;
        let mut show = |index| pivot = Some(index);
        let done = list.search_some(&mut self.search, request.arg(3), STEP_ELEMENTS, &mut show);
        if !done {
            return Ok(false);
        }
        let element = request.arg(4);
        let len = shard.change_at(&key, place, |edit: &mut Edit<'_, List>| {
            // Whether or not there is a pivot.
            edit.expect(element.len());
            let pivot = pivot?;
            edit.insert(if self.after { pivot + 1 } else { pivot }, element);
            Some(edit.len())
        });
        let len = len.flatten().map_or(-1, |len| len as i64);
        ReplyWriter::new(out, env.proto).int(len);
        Ok(true)
    }
}

/// `LREM key count element`
pub(crate) fn lrem(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let removal = Removal::new(parse_index(request.arg(2))?);
    begin(Remove { removal }, shard, env, request, out)
}

/// An LREM that has begun.
struct Remove {
    removal: Removal,
}

impl Work for Remove {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        let found = shard.read_at::<List>(env, &key)?.map(|(place, _)| place);
        if let Some(place) = found {
            let done = shard.change_at(&key, place, |edit: &mut Edit<'_, List>| {
                edit.remove_some(&mut self.removal, request.arg(3), STEP_ELEMENTS)
            });
            if done == Some(false) {
                return Ok(false);
            }
        }
        ReplyWriter::new(out, env.proto).int(self.removal.removed() as i64);
        Ok(true)
    }
}
