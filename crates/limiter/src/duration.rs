//! Durations in text (`250ms`, `10s`, `1m`, `1h`, `30d`) and the window of a limit.

use crate::amount::parse_digits;
use thiserror::Error;

/// The shortest window: one millisecond.
pub const WINDOW_MIN_US: u64 = 1_000;
/// The longest window: 366 days.
pub const WINDOW_MAX_US: u64 = 366 * DAY_US;

const MS_US: u64 = 1_000;
const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;
const DAY_US: u64 = 24 * HOUR_US;

/// The units of durations in text, longest first.
const UNITS: [(&str, u64); 5] = [
    ("d", DAY_US),
    ("h", HOUR_US),
    ("m", MINUTE_US),
    ("s", SECOND_US),
    ("ms", MS_US),
];

/// A duration that is not acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DurationError {
    /// Not a whole number followed by a unit.
    #[error("must be a whole number and a unit in small letters: 250ms, 10s, 1m, 1h or 30d")]
    Syntax,
    /// Outside what a window may be.
    #[error("must be from 1ms to 366d")]
    Range,
}

/// Parses a duration such as `250ms` into microseconds. Units are in small letters: whoever writes `1M` may mean a month. Any length up to 10^12 units that fits 64 bits is accepted,
/// including `0s`; [`Window`] checks the range of windows.
pub fn parse_duration(text: &[u8]) -> Result<u64, DurationError> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let unit_us = match &text[digits..] {
        b"ms" => MS_US,
        b"s" => SECOND_US,
        b"m" => MINUTE_US,
        b"h" => HOUR_US,
        b"d" => DAY_US,
        _ => return Err(DurationError::Syntax),
    };
    if digits == 0 {
        return Err(DurationError::Syntax);
    }
    let count = parse_digits(&text[..digits]).ok_or(DurationError::Range)?;
    count.checked_mul(unit_us).ok_or(DurationError::Range)
}

/// Writes a duration in the largest unit that divides it; the inverse of [`parse_duration`] for whole milliseconds.
/// Durations that are not whole milliseconds are written in microseconds (`1500us`), which no command accepts.
pub fn format_duration_us(us: u64) -> String {
    for (name, unit_us) in UNITS {
        if us >= unit_us && us.is_multiple_of(unit_us) {
            return format!("{}{name}", us / unit_us);
        }
    }
    if us == 0 { "0s".to_owned() } else { format!("{us}us") }
}

/// The window of a limit: W, from 1 ms to 366 d, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(u64);

impl Window {
    /// Checks the range.
    pub fn from_us(us: u64) -> Result<Self, DurationError> {
        if (WINDOW_MIN_US..=WINDOW_MAX_US).contains(&us) {
            Ok(Self(us))
        } else {
            Err(DurationError::Range)
        }
    }

    /// Parses `250ms`, `10s`, `1m`, `1h`, `30d`.
    pub fn parse(text: &[u8]) -> Result<Self, DurationError> {
        Self::from_us(parse_duration(text)?)
    }

    /// Its length in microseconds.
    pub fn as_us(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_unit() {
        for (text, us) in [
            ("250ms", 250_000),
            ("10s", 10_000_000),
            ("1m", 60_000_000),
            ("1h", 3_600_000_000),
            ("30d", 30 * DAY_US),
        ] {
            assert_eq!(Window::parse(text.as_bytes()).unwrap().as_us(), us);
            assert_eq!(format_duration_us(us), text);
        }
        assert_eq!(parse_duration(b"0s"), Ok(0));
    }

    #[test]
    fn refuses_the_rest() {
        for bad in [
            "", "s", "10", "10 s", "-1s", "1.5s", "1w", "1mss", "1us", "1M", "1MS", "1Ms", "10S", "1H", "1D",
        ] {
            assert_eq!(Window::parse(bad.as_bytes()), Err(DurationError::Syntax), "{bad}");
        }
        for bad in ["0ms", "367d", "8785h", "1000000000001ms", "99999999999999999999s"] {
            assert_eq!(Window::parse(bad.as_bytes()), Err(DurationError::Range), "{bad}");
        }
        assert!(Window::parse(b"366d").is_ok());
        assert!(Window::parse(b"1ms").is_ok());
    }
}
