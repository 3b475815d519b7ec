use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{Encoding, Set};

#[derive(Debug, Clone)]
enum Step {
    Add(Vec<u8>),
    Remove(Vec<u8>),
    Pop(u64),
}

fn steps(members: impl Strategy<Value = Vec<u8>> + Clone) -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => members.clone().prop_map(Step::Add),
        1 => members.prop_map(Step::Remove),
        1 => any::<u64>().prop_map(Step::Pop),
    ]
}

fn integers() -> impl Strategy<Value = Vec<u8>> + Clone {
    (-700..700i64).prop_map(|number| (number * 1_000_003).to_string().into_bytes())
}

fn check_against_model(steps: Vec<Step>) {
    let mut set = Set::new(seed(), b"1", 1);
    let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut only_integers = true;
    for (at, step) in steps.into_iter().enumerate() {
        match step {
            Step::Add(member) => {
                only_integers &= std::str::from_utf8(&member).is_ok_and(|text| text.parse::<i64>().is_ok());
                assert_eq!(set.add(&member), model.insert(member));
            }
            Step::Remove(member) => assert_eq!(set.remove(&member), model.remove(&member)),
            Step::Pop(random) => match set.pop(random) {
                Some(member) => assert!(model.remove(&member)),
                None => assert!(model.is_empty()),
            },
        }
        assert_eq!(set.len(), model.len());
        if only_integers && model.len() > 512 {
            assert_eq!(set.encoding(), Encoding::Hashtable);
        }
        if !only_integers && set.encoding() == Encoding::Listpack {
            assert!(model.len() <= 128 && model.iter().all(|member| member.len() <= 64));
        }
        if at % 100 == 0 {
            compare(&set, &model);
        }
    }
    compare(&set, &model);
    while !set.drop_some(10) {}
}

fn compare(set: &Set, model: &BTreeSet<Vec<u8>>) {
    set.check();
    set.clone().check();
    let members: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
    let by_rank: Vec<Vec<u8>> = (0..set.len())
        .filter_map(|rank| set.nth(rank))
        .map(|member| member.to_vec())
        .collect();
    assert_eq!(by_rank, members);
    assert_eq!(members.into_iter().collect::<BTreeSet<_>>(), *model);
    assert!(model.iter().all(|member| set.contains(member)));
    assert!(!set.contains(b"no such member") && !set.contains(b"999999999"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_set_is_the_model(steps in prop::collection::vec(steps(names().boxed()), 1..2500)) {
        check_against_model(steps);
    }

    #[test]
    fn a_set_of_integers_is_the_model(steps in prop::collection::vec(steps(integers()), 1..3000)) {
        check_against_model(steps);
    }
}

#[test]
fn encodings_change_where_those_of_redis_do() {
    let integers = |count: i64| {
        let mut set = Set::new(seed(), b"0", 1);
        (0..count).for_each(|number| assert!(set.add((count - number).to_string().as_bytes())));
        set
    };
    assert_eq!(integers(512).encoding(), Encoding::Intset);
    assert_eq!(integers(513).encoding(), Encoding::Hashtable);
    let sorted: Vec<Vec<u8>> = integers(3).iter().map(|member| member.to_vec()).collect();
    assert_eq!(sorted, [b"1", b"2", b"3"]);
    for (count, member, encoding) in [
        (127, &b"x"[..], Encoding::Listpack),
        (128, b"x", Encoding::Hashtable),
        (3, &[b'x'; 64], Encoding::Listpack),
        (3, &[b'x'; 65], Encoding::Hashtable),
    ] {
        let mut set = integers(count);
        set.add(member);
        assert_eq!(set.encoding(), encoding, "{count} {}", member.len());
    }
    assert_eq!(Set::new(seed(), b"1", 513).encoding(), Encoding::Hashtable);
    assert_eq!(Set::new(seed(), b"1", 512).encoding(), Encoding::Intset);
    assert_eq!(Set::new(seed(), b"x", 129).encoding(), Encoding::Hashtable);
}

#[test]
fn results_become_intsets_and_remainders_listpacks() {
    let mut set = Set::new(seed(), b"x", 1000);
    (0..600).for_each(|number| assert!(set.add(number.to_string().as_bytes())));
    set.compact();
    assert_eq!(set.encoding(), Encoding::Hashtable);
    while set.len() > 100 {
        set.pop(12345);
    }
    set.rebuild();
    assert_eq!((set.encoding(), set.len()), (Encoding::Listpack, 100));
    set.check();
    set.compact();
    assert_eq!((set.encoding(), set.len()), (Encoding::Intset, 100));
    set.check();
}
