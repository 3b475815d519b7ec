//! A histogram of durations with log-linear buckets: each power of two of nanoseconds in four equal parts, so that a bucket
//! is at most a quarter wider than it is long.

use super::counter::Counter;

/// The first bucket holds everything up to 2^10 ns, about a microsecond.
const FIRST_BITS: u32 = 10;
/// Powers of two above that; the last ends at 2^34 ns, about 17 s.
const OCTAVES: usize = 24;
/// Parts of a power of two.
const PARTS: usize = 4;
const PARTS_BITS: u32 = PARTS.trailing_zeros();
/// The first, those of the octaves, and the one without an end.
const BUCKETS: usize = 1 + OCTAVES * PARTS + 1;

/// Durations, written by one thread alone.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Counter::default()),
            sum_ns: Counter::default(),
        }
    }
}

impl Histogram {
    /// Counts `count` events that each took `duration_ns`.
    #[inline]
    pub fn record(&self, duration_ns: u64, count: u64) {
        // The index is below BUCKETS by construction.
        if let Some(bucket) = self.buckets.get(index_of(duration_ns)) {
            bucket.add(count);
        }
        self.sum_ns.add(duration_ns.wrapping_mul(count));
    }
}

/// The bucket of a duration; its upper bound is inclusive.
#[inline]
fn index_of(duration_ns: u64) -> usize {
    let below = duration_ns.saturating_sub(1);
    if below >> FIRST_BITS == 0 {
        return 0;
    }
    let octave = below.ilog2() - FIRST_BITS;
    let part = (below >> (octave + FIRST_BITS - PARTS_BITS)) as usize & (PARTS - 1);
    (1 + octave as usize * PARTS + part).min(BUCKETS - 1)
}

/// The upper bound of a bucket in nanoseconds; `None` for the last.
fn upper_bound_ns(index: usize) -> Option<u64> {
    let Some(part) = index.checked_sub(1) else {
        return Some(1 << FIRST_BITS);
    };
    let (octave, part) = (part / PARTS, part % PARTS);
    let start = 1u64 << (FIRST_BITS as usize + octave);
    (octave < OCTAVES).then(|| start + (start >> PARTS_BITS) * (part as u64 + 1))
}

/// The sum of several histograms at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl HistogramSnapshot {
    /// Adds histograms up.
    pub fn of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut snapshot = Self {
            counts: [0; BUCKETS],
            sum_ns: 0,
        };
        for histogram in histograms {
            for (sum, bucket) in snapshot.counts.iter_mut().zip(&histogram.buckets) {
                *sum = sum.wrapping_add(bucket.get());
            }
            snapshot.sum_ns = snapshot.sum_ns.wrapping_add(histogram.sum_ns.get());
        }
        snapshot
    }

    /// Events up to each upper bound, in nanoseconds; the last bound is `None` and its count is that of all events.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        self.counts.iter().enumerate().scan(0u64, |total, (index, count)| {
            *total = total.wrapping_add(*count);
            Some((upper_bound_ns(index), *total))
        })
    }

    /// The durations of all events together, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_bucket_whose_bounds_hold_it() {
        let mut durations: Vec<u64> = (0..40)
            .flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1])
            .collect();
        durations.extend([0, 1_279, 1_280, 1_281, 12_345, 999_999_937, u64::MAX]);
        for ns in durations {
            let index = index_of(ns);
            if let Some(upper) = upper_bound_ns(index) {
                assert!(ns <= upper, "{ns} above {upper}");
            }
            if let Some(lower) = index.checked_sub(1).and_then(upper_bound_ns) {
                assert!(ns > lower, "{ns} not above {lower}");
            }
        }
        assert_eq!(upper_bound_ns(BUCKETS - 2), Some(1 << 34));
        assert_eq!(upper_bound_ns(BUCKETS - 1), None);
    }

    #[test]
    fn bounds_grow_by_at_most_a_quarter() {
        let bounds: Vec<u64> = (0..BUCKETS).filter_map(upper_bound_ns).collect();
        for pair in bounds.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] * 4 <= pair[0] * 5, "{pair:?}");
        }
    }

    #[test]
    fn adds_up() {
        let (one, other) = (Histogram::default(), Histogram::default());
        one.record(1_000, 3);
        other.record(2_000, 2);
        other.record(u64::from(u32::MAX) * 8, 1);
        let snapshot = HistogramSnapshot::of([&one, &other].into_iter());
        assert_eq!(snapshot.cumulative().next(), Some((Some(1_024), 3)));
        assert_eq!(
            snapshot.cumulative().find(|(bound, _)| *bound >= Some(2_000)),
            Some((Some(2_048), 5))
        );
        assert_eq!(snapshot.cumulative().last(), Some((None, 6)));
        assert_eq!(snapshot.sum_ns(), 3_000 + 4_000 + u64::from(u32::MAX) * 8);
    }
}
