//! ZCOUNT, ZLEXCOUNT, ZRANGE and its older forms, ZRANGESTORE.

use super::{By, Show, Span, store_result, take_ranks};
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin, steps};
use crate::{CommandError, Env, Shard};
use std::ops::Range;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::SortedSet;

/// `ZCOUNT key min max`
pub(crate) fn zcount(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    count(By::Score, shard, env, request, out)
}

/// `ZLEXCOUNT key min max`
pub(crate) fn zlexcount(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    count(By::Lex, shard, env, request, out)
}

fn count(by: By, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let span = Span::parse(by, request.arg(2), request.arg(3))?;
    let key = shard.data_key(env, request.arg(1))?;
    let set = shard.read::<SortedSet>(env, &key)?;
    let members = set.map_or(0, |set| span.resolve(set, false).len());
    ReplyWriter::new(out, env.proto).int(members as i64);
    Ok(())
}

/// What a form of ZRANGE leaves to its options; `None` where an option says it.
#[derive(Debug, Clone, Copy)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    /// The position of the key to read.
    key_at: usize,
    stores: bool,
}

const ZRANGE: Form = Form {
    by: None,
    reverse: None,
    key_at: 1,
    stores: false,
};

/// `ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub(crate) fn zrange(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    show_range(ZRANGE, shard, env, request, out)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub(crate) fn zrevrange(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    show_range(older(By::Rank, true), shard, env, request, out)
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub(crate) fn zrangebyscore(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    show_range(older(By::Score, false), shard, env, request, out)
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub(crate) fn zrevrangebyscore(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    show_range(older(By::Score, true), shard, env, request, out)
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub(crate) fn zrangebylex(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    show_range(older(By::Lex, false), shard, env, request, out)
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub(crate) fn zrevrangebylex(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    show_range(older(By::Lex, true), shard, env, request, out)
}

fn older(by: By, reverse: bool) -> Form {
    Form {
        by: Some(by),
        reverse: Some(reverse),
        ..ZRANGE
    }
}

/// What a ZRANGE asks for.
struct Query<'a> {
    span: Span<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// How many at most, if not negative.
    limit: i64,
}

impl<'a> Query<'a> {
    fn parse(form: Form, request: Request<'a>) -> Result<Self, CommandError> {
        let Form {
            mut by, mut reverse, ..
        } = form;
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut at = form.key_at + 3;
        while let Some(word) = request.get(at) {
            if !form.stores && word.eq_ignore_ascii_case(b"WITHSCORES") {
                with_scores = true;
            } else if word.eq_ignore_ascii_case(b"LIMIT")
                && let (Some(first), Some(count)) = (request.get(at + 1), request.get(at + 2))
            {
                offset = parse_integer(first).ok_or(CommandError::NotAnInteger)?;
                limit = parse_integer(count).ok_or(CommandError::NotAnInteger)?;
                at += 2;
            } else if reverse.is_none() && word.eq_ignore_ascii_case(b"REV") {
                reverse = Some(true);
            } else if by.is_none() && word.eq_ignore_ascii_case(b"BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && word.eq_ignore_ascii_case(b"BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            let text = "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(CommandError::Refused(text));
        }
        if with_scores && by == By::Lex {
            let text = "syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(CommandError::Refused(text));
        }
        let (mut min, mut max) = (request.arg(form.key_at + 1), request.arg(form.key_at + 2));
        if reverse && by != By::Rank {
            (min, max) = (max, min);
        }
        Ok(Self {
            span: Span::parse(by, min, max)?,
            reverse,
            with_scores,
            offset,
            limit,
        })
    }

    /// The ranks of the members that it asks for.
    fn resolve(&self, set: &SortedSet) -> Range<usize> {
        let mut ranks = self.span.resolve(set, self.reverse);
        if matches!(self.span, Span::Ranks(..)) {
            return ranks;
        }
        let Ok(offset) = usize::try_from(self.offset) else {
            // Redis skips until it has skipped so many, which it never has.
            return 0..0;
        };
        take_ranks(&mut ranks, offset, self.reverse);
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        take_ranks(&mut ranks, limit, self.reverse)
    }
}

fn show_range(
    form: Form,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let query = Query::parse(form, request)?;
    let reverse = query.reverse;
    let key = shard.data_key(env, request.arg(form.key_at))?;
    let mut reply = ReplyWriter::new(out, env.proto);
    let Some(set) = shard.read::<SortedSet>(env, &key)? else {
        reply.array(0);
        return Ok(None);
    };
    let show = match query.with_scores {
        true => Show::with_scores(env),
        false => Show::Members,
    };
    let mut ranks = query.resolve(set);
    show.head(&mut reply, ranks.len());
    show_members(
        set,
        take_ranks(&mut ranks, STEP_ELEMENTS, reverse),
        reverse,
        show,
        &mut reply,
    );
    if ranks.is_empty() {
        return Ok(None);
    }
    Ok(Some(steps(move |shard, env, request, out| {
        let here = take_ranks(&mut ranks, STEP_ELEMENTS, reverse);
        let mut reply = ReplyWriter::new(out, env.proto);
        match shard.value_of_arg::<SortedSet>(env, request, form.key_at) {
            Some(set) => show_members(set, here, reverse, show, &mut reply),
            None => show.missing(&mut reply, here.len()),
        }
        ranks.is_empty()
    })))
}

fn show_members(set: &SortedSet, ranks: Range<usize>, reverse: bool, show: Show, reply: &mut ReplyWriter<'_>) {
    debug_assert!(ranks.end <= set.len());
    if reverse {
        set.range_back(ranks).for_each(|member| show.member(reply, member));
    } else {
        set.range(ranks).for_each(|member| show.member(reply, member));
    }
}

/// `ZRANGESTORE dst src min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]`
pub(crate) fn zrangestore(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let form = Form {
        key_at: 2,
        stores: true,
        ..ZRANGE
    };
    let query = Query::parse(form, request)?;
    let key = shard.data_key(env, request.arg(2))?;
    let set = shard.read::<SortedSet>(env, &key)?;
    let ranks = set.map_or(0..0, |set| query.resolve(set));
    let result = SortedSet::new(shard.hash_seed);
    begin(StoreRange { ranks, result }, shard, env, request, out)
}

/// A ZRANGESTORE that has begun.
struct StoreRange {
    /// What is still to be copied.
    ranks: Range<usize>,
    result: SortedSet,
}

impl Work for StoreRange {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let here = take_ranks(&mut self.ranks, STEP_ELEMENTS, false);
        let key = shard.data_key(env, request.arg(2))?;
        if let Some(set) = shard.read::<SortedSet>(env, &key)? {
            for (member, score) in set.range(here) {
                self.result.insert(member, score);
            }
        }
        if !self.ranks.is_empty() {
            return Ok(false);
        }
        let result = std::mem::replace(&mut self.result, SortedSet::new(shard.hash_seed));
        store_result(shard, env, request.arg(1), result, out)?;
        Ok(true)
    }
}
