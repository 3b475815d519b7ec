//! The worked example of lua/README.md, as an operator would use it: a directory with the file, the policy by its name.

#![allow(clippy::unwrap_used)]

mod model;

use std::path::Path;

use model::cases::{Domain, run_cases};
use model::subject::{Bucket, Subject};
use model::walk::{Manner, walk};
use model::{Answer, END_OF_TIME_US, Limit};
use proptest::prop_assert;
use tollgate_script::load_dir;

const START_US: u64 = 1_700_000_000_000_000;
const SECOND_US: u64 = 1_000_000;
/// 5 a minute.
const LIMIT: Limit = Limit {
    limit: 5,
    window_us: 60 * SECOND_US,
    burst: 5,
};

fn penalty_box() -> Subject {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua/examples");
    let sources = load_dir(&dir).unwrap();
    let source = sources.iter().find(|source| source.name == "penalty_box");
    Subject::of(source.unwrap())
}

fn denied(remaining: u64, wait_seconds: u64, full_in_seconds: u64, now_us: u64) -> Answer {
    Answer {
        allowed: false,
        remaining,
        retry_after_us: (wait_seconds * SECOND_US) as i64,
        full_at_us: now_us + full_in_seconds * SECOND_US,
    }
}

#[test]
fn a_denied_check_shuts_it_for_a_window() {
    let subject = penalty_box();
    let mut bucket = Bucket::new(LIMIT);
    for left in (0..5).rev() {
        let answer = subject.check(&mut bucket, &LIMIT, START_US, 1);
        assert_eq!((answer.allowed, answer.remaining), (true, left));
    }
    // Within the limit there is no penalty: one token is back after 12 s.
    let now = START_US + 12 * SECOND_US;
    assert!(subject.check(&mut bucket, &LIMIT, now, 1).allowed);
    // Denied: shut for a minute, though the next token would be there in 12 s.
    let answer = subject.check(&mut bucket, &LIMIT, now, 1);
    assert_eq!(answer, denied(0, 60, 60, now));
    // Trying again neither helps nor prolongs it.
    let now = now + 59 * SECOND_US;
    let answer = subject.check(&mut bucket, &LIMIT, now, 1);
    assert_eq!(answer, denied(0, 1, 1, now));
    // A refund does not lift it.
    subject.give(&mut bucket, &LIMIT, now, 3);
    assert_eq!(subject.look(&bucket, &LIMIT, now, 1), denied(0, 1, 1, now));
    let now = now + SECOND_US;
    let answer = subject.check(&mut bucket, &LIMIT, now, 5);
    assert_eq!((answer.allowed, answer.remaining), (true, 0));
}

#[test]
fn peeks_and_impossible_costs_start_no_penalty() {
    let subject = penalty_box();
    let mut bucket = Bucket::new(LIMIT);
    subject.check(&mut bucket, &LIMIT, START_US, 4);
    let before = bucket.clone();
    assert!(subject.check(&mut bucket, &LIMIT, START_US, 0).allowed);
    let never = subject.check(&mut bucket, &LIMIT, START_US, 6);
    assert_eq!((never.allowed, never.retry_after_us), (false, -1));
    assert_eq!(bucket, before);
    assert!(subject.check(&mut bucket, &LIMIT, START_US, 1).allowed);
}

#[test]
fn limits_beyond_its_exact_range_are_an_error_and_change_nothing() {
    let subject = penalty_box();
    let limit = Limit {
        limit: 999_999_999_989,
        window_us: 366 * 86_400 * SECOND_US,
        burst: 999_999_999_989,
    };
    let mut bucket = Bucket::new(limit);
    let fault = subject.try_check(&mut bucket, &limit, START_US, 1);
    assert!(fault.unwrap_err().to_string().contains("too large"));
    assert!(bucket.is_empty());
}

/// Whether the policy takes the limit: a full bucket is at most 2^52 of its units.
fn is_exact(limit: &Limit) -> bool {
    let (mut a, mut b) = (limit.limit, limit.window_us);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    u128::from(limit.burst) * u128::from(limit.window_us / a) <= 1 << 52
}

/// A penalty makes it deny more than a token bucket; waiting `retry_after` is enough all the same.
#[test]
fn waiting_retry_after_admits() {
    let subject = penalty_box();
    let domain = Domain {
        limit_max: 10_000,
        burst: true,
    };
    run_cases(&domain.cases(1, 60), |case| {
        if !case.limits.iter().all(is_exact) {
            return Ok(());
        }
        walk(&subject, &case, Manner::default(), |seen| {
            if let Some(answer) = seen.answer
                && answer.retry_after_us > 0
            {
                prop_assert!(answer.remaining < seen.tokens);
                let ready_at = seen.now_us + answer.retry_after_us as u64;
                if ready_at < END_OF_TIME_US {
                    let after = subject.look(seen.after, &seen.limit, ready_at, seen.tokens);
                    prop_assert!(after.allowed, "denied after the wait: {:?}", after);
                    // Beyond the end of time neighbouring microseconds are one number.
                    let sooner = subject.look(seen.after, &seen.limit, ready_at - 1, seen.tokens);
                    prop_assert!(!sooner.allowed);
                }
            }
            Ok(())
        })
    });
}
