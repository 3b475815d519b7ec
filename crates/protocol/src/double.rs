//! Floating point numbers in text, as Redis 7.2 writes them in replies.

use std::io::Write as _;

/// Longest text of [`format_double`]: sign, 17 digits, point, exponent of 5, or 6 zeros in front.
const TEXT_BYTES_MAX: usize = 40;

/// A number's text, without the heap.
#[derive(Debug, Clone)]
pub struct DoubleText {
    bytes: [u8; TEXT_BYTES_MAX],
    len: usize,
}

impl DoubleText {
    fn new() -> Self {
        Self {
            bytes: [0; TEXT_BYTES_MAX],
            len: 0,
        }
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    fn push_zeros(&mut self, count: usize) {
        self.bytes[self.len..self.len + count].fill(b'0');
        self.len += count;
    }

    fn push_display(&mut self, value: impl std::fmt::Display) {
        let mut free = &mut self.bytes[self.len..];
        let before = free.len();
        // Every text that is pushed fits: see `TEXT_BYTES_MAX`.
        let written = write!(free, "{value}");
        debug_assert!(written.is_ok());
        self.len += before - free.len();
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The shortest text that reads back as `value`: whole numbers up to 2^62 in full, else decimal or scientific as Redis's `d2string`
/// (`fpconv_dtoa`) chooses. `inf`, `-inf` and `nan` for what is not finite.
#[must_use]
pub fn format_double(value: f64) -> DoubleText {
    /// Redis writes a whole number as an integer up to `LLONG_MAX / 2`, which as a double is 2^62.
    const WHOLE_MAX: f64 = (1_u64 << 62) as f64;

    let mut text = DoubleText::new();
    if value.is_nan() {
        text.push(b"nan");
    } else if value.is_infinite() {
        text.push(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value == 0.0 {
        text.push(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if value.abs() <= WHOLE_MAX && value.trunc() == value {
        text.push_display(value as i64);
    } else {
        push_shortest(&mut text, value);
    }
    text
}

/// `value` is finite and not zero.
fn push_shortest(text: &mut DoubleText, value: f64) {
    let mut scientific = DoubleText::new();
    scientific.push_display(format_args!("{:e}", value.abs()));
    let (digits, digit_count, exponent) = split_scientific(scientific.as_bytes());
    let digits = &digits[..digit_count];
    // value = digits × 10^scale, the digits read as an integer.
    let scale = exponent - (digit_count as i32 - 1);

    if value < 0.0 {
        text.push(b"-");
    }
    if scale >= 0 && exponent < digit_count as i32 + 7 {
        text.push(digits);
        text.push_zeros(scale as usize);
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        let whole_digits = exponent + 1;
        if whole_digits <= 0 {
            text.push(b"0.");
            text.push_zeros(whole_digits.unsigned_abs() as usize);
            text.push(digits);
        } else {
            let (whole, fraction) = digits.split_at(whole_digits as usize);
            text.push(whole);
            text.push(b".");
            text.push(fraction);
        }
    } else {
        let (first, others) = digits.split_at(1);
        text.push(first);
        if !others.is_empty() {
            text.push(b".");
            text.push(others);
        }
        text.push(if exponent < 0 { b"e-" } else { b"e+" });
        text.push_display(exponent.unsigned_abs());
    }
}

/// Takes `d.ddde-x`, Rust's shortest scientific notation, apart: the digits, how many, and the exponent of the first.
fn split_scientific(text: &[u8]) -> ([u8; 17], usize, i32) {
    let mut digits = [0; 17];
    let mut digit_count = 0;
    let mut exponent = 0;
    let mut exponent_negative = false;
    let mut in_exponent = false;
    for byte in text {
        match byte {
            b'e' => in_exponent = true,
            b'-' => exponent_negative = true,
            b'.' => {}
            digit if in_exponent => exponent = exponent * 10 + i32::from(digit - b'0'),
            digit => {
                digits[digit_count] = *digit;
                digit_count += 1;
            }
        }
    }
    let exponent = if exponent_negative { -exponent } else { exponent };
    (digits, digit_count, exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        String::from_utf8(format_double(value).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn chooses_the_notation_that_redis_chooses() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (3.5, "3.5"),
            (0.1, "0.1"),
            (-2.25, "-2.25"),
            (1.0 / 3.0, "0.3333333333333333"),
            (100.0 / 3.0, "33.333333333333336"),
            (0.000_123, "0.000123"),
            (0.000_012_3, "1.23e-5"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (1e10, "10000000000"),
            (1e15, "1000000000000000"),
            (4_611_686_018_427_387_904.0, "4611686018427387904"),
            (1e19, "1e+19"),
            (1.234_567_890_123e19, "12345678901230000000"),
            (1.234_567_890_12e19, "1.23456789012e+19"),
            (1_234.567_890_12, "1234.56789012"),
            (12_345.678_901_2, "1.23456789012e+4"),
            (12_345.678_901, "12345.678901"),
            (1.2345e30, "1.2345e+30"),
            (1e100, "1e+100"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (-2.225_073_858_507_201_4e-308, "-2.2250738585072014e-308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), expected, "{value:e}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_as_the_same_number(bits: u64) {
            let value = f64::from_bits(bits);
            let back: f64 = text(value).parse().unwrap();
            prop_assert!(back.to_bits() == value.to_bits() || value.is_nan() && back.is_nan());
        }

        #[test]
        fn numbers_of_everyday_size_read_back(value in -1e7..1e7f64, places in 0..6i32) {
            let unit = 10f64.powi(places);
            let value = (value * unit).round() / unit;
            let back: f64 = text(value).parse().unwrap();
            prop_assert_eq!(back.to_bits(), value.to_bits());
        }
    }
}
