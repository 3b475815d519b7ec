//! Random elements: HRANDFIELD, SRANDMEMBER.

use super::walk::Kind;
use super::{AT_ONCE_MAX, Elements, Part, Parts, WalkRest};
use crate::draws::Draws;
use crate::{CommandError, Env, Rest, STEP_ELEMENTS, Shard};
use std::marker::PhantomData;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::Sample;

/// A number of random elements; negative for elements that may come again.
pub(crate) fn parse_count(text: &[u8]) -> Result<i64, CommandError> {
    match parse_integer(text) {
        None => Err(CommandError::NotAnInteger),
        Some(i64::MIN) => Err(CommandError::Refused(
            "value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        Some(count) => Ok(count),
    }
}

/// Answers `count` random elements of the value of argument 1, or one that is no array if there is no count.
pub(crate) fn sample<T: Elements>(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    count: Option<i64>,
    part: Part,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let mut draws = shard.draws();
    let picks_max = shard.random_picks_max;
    let value = shard.read::<T>(env, &key)?;
    let start = out.len();
    let mut reply = ReplyWriter::new(out, env.proto);
    let Some(count) = count else {
        match value {
            None => reply.null(),
            Some(value) => value.show_random(draws.next(), &mut |name, value| part.write(&mut reply, name, value)),
        }
        return Ok(None);
    };
    let (Some(value), true) = (value, count != 0) else {
        reply.array(0);
        return Ok(None);
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let parts = Parts {
        part,
        kind: Kind::Array,
    };
    if count < 0 {
        if wanted > picks_max {
            return Err(CommandError::TooManyPicks(picks_max));
        }
        parts.write_head(&mut reply, wanted);
        let mut rest = Picks::<T> {
            walk: WalkRest::new(start, parts),
            left: wanted,
            choice: Choice::Again,
            draws,
            value: PhantomData,
        };
        return Ok((!rest.write_some(value, &mut reply)).then(|| Box::new(rest) as Box<dyn Rest>));
    }
    if wanted >= value.count() && value.count() > AT_ONCE_MAX {
        parts.write_head(&mut reply, value.count());
        return Ok(Some(Box::new(WalkRest::<T>::new(start, parts))));
    }
    if wanted >= value.count() || value.is_packed() {
        // Each is taken as likely as is still needed, so those which are come in order, as Redis answers them.
        let (mut left, mut needed) = (value.count(), wanted.min(value.count()));
        parts.write_head(&mut reply, needed);
        value.show_all(&mut |name, value| {
            if draws.below(left) < needed {
                part.write(&mut reply, name, value);
                needed -= 1;
            }
            left -= 1;
        });
        return Ok(None);
    }
    parts.write_head(&mut reply, wanted);
    let mut rest = Picks::<T> {
        walk: WalkRest::new(start, parts),
        left: wanted,
        choice: Choice::Distinct(value.ranks(wanted)),
        draws,
        value: PhantomData,
    };
    Ok((!rest.write_some(value, &mut reply)).then(|| Box::new(rest) as Box<dyn Rest>))
}

struct Picks<T> {
    /// What says how the reply looks.
    walk: WalkRest<T>,
    left: usize,
    choice: Choice,
    draws: Draws,
    value: PhantomData<fn() -> T>,
}

enum Choice {
    /// An element may come again.
    Again,
    /// These ranks, each once.
    Distinct(Sample),
}

impl<T: Elements> Picks<T> {
    /// Writes some elements, and says whether those were the last.
    fn write_some(&mut self, value: &T, reply: &mut ReplyWriter<'_>) -> bool {
        let Self {
            walk, draws, choice, ..
        } = self;
        let part = walk.part();
        let mut show = |name: &[u8], value: Option<&[u8]>| part.write(reply, name, value);
        let count = self.left.min(STEP_ELEMENTS);
        for _ in 0..count {
            match choice {
                Choice::Again => value.show_random(draws.next(), &mut show),
                Choice::Distinct(ranks) => {
                    if let Some(rank) = ranks.next(|| draws.next()) {
                        value.show_nth(rank, &mut show);
                    }
                }
            }
        }
        self.left -= count;
        self.left == 0
    }
}

impl<T: Elements> Rest for Picks<T> {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        match shard.value_of_arg::<T>(env, request, 1) {
            Some(value) => self.write_some(value, &mut ReplyWriter::new(out, env.proto)),
            None => self.walk.is_gone(env, out),
        }
    }
}
