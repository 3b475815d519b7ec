//! What is done to one key.

use super::{TINY, put_numbered};
use crate::*;

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
    assert_eq!(Numbers::new(&[0.0; 5]), Err(StateError::TooManyNumbers { numbers: 5 }));
    let key = store.key(Space::Db(0), here.as_bytes()).unwrap();
    let blob = vec![0; MAX_BLOB_BYTES + 1];
    let refused = store.put(&key, 1, Expiry::NEVER, false, State::Blob(&blob));
    assert_eq!(
        refused,
        Err(StateError::BlobTooLong {
            bytes: MAX_BLOB_BYTES + 1
        })
    );
    assert_eq!(store.find(&key), None);
    assert_eq!(store.slot(99), None);
    assert_eq!(store.slot_len(Keyspace::Db(0), 99), 0);
}

#[test]
fn located_together_as_found_one_by_one() {
    let mut store = Store::with_bounds(0..SLOTS, 11, 0, TINY);
    for number in 0..500u32 {
        put_numbered(&mut store, format!("{{t}}{number}").as_bytes(), Expiry::NEVER, number);
    }
    let names: Vec<String> = (0..1000).map(|number| format!("{{t}}{number}")).collect();
    let keys: Vec<Key> = names
        .iter()
        .map(|name| store.key(Space::Db(0), name.as_bytes()).unwrap())
        .collect();
    let mut places = vec![None; keys.len()];
    store.locate(&keys, &mut places);
    store.locate(&[], &mut places);
    store.locate(&keys[..3], &mut places);
    store.warm(&keys);
    store.warm(&keys[700..703]);
    let found: Vec<_> = keys.iter().map(|key| store.find(key)).collect();
    assert_eq!(places, found);
    // What was found last is found again, until it is gone.
    for key in &keys {
        assert_eq!(store.find(key), store.find(key));
    }
    let place = store.find(&keys[7]).unwrap();
    store.remove_at(place);
    assert_eq!(store.find(&keys[7]), None);
    put_numbered(&mut store, keys[7].bytes(), Expiry::NEVER, 7);
    assert!(store.find(&keys[7]).is_some());
    store.warm(&keys);
    assert_eq!(found.iter().flatten().count(), 500);
}
