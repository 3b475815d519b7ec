//! Splitting a bucket into sub-buckets and merging them again mints no token, in any policy, wherever a sequence has left
//! the bucket. The parts' limits and bursts add up to the whole's.

mod model;

use model::Limit;
use model::cases::{Domain, run_cases};
use model::subject::{Bucket, Subject};
use model::walk::{Manner, walk};
use proptest::prelude::*;

each_policy!(
    parts_hold_no_more_than_the_whole,
    merging_gives_back_no_more_than_was_split,
    what_parts_admit_is_gone_after_merging,
);

const STEPS: usize = 40;

/// The limits of `k` parts; remainders go to the first ones. `None` when there is too little for each.
fn parts(limit: &Limit, k: u64) -> Option<Vec<Limit>> {
    let share = |whole: u64, i: u64| whole / k + u64::from(i < whole % k);
    (limit.limit >= k && limit.burst >= k).then(|| {
        let part = |i| Limit {
            limit: share(limit.limit, i),
            window_us: limit.window_us,
            burst: share(limit.burst, i),
        };
        (0..k).map(part).collect()
    })
}

/// The limits of two parts together.
fn both(a: &Limit, b: &Limit) -> Limit {
    Limit {
        limit: a.limit + b.limit,
        window_us: a.window_us,
        burst: a.burst + b.burst,
    }
}

fn merge_all(subject: &Subject, mut buckets: Vec<Bucket>, now_us: u64) -> Bucket {
    let mut merged = buckets.remove(0);
    for bucket in buckets {
        let limit = both(&merged.limit, &bucket.limit);
        merged = subject.merge(&limit, &merged, &bucket, now_us);
    }
    merged
}

fn remaining(subject: &Subject, bucket: &Bucket, now_us: u64) -> u64 {
    subject.look(bucket, &bucket.limit, now_us, 0).remaining
}

/// Calls `property` with each bucket of a walk, its parts, and the time.
fn each_split(policy: &str, property: impl Fn(&Subject, &Bucket, Vec<Bucket>, u64) -> Result<(), TestCaseError>) {
    let subject = Subject::builtin(policy);
    let cases = (Domain::of(policy).cases(2, STEPS), 2..=5_u64);
    // An empty log keeps no time, so one part's clock may be behind another's when readings go back in between.
    let manner = Manner {
        steady_clock: policy == "sliding_log",
        ..Manner::default()
    };
    run_cases(&cases, |(case, k)| {
        walk(&subject, &case, manner, |seen| {
            let Some(parts) = parts(&seen.limit, k) else {
                return Ok(());
            };
            let mut whole = seen.after.clone();
            subject.resize(&mut whole, &seen.limit, seen.now_us);
            let buckets = subject.split(&whole, &parts, seen.now_us);
            property(&subject, &whole, buckets, seen.now_us)
        })
    });
}

fn parts_hold_no_more_than_the_whole(policy: &str) {
    each_split(policy, |subject, whole, buckets, now_us| {
        let left = remaining(subject, whole, now_us);
        let of_parts = |at| buckets.iter().map(|part| remaining(subject, part, at)).sum::<u64>();
        prop_assert!(of_parts(now_us) <= left, "{:?} in {:?}", whole, buckets);
        // Nothing is lost either but the roundings of a weighted window, as far as none is in debt.
        if left > 0 && policy != "sliding_window" {
            prop_assert_eq!(of_parts(now_us), left, "{:?} in {:?}", whole, buckets);
        }
        Ok(())
    });
}

fn merging_gives_back_no_more_than_was_split(policy: &str) {
    each_split(policy, |subject, whole, buckets, now_us| {
        let merged = merge_all(subject, buckets, now_us);
        prop_assert_eq!(merged.limit, whole.limit);
        let window_us = whole.limit.window_us;
        for later in [0, 1, window_us / 3, window_us, window_us + 1, 2 * window_us] {
            let at = now_us + later;
            let (was, is) = (remaining(subject, whole, at), remaining(subject, &merged, at));
            prop_assert!(is <= was, "{:?} became {:?}: {} > {}", whole, merged, is, was);
        }
        Ok(())
    });
}

fn what_parts_admit_is_gone_after_merging(policy: &str) {
    each_split(policy, |subject, whole, mut buckets, now_us| {
        let mut left = remaining(subject, whole, now_us);
        for part in &mut buckets {
            let limit = part.limit;
            let cost = remaining(subject, part, now_us).div_ceil(2);
            prop_assert!(subject.check(part, &limit, now_us, cost).allowed);
            left -= cost;
        }
        let merged = merge_all(subject, buckets, now_us);
        let is = remaining(subject, &merged, now_us);
        prop_assert!(is <= left, "{:?} became {:?}: {} > {}", whole, merged, is, left);
        Ok(())
    });
}
