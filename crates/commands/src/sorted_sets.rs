//! Sorted sets (<https://redis.io/docs/latest/develop/data-types/sorted-sets/>).

mod add;
mod combine;
mod edit;
mod members;
mod pop;
mod random;
mod range;
mod remove;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use add::{zadd, zincrby};
pub(crate) use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub(crate) use members::{zcard, zmscore, zrank, zrem, zrevrank, zscan, zscore};
pub(crate) use pop::{PopReply, Side, parse_multiple_pop, pop_count, pop_members, zmpop, zpopmax, zpopmin};
pub(crate) use random::zrandmember;
pub(crate) use range::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zrevrange, zrevrangebylex, zrevrangebyscore,
};
pub(crate) use remove::{zremrangebylex, zremrangebyrank, zremrangebyscore};

use crate::double::{parse_bound, parse_double};
use crate::{CommandError, Env, Shard};
use std::ops::Range;
use tollgate_protocol::{Proto, ReplyWriter, parse_integer};
use tollgate_store::Expiry;
use tollgate_values::{LexBound, Score, ScoreBound, SortedSet, Value};

fn parse_score(text: &[u8]) -> Result<Score, CommandError> {
    let score = parse_double(text).and_then(Score::new);
    score.ok_or(CommandError::Refused("value is not a valid float"))
}

/// How members are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Without their scores.
    Members,
    /// Each followed by its score.
    Flat,
    /// Each in an array with its score.
    Pairs,
}

impl Show {
    /// With scores, as most commands show them: in pairs where there is RESP3.
    fn with_scores(env: &Env) -> Self {
        match env.proto {
            Proto::Resp2 => Self::Flat,
            Proto::Resp3 => Self::Pairs,
        }
    }

    /// The head of an array of so many members.
    fn head(self, reply: &mut ReplyWriter<'_>, members: usize) {
        reply.array(if self == Self::Flat { 2 * members } else { members });
    }

    fn member(self, reply: &mut ReplyWriter<'_>, (member, score): (&[u8], Score)) {
        if self == Self::Pairs {
            reply.array(2);
        }
        reply.bulk(member);
        if self != Self::Members {
            reply.double(score.get());
        }
    }

    /// Ends a reply for which so many members are no longer there, although their keys were held: a reply that has begun has to be
    /// whole.
    fn missing(self, reply: &mut ReplyWriter<'_>, members: usize) {
        let nulls = if self == Self::Flat { 2 * members } else { members };
        (0..nulls).for_each(|_| reply.null());
    }
}

/// What a range of members is told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// Which members a command means.
#[derive(Debug, Clone, Copy)]
enum Span<'a> {
    /// First and last rank; a negative one counts from the end.
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Span<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        match by {
            By::Rank => {
                let rank = |text| parse_integer(text).ok_or(CommandError::NotAnInteger);
                Ok(Self::Ranks(rank(min)?, rank(max)?))
            }
            By::Score => match (score_bound(min), score_bound(max)) {
                (Some(min), Some(max)) => Ok(Self::Scores(min, max)),
                _ => Err(CommandError::Refused("min or max is not a float")),
            },
            By::Lex => match (lex_bound(min), lex_bound(max)) {
                (Some(min), Some(max)) => Ok(Self::Lex(min, max)),
                _ => Err(CommandError::Refused("min or max not valid string range item")),
            },
        }
    }

    /// The ranks of those members. Ranks that the span itself gives count from the highest if `reverse`.
    fn resolve(&self, set: &SortedSet, reverse: bool) -> Range<usize> {
        match *self {
            Self::Ranks(first, last) => {
                let ranks = resolve_indexes(first, last, set.len());
                if reverse {
                    set.len() - ranks.end..set.len() - ranks.start
                } else {
                    ranks
                }
            }
            Self::Scores(min, max) => set.score_range(min, max),
            Self::Lex(min, max) => set.lex_range(min, max),
        }
    }
}

/// The elements from the first to the last index of so many, where negative indexes count from the end.
pub(crate) fn resolve_indexes(first: i64, last: i64, len: usize) -> Range<usize> {
    // No value has 2^63 elements.
    let len = len as i64;
    let from_start = |index: i64| if index < 0 { len + index } else { index };
    let (first, last) = (from_start(first).max(0), from_start(last).min(len - 1));
    if first > last {
        return 0..0;
    }
    first as usize..last as usize + 1
}

fn score_bound(text: &[u8]) -> Option<ScoreBound> {
    let (exclusive, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    let score = Score::new(parse_bound(number)?)?;
    Some(if exclusive {
        ScoreBound::Exclusive(score)
    } else {
        ScoreBound::Inclusive(score)
    })
}

fn lex_bound(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        // To Redis a zero byte ends the text.
        [b'-'] | [b'-', 0, ..] => Some(LexBound::Min),
        [b'+'] | [b'+', 0, ..] => Some(LexBound::Max),
        [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
        [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
        _ => None,
    }
}

/// Takes up to so many ranks off a range, from its upper end if `reverse`.
fn take_ranks(ranks: &mut Range<usize>, count: usize, reverse: bool) -> Range<usize> {
    let count = count.min(ranks.len());
    if reverse {
        ranks.end -= count;
        ranks.end..ranks.end + count
    } else {
        ranks.start += count;
        ranks.start - count..ranks.start
    }
}

/// Stores the result of a command in place of what its key holds, and answers how many members it has. Without any, the key is
/// removed.
///
/// # Errors
/// Out of memory; nothing has changed then.
fn store_result(
    shard: &mut Shard,
    env: &Env,
    key: &[u8],
    mut result: SortedSet,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, key)?;
    let members = result.len();
    if members == 0 {
        shard.remove_entry(&key);
    } else {
        result.compact();
        shard.set_value(env, &key, Value::SortedSet(Box::new(result)), Expiry::NEVER)?;
    }
    ReplyWriter::new(out, env.proto).int(members as i64);
    Ok(())
}
