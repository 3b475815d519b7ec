//! Times at which values expire, as commands give them.

use crate::{CommandError, Env, Shard};
use tollgate_protocol::parse_integer;
use tollgate_store::{Expiry, Key};

/// A time that a command names, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// From now on; negative for one that has passed.
    In(i64),
    /// As Unix time.
    At(i64),
}

impl Moment {
    /// In the clock of the slot of a key.
    pub(crate) fn in_clock(self, shard: &Shard, env: &Env, key: &Key<'_>) -> Expiry {
        let (clock_us, clock_offset_us) = shard.slot_clock(env, key);
        self.at(clock_us, env.wall_offset_us.saturating_sub(clock_offset_us))
    }

    /// In a slot's clock, which reads `clock_us` while Unix time is that plus `wall_offset_us`. A time that has passed is 0.
    pub(crate) fn at(self, clock_us: u64, wall_offset_us: i64) -> Expiry {
        let us = match self {
            // From the millisecond that it is, as in Redis: two such times that are the same a moment apart mostly are the same.
            Moment::In(ms) => i128::from(clock_us - clock_us % 1_000) + i128::from(ms) * 1_000,
            Moment::At(ms) => i128::from(ms) * 1_000 - i128::from(wall_offset_us),
        };
        Expiry::from_exact_us(us.max(0).unsigned_abs())
    }
}

/// `EX seconds`, `PX milliseconds`, `EXAT unix-seconds` or `PXAT unix-milliseconds`, not yet looked at closely: Redis reports what is
/// wrong with the number only after the rest of the command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpiryOption {
    number: Option<i64>,
    seconds: bool,
    absolute: bool,
}

impl ExpiryOption {
    /// The option that `word` is, if it is one and has a value.
    pub(crate) fn parse(word: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        let (seconds, absolute) = if is(b"EX") {
            (true, false)
        } else if is(b"PX") {
            (false, false)
        } else if is(b"EXAT") {
            (true, true)
        } else if is(b"PXAT") {
            (false, true)
        } else {
            return None;
        };
        Some(Self {
            number: parse_integer(value?),
            seconds,
            absolute,
        })
    }

    /// Whether the other is the same option, with whatever time.
    pub(crate) fn is_same_option(&self, other: &Self) -> bool {
        (self.seconds, self.absolute) == (other.seconds, other.absolute)
    }

    /// The time, for an option that must name a positive one.
    ///
    /// # Errors
    /// Not an integer, not positive, or beyond what Redis takes.
    pub(crate) fn moment(self, env: &Env, command: &'static str) -> Result<Moment, CommandError> {
        let number = self.number.ok_or(CommandError::NotAnInteger)?;
        if number <= 0 {
            return Err(invalid(command));
        }
        moment(env, number, self.seconds, self.absolute, command)
    }
}

/// A time from its number, which may be negative.
///
/// # Errors
/// As Unix time in milliseconds it does not fit 64 bits.
pub(crate) fn moment(
    env: &Env,
    number: i64,
    seconds: bool,
    absolute: bool,
    command: &'static str,
) -> Result<Moment, CommandError> {
    let unit = if seconds { 1_000 } else { 1 };
    let longest_ms = match absolute {
        true => i64::MAX,
        // A clock is far from the end of its range.
        false => i64::MAX - env.unix_ms_ceil(env.now_us, 0) as i64,
    };
    let ms = number.checked_mul(unit).filter(|&ms| ms <= longest_ms);
    let ms = ms.ok_or_else(|| invalid(command))?;
    Ok(if absolute { Moment::At(ms) } else { Moment::In(ms) })
}

fn invalid(command: &'static str) -> CommandError {
    CommandError::Other(format!("invalid expire time in '{command}' command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_a_clock() {
        // The clock reads 5 s while Unix time is 1005 s.
        let at = |moment: Moment| moment.at(5_000_000, 1_000_000_000);
        assert_eq!(at(Moment::In(1)), Expiry::from_us(5_001_000));
        assert_eq!(Moment::In(1).at(5_000_999, 0), Expiry::from_us(5_001_000));
        assert_eq!(at(Moment::In(-1)), Expiry::from_us(4_999_000));
        assert_eq!(at(Moment::In(i64::MIN)), Expiry::from_us(0));
        assert_eq!(at(Moment::At(1_006_000)), Expiry::from_us(6_000_000));
        assert_eq!(at(Moment::At(-5)), Expiry::from_us(0));
        let longest_us = i64::MAX as u128 * 1_000 - 1_000_000_000;
        assert_eq!(at(Moment::At(i64::MAX)).exact_us(), Some(longest_us));
    }
}
