//! When an entry may be dropped.

/// Resolution to which the store keeps an expiry, in microseconds: what it keeps is rounded up to it.
pub const EXPIRY_UNIT_US: u64 = 1 << 16;

/// The time, in microseconds of the slot's clock, from which an entry may be dropped, or never.
///
/// The store keeps 4 bytes of it: it is rounded up to a multiple of [`EXPIRY_UNIT_US`] after the store's base, and what
/// lies more than 8.9 years after the base is kept as [`Expiry::NEVER`]. So an entry may stay longer than asked, never
/// shorter. Of a value, [`StoredValue`](crate::StoredValue) has it exactly: to the microsecond up to the year 146,000 of the clock, and to the millisecond
/// for the 438 million years after, which is more than Redis has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(u64);

/// From this on, the rest is milliseconds rather than microseconds: all of these times are later than any of those.
const LATE: u64 = 1 << 62;

impl Expiry {
    /// The entry is never dropped by a sweep.
    pub const NEVER: Expiry = Expiry(u64::MAX);

    /// May be dropped once the slot's clock has reached `us`; never, for the greatest.
    pub const fn from_us(us: u64) -> Expiry {
        match us {
            u64::MAX => Expiry::NEVER,
            us => Expiry::from_exact_us(us as u128),
        }
    }

    /// The time in microseconds of the slot's clock, `None` for never. What does not fit is the last that does.
    pub const fn to_us(self) -> Option<u64> {
        match self.exact_us() {
            None => None,
            Some(us) if us >= u64::MAX as u128 => Some(u64::MAX - 1),
            Some(us) => Some(us as u64),
        }
    }

    /// As [`Expiry::from_us`], for times that may be later. The last is 438 million years away.
    pub const fn from_exact_us(us: u128) -> Expiry {
        if us < LATE as u128 {
            return Expiry(us as u64);
        }
        let ms = us / 1_000;
        let last_ms = (u64::MAX - 1 - LATE) as u128;
        Expiry(LATE + if ms > last_ms { last_ms } else { ms } as u64)
    }

    /// As [`Expiry::to_us`], without a bound.
    pub const fn exact_us(self) -> Option<u128> {
        match self.0 {
            u64::MAX => None,
            late @ LATE.. => Some((late - LATE) as u128 * 1_000),
            us => Some(us as u128),
        }
    }

    /// Eight bytes from which [`Expiry::from_bits`] makes it again.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// See [`Expiry::to_bits`].
    pub const fn from_bits(bits: u64) -> Expiry {
        Expiry(bits)
    }
}

/// An expiry as an entry holds it: units of [`EXPIRY_UNIT_US`] after the base, `u32::MAX` for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Coarse(pub(crate) u32);

/// The time at which coarse time starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub(crate) us: u64,
}

/// How far before the time that a store is told a slot's clock may be, in microseconds: slots come from nodes whose clocks are others.
const EARLIER_US: u64 = 86_400_000_000;

impl Base {
    /// A base for clocks that show `us`, or somewhat less. It is on a grid that all stores share, so that an expiry which goes from one to
    /// another is rounded once.
    pub(crate) fn before(us: u64) -> Base {
        let earlier = us.saturating_sub(EARLIER_US);
        Base {
            us: earlier - earlier % EXPIRY_UNIT_US,
        }
    }

    pub(crate) fn round_up(self, expiry: Expiry) -> Coarse {
        let units = expiry.0.saturating_sub(self.us).div_ceil(EXPIRY_UNIT_US);
        Coarse(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// The last unit that has begun at `clock_us`: entries whose expiry is at most this may be dropped. Never `u32::MAX`.
    pub(crate) fn round_down(self, clock_us: u64) -> Option<Coarse> {
        let units = clock_us.checked_sub(self.us)? / EXPIRY_UNIT_US;
        Some(Coarse(units.min(u64::from(u32::MAX - 1)) as u32))
    }

    pub(crate) fn expiry(self, coarse: Coarse) -> Expiry {
        if coarse.0 == u32::MAX {
            Expiry::NEVER
        } else {
            Expiry(self.us.saturating_add(u64::from(coarse.0) * EXPIRY_UNIT_US))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn kept_never_earlier_and_at_most_a_unit_later(base in 0..1u64 << 53, after in 0..1u64 << 47) {
            let base = Base { us: base };
            let asked = base.us + after;
            let kept = base.expiry(base.round_up(Expiry::from_us(asked))).to_us().unwrap();
            prop_assert!(kept >= asked && kept < asked + EXPIRY_UNIT_US);
            prop_assert!(base.round_down(kept).unwrap() >= base.round_up(Expiry::from_us(asked)));
            prop_assert!(kept == 0 || base.round_down(kept - 1) < Some(base.round_up(Expiry::from_us(asked))));
        }
    }

    proptest! {
        #[test]
        fn times_keep_their_order(a in 0..1u128 << 73, b in 0..1u128 << 73, shift in 0..60u32) {
            let (a, b) = (a >> shift, b >> shift);
            let (first, second) = (Expiry::from_exact_us(a), Expiry::from_exact_us(b));
            prop_assert!(first <= second || a > b);
            let kept = first.exact_us().unwrap();
            prop_assert!(kept <= a && a - kept < 1_000);
            prop_assert!(kept == a || a >= 1 << 62);
            prop_assert_eq!(Expiry::from_exact_us(kept), first);
            prop_assert_eq!(Expiry::from_bits(first.to_bits()), first);
            prop_assert!(first < Expiry::NEVER);
        }
    }

    #[test]
    fn late_times() {
        assert_eq!(Expiry::from_us(u64::MAX), Expiry::NEVER);
        assert_eq!(Expiry::NEVER.exact_us(), None);
        let longest = Expiry::from_exact_us(u128::MAX);
        assert!(longest < Expiry::NEVER && longest.to_us() == Some(u64::MAX - 1));
        assert_eq!(longest.exact_us(), Some(u128::from(u64::MAX - 1 - LATE) * 1_000));
        // As in the frames of peers from the beginning.
        assert_eq!(Expiry::from_us(1_234_567).to_bits(), 1_234_567);
        assert_eq!(Expiry::NEVER.to_bits(), u64::MAX);
    }

    #[test]
    fn saturates_at_both_ends() {
        let base = Base { us: 1 << 50 };
        assert_eq!(base.round_up(Expiry::NEVER), Coarse(u32::MAX));
        assert_eq!(base.round_up(Expiry::from_us(u64::MAX - 1)), Coarse(u32::MAX));
        assert_eq!(base.round_up(Expiry::from_us(0)), Coarse(0));
        assert_eq!(base.round_down(0), None);
        assert_eq!(base.round_down(u64::MAX), Some(Coarse(u32::MAX - 1)));
        assert_eq!(base.expiry(Coarse(u32::MAX)), Expiry::NEVER);
    }
}
