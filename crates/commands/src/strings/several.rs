//! Several strings at once: MGET, MSET, MSETNX.

use super::grow::STEP_BYTES;
use super::string;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::{CommandError, Env, Shard, WhenFull};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_store::Expiry;
use tollgate_values::StringValue;

/// `MGET key [key ...]`
pub(crate) fn mget(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    ReplyWriter::new(out, env.proto).array(request.len() - 1);
    let mut rest = MgetRest { next: 1 };
    Ok((!rest.step(shard, env, request, out)).then(|| Box::new(rest) as _))
}

struct MgetRest {
    /// The argument that is answered next.
    next: usize,
}

impl Rest for MgetRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        let written_max = out.len() + STEP_BYTES;
        let end = request.len().min(self.next + STEP_ELEMENTS);
        while self.next < end && out.len() < written_max {
            // A key that the store would not take is no key of it, and what is no string is answered as none.
            let key = shard.data_key(env, request.arg(self.next)).ok();
            let value = key.and_then(|key| shard.read::<StringValue>(env, &key).ok().flatten());
            let mut reply = ReplyWriter::new(out, env.proto);
            match value {
                Some(value) => reply.bulk(&value.text()),
                None => reply.null(),
            }
            self.next += 1;
        }
        self.next == request.len()
    }
}

/// `MSET key value [key value ...]`
pub(crate) fn mset(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    start(shard, env, request, out, "mset", false)
}

/// `MSETNX key value [key value ...]`
pub(crate) fn msetnx(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    start(shard, env, request, out, "msetnx", true)
}

fn start(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    command: &str,
    only_new: bool,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    if request.len().is_multiple_of(2) {
        return Err(CommandError::Arity(command.into()));
    }
    shard.make_room_for_value()?;
    let mut rest = SetRest {
        only_new,
        checking: true,
        next: 1,
    };
    // So small a request is done at once, without a step of its own for each pass.
    let passes = if request.len() <= STEP_ELEMENTS { 2 } else { 1 };
    for _ in 0..passes {
        if rest.go_on(shard, env, request, out)? {
            return Ok(None);
        }
    }
    Ok(Some(Box::new(rest)))
}

/// All keys are looked at before the first is set.
struct SetRest {
    only_new: bool,
    checking: bool,
    /// The argument with the key that comes next.
    next: usize,
}

impl SetRest {
    fn go_on(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let end = request.len().min(self.next + 2 * STEP_ELEMENTS);
        let mut bytes = 0;
        while self.next < end && bytes < STEP_BYTES {
            let key = shard.data_key(env, request.arg(self.next))?;
            if !self.checking {
                let value = request.arg(self.next + 1);
                if shard.when_full == WhenFull::Shed {
                    // Having begun, it goes on even where nothing is left to shed.
                    let _ = shard.make_room_for_value();
                }
                shard.put_value(env, &key, string(value), Expiry::NEVER);
                bytes += value.len();
            } else if self.only_new && shard.settled(env, &key).is_some() {
                ReplyWriter::new(out, env.proto).int(0);
                return Ok(true);
            }
            self.next += 2;
        }
        if self.next < request.len() {
            return Ok(false);
        }
        if self.checking {
            (self.checking, self.next) = (false, 1);
            return Ok(false);
        }
        let mut reply = ReplyWriter::new(out, env.proto);
        match self.only_new {
            true => reply.int(1),
            false => reply.ok(),
        }
        Ok(true)
    }
}

impl Rest for SetRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        self.go_on(shard, env, request, out).unwrap_or_else(|error| {
            error.write(out, env.proto);
            true
        })
    }
}
