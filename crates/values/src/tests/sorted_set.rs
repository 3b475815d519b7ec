use proptest::prelude::*;

use super::*;
use crate::{Encoding, Inserted, LexBound, Score, ScoreBound, SortedSet};

fn score(value: f64) -> Score {
    Score::new(value).expect("a number")
}

fn scores() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-20..20i32).prop_map(|number| f64::from(number) / 2.0),
        1 => prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 5e-324]),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u8>, f64),
    Remove(Vec<u8>),
    RemoveRanks(u8, u8, usize),
    Pop(bool),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (names(), scores()).prop_map(|(name, score)| Step::Insert(name, score)),
        6 => names().prop_map(Step::Remove),
        1 => (any::<u8>(), any::<u8>(), 1..40usize).prop_map(|(start, end, budget)| Step::RemoveRanks(start, end, budget)),
        4 => any::<bool>().prop_map(Step::Pop),
    ]
}

type Model = Vec<(Score, Vec<u8>)>;

/// The fraction of 256 as a rank.
fn rank_at(model: &Model, fraction: u8) -> usize {
    usize::from(fraction) * (model.len() + 1) / 256
}

fn run(set: &mut SortedSet, model: &mut Model, step: Step) {
    match step {
        Step::Insert(name, value) => {
            let at = model.iter().position(|(_, other)| *other == name);
            let expected = match at {
                None => Inserted::Added,
                Some(at) if model[at].0.get() == value => Inserted::Unchanged,
                Some(_) => Inserted::Updated,
            };
            assert_eq!(set.insert(&name, score(value)), expected);
            if expected != Inserted::Unchanged {
                at.map(|at| model.remove(at));
                model.push((score(value), name));
                model.sort();
            }
        }
        Step::Remove(name) => {
            let at = model.iter().position(|(_, other)| *other == name);
            let removed = at.map(|at| model.remove(at).0);
            assert_eq!(set.remove(&name), removed);
        }
        Step::RemoveRanks(start, end, budget) => {
            let (start, end) = (rank_at(model, start), rank_at(model, end));
            let expected = end.saturating_sub(start).min(budget);
            assert_eq!(set.remove_ranks(start..end, budget), expected);
            model.drain(start..start + expected);
        }
        Step::Pop(min) => {
            let popped = if min { set.pop_min() } else { set.pop_max() };
            let at = if min { 0 } else { model.len().saturating_sub(1) };
            let expected = (at < model.len()).then(|| model.remove(at));
            assert_eq!(popped.map(|(member, score)| (score, member)), expected);
        }
    }
}

fn compare(set: &SortedSet, model: &Model) {
    set.check();
    set.clone().check();
    let expected: Vec<(&[u8], Score)> = model.iter().map(|(score, member)| (&member[..], *score)).collect();
    assert_eq!(set.range(0..usize::MAX).collect::<Vec<_>>(), expected);
    for (rank, (member, score)) in expected.iter().enumerate() {
        assert_eq!(set.rank(member), Some(rank));
        assert_eq!(set.score(member), Some(*score));
        assert_eq!(set.nth(rank), Some((*member, *score)));
    }
    assert_eq!((set.rank(b"no such member"), set.nth(model.len())), (None, None));
}

fn compare_ranges(set: &SortedSet, model: &Model, ends: [u8; 2], bounds: [f64; 2], inclusive: [bool; 2]) {
    let (start, end) = (rank_at(model, ends[0]), rank_at(model, ends[1]));
    let expected: Vec<&[u8]> = model
        .iter()
        .skip(start)
        .take(end.saturating_sub(start))
        .map(|(_, member)| &member[..])
        .collect();
    assert_eq!(
        set.range(start..end).map(|(member, _)| member).collect::<Vec<_>>(),
        expected
    );
    let back: Vec<&[u8]> = set.range_back(start..end).map(|(member, _)| member).collect();
    assert_eq!(back.into_iter().rev().collect::<Vec<_>>(), expected);
    let bound = |at: usize| {
        let score = score(bounds[at]);
        if inclusive[at] {
            ScoreBound::Inclusive(score)
        } else {
            ScoreBound::Exclusive(score)
        }
    };
    let after = |score: f64| {
        if inclusive[0] {
            score >= bounds[0]
        } else {
            score > bounds[0]
        }
    };
    let before = |score: f64| {
        if inclusive[1] {
            score <= bounds[1]
        } else {
            score < bounds[1]
        }
    };
    let expected: Vec<usize> = (0..model.len())
        .filter(|at| after(model[*at].0.get()) && before(model[*at].0.get()))
        .collect();
    let range = set.score_range(bound(0), bound(1));
    assert_eq!(range.clone().collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_sorted_set_is_the_model(
        steps in prop::collection::vec(steps(), 1..600),
        ranges in prop::collection::vec((any::<[u8; 2]>(), [scores(), scores()], any::<[bool; 2]>()), 12),
    ) {
        let (mut set, mut model) = (SortedSet::new(seed()), Model::new());
        let mut ranges = ranges.into_iter().cycle();
        for (at, step) in steps.into_iter().enumerate() {
            run(&mut set, &mut model, step);
            prop_assert_eq!(set.len(), model.len());
            if at % 30 == 0 {
                compare(&set, &model);
                let (ends, bounds, inclusive) = ranges.next().expect("ranges");
                compare_ranges(&set, &model, ends, bounds, inclusive);
            }
        }
        compare(&set, &model);
        while !set.drop_some(10) {}
        prop_assert_eq!(set.bytes(), SortedSet::new(seed()).bytes());
    }

    #[test]
    fn ranges_of_members_are_those_of_the_model(
        members in prop::collection::btree_set("[a-d]{0,4}", 0..200),
        ends in ["[a-d]{0,4}", "[a-d]{0,4}"],
        kinds in [0..4u8, 0..4u8],
    ) {
        let mut set = SortedSet::new(seed());
        members.iter().for_each(|member| assert_eq!(set.insert(member.as_bytes(), score(1.0)), Inserted::Added));
        let bound = |at: usize| match kinds[at] {
            0 => LexBound::Min,
            1 => LexBound::Max,
            2 => LexBound::Inclusive(ends[at].as_bytes()),
            _ => LexBound::Exclusive(ends[at].as_bytes()),
        };
        let after = |member: &str| match kinds[0] { 0 => true, 1 => false, 2 => member >= ends[0].as_str(), _ => member > ends[0].as_str() };
        let before = |member: &str| match kinds[1] { 0 => false, 1 => true, 2 => member <= ends[1].as_str(), _ => member < ends[1].as_str() };
        let expected: Vec<&[u8]> = members
            .iter()
            .filter(|member| after(member) && before(member))
            .map(|member| member.as_bytes())
            .collect();
        let found: Vec<&[u8]> = set.range(set.lex_range(bound(0), bound(1))).map(|(member, _)| member).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn encodings_change_where_those_of_redis_do() {
    let of = |count: u32| {
        let mut set = SortedSet::new(seed());
        (0..count).for_each(|number| assert_eq!(set.insert(&number.to_be_bytes(), score(0.0)), Inserted::Added));
        set
    };
    assert_eq!(of(128).encoding(), Encoding::Listpack);
    let mut set = of(129);
    assert_eq!(set.encoding(), Encoding::Skiplist);
    set.pop_max();
    assert_eq!(set.encoding(), Encoding::Skiplist);
    set.compact();
    assert_eq!(set.encoding(), Encoding::Listpack);
    set.insert(&[b'x'; 65], score(0.0));
    assert_eq!(set.encoding(), Encoding::Skiplist);
    set.check();
    let mut set = of(1);
    set.expect(128, 64);
    assert_eq!(set.encoding(), Encoding::Listpack);
    set.expect(129, 0);
    assert_eq!(set.encoding(), Encoding::Skiplist);
    set.check();
}

#[test]
fn scores_are_numbers_and_zero_is_zero() {
    assert!(Score::new(f64::NAN).is_none());
    let mut set = SortedSet::new(seed());
    assert_eq!(set.insert(b"a", score(0.0)), Inserted::Added);
    assert_eq!(set.insert(b"a", score(-0.0)), Inserted::Unchanged);
    assert!(set.score(b"a").expect("a member").get().is_sign_positive());
}
