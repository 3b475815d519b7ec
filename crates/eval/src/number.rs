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
    if value.fract() == 0.0
        && value.abs() < 10f64.powi(digits.min(15) as i32)
        && !(value == 0.0 && value.is_sign_negative())
    {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
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
