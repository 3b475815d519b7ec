//! What a batch does: decisions, shared states, peeks, changed limits, mixed VMs.

mod support;

use support::{COUNTER, fresh, host, params, run};
use tollgate_script::{Batch, Outcome, StateIn};

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
    let ops: Vec<_> = [4, 7, 6, 1]
        .map(|cost| batch.check(params, state, 0, cost, false))
        .to_vec();
    run(&mut host, &mut batch);
    let outcomes: Vec<_> = ops
        .iter()
        .map(|&op| batch.outcome(op).map(|o| (o.allowed, o.remaining, o.retry_after_us)))
        .collect();
    assert_eq!(
        outcomes,
        [
            Ok((true, 6, 0)),
            Ok((false, 6, 70)),
            Ok((true, 0, 0)),
            Ok((false, 0, 10))
        ]
    );
    assert_eq!(batch.state_after(state).fields(), [10.0]);
}
