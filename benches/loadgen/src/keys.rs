//! Keys: 20 bytes, of which the last 13 are a decimal number drawn from a distribution.

use std::sync::Arc;

/// Bytes of every key.
pub const KEY_BYTES: usize = 20;
const PREFIX: &[u8; 7] = b"bucket:";
const DIGITS: usize = KEY_BYTES - PREFIX.len();
/// Zipf draws are made ahead and repeated: this many.
const ZIPF_DRAWS: usize = 1 << 22;

/// How keys are drawn.
#[derive(Clone, Debug)]
pub enum Distribution {
    /// Every one of `from..from + count` is as likely.
    Uniform {
        /// The first key.
        from: u64,
        /// How many different keys.
        count: u64,
    },
    /// Key `k` of `0..n` has a probability proportional to 1/(k+1), the usual shape of popularity.
    Zipf(Arc<[u32]>),
    /// Every one of these is as likely.
    Listed(Arc<[u32]>),
    /// Always the same key.
    Single,
    /// `from, from+1, …`, and from the start again after `count`.
    Sequential {
        /// The first key.
        from: u64,
        /// How many different keys.
        count: u64,
    },
}

impl Distribution {
    /// Uniform over the first `count` keys.
    pub fn uniform(count: u64) -> Self {
        Self::Uniform { from: 0, count }
    }

    /// The first `count` keys in order, again and again.
    pub fn sequential(count: u64) -> Self {
        Self::Sequential { from: 0, count }
    }

    /// What a flag says: `uniform:N`, `zipf:N`, `sequential:N` or `single`.
    ///
    /// # Errors
    ///
    /// When it is none of these: which there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let count: u32 = count
            .parse()
            .ok()
            .filter(|&count| count > 0)
            .ok_or_else(|| format!("{count:?} is no number of keys"))?;
        match name {
            "uniform" => Ok(Self::uniform(count.into())),
            "zipf" => Ok(Self::zipf(count)),
            "sequential" => Ok(Self::sequential(count.into())),
            "single" => Ok(Self::Single),
            _ => Err("one of uniform:N, zipf:N, sequential:N, single".to_owned()),
        }
    }

    /// Zipf with exponent 1 over `n` keys.
    ///
    /// # Panics
    ///
    /// When `n` is zero.
    pub fn zipf(n: u32) -> Self {
        assert!(n > 0, "a distribution needs a key");
        let mut cumulative = Vec::with_capacity(n as usize);
        let mut sum = 0.0;
        for k in 1..=n {
            sum += 1.0 / f64::from(k);
            cumulative.push(sum);
        }
        let mut random = Random::new(0x5eed);
        let draws = (0..ZIPF_DRAWS)
            .map(|_| {
                let at = random.unit() * sum;
                let rank = cumulative.partition_point(|&c| c <= at);
                u32::try_from(rank).unwrap_or(n - 1).min(n - 1)
            })
            .collect();
        Self::Zipf(draws)
    }

    /// The generator of key numbers, reproducible from `seed`.
    pub fn draw(&self, seed: u64) -> Keys {
        let mut random = Random::new(seed);
        let next = match self {
            Self::Zipf(draws) => random.below(draws.len() as u64),
            _ => 0,
        };
        Keys {
            distribution: self.clone(),
            random,
            next,
        }
    }

    /// The words a report uses.
    pub fn describe(&self) -> String {
        match self {
            Self::Uniform { count, .. } => format!("uniform over {count}"),
            Self::Zipf(_) => "Zipf 1.0".to_owned(),
            Self::Listed(keys) => format!("uniform over {} of a list", keys.len()),
            Self::Single => "one key".to_owned(),
            Self::Sequential { count, .. } => format!("{count} in order"),
        }
    }
}

/// A stream of key numbers.
#[derive(Clone, Debug)]
pub struct Keys {
    distribution: Distribution,
    random: Random,
    next: u64,
}

impl Keys {
    /// The number of the next key.
    #[inline]
    pub fn next_number(&mut self) -> u64 {
        match &self.distribution {
            Distribution::Uniform { from, count } => from + self.random.below(*count),
            Distribution::Zipf(draws) => {
                let at = self.next as usize;
                self.next = if at + 1 == draws.len() { 0 } else { self.next + 1 };
                u64::from(draws[at])
            }
            Distribution::Listed(keys) => u64::from(keys[self.random.below(keys.len() as u64) as usize]),
            Distribution::Single => 0,
            Distribution::Sequential { from, count } => {
                let number = from + self.next;
                self.next = if self.next + 1 == *count { 0 } else { self.next + 1 };
                number
            }
        }
    }
}

/// The key with number zero; [`patch`] makes any other of it.
pub fn first_key() -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..PREFIX.len()].copy_from_slice(PREFIX);
    key
}

/// Writes `number` into a key that came from [`first_key`].
#[inline]
pub fn patch(key: &mut [u8], mut number: u64) {
    debug_assert_eq!(key.len(), KEY_BYTES);
    for digit in key[KEY_BYTES - DIGITS..].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// SplitMix64: small, fast and good enough to draw keys.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, by a wide multiplication.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_twenty_bytes_with_its_number_at_the_end() {
        let mut key = first_key();
        patch(&mut key, 1_234_567);
        assert_eq!(&key, b"bucket:0000001234567");
        patch(&mut key, 9);
        assert_eq!(&key, b"bucket:0000000000009");
    }

    #[test]
    fn zipf_draws_follow_one_over_rank() {
        let n = 1000;
        let mut keys = Distribution::zipf(n).draw(7);
        let mut seen = vec![0u32; n as usize];
        let draws = 2_000_000;
        for _ in 0..draws {
            seen[keys.next_number() as usize] += 1;
        }
        let harmonic: f64 = (1..=n).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [1u32, 2, 10, 100] {
            let expected = f64::from(draws) / (f64::from(rank) * harmonic);
            let got = f64::from(seen[rank as usize - 1]);
            // Five standard deviations of a Poisson count.
            assert!(
                (got - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {got} drawn, {expected} expected"
            );
        }
    }

    #[test]
    fn uniform_stays_in_range_and_reaches_every_key() {
        let mut keys = Distribution::uniform(50).draw(3);
        let mut seen = [false; 50];
        for _ in 0..5000 {
            seen[keys.next_number() as usize] = true;
        }
        assert!(seen.iter().all(|&s| s));
    }

    #[test]
    fn a_list_is_drawn_from_and_nothing_else() {
        let list = [7, 9, 1_000_000];
        let mut keys = Distribution::Listed(list.into()).draw(3);
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| keys.next_number()).collect();
        assert!(drawn.into_iter().eq(list.map(u64::from)));
    }

    #[test]
    fn flags_name_distributions() {
        assert_eq!(Distribution::parse("uniform:9").unwrap().describe(), "uniform over 9");
        assert_eq!(Distribution::parse("single").unwrap().describe(), "one key");
        assert!(Distribution::parse("uniform:0").is_err());
        assert!(Distribution::parse("normal:9").is_err());
    }

    #[test]
    fn sequential_wraps_after_its_count() {
        let mut keys = Distribution::Sequential { from: 5, count: 3 }.draw(0);
        let got: Vec<u64> = (0..5).map(|_| keys.next_number()).collect();
        assert_eq!(got, [5, 6, 7, 5, 6]);
    }
}
