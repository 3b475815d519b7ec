//! ZADD, ZINCRBY.

use super::parse_score;
use crate::data::Edit;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::{Score, SortedSet};

/// What ZADD does with a member that is there, or not.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    changed: bool,
    increment: bool,
}

impl Options {
    /// The options from argument 2 on, and the position of what follows them.
    fn parse(request: Request<'_>) -> (Self, usize) {
        let mut options = Self::default();
        let mut at = 2;
        while let Some(word) = request.get(at) {
            let option = match word {
                word if word.eq_ignore_ascii_case(b"NX") => &mut options.nx,
                word if word.eq_ignore_ascii_case(b"XX") => &mut options.xx,
                word if word.eq_ignore_ascii_case(b"GT") => &mut options.gt,
                word if word.eq_ignore_ascii_case(b"LT") => &mut options.lt,
                word if word.eq_ignore_ascii_case(b"CH") => &mut options.changed,
                word if word.eq_ignore_ascii_case(b"INCR") => &mut options.increment,
                _ => break,
            };
            *option = true;
            at += 1;
        }
        (options, at)
    }

    fn check(&self, pairs: usize) -> Result<(), CommandError> {
        let Self { nx, xx, gt, lt, .. } = *self;
        if nx && xx {
            let text = "XX and NX options at the same time are not compatible";
            return Err(CommandError::Refused(text));
        }
        if [nx, gt, lt].into_iter().filter(|&given| given).count() > 1 {
            let text = "GT, LT, and/or NX options at the same time are not compatible";
            return Err(CommandError::Refused(text));
        }
        if self.increment && pairs > 1 {
            let text = "INCR option supports a single increment-element pair";
            return Err(CommandError::Refused(text));
        }
        Ok(())
    }
}

/// `ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]`
pub(crate) fn zadd(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    add(false, shard, env, request, out)
}

/// `ZINCRBY key increment member`
pub(crate) fn zincrby(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    // To Redis it is ZADD with INCR: an increment that is one of ZADD's options leaves it with too few arguments.
    add(true, shard, env, request, out)
}

fn add(
    increment: bool,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let (mut options, first) = Options::parse(request);
    options.increment |= increment;
    let left = request.len() - first;
    if left == 0 || left % 2 == 1 {
        return Err(CommandError::Syntax);
    }
    options.check(left / 2)?;
    begin(Add::new(options, first, left / 2), shard, env, request, out)
}

/// A ZADD that has begun: first all scores are read, then all members added.
struct Add {
    options: Options,
    /// The position of the first score.
    first: usize,
    pairs: usize,
    checked: usize,
    done: usize,
    added: usize,
    updated: usize,
    /// With INCR: the new score.
    score: Option<Score>,
}

impl Add {
    fn new(options: Options, first: usize, pairs: usize) -> Self {
        Self {
            options,
            first,
            pairs,
            checked: 0,
            done: 0,
            added: 0,
            updated: 0,
            score: None,
        }
    }

    fn pair<'a>(&self, request: Request<'a>, number: usize) -> (&'a [u8], &'a [u8]) {
        let at = self.first + 2 * number;
        (request.arg(at), request.arg(at + 1))
    }

    /// Adds up to a step's members.
    fn add_some(&mut self, edit: &mut Edit<'_, SortedSet>, request: Request<'_>) -> Result<(), CommandError> {
        let end = self.pairs.min(self.done + STEP_ELEMENTS);
        if self.done == 0 {
            let (_, first) = self.pair(request, 0);
            edit.expect(self.pairs, if edit.is_empty() { first.len() } else { 0 });
        }
        for number in self.done..end {
            let (score, member) = self.pair(request, number);
            let mut score = parse_score(score)?;
            let before = edit.score(member);
            if let Some(before) = before {
                if self.options.nx {
                    continue;
                }
                if self.options.increment {
                    let sum = Score::new(before.get() + score.get());
                    score = sum.ok_or(CommandError::Refused("resulting score is not a number (NaN)"))?;
                }
                if (self.options.lt && score >= before) || (self.options.gt && score <= before) {
                    continue;
                }
            } else if self.options.xx {
                continue;
            }
            self.score = Some(score);
            if before == Some(score) {
                continue;
            }
            edit.insert(member, score);
            match before {
                None => self.added += 1,
                Some(_) => self.updated += 1,
            }
        }
        self.done = end;
        Ok(())
    }
}

impl Work for Add {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        if self.checked < self.pairs {
            let end = self.pairs.min(self.checked + STEP_ELEMENTS);
            for number in self.checked..end {
                parse_score(self.pair(request, number).0)?;
            }
            self.checked = end;
            if self.checked > STEP_ELEMENTS || self.checked < self.pairs {
                return Ok(false);
            }
        }
        let key = shard.data_key(env, request.arg(1))?;
        if self.done == 0 {
            shard.edit(env, &key, SortedSet::new, |edit| self.add_some(edit, request))??;
        } else if let Some((place, _)) = shard.read_at::<SortedSet>(env, &key)? {
            shard
                .change_at(&key, place, |edit| self.add_some(edit, request))
                .transpose()?;
        } else {
            // Nothing to add to: with XX no member is there.
            self.done = self.pairs;
        }
        if self.done < self.pairs {
            return Ok(false);
        }
        let mut reply = ReplyWriter::new(out, env.proto);
        match (self.options.increment, self.score) {
            (true, Some(score)) => reply.double(score.get()),
            (true, None) => reply.null(),
            (false, _) if self.options.changed => reply.int((self.added + self.updated) as i64),
            (false, _) => reply.int(self.added as i64),
        }
        Ok(true)
    }
}
