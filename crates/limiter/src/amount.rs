//! Whole numbers of tokens.

use thiserror::Error;

/// The largest limit, burst or cost: 10^12 tokens. With a window of at most 366 days every product the policies need can
/// be carried exactly in two doubles.
pub const AMOUNT_MAX: u64 = 1_000_000_000_000;

/// A number of tokens that is not acceptable. The text names the field and the range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} must be a whole number from {min} to {AMOUNT_MAX}")]
pub struct AmountError {
    /// The field as the user knows it, for example `LIMIT`.
    pub field: &'static str,
    /// The smallest accepted value.
    pub min: u64,
}

/// Parses plain decimal digits: no sign, no blank, no fraction. `None` if it is anything else or above [`AMOUNT_MAX`].
pub(crate) fn parse_digits(text: &[u8]) -> Option<u64> {
    // 13 digits hold AMOUNT_MAX and cannot overflow.
    if text.is_empty() || text.len() > 13 {
        return None;
    }
    let mut n = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n * 10 + u64::from(digit);
    }
    (n <= AMOUNT_MAX).then_some(n)
}

macro_rules! amount {
    ($(#[$doc:meta])* $name:ident, $field:literal, $min:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Checks the range.
            pub fn new(tokens: u64) -> Result<Self, AmountError> {
                if ($min..=AMOUNT_MAX).contains(&tokens) { Ok(Self(tokens)) } else { Err(Self::error()) }
            }

            /// Parses plain decimal digits.
            pub fn parse(text: &[u8]) -> Result<Self, AmountError> {
                parse_digits(text).and_then(|n| Self::new(n).ok()).ok_or_else(Self::error)
            }

            /// The number of tokens.
            pub fn get(self) -> u64 {
                self.0
            }

            fn error() -> AmountError {
                AmountError { field: $field, min: $min }
            }
        }
    };
}

amount!(
    /// Tokens that come back per window: L, from 1 to 10^12.
    Limit, "LIMIT", 1
);
amount!(
    /// The most a bucket can hold: B, from 1 to 10^12.
    Burst, "BURST", 1
);
amount!(
    /// Tokens that one check asks for: c, from 0 (a peek) to 10^12.
    Cost, "COST", 0
);

impl Cost {
    /// The cost of a check that names none.
    pub const ONE: Cost = Cost(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_whole_range_and_nothing_else() {
        assert_eq!(Limit::parse(b"1").unwrap().get(), 1);
        assert_eq!(Limit::parse(b"1000000000000").unwrap().get(), AMOUNT_MAX);
        assert_eq!(Limit::parse(b"007").unwrap().get(), 7);
        for bad in [
            &b""[..],
            b"0",
            b"-1",
            b"+1",
            b" 1",
            b"1 ",
            b"1.0",
            b"1e3",
            b"1000000000001",
            b"99999999999999999999",
            b"x",
            b"0x10",
        ] {
            assert_eq!(
                Limit::parse(bad),
                Err(AmountError { field: "LIMIT", min: 1 }),
                "{bad:?}"
            );
        }
        assert_eq!(Cost::parse(b"0").unwrap().get(), 0);
        assert_eq!(
            Cost::parse(b"-0").unwrap_err().to_string(),
            "COST must be a whole number from 0 to 1000000000000"
        );
    }
}
