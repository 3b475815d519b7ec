//! What commands that wait have in common: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP, BZPOPMIN, BZPOPMAX, BZMPOP.

use crate::double::parse_double;
use crate::lists::{self, PopReply as ListReply};
use crate::sorted_sets::{self, PopReply as SetReply, Side};
use crate::work::{Popped, first_of};
use crate::{CommandError, Env, Shard};
use std::time::Duration;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::End;

/// A command that waits until one of its keys has something.
#[derive(Debug)]
pub struct Blocking {
    /// How long it waits, in the arguments of the request; nothing for ever.
    pub timeout: fn(Request<'_>) -> Result<Option<Duration>, CommandError>,
    /// Takes what is there and writes the reply, or finds nothing. All keys are in the shard.
    pub attempt: fn(&mut Shard, &Env, Request<'_>, &mut Vec<u8>) -> Result<Popped, CommandError>,
    /// Of how many of its keys, from the first on, it takes something.
    pub sources: usize,
    /// Whether a transaction in which there is nothing gets null rather than a null array.
    null_at_once: bool,
}

impl Blocking {
    /// Writes the reply when nothing came; `at_once` in a transaction or script, where nothing waits.
    pub fn write_nothing(&self, reply: &mut ReplyWriter<'_>, at_once: bool) {
        match at_once && self.null_at_once {
            true => reply.null(),
            false => reply.null_array(),
        }
    }
}

/// `BLPOP key [key ...] timeout`
pub(crate) static BLPOP: Blocking = Blocking {
    timeout: last_is_timeout,
    attempt: |shard, env, request, out| pop_list(End::Left, shard, env, request, out),
    sources: usize::MAX,
    null_at_once: false,
};

/// `BRPOP key [key ...] timeout`
pub(crate) static BRPOP: Blocking = Blocking {
    timeout: last_is_timeout,
    attempt: |shard, env, request, out| pop_list(End::Right, shard, env, request, out),
    sources: usize::MAX,
    null_at_once: false,
};

/// `BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]`
pub(crate) static BLMPOP: Blocking = Blocking {
    timeout: |request| {
        sorted_sets::parse_multiple_pop(request, 2, lists::parse_end)?;
        timeout_of(request.arg(1))
    },
    attempt: |shard, env, request, out| {
        let (keys, end, count) = sorted_sets::parse_multiple_pop(request, 2, lists::parse_end)?;
        first_of(keys, |at| {
            let reply = ListReply::KeyAndElements;
            lists::pop_elements(shard, env, request, at, (end, count), reply, out)
        })
    },
    sources: usize::MAX,
    null_at_once: false,
};

/// `BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout`
pub(crate) static BLMOVE: Blocking = Blocking {
    timeout: |request| {
        lists::parse_end(request.arg(3))?;
        lists::parse_end(request.arg(4))?;
        timeout_of(request.arg(5))
    },
    attempt: |shard, env, request, out| {
        let (from, to) = (lists::parse_end(request.arg(3))?, lists::parse_end(request.arg(4))?);
        move_element(from, to, shard, env, request, out)
    },
    sources: 1,
    null_at_once: true,
};

/// `BRPOPLPUSH source destination timeout`
pub(crate) static BRPOPLPUSH: Blocking = Blocking {
    timeout: last_is_timeout,
    attempt: |shard, env, request, out| move_element(End::Right, End::Left, shard, env, request, out),
    sources: 1,
    null_at_once: true,
};

/// `BZPOPMIN key [key ...] timeout`
pub(crate) static BZPOPMIN: Blocking = Blocking {
    timeout: last_is_timeout,
    attempt: |shard, env, request, out| pop_set(Side::Min, shard, env, request, out),
    sources: usize::MAX,
    null_at_once: false,
};

/// `BZPOPMAX key [key ...] timeout`
pub(crate) static BZPOPMAX: Blocking = Blocking {
    timeout: last_is_timeout,
    attempt: |shard, env, request, out| pop_set(Side::Max, shard, env, request, out),
    sources: usize::MAX,
    null_at_once: false,
};

/// `BZMPOP timeout numkeys key [key ...] MIN|MAX [COUNT count]`
pub(crate) static BZMPOP: Blocking = Blocking {
    timeout: |request| {
        sorted_sets::parse_multiple_pop(request, 2, Side::parse)?;
        timeout_of(request.arg(1))
    },
    attempt: |shard, env, request, out| {
        let (keys, side, count) = sorted_sets::parse_multiple_pop(request, 2, Side::parse)?;
        first_of(keys, |at| {
            let reply = SetReply::KeyAndPairs;
            sorted_sets::pop_members(shard, env, request, at, (side, count), reply, out)
        })
    },
    sources: usize::MAX,
    null_at_once: false,
};

fn last_is_timeout(request: Request<'_>) -> Result<Option<Duration>, CommandError> {
    timeout_of(request.arg(request.len() - 1))
}

fn pop_list(
    end: End,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Popped, CommandError> {
    first_of(1..request.len() - 1, |at| {
        lists::pop_elements(shard, env, request, at, (end, 1), ListReply::KeyThenElement, out)
    })
}

fn pop_set(
    side: Side,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Popped, CommandError> {
    first_of(1..request.len() - 1, |at| {
        sorted_sets::pop_members(shard, env, request, at, (side, 1), SetReply::KeyThenFlat, out)
    })
}

fn move_element(
    from: End,
    to: End,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Popped, CommandError> {
    let moved = lists::move_element(shard, env, (request.arg(1), from), (request.arg(2), to), out)?;
    Ok(if moved { Popped::All } else { Popped::Nothing })
}

/// The timeout that an argument is, in seconds: 0 is for ever (Redis, `getTimeoutFromObjectOrReply`).
pub(crate) fn timeout_of(text: &[u8]) -> Result<Option<Duration>, CommandError> {
    let not_a_float = CommandError::Refused("timeout is not a float or out of range");
    let seconds = parse_double(text).ok_or(not_a_float)?;
    // Milliseconds that do not fit 63 bits.
    if seconds * 1_000.0 > i64::MAX as f64 {
        return Err(CommandError::Refused("timeout is out of range"));
    }
    if seconds < 0.0 {
        return Err(CommandError::Refused("timeout is negative"));
    }
    let timeout_ms = (seconds * 1_000.0).ceil() as u64;
    Ok((timeout_ms > 0).then(|| Duration::from_millis(timeout_ms)))
}

/// As [`timeout_of`], in milliseconds, of which there are no parts.
pub(crate) fn timeout_ms_of(text: &[u8]) -> Result<Option<Duration>, CommandError> {
    let not_an_integer = CommandError::Refused("timeout is not an integer or out of range");
    let timeout_ms = parse_integer(text).ok_or(not_an_integer)?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| CommandError::Refused("timeout is negative"))?;
    // From now on, in Unix time of 63 bits: which takes 42 of them.
    if timeout_ms > (i64::MAX as u64) - (1 << 42) {
        return Err(CommandError::Refused("timeout is out of range"));
    }
    Ok((timeout_ms > 0).then(|| Duration::from_millis(timeout_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts() {
        let timeout = |text: &str| timeout_of(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(timeout("0"), Ok(None));
        assert_eq!(timeout("0.0"), Ok(None));
        assert_eq!(timeout("0.0001"), Ok(Some(Duration::from_millis(1))));
        assert_eq!(timeout("1.5"), Ok(Some(Duration::from_millis(1_500))));
        for (text, error) in [
            ("x", "ERR timeout is not a float or out of range"),
            ("nan", "ERR timeout is not a float or out of range"),
            ("", "ERR timeout is not a float or out of range"),
            ("-1", "ERR timeout is negative"),
            ("1e300", "ERR timeout is out of range"),
            ("inf", "ERR timeout is out of range"),
        ] {
            assert_eq!(timeout(text), Err(error.to_owned()), "{text}");
        }
    }
}
