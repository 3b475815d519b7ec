//! Values to bytes and back.

use super::{Random, names, seed, values};
use crate::{Encoding, End, Export, Hash, Import, List, NotAValue, Score, Set, SortedSet, StringValue, Value};
use proptest::prelude::*;

fn scores() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-100..100i32).prop_map(f64::from),
        2 => any::<f64>().prop_filter("a score", |score| !score.is_nan()),
        1 => prop::sample::select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, 0.1 + 0.2]),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let len = || prop_oneof![3 => 1..20usize, 2 => 100..140usize, 1 => 400..900usize];
    let many = move |of: BoxedStrategy<Vec<u8>>| len().prop_flat_map(move |len| prop::collection::vec(of.clone(), len));
    prop_oneof![
        any::<i64>().prop_map(|integer| StringValue::from_integer(integer).into()),
        prop::collection::vec(any::<u8>(), 0..3000).prop_map(|text| StringValue::new(&text).into()),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(|text| {
            let mut string = StringValue::for_modification();
            string.append(&text);
            string.into()
        }),
        (many(values().boxed()), any::<bool>()).prop_map(|(elements, expect)| {
            let mut list = List::new();
            if expect {
                list.expect(elements.iter().map(Vec::len).sum());
            }
            elements.iter().for_each(|element| list.push(End::Right, element));
            Value::List(Box::new(list))
        }),
        many(prop_oneof![names(), (-3000..3000i32).prop_map(|n| n.to_string().into_bytes())].boxed()).prop_map(
            |members| {
                let mut set = Set::new(seed(), &members[0], 1);
                members.iter().for_each(|member| {
                    set.add(member);
                });
                Value::Set(Box::new(set))
            }
        ),
        prop::collection::vec(any::<i16>(), 1..600).prop_map(|members| {
            let mut set = Set::new(seed(), b"1", 1);
            members.iter().for_each(|member| {
                set.add(member.to_string().as_bytes());
            });
            Value::Set(Box::new(set))
        }),
        (many(names().boxed()), values()).prop_map(|(fields, value)| {
            let mut hash = Hash::new(seed());
            fields.iter().for_each(|field| {
                hash.set(field, &value[..value.len().min(field.len())]);
            });
            Value::Hash(Box::new(hash))
        }),
        (many(names().boxed()), prop::collection::vec(scores(), 900)).prop_map(|(members, scores)| {
            let mut set = SortedSet::new(seed());
            members.iter().zip(scores).for_each(|(member, score)| {
                set.insert(member, Score::new(score).unwrap());
            });
            Value::SortedSet(Box::new(set))
        }),
    ]
}

/// What is in a value, in order if it has one.
fn contents(value: &Value) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = match value {
        Value::String(string) => vec![string.text().to_vec()],
        Value::List(list) => list.range(0..list.len()).map(<[u8]>::to_vec).collect(),
        Value::Set(set) => set.iter().map(|member| member.to_vec()).collect(),
        Value::Hash(hash) => hash
            .iter()
            .map(|(field, value)| [field, b"=", value].concat())
            .collect(),
        Value::SortedSet(set) => set
            .range(0..set.len())
            .map(|(member, score)| [member, &score.get().to_bits().to_be_bytes()].concat())
            .collect(),
    };
    if value.encoding() == Encoding::Hashtable {
        all.sort_unstable();
    }
    all
}

fn parts(value: &Value, random: &mut Random) -> Vec<Vec<u8>> {
    let mut export = Export::new();
    let mut parts = Vec::new();
    loop {
        let mut part = Vec::new();
        let bytes = 1 << (random.next() % 14);
        let last = export.write_some(value, bytes, &mut part).unwrap();
        let is_small = !matches!(
            value.encoding(),
            Encoding::Raw | Encoding::Quicklist | Encoding::Hashtable | Encoding::Skiplist
        );
        assert!(last || !is_small);
        assert!(is_small || part.len() <= bytes + 2);
        parts.push(part);
        if last {
            return parts;
        }
    }
}

fn import(parts: &[Vec<u8>]) -> Result<Value, NotAValue> {
    let mut import = Import::new(seed());
    parts.iter().try_for_each(|part| import.read_some(part))?;
    import.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_value_comes_back_as_it_was(value in any_value(), random in any::<u64>()) {
        let mut random = Random::new(random);
        let parts = parts(&value, &mut random);
        let back = import(&parts).unwrap();
        prop_assert_eq!(back.encoding(), value.encoding());
        prop_assert_eq!(contents(&back), contents(&value));
        // Where a part ends is of no importance.
        let whole = parts.concat();
        let cut = random.next() as usize % whole.len();
        let again = import(&[whole[..cut].to_vec(), whole[cut..].to_vec()]).unwrap();
        prop_assert_eq!(contents(&again), contents(&value));
        // What is not whole is no value, or one of fewer elements, or a shorter string.
        if let Ok(less) = import(&[whole[..cut].to_vec()]) {
            prop_assert!(contents(&less).concat().len() < contents(&value).concat().len() || less.elements() < value.elements());
        }
    }

    #[test]
    fn other_bytes_are_refused_or_a_value(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..16u8) {
        if let Some(start) = bytes.first_chunk_mut::<2>() {
            *start = [1, kind];
        }
        if let Ok(value) = import(&[bytes]) {
            prop_assert!(value.elements() > 0);
        }
    }

    #[test]
    fn damaged_bytes_do_no_harm(value in any_value(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = parts(&value, &mut Random::new(1)).concat();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(value) = import(&[bytes]) {
            prop_assert!(value.elements() > 0);
        }
    }
}

#[test]
fn lengths_beyond_what_is_there_allocate_nothing() {
    let mut bytes = vec![1, 4];
    crate::varint::put(&mut bytes, 1 << 30);
    bytes.push(b'x');
    let mut import = Import::new(seed());
    import.read_some(&bytes).unwrap();
    assert!(import.abandon().is_none());
    let mut bytes = vec![1, 9];
    crate::varint::put(&mut bytes, u64::MAX);
    assert!(Import::new(seed()).read_some(&bytes).is_err());
}

#[test]
fn a_large_value_is_many_parts_and_a_changed_one_goes_on() {
    let mut list = List::new();
    list.expect(1 << 20);
    for number in 0..100_000 {
        list.push(End::Right, format!("element {number}").as_bytes());
    }
    let mut export = Export::new();
    let (mut value, mut parts) = (Value::List(Box::new(list)), Vec::new());
    loop {
        let mut part = Vec::new();
        let last = export.write_some(&value, 1 << 16, &mut part).unwrap();
        assert!(part.len() <= (1 << 16) + 2);
        parts.push(part);
        if last {
            break;
        }
        if let Value::List(list) = &mut value {
            list.push(End::Left, b"pushed");
            list.remove(5..2_000);
        }
    }
    assert!(parts.len() > 20);
    assert!(import(&parts).is_ok());
    let mut export = Export::new();
    export.write_some(&value, 10, &mut Vec::new()).unwrap();
    let other = Value::from(StringValue::from_integer(3));
    assert!(export.write_some(&other, 10, &mut Vec::new()).is_err());
}
