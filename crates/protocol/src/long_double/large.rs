//! Whole numbers of any size, as far as reading and writing numbers needs them.

/// A whole number that is not negative, its lowest 64 bits first and without zeros at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Large(Vec<u64>);

/// The largest power of ten of 64 bits.
const DECIMAL_CHUNK_DIGITS: usize = 19;
const DECIMAL_CHUNK: u64 = 10_u64.pow(DECIMAL_CHUNK_DIGITS as u32);
/// The largest power of five of 64 bits.
const FIVES_AT_ONCE: u32 = 27;

impl From<u64> for Large {
    fn from(number: u64) -> Self {
        let mut large = Large(vec![number]);
        large.trim();
        large
    }
}

impl Large {
    /// The number of some digits. O(digits²).
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Self {
        let mut large = Large(Vec::new());
        let (mut chunk, mut scale) = (0, 1);
        for digit in digits {
            chunk = chunk * 10 + u64::from(digit - b'0');
            scale *= 10;
            if scale == DECIMAL_CHUNK {
                large.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        large.multiply_add(scale, chunk);
        large
    }

    /// How many bits it has.
    pub(super) fn bits(&self) -> u32 {
        match self.0.last() {
            Some(top) => self.0.len() as u32 * u64::BITS - top.leading_zeros(),
            None => 0,
        }
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply_add(&mut self, factor: u64, summand: u64) {
        let mut carry = summand;
        for word in &mut self.0 {
            // At most (2^64 - 1)² + 2^64 - 1, which 128 bits hold.
            let product = u128::from(*word) * u128::from(factor) + u128::from(carry);
            *word = product as u64;
            carry = (product >> u64::BITS) as u64;
        }
        if carry > 0 {
            self.0.push(carry);
        }
        self.trim();
    }

    /// Multiplies by `5^count`. O(count × (size + count)).
    pub(super) fn multiply_by_fives(&mut self, count: u32) {
        for _ in 0..count / FIVES_AT_ONCE {
            self.multiply_add(5_u64.pow(FIVES_AT_ONCE), 0);
        }
        self.multiply_add(5_u64.pow(count % FIVES_AT_ONCE), 0);
    }

    /// Multiplies by `2^count`.
    pub(super) fn shift_left(&mut self, count: u32) {
        let (words, bits) = ((count / u64::BITS) as usize, count % u64::BITS);
        if bits > 0 {
            self.multiply_add(1 << bits, 0);
        }
        if !self.0.is_empty() {
            self.0.splice(0..0, std::iter::repeat_n(0, words));
        }
    }

    /// Its highest bits, up to 128, the exponent of their lowest, and whether any bit below is 1.
    pub(super) fn top(&self) -> (u128, i32, bool) {
        let below = self.bits().saturating_sub(u128::BITS);
        let (words, bits) = ((below / u64::BITS) as usize, below % u64::BITS);
        let word = |at: usize| u128::from(self.0.get(words + at).copied().unwrap_or(0));
        let low = (word(0) | word(1) << u64::BITS) >> bits;
        let high = word(2).checked_shl(u128::BITS - bits).unwrap_or(0);
        let cut_off = self.0[..words].iter().any(|&word| word != 0) || word(0) & ((1 << bits) - 1) != 0;
        (low | high, below as i32, cut_off)
    }

    fn is_at_least(&self, other: &Large) -> bool {
        let by_words = self.0.len().cmp(&other.0.len());
        by_words
            .then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
            .is_ge()
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Large) {
        let mut borrow = false;
        let others = other.0.iter().copied().chain(std::iter::repeat(0));
        for (word, other) in self.0.iter_mut().zip(others) {
            let (less, first) = word.overflowing_sub(other);
            let (less, second) = less.overflowing_sub(u64::from(borrow));
            *word = less;
            borrow = first || second;
        }
        debug_assert!(!borrow);
        self.trim();
    }

    /// `self / divisor`, neither of them 0, as a number of more than 64 bits, the exponent of its lowest, and whether there is a
    /// remainder. O(67 × size).
    pub(super) fn divide(mut self, mut divisor: Large) -> (u128, i32, bool) {
        /// Bits of the quotient, the first of which may be 0.
        const BITS: i32 = 67;
        let exponent = self.bits() as i32 - divisor.bits() as i32;
        self.shift_left(exponent.min(0).unsigned_abs());
        divisor.shift_left(exponent.max(0).unsigned_abs());
        // Of as many bits as the divisor now, it is more than half and less than twice as large.
        let mut quotient = 0;
        for _ in 0..BITS {
            quotient <<= 1;
            if self.is_at_least(&divisor) {
                self.subtract(&divisor);
                quotient |= 1;
            }
            self.multiply_add(2, 0);
        }
        (quotient, exponent - (BITS - 1), !self.0.is_empty())
    }

    /// Its digits. O(size²).
    pub(super) fn into_decimal(mut self) -> Vec<u8> {
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            let mut rest = 0;
            for word in self.0.iter_mut().rev() {
                let number = rest << u64::BITS | u128::from(*word);
                *word = (number / u128::from(DECIMAL_CHUNK)) as u64;
                rest = number % u128::from(DECIMAL_CHUNK);
            }
            chunks.push(rest as u64);
            self.trim();
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:0DECIMAL_CHUNK_DIGITS$}"));
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn large(number: u128) -> Large {
        Large::from_digits(number.to_string().bytes())
    }

    #[test]
    fn what_is_read_is_written() {
        for len in [1, 18, 19, 20, 38, 57, 400] {
            let digits: Vec<u8> = (0..len).map(|at| b'1' + (at * 7 % 9) as u8).collect();
            assert_eq!(Large::from_digits(digits.iter().copied()).into_decimal(), digits);
        }
        assert_eq!(Large::from(0).into_decimal(), b"0");
    }

    proptest! {
        #[test]
        fn agrees_with_numbers_of_128_bits(a in 1..=u128::MAX, b in 1..=u128::MAX, fives in 0..20_u32, shift in 0..80_u32) {
            prop_assert_eq!(large(a).bits(), u128::BITS - a.leading_zeros());
            prop_assert_eq!(large(a).top(), (a, 0, false));
            if let Some(product) = a.checked_mul(5_u128.pow(fives)) {
                let mut number = large(a);
                number.multiply_by_fives(fives);
                prop_assert_eq!(number, large(product));
            }
            let mut number = large(a);
            number.shift_left(shift);
            let bits = number.bits();
            let (top, exponent, cut_off) = number.top();
            prop_assert_eq!(exponent as u32, bits.saturating_sub(u128::BITS));
            prop_assert_eq!(top, if exponent > shift as i32 { a >> (exponent as u32 - shift) } else { a << (shift - exponent as u32) });
            prop_assert_eq!(cut_off, false);
            let (more, less) = (a.max(b), a.min(b));
            let mut difference = large(more);
            difference.subtract(&large(less));
            prop_assert_eq!(difference, large(more - less));
            prop_assert_eq!(large(a).is_at_least(&large(b)), a >= b);
        }

        #[test]
        fn a_quotient_times_its_divisor_is_the_number(a in 1..=u128::MAX, b in 1..=u64::MAX) {
            let (quotient, exponent, inexact) = large(a).divide(Large::from(b));
            // quotient × 2^exponent <= a / b < (quotient + 1) × 2^exponent
            let scaled = |factor: u128| {
                let mut product = Large::from_digits(factor.to_string().bytes());
                product.multiply_add(b, 0);
                product.shift_left(exponent.max(0) as u32);
                product
            };
            let mut number = large(a);
            number.shift_left(exponent.min(0).unsigned_abs());
            prop_assert!(number.is_at_least(&scaled(quotient)));
            prop_assert!(!number.is_at_least(&scaled(quotient + 1)));
            prop_assert_eq!(inexact, number != scaled(quotient));
            prop_assert!(quotient >> 65 > 0);
        }
    }
}
