//! Redis's commands on keys, for buckets: TYPE, TTL, PTTL, EXPIRE, PERSIST, EXISTS, TOUCH, DEL, UNLINK.
//!
//! A bucket that is full by now does not exist, whether or not it has been dropped yet. EXPIRE can only keep it for longer: the
//! store then has the time asked for, rounded up to its resolution, and the mark `pinned`.

use crate::number::integer;
use crate::{CommandError, Env, Shard};
use tollgate_limiter::{us_to_ms_ceil, us_to_s_ceil};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_script::ParamsId;
use tollgate_store::{Bucket, EXPIRY_UNIT_US, Expiry, Key, Place, Space, State};

/// The furthest ahead that EXPIRE may put the end of a bucket: 5 years. The store counts time from its start, for 8.9 years.
pub const EXPIRE_MAX_US: u64 = 5 * 366 * 86_400 * 1_000_000;

/// A bucket that exists for Redis's commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    /// Where it is.
    pub place: Place,
    /// The clock of its slot.
    pub clock_us: u64,
    /// Until when it exists, in that clock.
    pub until: Expiry,
}

impl Present {
    /// Microseconds for which it still exists; nothing if for ever.
    fn left_us(&self) -> Option<u64> {
        Some(self.until.to_us()?.saturating_sub(self.clock_us))
    }
}

/// What the stored expiry alone says of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likely {
    /// It exists.
    Present,
    /// It is full by now, or past the time that EXPIRE set.
    Gone,
    /// It is full within one unit of the store's time: the policy must say.
    Unclear,
}

impl Shard {
    /// A judgement from what is stored, without asking the policy. What is stored of a bucket that EXPIRE has not touched is when it
    /// is full, and a time to linger, rounded up.
    pub(crate) fn likely(&self, bucket: &Bucket<'_>, clock_us: u64) -> Likely {
        let Some(expiry_us) = bucket.expiry.to_us() else { return Likely::Present };
        let (latest_us, unit_us) = if bucket.pinned {
            (expiry_us, 0)
        } else {
            let linger_us = self.expiry(0, ParamsId(bucket.params), None).to_us().unwrap_or(0);
            (expiry_us.saturating_sub(linger_us), EXPIRY_UNIT_US)
        };
        if clock_us >= latest_us {
            Likely::Gone
        } else if clock_us < latest_us.saturating_sub(unit_us) {
            Likely::Present
        } else {
            Likely::Unclear
        }
    }

    /// The bucket of a key if it exists. Where the policy fails to say when it is full, the stored expiry counts.
    pub(crate) fn present(&mut self, now_us: u64, key: &Key<'_>) -> Option<Present> {
        let live = self.live(key)?;
        let place = live.place;
        let expiry = self.store.bucket(place).expiry;
        let until = match live.pinned {
            Some(pinned) => pinned,
            None => self.full_at_us(&live).map_or(expiry, Expiry::from_us),
        };
        let clock_us = self.store.slot(key.slot()).map_or(now_us, |slot| slot.clock_us(now_us));
        (until > Expiry::from_us(clock_us)).then_some(Present { place, clock_us, until })
    }

    /// The bucket of a key of the selected database. A key that the store would not take is no key of it.
    pub(crate) fn find_present(&mut self, env: &Env, key: &[u8]) -> Option<Present> {
        let key = self.bucket_key(Space::Db(env.db), key).ok()?;
        self.present(env.now_us, &key)
    }
}

/// `TYPE key`
pub(crate) fn type_of(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let name = if shard.find_present(env, request.arg(1)).is_some() { TYPE_NAME } else { "none" };
    ReplyWriter::new(out, env.proto).simple(name);
    Ok(())
}

/// What TYPE says of a bucket, and what SCAN's TYPE takes.
pub(crate) const TYPE_NAME: &str = "bucket";

/// `TTL key`. Rounded up, so that a bucket that exists never shows 0.
pub(crate) fn ttl(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    write_left(shard, env, request, out, us_to_s_ceil)
}

/// `PTTL key`
pub(crate) fn pttl(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    write_left(shard, env, request, out, us_to_ms_ceil)
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
        // A time in microseconds divided by a thousand at least fits.
        Some(present) => present.left_us().map_or(-1, |left_us| in_unit(left_us) as i64),
    };
    ReplyWriter::new(out, env.proto).int(left);
    Ok(())
}

/// `EXISTS key [key ...]` and `TOUCH key [key ...]`, for one key
pub(crate) fn exists(shard: &mut Shard, env: &Env, key: &[u8]) -> Result<i64, CommandError> {
    Ok(i64::from(shard.find_present(env, key).is_some()))
}

/// `DEL key [key ...]` and `UNLINK key [key ...]`, for one key
pub(crate) fn delete(shard: &mut Shard, env: &Env, key: &[u8]) -> Result<i64, CommandError> {
    let Ok(key) = shard.bucket_key(Space::Db(env.db), key) else { return Ok(0) };
    let existed = shard.present(env.now_us, &key).is_some();
    shard.remove_bucket(&key);
    Ok(i64::from(existed))
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
            return Err(CommandError::Refused("NX and XX, GT or LT options at the same time are not compatible"));
        }
        if conditions.gt && conditions.lt {
            return Err(CommandError::Refused("GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether a bucket that exists until `until` may get the new time. It always has one, so NX never holds.
    fn hold(self, until: Expiry, asked: Expiry) -> bool {
        !self.nx && (!self.gt || asked > until) && (!self.lt || asked < until)
    }
}

/// `EXPIRE key seconds [NX|XX|GT|LT]`: keeps the bucket until then. Sooner than it is full again is refused.
pub(crate) fn expire(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let conditions = Conditions::parse(request)?;
    let seconds = integer(request.arg(2)).ok_or(CommandError::NotAnInteger)?;
    let ahead_us = i128::from(seconds) * 1_000_000;
    if ahead_us > i128::from(EXPIRE_MAX_US) {
        return Err(CommandError::Refused("invalid expire time in 'expire' command"));
    }
    let done = match shard.find_present(env, request.arg(1)) {
        None => false,
        Some(present) => {
            // At most EXPIRE_MAX_US ahead; a time that has passed is one that is too soon.
            let asked_us = present.clock_us.saturating_add_signed(ahead_us.max(i128::from(i64::MIN)) as i64);
            let asked = Expiry::from_us(asked_us);
            let holds = conditions.hold(present.until, asked);
            if holds {
                let key = shard.bucket_key(Space::Db(env.db), request.arg(1))?;
                let full_at_us = shard.natural_end(&key)?;
                if asked_us < full_at_us {
                    return Err(CommandError::ExpireTooSoon {
                        full_in_ms: us_to_ms_ceil(full_at_us.saturating_sub(present.clock_us)),
                    });
                }
                shard.set_expiry(&key, asked, true)?;
            }
            holds
        }
    };
    ReplyWriter::new(out, env.proto).int(i64::from(done));
    Ok(())
}

/// `PERSIST key`: takes back what EXPIRE set.
pub(crate) fn persist(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let pinned = shard
        .find_present(env, request.arg(1))
        .is_some_and(|present| shard.store.bucket(present.place).pinned);
    if pinned {
        let key = shard.bucket_key(Space::Db(env.db), request.arg(1))?;
        let full_at_us = shard.natural_end(&key)?;
        if let Some(place) = shard.store.find(&key) {
            let params = ParamsId(shard.store.bucket(place).params);
            let expiry = shard.expiry(full_at_us, params, None);
            shard.set_expiry(&key, expiry, false)?;
        }
    }
    ReplyWriter::new(out, env.proto).int(i64::from(pinned));
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
        let Some(place) = self.store.find(key) else { return Ok(()) };
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
