//! A store and a model of it that take the same steps.

use super::allocated;
use crate::layout::Bounds;
use crate::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tollgate_values::{HashSeed, Set, Value};

/// A hash tag for each of a few slots, so that slots are crowded.
pub(super) const TAGS: [&str; 4] = ["{a}", "{b}", "{c}", "{d}"];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    params: u32,
    expiry: Expiry,
    pinned: bool,
    state: OwnState,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum OwnState {
    Numbers(Vec<f64>),
    Blob(Vec<u8>),
    /// Not the state of a bucket but a Redis value: a set of these members.
    Value(BTreeSet<Vec<u8>>),
}

fn set_of(members: &BTreeSet<Vec<u8>>) -> Value {
    let first = members.first().unwrap();
    let mut set = Set::new(HashSeed::new(3), first, members.len());
    for member in members {
        set.add(member);
    }
    Value::Set(Box::new(set))
}

fn members_of(value: &Value) -> BTreeSet<Vec<u8>> {
    let Value::Set(set) = value else { panic!("a set") };
    set.iter().map(|member| member.into_cow().into_owned()).collect()
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
            OwnState::Value(_) => panic!("the state of a bucket"),
        }
    }
}

fn value_entry(expiry: Expiry, members: BTreeSet<Vec<u8>>) -> Entry {
    Entry {
        params: 0,
        expiry,
        pinned: false,
        state: OwnState::Value(members),
    }
}

impl Entry {
    fn held_params(&self) -> Option<u32> {
        match self.state {
            OwnState::Value(_) => None,
            _ => Some(self.params),
        }
    }
}

pub(super) type Name = (Space, Vec<u8>);

#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(Name, Entry),
    Update(Name, Entry),
    Remove(Name),
    PutValue(Name, Expiry, usize),
    AddMember(Name, Expiry, Vec<u8>),
    Take(Name),
    Sweep {
        now: u64,
        budget: usize,
    },
    Offset {
        tag: usize,
        us: i64,
    },
    Flush(Option<Keyspace>),
    /// Of the slots of those tags, in steps of so many bytes.
    FlushSlots(Option<Keyspace>, Vec<usize>, usize),
    Scan {
        keyspace: Keyspace,
        want: usize,
    },
    Evict(u64),
}

fn spaces() -> impl Strategy<Value = Space> {
    prop_oneof![Just(Space::Db(0)), Just(Space::Db(15)), (0..2u32).prop_map(Space::Rule)]
}

pub(super) fn names() -> impl Strategy<Value = Name> {
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
    (any::<u32>(), expiries(), any::<bool>(), state).prop_map(|(params, expiry, pinned, state)| Entry {
        params,
        expiry,
        pinned,
        state,
    })
}

fn expiries() -> impl Strategy<Value = Expiry> {
    prop_oneof![
        4 => (0..200u64).prop_map(|units| Expiry::from_us(units * EXPIRY_UNIT_US)),
        1 => Just(Expiry::NEVER)
    ]
}

pub(super) fn keyspaces() -> impl Strategy<Value = Keyspace> {
    prop_oneof![Just(Keyspace::Db(0)), Just(Keyspace::Db(15)), Just(Keyspace::Rules)]
}

pub(super) fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => (names(), entries()).prop_map(|(name, entry)| Step::Put(name, entry)),
        6 => (names(), entries()).prop_map(|(name, entry)| Step::Update(name, entry)),
        8 => names().prop_map(Step::Remove),
        8 => (names(), expiries(), 1..200usize).prop_map(|(name, at, members)| Step::PutValue(name, at, members)),
        8 => (names(), expiries(), prop::collection::vec(any::<u8>(), 0..100))
            .prop_map(|(name, at, member)| Step::AddMember(name, at, member)),
        3 => names().prop_map(Step::Take),
        2 => (0..200u64, 1..400usize)
            .prop_map(|(units, budget)| Step::Sweep { now: units * EXPIRY_UNIT_US, budget }),
        1 => (0..TAGS.len(), -50..50i64)
            .prop_map(|(tag, units)| Step::Offset { tag, us: units * EXPIRY_UNIT_US as i64 }),
        1 => keyspaces().prop_map(|keyspace| Step::Flush(Some(keyspace))),
        1 => Just(Step::Flush(None)),
        2 => (prop::option::of(keyspaces()), prop::collection::vec(0..TAGS.len(), 0..4), 1..100_000usize)
            .prop_map(|(keyspace, tags, bytes)| Step::FlushSlots(keyspace, tags, bytes)),
        3 => (keyspaces(), 1..20usize).prop_map(|(keyspace, want)| Step::Scan { keyspace, want }),
        1 => any::<u64>().prop_map(Step::Evict),
    ]
}

pub(super) struct Pair {
    pub(super) store: Store,
    pub(super) model: BTreeMap<Name, Entry>,
}

impl Pair {
    pub(super) fn new(bounds: Bounds) -> Pair {
        Pair {
            store: Store::with_bounds(0..SLOTS, 7, 0, bounds),
            model: BTreeMap::new(),
        }
    }

    fn put(&mut self, (space, bytes): Name, entry: Entry) {
        let key = self.store.key(space, &bytes).unwrap();
        let put = self
            .store
            .put(&key, entry.params, entry.expiry, entry.pinned, entry.state.as_state());
        assert_eq!(self.store.find(&key), put.ok());
        self.model.insert((space, bytes), entry);
    }

    fn put_value(&mut self, name: Name, expires: Expiry, members: usize) {
        // The buckets of rules are not Redis keys.
        if matches!(name.0, Space::Rule(_)) {
            return;
        }
        let members: BTreeSet<Vec<u8>> = (0..members).map(|number| format!("m{number}").into_bytes()).collect();
        let key = self.store.key(name.0, &name.1).unwrap();
        self.store.remove(&key);
        let value = set_of(&members);
        let place = self.store.insert_value(&key, Taken { expires, value });
        assert_eq!(self.store.find(&key), Some(place));
        self.model.insert(name, value_entry(expires, members));
    }

    fn add_member(&mut self, name: Name, expires: Expiry, member: Vec<u8>) {
        let key = self.store.key(name.0, &name.1).unwrap();
        let Some(place) = self.store.find(&key) else { return };
        let entry = self.model.get_mut(&name).unwrap();
        if matches!(&entry.state, OwnState::Value(members) if members.contains(&member)) {
            // Nothing but the time is new.
            assert!(self.store.set_value_expiry(place, expires));
            entry.expiry = expires;
            return;
        }
        let changed = self.store.change_value(place, |stored| {
            stored.expires = expires;
            let Value::Set(set) = &mut stored.value else {
                panic!("a set")
            };
            set.add(&member)
        });
        match &mut entry.state {
            OwnState::Value(members) => {
                assert_eq!(changed, Some(members.insert(member)));
                entry.expiry = expires;
            }
            _ => {
                assert_eq!(changed, None);
                assert!(!self.store.set_value_expiry(place, expires));
            }
        }
    }

    fn take(&mut self, name: Name) {
        let key = self.store.key(name.0, &name.1).unwrap();
        let Some(place) = self.store.find(&key) else { return };
        match self.store.take_value(place) {
            Some(taken) => {
                let entry = value_entry(taken.expires, members_of(&taken.value));
                assert_eq!(self.model.remove(&name), Some(entry));
                self.store.bury(taken.value);
            }
            None => assert!(!matches!(self.model[&name].state, OwnState::Value(_))),
        }
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
            self.model.remove(&name).map(|entry| entry.held_params())
        );
    }

    fn expired(&self, name: &Name, now: u64) -> bool {
        let clock = self.store.slot(slot_of(&name.1)).unwrap().clock_us(now);
        self.model[name].expiry.to_us().is_some_and(|at| at <= clock)
    }

    fn sweep(&mut self, now: u64, budget: usize) {
        let mut dropped = Vec::new();
        let progress = self.store.sweep(now, budget, &mut |view| {
            dropped.push(own(view));
            true
        });
        assert_eq!(progress.dropped, dropped.len());
        for (name, entry) in dropped {
            assert!(self.expired(&name, now), "{name:?} was dropped too early");
            assert_eq!(self.model.remove(&name), Some(entry));
        }
    }

    pub(super) fn sweep_round(&mut self, now: u64) {
        let to_end = |pair: &mut Pair| while !pair.store.sweep(now, 1000, &mut |_| true).wrapped {};
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
        let trash = self.store.flush(keyspace);
        assert!(self.store.bytes() + trash_bytes(&trash) <= bytes);
        self.flushed(trash, Vec::new(), |name| {
            keyspace.is_none_or(|keyspace| keyspace == name.0.into())
        });
    }

    fn flush_slots(&mut self, keyspace: Option<Keyspace>, tags: &[usize], bytes: usize) {
        let slots = tags.iter().map(|&tag| slot_of(TAGS[tag].as_bytes()));
        let slots: SlotSet = slots.filter(|&slot| self.store.role(slot) == Role::Held).collect();
        let (mut trash, mut dropped) = (Trash::default(), Vec::new());
        let mut flushing = self.store.begin_flush(keyspace, &slots, &mut trash);
        while !self
            .store
            .flush_some(&mut flushing, bytes, &mut trash, &mut |params| dropped.push(params))
        {}
        self.flushed(trash, dropped, |name| {
            slots.contains(slot_of(&name.1)) && keyspace.is_none_or(|keyspace| keyspace == name.0.into())
        });
    }

    /// What is gone was dropped, and is dropped with the trash.
    fn flushed(&mut self, mut trash: Trash, mut dropped: Vec<u32>, gone: impl Fn(&Name) -> bool) {
        while !trash.drop_some(10, &mut |params| dropped.push(params)) {}
        assert_eq!(trash.bytes(), 0);
        let mut expected: Vec<u32> = self
            .model
            .iter()
            .filter(|(name, _)| gone(name))
            .filter_map(|(_, entry)| entry.held_params())
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
                assert!(seen.insert(name, entry).is_none(), "shown twice though nothing changed");
            });
            assert!(shown <= want);
            assert!(cursor.is_none_or(|next| next > at));
        }
        let expected = self.model.iter().filter(|(name, _)| Keyspace::from(name.0) == keyspace);
        assert!(seen.iter().eq(expected));
    }

    pub(super) fn run(&mut self, step: Step) {
        match step {
            Step::Put(name, entry) => self.put(name, entry),
            Step::Update(name, entry) => self.update(name, entry),
            Step::Remove(name) => self.remove(name),
            Step::PutValue(name, expires, members) => self.put_value(name, expires, members),
            Step::AddMember(name, expires, member) => self.add_member(name, expires, member),
            Step::Take(name) => self.take(name),
            Step::Sweep { now, budget } => self.sweep(now, budget),
            Step::Offset { tag, us } => {
                self.store
                    .slot_mut(slot_of(TAGS[tag].as_bytes()))
                    .unwrap()
                    .clock_offset_us = us;
            }
            Step::Flush(keyspace) => self.flush(keyspace),
            Step::FlushSlots(keyspace, tags, bytes) => self.flush_slots(keyspace, &tags, bytes),
            Step::Scan { keyspace, want } => self.scan(keyspace, want),
            Step::Evict(random) => self.evict(random),
        }
    }

    fn evict(&mut self, random: u64) {
        loop {
            let bytes = self.store.bytes();
            match self.store.relieve(random, 5) {
                None => {
                    // Values are not dropped, and the few samples may have met nothing else.
                    let values = self.model.values().any(|entry| entry.held_params().is_none());
                    return assert!(values || self.model.is_empty());
                }
                Some(Relief::Compacted) => assert!(self.store.bytes() < bytes),
                Some(Relief::Evict(place)) => {
                    assert_eq!(self.store.bytes(), bytes);
                    let (name, entry) = own(self.store.view(place));
                    self.store.remove_at(place);
                    return assert_eq!(self.model.remove(&name), Some(entry));
                }
            }
        }
    }

    pub(super) fn check(&self) {
        assert_eq!(self.store.bytes(), allocated(&self.store));
        for keyspace in Keyspace::all() {
            let counted = self.model.iter().filter(|(name, _)| {
                Keyspace::from(name.0) == keyspace && self.store.role(slot_of(&name.1)) == Role::Held
            });
            assert_eq!(self.store.len(keyspace), counted.clone().count());
            let values = counted.filter(|(_, entry)| matches!(entry.state, OwnState::Value(_)));
            assert_eq!(self.store.values(keyspace), values.clone().count());
            let lasting = values.filter(|(_, entry)| entry.expiry == Expiry::NEVER).count();
            assert_eq!(self.store.expiring(keyspace), self.store.len(keyspace) - lasting);
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
    let key = view.entry.key();
    assert_eq!(view.slot, slot_of(key));
    let entry = match view.entry {
        crate::Entry::Bucket(bucket) => Entry {
            params: bucket.params,
            expiry: bucket.expiry,
            pinned: bucket.pinned,
            state: OwnState::of(bucket.state),
        },
        crate::Entry::Value(stored) => value_entry(stored.expires, members_of(&stored.value)),
    };
    ((view.space, key.to_vec()), entry)
}
