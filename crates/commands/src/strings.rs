//! Strings (<https://redis.io/docs/latest/develop/data-types/strings/>).

pub(crate) mod grow;
pub(crate) mod lcs;
pub(crate) mod numbers;
pub(crate) mod parts;
pub(crate) mod several;

use crate::expiry::ExpiryOption;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_store::{Expiry, Key};
use tollgate_values::{StringValue, Value};

fn string(text: &[u8]) -> Value {
    Value::String(Box::new(StringValue::new(text)))
}

/// Writes the string of a key, or null.
fn write_string(shard: &mut Shard, env: &Env, key: &Key<'_>, out: &mut Vec<u8>) -> Result<bool, CommandError> {
    let value = shard.read::<StringValue>(env, key)?;
    let mut reply = ReplyWriter::new(out, env.proto);
    match value {
        Some(value) => reply.bulk(&value.text()),
        None => reply.null(),
    }
    Ok(value.is_some())
}

/// `GET key`
pub(crate) fn get(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    write_string(shard, env, &key, out)?;
    Ok(())
}

/// Options of SET and GETEX. As in Redis, one may come again, and the last time counts.
#[derive(Default)]
struct Options {
    nx: bool,
    xx: bool,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    expiry: Option<ExpiryOption>,
}

impl Options {
    /// The options from argument `at` on.
    fn parse(request: Request<'_>, mut at: usize, is_set: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while at < request.len() {
            let word = request.arg(at);
            let is = |name: &[u8], of_set: bool| is_set == of_set && word.eq_ignore_ascii_case(name);
            let keeps = options.keep_ttl || options.persist;
            if is(b"NX", true) && !options.xx {
                options.nx = true;
            } else if is(b"XX", true) && !options.nx {
                options.xx = true;
            } else if is(b"GET", true) {
                options.get = true;
            } else if is(b"KEEPTTL", true) && options.expiry.is_none() {
                options.keep_ttl = true;
            } else if is(b"PERSIST", false) && options.expiry.is_none() {
                options.persist = true;
            } else if let Some(option) = ExpiryOption::parse(word, request.get(at + 1))
                && options.expiry.is_none_or(|before| before.is_same_option(&option))
                && !keeps
            {
                options.expiry = Some(option);
                at += 1;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }
}

/// `SET key value [NX|XX] [GET] [EX seconds|PX milliseconds|EXAT unix-seconds|PXAT unix-milliseconds|KEEPTTL]`
pub(crate) fn set(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let options = Options::parse(request, 3, true)?;
    let key = shard.data_key(env, request.arg(1))?;
    let moment = options.expiry.map(|option| option.moment(env, "set")).transpose()?;
    let before = out.len();
    if options.get {
        write_string(shard, env, &key, out)?;
    }
    let present = shard.settled(env, &key);
    if (options.nx && present.is_some()) || (options.xx && present.is_none()) {
        if !options.get {
            ReplyWriter::new(out, env.proto).null();
        }
        return Ok(());
    }
    let kept = present.filter(|present| options.keep_ttl && shard.store.value(present.place).is_some());
    let expires = match (moment, kept) {
        (Some(moment), _) => moment.in_clock(shard, env, &key),
        (None, Some(present)) => present.until,
        (None, None) => Expiry::NEVER,
    };
    if let Err(error) = shard.set_value(env, &key, string(request.arg(2)), expires) {
        out.truncate(before);
        return Err(error);
    }
    if !options.get {
        ReplyWriter::new(out, env.proto).ok();
    }
    Ok(())
}

/// `SETNX key value`
pub(crate) fn setnx(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let free = shard.settled(env, &key).is_none();
    if free {
        shard.set_value(env, &key, string(request.arg(2)), Expiry::NEVER)?;
    }
    ReplyWriter::new(out, env.proto).int(i64::from(free));
    Ok(())
}

/// `SETEX key seconds value`
pub(crate) fn setex(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    set_for(shard, env, request, out, b"EX", "setex")
}

/// `PSETEX key milliseconds value`
pub(crate) fn psetex(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    set_for(shard, env, request, out, b"PX", "psetex")
}

fn set_for(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    unit: &[u8],
    command: &'static str,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let option = ExpiryOption::parse(unit, request.get(2)).ok_or(CommandError::Syntax)?;
    let expires = option.moment(env, command)?.in_clock(shard, env, &key);
    shard.set_value(env, &key, string(request.arg(3)), expires)?;
    ReplyWriter::new(out, env.proto).ok();
    Ok(())
}

/// `GETSET key value`
pub(crate) fn getset(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let before = out.len();
    write_string(shard, env, &key, out)?;
    shard
        .set_value(env, &key, string(request.arg(2)), Expiry::NEVER)
        .inspect_err(|_| out.truncate(before))
}

/// `GETDEL key`
pub(crate) fn getdel(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    if write_string(shard, env, &key, out)? {
        shard.remove_entry(&key);
    }
    Ok(())
}

/// `GETEX key [EX seconds|PX milliseconds|EXAT unix-seconds|PXAT unix-milliseconds|PERSIST]`
pub(crate) fn getex(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let options = Options::parse(request, 2, false)?;
    let key = shard.data_key(env, request.arg(1))?;
    // Redis looks at the time only once it has found a string.
    let found = shard.read::<StringValue>(env, &key)?.is_some();
    let moment = options
        .expiry
        .filter(|_| found)
        .map(|option| option.moment(env, "getex"))
        .transpose()?;
    if write_string(shard, env, &key, out)? && (moment.is_some() || options.persist) {
        let expires = moment.map_or(Expiry::NEVER, |moment| moment.in_clock(shard, env, &key));
        shard.set_value_expiry(env, &key, expires);
    }
    Ok(())
}

/// `STRLEN key`
pub(crate) fn strlen(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let length = shard.read::<StringValue>(env, &key)?.map_or(0, StringValue::len);
    ReplyWriter::new(out, env.proto).int(length as i64);
    Ok(())
}
