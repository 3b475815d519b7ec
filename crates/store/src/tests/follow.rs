//! Followers, roles, and dropping the entries of a slot.

use super::model::{Entry, Name, Pair, Step, TAGS, steps};
use super::{TINY, allocated, put_numbered};
use crate::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A copy of the slots that the tags are in, kept by reading what has changed.
struct Mirror {
    entries: BTreeMap<Name, Entry>,
    reads: Vec<(u16, u64)>,
}

impl Mirror {
    fn new(pair: &mut Pair) -> Mirror {
        let reads = TAGS.map(|tag| {
            let slot = slot_of(tag.as_bytes());
            (slot, pair.store.track(slot).unwrap())
        });
        Mirror {
            entries: pair.model.clone(),
            reads: reads.to_vec(),
        }
    }

    /// Reads what has changed in one slot; how many records that were.
    fn read(&mut self, pair: &mut Pair, at: usize) -> usize {
        let (slot, read) = self.reads[at];
        for flushed in pair.store.flushes_since(slot, read).unwrap() {
            let stays = |name: &Name| {
                slot_of(&name.1) != slot || flushed.is_some_and(|keyspace| keyspace != Keyspace::from(name.0))
            };
            self.entries.retain(|name, _| stays(name));
        }
        let mut next = pair.store.begin_changes(slot, read);
        let end = pair.store.changes_end();
        let mut records = 0;
        while let Some(position) = next.filter(|&position| position >= read) {
            let change = pair.store.change(position).unwrap();
            assert_eq!(slot_of(change.key), slot);
            let name = (change.space, change.key.to_vec());
            match pair.model.get(&name) {
                Some(entry) => self.entries.insert(name, entry.clone()),
                None => self.entries.remove(&name),
            };
            records += 1;
            next = Some(change.before);
        }
        self.reads[at].1 = end;
        records
    }

    fn read_all(&mut self, pair: &mut Pair) {
        for at in 0..self.reads.len() {
            self.read(pair, at);
        }
    }
}

#[derive(Clone, Debug)]
enum Do {
    Step(Step),
    Read { mirror: usize, at: usize },
    Forget,
}

fn acts() -> impl Strategy<Value = Vec<Do>> {
    let act = prop_oneof![
        30 => steps().prop_map(Do::Step),
        6 => (0..TAGS.len()).prop_map(|at| Do::Read { mirror: 0, at }),
        1 => (0..TAGS.len()).prop_map(|at| Do::Read { mirror: 1, at }),
        1 => Just(Do::Forget),
    ];
    prop::collection::vec(act, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn followers_miss_no_change(before in prop::collection::vec(steps(), 0..100), acts in acts()) {
        let mut pair = Pair::new(TINY);
        before.into_iter().for_each(|step| pair.run(step));
        let mut mirrors = [Mirror::new(&mut pair), Mirror::new(&mut pair)];
        for act in acts {
            match act {
                Do::Step(step) => {
                    // What the sweep drops is not listed: a follower sees by its own clock that it has expired.
                    let is_sweep = matches!(step, Step::Sweep { .. });
                    let names: Vec<Name> = pair.model.keys().cloned().collect();
                    pair.run(step);
                    for name in names.iter().filter(|name| is_sweep && !pair.model.contains_key(*name)) {
                        mirrors.iter_mut().for_each(|mirror| {
                            mirror.entries.remove(name);
                        });
                    }
                }
                Do::Read { mirror, at } => {
                    mirrors[mirror].read(&mut pair, at);
                }
                Do::Forget => {
                    for at in 0..TAGS.len() {
                        let (slot, read) = mirrors[0].reads[at];
                        pair.store.forget_changes(slot, read.min(mirrors[1].reads[at].1));
                    }
                    pair.store.take_changed_slots(&mut Vec::new());
                }
            }
        }
        for mirror in &mut mirrors {
            mirror.read_all(&mut pair);
            prop_assert_eq!(&mirror.entries, &pair.model);
            prop_assert_eq!((0..TAGS.len()).map(|at| mirror.read(&mut pair, at)).sum::<usize>(), 0);
        }
        pair.check();
    }
}

fn key(store: &Store, bytes: &[u8]) -> Place {
    store.find(&store.key(Space::Db(0), bytes).unwrap()).unwrap()
}

fn changed_slots(store: &mut Store) -> Vec<u16> {
    let mut changed = Vec::new();
    store.take_changed_slots(&mut changed);
    changed
}

#[test]
fn a_key_is_listed_once_until_it_is_read() {
    let mut store = Store::new(0..SLOTS, 8, 0);
    let slot = slot_of(b"t");
    put_numbered(&mut store, b"{t}1", Expiry::NEVER, 1);
    assert_eq!(store.changes_bytes(), 0, "it is not tracked");
    let since = store.track(slot).unwrap();
    assert_eq!(store.begin_changes(slot, since), None);
    let update = |store: &mut Store| {
        let place = key(store, b"{t}1");
        assert!(store.update(place, 1, Expiry::NEVER, true, &[3.0, 4.0]));
    };
    for _ in 0..100 {
        update(&mut store);
    }
    assert_eq!(changed_slots(&mut store), [slot]);
    assert_eq!(changed_slots(&mut store), []);
    let first = store.begin_changes(slot, since);
    let next = store.changes_end();
    let change = store.change(first.unwrap()).unwrap();
    assert_eq!(
        (change.space, change.key, change.before),
        (Space::Db(0), &b"{t}1"[..], 0)
    );
    assert_eq!(store.begin_changes(slot, next), None);
    update(&mut store);
    assert!(store.begin_changes(slot, next).is_some());
    assert_eq!(changed_slots(&mut store), [slot]);
    // Of another slot nothing is listed.
    put_numbered(&mut store, b"{u}1", Expiry::NEVER, 1);
    assert_eq!(changed_slots(&mut store), []);
    store.untrack(slot);
    let end = store.changes_end();
    put_numbered(&mut store, b"{t}2", Expiry::NEVER, 1);
    update(&mut store);
    assert_eq!(store.changes_end(), end);
}

/// Reads the records of a slot since a position: how many there are, and whether one is forgotten.
fn walk(store: &mut Store, slot: u16, since: u64) -> (usize, bool) {
    let mut at = store.begin_changes(slot, since);
    let mut walked = 0;
    while let Some(position) = at.filter(|&at| at >= since) {
        let Some(change) = store.change(position) else {
            return (walked, true);
        };
        at = Some(change.before);
        walked += 1;
    }
    (walked, false)
}

#[test]
fn who_is_too_far_behind_is_told() {
    let mut store = Store::new(0..SLOTS, 8, 0);
    store.set_changes_bytes_max(0);
    let slot = slot_of(b"t");
    let slow = store.track(slot).unwrap();
    let mut quick = store.track(slot).unwrap();
    let mut seen = 0;
    for number in 0..20_000 {
        put_numbered(&mut store, format!("{{t}}{number}").as_bytes(), Expiry::NEVER, number);
        if number % 100 == 99 {
            seen += walk(&mut store, slot, quick).0;
            quick = store.changes_end();
        }
    }
    assert_eq!(seen, 20_000);
    assert!(store.changes_bytes() <= 1 << 18, "{}", store.changes_bytes());
    let (walked, lost) = walk(&mut store, slot, slow);
    assert!(lost && walked > 100, "{walked}");
    assert_eq!(walk(&mut store, slot, quick), (0, false));
    for _ in 0..100 {
        let _ = store.flush(Some(Keyspace::Db(3)));
    }
    assert!(store.flushes_since(slot, slow).is_none());
}

#[test]
fn what_changes_after_a_flush_is_listed_after_it() {
    let mut store = Store::new(0..SLOTS, 8, 0);
    let slot = slot_of(b"t");
    store.track(slot).unwrap();
    let key = format!("{{t}}{}", "x".repeat(1_000));
    // Flushes while nothing is listed, and at all places of a segment: also where it is full.
    for round in 0..20_000 {
        let _ = store.flush(Some(Keyspace::Db(0)));
        let read = store.changes_end();
        put_numbered(&mut store, key.as_bytes(), Expiry::NEVER, round);
        assert_eq!(walk(&mut store, slot, read), (1, false), "{round}");
        assert!(store.changes_end() > read);
    }
}

#[test]
fn what_is_read_is_freed() {
    let mut store = Store::new(0..SLOTS, 8, 0);
    let slots = [slot_of(b"t"), slot_of(b"u")];
    let mut read = slots.map(|slot| store.track(slot).unwrap());
    for number in 0..200_000 {
        // What one slot has listed is not kept for what another has read long ago.
        let tag = if number % 30_000 == 7 { "u" } else { "t" };
        put_numbered(
            &mut store,
            format!("{{{tag}}}{number}").as_bytes(),
            Expiry::NEVER,
            number,
        );
        if number % 500 == 0 {
            for (&slot, read) in slots.iter().zip(&mut read) {
                let (walked, lost) = walk(&mut store, slot, *read);
                assert!(!lost);
                if walked > 0 {
                    *read = store.changes_end();
                    store.forget_changes(slot, *read);
                }
            }
        }
        if number % 500 == 250 {
            changed_slots(&mut store);
            assert!(store.changes_bytes() <= 1 << 20, "{}", store.changes_bytes());
        }
    }
    assert!(store.changes_bytes() <= 1 << 20, "{}", store.changes_bytes());
}

#[test]
fn slots_that_are_not_held_do_not_count() {
    let mut store = Store::with_bounds(0..SLOTS, 8, 0, TINY);
    for (tag, count) in [("a", 40), ("b", 30), ("c", 20)] {
        for number in 0..count {
            put_numbered(&mut store, format!("{{{tag}}}{number}").as_bytes(), Expiry::NEVER, 1);
        }
    }
    let [a, b, c] = ["a", "b", "c"].map(|tag| slot_of(tag.as_bytes()));
    store.set_role(b, Role::Replica);
    store.set_role(c, Role::Away);
    let db = Keyspace::Db(0);
    assert_eq!(store.len(db), 40);
    put_numbered(&mut store, b"{b}more", Expiry::NEVER, 1);
    let swept = Expiry::from_us(EXPIRY_UNIT_US);
    put_numbered(&mut store, b"{b}swept", swept, 1);
    store.remove_at(key(&store, b"{b}0"));
    while !store
        .sweep(10 * EXPIRY_UNIT_US, 10, &mut |view| view.role == Role::Replica)
        .wrapped
    {}
    assert_eq!(store.slot_len(db, b), 30);
    assert_eq!(
        (store.len(db), store.role(b), store.role(a)),
        (40, Role::Replica, Role::Held)
    );
    let mut seen = BTreeSet::new();
    let mut cursor = Some(Cursor::START);
    while let Some(at) = cursor {
        cursor = store.scan(db, at, 7, &mut |view| {
            assert_eq!(view.slot, a);
            seen.insert(view.entry.key().to_vec());
        });
    }
    assert_eq!(seen.len(), 40);
    for random in 0..200 {
        assert_eq!(store.random(db, random << 55 | random).unwrap().slot, a);
        if let Some(Relief::Evict(place)) = store.relieve(random, 3) {
            assert_eq!(store.view(place).slot, a);
        }
    }
    // A copy walks over a slot whatever it is.
    let (mut cursor, mut shown) = (Some(Cursor::at_slot(b)), 0);
    while let Some(at) = cursor {
        cursor = store.scan_slot(db, at, 4, &mut |view| {
            assert_eq!((view.slot, view.role), (b, Role::Replica));
            shown += 1;
        });
    }
    assert_eq!(shown, 30);
    store.set_role(a, Role::Away);
    assert!(store.random(db, 1).is_none() && store.relieve(1, 3).is_none());
    assert_eq!(store.len(db), 0);
    store.set_role(b, Role::Held);
    store.set_role(c, Role::Away);
    assert_eq!(store.len(db), 30);
    assert_eq!(store.bytes(), allocated(&store));
}

#[test]
fn a_slot_is_dropped_in_steps() {
    let mut store = Store::with_bounds(0..SLOTS, 8, 0, TINY);
    let slot = slot_of(b"t");
    for number in 0..500 {
        put_numbered(&mut store, format!("{{t}}{number}").as_bytes(), Expiry::NEVER, number);
        let rule = store
            .key(Space::Rule(3), format!("{{t}}{number}").into_bytes().leak())
            .unwrap();
        store
            .put(&rule, 9, Expiry::NEVER, false, State::Numbers(Numbers::default()))
            .unwrap();
    }
    put_numbered(&mut store, b"other", Expiry::NEVER, 1);
    store.set_role(slot, Role::Replica);
    let drop_all = |store: &mut Store, keyspace, since| {
        let (mut from, mut steps, mut params) = (Some(DropFrom::default()), 0, Vec::new());
        while let Some(at) = from {
            let before = params.len();
            from = store.drop_slot(slot, keyspace, since, at, 10, &mut |dropped| params.push(dropped));
            assert!(params.len() - before < 40);
            steps += 1;
        }
        (steps, params.len())
    };
    // A new copy has brought these; the others are no longer there.
    let since = store.begin_period(slot);
    for number in 100..130 {
        let place = key(&store, format!("{{t}}{number}").as_bytes());
        assert!(store.update(place, 1, Expiry::NEVER, false, &[1.0, 2.0]));
    }
    let place = key(&store, b"{t}7");
    store.touch_mark(place);
    // Another copy has begun meanwhile.
    store.begin_period(slot);
    let (steps, dropped) = drop_all(&mut store, Some(Keyspace::Db(0)), Some(since));
    assert!(steps > 10);
    assert_eq!((dropped, store.slot_len(Keyspace::Db(0), slot)), (469, 31));
    assert_eq!(store.slot_len(Keyspace::Rules, slot), 500);
    assert_eq!(drop_all(&mut store, None, None).1, 531);
    assert_eq!((store.len(Keyspace::Db(0)), store.len(Keyspace::Rules)), (1, 0));
    store.set_role(slot, Role::Held);
    assert_eq!(store.len(Keyspace::Db(0)), 1);
    assert_eq!(store.bytes(), allocated(&store));
}
