//! The properties of SPEC section 2 that hold for all five policies, by number, with 10,000 sequences a policy each.
//! Property 1 is in policy_bounds.rs; 7 in policy_exact.rs, where every answer equals the exact model's.

mod model;

use model::cases::{Domain, run_cases};
use model::subject::{Bucket, Subject};
use model::walk::{Manner, Seen, walk};
use model::{Answer, END_OF_TIME_US};
use proptest::{prop_assert, prop_assert_eq};

each_policy!(
    property_2_time_never_runs_backwards,
    property_4_waiting_retry_after_admits_and_no_less_does,
    property_4_full_at_is_when_the_bucket_is_full_and_no_sooner,
    property_5_answers_are_within_bounds_and_denials_consume_nothing,
    property_6_peeks_and_impossible_costs_change_nothing,
    property_8_a_changed_limit_keeps_what_was_used,
    property_9_a_dropped_full_bucket_acts_like_a_kept_one,
);

/// Steps a sequence here: the properties ask several questions after each of them.
const STEPS: usize = 60;

fn each_check(
    policy: &str,
    look: impl Fn(&Subject, &Seen<'_>, u64, Answer) -> Result<(), proptest::test_runner::TestCaseError>,
) {
    let subject = Subject::builtin(policy);
    let cases = Domain::of(policy).cases(3, STEPS);
    run_cases(&cases, |case| {
        walk(&subject, &case, Manner::default(), |seen| match seen.answer {
            Some(answer) => look(&subject, seen, seen.tokens, answer),
            None => Ok(()),
        })
    });
}

/// An older reading counts as the time of the last change: the same answer, ready and full at the same times.
fn property_2_time_never_runs_backwards(policy: &str) {
    let subject = Subject::builtin(policy);
    let cases = Domain::of(policy).cases(3, STEPS);
    run_cases(&cases, |case| {
        let mut changed_at = 0;
        walk(&subject, &case, Manner::default(), |seen| {
            if seen.after.is_empty() || seen.before.is_empty() {
                changed_at = seen.now_us;
            } else if seen.after != seen.before {
                changed_at = changed_at.max(seen.now_us);
            }
            if seen.after.is_empty() {
                return Ok(());
            }
            if policy == "fixed_window" {
                // The only time that it knows is when its window was opened.
                changed_at = seen.after.numbers[1].max(0.0) as u64;
            }
            let full_at = subject.full_at(seen.after);
            for older in [changed_at.saturating_sub(1), changed_at / 2, 0] {
                for cost in [0, 1, seen.limit.burst.div_ceil(2), seen.limit.burst] {
                    let then = subject.look(seen.after, &seen.limit, changed_at, cost);
                    let got = subject.look(seen.after, &seen.limit, older, cost);
                    prop_assert_eq!((got.allowed, got.remaining), (then.allowed, then.remaining));
                    if got.retry_after_us > 0 {
                        prop_assert_eq!(
                            older as i64 + got.retry_after_us,
                            changed_at as i64 + then.retry_after_us
                        );
                    }
                    if cost == 0 {
                        prop_assert_eq!(got.full_at_us, full_at.max(older));
                    }
                }
            }
            Ok(())
        })
    });
}

fn property_4_waiting_retry_after_admits_and_no_less_does(policy: &str) {
    each_check(policy, |subject, seen, cost, answer| {
        if answer.allowed || answer.retry_after_us < 0 {
            return Ok(());
        }
        prop_assert!(answer.retry_after_us >= 1);
        let ready_at = seen.now_us + answer.retry_after_us as u64;
        if ready_at < END_OF_TIME_US {
            let after = subject.look(seen.after, &seen.limit, ready_at, cost);
            prop_assert!(after.allowed, "denied after the wait: {:?}", after);
        }
        let sooner = subject.look(seen.after, &seen.limit, ready_at - 1, cost);
        prop_assert!(!sooner.allowed, "admitted 1 us sooner: {:?}", sooner);
        Ok(())
    });
}

fn property_4_full_at_is_when_the_bucket_is_full_and_no_sooner(policy: &str) {
    each_check(policy, |subject, seen, _, answer| {
        let (limit, full_at) = (&seen.limit, answer.full_at_us);
        if full_at < END_OF_TIME_US {
            let then = subject.look(seen.after, limit, full_at, limit.burst);
            prop_assert!(then.allowed, "not full: {:?}", then);
        }
        // One that is full already, as of a reading later than this one, is not dropped before that reading.
        let full_now = subject.look(seen.after, limit, seen.now_us, 0).remaining == limit.burst;
        if full_at > seen.now_us && !full_now {
            let sooner = subject.look(seen.after, limit, full_at - 1, limit.burst);
            prop_assert!(!sooner.allowed, "full 1 us sooner: {:?}", sooner);
        }
        Ok(())
    });
}

fn property_5_answers_are_within_bounds_and_denials_consume_nothing(policy: &str) {
    each_check(policy, |subject, seen, cost, answer| {
        prop_assert!(answer.remaining <= seen.limit.burst);
        if answer.allowed {
            prop_assert_eq!(answer.retry_after_us, 0);
            return Ok(());
        }
        prop_assert!(answer.remaining < cost);
        prop_assert_eq!(seen.after, seen.before);
        let rest = subject.look(seen.after, &seen.limit, seen.now_us, answer.remaining);
        prop_assert!(rest.allowed, "what remains is admitted: {:?}", rest);
        Ok(())
    });
}

fn property_6_peeks_and_impossible_costs_change_nothing(policy: &str) {
    each_check(policy, |subject, seen, cost, answer| {
        let (limit, now) = (&seen.limit, seen.now_us);
        let mut bucket = seen.after.clone();
        let peek = subject.check(&mut bucket, limit, now, 0);
        prop_assert!(peek.allowed);
        prop_assert_eq!((peek.remaining, peek.full_at_us), (answer.remaining, answer.full_at_us));
        for impossible in [limit.burst + 1, model::cases::TOKENS_MAX] {
            if impossible > limit.burst {
                let never = subject.check(&mut bucket, limit, now, impossible);
                let expected = Answer {
                    allowed: false,
                    retry_after_us: -1,
                    ..peek
                };
                prop_assert_eq!(never, expected);
            }
        }
        prop_assert_eq!(&bucket, seen.after);
        prop_assert_eq!(answer.retry_after_us == -1, cost > limit.burst);
        Ok(())
    });
}

fn property_8_a_changed_limit_keeps_what_was_used(policy: &str) {
    let subject = Subject::builtin(policy);
    let cases = Domain::of(policy).cases(3, STEPS);
    run_cases(&cases, |case| {
        walk(&subject, &case, Manner::default(), |seen| {
            for new in &case.limits {
                let (bucket, limit, now) = (seen.after, &seen.limit, seen.now_us);
                let old_left = subject.look(bucket, limit, now, 0).remaining as i64;
                let new_left = subject.look(bucket, new, now, 0).remaining as i64;
                let moved = old_left + new.burst as i64 - limit.burst as i64;
                if old_left > 0 {
                    prop_assert_eq!(new_left, moved.max(0), "{:?} under {:?}", bucket, new);
                } else {
                    // There may be a debt that is not shown.
                    prop_assert!(new_left <= moved.max(0), "{:?} under {:?}", bucket, new);
                }
                // And back again: nothing was gained.
                let mut there = bucket.clone();
                subject.resize(&mut there, new, now);
                subject.resize(&mut there, limit, now);
                prop_assert_eq!(subject.look(&there, limit, now, 0).remaining as i64, old_left);
            }
            Ok(())
        })
    });
}

fn property_9_a_dropped_full_bucket_acts_like_a_kept_one(policy: &str) {
    let subject = Subject::builtin(policy);
    let cases = Domain::of(policy).cases(3, STEPS);
    run_cases(&cases, |case| {
        let mut answers = [Vec::new(), Vec::new()];
        for (answers, drop_full) in answers.iter_mut().zip([false, true]) {
            let manner = Manner {
                steady_clock: true,
                drop_full,
            };
            walk(&subject, &case, manner, |seen| {
                answers.push((seen.now_us, seen.tokens, seen.answer));
                Ok(())
            })?;
        }
        prop_assert_eq!(&answers[0], &answers[1]);
        Ok(())
    });
}

/// A bucket that was only ever peeked at is not stored at all.
#[test]
fn property_9_a_peek_stores_nothing() {
    for policy in [
        "token_bucket",
        "leaky_bucket",
        "fixed_window",
        "sliding_window",
        "sliding_log",
    ] {
        let subject = Subject::builtin(policy);
        let limit = model::Limit {
            limit: 10,
            window_us: 1_000_000,
            burst: 10,
        };
        let mut bucket = Bucket::new(limit);
        for cost in [0, 11] {
            subject.check(&mut bucket, &limit, 1_700_000_000_000_000, cost);
            assert!(bucket.is_empty(), "{policy}");
        }
    }
}

/// Polling does not lose refill: a million checks a microsecond apart, each asking for one token, get exactly what one
/// bulk check at their end would get.
fn property_3_polling(policy: &str) {
    let subject = Subject::builtin(policy);
    for (limit, window_us) in [(7, 1_009), (3, 1_000_000), (999_983, 1_000_003), (1, 999_999)] {
        let limit = model::Limit {
            limit,
            window_us,
            burst: 2_000_000,
        };
        let start = 1_700_000_000_000_000;
        let mut polled = Bucket::new(limit);
        subject.check(&mut polled, &limit, start, limit.burst);
        let bulk = polled.clone();
        let mut admitted = 0;
        for now in start + 1..=start + 1_000_000 {
            admitted += u64::from(subject.check(&mut polled, &limit, now, 1).allowed);
        }
        let end = start + 1_000_000;
        assert!(subject.look(&bulk, &limit, end, admitted).allowed);
        assert!(!subject.look(&bulk, &limit, end, admitted + 1).allowed);
        let late = end + window_us;
        let polled = subject.look(&polled, &limit, late, 0).remaining;
        let bulk = subject.look(&bulk, &limit, late, 0).remaining;
        assert_eq!(polled, bulk - admitted, "and keep the rest");
    }
}

#[test]
fn property_3_polling_a_token_bucket_a_million_times_gets_what_one_check_gets() {
    property_3_polling("token_bucket");
}

#[test]
fn property_3_polling_a_leaky_bucket_a_million_times_gets_what_one_check_gets() {
    property_3_polling("leaky_bucket");
}

/// Denied checks, however many, do not change what is admitted later, in any policy.
#[test]
fn property_3_denied_polls_change_nothing() {
    for policy in ["fixed_window", "sliding_window", "sliding_log"] {
        let subject = Subject::builtin(policy);
        let limit = model::Limit {
            limit: 50,
            window_us: 200_000,
            burst: 50,
        };
        let start = 1_700_000_000_000_000;
        let mut polled = Bucket::new(limit);
        for i in 0..50 {
            subject.check(&mut polled, &limit, start + i * 1_000, 1);
        }
        let left_alone = polled.clone();
        for now in start + 49_000..start + 149_000 {
            let answer = subject.check(&mut polled, &limit, now, 50);
            assert!(!answer.allowed, "{policy}");
        }
        assert_eq!(polled, left_alone, "{policy}");
    }
}
