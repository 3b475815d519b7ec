//! Numbers as C's `printf` writes them.

/// `%.{digits}g` of `value`, appended to `out`: at most 17 significant digits, no trailing zeros.
pub(crate) fn write_general(out: &mut Vec<u8>, value: f64, digits: usize) {
    if value.is_nan() {
        out.extend_from_slice(if value.is_sign_negative() { b"-nan" } else { b"nan" });
        return;
    }
    if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
        return;
    }
    // Whole numbers of at most that many digits are themselves; -0 keeps its sign.
    let magnitude = value.abs();
    if magnitude < WHOLE_MAX && magnitude < digits_end(digits) && value.fract() == 0.0 {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        return;
    }
    if (PLAIN_MIN..WHOLE_MAX).contains(&magnitude) && write_plain(out, value, digits) {
        return;
    }
    // Rust rounds `{:e}` exactly, as C does: d.ddd…e±x
    let text = format!("{:.*e}", digits - 1, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let significant: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let used = significant
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(1, |last| last + 1);
    let significant = &significant[..used];
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if exponent < -4 || exponent >= digits as i32 {
        write_point(out, significant, 1);
        out.extend_from_slice(format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(significant);
    } else {
        write_point(out, significant, exponent as usize + 1);
    }
}

/// Below this, whole numbers are exact and have at most fifteen digits.
const WHOLE_MAX: f64 = 1e15;
/// From this on, numbers are written without an exponent.
const PLAIN_MIN: f64 = 1e-4;

/// The first number that has more than so many digits before the point; of those above [`WHOLE_MAX`], that.
fn digits_end(digits: usize) -> f64 {
    const ENDS: [f64; 16] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
    ];
    ENDS[digits.min(ENDS.len() - 1)]
}

/// Powers of ten that `u128` numbers of 53 bits can be multiplied with.
const POWERS: [u128; 22] = {
    let mut powers = [1; 22];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// `%.{digits}g` of a number from [`PLAIN_MIN`] up to [`WHOLE_MAX`], for a tenth of what the standard library takes: scripts write
/// times in seconds, and tokens. Answers `false`, with nothing written, where it is not sure of every digit: where rounding carries
/// into another digit, and where the whole part alone has more digits than are wanted.
///
/// The number is `mantissa / 2^shift`, with 53 bits of mantissa and a shift of 3 to 66, so the digits after its point are those of
/// `fraction * 10^places / 2^shift`, which 128 bits hold.
fn write_plain(out: &mut Vec<u8>, value: f64, digits: usize) -> bool {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.to_bits();
    let exponent = (bits >> FRACTION_BITS) as u32 & 0x7ff;
    let mantissa = bits & ((1 << FRACTION_BITS) - 1) | 1 << FRACTION_BITS;
    let shift = 1023 + FRACTION_BITS - exponent;
    let (whole, fraction) = match shift {
        64.. => (0, mantissa),
        _ => (mantissa >> shift, mantissa & ((1 << shift) - 1)),
    };
    let mut whole_text = itoa::Buffer::new();
    let whole_text = whole_text.format(whole);
    let places = match whole {
        // Zeros after the point are no significant digits.
        0 => digits + leading_zeros(value.abs()),
        _ => digits.saturating_sub(whole_text.len()),
    };
    // Of a number below 1 the first significant digit comes after the point, and must not be a zero.
    let least = if whole == 0 { POWERS[digits.min(17) - 1] } else { 0 };
    let end = POWERS[places.min(digits).min(17)];
    let Some(power) = POWERS.get(places).filter(|_| places > 0) else {
        return false;
    };
    let product = u128::from(fraction) * power;
    let rest = product & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    let mut decimals = product >> shift;
    // Halves are rounded to even, as `printf` does.
    if rest > half || rest == half && decimals & 1 == 1 {
        decimals += 1;
    }
    if !(least..end).contains(&decimals) {
        return false;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    out.extend_from_slice(whole_text.as_bytes());
    // It is below 10^17.
    let (mut decimals, mut places) = (decimals as u64, places);
    if decimals == 0 {
        return true;
    }
    while decimals.is_multiple_of(10) {
        decimals /= 10;
        places -= 1;
    }
    let mut text = itoa::Buffer::new();
    let text = text.format(decimals).as_bytes();
    out.push(b'.');
    out.extend_from_slice(&b"00000000000000000000"[..places - text.len()]);
    out.extend_from_slice(text);
    true
}

/// Zeros between the point and the first digit of a number below 1, from [`PLAIN_MIN`] on.
fn leading_zeros(magnitude: f64) -> usize {
    match magnitude {
        0.1.. => 0,
        0.01.. => 1,
        0.001.. => 2,
        _ => 3,
    }
}

/// The digits with a point after the first `whole`, zeros where there are fewer.
fn write_point(out: &mut Vec<u8>, digits: &[u8], whole: usize) {
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

/// Truncated to an integer as x86 does it: what does not fit is the smallest.
pub(crate) fn truncate(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// Truncated to an unsigned integer as x86 does it: a negative number as the integer with the same bits, what is too large is 0.
pub(crate) fn truncate_unsigned(value: f64) -> u64 {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if value < 0.0 || value.is_nan() {
        truncate(value).cast_unsigned()
    } else if value < LIMIT {
        value as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_as_printf() {
        // From glibc's printf.
        let cases: &[(f64, usize, &str)] = &[
            (0.1, 17, "0.10000000000000001"),
            (3.0, 17, "3"),
            (-7.5, 17, "-7.5"),
            (1_752_345_678_901_234.0, 17, "1752345678901234"),
            (1.7523456789012347e18, 17, "1.7523456789012347e+18"),
            (1e17, 17, "1e+17"),
            (1e20, 17, "1e+20"),
            (123_456_789_012_345_680.0, 17, "1.2345678901234568e+17"),
            (12_345_678_901_234_568.0, 17, "12345678901234568"),
            (1e-5, 17, "1.0000000000000001e-05"),
            (0.0001, 17, "0.0001"),
            (1e15, 14, "1e+15"),
            (1e14, 14, "1e+14"),
            (99_999_999_999_999.0, 14, "99999999999999"),
            (999_999_999_999_999.0, 14, "1e+15"),
            (1_727_314_860_123_456.0, 14, "1.7273148601235e+15"),
            (-0.0, 14, "-0"),
            (5e-324, 17, "4.9406564584124654e-324"),
            (f64::NEG_INFINITY, 17, "-inf"),
        ];
        for &(value, digits, text) in cases {
            let mut out = Vec::new();
            write_general(&mut out, value, digits);
            assert_eq!(String::from_utf8_lossy(&out), text, "{value:e}");
        }
    }

    /// What the standard library makes of it.
    fn exactly(value: f64, digits: usize) -> String {
        let text = format!("{:.*e}", digits - 1, value.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap();
        let exponent: i32 = exponent.parse().unwrap();
        let significant = mantissa.replace('.', "");
        let plain = match exponent {
            ..0 => format!("0.{}{significant}", "0".repeat((-exponent - 1) as usize)),
            _ if significant.len() <= exponent as usize + 1 => {
                format!("{significant:0<width$}", width = exponent as usize + 1)
            }
            _ => {
                let (whole, decimals) = significant.split_at(exponent as usize + 1);
                format!("{whole}.{decimals}")
            }
        };
        let plain = match plain.contains('.') {
            true => plain.trim_end_matches('0').trim_end_matches('.'),
            false => &plain,
        };
        format!("{}{plain}", if value < 0.0 { "-" } else { "" })
    }

    #[test]
    fn plain_numbers_have_every_digit() {
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut sure = 0;
        for round in 0..400_000_u32 {
            let random = next();
            let value = match round % 8 {
                // Any number of the range, sums of times and tokens, halves, and the neighbours of round numbers.
                0 | 1 => f64::from_bits(random % (1e15_f64.to_bits() - 1e-4_f64.to_bits()) + 1e-4_f64.to_bits()),
                2 => 1_764_000_000.0 + (random % 1_000_000_000_000) as f64 / 1e6,
                3 => (random % 1_000_000) as f64 / 1e3,
                4 => (random % (1 << 40)) as f64 / f64::from(1_u32 << (random >> 59)),
                5 => 10_f64.powi((random % 19) as i32 - 4) * (1.0 + (random >> 62) as f64),
                6 => f64::from_bits(10_f64.powi((random % 18) as i32 - 3).to_bits() - 1 - (random >> 62)),
                _ => -((random >> 11) as f64) / (1_u64 << 53) as f64,
            };
            if !(PLAIN_MIN..WHOLE_MAX).contains(&value.abs()) || value.fract() == 0.0 {
                continue;
            }
            for digits in [17, 14, 6] {
                let mut out = Vec::new();
                if write_plain(&mut out, value, digits) {
                    sure += 1;
                    let text = String::from_utf8(out).unwrap();
                    assert_eq!(text, exactly(value, digits), "{value:e} {digits}");
                } else {
                    assert!(out.is_empty());
                }
            }
        }
        assert!(sure > 800_000, "{sure}");
    }

    #[test]
    fn truncates_as_x86() {
        assert_eq!(truncate(7.9), 7);
        assert_eq!(truncate(-7.9), -7);
        assert_eq!(truncate(1e30), i64::MIN);
        assert_eq!(truncate(f64::NAN), i64::MIN);
        assert_eq!(truncate(-9_223_372_036_854_775_808.0), i64::MIN);
        assert_eq!(truncate_unsigned(-2.5), u64::MAX - 1);
        assert_eq!(truncate_unsigned(1.5e19), 15_000_000_000_000_000_000);
        assert_eq!(truncate_unsigned(f64::INFINITY), 0);
        assert_eq!(truncate_unsigned(f64::NAN), 1 << 63);
    }
}
