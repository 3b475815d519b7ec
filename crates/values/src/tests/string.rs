use proptest::prelude::*;

use crate::{Encoding, StringValue, bits};

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<u8>),
    SetRange(usize, Vec<u8>),
    SetBit(usize, bool),
    SetField(usize, u32, u64),
    Grow(usize),
    Truncate(usize),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::Append),
        (0..300usize, prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(offset, part)| Step::SetRange(offset, part)),
        (0..2000usize, any::<bool>()).prop_map(|(offset, on)| Step::SetBit(offset, on)),
        (0..2000usize, 1..=64u32, any::<u64>()).prop_map(|(offset, bits, value)| Step::SetField(offset, bits, value)),
        (0..400usize).prop_map(Step::Grow),
        (0..300usize).prop_map(Step::Truncate),
    ]
}

fn bit(model: &[u8], offset: usize) -> bool {
    model
        .get(offset / 8)
        .is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

proptest! {
    #[test]
    fn a_string_is_the_model(text in "[0-9]{0,3}|[a-z]{0,50}", steps in prop::collection::vec(steps(), 0..50)) {
        let mut string = StringValue::new(text.as_bytes());
        let mut model = text.into_bytes();
        for step in steps {
            let padded = |model: &mut Vec<u8>, len: usize| model.resize(model.len().max(len), 0);
            match step {
                Step::Append(more) => {
                    model.extend(&more);
                    prop_assert_eq!(string.append(&more), model.len());
                }
                Step::SetRange(offset, part) => {
                    if !part.is_empty() {
                        padded(&mut model, offset + part.len());
                        model[offset..offset + part.len()].copy_from_slice(&part);
                    }
                    prop_assert_eq!(string.set_range(offset, &part), model.len());
                }
                Step::SetBit(offset, on) => {
                    prop_assert_eq!(string.set_bit(offset, on), bit(&model, offset));
                    padded(&mut model, offset / 8 + 1);
                    let mask = 1 << (7 - offset % 8);
                    model[offset / 8] = model[offset / 8] & !mask | if on { mask } else { 0 };
                }
                Step::SetField(offset, count, value) => {
                    let before = (offset..offset + count as usize).fold(0, |field, at| field << 1 | u64::from(bit(&model, at)));
                    prop_assert_eq!(bits::field(&string.text(), offset, count), before);
                    string.set_field(offset, count, value);
                    padded(&mut model, (offset + count as usize).div_ceil(8));
                    for at in 0..count as usize {
                        let mask = 1 << (7 - (offset + at) % 8);
                        let on = value >> (count as usize - 1 - at) & 1 == 1;
                        let byte = &mut model[(offset + at) / 8];
                        *byte = *byte & !mask | if on { mask } else { 0 };
                    }
                }
                Step::Grow(len) => {
                    let len = len.max(model.len());
                    let mut growth = string.start_growth(len);
                    while !growth.copy_some(&string, 7) {}
                    string = growth.finish();
                    padded(&mut model, len);
                    prop_assert_eq!(string.growth_bytes(len), 0);
                }
                Step::Truncate(len) => {
                    string.truncate(len);
                    model.truncate(len);
                }
            }
            prop_assert_eq!(&*string.text(), &model[..]);
            prop_assert!(string.bytes() >= model.len());
        }
    }

    #[test]
    fn bits_are_those_of_the_model(
        bytes in prop::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 0..60),
        ends in (0..=480usize, 0..=480usize),
    ) {
        let most = bytes.len() * 8;
        let range = ends.0.min(most)..ends.1.min(most);
        let expected: Vec<usize> = range.clone().filter(|offset| bit(&bytes, *offset)).collect();
        prop_assert_eq!(bits::count(&bytes, range.clone()), expected.len());
        prop_assert_eq!(bits::find(&bytes, range.clone(), true), expected.first().copied());
        let zero = range.clone().find(|offset| !bit(&bytes, *offset));
        prop_assert_eq!(bits::find(&bytes, range, false), zero);
        prop_assert!((0..500).all(|offset| bits::get(&bytes, offset) == bit(&bytes, offset)));
    }

    #[test]
    fn appending_copies_seldom(parts in prop::collection::vec(1..500usize, 1..300)) {
        let mut string = StringValue::from_bytes(b"");
        let mut grown = 0;
        for len in parts {
            let before = string.bytes();
            string.append(&vec![b'x'; len]);
            grown += usize::from(string.bytes() != before);
        }
        prop_assert!(grown <= 20, "{grown}");
    }
}

#[test]
fn encodings_are_those_of_redis() {
    let cases: [(&[u8], Encoding); 7] = [
        (b"12", Encoding::Int),
        (b"-9223372036854775808", Encoding::Int),
        (b"9223372036854775808", Encoding::Embstr),
        (b"012", Encoding::Embstr),
        (b"", Encoding::Embstr),
        (&[b'x'; 44], Encoding::Embstr),
        (&[b'x'; 45], Encoding::Raw),
    ];
    for (text, encoding) in cases {
        assert_eq!(StringValue::new(text).encoding(), encoding, "{}", text.escape_ascii());
    }
    assert_eq!(StringValue::from_bytes(b"3").encoding(), Encoding::Embstr);
    let mut string = StringValue::new(b"1");
    string.append(b"0");
    assert_eq!((string.encoding(), string.integer()), (Encoding::Raw, Some(10)));
}

#[test]
fn getrange_resolves_as_redis_does() {
    let string = StringValue::new(b"This is a string");
    let cases = [
        ((0, 3), "This"),
        ((-3, -1), "ing"),
        ((0, -1), "This is a string"),
        ((10, 100), "string"),
        ((5, 3), ""),
        ((-1, -5), ""),
        ((0, -100), "T"),
        ((-100, 1), "Th"),
        ((16, 20), ""),
        ((i64::MIN, i64::MAX), "This is a string"),
    ];
    for ((start, end), expected) in cases {
        assert_eq!(
            &string.text()[string.resolve(start, end)],
            expected.as_bytes(),
            "{start} {end}"
        );
    }
}
