//! Numbers in text, as `strtold` of the C library reads them.

use super::{LongDouble, Size, large::Large};

/// Redis copies the text into a buffer of 5 KiB first, with a zero behind it.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Powers of ten that a number does not reach, and below which it is nearer to 0 than to the least.
const TENS_MAX: i32 = 4933;
const TENS_MIN: i32 = -4952;
/// Exponents in text count up to this, beyond what a text of digits makes up for.
const EXPONENT_TEXT_MAX: i32 = 1_000_000;

pub(super) fn parse(text: &[u8]) -> Option<LongDouble> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (negative, text) = match text {
        [b'-', text @ ..] => (true, text),
        [b'+', text @ ..] => (false, text),
        text => (false, text),
    };
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    let size = match text {
        _ if is("inf") || is("infinity") => Some(Size::Infinite),
        [b'0', b'x' | b'X', text @ ..] => hexadecimal(Parts::of(text, b'p', |byte| byte.is_ascii_hexdigit())?),
        text => decimal(Parts::of(text, b'e', |byte| byte.is_ascii_digit())?),
    };
    size.map(|size| LongDouble { negative, size })
}

/// A number in text: digits, perhaps with a point, and an exponent.
struct Parts<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i32,
}

impl<'a> Parts<'a> {
    fn of(text: &'a [u8], mark: u8, is_digit: impl Fn(u8) -> bool) -> Option<Self> {
        let end = text
            .iter()
            .position(|byte| byte.to_ascii_lowercase() == mark && !is_digit(*byte));
        let (digits, exponent) = match end {
            Some(end) => (&text[..end], exponent(&text[end + 1..])?),
            None => (text, 0),
        };
        let point = digits.iter().position(|&byte| byte == b'.');
        let (whole, fraction) = match point {
            Some(point) => (&digits[..point], &digits[point + 1..]),
            None => (digits, &digits[..0]),
        };
        let parts = Self {
            whole,
            fraction,
            exponent,
        };
        let mut every = parts.digits();
        (whole.len() + fraction.len() > 0 && every.all(is_digit)).then_some(parts)
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> + use<'a> {
        self.whole.iter().chain(self.fraction).copied()
    }

    /// The digits between zeros at both ends, and the place of the last.
    fn significant(&self) -> (impl Iterator<Item = u8> + use<'a>, i32, usize) {
        let before = self.digits().take_while(|&digit| digit == b'0').count();
        let all = self.whole.len() + self.fraction.len();
        let after = self.digits().rev().take_while(|&digit| digit == b'0').count();
        let count = all.saturating_sub(before + after);
        (
            self.digits().skip(before).take(count),
            after as i32 - self.fraction.len() as i32,
            count,
        )
    }
}

/// A sign and digits; no number beyond the largest that matters.
fn exponent(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0, |size, digit| {
        (size * 10 + i32::from(digit - b'0')).min(EXPONENT_TEXT_MAX)
    });
    Some(if negative { -size } else { size })
}

/// Nothing where `strtold` says that it is out of range and answers infinity or 0.
fn in_range(size: Size) -> Option<Size> {
    matches!(size, Size::Finite { .. }).then_some(size)
}

fn decimal(parts: Parts<'_>) -> Option<Size> {
    let (digits, place, count) = parts.significant();
    if count == 0 {
        return Some(Size::Zero);
    }
    let exponent = parts.exponent + place;
    let tens = exponent + count as i32;
    if !(TENS_MIN..=TENS_MAX).contains(&tens) {
        return None;
    }
    let mut number = Large::from_digits(digits);
    let (number, twos, inexact) = if exponent >= 0 {
        number.multiply_by_fives(exponent.unsigned_abs());
        number.top()
    } else {
        let mut divisor = Large::from(1);
        divisor.multiply_by_fives(exponent.unsigned_abs());
        number.divide(divisor)
    };
    in_range(Size::nearest(number, twos + exponent, inexact))
}

fn hexadecimal(parts: Parts<'_>) -> Option<Size> {
    let (digits, place, count) = parts.significant();
    if count == 0 {
        return Some(Size::Zero);
    }
    let (mut number, mut exponent, mut inexact) = (0_u128, parts.exponent + 4 * place, false);
    exponent += 4 * (count as i32 - 1);
    let mut first = true;
    for digit in digits {
        // A digit, as its parts were checked.
        let value = (digit as char).to_digit(16).unwrap_or(0);
        if number >> (u128::BITS - 4) == 0 {
            number = number << 4 | u128::from(value);
            exponent -= if first { 0 } else { 4 };
            first = false;
        } else {
            inexact |= value != 0;
        }
    }
    in_range(Size::nearest(number, exponent, inexact))
}
