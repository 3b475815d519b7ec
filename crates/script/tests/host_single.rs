//! Single operations, for numbers and buffers alike.
#![allow(clippy::unwrap_used)]

mod support;

use support::{BYTES, COUNTER, host, host_with, params};
use tollgate_script::{Fault, ParamsId, PolicyLimits, State, Stored};

fn numbers(params: ParamsId, fields: &[f64]) -> Option<Stored<'_>> {
    Some(Stored {
        params,
        state: State::Numbers(fields),
    })
}

fn bytes(params: ParamsId, bytes: &[u8]) -> Option<Stored<'_>> {
    Some(Stored {
        params,
        state: State::Bytes(bytes),
    })
}

#[test]
fn check_full_at_give_and_take_on_numbers() {
    let mut host = host(&[("counter", COUNTER)]);
    let p = params(&mut host, "counter", 10);
    let (outcome, state) = host.check_one(p, numbers(p, &[4.0]), 0, 2, false).unwrap();
    assert_eq!((outcome.remaining, outcome.full_at_us), (4, 60));
    assert_eq!(state, State::Numbers(&[6.0]));
    let (outcome, _) = host.check_one(p, numbers(p, &[4.0]), 0, 2, true).unwrap();
    assert_eq!((outcome.remaining, outcome.full_at_us), (6, 40));
    assert_eq!(host.full_at(numbers(p, &[4.0]).unwrap()), Ok(40));
    assert_eq!(host.full_at(numbers(p, &[]).unwrap()), Ok(i64::MIN));
    assert_eq!(host.give(p, numbers(p, &[4.0]), 0, 3), Ok(State::Numbers(&[1.0])));
    assert!(host.give(p, None, 0, 3).unwrap().is_empty());
    assert_eq!(host.take(p, numbers(p, &[4.0]), 0, 30), Ok(State::Numbers(&[20.0])));
    assert_eq!(host.take(p, None, 0, 3), Ok(State::Numbers(&[3.0])));
}

#[test]
fn what_a_policy_lacks_is_refused_by_name() {
    let mut host = host(&[("counter", COUNTER), ("bytes", BYTES)]);
    let (counter, b) = (params(&mut host, "counter", 10), params(&mut host, "bytes", 10));
    let stored = numbers(counter, &[1.0]).unwrap();
    let lacks = |fault: tollgate_script::PolicyFault| fault.to_string();
    assert_eq!(
        lacks(host.split(counter, counter, None, 0, 0, 2).unwrap_err()),
        "policy counter: has no split"
    );
    assert_eq!(
        lacks(host.merge(counter, stored, stored, 0).unwrap_err()),
        "policy counter: has no merge"
    );
    assert_eq!(
        lacks(host.give(b, None, 0, 1).unwrap_err()),
        "policy bytes: has no give"
    );
    assert_eq!(
        lacks(host.take(b, None, 0, 1).unwrap_err()),
        "policy bytes: has no take"
    );
}

#[test]
fn buffers_are_checked_peeked_and_resized() {
    let mut host = host(&[("bytes", BYTES)]);
    let (p, smaller) = (params(&mut host, "bytes", 10), params(&mut host, "bytes", 3));
    let (outcome, state) = host.check_one(p, None, 0, 4, false).unwrap();
    assert_eq!((outcome.allowed, outcome.remaining, outcome.full_at_us), (true, 6, 40));
    assert_eq!(state, State::Bytes(&[7; 4]));
    let (outcome, _) = host.check_one(p, bytes(p, &[1, 2, 3]), 0, 4, true).unwrap();
    assert_eq!((outcome.allowed, outcome.remaining, outcome.full_at_us), (true, 7, 30));
    let (outcome, state) = host.check_one(p, bytes(p, &[1, 2, 3]), 0, 1, false).unwrap();
    assert!(outcome.allowed);
    assert_eq!(state, State::Bytes(&[1, 2, 3, 7]));
    assert_eq!(host.full_at(bytes(p, &[1, 2]).unwrap()), Ok(20));
    assert_eq!(host.state_bytes_max(p), Ok(10));
    // A smaller capacity: charged with what was used, as far as it goes.
    let (outcome, state) = host.check_one(smaller, bytes(p, &[1; 9]), 0, 1, false).unwrap();
    assert_eq!((outcome.allowed, outcome.remaining), (false, 0));
    assert_eq!(state, State::Bytes(&[7; 3]));
    assert_eq!(
        host.resize(smaller, bytes(p, &[1; 2]).unwrap(), 0),
        Ok(State::Bytes(&[7; 2]))
    );
}

#[test]
fn a_faulty_buffer_operation_leaves_the_stored_copy() {
    let text = BYTES.replace(
        "local left",
        "if cost == 9 then buffer.fill(buf, 0, 255) error('half way') end local left",
    );
    let mut host = host(&[("bytes", &text)]);
    let p = params(&mut host, "bytes", 10);
    let stored = vec![1, 2, 3];
    host.check_one(p, bytes(p, &stored), 0, 9, false).unwrap_err();
    let (_, state) = host.check_one(p, bytes(p, &stored), 0, 1, false).unwrap();
    assert_eq!(state, State::Bytes(&[1, 2, 3, 7]));
}

#[test]
fn buffer_lengths_and_sizes_are_checked() {
    for (len, expected) in [
        ("-1", "a length"),
        ("1e9", "a length"),
        ("1.5", "a length"),
        ("nil", "a length"),
        ("0/0", "a length"),
    ] {
        let text = BYTES.replace(
            "return true, left - cost, 0, len + cost",
            &format!("return true, 1, 0, {len}"),
        );
        let mut host = host(&[("bytes", &text)]);
        let p = params(&mut host, "bytes", 10);
        let fault = host.check_one(p, None, 0, 1, false).unwrap_err().to_string();
        assert!(fault.contains(expected), "{fault}");
    }
    for max in ["-1", "nil", "0/0", "1.5"] {
        let text = BYTES.replace("return limit.burst end", &format!("return {max} end"));
        let mut host = host(&[("bytes", &text)]);
        let p = params(&mut host, "bytes", 10);
        let fault = host.probe(p, 0).unwrap_err().to_string();
        assert!(fault.starts_with("policy bytes: max_bytes returned"), "{fault}");
    }
    let limits = PolicyLimits {
        state_bytes_max: 100,
        ..PolicyLimits::default()
    };
    let mut host = host_with(&[("bytes", BYTES), ("counter", COUNTER)], limits);
    let (p, large) = (params(&mut host, "bytes", 100), params(&mut host, "bytes", 101));
    host.probe(p, 0).unwrap();
    let fault = host.probe(large, 0).unwrap_err().fault;
    assert_eq!(fault, Fault::LimitTooLarge { bytes: 101, max: 100 });
    let fault = host.check_one(p, bytes(p, &[0; 101]), 0, 1, false).unwrap_err().fault;
    assert_eq!(fault, Fault::StateSize { bytes: 101, max: 100 });
    let counter = params(&mut host, "counter", 10);
    host.check_one(counter, bytes(counter, &[0; 8]), 0, 1, false)
        .unwrap_err();
    host.check_one(p, numbers(p, &[1.0]), 0, 1, false).unwrap_err();
}

/// `check` returns its arguments as fields, so that the argument order of each function is visible.
fn recorder(fields: usize, functions: &str) -> String {
    let names = ["'a'", "'b'", "'c'", "'d'"][..fields].join(", ");
    format!(
        "return {{ version = 1, fields = {{ {names} }}, burst = 'limit',
            check = function(limit, now, cost, a, b, c, d) return true, 1, 0, a or limit.limit end,
            full_at = function(limit, a) return 0 end, {functions} }}"
    )
}

#[test]
fn split_gets_the_part_and_an_existing_state() {
    let text = recorder(
        4,
        "split = function(limit, part, now, i, k, a, b)
        assert(b == nil) return a, part.limit, i * 100 + k, limit.limit * 1000 + now end,",
    );
    let mut host = host(&[("p", &text)]);
    let (whole, part) = (params(&mut host, "p", 10), params(&mut host, "p", 5));
    assert_eq!(
        host.split(whole, part, numbers(whole, &[3.0]), 7, 1, 2),
        Ok(State::Numbers(&[3.0, 5.0, 102.0, 10_007.0]))
    );
    assert_eq!(
        host.split(whole, part, None, 7, 0, 2),
        Ok(State::Numbers(&[10.0, 5.0, 2.0, 10_007.0])),
        "a new bucket is what a check of cost 0 leaves"
    );
}

#[test]
fn merge_gets_both_states_field_by_field() {
    for fields in 1..=4 {
        let args = |x: &str| (1..=fields).map(|i| format!("{x}{i}")).collect::<Vec<_>>().join(", ");
        let results: Vec<_> = (1..=fields).map(|i| format!("a{i} * 10 + b{i}")).collect();
        let text = recorder(
            fields,
            &format!(
                "merge = function(limit, a, b, now, {}, {})
                assert(limit.limit == 10 and a.limit == 4 and b.limit == 6 and now == 7)
                return {} end,",
                args("a"),
                args("b"),
                results.join(", ")
            ),
        );
        let mut host = host(&[("p", &text)]);
        let (whole, a, b) = (
            params(&mut host, "p", 10),
            params(&mut host, "p", 4),
            params(&mut host, "p", 6),
        );
        let (one, two) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        let merged = host
            .merge(
                whole,
                numbers(a, &one[..fields]).unwrap(),
                numbers(b, &two[..fields]).unwrap(),
                7,
            )
            .unwrap();
        assert_eq!(merged, State::Numbers(&[15.0, 26.0, 37.0, 48.0][..fields]));
    }
}

#[test]
fn buffers_are_merged_and_split() {
    let text = BYTES.replace(
        "version = 1,",
        "version = 1,
        merge = function(limit, a, b, now, buf, len, other, other_len)
            buffer.copy(buf, len, other, 0, other_len)
            return len + other_len
        end,
        split = function(limit, part, now, i, k, buf, len)
            return len // k
        end,
        give = function(limit, now, amount, buf, len) return math.max(0, len - amount) end,",
    );
    let mut host = host(&[("bytes", &text)]);
    let (whole, part) = (params(&mut host, "bytes", 10), params(&mut host, "bytes", 5));
    let merged = host.merge(
        whole,
        bytes(part, &[1, 2]).unwrap(),
        bytes(part, &[3, 4, 5]).unwrap(),
        0,
    );
    assert_eq!(merged, Ok(State::Bytes(&[1, 2, 3, 4, 5])));
    assert_eq!(
        host.split(whole, part, bytes(whole, &[1, 2, 3, 4]), 0, 0, 2),
        Ok(State::Bytes(&[1, 2]))
    );
    assert_eq!(
        host.give(whole, bytes(whole, &[1, 2, 3, 4]), 0, 1),
        Ok(State::Bytes(&[1, 2, 3]))
    );
    assert!(host.give(whole, bytes(whole, &[1]), 0, 1).unwrap().is_empty());
}
