//! What a scan promises: whatever is there from its first step to its last is shown.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{Hash, Score, Set, SortedSet};

/// What a scan can walk over.
trait Scanned {
    fn put(&mut self, name: &[u8]);
    fn take(&mut self, name: &[u8]);
    fn step(&self, cursor: u64, count: usize, seen: &mut BTreeSet<Vec<u8>>) -> u64;
}

impl Scanned for Hash {
    fn put(&mut self, name: &[u8]) {
        self.set(name, name);
    }

    fn take(&mut self, name: &[u8]) {
        self.remove(name);
    }

    fn step(&self, cursor: u64, count: usize, seen: &mut BTreeSet<Vec<u8>>) -> u64 {
        self.scan(cursor, count, &mut |name, value| {
            assert_eq!(name, value);
            seen.insert(name.to_vec());
        })
    }
}

impl Scanned for Set {
    fn put(&mut self, name: &[u8]) {
        self.add(name);
    }

    fn take(&mut self, name: &[u8]) {
        self.remove(name);
    }

    fn step(&self, cursor: u64, count: usize, seen: &mut BTreeSet<Vec<u8>>) -> u64 {
        self.scan(cursor, count, &mut |name| {
            seen.insert(name.to_vec());
        })
    }
}

impl Scanned for SortedSet {
    fn put(&mut self, name: &[u8]) {
        self.insert(name, Score::new(name.len() as f64).expect("a number"));
    }

    fn take(&mut self, name: &[u8]) {
        self.remove(name);
    }

    fn step(&self, cursor: u64, count: usize, seen: &mut BTreeSet<Vec<u8>>) -> u64 {
        self.scan(cursor, count, &mut |name, _| {
            seen.insert(name.to_vec());
        })
    }
}

/// Scans while each step is followed by some changes.
fn scan_while_changing(
    mut scanned: impl Scanned,
    before: &[Vec<u8>],
    between: &[(Vec<u8>, bool)],
    count: usize,
    changes_a_step: usize,
) {
    before.iter().for_each(|name| scanned.put(name));
    let mut throughout: BTreeSet<Vec<u8>> = before.iter().cloned().collect();
    let (mut seen, mut cursor) = (BTreeSet::new(), 0);
    let mut changes = between.chunks(changes_a_step);
    loop {
        let next = scanned.step(cursor, count, &mut seen);
        assert!(next == 0 || next > cursor, "{next} after {cursor}");
        assert!(next < 1 << 48);
        if next == 0 {
            break;
        }
        cursor = next;
        for (name, put) in changes.next().unwrap_or_default() {
            if *put {
                scanned.put(name);
            } else {
                scanned.take(name);
                throughout.remove(name);
            }
        }
    }
    let missed: Vec<_> = throughout.difference(&seen).collect();
    assert!(missed.is_empty(), "missed {missed:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_scan_shows_what_was_there_throughout(
        before in prop::collection::vec(names(), 1..1200),
        between in prop::collection::vec((names(), any::<bool>()), 1..1500),
        shrinks in any::<bool>(),
        count in 1..60usize,
        changes_a_step in 1..300usize,
    ) {
        let between: Vec<(Vec<u8>, bool)> = between.into_iter().map(|(name, put)| (name, put && !shrinks)).collect();
        // It may end as a listpack's, but begins with a cursor of a hashtable.
        scan_while_changing(Hash::new(seed()), &before, &between, count, changes_a_step);
        scan_while_changing(Set::new(seed(), b"x", 1), &before, &between, count, changes_a_step);
        scan_while_changing(SortedSet::new(seed()), &before, &between, count, changes_a_step);
    }
}

#[test]
fn a_small_one_comes_at_once_whatever_the_cursor() {
    let mut hash = Hash::new(seed());
    (0..512u16).for_each(|number| hash.put(&number.to_be_bytes()));
    for cursor in [0, 1 << 47] {
        let mut seen = BTreeSet::new();
        assert_eq!(hash.step(cursor, 1, &mut seen), 0);
        assert_eq!(seen.len(), 512);
    }
}

#[test]
fn a_step_shows_about_what_was_asked_for() {
    let mut set = Set::new(seed(), b"x", 1);
    (0..10_000).for_each(|number| set.put(format!("member {number}").as_bytes()));
    let (mut cursor, mut steps, mut all) = (0, 0, BTreeSet::new());
    loop {
        let mut seen = BTreeSet::new();
        cursor = set.step(cursor, 100, &mut seen);
        assert!(seen.len() < 100 + 32 && (seen.len() >= 100 || cursor == 0));
        all.extend(seen);
        steps += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!(all.len() == 10_000 && (76..=100).contains(&steps));
}

#[test]
fn an_empty_first_partition_gives_its_range_to_the_next() {
    let mut set = Set::new(seed(), b"x", 1000);
    let partition = |set: &Set, cursor: u64| {
        let mut members = BTreeSet::new();
        let next = set.step(cursor, 1, &mut members);
        (members, next)
    };
    // The second one has no room for what is left of the first.
    for number in 0.. {
        set.put(format!("member {number}").as_bytes());
        let (_, second) = partition(&set, 0);
        if second > 0 && partition(&set, second).0.len() > 28 {
            break;
        }
    }
    let (first, _) = partition(&set, 0);
    first.iter().for_each(|member| set.take(member));
    set.check();
    first.iter().for_each(|member| set.put(member));
    set.check();
}
