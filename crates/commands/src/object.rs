//! OBJECT and MEMORY: looking into a key.

use crate::node_view::ConnectionCall;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_script::ParamsId;

/// `OBJECT ENCODING key`: how Redis would keep the value; of a bucket the name of its policy.
pub(crate) fn encoding(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let present = shard.find_present(env, request.arg(2));
    let mut reply = ReplyWriter::new(out, env.proto);
    match present {
        None => reply.null(),
        Some(present) => match shard.store.value(present.place) {
            Some(stored) => reply.bulk(stored.value.encoding().name().as_bytes()),
            None => {
                let (policy, _) = shard.policies.params(ParamsId(shard.store.params(present.place)));
                reply.bulk(shard.policies.info(policy).name.as_bytes());
            }
        },
    }
    Ok(())
}

/// `OBJECT REFCOUNT key`
pub(crate) fn refcount(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let present = shard.find_present(env, request.arg(2));
    let mut reply = ReplyWriter::new(out, env.proto);
    match present {
        None => reply.null(),
        Some(_) => reply.int(1),
    }
    Ok(())
}

/// `OBJECT FREQ key`: not tracked.
pub(crate) fn freq(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    untracked(
        shard,
        env,
        request,
        out,
        "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at \
         runtime LRU and LFU data will take some time to adjust.",
    )
}

/// `OBJECT IDLETIME key`: not tracked. Redis has no error for that which would be true here: its own says that keys are evicted by how
/// often they are used.
pub(crate) fn idle_time(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    untracked(shard, env, request, out, "idle time not tracked")
}

/// Null without such a key, else an error.
fn untracked(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    error: &'static str,
) -> Result<(), CommandError> {
    if shard.find_present(env, request.arg(2)).is_some() {
        return Err(CommandError::Refused(error));
    }
    ReplyWriter::new(out, env.proto).null();
    Ok(())
}

/// `OBJECT HELP`
pub(crate) fn object_help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ],
    )
}

/// `MEMORY USAGE key [SAMPLES count]`. Nothing is sampled: a bucket is one entry.
pub(crate) fn memory_usage(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    match (request.get(3), request.get(4)) {
        (None, _) => {}
        (Some(option), Some(count)) if option.eq_ignore_ascii_case(b"SAMPLES") && request.len() == 5 => {
            if parse_integer(count).ok_or(CommandError::NotAnInteger)? < 0 {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    let present = shard.find_present(env, request.arg(2));
    let mut reply = ReplyWriter::new(out, env.proto);
    match present {
        None => reply.null(),
        Some(present) => reply.int(shard.store.entry_bytes(present.place) as i64),
    }
    Ok(())
}

/// `MEMORY HELP`
pub(crate) fn memory_help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "MEMORY",
        &[
            "USAGE <key> [SAMPLES <count>]",
            "    Return memory in bytes used by <key> and its value. Nested values are",
            "    sampled up to <count> times (default: 5, 0 means sample all).",
        ],
    )
}
