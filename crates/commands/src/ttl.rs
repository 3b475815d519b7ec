//! Until when a key exists: EXPIRE and its kin, TTL and its kin, PERSIST.
//!
//! A value goes when its time has come. Of a bucket EXPIRE can only put the end off: the store then has the time asked for,
//! rounded up to its resolution, and the mark `pinned`.

use crate::expiry;
use crate::keys::Present;
use crate::{CommandError, Env, Shard};
use tollgate_limiter::us_to_ms_ceil;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_script::ParamsId;
use tollgate_store::{Expiry, Key, Space, State};

/// The furthest ahead that EXPIRE may put the end of a bucket: 5 years. The store counts time from its start, for 8.9 years.
pub const EXPIRE_MAX_US: u64 = 5 * 366 * 86_400 * 1_000_000;

impl Present {
    /// Milliseconds for which it still exists, rounded up; nothing if for ever.
    fn left_ms(&self) -> Option<u64> {
        let left_us = self.until.exact_us()?.saturating_sub(self.clock_us.into());
        // At most what an expiry has of milliseconds.
        u64::try_from(left_us.div_ceil(1_000)).ok()
    }
}

/// `TTL key`, rounded to the nearest second as Redis does.
pub(crate) fn ttl(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    write_left(shard, env, request, out, s_nearest)
}

/// `PTTL key`
pub(crate) fn pttl(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    write_left(shard, env, request, out, |left_ms| left_ms)
}

/// As Redis goes from the milliseconds of PTTL to the seconds of TTL.
fn s_nearest(ms: u64) -> u64 {
    (ms + 500) / 1_000
}

/// Writes the time for which a key still exists: -2 without one, -1 for ever.
fn write_left(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    in_unit: fn(u64) -> u64,
) -> Result<(), CommandError> {
    let left = match shard.find_present(env, request.arg(1)) {
        None => -2,
        Some(present) => present.left_ms().map_or(-1, |left_ms| in_unit(left_ms) as i64),
    };
    ReplyWriter::new(out, env.proto).int(left);
    Ok(())
}

/// Conditions of EXPIRE.
#[derive(Debug, Clone, Copy, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(request: Request<'_>) -> Result<Self, CommandError> {
        let mut conditions = Self::default();
        for word in request.iter().skip(3) {
            let flag = match word {
                word if word.eq_ignore_ascii_case(b"NX") => &mut conditions.nx,
                word if word.eq_ignore_ascii_case(b"XX") => &mut conditions.xx,
                word if word.eq_ignore_ascii_case(b"GT") => &mut conditions.gt,
                word if word.eq_ignore_ascii_case(b"LT") => &mut conditions.lt,
                word => {
                    let shown = String::from_utf8_lossy(&word[..word.len().min(128)]);
                    return Err(CommandError::Other(format!("Unsupported option {shown}")));
                }
            };
            *flag = true;
        }
        if conditions.nx && (conditions.xx || conditions.gt || conditions.lt) {
            return Err(CommandError::Refused(
                "NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if conditions.gt && conditions.lt {
            return Err(CommandError::Refused(
                "GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// Whether what exists until `until` may get the new time. A bucket always has an end; without one, a value counts as existing
    /// for ever.
    fn hold(self, until: Expiry, asked: Expiry) -> bool {
        let ends = until != Expiry::NEVER;
        (!self.nx || !ends) && (!self.xx || ends) && (!self.gt || asked > until) && (!self.lt || asked < until)
    }
}

/// `EXPIRE key seconds [NX|XX|GT|LT]`
pub(crate) fn expire(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    set_end(shard, env, request, out, true, false, "expire")
}

/// `PEXPIRE key milliseconds [NX|XX|GT|LT]`
pub(crate) fn pexpire(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    set_end(shard, env, request, out, false, false, "pexpire")
}

/// `EXPIREAT key unix-seconds [NX|XX|GT|LT]`
pub(crate) fn expireat(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    set_end(shard, env, request, out, true, true, "expireat")
}

/// `PEXPIREAT key unix-milliseconds [NX|XX|GT|LT]`
pub(crate) fn pexpireat(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    set_end(shard, env, request, out, false, true, "pexpireat")
}

/// Sets until when a key exists. A value may go at once; a bucket is kept for longer only: sooner than it is full again is refused.
fn set_end(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    seconds: bool,
    absolute: bool,
    command: &'static str,
) -> Result<(), CommandError> {
    let conditions = Conditions::parse(request)?;
    let number = parse_integer(request.arg(2)).ok_or(CommandError::NotAnInteger)?;
    let moment = expiry::moment(env, number, seconds, absolute, command)?;
    // A key that the store would not take is no key of it.
    let key = shard.data_key(env, request.arg(1)).ok();
    let found = key.and_then(|key| Some((key, shard.present(env.now_us, &key)?)));
    let done = match found {
        None => false,
        Some((key, present)) => {
            let asked = moment.in_clock(shard, env, &key);
            let is_value = shard.store.value(present.place).is_some();
            let holds = conditions.hold(present.until, asked);
            if holds && is_value {
                shard.set_value_expiry(env, &key, asked);
            } else if holds {
                shard.pin_bucket(&key, &present, asked, command)?;
            }
            holds
        }
    };
    ReplyWriter::new(out, env.proto).int(i64::from(done));
    Ok(())
}

impl Shard {
    /// Keeps a bucket until then.
    fn pin_bucket(
        &mut self,
        key: &Key<'_>,
        present: &Present,
        asked: Expiry,
        command: &'static str,
    ) -> Result<(), CommandError> {
        // `NEVER` is what lies beyond the clock's range.
        let asked_us = asked.to_us().unwrap_or(u64::MAX);
        if asked_us.saturating_sub(present.clock_us) > EXPIRE_MAX_US {
            return Err(CommandError::Other(format!(
                "invalid expire time in '{command}' command"
            )));
        }
        let full_at_us = self.natural_end(key)?;
        if asked_us < full_at_us {
            return Err(CommandError::ExpireTooSoon {
                full_in_ms: us_to_ms_ceil(full_at_us.saturating_sub(present.clock_us)),
            });
        }
        self.set_expiry(key, asked, true)
    }
}

/// `PERSIST key`: takes back what EXPIRE set.
pub(crate) fn persist(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let Some(present) = shard.find_present(env, request.arg(1)) else {
        ReplyWriter::new(out, env.proto).int(0);
        return Ok(());
    };
    let key = shard.bucket_key(Space::Db(env.db), request.arg(1))?;
    let done = if shard.store.value(present.place).is_some() {
        shard.set_value_expiry(env, &key, Expiry::NEVER);
        present.until != Expiry::NEVER
    } else {
        let pinned = shard.store.bucket(present.place).pinned;
        if pinned {
            let full_at_us = shard.natural_end(&key)?;
            let params = ParamsId(shard.store.params(present.place));
            let (expiry, _) = shard.expiry(full_at_us, params, None);
            shard.set_expiry(&key, expiry, false)?;
        }
        pinned
    };
    ReplyWriter::new(out, env.proto).int(i64::from(done));
    Ok(())
}

/// `EXPIRETIME key`: the Unix time in seconds until which it exists.
pub(crate) fn expiretime(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    write_end(shard, env, request, out, s_nearest)
}

/// `PEXPIRETIME key`: the same in milliseconds.
pub(crate) fn pexpiretime(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    write_end(shard, env, request, out, |unix_ms| unix_ms)
}

/// Writes the Unix time until which a key exists: -2 without one, -1 for ever.
fn write_end(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    in_unit: fn(u64) -> u64,
) -> Result<(), CommandError> {
    let end = match shard.find_present(env, request.arg(1)) {
        None => -2,
        Some(present) => {
            let key = shard.bucket_key(Space::Db(env.db), request.arg(1))?;
            let (_, clock_offset_us) = shard.slot_clock(env, &key);
            let unix_ms = env.unix_ms_of(present.until, clock_offset_us);
            unix_ms.map_or(-1, |unix_ms| in_unit(unix_ms) as i64)
        }
    };
    ReplyWriter::new(out, env.proto).int(end);
    Ok(())
}

impl Shard {
    /// When the stored bucket of a key is full again, in its slot's clock.
    fn natural_end(&mut self, key: &Key<'_>) -> Result<u64, CommandError> {
        match self.live(key) {
            Some(live) => self.full_at_us(&live),
            None => Ok(0),
        }
    }

    /// Changes the expiry of a stored bucket and nothing else.
    fn set_expiry(&mut self, key: &Key<'_>, expiry: Expiry, pinned: bool) -> Result<(), CommandError> {
        let Some(place) = self.store.find(key) else {
            return Ok(());
        };
        self.note_before_bucket(key);
        self.note_change(key);
        let bucket = self.store.bucket(place);
        let params = bucket.params;
        match bucket.state {
            State::Numbers(numbers) => {
                let updated = self.store.update(place, params, expiry, pinned, &numbers);
                debug_assert!(updated, "as many numbers as before");
            }
            State::Blob(bytes) => {
                let bytes = bytes.to_vec();
                let put = self.store.put(key, params, expiry, pinned, State::Blob(&bytes));
                put.map_err(|error| CommandError::Other(error.to_string()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::test_shard::{TestShards, assert_gone};

    #[test]
    fn expire_only_keeps_for_longer() {
        let mut shards = TestShards::new(1);
        assert_eq!(shards.run("EXPIRE k 100"), ":0\r\n");
        for _ in 0..5 {
            shards.check("k");
        }
        let refused =
            "-ERR the bucket is full again in 5000 ms and cannot expire sooner; DEL or RL.RESET resets it\r\n";
        for seconds in ["4", "0", "-1", "-9223372036854775"] {
            assert_eq!(shards.run(&format!("EXPIRE k {seconds}")), refused, "{seconds}");
        }
        // As in Redis: it does not fit once it is in milliseconds.
        let invalid = "-ERR invalid expire time in 'expire' command\r\n";
        assert_eq!(shards.run("EXPIRE k -9223372036854775808"), invalid);
        assert_eq!(shards.run("PTTL k"), ":5000\r\n");
        assert_eq!(shards.run("PERSIST k"), ":0\r\n");
        assert_eq!(shards.run("EXPIRE k 60"), ":1\r\n");
        assert_eq!(shards.run("TTL k"), ":60\r\n");
        assert_eq!(shards.run("EXPIRE k 100"), ":1\r\n");
        let left: i64 = shards.run("PTTL k")[1..].trim().parse().unwrap();
        assert!((100_000..=100_066).contains(&left), "{left}");
        // The checks that follow keep the longer life; a full bucket that is kept still exists.
        shards.check("k");
        shards.advance_ms(50_000);
        assert_eq!(shards.run("EXISTS k"), ":1\r\n");
        assert_eq!(shards.run("KEYS *"), "*1\r\n$1\r\nk\r\n");
        shards.advance_ms(50_066);
        assert_gone(&mut shards);
    }

    #[test]
    fn persist_takes_it_back() {
        let mut shards = TestShards::new(1);
        shards.check("k");
        assert_eq!(shards.run("EXPIRE k 100"), ":1\r\n");
        assert_eq!(shards.run("PERSIST k"), ":1\r\n");
        assert_eq!(shards.run("PTTL k"), ":1000\r\n");
        shards.advance_ms(1_000);
        assert_gone(&mut shards);
    }

    #[test]
    fn the_longest_times_are_those_of_redis() {
        const LONGEST: i64 = i64::MAX;
        let mut shards = TestShards::new(1);
        let now_ms = shards.env().unix_ms_ceil(shards.now_us, 0) as i64;
        let ends = [
            (format!("PEXPIREAT k {LONGEST}"), LONGEST),
            (format!("EXPIREAT k {}", LONGEST / 1_000), LONGEST / 1_000 * 1_000),
            (format!("PEXPIRE k {}", LONGEST - now_ms), LONGEST),
            (format!("GETEX k PXAT {}", LONGEST - 1), LONGEST - 1),
            (format!("SET k v PXAT {LONGEST}"), LONGEST),
            (format!("PSETEX k {} v", LONGEST - now_ms), LONGEST),
            ("PEXPIREAT k 9223372036854777".to_owned(), 9_223_372_036_854_777),
            ("PEXPIREAT k 18446744073709553".to_owned(), 18_446_744_073_709_553),
        ];
        for (command, end_ms) in ends {
            shards.run("SET k v");
            let reply = shards.run(&command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
            assert_eq!(shards.run("PEXPIRETIME k"), format!(":{end_ms}\r\n"), "{command}");
            let seconds = |ms: i64| (i128::from(ms) + 500) / 1_000;
            assert_eq!(
                shards.run("EXPIRETIME k"),
                format!(":{}\r\n", seconds(end_ms)),
                "{command}"
            );
            assert_eq!(shards.run("PTTL k"), format!(":{}\r\n", end_ms - now_ms), "{command}");
            assert_eq!(
                shards.run("TTL k"),
                format!(":{}\r\n", seconds(end_ms - now_ms)),
                "{command}"
            );
        }
        assert_eq!(shards.run("PEXPIREAT k 18446744073709554 GT"), ":1\r\n");
        assert_eq!(shards.run("PEXPIREAT k 18446744073709554 GT"), ":0\r\n");
        assert_eq!(shards.run("PEXPIREAT k 9223372036854776 LT"), ":1\r\n");
        assert_eq!(shards.run("RENAME k j"), "+OK\r\n");
        assert_eq!(shards.run("PEXPIRETIME j"), ":9223372036854776\r\n");
    }

    #[test]
    fn conditions_of_expire() {
        let mut shards = TestShards::new(1);
        shards.check("k");
        assert_eq!(shards.run("EXPIRE k 100 NX"), ":0\r\n");
        assert_eq!(shards.run("EXPIRE k 100 xx"), ":1\r\n");
        assert_eq!(shards.run("EXPIRE k 50 GT"), ":0\r\n");
        assert_eq!(shards.run("EXPIRE k 200 LT"), ":0\r\n");
        assert_eq!(shards.run("EXPIRE k 50 XX LT"), ":1\r\n");
        assert_eq!(shards.run("EXPIRE k 200 GT"), ":1\r\n");
        assert_eq!(shards.run("EXPIRE k 10 foo"), "-ERR Unsupported option foo\r\n");
        assert_eq!(
            shards.run("EXPIRE k 10 NX GT"),
            "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"
        );
        assert_eq!(
            shards.run("EXPIRE k 10 GT LT"),
            "-ERR GT and LT options at the same time are not compatible\r\n"
        );
        assert_eq!(
            shards.run("EXPIRE k x"),
            "-ERR value is not an integer or out of range\r\n"
        );
        assert_eq!(
            shards.run("EXPIRE k 9223372036854775807"),
            "-ERR invalid expire time in 'expire' command\r\n"
        );
    }
}
