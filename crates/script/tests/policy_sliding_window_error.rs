//! How far sliding_window is from the exact log: the figures that lua/README.md states, measured and held.

mod model;

use model::Limit;
use model::subject::{Bucket, Subject};

const WINDOW_US: u64 = 1_000_000;
const START_US: u64 = 1_700_000_000_000_000;
const WINDOWS: u64 = 2_000;

/// Seeded numbers (SplitMix64); uniform in 0..1.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Debug)]
struct Error {
    /// Most admitted in any W, above L, as a share of L.
    over: f64,
    /// Admitted in all, against what the log admits of the same checks.
    total: f64,
    /// Share of the checks that the two decide differently.
    differ: f64,
}

/// The most tokens in any half-open interval of a window's length.
fn most_in_a_window(admitted: &[u64]) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (last, &at) in admitted.iter().enumerate() {
        while at - admitted[first] >= WINDOW_US {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

fn measure(limit: u64, times: &[u64]) -> Error {
    let limit = Limit {
        limit,
        window_us: WINDOW_US,
        burst: limit,
    };
    let decide = |policy| {
        let subject = Subject::builtin(policy);
        let mut bucket = Bucket::new(limit);
        let check = |&at: &u64| subject.check(&mut bucket, &limit, START_US + at, 1).allowed;
        times.iter().map(check).collect::<Vec<bool>>()
    };
    let [window, log] = ["sliding_window", "sliding_log"].map(decide);
    let admitted = |verdicts: &[bool]| -> Vec<u64> {
        let both = times.iter().zip(verdicts);
        both.filter(|(_, allowed)| **allowed).map(|(at, _)| *at).collect()
    };
    let (of_window, of_log) = (admitted(&window), admitted(&log));
    assert!(most_in_a_window(&of_log) <= limit.limit as usize, "the log is exact");
    let differ = window.iter().zip(&log).filter(|(a, b)| a != b).count();
    Error {
        over: most_in_a_window(&of_window) as f64 / limit.limit as f64 - 1.0,
        total: of_window.len() as f64 / of_log.len() as f64 - 1.0,
        differ: differ as f64 / times.len() as f64,
    }
}

/// Independent arrivals, `load` times the limit on average.
fn poisson(limit: u64, load: f64, seed: u64) -> Vec<u64> {
    let mut uniform = Uniform(seed);
    let mean_us = WINDOW_US as f64 / (limit as f64 * load);
    let mut at = 0.0;
    let mut times = Vec::new();
    while at < (WINDOWS * WINDOW_US) as f64 {
        at -= mean_us * (1.0 - uniform.next()).ln();
        times.push(at as u64);
    }
    times
}

/// All of a window's checks in a tenth of it, somewhere; `load` times the limit a window.
fn bursts(limit: u64, load: f64, seed: u64) -> Vec<u64> {
    let mut uniform = Uniform(seed);
    let mut times = Vec::new();
    for window in 0..WINDOWS {
        let start = window as f64 + 0.9 * uniform.next();
        for _ in 0..(limit as f64 * load) as u64 {
            times.push(((start + 0.1 * uniform.next()) * WINDOW_US as f64) as u64);
        }
    }
    times.sort_unstable();
    times
}

#[test]
fn error_against_the_exact_log() {
    type Arrivals = fn(u64, f64, u64) -> Vec<u64>;
    let kinds: [(&str, Arrivals); 2] = [("poisson", poisson), ("bursts", bursts)];
    println!("arrivals load  most in any W  admitted in all  decided otherwise  (L = 100)");
    for (name, arrivals) in kinds {
        for load in [0.8, 1.0, 1.2, 2.0, 10.0] {
            let Error { over, total, differ } = measure(100, &arrivals(100, load, 1));
            let [over, total, differ] = [over, total, differ].map(|share| share * 100.0);
            println!("{name:8} {load:4} {over:+13.1} % {total:+14.2} % {differ:15.2} %");
            assert!(over <= 100.0, "never over 2L");
            if name == "poisson" {
                assert!(over <= 25.0 && total.abs() <= 2.0, "as lua/README.md says");
            }
        }
    }
}

/// The worst case: all of a window's tokens at its end, then as many as the weight gives back.
#[test]
fn the_worst_case_is_just_below_2l() {
    let limit = 100;
    let mut times = vec![WINDOW_US - 1; 100];
    times.extend((WINDOW_US..2 * WINDOW_US - 1).step_by(100));
    let error = measure(limit, &times);
    println!("worst case: {:+.1} %", error.over * 100.0);
    assert!((0.9..1.0).contains(&error.over), "{error:?}");
}
