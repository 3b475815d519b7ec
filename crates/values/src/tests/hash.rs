use proptest::prelude::*;

use super::*;
use crate::{Encoding, Hash};

#[derive(Debug, Clone)]
enum Step {
    Set(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    /// The field of that rank, as a fraction of 256.
    RemoveNth(u8),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (names(), values()).prop_map(|(name, value)| Step::Set(name, value)),
        1 => names().prop_map(Step::Remove),
        1 => any::<u8>().prop_map(Step::RemoveNth),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_hash_is_the_model(
        growing in prop::collection::vec(steps(), 1..2500),
        shrinking in prop::collection::vec(any::<u8>(), 0..1200),
    ) {
        let mut hash = Hash::new(seed());
        // In order of insertion.
        let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut large = false;
        let shrinking = shrinking.into_iter().map(Step::RemoveNth);
        for (at, step) in growing.into_iter().chain(shrinking).enumerate() {
            match step {
                Step::Set(name, value) => {
                    large |= name.len() > 64 || value.len() > 64;
                    let old = model.iter_mut().find(|(other, _)| *other == name);
                    prop_assert_eq!(hash.set(&name, &value), old.is_none());
                    match old {
                        Some(old) => old.1 = value,
                        None => model.push((name, value)),
                    }
                    large |= model.len() > 512;
                }
                Step::Remove(name) => {
                    let at = model.iter().position(|(other, _)| *other == name);
                    prop_assert_eq!(hash.remove(&name), at.is_some());
                    if let Some(at) = at {
                        model.remove(at);
                    }
                }
                Step::RemoveNth(fraction) if !model.is_empty() => {
                    let (name, _) = model.remove(usize::from(fraction) * model.len() / 256);
                    prop_assert!(hash.remove(&name));
                }
                Step::RemoveNth(_) => {}
            }
            prop_assert_eq!(hash.len(), model.len());
            prop_assert_eq!(hash.encoding(), if large { Encoding::Hashtable } else { Encoding::Listpack });
            if at % 100 == 0 {
                compare(&hash, &model, large);
            }
        }
        compare(&hash, &model, large);
        let mut before = hash.bytes();
        while !hash.drop_some(10) {
            prop_assert!(hash.bytes() <= before);
            before = hash.bytes();
        }
        prop_assert_eq!(hash.bytes(), Hash::new(seed()).bytes());
    }
}

fn compare(hash: &Hash, model: &[(Vec<u8>, Vec<u8>)], large: bool) {
    hash.check();
    hash.clone().check();
    let mut expected: Vec<(&[u8], &[u8])> = model.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let mut all: Vec<(&[u8], &[u8])> = hash.iter().collect();
    let by_rank: Vec<(&[u8], &[u8])> = (0..hash.len()).filter_map(|rank| hash.nth(rank)).collect();
    assert_eq!(by_rank, all);
    if large {
        expected.sort_unstable();
        all.sort_unstable();
    }
    assert_eq!(all, expected);
    assert!(all.iter().all(|(name, value)| hash.get(name) == Some(value)));
    assert_eq!(hash.get(b"no such field"), None);
}

#[test]
fn a_small_hash_keeps_its_order() {
    let mut hash = Hash::new(seed());
    let names: Vec<String> = (0..512).rev().map(|number| format!("field {number}")).collect();
    names.iter().for_each(|name| assert!(hash.set(name.as_bytes(), b"1")));
    assert!(!hash.set(names[5].as_bytes(), b"2"));
    assert!(hash.remove(names[7].as_bytes()));
    let order: Vec<&[u8]> = hash.iter().map(|(name, _)| name).collect();
    let expected: Vec<&[u8]> = names
        .iter()
        .filter(|name| **name != names[7])
        .map(|name| name.as_bytes())
        .collect();
    assert_eq!(order, expected);
    assert_eq!(hash.encoding(), Encoding::Listpack);
}

#[test]
fn a_command_with_many_fields_makes_a_hashtable() {
    let mut hash = Hash::new(seed());
    hash.expect(512);
    assert_eq!(hash.encoding(), Encoding::Listpack);
    hash.expect(513);
    assert_eq!(hash.encoding(), Encoding::Hashtable);
}

#[test]
fn random_fields_are_equally_likely() {
    let mut hash = Hash::new(seed());
    (0..500).for_each(|number: u32| assert!(hash.set(&number.to_be_bytes(), b"")));
    let mut random = Random::new(3);
    let mut times = vec![0; 500];
    for _ in 0..500_000 {
        let (name, _) = hash.random(random.next()).expect("a field");
        times[u32::from_be_bytes(name.try_into().expect("four bytes")) as usize] += 1;
    }
    assert!(times.iter().all(|&times| (850..1150).contains(&times)), "{times:?}");
    assert_eq!(Hash::new(seed()).random(1), None);
}
