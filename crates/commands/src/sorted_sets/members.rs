//! ZCARD, ZMSCORE, ZRANK, ZREM, ZREVRANK, ZSCAN, ZSCORE: members by their names.

use crate::data::Edit;
use crate::double::format_17_digits;
use crate::elements::{Scan, Show, scan};
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin, steps};
use crate::{CommandError, Env, Shard};
use std::ops::Range;
use tollgate_protocol::{ReplyWriter, Request, format_double};
use tollgate_values::{Encoding, SortedSet};

/// `ZCARD key`
pub(crate) fn zcard(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let members = shard.read::<SortedSet>(env, &key)?.map_or(0, SortedSet::len);
    ReplyWriter::new(out, env.proto).int(members as i64);
    Ok(())
}

/// `ZSCORE key member`
pub(crate) fn zscore(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let set = shard.read::<SortedSet>(env, &key)?;
    write_scores(set, request, 2..3, &mut ReplyWriter::new(out, env.proto));
    Ok(())
}

/// `ZMSCORE key member [member ...]`
pub(crate) fn zmscore(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let set = shard.read::<SortedSet>(env, &key)?;
    let mut reply = ReplyWriter::new(out, env.proto);
    reply.array(request.len() - 2);
    let mut at = request.len().min(2 + STEP_ELEMENTS);
    write_scores(set, request, 2..at, &mut reply);
    if at == request.len() {
        return Ok(None);
    }
    Ok(Some(steps(move |shard, env, request, out| {
        let end = request.len().min(at + STEP_ELEMENTS);
        let set = shard.value_of_arg::<SortedSet>(env, request, 1);
        write_scores(set, request, at..end, &mut ReplyWriter::new(out, env.proto));
        at = end;
        at == request.len()
    })))
}

/// Writes the scores of the members at some positions, null for those that are not there.
fn write_scores(set: Option<&SortedSet>, request: Request<'_>, at: Range<usize>, reply: &mut ReplyWriter<'_>) {
    for at in at {
        match set.and_then(|set| set.score(request.arg(at))) {
            Some(score) => reply.double(score.get()),
            None => reply.null(),
        }
    }
}

/// `ZRANK key member [WITHSCORE]`
pub(crate) fn zrank(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    rank(shard, env, request, out, "zrank", |_, rank| rank)
}

/// `ZREVRANK key member [WITHSCORE]`
pub(crate) fn zrevrank(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    rank(shard, env, request, out, "zrevrank", |set, rank| set.len() - 1 - rank)
}

fn rank(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    command: &str,
    count: impl Fn(&SortedSet, usize) -> usize,
) -> Result<(), CommandError> {
    let with_score = match (request.len(), request.get(3)) {
        (3, _) => false,
        (4, Some(word)) if word.eq_ignore_ascii_case(b"WITHSCORE") => true,
        (4, _) => return Err(CommandError::Syntax),
        _ => return Err(CommandError::Arity(command.to_owned())),
    };
    let key = shard.data_key(env, request.arg(1))?;
    let set = shard.read::<SortedSet>(env, &key)?;
    let member = request.arg(2);
    let found = set.and_then(|set| Some((count(set, set.rank(member)?), set)));
    let mut reply = ReplyWriter::new(out, env.proto);
    match found {
        None if with_score => reply.null_array(),
        None => reply.null(),
        Some((rank, set)) => {
            if with_score {
                reply.array(2);
            }
            reply.int(rank as i64);
            if with_score {
                write_scores(Some(set), request, 2..3, &mut reply);
            }
        }
    }
    Ok(())
}

/// `ZREM key member [member ...]`
pub(crate) fn zrem(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    begin(Remove { at: 2, removed: 0 }, shard, env, request, out)
}

/// A ZREM that has begun.
struct Remove {
    /// The position of the next member.
    at: usize,
    removed: usize,
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
        let end = request.len().min(self.at + STEP_ELEMENTS);
        let found = shard.read_at::<SortedSet>(env, &key)?.map(|(place, _)| place);
        if let Some(place) = found {
            let removed = shard.change_at(&key, place, |edit: &mut Edit<'_, SortedSet>| {
                (self.at..end).filter(|&at| edit.remove(request.arg(at))).count()
            });
            self.removed += removed.unwrap_or(0);
            self.at = end;
        } else {
            // The others are not there either.
            self.at = request.len();
        }
        if self.at < request.len() {
            return Ok(false);
        }
        ReplyWriter::new(out, env.proto).int(self.removed as i64);
        Ok(true)
    }
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub(crate) fn zscan(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    scan::<SortedSet>(shard, env, request, out)
}

impl Scan for SortedSet {
    fn show_some(&self, cursor: u64, count: usize, show: &mut Show<'_>) -> u64 {
        // As Redis has it, which writes the scores of a skiplist with 17 digits here.
        let in_17_digits = self.encoding() == Encoding::Skiplist;
        self.scan(cursor, count, &mut |member, score| {
            if in_17_digits {
                show(member, Some(format_17_digits(score.get()).as_bytes()));
            } else {
                show(member, Some(format_double(score.get()).as_bytes()));
            }
        })
    }
}
