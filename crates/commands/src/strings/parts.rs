//! Parts of strings: GETRANGE, SETRANGE, APPEND.

use super::grow::{change_string, write_up_to};
use super::string;
use crate::table::Rest;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_store::Expiry;
use tollgate_values::StringValue;

/// `GETRANGE key start end`, and `SUBSTR`, its older name
pub(crate) fn getrange(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let [start, end] = [2, 3].map(|at| parse_integer(request.arg(at)).ok_or(CommandError::NotAnInteger));
    let (start, end) = (start?, end?);
    let key = shard.data_key(env, request.arg(1))?;
    let value = shard.read::<StringValue>(env, &key)?;
    let mut reply = ReplyWriter::new(out, env.proto);
    match value {
        Some(value) => reply.bulk(&value.text()[value.resolve(start, end)]),
        None => reply.bulk(b""),
    }
    Ok(())
}

/// `SETRANGE key offset value`
pub(crate) fn setrange(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let offset = parse_integer(request.arg(2)).ok_or(CommandError::NotAnInteger)?;
    let offset = usize::try_from(offset).map_err(|_| CommandError::Refused("offset is out of range"))?;
    let part = request.arg(3);
    let key = shard.data_key(env, request.arg(1))?;
    let before = shard.read::<StringValue>(env, &key)?.map_or(0, StringValue::len);
    if part.is_empty() {
        ReplyWriter::new(out, env.proto).int(before as i64);
        return Ok(None);
    }
    let end = offset.saturating_add(part.len());
    if end > shard.string_bytes_max {
        return Err(CommandError::StringTooLong);
    }
    shard.make_room_for_value()?;
    write_up_to(shard, env, &key, end, (request, out), |shard, env, request, _, out| {
        let offset = parse_integer(request.arg(2)).unwrap_or(0) as usize;
        let key = shard.data_key(env, request.arg(1))?;
        let length = change_string(shard, env, &key, |edit| edit.set_range(offset, request.arg(3)))?;
        ReplyWriter::new(out, env.proto).int(length as i64);
        Ok(())
    })
}

/// `APPEND key value`
pub(crate) fn append(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let more = request.arg(2);
    shard.make_room_for_value()?;
    let Some(before) = shard.read::<StringValue>(env, &key)?.map(StringValue::len) else {
        shard.set_value(env, &key, string(more), Expiry::NEVER)?;
        ReplyWriter::new(out, env.proto).int(more.len() as i64);
        return Ok(None);
    };
    let end = before + more.len();
    if end > shard.string_bytes_max {
        return Err(CommandError::StringTooLong);
    }
    write_up_to(
        shard,
        env,
        &key,
        end,
        (request, out),
        |shard, env, request, before, out| {
            let key = shard.data_key(env, request.arg(1))?;
            let more = request.arg(2);
            let length = change_string(shard, env, &key, |edit| {
                let has_grown = edit.len() > before;
                if has_grown {
                    edit.set_range(before, more)
                } else {
                    edit.append(more)
                }
            })?;
            ReplyWriter::new(out, env.proto).int(length as i64);
            Ok(())
        },
    )
}
