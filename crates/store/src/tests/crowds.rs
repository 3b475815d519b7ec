//! One slot with far more than a page, and memory given back.

use super::{allocated, put_numbered};
use crate::*;

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
    assert_eq!(store.slot_len(Keyspace::Db(0), slot_of(b"tag")), KEYS as usize);
    assert_eq!(allocated(&store), store.bytes());
    for number in (0..KEYS / 2).rev() {
        let bytes = name(number);
        let key = store.key(Space::Db(0), &bytes).unwrap();
        timed(&mut || assert_eq!(store.remove(&key), Some(Removed { params: Some(number) })));
    }
    let mut dropped = 0;
    loop {
        let mut wrapped = false;
        timed(&mut || {
            let progress = store.sweep(2 * EXPIRY_UNIT_US, 1, &mut |_| true);
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
    while !store.sweep(2 * EXPIRY_UNIT_US, 1000, &mut |_| true).wrapped {}
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
    assert!(store.bytes() < bytes * 3 / 2, "{bytes} grew to {}", store.bytes());
}

/// Slots that grow and shrink together leave little besides their pages behind, at any moment.
#[test]
fn pages_stay_packed_while_slots_grow_and_shrink_together() {
    const KEYS: u32 = 400_000;
    let mut store = Store::new(0..SLOTS, 6, 0);
    let name = |number: u32| format!("user:{number:015}").into_bytes();
    let check = |store: &Store| {
        let arena = &store.tables[0].arena;
        let (pages, segments) = (arena.block_bytes(), arena.segment_bytes());
        // One hole in 64, and for each size that is in use most of a segment.
        assert!(segments < pages + pages / 32 + 4_000_000, "{segments} for {pages}");
    };
    for number in 0..KEYS {
        put_numbered(&mut store, &name(number), Expiry::NEVER, number);
        if number % 20_000 == 0 {
            check(&store);
        }
    }
    for number in 0..KEYS - KEYS / 16 {
        let bytes = name(number);
        let key = store.key(Space::Db(0), &bytes).unwrap();
        store.remove(&key).unwrap();
        if number % 20_000 == 0 {
            check(&store);
        }
    }
    check(&store);
    assert_eq!(allocated(&store), store.bytes());
}
