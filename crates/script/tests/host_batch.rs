//! What a batch does: decisions, shared states, peeks, changed limits, mixed VMs.
#![allow(clippy::unwrap_used)]

mod support;

use support::{BYTES, COUNTER, check_body, fresh, host, params, run};
use tollgate_script::{Batch, Fault, MAX_BATCH, OpIx, Outcome, ParamsId, StateIn, builtin_policies};

/// Allowed, remaining, retry_after_us.
fn short(batch: &Batch, op: OpIx) -> (bool, i64, i64) {
    let outcome = batch.outcome(op).unwrap();
    (outcome.allowed, outcome.remaining, outcome.retry_after_us)
}

fn stored(params: ParamsId, fields: &[f64]) -> StateIn<'_> {
    StateIn {
        params: Some(params),
        fields,
    }
}

#[test]
fn a_check_of_a_new_bucket_decides_and_stores() {
    let mut host = host(&[("counter", COUNTER)]);
    let params = params(&mut host, "counter", 100);
    let mut batch = Batch::new();
    let (op, state) = fresh(&mut batch, params, 30);
    run(&mut host, &mut batch);
    let expected = Outcome {
        allowed: true,
        remaining: 70,
        retry_after_us: 0,
        full_at_us: 1_000, // The policy says 300, which has passed.
    };
    assert_eq!(batch.outcome(op), Ok(expected));
    let after = batch.state_after(state);
    assert_eq!(
        (after.params, after.fields(), after.changed),
        (params, &[30.0][..], true)
    );
}

#[test]
fn operations_on_one_state_see_each_other_in_order() {
    let mut host = host(&[("counter", COUNTER)]);
    let params = params(&mut host, "counter", 10);
    let mut batch = Batch::new();
    let state = batch.state(StateIn::NEW);
    let ops = [4, 7, 6, 1].map(|cost| batch.check(params, state, 0, cost, false));
    run(&mut host, &mut batch);
    let outcomes = ops.map(|op| short(&batch, op));
    assert_eq!(outcomes, [(true, 6, 0), (false, 6, 70), (true, 0, 0), (false, 0, 10)]);
    assert_eq!(batch.state_after(state).fields(), [10.0]);
}

#[test]
fn a_peek_decides_but_shows_and_leaves_the_bucket_as_it_is() {
    let mut host = host(&[("counter", COUNTER)]);
    let params = params(&mut host, "counter", 10);
    let mut batch = Batch::new();
    let state = batch.state(stored(params, &[4.0]));
    let new = batch.state(StateIn::NEW);
    let ops = [
        batch.check(params, state, 0, 5, true),
        batch.check(params, state, 0, 7, true),
        batch.check(params, state, 0, 11, true),
        batch.check(params, state, 0, 0, true),
        batch.check(params, new, 0, 10, true),
    ];
    run(&mut host, &mut batch);
    assert_eq!(
        ops.map(|op| short(&batch, op)),
        [
            (true, 6, 0),
            (false, 6, 70),
            (false, 6, -1),
            (true, 6, 0),
            (true, 10, 0)
        ]
    );
    assert_eq!(batch.outcome(ops[0]).unwrap().full_at_us, 40, "of the bucket as it is");
    for (state, fields) in [(state, &[4.0][..]), (new, &[])] {
        let after = batch.state_after(state);
        assert_eq!((after.fields(), after.changed), (fields, false));
    }
}

#[test]
fn a_changed_limit_without_resize_keeps_what_was_used() {
    let mut host = host(&[("counter", COUNTER)]);
    let (old, larger, smaller) = (
        params(&mut host, "counter", 10),
        params(&mut host, "counter", 100),
        params(&mut host, "counter", 3),
    );
    let mut batch = Batch::new();
    let states = [7.0, 7.0, 0.0].map(|used| batch.state(stored(old, &[used])));
    let ops = [
        batch.check(larger, states[0], 0, 1, false),
        batch.check(smaller, states[1], 0, 1, false),
        batch.check(smaller, states[2], 0, 1, false),
    ];
    run(&mut host, &mut batch);
    assert_eq!(
        ops.map(|op| short(&batch, op)),
        [(true, 92, 0), (false, 0, 10), (true, 2, 0)]
    );
    let after = states.map(|state| batch.state_after(state));
    assert_eq!(after.map(|a| a.fields()[0]), [8.0, 3.0, 1.0]);
    assert_eq!(after.map(|a| a.params), [larger, smaller, smaller]);
}

#[test]
fn a_changed_limit_goes_through_resize() {
    let text = COUNTER.replace(
        "give =",
        "resize = function(old, new, now, used)
             assert(old.burst == 10 and new.burst == 100 and now == 5)
             return used * new.burst / old.burst
         end,
         give =",
    );
    let mut host = host(&[("counter", &text)]);
    let (old, new) = (params(&mut host, "counter", 10), params(&mut host, "counter", 100));
    let mut batch = Batch::new();
    let state = batch.state(stored(old, &[7.0]));
    let peek = batch.check(new, state, 5, 0, true);
    let check = batch.check(new, state, 5, 1, false);
    run(&mut host, &mut batch);
    assert_eq!(short(&batch, peek), (true, 30, 0));
    assert_eq!(short(&batch, check), (true, 29, 0));
    assert_eq!(batch.state_after(state).fields(), [71.0]);
}

#[test]
fn trailing_nil_fields_are_not_stored_and_come_back_as_nil() {
    let text = "return { version = 1, fields = { 'a', 'b', 'c', 'd' }, burst = 'limit',
        check = function(limit, now, cost, a, b, c, d)
            assert(c == nil and d == nil)
            if cost == 2 then return true, 1, 0, 1, 2 end
            if cost == 4 then return true, 1, 0, 1, 2, 3, 4 end
            assert(a == nil)
            return true, 1, 0
        end,
        full_at = function(limit, a, b, c, d)
            return if d then 4000 elseif b then 2000 else 0
        end }";
    let mut host = host(&[("four", text)]);
    let params = params(&mut host, "four", 10);
    let mut batch = Batch::new();
    let checks = [0, 2, 4].map(|cost| fresh(&mut batch, params, cost));
    let again = batch.check(params, checks[1].1, 1_000, 2, false);
    run(&mut host, &mut batch);
    assert_eq!(batch.state_after(checks[0].1).fields(), []);
    assert_eq!(batch.state_after(checks[1].1).fields(), [1.0, 2.0]);
    assert_eq!(batch.state_after(checks[2].1).fields(), [1.0, 2.0, 3.0, 4.0]);
    let full_at = [checks[0].0, again, checks[2].0].map(|op| batch.outcome(op).unwrap().full_at_us);
    assert_eq!(full_at, [1_000, 2_000, 4_000]);
}

#[test]
fn trusted_and_guarded_policies_share_a_batch() {
    let mut sources = builtin_policies();
    sources.push(support::source("counter", COUNTER));
    let mut host = tollgate_script::PolicyHost::new(&sources, tollgate_script::PolicyLimits::default()).unwrap();
    assert!(host.info(host.policy(b"token_bucket").unwrap()).trusted);
    assert!(!host.info(host.policy(b"counter").unwrap()).trusted);
    let all = [params(&mut host, "counter", 10), params(&mut host, "token_bucket", 10)];
    let mut batch = Batch::new();
    for round in 0..3 {
        batch.clear();
        let ops: Vec<_> = (0..MAX_BATCH)
            .map(|i| fresh(&mut batch, all[(i + round) % 2], i as u64 % 10))
            .collect();
        assert!(batch.is_full());
        run(&mut host, &mut batch);
        for (i, (op, state)) in ops.into_iter().enumerate() {
            assert_eq!(short(&batch, op), (true, 10 - i as i64 % 10, 0));
            let after = batch.state_after(state);
            assert!(after.fields().is_empty() || after.params == all[(i + round) % 2]);
        }
    }
}

/// The files built in run without the checks that other files get. A comment more, and a file is one of the others.
#[test]
fn built_in_policies_decide_alike_with_and_without_checks() {
    let numbers = ["token_bucket", "leaky_bucket", "fixed_window", "sliding_window"];
    for (policy, source) in builtin_policies()
        .into_iter()
        .filter(|source| numbers.contains(&source.name.as_str()))
        .enumerate()
    {
        let checked = support::source(&source.name, &format!("{}\n-- the same\n", source.text));
        // What a busy machine takes its time for is not what this is about.
        let limits = tollgate_script::PolicyLimits {
            budget_us: 10_000_000,
            ..tollgate_script::PolicyLimits::default()
        };
        let mut hosts =
            [source.clone(), checked].map(|file| tollgate_script::PolicyHost::new(&[file], limits).unwrap());
        let trusted = hosts
            .each_ref()
            .map(|host| host.info(host.policy(source.name.as_bytes()).unwrap()).trusted);
        assert_eq!(trusted, [true, false]);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64 + policy as u64;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        // A few buckets whose limit changes now and then, narrow states and wide ones.
        let all = [
            (1, 1_000),
            (7, 1_000),
            (100, 60_000_000),
            (1_000_000_000_000, 31_622_400_000_000),
        ];
        let mut buckets: Vec<(Option<usize>, Vec<f64>)> = vec![(None, Vec::new()); 6];
        let (mut now, mut denials, mut wide) = (1_700_000_000_000_000, 0, 0);
        for _ in 0..3_000 {
            now += [0, 1, 300, 40_000, 90_000_000][draw(5) as usize];
            let checks: Vec<_> = (0..1 + draw(8))
                .map(|_| {
                    let (limit, _) = all[draw(4) as usize];
                    let cost = [0, 1, 1, 2, limit, limit + 1][draw(6) as usize];
                    (draw(6) as usize, draw(4) as usize, cost, draw(10) == 0)
                })
                .collect();
            let run_on = |host: &mut tollgate_script::PolicyHost| {
                let policy = host.policy(source.name.as_bytes()).unwrap();
                let ids = all.map(|(limit, window_us)| {
                    let burst = limit;
                    let params = tollgate_script::Params {
                        limit,
                        window_us,
                        burst,
                    };
                    host.intern(policy, params).unwrap()
                });
                let mut batch = Batch::new();
                let states: Vec<_> = buckets
                    .iter()
                    .map(|(limit, fields)| batch.state(limit.map_or(StateIn::NEW, |limit| stored(ids[limit], fields))))
                    .collect();
                let ops: Vec<_> = checks
                    .iter()
                    .map(|&(bucket, limit, cost, peek)| batch.check(ids[limit], states[bucket], now, cost, peek))
                    .collect();
                run(host, &mut batch);
                let outcomes: Vec<_> = ops.iter().map(|&op| batch.outcome(op).unwrap()).collect();
                let after: Vec<_> = states
                    .iter()
                    .zip(&buckets)
                    .map(|(&state, before)| {
                        let after = batch.state_after(state);
                        match after.changed {
                            true if after.fields().is_empty() => (None, Vec::new()),
                            true => {
                                let limit = ids.iter().position(|&id| id == after.params);
                                (limit, after.fields().to_vec())
                            }
                            false => before.clone(),
                        }
                    })
                    .collect();
                (outcomes, after)
            };
            let [(outcomes, after), other] = hosts.each_mut().map(run_on);
            assert_eq!(
                (&outcomes, &after),
                (&other.0, &other.1),
                "{}: {checks:?} at {now}",
                source.name
            );
            denials += outcomes.iter().filter(|outcome| !outcome.allowed).count();
            wide += after.iter().filter(|(_, fields)| fields.len() > 2).count();
            buckets = after;
        }
        assert!(denials > 100, "{}: {denials} denials", source.name);
        assert!(
            wide > 0 || source.name == "fixed_window",
            "{}: {wide} wide states",
            source.name
        );
    }
}

#[test]
fn a_denial_leaves_a_state_of_any_width_alone() {
    let limits = tollgate_script::PolicyLimits {
        budget_us: 10_000_000,
        ..tollgate_script::PolicyLimits::default()
    };
    for comment in ["", "\n-- checked\n"] {
        let sources: Vec<_> = builtin_policies()
            .into_iter()
            .map(|source| support::source(&source.name, &format!("{}{comment}", source.text)))
            .collect();
        let mut host = tollgate_script::PolicyHost::new(&sources, limits).unwrap();
        let window_us = 10_000_000;
        let policy = host.policy(b"sliding_window").unwrap();
        let params = tollgate_script::Params {
            limit: 10,
            window_us,
            burst: 10,
        };
        let id = host.intern(policy, params).unwrap();
        host.retain(id);
        let mut batch = Batch::new();
        let now = 1_700_000_000_000_000;
        let state = batch.state(StateIn::NEW);
        for (after_us, cost) in [(0, 10), (window_us as i64 * 3 / 2, 1)] {
            batch.check(id, state, now + after_us, cost, false);
        }
        run(&mut host, &mut batch);
        let fields = batch.state_after(state).fields().to_vec();
        assert_eq!(fields.len(), 3, "a count of the window before, too");
        batch.clear();
        let state = batch.state(stored(id, &fields));
        let op = batch.check(id, state, now + window_us as i64 * 3 / 2, 10, false);
        run(&mut host, &mut batch);
        assert!(!batch.outcome(op).unwrap().allowed);
        assert!(!batch.state_after(state).changed);
    }
}

#[test]
fn more_parameters_than_are_resident_at_once_work() {
    let mut host = host(&[("counter", COUNTER)]);
    let ids: Vec<_> = (1..=10_000).map(|limit| params(&mut host, "counter", limit)).collect();
    let mut batch = Batch::new();
    for (i, chunk) in ids.chunks(MAX_BATCH).enumerate() {
        batch.clear();
        let ops: Vec<_> = chunk.iter().map(|&id| fresh(&mut batch, id, 1).0).collect();
        run(&mut host, &mut batch);
        for (j, op) in ops.into_iter().enumerate() {
            let limit = (i * MAX_BATCH + j + 1) as i64;
            assert_eq!(short(&batch, op), (true, limit - 1, 0));
        }
    }
}

#[test]
fn results_outside_the_contract_are_faults_of_that_operation_alone() {
    let cases = [
        ("return 'yes', 1, 0, 1", "a boolean"),
        ("return nil", "whole tokens from -10 to 10 remaining"),
        ("return true, 0/0, 0, 1", "whole tokens"),
        ("return true, 11, 0, 1", "whole tokens"),
        ("return true, -11, 0, 1", "whole tokens"),
        ("return true, 1.5, 0, 1", "whole tokens"),
        ("return true, '1', 0, 1", "whole tokens"),
        ("return true, 1, 5, 1", "a retry_after of 0"),
        ("return true, 1, nil, 1", "a retry_after of 0"),
        ("return false, 1, 0, 1", "a retry_after of -1"),
        ("return false, 1, math.huge, 1", "a retry_after of -1"),
        ("return false, 1, 0/0, 1", "a retry_after of -1"),
        ("return false, 1, 1.5, 1", "a retry_after of -1"),
        ("return true, 1, 0, 0/0", "a finite number as field 1"),
        ("return true, 1, 0, math.huge", "a finite number as field 1"),
        ("return true, 1, 0, -math.huge", "a finite number as field 1"),
        ("return true, 1, 0, {}", "a finite number as field 1"),
        ("return true, 1, 0, '7'", "a finite number as field 1"),
        ("return true, 1, 0, nil, 7", "a number as field 1"),
        ("return true, 1, 0, 1, 2", "at most 1 fields"),
        ("return true, 1, 0, 1, nil, 2", "nil after a nil field"),
        ("return true, 1, 0, 1, 2, 3, 4, 5", "at most 1 fields"),
    ];
    for (body, expected) in cases {
        let mut host = host(&[("bad", &check_body(body)), ("counter", COUNTER)]);
        let (bad, good) = (params(&mut host, "bad", 10), params(&mut host, "counter", 10));
        let mut batch = Batch::new();
        let before = fresh(&mut batch, good, 1);
        let state = batch.state(stored(bad, &[5.0]));
        let op = batch.check(bad, state, 0, 1, false);
        let after = fresh(&mut batch, good, 2);
        run(&mut host, &mut batch);
        let fault = batch.outcome(op).unwrap_err();
        assert_eq!(fault.policy, "bad");
        match &fault.fault {
            Fault::BadResult(text) if text.contains(expected) => {}
            other => panic!("{body}: {other:?} where {expected:?} is expected"),
        }
        let unchanged = batch.state_after(state);
        assert_eq!((unchanged.fields(), unchanged.changed), (&[5.0][..], false));
        assert_eq!(short(&batch, before.0), (true, 9, 0));
        assert_eq!(short(&batch, after.0), (true, 8, 0));
    }
}

#[test]
fn full_at_is_checked_like_check() {
    for result in ["0/0", "math.huge", "1.5", "nil", "'now'", "{}", "true"] {
        let text = check_body("return true, 1, 0, 1").replace("return 0 end", &format!("return {result} end"));
        let mut host = host(&[("bad", &text)]);
        let bad = params(&mut host, "bad", 10);
        let mut batch = Batch::new();
        let (op, state) = fresh(&mut batch, bad, 1);
        run(&mut host, &mut batch);
        let fault = batch.outcome(op).unwrap_err().to_string();
        assert!(fault.starts_with("policy bad: full_at returned"), "{fault}");
        assert!(!batch.state_after(state).changed);
    }
}

#[test]
fn a_time_beyond_an_i64_is_its_maximum() {
    let text = check_body("return false, 1, 1e30, 1").replace("return 0 end", "return 1e300 end");
    let mut host = host(&[("far", &text)]);
    let far = params(&mut host, "far", 10);
    let mut batch = Batch::new();
    let (op, _) = fresh(&mut batch, far, 1);
    run(&mut host, &mut batch);
    let outcome = batch.outcome(op).unwrap();
    assert_eq!((outcome.retry_after_us, outcome.full_at_us), (i64::MAX, i64::MAX));
}

#[test]
fn a_debt_is_shown_as_zero() {
    let mut host = host(&[("debt", &check_body("return false, -3, 10, 1"))]);
    let debt = params(&mut host, "debt", 10);
    let mut batch = Batch::new();
    let (op, _) = fresh(&mut batch, debt, 1);
    run(&mut host, &mut batch);
    assert_eq!(short(&batch, op), (false, 0, 10));
}

#[test]
fn a_buffer_policy_is_refused_in_a_batch() {
    let mut host = host(&[("bytes", BYTES), ("counter", COUNTER)]);
    let (bytes, counter) = (params(&mut host, "bytes", 10), params(&mut host, "counter", 10));
    let mut batch = Batch::new();
    let refused = fresh(&mut batch, bytes, 1).0;
    let good = fresh(&mut batch, counter, 1).0;
    run(&mut host, &mut batch);
    let fault = batch.outcome(refused).unwrap_err().fault;
    assert!(matches!(fault, Fault::StateSize { .. }), "{fault:?}");
    assert_eq!(short(&batch, good), (true, 9, 0));
}
