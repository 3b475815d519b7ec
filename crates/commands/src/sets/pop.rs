//! SPOP.

use super::More;
use crate::data::Edit;
use crate::draws::Draws;
use crate::elements::{AT_ONCE_MAX, Parts, WalkRest, write_all};
use crate::{CommandError, Env, Rest, STEP_ELEMENTS, Shard};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::Set;

/// Redis makes a new set of what is left if that is less than a fifth of what it takes.
const REBUILT_FRACTION: usize = 5;

/// `SPOP key [count]`
pub(crate) fn spop(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let count = match request.len() {
        2 => None,
        3 => Some(parse_count(request.arg(2))?),
        _ => return Err(CommandError::Syntax),
    };
    let key = shard.data_key(env, request.arg(1))?;
    let mut draws = shard.draws();
    let start = out.len();
    let found = shard.read_at::<Set>(env, &key)?;
    let mut reply = ReplyWriter::new(out, env.proto);
    let Some((place, set)) = found else {
        match count {
            None => reply.null(),
            Some(_) => reply.set(0),
        }
        return Ok(None);
    };
    let members = set.len();
    let Some(count) = count else {
        let popped = shard.change_at(&key, place, |edit: &mut Edit<'_, Set>| edit.pop(draws.next()));
        match popped.flatten() {
            Some(member) => reply.bulk(&member),
            None => reply.null(),
        }
        return Ok(None);
    };
    if count >= members && members <= AT_ONCE_MAX {
        write_all(set, &mut reply, Parts::SET);
        shard.remove_entry(&key);
        return Ok(None);
    }
    let taken = count.min(members);
    reply.set(taken);
    if count >= members {
        return Ok(Some(Box::new(PopAll(WalkRest::new(start, Parts::SET)))));
    }
    let mut pops = Pops {
        start,
        left: taken,
        rebuilds: (members - taken) * REBUILT_FRACTION <= taken,
        draws,
    };
    let done = shard.change_at(&key, place, |edit| pops.pop_some(edit, &mut reply));
    Ok((done == Some(false)).then(|| Box::new(pops) as Box<dyn Rest>))
}

fn parse_count(text: &[u8]) -> Result<usize, CommandError> {
    let count = parse_integer(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::Refused("value is out of range, must be positive"))
}

/// Some of the members.
struct Pops {
    /// Where the reply starts.
    start: usize,
    left: usize,
    rebuilds: bool,
    draws: Draws,
}

impl Pops {
    /// Takes some members out, and says whether those were the last.
    fn pop_some(&mut self, edit: &mut Edit<'_, Set>, reply: &mut ReplyWriter<'_>) -> bool {
        for _ in 0..self.left.min(STEP_ELEMENTS) {
            if let Some(member) = edit.pop(self.draws.next()) {
                reply.bulk(&member);
            }
            self.left -= 1;
        }
        if self.left == 0 && self.rebuilds {
            edit.rebuild();
        }
        self.left == 0
    }
}

impl Rest for Pops {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let mut reply = ReplyWriter::new(out, env.proto);
        let done = shard.change_arg(env, request, 1, |edit| self.pop_some(edit, &mut reply));
        done.unwrap_or_else(|| {
            // It expired meanwhile.
            out.truncate(self.start);
            ReplyWriter::new(out, env.proto).set(0);
            true
        })
    }
}

/// All members: they are answered in steps, and then the key is removed.
struct PopAll(WalkRest<Set>);

impl Rest for PopAll {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let done = self.0.step(shard, env, request, out);
        if done && let Ok(key) = shard.data_key(env, request.arg(1)) {
            shard.remove_entry(&key);
        }
        done
    }
}
