//! Property 1 of SPEC section 2 and its table: the most that is admitted over any interval, by brute force over all
//! intervals of 10,000 sequences a policy, with clocks that step, debts and changing limits. Refunds are left out, as they
//! are explicit grants. An interval is measured by the latest reading that a bucket has been changed at so far, so that
//! stepping back wins no time.

mod model;

use model::Limit;
use model::cases::{Case, Domain, Step, run_cases};
use model::subject::{Bucket, Subject};
use num_bigint::BigInt;
use proptest::prop_assert;
use proptest::test_runner::TestCaseError;

/// What was admitted, and when.
struct Admitted {
    /// The latest reading so far at which the bucket was changed.
    at_us: u64,
    cost: u64,
    limit: Limit,
}

/// Walks through the sequence without its refunds.
fn admitted(subject: &Subject, case: &Case) -> Vec<Admitted> {
    let mut limit = case.limits[0];
    let mut now_us = case.start_us;
    let mut at_us = 0;
    let mut bucket = Bucket::new(limit);
    let (mut retry_after_us, mut full_at_us) = (0, now_us);
    let mut admitted = Vec::new();
    for step in &case.steps {
        let mut cost = 0;
        let before = bucket.clone();
        match *step {
            Step::Wait(wait) => {
                now_us = wait.after(&limit, now_us, retry_after_us, full_at_us);
            }
            Step::Check(amount) => {
                cost = amount.tokens(&limit);
                let answer = subject.check(&mut bucket, &limit, now_us, cost);
                (retry_after_us, full_at_us) = (answer.retry_after_us, answer.full_at_us);
                if !answer.allowed {
                    cost = 0;
                }
            }
            Step::Give(_) => {}
            Step::Take(amount) => subject.take(&mut bucket, &limit, now_us, amount.tokens(&limit)),
            Step::Resize(to) => {
                limit = case.limits[to % case.limits.len()];
                subject.resize(&mut bucket, &limit, now_us);
            }
        }
        if bucket != before && !bucket.is_empty() {
            at_us = at_us.max(now_us);
        }
        admitted.push(Admitted { at_us, cost, limit });
    }
    admitted
}

/// Calls `within` for all intervals that begin and end with an admission: first and last time, and the sum.
fn all_intervals(
    admitted: &[Admitted],
    mut within: impl FnMut(u64, u64, u128) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    for (i, first) in admitted.iter().enumerate().filter(|(_, at)| at.cost > 0) {
        let mut sum = 0;
        for last in admitted[i..].iter().filter(|at| at.cost > 0) {
            sum += u128::from(last.cost);
            within(first.at_us, last.at_us, sum)?;
        }
    }
    Ok(())
}

/// B + L·t/W, without fractions.
fn bucket_bound(policy: &str) {
    let subject = Subject::builtin(policy);
    run_cases(&Domain::of(policy).cases(1, 200), |case| {
        let Limit {
            limit,
            window_us,
            burst,
        } = case.limits[0];
        let [limit, window, burst] = [limit, window_us, burst].map(u128::from);
        all_intervals(&admitted(&subject, &case), |first, last, sum| {
            let bound = burst * window + limit * u128::from(last - first);
            prop_assert!(sum * window <= bound, "{} in {}..{}", sum, first, last);
            Ok(())
        })
    });
}

#[test]
fn property_1_token_bucket() {
    bucket_bound("token_bucket");
}

#[test]
fn property_1_leaky_bucket() {
    bucket_bound("leaky_bucket");
}

/// max B + ∫ L/W dt, in units of 1 / (the product of all windows) of a token: whole numbers.
fn changing_bound(policy: &str) {
    let subject = Subject::builtin(policy);
    run_cases(&Domain::of(policy).cases(4, 60), |case| {
        let windows = case.limits.iter().map(|limit| limit.window_us);
        let unit: BigInt = windows.map(BigInt::from).product();
        let mut gained = BigInt::from(0);
        let mut before: Option<(u64, Limit)> = None;
        let mut admissions = Vec::new();
        for step in admitted(&subject, &case) {
            if let Some((at_us, limit)) = before {
                // The limit in force since the step before.
                let passed = BigInt::from(step.at_us - at_us);
                gained += passed * limit.limit * (&unit / limit.window_us);
            }
            before = Some((step.at_us, step.limit));
            admissions.push((step, gained.clone()));
        }
        for (first, (from, gained_before)) in admissions.iter().enumerate() {
            if from.cost == 0 {
                continue;
            }
            let (mut sum, mut burst_max) = (0, 0);
            for (step, gained) in &admissions[first..] {
                burst_max = burst_max.max(u128::from(step.limit.burst));
                sum += u128::from(step.cost);
                if step.cost > 0 && sum > burst_max {
                    let over = &unit * (sum - burst_max);
                    prop_assert!(over <= gained - gained_before, "{} since {}", sum, first);
                }
            }
        }
        Ok(())
    });
}

#[test]
fn property_1_token_bucket_with_changing_limits() {
    changing_bound("token_bucket");
}

#[test]
fn property_1_leaky_bucket_with_changing_limits() {
    changing_bound("leaky_bucket");
}

/// `most` tokens in any interval shorter than a window.
fn window_bound(policy: &str, most: impl Fn(&Limit) -> u64) {
    let subject = Subject::builtin(policy);
    run_cases(&Domain::of(policy).cases(1, 200), |case| {
        let limit = case.limits[0];
        all_intervals(&admitted(&subject, &case), |first, last, sum| {
            if last - first < limit.window_us {
                prop_assert!(sum <= most(&limit).into(), "{} in {}..{}", sum, first, last);
            }
            Ok(())
        })
    });
}

#[test]
fn property_1_fixed_window_admits_2l_across_an_edge_at_most() {
    window_bound("fixed_window", |limit| 2 * limit.limit);
}

#[test]
fn property_1_sliding_window_admits_never_over_2l() {
    window_bound("sliding_window", |limit| 2 * limit.limit);
}

#[test]
fn property_1_sliding_log_admits_l_in_any_window_exactly() {
    window_bound("sliding_log", |limit| limit.limit);
}

/// L in one window: between the check that opens it and W later for the fixed one, between multiples of W for the sliding one.
#[test]
fn property_1_windows_admit_l_each() {
    let subject = Subject::builtin("sliding_window");
    run_cases(&Domain::of("sliding_window").cases(1, 200), |case| {
        let limit = case.limits[0];
        all_intervals(&admitted(&subject, &case), |first, last, sum| {
            if first / limit.window_us == last / limit.window_us {
                prop_assert!(sum <= limit.limit.into(), "{} in {}..{}", sum, first, last);
            }
            Ok(())
        })
    });
    let subject = Subject::builtin("fixed_window");
    run_cases(&Domain::of("fixed_window").cases(1, 200), |mut case| {
        // A debt would open a window, too.
        case.steps.retain(|step| !matches!(step, Step::Take(_)));
        let limit = case.limits[0];
        let mut opened_at = None;
        let mut sum = 0;
        for step in admitted(&subject, &case).iter().filter(|at| at.cost > 0) {
            if opened_at.is_none_or(|opened_at| step.at_us >= opened_at + limit.window_us) {
                (opened_at, sum) = (Some(step.at_us), 0);
            }
            sum += step.cost;
            prop_assert!(sum <= limit.limit, "{} since {:?}", sum, opened_at);
        }
        Ok(())
    });
}

/// The bounds are met, not just kept: each policy admits what its row of the table says.
#[test]
fn property_1_bounds_are_tight() {
    let window_us = 1_000_000;
    let at = |policy: &str, burst: u64, times: &[(u64, u64)]| -> u64 {
        let limit = Limit {
            limit: 100,
            window_us,
            burst,
        };
        let subject = Subject::builtin(policy);
        let mut bucket = Bucket::new(limit);
        let start = 1_700_000_000_000_000;
        let admit = |&(after_us, cost): &(u64, u64)| {
            let answer = subject.check(&mut bucket, &limit, start + after_us, cost);
            if answer.allowed { cost } else { 0 }
        };
        times.iter().map(admit).sum()
    };
    assert_eq!(at("token_bucket", 100, &[(0, 100), (window_us, 100)]), 200);
    assert_eq!(at("leaky_bucket", 1, &[(0, 1), (9_999, 1), (10_000, 1)]), 2);
    assert_eq!(at("fixed_window", 100, &[(0, 1), (999_999, 99), (window_us, 100)]), 200);
    let sliding = [(999_999, 100), (1_000_000, 1), (1_999_998, 99)];
    assert_eq!(at("sliding_window", 100, &sliding), 199);
    assert_eq!(at("sliding_log", 100, &[(0, 1), (999_999, 99), (window_us, 1)]), 101);
}
