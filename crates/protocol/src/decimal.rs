//! Integers in text.

/// The strict integer of the protocol, as Redis's `string2ll`: an optional `-`, no `+`, no leading zero, no blank, no `-0`,
/// within `i64`.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        // Built up below zero, where i64 has room for its minimum.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// The two digits of every number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Longest text of a `u64`.
pub(crate) const U64_DIGITS_MAX: usize = 20;

/// Decimal digits of `n`, 1 to 20.
#[inline]
pub(crate) fn digit_count(n: u64) -> usize {
    n.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Writes the digits of `n` so that they end before `end`, and returns where they begin.
///
/// Panics when `line[..end]` is shorter than the digits.
#[inline]
pub(crate) fn write_digits_before(line: &mut [u8], end: usize, mut n: u64) -> usize {
    let mut at = end;
    while n >= 100 {
        at -= 2;
        line[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        line[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        line[at] = b'0' + n as u8;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        for n in [0, 1, -1, 10, 999, i64::MAX, i64::MIN, i64::MAX - 1] {
            assert_eq!(parse_i64(n.to_string().as_bytes()), Some(n));
        }
        for bad in [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            "-01",
            " 1",
            "1 ",
            "1a",
            "0x1",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999",
            "\0",
            "१",
        ] {
            assert_eq!(parse_i64(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let powers = (0..20).map(|exponent| 10u64.pow(exponent));
        for n in powers
            .flat_map(|p| [p - 1, p, p + 1, p / 10 * 9 + 1])
            .chain([u64::MAX, 42, 1727314860123])
        {
            let mut line = [0; U64_DIGITS_MAX];
            let start = write_digits_before(&mut line, U64_DIGITS_MAX, n);
            assert_eq!(&line[start..], n.to_string().as_bytes());
            assert_eq!(digit_count(n), n.to_string().len());
        }
    }
}
