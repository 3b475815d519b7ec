//! A sequence, step by step, on one bucket of the policy under test.

use proptest::test_runner::TestCaseError;

use super::cases::{Case, Step};
use super::subject::{Bucket, Subject};
use super::{Answer, Limit};

/// What a property looks at after every step that asks or changes something.
#[derive(Debug)]
pub struct Seen<'a> {
    pub step: Step,
    /// The bucket before and after the step.
    pub before: &'a Bucket,
    pub after: &'a Bucket,
    pub limit: Limit,
    pub now_us: u64,
    /// Cost or amount.
    pub tokens: u64,
    /// Of a check.
    pub answer: Option<Answer>,
}

/// How a walk differs from the sequence.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// The clock never steps back.
    pub steady_clock: bool,
    /// A bucket that is full is dropped before the next step.
    pub drop_full: bool,
}

/// Walks through a sequence.
pub fn walk(
    subject: &Subject,
    case: &Case,
    manner: Manner,
    mut look: impl FnMut(&Seen<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut limit = case.limits[0];
    let mut now_us = case.start_us;
    let mut bucket = Bucket::new(limit);
    let (mut retry_after_us, mut full_at_us) = (0, now_us);
    for &step in &case.steps {
        let before = bucket.clone();
        let (mut tokens, mut answer) = (0, None);
        match step {
            Step::Wait(wait) => {
                let next = wait.after(&limit, now_us, retry_after_us, full_at_us);
                now_us = if manner.steady_clock { next.max(now_us) } else { next };
                if manner.drop_full && subject.full_at(&bucket) <= now_us {
                    bucket = Bucket::new(limit);
                }
                continue;
            }
            Step::Check(amount) => {
                tokens = amount.tokens(&limit);
                let got = subject.check(&mut bucket, &limit, now_us, tokens);
                (retry_after_us, full_at_us) = (got.retry_after_us, got.full_at_us);
                answer = Some(got);
            }
            Step::Give(amount) => {
                tokens = amount.tokens(&limit);
                subject.give(&mut bucket, &limit, now_us, tokens);
            }
            Step::Take(amount) => {
                tokens = amount.tokens(&limit);
                subject.take(&mut bucket, &limit, now_us, tokens);
            }
            Step::Resize(to) => {
                limit = case.limits[to % case.limits.len()];
                subject.resize(&mut bucket, &limit, now_us);
            }
        }
        look(&Seen {
            step,
            before: &before,
            after: &bucket,
            limit,
            now_us,
            tokens,
            answer,
        })?;
        if manner.drop_full && subject.full_at(&bucket) <= now_us {
            bucket = Bucket::new(limit);
        }
    }
    Ok(())
}
