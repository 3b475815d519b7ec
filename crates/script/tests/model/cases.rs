//! Sequences of steps: every kind of limit, clock and amount that the specification names.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::{END_OF_TIME_US, Limit};

/// 1 ms and 366 d, the shortest and the longest window.
pub const WINDOW_US: [u64; 2] = [1_000, 366 * 86_400_000_000];
/// The largest limit, burst and cost.
pub const TOKENS_MAX: u64 = 1_000_000_000_000;

/// Sequences a property is tested with in a run.
pub const CASES: u32 = 10_000;

/// Tests a property with [`CASES`] sequences. The seed is printed and can be given again as `TOLLGATE_TEST_SEED`; a
/// sequence that fails is shrunk to a short one.
pub fn run_cases<S: Strategy>(cases: &S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seed = match std::env::var("TOLLGATE_TEST_SEED") {
        Ok(seed) => seed.parse().expect("TOLLGATE_TEST_SEED is a whole number"),
        Err(_) => rand_seed(),
    };
    println!("TOLLGATE_TEST_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(cases, property) {
        panic!("TOLLGATE_TEST_SEED={seed}: {error}");
    }
}

/// A new seed each run: the keys of the standard library's maps are random.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// A sequence on one bucket.
#[derive(Debug, Clone)]
pub struct Case {
    /// The first one is in force at the start; a resize goes to another.
    pub limits: Vec<Limit>,
    /// The first reading of the clock.
    pub start_us: u64,
    pub steps: Vec<Step>,
}

/// One step. Amounts and times are relative to the limit in force, so that they mean something for each.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    Check(Amount),
    Wait(Wait),
    Give(Amount),
    Take(Amount),
    Resize(usize),
}

/// Tokens.
#[derive(Debug, Clone, Copy)]
pub enum Amount {
    Tokens(u64),
    /// In thousandths of the burst.
    OfBurst(u64),
    /// So many above the burst.
    AboveBurst(u64),
}

impl Amount {
    pub fn tokens(self, limit: &Limit) -> u64 {
        match self {
            Amount::Tokens(tokens) => tokens,
            Amount::OfBurst(thousandths) => (u128::from(limit.burst) * u128::from(thousandths) / 1000) as u64,
            Amount::AboveBurst(tokens) => (limit.burst + tokens).min(TOKENS_MAX),
        }
    }
}

/// How the clock moves.
#[derive(Debug, Clone, Copy)]
pub enum Wait {
    Microseconds(i64),
    /// In thousandths of the window; negative: the clock steps back.
    OfWindow(i64),
    /// The time for so many tokens, and some microseconds more or less.
    ForTokens(u64, i64),
    /// What the last check said, and some microseconds more or less.
    RetryAfter(i64),
    /// To the moment that the last check gave for full, and some microseconds more or less.
    UntilFull(i64),
}

impl Wait {
    /// The clock after it, given the last `retry_after` and `full_at`.
    pub fn after(self, limit: &Limit, now_us: u64, retry_after_us: i64, full_at_us: u64) -> u64 {
        let window = i128::from(limit.window_us);
        let by = match self {
            Wait::Microseconds(us) => i128::from(us),
            Wait::OfWindow(thousandths) => window * i128::from(thousandths) / 1000,
            Wait::ForTokens(tokens, us) => {
                (i128::from(tokens) * window).div_ceil_unsigned(limit.limit) + i128::from(us)
            }
            Wait::RetryAfter(us) => i128::from(retry_after_us) + i128::from(us),
            Wait::UntilFull(us) => i128::from(full_at_us) - i128::from(now_us) + i128::from(us),
        };
        (i128::from(now_us) + by).clamp(0, i128::from(END_OF_TIME_US - 1)) as u64
    }
}

trait DivCeil {
    fn div_ceil_unsigned(self, by: u64) -> i128;
}

impl DivCeil for i128 {
    fn div_ceil_unsigned(self, by: u64) -> i128 {
        (self + i128::from(by) - 1) / i128::from(by)
    }
}

/// What limits a policy takes.
#[derive(Debug, Clone, Copy)]
pub struct Domain {
    pub limit_max: u64,
    /// The burst may differ from the limit.
    pub burst: bool,
}

impl Domain {
    pub fn of(policy: &str) -> Self {
        Self {
            limit_max: if policy == "sliding_log" { 10_000 } else { TOKENS_MAX },
            burst: matches!(policy, "token_bucket" | "leaky_bucket"),
        }
    }

    fn tokens(self) -> impl Strategy<Value = u64> + Clone {
        let max = self.limit_max;
        // The model of the log takes a step for every token.
        let large = if max <= 10_000 { 1 } else { 6 };
        prop_oneof![
            60 => 1..=10_u64,
            40 => 1..=100_u64,
            10 => Just(1),
            large => 100..=10_000_u64,
            large => 1..=max,
            large => Just(max),
        ]
    }

    /// Any limit, everyday and extreme ones.
    pub fn limits(self) -> impl Strategy<Value = Limit> + Clone {
        let windows = prop_oneof![
            4 => prop_oneof![Just(1_u64), Just(10), Just(60), Just(3_600), Just(86_400)].prop_map(|s| s * 1_000_000),
            4 => WINDOW_US[0]..=100_000_u64,
            1 => WINDOW_US[0]..=WINDOW_US[1],
            1 => Just(WINDOW_US[0]),
            1 => Just(WINDOW_US[1]),
        ];
        (self.tokens(), windows, self.tokens(), any::<bool>()).prop_map(move |(limit, window_us, burst, own)| Limit {
            limit,
            window_us,
            burst: if self.burst && own { burst } else { limit },
        })
    }

    /// Sequences of up to `steps` steps, under up to `limits` limits in turn.
    pub fn cases(self, limits: usize, steps: usize) -> impl Strategy<Value = Case> {
        let start = prop_oneof![
            6 => 1_700_000_000_000_000..1_900_000_000_000_000_u64,
            1 => 0..1_000_000_000_u64,
            1 => (END_OF_TIME_US - 100_000_000)..END_OF_TIME_US,
            1 => 0..END_OF_TIME_US,
        ];
        (vec(self.limits(), 1..=limits), start, vec(step(limits), 1..=steps)).prop_map(|(limits, start_us, steps)| {
            Case {
                limits,
                start_us,
                steps,
            }
        })
    }
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        8 => Just(Amount::Tokens(1)),
        4 => (0..=5_u64).prop_map(Amount::Tokens),
        4 => (0..=1000_u64).prop_map(Amount::OfBurst),
        1 => Just(Amount::OfBurst(1000)),
        1 => (1..=3_u64).prop_map(Amount::AboveBurst),
        1 => (0..=TOKENS_MAX).prop_map(Amount::Tokens),
    ]
}

fn clock() -> impl Strategy<Value = Wait> {
    let near = -1..=1_i64;
    prop_oneof![
        2 => (0..=3_i64).prop_map(Wait::Microseconds),
        2 => (0..=1100_i64).prop_map(Wait::OfWindow),
        1 => (0..=20_000_i64).prop_map(Wait::OfWindow),
        3 => (0..=5_u64, near.clone()).prop_map(|(tokens, us)| Wait::ForTokens(tokens, us)),
        4 => near.clone().prop_map(Wait::RetryAfter),
        2 => near.prop_map(Wait::UntilFull),
        1 => (-3..=0_i64).prop_map(Wait::Microseconds),
        1 => (-1500..=0_i64).prop_map(Wait::OfWindow),
    ]
}

fn step(limits: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => amount().prop_map(Step::Check),
        8 => clock().prop_map(Step::Wait),
        1 => amount().prop_map(Step::Give),
        1 => amount().prop_map(Step::Take),
        1 => (0..limits).prop_map(Step::Resize),
    ]
}
