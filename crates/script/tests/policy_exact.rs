//! Every policy against its exact model: 10,000 sequences of up to 200 steps each, equal in every answer.

mod model;

use model::Model;
use model::bucket::{LeakyBucket, TokenBucket};
use model::cases::{Case, Domain, Step};
use model::log::SlidingLog;
use model::subject::Policy;
use model::window::{FixedWindow, SlidingWindow};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

fn same_as_model<M: Model>(policy: &Policy, case: &Case) -> Result<(), TestCaseError> {
    let mut limit = case.limits[0];
    let mut now_us = case.start_us;
    let mut model = M::new();
    let mut state = Vec::new();
    let (mut retry_after_us, mut full_at_us) = (0, now_us);
    for (i, step) in case.steps.iter().enumerate() {
        match *step {
            Step::Wait(wait) => now_us = wait.after(&limit, now_us, retry_after_us, full_at_us),
            Step::Check(amount) => {
                let cost = amount.tokens(&limit);
                let expected = model.answer(&limit, now_us, cost);
                let got = policy.check(&limit, now_us, cost, &mut state);
                proptest::prop_assert_eq!(
                    got,
                    expected,
                    "step {}: cost {} at {} under {:?}, {:?}",
                    i,
                    cost,
                    now_us,
                    limit,
                    state
                );
                retry_after_us = got.retry_after_us;
                full_at_us = got.full_at_us;
            }
            Step::Give(amount) => {
                let amount = amount.tokens(&limit);
                model.give(&limit, now_us, amount);
                policy.change("give", &limit, now_us, amount, &mut state);
            }
            Step::Take(amount) => {
                let amount = amount.tokens(&limit);
                model.take(&limit, now_us, amount);
                policy.change("take", &limit, now_us, amount, &mut state);
            }
            Step::Resize(to) => {
                let to = case.limits[to % case.limits.len()];
                if to != limit {
                    model.resize(&limit, &to, now_us);
                    policy.resize(&limit, &to, now_us, &mut state);
                    limit = to;
                }
            }
        }
    }
    Ok(())
}

fn run<M: Model>() {
    let policy = Policy::builtin(M::POLICY);
    let mut runner = TestRunner::new(Config {
        cases: 10_000,
        failure_persistence: None,
        ..Config::default()
    });
    let cases = Domain::of(M::POLICY).cases(4, 200);
    let result = runner.run(&cases, |case| same_as_model::<M>(&policy, &case));
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn token_bucket() {
    run::<TokenBucket>();
}

#[test]
fn leaky_bucket() {
    run::<LeakyBucket>();
}

#[test]
fn fixed_window() {
    run::<FixedWindow>();
}

#[test]
fn sliding_window() {
    run::<SlidingWindow>();
}

#[test]
fn sliding_log() {
    run::<SlidingLog>();
}
