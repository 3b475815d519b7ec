//! The store against a model, with pages so small that they split and merge all the time.

use crate::layout::Bounds;
use crate::slot_map::SlotMap;
use crate::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TINY: Bounds = Bounds {
    entries: 6,
    bytes: 1024,
};

/// A hash tag for each of a few slots, so that slots are crowded.
const TAGS: [&str; 4] = ["{a}", "{b}", "{c}", "{d}"];

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    params: u32,
    expiry: Expiry,
    pinned: bool,
    state: OwnState,
}

#[derive(Clone, Debug, PartialEq)]
enum OwnState {
    Numbers(Vec<f64>),
    Blob(Vec<u8>),
}

impl OwnState {
    fn of(state: State) -> OwnState {
        match state {
            State::Numbers(numbers) => OwnState::Numbers(numbers.to_vec()),
            State::Blob(blob) => OwnState::Blob(blob.to_vec()),
        }
    }

    fn as_state(&self) -> State<'_> {
        match self {
            OwnState::Numbers(numbers) => State::Numbers(Numbers::new(numbers).unwrap()),
            OwnState::Blob(blob) => State::Blob(blob),
        }
    }
}

type Name = (Space, Vec<u8>);

#[derive(Clone, Debug)]
enum Step {
    Put(Name, Entry),
    Update(Name, Entry),
    Remove(Name),
    Sweep { now: u64, budget: usize },
    Offset { tag: usize, us: i64 },
    Flush(Option<Keyspace>),
    Scan { keyspace: Keyspace, want: usize },
    Evict(u64),
}

fn spaces() -> impl Strategy<Value = Space> {
    prop_oneof![
        Just(Space::Db(0)),
        Just(Space::Db(15)),
        (0..2u32).prop_map(Space::Rule)
    ]
}

fn names() -> impl Strategy<Value = Name> {
    let key = (
        0..TAGS.len(),
        0..60usize,
        prop_oneof![20 => Just(0usize), 1 => 480..520usize, 1 => Just(65_000)],
    );
    (spaces(), key).prop_map(|(space, (tag, number, long))| {
        let mut key = format!("{}{number}", TAGS[tag]).into_bytes();
        key.resize(key.len() + long, b'x');
        (space, key)
    })
}

fn entries() -> impl Strategy<Value = Entry> {
    let state = prop_oneof![
        5 => prop::collection::vec(-1e15..1e15f64, 0..=MAX_NUMBERS).prop_map(OwnState::Numbers),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(OwnState::Blob),
    ];
    let expiry = prop_oneof![
        4 => (0..200u64).prop_map(|units| Expiry::from_us(units * EXPIRY_UNIT_US)),
        1 => Just(Expiry::NEVER)
    ];
    (any::<u32>(), expiry, any::<bool>(), state).prop_map(|(params, expiry, pinned, state)| Entry {
        params,
        expiry,
        pinned,
        state,
    })
}

fn keyspaces() -> impl Strategy<Value = Keyspace> {
    prop_oneof![
        Just(Keyspace::Db(0)),
        Just(Keyspace::Db(15)),
        Just(Keyspace::Rules)
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => (names(), entries()).prop_map(|(name, entry)| Step::Put(name, entry)),
        6 => (names(), entries()).prop_map(|(name, entry)| Step::Update(name, entry)),
        8 => names().prop_map(Step::Remove),
        2 => (0..200u64, 1..400usize)
            .prop_map(|(units, budget)| Step::Sweep { now: units * EXPIRY_UNIT_US, budget }),
        1 => (0..TAGS.len(), -50..50i64)
            .prop_map(|(tag, units)| Step::Offset { tag, us: units * EXPIRY_UNIT_US as i64 }),
        1 => keyspaces().prop_map(|keyspace| Step::Flush(Some(keyspace))),
        1 => Just(Step::Flush(None)),
        3 => (keyspaces(), 1..20usize).prop_map(|(keyspace, want)| Step::Scan { keyspace, want }),
        1 => any::<u64>().prop_map(Step::Evict),
    ]
}

struct Pair {
    store: Store,
    model: BTreeMap<Name, Entry>,
}

impl Pair {
    fn new(bounds: Bounds) -> Pair {
        Pair {
            store: Store::with_bounds(0..SLOTS, 7, 0, bounds),
            model: BTreeMap::new(),
        }
    }

    fn put(&mut self, (space, bytes): Name, entry: Entry) {
        let key = self.store.key(space, &bytes).unwrap();
        let put = self.store.put(
            &key,
            entry.params,
            entry.expiry,
            entry.pinned,
            entry.state.as_state(),
        );
        assert_eq!(self.store.find(&key), put.ok());
        self.model.insert((space, bytes), entry);
    }

    fn update(&mut self, name: Name, entry: Entry) {
        let key = self.store.key(name.0, &name.1).unwrap();
        let place = self.store.find(&key);
        assert_eq!(place.is_some(), self.model.contains_key(&name));
        let (Some(place), OwnState::Numbers(numbers)) = (place, &entry.state) else {
            return;
        };
        let old = &self.model[&name];
        let inline = name.1.len() < 450;
        let fits = matches!(&old.state, OwnState::Numbers(old) if old.len() == numbers.len());
        let updated = self
            .store
            .update(place, entry.params, entry.expiry, entry.pinned, numbers);
        assert!(!updated || fits);
        assert!(updated || !fits || !inline);
        if updated {
            self.model.insert(name, entry);
        }
    }

    fn remove(&mut self, name: Name) {
        let key = self.store.key(name.0, &name.1).unwrap();
        let removed = self.store.remove(&key);
        assert_eq!(
            removed.map(|removed| removed.params),
            self.model.remove(&name).map(|entry| entry.params)
        );
    }

    fn expired(&self, name: &Name, now: u64) -> bool {
        let clock = self.store.slot(slot_of(&name.1)).unwrap().clock_us(now);
        self.model[name]
            .expiry
            .to_us()
            .is_some_and(|at| at <= clock)
    }

    fn sweep(&mut self, now: u64, budget: usize) {
        let mut dropped = Vec::new();
        let progress = self
            .store
            .sweep(now, budget, &mut |view| dropped.push(own(view)));
        assert_eq!(progress.dropped, dropped.len());
        for (name, entry) in dropped {
            assert!(self.expired(&name, now), "{name:?} was dropped too early");
            assert_eq!(self.model.remove(&name), Some(entry));
        }
    }

    fn sweep_round(&mut self, now: u64) {
        let to_end = |pair: &mut Pair| while !pair.store.sweep(now, 1000, &mut |_| ()).wrapped {};
        let expired: Vec<Name> = self
            .model
            .keys()
            .filter(|name| self.expired(name, now))
            .cloned()
            .collect();
        to_end(self);
        to_end(self);
        for name in expired {
            self.model.remove(&name);
        }
    }

    fn flush(&mut self, keyspace: Option<Keyspace>) {
        let (bytes, trash_bytes) = (self.store.bytes(), |trash: &Trash| trash.bytes());
        let mut trash = self.store.flush(keyspace);
        assert!(self.store.bytes() + trash_bytes(&trash) <= bytes);
        let mut dropped = Vec::new();
        while !trash.drop_some(10, &mut |params| dropped.push(params)) {}
        assert_eq!(trash.bytes(), 0);
        let gone = |name: &Name| keyspace.is_none_or(|keyspace| keyspace == name.0.into());
        let mut expected: Vec<u32> = self
            .model
            .iter()
            .filter(|(name, _)| gone(name))
            .map(|(_, entry)| entry.params)
            .collect();
        self.model.retain(|name, _| !gone(name));
        expected.sort_unstable();
        dropped.sort_unstable();
        assert_eq!(dropped, expected);
    }

    fn scan(&self, keyspace: Keyspace, want: usize) {
        let mut seen = BTreeMap::new();
        let mut cursor = Some(Cursor::START);
        while let Some(at) = cursor {
            let mut shown = 0;
            cursor = self.store.scan(keyspace, at, want, &mut |view| {
                shown += 1;
                let (name, entry) = own(view);
                assert!(
                    seen.insert(name, entry).is_none(),
                    "shown twice though nothing changed"
                );
            });
            assert!(shown <= want);
            assert!(cursor.is_none_or(|next| next > at));
        }
        let expected = self
            .model
            .iter()
            .filter(|(name, _)| Keyspace::from(name.0) == keyspace);
        assert!(seen.iter().eq(expected));
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Put(name, entry) => self.put(name, entry),
            Step::Update(name, entry) => self.update(name, entry),
            Step::Remove(name) => self.remove(name),
            Step::Sweep { now, budget } => self.sweep(now, budget),
            Step::Offset { tag, us } => {
                self.store
                    .slot_mut(slot_of(TAGS[tag].as_bytes()))
                    .unwrap()
                    .clock_offset_us = us;
            }
            Step::Flush(keyspace) => self.flush(keyspace),
            Step::Scan { keyspace, want } => self.scan(keyspace, want),
            Step::Evict(random) => self.evict(random),
        }
    }

    fn evict(&mut self, random: u64) {
        let place = self.store.evict_sample(random, 5);
        assert_eq!(place.is_none(), self.model.is_empty());
        if let Some(place) = place {
            let (name, entry) = own(self.store.view(place));
            self.store.remove_at(place);
            assert_eq!(self.model.remove(&name), Some(entry));
        }
    }

    fn check(&self) {
        assert_eq!(self.store.bytes(), allocated(&self.store));
        for keyspace in Keyspace::all() {
            let expected = self
                .model
                .keys()
                .filter(|name| Keyspace::from(name.0) == keyspace);
            assert_eq!(self.store.len(keyspace), expected.count());
            for random in 0..3 {
                let picked = self.store.random(keyspace, random << 62 | random);
                assert_eq!(picked.is_none(), self.store.is_empty(keyspace));
                if let Some(view) = picked {
                    let (name, entry) = own(view);
                    assert_eq!(self.model.get(&name), Some(&entry));
                }
            }
        }
        for (name, entry) in &self.model {
            let key = self.store.key(name.0, &name.1).unwrap();
            let place = self.store.find(&key).expect("a key that was put");
            assert_eq!(&own(self.store.view(place)), &(name.clone(), entry.clone()));
        }
    }
}

fn own(view: EntryView) -> (Name, Entry) {
    let bucket = view.bucket;
    assert_eq!(view.slot, slot_of(bucket.key));
    let entry = Entry {
        params: bucket.params,
        expiry: bucket.expiry,
        pinned: bucket.pinned,
        state: OwnState::of(bucket.state),
    };
    ((view.space, bucket.key.to_vec()), entry)
}

/// What is allocated, added up from scratch.
fn allocated(store: &Store) -> usize {
    let class = crate::layout::size_class;
    let mut bytes = class(size_of_val(&*store.metas));
    for table in &store.tables {
        bytes += class(size_of_val(&*table.maps));
        for map in &table.maps {
            if let SlotMap::Many(directory) = map {
                bytes += directory.allocated_bytes();
                let pages = directory
                    .leaves
                    .iter()
                    .map(|leaf| leaf.page.allocated_bytes());
                bytes -= directory.pages_bytes();
                bytes += pages.sum::<usize>();
                directory.check();
            } else {
                bytes += map.page(0).allocated_bytes();
            }
            let pages = (0..map.pages() as u32).map(|number| map.page(number));
            pages.for_each(|page| page.check());
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_store_is_the_model(steps in prop::collection::vec(steps(), 1..400)) {
        let mut pair = Pair::new(TINY);
        for (at, step) in steps.into_iter().enumerate() {
            pair.run(step);
            if at % 50 == 0 {
                pair.check();
            }
        }
        pair.check();
        let now = 120 * EXPIRY_UNIT_US;
        pair.sweep_round(now);
        pair.check();
    }

    #[test]
    fn a_scan_shows_what_was_there_throughout(
        before in prop::collection::vec(names(), 1..300),
        between in prop::collection::vec((names(), any::<bool>()), 1..300),
        want in 1..12usize,
        changes_a_step in 1..20usize,
    ) {
        let mut store = Store::with_bounds(0..SLOTS, 9, 0, TINY);
        let put = |store: &mut Store, (_, bytes): &Name| {
            let key = store.key(Space::Db(0), bytes).unwrap();
            store.put(&key, 1, Expiry::NEVER, false, State::Numbers(Numbers::default())).unwrap();
        };
        before.iter().for_each(|name| put(&mut store, name));
        let mut throughout: BTreeSet<Vec<u8>> = before.into_iter().map(|(_, bytes)| bytes).collect();
        let mut seen = BTreeSet::new();
        let mut changes = between.into_iter();
        let mut cursor = Some(Cursor::START);
        while let Some(at) = cursor {
            cursor = store.scan(Keyspace::Db(0), at, want, &mut |view| {
                seen.insert(view.bucket.key.to_vec());
            });
            for (name, insert) in changes.by_ref().take(changes_a_step) {
                if insert {
                    put(&mut store, &name);
                } else {
                    throughout.remove(&name.1);
                    let key = store.key(Space::Db(0), &name.1).unwrap();
                    store.remove(&key);
                }
            }
        }
        prop_assert!(throughout.is_subset(&seen));
    }
}

fn put_numbered(store: &mut Store, bytes: &[u8], expiry: Expiry, number: u32) {
    let key = store.key(Space::Db(0), bytes).unwrap();
    let state = State::Numbers(Numbers::new(&[1.0, f64::from(number)]).unwrap());
    store.put(&key, number, expiry, false, state).unwrap();
}

#[test]
fn a_million_keys_in_one_slot_come_and_go() {
    const KEYS: u32 = 1_000_000;
    let mut store = Store::new(0..SLOTS, 3, 0);
    let empty_bytes = store.bytes();
    let mut longest = std::time::Duration::ZERO;
    let mut timed = |work: &mut dyn FnMut()| {
        let start = std::time::Instant::now();
        work();
        longest = longest.max(start.elapsed());
    };
    let name = |number: u32| format!("{{tag}}:{number}").into_bytes();
    for number in 0..KEYS {
        let bytes = name(number);
        timed(&mut || put_numbered(&mut store, &bytes, Expiry::from_us(1), number));
    }
    assert_eq!(
        store.slot_len(Keyspace::Db(0), slot_of(b"tag")),
        KEYS as usize
    );
    assert_eq!(allocated(&store), store.bytes());
    for number in (0..KEYS / 2).rev() {
        let bytes = name(number);
        let key = store.key(Space::Db(0), &bytes).unwrap();
        timed(&mut || assert_eq!(store.remove(&key), Some(Removed { params: number })));
    }
    let mut dropped = 0;
    loop {
        let mut wrapped = false;
        timed(&mut || {
            let progress = store.sweep(2 * EXPIRY_UNIT_US, 1, &mut |_| ());
            dropped += progress.dropped;
            wrapped = progress.wrapped;
        });
        if wrapped {
            break;
        }
    }
    assert_eq!(dropped, KEYS as usize / 2);
    assert_eq!(store.bytes(), empty_bytes);
    println!("longest single operation: {longest:?}");
    // A bound against hanging only: another process may have the processor meanwhile.
    assert!(longest.as_millis() < 500, "{longest:?}");
}

#[test]
fn huge_keys_and_blobs_share_a_slot() {
    let mut store = Store::new(0..SLOTS, 4, 0);
    let empty_bytes = store.bytes();
    let name = |number: u32| {
        let mut bytes = format!("{{t}}{number}:").into_bytes();
        bytes.resize(MAX_KEY_BYTES, b'k');
        bytes
    };
    let blob = vec![7; 80_000];
    for number in 0..2000 {
        let bytes = name(number);
        let key = store.key(Space::Rule(1), &bytes).unwrap();
        store
            .put(
                &key,
                number,
                Expiry::from_us(1),
                false,
                State::Blob(&blob[..number as usize * 40]),
            )
            .unwrap();
    }
    assert!(store.bytes() > 2000 * (MAX_KEY_BYTES + 40_000));
    assert_eq!(allocated(&store), store.bytes());
    for number in 0..2000 {
        let bytes = name(number);
        let key = store.key(Space::Rule(1), &bytes).unwrap();
        let bucket = store.bucket(store.find(&key).unwrap());
        assert_eq!(
            (bucket.params, bucket.state),
            (number, State::Blob(&blob[..number as usize * 40]))
        );
    }
    while !store.sweep(2 * EXPIRY_UNIT_US, 1000, &mut |_| ()).wrapped {}
    assert_eq!(store.bytes(), empty_bytes);
}

#[test]
fn churn_at_one_size_does_not_grow() {
    let mut store = Store::new(0..SLOTS, 5, 0);
    let name = |number: u32| format!("{{t}}{number}").into_bytes();
    for number in 0..5000 {
        put_numbered(&mut store, &name(number), Expiry::NEVER, number);
    }
    let bytes = store.bytes();
    for number in 5000..100_000 {
        put_numbered(&mut store, &name(number), Expiry::NEVER, number);
        let old = name(number - 5000);
        let key = store.key(Space::Db(0), &old).unwrap();
        assert!(store.remove(&key).is_some());
    }
    assert_eq!(store.len(Keyspace::Db(0)), 5000);
    assert!(
        store.bytes() < bytes * 3 / 2,
        "{bytes} grew to {}",
        store.bytes()
    );
}

#[test]
fn refuses_what_it_cannot_hold() {
    let mut store = Store::new(100..200, 6, 0);
    let long = vec![b'a'; MAX_KEY_BYTES + 1];
    let here = (0..)
        .map(|n| format!("k{n}"))
        .find(|key| (100..200).contains(&slot_of(key.as_bytes())))
        .unwrap();
    let whole = Store::new(0..SLOTS, 6, 0);
    assert_eq!(
        whole.key(Space::Db(0), &long).unwrap_err(),
        KeyError::TooLong {
            bytes: MAX_KEY_BYTES + 1
        }
    );
    assert_eq!(
        store.key(Space::Db(0), b"foo").unwrap_err(),
        KeyError::SlotNotHeld { slot: 12182 }
    );
    assert_eq!(
        store.key(Space::Db(16), here.as_bytes()).unwrap_err(),
        KeyError::NoSuchDatabase { number: 16 }
    );
    assert_eq!(
        Numbers::new(&[0.0; 5]),
        Err(StateError::TooManyNumbers { numbers: 5 })
    );
    let key = store.key(Space::Db(0), here.as_bytes()).unwrap();
    let blob = vec![0; MAX_BLOB_BYTES + 1];
    let refused = store.put(&key, 1, Expiry::NEVER, false, State::Blob(&blob));
    assert_eq!(
        refused,
        Err(StateError::BlobTooLong {
            bytes: MAX_BLOB_BYTES + 1
        })
    );
    assert_eq!(
        (store.find(&key), store.slot(key.slot()).unwrap().changes),
        (None, 0)
    );
    assert_eq!(store.slot(99), None);
    assert_eq!(store.slot_len(Keyspace::Db(0), 99), 0);
}

#[test]
fn marks_follow_the_slot_s_changes() {
    let mut store = Store::new(0..SLOTS, 8, 0);
    put_numbered(&mut store, b"{t}1", Expiry::NEVER, 1);
    put_numbered(&mut store, b"{t}2", Expiry::NEVER, 2);
    let mark = |store: &Store, bytes: &[u8]| {
        let key = store.key(Space::Db(0), bytes).unwrap();
        store.bucket(store.find(&key).unwrap()).mark
    };
    assert_eq!((mark(&store, b"{t}1"), mark(&store, b"{t}2")), (1, 2));
    let key = store.key(Space::Db(0), b"{t}1").unwrap();
    let place = store.find(&key).unwrap();
    assert!(store.update(place, 1, Expiry::NEVER, true, &[3.0, 4.0]));
    assert_eq!(mark(&store, b"{t}1"), 3);
    assert!(!store.update(place, 1, Expiry::NEVER, true, &[3.0]));
    assert_eq!(store.slot(slot_of(b"t")).unwrap().changes, 3);
    store.remove_at(place);
    assert_eq!(store.slot(slot_of(b"t")).unwrap().changes, 4);
}

#[test]
fn warming_changes_nothing() {
    let mut store = Store::with_bounds(0..SLOTS, 11, 0, TINY);
    for number in 0..500u32 {
        put_numbered(
            &mut store,
            format!("{{t}}{number}").as_bytes(),
            Expiry::NEVER,
            number,
        );
    }
    let names: Vec<String> = (0..1000).map(|number| format!("{{t}}{number}")).collect();
    let keys: Vec<Key> = names
        .iter()
        .map(|name| store.key(Space::Db(0), name.as_bytes()).unwrap())
        .collect();
    store.warm(&keys);
    store.warm(&[]);
    assert_eq!(
        keys.iter().filter(|key| store.find(key).is_some()).count(),
        500
    );
}
