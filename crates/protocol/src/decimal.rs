//! Integers in text.

/// The integer that this is the one text of, as Redis's `string2ll`: an optional `-`, no `+`, no leading zero, no blank, no `-0`,
/// within `i64`. In lengths of the protocol, in arguments and in values.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
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

/// Eight digits of `n`, which is below 10^8, as numbers: the first in the lowest byte. All are found at once, two by two, where a
/// loop would wait for one division after the other ("SWAR", as Paul Khuong describes it in "How to print integers really fast",
/// 2017).
#[inline]
fn eight_digits(n: u32) -> u64 {
    debug_assert!(n < 100_000_000);
    let fours = u64::from(n / 10_000) | u64::from(n % 10_000) << 32;
    // x / 100 for x below 10^4, and x / 10 for x below 100, as multiplications.
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - 10 * tens) << 8
}

/// Bytes after the digits that [`write_digits`] may overwrite.
pub(crate) const OVERWRITTEN: usize = 7;

/// Writes the digits of `n` from `at` on, and returns where they end.
///
/// Panics when `line[at..]` is shorter than the digits and [`OVERWRITTEN`].
#[inline]
pub(crate) fn write_digits(line: &mut [u8], at: usize, n: u64) -> usize {
    const BLOCK: u64 = 100_000_000;
    const ASCII: u64 = u64::from_ne_bytes([b'0'; 8]);
    if n < 10 {
        line[at] = b'0' + n as u8;
        return at + 1;
    }
    let (head, low) = if n < BLOCK {
        (n, None)
    } else {
        (n / BLOCK, Some(n % BLOCK))
    };
    if head >= BLOCK {
        let end = at + digit_count(n);
        write_digits_before(line, end, n);
        return end;
    }
    // Both are below 10^8.
    let digits = eight_digits(head as u32);
    let zeros = digits.trailing_zeros() / 8;
    let text = (digits | ASCII) >> (8 * zeros);
    line[at..at + 8].copy_from_slice(&text.to_le_bytes());
    let mut end = at + 8 - zeros as usize;
    if let Some(low) = low {
        line[end..end + 8].copy_from_slice(&(eight_digits(low as u32) | ASCII).to_le_bytes());
        end += 8;
    }
    end
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
            assert_eq!(parse_integer(n.to_string().as_bytes()), Some(n));
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
            assert_eq!(parse_integer(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let powers = (0..20).map(|exponent| 10u64.pow(exponent));
        for n in powers
            .flat_map(|p| [p - 1, p, p + 1, p / 10 * 9 + 1])
            .chain([u64::MAX, 42, 1727314860123])
            .chain((0..20_000).chain(99_990_000..100_010_000))
        {
            let mut line = [0; U64_DIGITS_MAX];
            let start = write_digits_before(&mut line, U64_DIGITS_MAX, n);
            assert_eq!(&line[start..], n.to_string().as_bytes());
            let mut line = [0; U64_DIGITS_MAX + 3 + OVERWRITTEN];
            let end = write_digits(&mut line, 3, n);
            assert_eq!(&line[3..end], n.to_string().as_bytes());
            assert_eq!(digit_count(n), n.to_string().len());
        }
    }
}
