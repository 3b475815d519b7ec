//! The numbers of INCRBYFLOAT and HINCRBYFLOAT: C's `long double` as x86-64 has it, 64 bits of mantissa and 15 of exponent.
//!
//! Redis reads them with `strtold`, adds them, and writes them with `%.17Lf` less the zeros at the end, so 0.1 + 0.2 is 0.3. Neither
//! `f64` nor another platform's `long double` gives these digits, so this is done in integers here, and exactly as there. The crate
//! that has this format, rustc_apfloat, could add; it can neither write `%.17Lf` nor read all that `strtold` does, so that
//! the large integers below would be needed beside it.

mod large;
mod parse;

use large::Large;
use std::io::Write as _;

/// Bits of a mantissa.
const MANTISSA_BITS: u32 = 64;
/// The exponents of a mantissa's lowest bit.
const EXPONENT_MIN: i32 = -16_445;
const EXPONENT_MAX: i32 = 16_320;
/// Digits after the point that are written, and their number as an integer.
const FRACTION_DIGITS: usize = 17;
const FRACTION: u64 = 10_u64.pow(FRACTION_DIGITS as u32);

/// A number of that format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    size: Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Zero,
    /// `mantissa × 2^exponent`, and `mantissa` is not 0. Its highest bit is 1 unless the exponent is the least.
    Finite {
        mantissa: u64,
        exponent: i32,
    },
    Infinite,
}

impl Size {
    /// The number of the format that is next to `number × 2^exponent`, and a little more where `inexact`; of two the one whose mantissa
    /// is even. What is inexact has more than 64 bits.
    fn nearest(number: u128, exponent: i32, inexact: bool) -> Size {
        if number == 0 {
            debug_assert!(!inexact);
            return Size::Zero;
        }
        let bits = u128::BITS - number.leading_zeros();
        let surplus = (bits as i32 - MANTISSA_BITS as i32).max(EXPONENT_MIN - exponent);
        debug_assert!(!inexact || surplus > 0);
        if surplus <= 0 {
            let shift = surplus.unsigned_abs();
            return Size::of(number << shift, exponent - shift as i32);
        }
        let surplus = surplus as u32;
        if surplus > u128::BITS {
            return Size::Zero;
        }
        let kept = number.checked_shr(surplus).unwrap_or(0);
        let half = 1_u128 << (surplus - 1);
        let rest = number & (half | (half - 1));
        let up = rest > half || (rest == half && (inexact || kept & 1 == 1));
        Size::of(kept + u128::from(up), exponent + surplus as i32)
    }

    /// At most 2^64, which carries.
    fn of(mantissa: u128, exponent: i32) -> Size {
        let (mantissa, exponent) = match u64::try_from(mantissa) {
            Ok(mantissa) => (mantissa, exponent),
            Err(_) => ((mantissa >> 1) as u64, exponent + 1),
        };
        match mantissa {
            0 => Size::Zero,
            _ if exponent > EXPONENT_MAX => Size::Infinite,
            _ => Size::Finite { mantissa, exponent },
        }
    }
}

impl From<i64> for LongDouble {
    fn from(value: i64) -> Self {
        Self {
            negative: value < 0,
            size: Size::nearest(u128::from(value.unsigned_abs()), 0, false),
        }
    }
}

impl LongDouble {
    /// The number of a text, as Redis's `string2ld`: what `strtold` reads in the C locale, decimal or hexadecimal or infinite, without a
    /// blank in front. Nothing where it is too large, or so small that it would be 0, and nothing for NaN.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        parse::parse(text)
    }

    /// Whether it is not infinite.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.size != Size::Infinite
    }

    /// The sum, rounded to nearest, unless that is infinite or not a number.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let sum = match (self.size, other.size) {
            (Size::Infinite, _) | (_, Size::Infinite) => return None,
            (Size::Zero, Size::Zero) => Self {
                negative: self.negative && other.negative,
                size: Size::Zero,
            },
            (Size::Zero, _) => other,
            (_, Size::Zero) => self,
            (a, b) => Self::add_finite((self.negative, a), (other.negative, b)),
        };
        sum.is_finite().then_some(sum)
    }

    fn add_finite(a: (bool, Size), b: (bool, Size)) -> Self {
        /// Bits between a mantissa and the lowest of the sum: below the highest, which a carry takes.
        const BELOW: u32 = u128::BITS - MANTISSA_BITS - 1;
        let (a, b) = (Normal::of(a), Normal::of(b));
        let (more, less) = if (a.exponent, a.mantissa) >= (b.exponent, b.mantissa) {
            (a, b)
        } else {
            (b, a)
        };
        let apart = more.exponent.abs_diff(less.exponent);
        let large = u128::from(more.mantissa) << BELOW;
        let small = u128::from(less.mantissa) << BELOW;
        let shifted = small.checked_shr(apart).unwrap_or(0);
        // What falls off stays as the lowest bit, far below where the sum is rounded: an odd number is never halfway.
        let lost = shifted.checked_shl(apart) != Some(small) && apart > 0;
        let shifted = shifted | u128::from(lost);
        let sum = if more.negative == less.negative {
            large + shifted
        } else {
            large - shifted
        };
        Self {
            negative: more.negative && sum != 0,
            size: Size::nearest(sum, more.exponent - BELOW as i32, false),
        }
    }

    /// The number as Redis stores and answers it (`LD_STR_HUMAN`): in full, with up to 17 digits after the point, half to even, and
    /// without zeros at the end. The largest has 4932 digits.
    #[must_use]
    pub fn to_text(self) -> Vec<u8> {
        let (whole, fraction) = match self.size {
            Size::Zero => (b"0".to_vec(), 0),
            Size::Infinite => (b"inf".to_vec(), 0),
            Size::Finite { mantissa, exponent } => match u32::try_from(exponent) {
                Ok(exponent) => (whole_text(mantissa, exponent), 0),
                Err(_) => {
                    let (whole, fraction) = split(mantissa, exponent.unsigned_abs());
                    (whole.to_string().into_bytes(), fraction)
                }
            },
        };
        let mut text = Vec::with_capacity(whole.len() + FRACTION_DIGITS + 2);
        if self.negative && (whole != b"0" || fraction > 0) {
            text.push(b'-');
        }
        text.extend_from_slice(&whole);
        if fraction > 0 {
            // A vector takes all that is written.
            let _ = write!(text, ".{fraction:0FRACTION_DIGITS$}");
            while text.last() == Some(&b'0') {
                text.pop();
            }
        }
        text
    }
}

/// The digits of `mantissa × 2^exponent`.
fn whole_text(mantissa: u64, exponent: u32) -> Vec<u8> {
    if exponent <= u128::BITS - MANTISSA_BITS {
        return (u128::from(mantissa) << exponent).to_string().into_bytes();
    }
    let mut number = Large::from(mantissa);
    number.shift_left(exponent);
    number.into_decimal()
}

/// `mantissa / 2^places` as a whole number and units of the last digit that is written, rounded half to even.
fn split(mantissa: u64, places: u32) -> (u64, u64) {
    let whole = mantissa.checked_shr(places).unwrap_or(0);
    let rest = mantissa - whole.checked_shl(places).unwrap_or(0);
    // Below 2^64 × 10^17, which is below 2^121.
    let scaled = u128::from(rest) * u128::from(FRACTION);
    if places >= u128::BITS {
        // Below a half.
        return (whole, 0);
    }
    let fraction = (scaled >> places) as u64;
    let rest = scaled & ((1 << places) - 1);
    let half = 1_u128 << (places - 1);
    let up = rest > half || (rest == half && fraction & 1 == 1);
    match fraction + u64::from(up) {
        FRACTION => (whole + 1, 0),
        fraction => (whole, fraction),
    }
}

/// A finite number whose mantissa's highest bit is 1, whatever its exponent.
struct Normal {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

impl Normal {
    fn of((negative, size): (bool, Size)) -> Self {
        let (mantissa, exponent) = match size {
            Size::Finite { mantissa, exponent } => (mantissa, exponent),
            Size::Zero | Size::Infinite => unreachable!("the caller has asked"),
        };
        let shift = mantissa.leading_zeros();
        Self {
            negative,
            mantissa: mantissa << shift,
            exponent: exponent - shift as i32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(number: LongDouble) -> String {
        String::from_utf8(number.to_text()).unwrap()
    }

    fn sum(a: &str, b: &str) -> Result<String, &'static str> {
        let [a, b] = [a, b].map(|text| LongDouble::parse(text.as_bytes()).ok_or("no number"));
        a?.checked_add(b?).map(text).ok_or("too large")
    }

    /// As redis-server 7.0.15 answers SET and INCRBYFLOAT on x86-64.
    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("5.0e3", "200", "5200"),
            ("9007199254740993", "0.5", "9007199254740993.5"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551615", "2", "18446744073709551616"),
            ("123456789.123456789", "0.000000001", "123456789.12345678999554366"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("3.0e20", "0.1", "300000000000000000000"),
            ("1e17", "1e-17", "100000000000000000"),
            ("1e-17", "-1e-17", "0"),
            ("0.000000000000000005", "0", "0"),
            ("0.000000000000000015", "0", "0.00000000000000002"),
            ("-0", "-0", "0"),
            ("-0.000000000000000001", "0", "0"),
            ("123.456", "-123.456", "0"),
            ("0x1.8p3", "0x.8", "12.5"),
            ("0x1.8p-16446", "0", "0"),
            ("1e-4950", "0", "0"),
            ("1.", ".5", "1.5"),
        ] {
            assert_eq!(sum(a, b), Ok(expected.into()), "{a} + {b}");
        }
        let most = "1.18973149535723176502e+4932";
        let digits = sum(most, "0").unwrap();
        assert!(digits.starts_with("118973149535723176502126385303097020516906332229462420044032"));
        assert_eq!(digits.len(), 4933);
        for (a, b) in [(most, most), ("inf", "1"), ("-Infinity", "inf")] {
            assert_eq!(sum(a, b), Err("too large"), "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number_to_redis_is_none() {
        for bad in [
            "",
            ".",
            " 1",
            "1 ",
            "1e",
            "1e+",
            "e5",
            "+-1",
            "nan",
            "-nan(1)",
            "in",
            "0x",
            "0x.",
            "0x1p",
            "1.2.3",
            "1_0",
            "0b1",
            "1e4933",
            "1e-4952",
            "0x1p16384",
            "0x1p-16446",
            "1e99999999999",
        ] {
            assert_eq!(LongDouble::parse(bad.as_bytes()), None, "{bad}");
        }
        assert!(LongDouble::parse("1".repeat(4932).as_bytes()).is_some());
        let long = format!("1.{}", "0".repeat(5118));
        assert!(LongDouble::parse(&long.as_bytes()[..5119]).is_some());
        assert!(LongDouble::parse(long.as_bytes()).is_none());
    }

    #[test]
    fn the_number_next_to_a_text_is_found_half_to_even() {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).unwrap();
        // 2^64 + 1 is halfway to 2^64 + 2; the slightest bit more is not.
        assert_eq!(parse("18446744073709551617"), parse("18446744073709551616"));
        assert_eq!(parse("18446744073709551619"), parse("18446744073709551620"));
        let above = format!("18446744073709551617.{}1", "0".repeat(4000));
        assert_eq!(parse(&above), parse("18446744073709551618"));
        assert_eq!(parse("0x10000000000000001"), parse("0x10000000000000000"));
        let above = format!("0x10000000000000001.{}1", "0".repeat(100));
        assert_eq!(parse(&above), parse("0x10000000000000002"));
        // A carry through all bits, and numbers of fewer bits than others.
        assert_eq!(parse("0xffffffffffffffff8"), parse("0x100000000000000000"));
        assert_eq!(parse("0x1.8p-16445"), parse("0x1p-16444"));
        assert_eq!(parse("0x.fp-16445"), parse("0x1p-16445"));
    }

    proptest! {
        #[test]
        fn decimal_and_hexadecimal_agree(mantissa in 1..=u64::MAX, exponent in -300..300_i32) {
            let exact = LongDouble::parse(format!("0x{mantissa:x}p{exponent}").as_bytes());
            let mut number = Large::from(mantissa);
            let text = if exponent >= 0 {
                number.shift_left(exponent.unsigned_abs());
                String::from_utf8(number.into_decimal()).unwrap()
            } else {
                // m / 2^n = m × 5^n / 10^n
                number.multiply_by_fives(exponent.unsigned_abs());
                format!("{}e{exponent}", String::from_utf8(number.into_decimal()).unwrap())
            };
            prop_assert_eq!(LongDouble::parse(text.as_bytes()), exact);
        }

        #[test]
        fn sums_of_integers_are_exact(a: i64, b: i64) {
            let sum = LongDouble::from(a).checked_add(LongDouble::from(b)).unwrap();
            prop_assert_eq!(text(sum), (i128::from(a) + i128::from(b)).to_string());
            prop_assert_eq!(LongDouble::from(a), LongDouble::parse(a.to_string().as_bytes()).unwrap());
        }

        #[test]
        fn what_has_few_digits_is_written_as_it_was_read(whole in 0..64_u32, fraction in 0..1_000_000_000_u64) {
            let number = format!("{whole}.{fraction:09}1");
            prop_assert_eq!(text(LongDouble::parse(number.as_bytes()).unwrap()), number);
        }
    }
}
