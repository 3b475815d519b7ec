//! Resident bytes per bucket, and nanoseconds for each operation on a single key, at several numbers of buckets.
//!
//! `cargo run --release -p tollgate-store --example footprint [buckets ...]` (default 1,000,000 and 10,000,000). Linux.
//! Resident bytes depend on the allocator's options; with segments laid out as they are and freed memory given back at once:
//! `_RJEM_MALLOC_CONF=cache_oblivious:false,dirty_decay_ms:0,muzzy_decay_ms:0`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tollgate_store::{EXPIRY_UNIT_US, Expiry, Key, Keyspace, Numbers, Place, SLOTS, Space, State, Store};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const KEY_BYTES: usize = 20;
const BATCH: usize = 64;
const TIMED_BATCHES: usize = 40_000;
const SPACE: Space = Space::Db(0);

type Name = [u8; KEY_BYTES];

fn name(mut number: u64) -> Name {
    let mut name = *b"user:000000000000000";
    for digit in name[5..].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    name
}

/// A generator that needs no state worth a cache line (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("statm");
    pages * 4096
}

fn keys<'a>(store: &Store, names: &'a [Name; BATCH]) -> [Key<'a>; BATCH] {
    std::array::from_fn(|at| store.key(SPACE, &names[at]).expect("a valid key"))
}

/// Median and 99th percentile over batches, in nanoseconds a key.
fn time(label: &str, store: &mut Store, buckets: u64, work: &mut dyn FnMut(&mut Store, &[Name; BATCH])) {
    let mut random = Random(99);
    let mut times: Vec<Duration> = (0..TIMED_BATCHES)
        .map(|_| {
            let names = std::array::from_fn(|_| name(random.next() % buckets));
            let start = Instant::now();
            work(store, &names);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let nanos = |at: usize| times[at].as_nanos() as f64 / BATCH as f64;
    println!(
        "  {label:<34} {:7.1} ns  (p99 {:.1})",
        nanos(TIMED_BATCHES / 2),
        nanos(TIMED_BATCHES / 100 * 99)
    );
}

fn locate(store: &Store, keys: &[Key]) -> [Option<Place>; BATCH] {
    let mut places = [None; BATCH];
    store.locate(keys, &mut places);
    places
}

fn find(store: &mut Store, names: &[Name; BATCH], warm: bool) {
    let keys = keys(store, names);
    if warm {
        black_box(locate(store, &keys));
    }
    for key in &keys {
        let place = store.find(key).expect("every key is there");
        black_box(store.bucket(place));
    }
}

fn update(store: &mut Store, names: &[Name; BATCH], warm: bool) {
    let keys = keys(store, names);
    if warm {
        black_box(locate(store, &keys));
    }
    for key in &keys {
        let place = store.find(key).expect("every key is there");
        let bucket = store.bucket(place);
        let State::Numbers(numbers) = bucket.state else {
            return;
        };
        let (params, expiry) = (bucket.params, bucket.expiry);
        let numbers = [numbers[0] - 1.0, numbers[1] + 1.0];
        assert!(store.update(place, params, expiry, false, &numbers));
    }
}

fn fill(store: &mut Store, buckets: u64) -> Duration {
    let state = State::Numbers(Numbers::new(&[100.0, 1.0]).expect("two numbers"));
    let mut longest = Duration::ZERO;
    for number in 0..buckets {
        let name = name(number);
        let key = store.key(SPACE, &name).expect("a valid key");
        let start = Instant::now();
        store.put(&key, 1, Expiry::from_us(1), false, state).expect("numbers");
        longest = longest.max(start.elapsed());
    }
    longest
}

fn sweep(store: &mut Store) -> (usize, Duration) {
    let (mut dropped, mut longest) = (0, Duration::ZERO);
    loop {
        let start = Instant::now();
        let progress = store.sweep(2 * EXPIRY_UNIT_US, 1000, &mut |_| true);
        longest = longest.max(start.elapsed());
        dropped += progress.dropped;
        if progress.wrapped {
            return (dropped, longest);
        }
    }
}

fn measure(buckets: u64) {
    let mut store = Store::new(0..SLOTS, 0x5eed, 0);
    let before = resident_bytes();
    let start = Instant::now();
    let longest = fill(&mut store, buckets);
    let filled = start.elapsed();
    assert_eq!(store.len(Keyspace::Db(0)) as u64, buckets);
    let each = |bytes: u64| bytes as f64 / buckets as f64;
    println!("{buckets} buckets, {KEY_BYTES}-byte keys, 2 numbers");
    println!(
        "  resident {:.2} B a bucket, accounted {:.2}",
        each(resident_bytes() - before),
        each(store.bytes() as u64)
    );
    println!(
        "  put new: {:.0} ns, longest {longest:?}",
        filled.as_nanos() as f64 / buckets as f64
    );
    time("key (slot and hash)", &mut store, buckets, &mut |store, names| {
        black_box(keys(store, names));
    });
    time("key, find, read", &mut store, buckets, &mut |store, names| {
        find(store, names, false)
    });
    time("key, warm, find, read", &mut store, buckets, &mut |store, names| {
        find(store, names, true)
    });
    time("key, find, read, update", &mut store, buckets, &mut |store, names| {
        update(store, names, false)
    });
    time(
        "key, warm, find, read, update",
        &mut store,
        buckets,
        &mut |store, names| update(store, names, true),
    );
    let start = Instant::now();
    let (dropped, longest) = sweep(&mut store);
    println!(
        "  sweep: {dropped} dropped in {:?}, longest step of 1000 {longest:?}",
        start.elapsed()
    );
    println!(
        "  after the sweep: {} bytes accounted, {} resident above the start",
        store.bytes(),
        resident_bytes().saturating_sub(before)
    );
}

fn main() {
    let asked: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|buckets| buckets.parse().ok())
        .collect();
    let sizes = if asked.is_empty() {
        vec![1_000_000, 10_000_000]
    } else {
        asked
    };
    sizes.into_iter().for_each(measure);
}
