//! Floating point numbers in arguments, read as Redis reads them: with C's `strtod`.

use tollgate_protocol::parse_integer;

/// A number that the whole text is, as Redis's `string2d`: no blank before it, no NaN, neither too large nor too small for a
/// double.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let (value, in_range) = read(text)?;
    (in_range && !value.is_nan()).then_some(value)
}

/// A bound of a range of scores, which Redis reads less strictly: blanks may come before it, nothing is 0, what is too large is
/// infinite, and a zero byte ends it.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
    let start = text.iter().position(|byte| !is_blank(byte))?;
    let (value, _) = read(&text[start..])?;
    (!value.is_nan()).then_some(value)
}

/// The number, and whether a double can be about as large and as small.
fn read(text: &[u8]) -> Option<(f64, bool)> {
    if let Some(integer) = parse_integer(text) {
        // To the nearest double, as if it had been read digit by digit.
        return Some((integer as f64, true));
    }
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (magnitude, digits) = match unsigned {
        [b'0', b'x' | b'X', hexadecimal @ ..] => (read_hexadecimal(hexadecimal)?, hexadecimal),
        // A second sign would be read as part of the number.
        [b'-' | b'+', ..] => return None,
        decimal => (std::str::from_utf8(decimal).ok()?.parse::<f64>().ok()?, decimal),
    };
    let is_exponent = |byte: &u8| matches!(byte, b'p' | b'P') || matches!(byte, b'e' | b'E') && digits == unsigned;
    let mantissa = digits.split(is_exponent).next().unwrap_or_default();
    let in_range = match magnitude {
        0.0 => mantissa.iter().all(|byte| matches!(byte, b'0' | b'.')),
        f64::INFINITY => unsigned[0].is_ascii_alphabetic(),
        _ => true,
    };
    Some((if negative { -magnitude } else { magnitude }, in_range))
}

/// `h.hhhp±d`: digits of base 16, and an exponent of 2.
fn read_hexadecimal(text: &[u8]) -> Option<f64> {
    let mut parts = text.splitn(2, |byte| matches!(byte, b'p' | b'P'));
    let mantissa = parts.next()?;
    let mut exponent = match parts.next() {
        Some(digits) => read_exponent(digits)?,
        None => 0,
    };
    let (mut bits, mut digits, mut after_point) = (0_u64, 0, false);
    for &byte in mantissa {
        if byte == b'.' && !after_point {
            after_point = true;
            continue;
        }
        let digit = char::from(byte).to_digit(16)?;
        digits += 1;
        if bits >> 60 == 0 {
            bits = bits << 4 | u64::from(digit);
            exponent -= if after_point { 4 } else { 0 };
        } else {
            // Beyond what decides about rounding, but for whether there is anything.
            bits |= u64::from(digit != 0);
            exponent += if after_point { 0 } else { 4 };
        }
    }
    if digits == 0 {
        return None;
    }
    if bits == 0 {
        return Some(0.0);
    }
    // In two factors, since 2 to the exponent alone may be out of range where the product is not.
    let half = (exponent / 2).clamp(-2000, 2000) as i32;
    let other = (exponent - exponent / 2).clamp(-2000, 2000) as i32;
    Some(bits as f64 * 2_f64.powi(half) * 2_f64.powi(other))
}

fn read_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
            .min(1 << 40)
    });
    Some(if negative { -value } else { value })
}

/// A number, not NaN, with up to 17 digits, as C's `%.17g`.
pub(crate) fn format_17_digits(value: f64) -> String {
    const DIGITS: i32 = 17;
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{:.*e}", DIGITS as usize - 1, value);
    // There is always an exponent.
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| -> String {
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        }
    };
    if (-4..DIGITS).contains(&exponent) {
        return without_zeros(&format!("{:.*}", (DIGITS - 1 - exponent) as usize, value));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(text: &str) -> Option<f64> {
        parse_double(text.as_bytes())
    }

    fn bound(text: &str) -> Option<f64> {
        parse_bound(text.as_bytes())
    }

    #[test]
    fn numbers_that_strtod_reads() {
        for (text, value) in [
            ("0", 0.0),
            ("1", 1.0),
            ("-1", -1.0),
            ("+7", 7.0),
            ("007", 7.0),
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("1e+3", 1000.0),
            ("1727314860123456", 1_727_314_860_123_456.0),
            ("1727314860123456789", 1_727_314_860_123_456_768.0),
            ("9223372036854775807", 9_223_372_036_854_775_807.0),
            ("18446744073709551616", 18_446_744_073_709_551_616.0),
            ("inf", f64::INFINITY),
            ("+Inf", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
            ("0x10", 16.0),
            ("-0x1.8p1", -3.0),
            ("0X.8", 0.5),
            ("0x1p-1074", 5e-324),
            ("0x1fffffffffffff8", 144_115_188_075_855_864.0),
            ("4.9e-324", 5e-324),
            ("1.7976931348623157e308", f64::MAX),
        ] {
            assert_eq!(double(text), Some(value), "{text}");
            assert_eq!(bound(text), Some(value), "{text}");
        }
        assert!(double("-0").is_some_and(|zero| zero == 0.0 && zero.is_sign_negative()));
        assert_eq!(double("0e99999"), Some(0.0));
        assert_eq!(double("0x0p9999"), Some(0.0));
        assert_eq!(double("0.000e-999"), Some(0.0));
    }

    #[test]
    fn what_is_no_number() {
        for text in [
            "a", "1a", "1 ", "--1", "+-1", "1e", "1e+", ".", "-", "e5", "0x", "0x.", "0xg", "0x1p", "1_0", "nan",
            "-NaN", "nan(1)", "infin", "1,5",
        ] {
            assert_eq!(double(text), None, "{text}");
            assert_eq!(bound(text), None, "{text}");
        }
        // Where scores and bounds differ.
        for (text, value) in [
            ("", 0.0),
            (" 1", 1.0),
            ("\t\n\u{b}2", 2.0),
            ("1e999", f64::INFINITY),
            ("-1e999", f64::NEG_INFINITY),
            ("1e-999", 0.0),
            ("0x1p9999", f64::INFINITY),
            ("5\0more", 5.0),
        ] {
            assert_eq!(double(text), None, "{text}");
            assert_eq!(bound(text), Some(value), "{text}");
        }
        assert_eq!(bound(" "), None);
    }

    #[test]
    fn seventeen_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.1, "1.1000000000000001"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1_727_314_860_123_456.0, "1727314860123456"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_17_digits(value), text);
        }
    }
}
