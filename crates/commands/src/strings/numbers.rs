//! Strings that are numbers: INCR, INCRBY, DECR, DECRBY, INCRBYFLOAT.

use crate::data::Edit;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{LongDouble, ReplyWriter, Request, parse_integer};
use tollgate_store::Expiry;
use tollgate_values::{StringValue, Value};

/// `INCR key`
pub(crate) fn incr(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    add(shard, env, request, out, 1)
}

/// `DECR key`
pub(crate) fn decr(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    add(shard, env, request, out, -1)
}

/// `INCRBY key increment`
pub(crate) fn incrby(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let by = parse_integer(request.arg(2)).ok_or(CommandError::NotAnInteger)?;
    add(shard, env, request, out, by)
}

/// `DECRBY key decrement`
pub(crate) fn decrby(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let by = parse_integer(request.arg(2)).ok_or(CommandError::NotAnInteger)?;
    let by = by
        .checked_neg()
        .ok_or(CommandError::Refused("decrement would overflow"))?;
    add(shard, env, request, out, by)
}

fn add(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>, by: i64) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let before = match shard.read_at::<StringValue>(env, &key)? {
        Some((place, value)) => Some((place, value.integer().ok_or(CommandError::NotAnInteger)?)),
        None => None,
    };
    let sum = before
        .map_or(0, |(_, integer)| integer)
        .checked_add(by)
        .ok_or(CommandError::Refused("increment or decrement would overflow"))?;
    if let Some((place, _)) = before {
        shard.change_at(&key, place, |edit: &mut Edit<'_, StringValue>| {
            *edit.raw() = StringValue::from_integer(sum);
        });
    } else {
        let value = Value::String(Box::new(StringValue::from_integer(sum)));
        shard.set_value(env, &key, value, Expiry::NEVER)?;
    }
    ReplyWriter::new(out, env.proto).int(sum);
    Ok(())
}

/// `INCRBYFLOAT key increment`
pub(crate) fn incrbyfloat(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    const NO_FLOAT: CommandError = CommandError::Refused("value is not a valid float");
    let key = shard.data_key(env, request.arg(1))?;
    let before = match shard.read_at::<StringValue>(env, &key)? {
        Some((place, value)) => Some((place, LongDouble::parse(&value.text()).ok_or(NO_FLOAT)?)),
        None => None,
    };
    let by = LongDouble::parse(request.arg(2)).ok_or(NO_FLOAT)?;
    let sum = before
        .map_or(LongDouble::from(0), |(_, number)| number)
        .checked_add(by)
        .ok_or(CommandError::Refused("increment would produce NaN or Infinity"))?
        .to_text();
    let value = StringValue::from_bytes(&sum);
    if let Some((place, _)) = before {
        shard.change_at(&key, place, |edit: &mut Edit<'_, StringValue>| *edit.raw() = value);
    } else {
        shard.set_value(env, &key, Value::String(Box::new(value)), Expiry::NEVER)?;
    }
    ReplyWriter::new(out, env.proto).bulk(&sum);
    Ok(())
}
