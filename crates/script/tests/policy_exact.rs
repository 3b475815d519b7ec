//! Every policy against its exact model: 10,000 sequences of up to 200 steps each, equal in every answer. Checks, peeks,
//! costs above the burst, refunds, debts and changed limits, with clocks that step, over the whole range of SPEC 2.7.

mod model;

use model::Model;
use model::bucket::{LeakyBucket, TokenBucket};
use model::cases::{Case, Domain, Step, run_cases};
use model::log::SlidingLog;
use model::subject::{Bucket, Subject};
use model::window::{FixedWindow, SlidingWindow};
use proptest::prop_assert_eq;
use proptest::test_runner::TestCaseError;

fn same_as_model<M: Model>(subject: &Subject, case: &Case) -> Result<(), TestCaseError> {
    let mut limit = case.limits[0];
    let mut now_us = case.start_us;
    let mut model = M::new();
    let mut bucket = Bucket::new(limit);
    let (mut retry_after_us, mut full_at_us) = (0, now_us);
    for (i, step) in case.steps.iter().enumerate() {
        match *step {
            Step::Wait(wait) => now_us = wait.after(&limit, now_us, retry_after_us, full_at_us),
            Step::Check(amount) => {
                let cost = amount.tokens(&limit);
                let expected = model.answer(&limit, now_us, cost);
                let got = subject.check(&mut bucket, &limit, now_us, cost);
                prop_assert_eq!(got, expected, "step {}: {} at {} of {:?}", i, cost, now_us, bucket);
                retry_after_us = got.retry_after_us;
                full_at_us = got.full_at_us;
            }
            Step::Give(amount) => {
                let amount = amount.tokens(&limit);
                // A bucket that does not exist is full, and the host leaves it so.
                if !bucket.is_empty() {
                    model.give(&limit, now_us, amount);
                }
                subject.give(&mut bucket, &limit, now_us, amount);
            }
            Step::Take(amount) => {
                let amount = amount.tokens(&limit);
                model.take(&limit, now_us, amount);
                subject.take(&mut bucket, &limit, now_us, amount);
            }
            Step::Resize(to) => {
                let to = case.limits[to % case.limits.len()];
                if to != limit {
                    model.resize(&limit, &to, now_us);
                    // Half of them by the host's own doing, at the next operation.
                    if i % 2 == 0 {
                        subject.resize(&mut bucket, &to, now_us);
                    } else {
                        subject.check(&mut bucket, &to, now_us, 0);
                    }
                    limit = to;
                }
            }
        }
    }
    Ok(())
}

fn equals_its_model<M: Model>() {
    let subject = Subject::builtin(M::POLICY);
    let cases = Domain::of(M::POLICY).cases(4, 200);
    run_cases(&cases, |case| same_as_model::<M>(&subject, &case));
}

#[test]
fn token_bucket_equals_its_model() {
    equals_its_model::<TokenBucket>();
}

#[test]
fn leaky_bucket_equals_its_model() {
    equals_its_model::<LeakyBucket>();
}

#[test]
fn fixed_window_equals_its_model() {
    equals_its_model::<FixedWindow>();
}

#[test]
fn sliding_window_equals_its_model() {
    equals_its_model::<SlidingWindow>();
}

#[test]
fn sliding_log_equals_its_model() {
    equals_its_model::<SlidingLog>();
}
