use proptest::prelude::*;

use crate::{Encoding, End, List, PositionSearch, Removal};

/// Few different ones, so that searches find them.
fn elements() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0..6u8).prop_map(|number| vec![b'a' + number]),
        1 => (0..100_000i64).prop_map(|number| number.to_string().into_bytes()),
        1 => (20..200usize).prop_map(|len| vec![b'x'; len]),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Push(bool, Vec<u8>),
    Pop(bool),
    Set(u8, Vec<u8>),
    Insert(u8, Vec<u8>),
    Remove(i64, Vec<u8>),
    Trim(u8, u8),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => (any::<bool>(), elements()).prop_map(|(left, element)| Step::Push(left, element)),
        15 => any::<bool>().prop_map(Step::Pop),
        10 => (any::<u8>(), elements()).prop_map(|(at, element)| Step::Set(at, element)),
        40 => (any::<u8>(), elements()).prop_map(|(at, element)| Step::Insert(at, element)),
        3 => (-6..6i64, elements()).prop_map(|(count, element)| Step::Remove(count, element)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(start, end)| Step::Trim(start, end)),
    ]
}

fn end(left: bool) -> End {
    if left { End::Left } else { End::Right }
}

fn remove(model: &mut Vec<Vec<u8>>, count: i64, element: &[u8]) -> usize {
    let mut at: Vec<usize> = (0..model.len()).filter(|at| model[*at] == element).collect();
    if count < 0 {
        at.reverse();
    }
    at.truncate(if count == 0 {
        usize::MAX
    } else {
        count.unsigned_abs() as usize
    });
    at.sort_unstable();
    at.iter().rev().for_each(|at| drop(model.remove(*at)));
    at.len()
}

fn run(list: &mut List, model: &mut Vec<Vec<u8>>, step: Step) {
    let index = |fraction: u8, len: usize| usize::from(fraction) * (len + 1) / 256;
    match step {
        Step::Push(left, element) => {
            list.expect(element.len());
            list.push(end(left), &element);
            model.insert(if left { 0 } else { model.len() }, element);
        }
        Step::Pop(left) => {
            let expected = if model.is_empty() {
                None
            } else {
                Some(model.remove(if left { 0 } else { model.len() - 1 }))
            };
            assert_eq!(list.pop(end(left)), expected);
        }
        Step::Set(at, element) => {
            let at = index(at, model.len());
            list.expect(element.len());
            assert_eq!(list.set(at, &element), at < model.len());
            if let Some(old) = model.get_mut(at) {
                *old = element;
            }
        }
        Step::Insert(at, element) => {
            let at = index(at, model.len());
            list.expect(element.len());
            list.insert(at, &element);
            model.insert(at, element);
        }
        Step::Remove(count, element) => {
            let mut removal = Removal::new(count);
            let (before, mut removed) = (list.clone(), Vec::new());
            while !list.remove_some(&mut removal, &element, 7, &mut |index| removed.push(index)) {}
            assert_eq!(removal.removed(), remove(model, count, &element));
            let mut taken_back = list.clone();
            removed
                .iter()
                .rev()
                .for_each(|&index| taken_back.insert(index, &element));
            assert!(taken_back.range(0..usize::MAX).eq(before.range(0..usize::MAX)));
        }
        Step::Trim(start, stop) => {
            let (start, stop) = (index(start, model.len()), index(stop, model.len()));
            let mut keep = Some(start..stop);
            while let Some(range) = keep {
                let before = list.len();
                keep = list.trim_some(range, 9);
                assert!(before - list.len() <= 9);
            }
            *model = model.iter().take(stop).skip(start).cloned().collect();
        }
    }
}

fn positions(model: &[Vec<u8>], element: &[u8], rank: i64, count: usize, maxlen: usize) -> Vec<usize> {
    let order: Vec<usize> = if rank > 0 {
        (0..model.len()).collect()
    } else {
        (0..model.len()).rev().collect()
    };
    let maxlen = if maxlen == 0 { usize::MAX } else { maxlen };
    let matches = order.into_iter().take(maxlen).filter(|at| model[*at] == element);
    let skipped = matches.skip(rank.unsigned_abs() as usize - 1);
    skipped.take(if count == 0 { usize::MAX } else { count }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_list_is_the_model(
        steps in prop::collection::vec(steps(), 1..500),
        searches in prop::collection::vec((elements(), 1..4i64, any::<bool>(), 0..4usize, 0..60usize), 10),
        range in any::<(usize, usize)>(),
    ) {
        let (mut list, mut model) = (List::new(), Vec::new());
        for (at, step) in steps.into_iter().enumerate() {
            run(&mut list, &mut model, step);
            prop_assert_eq!(list.len(), model.len());
            if at % 20 == 0 {
                list.check();
                prop_assert_eq!(list.range(0..usize::MAX).collect::<Vec<_>>(), model.iter().map(|element| &element[..]).collect::<Vec<_>>());
            }
        }
        list.clone().check();
        let (start, stop) = (range.0 % (model.len() + 2), range.1 % (model.len() + 2));
        let expected: Vec<&[u8]> = model.iter().take(stop).skip(start).map(|element| &element[..]).collect();
        prop_assert_eq!(list.range(start..stop).collect::<Vec<_>>(), expected.clone());
        let back: Vec<&[u8]> = expected.into_iter().rev().collect();
        prop_assert_eq!(list.range_back(start..stop).collect::<Vec<_>>(), back);
        let mut without = list.clone();
        without.remove(start..stop);
        without.check();
        let others = (0..model.len()).filter(|at| !(start..stop).contains(at));
        prop_assert!(without.range(0..usize::MAX).eq(others.map(|at| &model[at][..])));
        for at in 0..model.len() + 1 {
            prop_assert_eq!(list.get(at), model.get(at).map(|element| &element[..]));
        }
        for (element, rank, left, count, maxlen) in searches {
            let rank = if left { rank } else { -rank };
            let mut search = PositionSearch::new(rank, count, maxlen).expect("a rank");
            let mut found = Vec::new();
            while !list.search_some(&mut search, &element, 7, &mut |at| found.push(at)) {}
            prop_assert_eq!(found, positions(&model, &element, rank, count, maxlen));
        }
        while !list.drop_some(10) {}
        prop_assert_eq!(list.bytes(), List::new().bytes());
    }
}

#[test]
fn encodings_change_where_those_of_redis_do() {
    let mut list = List::new();
    let element = [b'x'; 100];
    while list.encoding() == Encoding::Listpack {
        list.expect(element.len());
        list.push(End::Right, &element);
    }
    // 79 elements of 103 bytes and 7 for the listpack are 8,144, which leaves no room for 100 more.
    assert_eq!(list.len(), 80);
    while list.encoding() == Encoding::Quicklist {
        list.pop(End::Left);
    }
    assert_eq!(list.len(), 39);
    assert!(PositionSearch::new(0, 1, 0).is_none());
}
