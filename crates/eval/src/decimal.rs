//! Numbers from decimal text, as C's `strtod` reads them: to the nearest, a half to the even one.

/// Longest text that is read as a number without Luau, in bytes.
const NUMBER_BYTES_MAX: usize = 64;

/// A number in decimal notation; what else C takes as a number is `None`.
pub(crate) fn decimal(text: &[u8]) -> Option<f64> {
    if let Some(number) = plain(text) {
        return Some(number);
    }
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
    if text.len() > NUMBER_BYTES_MAX || !text.iter().all(is_part) {
        return None;
    }
    // It rounds to the nearest, too.
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Digits that 64 bits hold.
const DIGITS_MAX: usize = 19;

/// Whole numbers up to this are doubles.
const EXACT_MAX: u64 = 1 << f64::MANTISSA_DIGITS;

/// Powers of ten up to the last that is a double.
const POWERS: [f64; 20] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
];

/// A number without an exponent, of up to [`DIGITS_MAX`] digits: what scripts keep, for a third of what the standard library takes.
fn plain(text: &[u8]) -> Option<f64> {
    let (is_negative, text) = match text {
        [b'-', text @ ..] => (true, text),
        text => (false, text),
    };
    if text.len() > DIGITS_MAX + 1 {
        return None;
    }
    let mut digits = 0_u64;
    let mut point = None;
    for (at, &byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            // Of twenty digits the last may not fit, which is found below.
            digits = digits.wrapping_mul(10).wrapping_add(u64::from(digit));
        } else if byte == b'.' && point.is_none() {
            point = Some(at);
        } else {
            return None;
        }
    }
    let count = text.len() - usize::from(point.is_some());
    if !(1..=DIGITS_MAX).contains(&count) {
        return None;
    }
    let places = point.map_or(0, |point| text.len() - point - 1);
    let number = if digits <= EXACT_MAX {
        // Both are exact, so the quotient is what is nearest.
        digits as f64 / POWERS[places]
    } else {
        quotient(digits, 10_u64.pow(places as u32))
    };
    Some(if is_negative { -number } else { number })
}

/// The double that is nearest to a quotient of two numbers that are not 0.
fn quotient(dividend: u64, divisor: u64) -> f64 {
    // With their top bits set, their quotient is between a half and 2.
    let (up, down) = (divisor.leading_zeros(), dividend.leading_zeros());
    let (dividend, divisor) = (u128::from(dividend << down) << 63, u128::from(divisor << up));
    // So this has 63 or 64 bits, many more than the double. That it is not exact is one more bit, where it only matters for a half.
    let whole = dividend / divisor;
    let rest = u64::from(whole * divisor != dividend);
    let rounded = (whole as u64 | rest) as f64;
    // Powers of two from 2^-126 on: exact.
    let exponent = 1023 - 63 + i64::from(up) - i64::from(down);
    rounded * f64::from_bits((exponent as u64) << (f64::MANTISSA_DIGITS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::write_general;

    fn read(text: &str) -> Option<u64> {
        decimal(text.as_bytes()).map(f64::to_bits)
    }

    #[test]
    fn numbers_are_those_of_the_standard_library() {
        let mut random = 1_u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            random ^ random >> 29
        };
        for _ in 0..300_000 {
            let digits = next() >> (next() % 64);
            let places = (next() % 20) as usize;
            let mut text = format!("{digits:0width$}", width = places + 1);
            text.insert(text.len() - places, '.');
            for text in [&text[..], &format!("-{text}"), text.trim_end_matches('0')] {
                assert_eq!(read(text), text.parse().ok().map(f64::to_bits), "{text}");
            }
        }
        for _ in 0..300_000 {
            let value = (next() >> 11) as f64 / f64::from(1 << (next() % 31));
            let mut text = Vec::new();
            write_general(&mut text, value, 17);
            assert_eq!(decimal(&text).map(f64::to_bits), Some(value.to_bits()), "{value}");
        }
    }

    #[test]
    fn halves_are_rounded_to_even() {
        // 2^53 + 1 and 2^53 + 3, and the same with digits after the point.
        for text in [
            "9007199254740993",
            "9007199254740995",
            "9007199254740993.0",
            "9007199254740993.001",
            "900719925474099.25",
            "0.5000000000000000555",
            "18014398509481989",
            "1152921504606846976",
            "9999999999999999999",
            "0.9999999999999999999",
        ] {
            assert_eq!(read(text), text.parse().ok().map(f64::to_bits), "{text}");
        }
        assert_eq!(read("9007199254740993"), Some(9_007_199_254_740_992_f64.to_bits()));
        assert_eq!(read("9007199254740995"), Some(9_007_199_254_740_996_f64.to_bits()));
    }

    #[test]
    fn what_is_no_plain_number() {
        for text in [
            "", "-", ".", "-.", "1.2.3", "0x10", " 1", "1 ", "--1", "1e", "nan", "inf", "1_0",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in [
            "0",
            "-0",
            "5.",
            ".5",
            "-.5",
            "1e3",
            "+7",
            "1E-2",
            "123456789012345678901234567890",
            "0000000000000000000000001",
        ] {
            assert_eq!(read(text), text.parse().ok().map(f64::to_bits), "{text}");
        }
    }
}
