//! Sets (<https://redis.io/docs/latest/develop/data-types/sets/>).

mod algebra;
mod edit;
mod pop;
#[cfg(test)]
mod tests;

pub(crate) use algebra::{sdiff, sdiffstore, sinter, sintercard, sinterstore, sunion, sunionstore};
pub(crate) use pop::spop;

use crate::data::Edit;
use crate::elements::{self, Part, Parts};
use crate::{CommandError, Env, Rest, STEP_ELEMENTS, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::Set;

type More = Result<Option<Box<dyn Rest>>, CommandError>;

/// `SADD key member [member ...]`
pub(crate) fn sadd(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let key = shard.data_key(env, request.arg(1))?;
    let count = request.len() - 2;
    let mut members = Members {
        at: 2,
        changed: 0,
        change: |edit, member| edit.add(member),
        ends_empty: false,
    };
    let create = |seed| Set::new(seed, request.arg(2), count);
    shard.edit(env, &key, create, |edit| {
        edit.expect(count);
        members.change_some(edit, request);
    })?;
    Ok(members.finish_or_go_on(env, request, out))
}

/// `SREM key member [member ...]`
pub(crate) fn srem(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let key = shard.data_key(env, request.arg(1))?;
    let mut members = Members {
        at: 2,
        changed: 0,
        change: |edit, member| edit.remove(member),
        ends_empty: true,
    };
    match shard.read_at::<Set>(env, &key)? {
        Some((place, _)) => {
            shard.change_at(&key, place, |edit| members.change_some(edit, request));
        }
        None => members.at = request.len(),
    }
    Ok(members.finish_or_go_on(env, request, out))
}

/// Arguments that are added or removed.
struct Members {
    /// The argument that is next.
    at: usize,
    changed: i64,
    change: fn(&mut Edit<'_, Set>, &[u8]) -> bool,
    /// Nothing more is done once the set is empty.
    ends_empty: bool,
}

impl Members {
    fn change_some(&mut self, edit: &mut Edit<'_, Set>, request: Request<'_>) {
        let end = request.len().min(self.at + STEP_ELEMENTS);
        while self.at < end {
            self.changed += i64::from((self.change)(edit, request.arg(self.at)));
            self.at += 1;
            if self.ends_empty && edit.is_empty() {
                self.at = request.len();
            }
        }
    }

    fn finish_or_go_on(self, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Option<Box<dyn Rest>> {
        if self.at < request.len() {
            return Some(Box::new(self));
        }
        ReplyWriter::new(out, env.proto).int(self.changed);
        None
    }
}

impl Rest for Members {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let changed = shard.change_arg(env, request, 1, |edit| self.change_some(edit, request));
        // A set that expired meanwhile is left alone.
        let done = changed.is_none() || self.at >= request.len();
        if done {
            ReplyWriter::new(out, env.proto).int(self.changed);
        }
        done
    }
}

/// `SMOVE source destination member`
pub(crate) fn smove(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let source = shard.data_key(env, request.arg(1))?;
    let destination = shard.data_key(env, request.arg(2))?;
    let member = request.arg(3);
    let found = shard.read::<Set>(env, &source)?;
    let exists = found.is_some();
    let has = found.is_some_and(|set| set.contains(member));
    if exists {
        shard.read::<Set>(env, &destination)?;
    }
    if has && request.arg(1) != request.arg(2) {
        // This is what can fail, so it comes first.
        let create = |seed| Set::new(seed, member, 1);
        shard.edit(env, &destination, create, |edit| edit.add(member))?;
        if let Some((place, _)) = shard.read_at::<Set>(env, &source)? {
            shard.change_at(&source, place, |edit: &mut Edit<'_, Set>| edit.remove(member));
        }
    }
    ReplyWriter::new(out, env.proto).int(i64::from(has));
    Ok(None)
}

/// `SISMEMBER key member`
pub(crate) fn sismember(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let set = shard.read::<Set>(env, &key)?;
    let is_member = set.is_some_and(|set| set.contains(request.arg(2)));
    ReplyWriter::new(out, env.proto).int(i64::from(is_member));
    Ok(())
}

/// `SMISMEMBER key member [member ...]`
pub(crate) fn smismember(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let key = shard.data_key(env, request.arg(1))?;
    let set = shard.read::<Set>(env, &key)?;
    let mut reply = ReplyWriter::new(out, env.proto);
    reply.array(request.len() - 2);
    let mut asked = Asked { at: 2 };
    Ok((!asked.write_some(set, request, &mut reply)).then(|| Box::new(asked) as Box<dyn Rest>))
}

/// Arguments that are asked for.
struct Asked {
    /// The argument that is next.
    at: usize,
}

impl Asked {
    /// Writes some answers, and says whether those were the last.
    fn write_some(&mut self, set: Option<&Set>, request: Request<'_>, reply: &mut ReplyWriter<'_>) -> bool {
        let end = request.len().min(self.at + STEP_ELEMENTS);
        for at in self.at..end {
            reply.int(i64::from(set.is_some_and(|set| set.contains(request.arg(at)))));
        }
        self.at = end;
        end == request.len()
    }
}

impl Rest for Asked {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let set = shard.value_of_arg::<Set>(env, request, 1);
        self.write_some(set, request, &mut ReplyWriter::new(out, env.proto))
    }
}

/// `SMEMBERS key`
pub(crate) fn smembers(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    elements::walk::<Set>(shard, env, request, out, Parts::SET)
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub(crate) fn sscan(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    elements::scan::<Set>(shard, env, request, out)
}

/// `SCARD key`
pub(crate) fn scard(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let members = shard.read::<Set>(env, &key)?.map_or(0, Set::len);
    ReplyWriter::new(out, env.proto).int(members as i64);
    Ok(())
}

/// `SRANDMEMBER key [count]`
pub(crate) fn srandmember(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    if request.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let count = request.get(2).map(elements::parse_count).transpose()?;
    elements::sample::<Set>(shard, env, request, out, count, Part::Name)
}
