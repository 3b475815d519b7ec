//! Intersections, unions and differences.
//!
//! A command looks at its sets one after the other, then goes through them, and then answers or stores what came of it, each in steps.
//! What it makes has the order and the encoding that Redis's own way of going through them gives.

mod run;
mod through;

use super::More;
use crate::{CommandError, Env, Shard};
use run::Run;
use tollgate_protocol::{Request, parse_integer};

/// `SINTER key [key ...]`
pub(crate) fn sinter(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    Run::new(Operation::Inter, Outcome::Answer, 1..request.len()).begin(shard, env, request, out)
}

/// `SINTERSTORE destination key [key ...]`
pub(crate) fn sinterstore(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    Run::new(Operation::Inter, Outcome::Store, 2..request.len()).begin(shard, env, request, out)
}

/// `SUNION key [key ...]`
pub(crate) fn sunion(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    Run::new(Operation::Union, Outcome::Answer, 1..request.len()).begin(shard, env, request, out)
}

/// `SUNIONSTORE destination key [key ...]`
pub(crate) fn sunionstore(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    Run::new(Operation::Union, Outcome::Store, 2..request.len()).begin(shard, env, request, out)
}

/// `SDIFF key [key ...]`
pub(crate) fn sdiff(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    Run::new(Operation::Diff, Outcome::Answer, 1..request.len()).begin(shard, env, request, out)
}

/// `SDIFFSTORE destination key [key ...]`
pub(crate) fn sdiffstore(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    Run::new(Operation::Diff, Outcome::Store, 2..request.len()).begin(shard, env, request, out)
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
pub(crate) fn sintercard(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
    let keys = parse_integer(request.arg(1)).and_then(|keys| usize::try_from(keys).ok());
    let keys = keys
        .filter(|&keys| keys > 0)
        .ok_or(CommandError::Refused("numkeys should be greater than 0"))?;
    if keys > request.len() - 2 {
        return Err(CommandError::Refused(
            "Number of keys can't be greater than number of args",
        ));
    }
    let mut limit = 0;
    let mut at = 2 + keys;
    while at < request.len() {
        let (option, Some(value)) = (request.arg(at), request.get(at + 1)) else {
            return Err(CommandError::Syntax);
        };
        if !option.eq_ignore_ascii_case(b"LIMIT") {
            return Err(CommandError::Syntax);
        }
        let value = parse_integer(value).and_then(|limit| usize::try_from(limit).ok());
        limit = value.ok_or(CommandError::Refused("LIMIT can't be negative"))?;
        at += 2;
    }
    let most = if limit == 0 { usize::MAX } else { limit };
    Run::new(Operation::Inter, Outcome::Count { most }, 2..2 + keys).begin(shard, env, request, out)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Inter,
    Union,
    Diff,
}

/// What becomes of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is answered.
    Answer,
    /// It is stored in the key of argument 1.
    Store,
    /// Its members are counted, up to so many.
    Count { most: usize },
}
