//! What values say that they have allocated against what they have, and how much an operation allocates or frees at most, at full
//! size.
//!
//! The counters are each thread's own: the harness has threads besides.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use tikv_jemallocator::Jemalloc;
use tollgate_values::{End, Hash, HashSeed, List, Score, Set, SortedSet, StringValue, Value, size_class};

struct Counting;

/// What a thread has asked of the allocator. Made without allocating, and without anything to drop.
struct Counters {
    allocated_bytes: Cell<usize>,
    freed_bytes: Cell<usize>,
    calls: Cell<usize>,
}

thread_local! {
    static COUNTERS: Counters = const {
        Counters {
            allocated_bytes: Cell::new(0),
            freed_bytes: Cell::new(0),
            calls: Cell::new(0),
        }
    };
}

fn count(of: impl Fn(&Counters) -> &Cell<usize>, more: usize) {
    COUNTERS.with(|counters| of(counters).set(of(counters).get() + more));
}

fn counted() -> [usize; 3] {
    COUNTERS.with(|counters| [&counters.allocated_bytes, &counters.freed_bytes, &counters.calls].map(Cell::get))
}

// SAFETY: it passes every call on to jemalloc.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|counters| &counters.calls, 1);
        // SAFETY: the caller's promises are those that jemalloc asks for.
        let pointer = unsafe { Jemalloc.alloc(layout) };
        // SAFETY: jemalloc has just given it.
        let bytes = unsafe { tikv_jemallocator::usable_size(pointer) };
        count(|counters| &counters.allocated_bytes, bytes);
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(|counters| &counters.calls, 1);
        // SAFETY: the caller got it from `alloc`.
        let bytes = unsafe { tikv_jemallocator::usable_size(pointer) };
        count(|counters| &counters.freed_bytes, bytes);
        // SAFETY: the caller's promises are those that jemalloc asks for.
        unsafe { Jemalloc.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live_bytes() -> usize {
    let [allocated, freed, _] = counted();
    // What another thread allocated may be freed here: only differences are asked for.
    allocated.wrapping_sub(freed)
}

/// The most that one operation may allocate or free: a group of 128 chunks and two chunks of 1,024 fields.
const STEP_BYTES_MAX: usize = 200_000;

/// The most that one operation may call the allocator: for a chunk of long elements that is dropped.
const STEP_CALLS_MAX: usize = 4500;

/// Does something, and fails if that was too much at once.
fn bounded<R>(what: &str, operation: impl FnOnce() -> R) -> R {
    let before = counted();
    let result = operation();
    let after = counted();
    let [allocated, freed, calls] = std::array::from_fn(|at| after[at] - before[at]);
    assert!(
        allocated <= STEP_BYTES_MAX && freed <= STEP_BYTES_MAX && calls <= STEP_CALLS_MAX,
        "{what} allocated {allocated} and freed {freed} bytes in {calls} calls"
    );
    result
}

/// A name of that many bytes or a few more, so that it is in place or on the heap.
fn name(number: u32, len: usize) -> Vec<u8> {
    let mut name = format!("{number:08}").into_bytes();
    name.resize(len.max(8) + number as usize % 5, b'x');
    name
}

fn score(number: u32) -> Score {
    // In no order.
    Score::new(f64::from(number.wrapping_mul(2_654_435_769))).expect("a number")
}

/// Puts or takes the element of that number.
fn put(value: &mut Value, number: u32, len: usize) {
    let name = name(number, len);
    match value {
        Value::String(string) => drop(string.append(&name[..name.len().min(50)])),
        Value::List(list) => {
            list.expect(name.len());
            list.push(
                if number.is_multiple_of(3) {
                    End::Left
                } else {
                    End::Right
                },
                &name,
            );
        }
        Value::Set(set) => drop(set.add(&name)),
        Value::Hash(hash) => drop(hash.set(&name, &name[..name.len() / 2])),
        Value::SortedSet(sorted_set) => drop(sorted_set.insert(&name, score(number))),
    }
}

fn take(value: &mut Value, number: u32, len: usize) {
    let name = name(number, len);
    match value {
        Value::String(_) => {}
        Value::List(list) => drop(list.pop(if number.is_multiple_of(3) {
            End::Right
        } else {
            End::Left
        })),
        Value::Set(set) => drop(set.remove(&name)),
        Value::Hash(hash) => drop(hash.remove(&name)),
        Value::SortedSet(sorted_set) => drop(sorted_set.remove(&name)),
    }
}

enum Change {
    Put(u32),
    Take(u32),
}

fn step(value: &mut Value, what: &str, change: Change, len: usize) {
    // A string is one buffer, which moves.
    let is_string = matches!(value, Value::String(_));
    let mut operation = || match change {
        Change::Put(number) => put(value, number, len),
        Change::Take(number) => take(value, number, len),
    };
    if is_string {
        operation()
    } else {
        bounded(what, operation)
    }
}

fn values(seed: HashSeed) -> Vec<Value> {
    vec![
        Value::String(Box::new(StringValue::new(b"0"))),
        Value::List(Box::new(List::new())),
        Value::Set(Box::new(Set::new(seed, b"x", 1))),
        Value::Hash(Box::new(Hash::new(seed))),
        Value::SortedSet(Box::new(SortedSet::new(seed))),
    ]
}

fn check(value: &Value, before: usize, when: &str) {
    let (said, live) = (value.bytes(), live_bytes().wrapping_sub(before));
    let difference = said.abs_diff(live) as f64 / live as f64;
    assert!(difference <= 0.001, "{value:?} {when} has allocated {live}");
}

#[test]
fn bytes_are_those_of_the_allocator_and_steps_are_bounded() {
    for bytes in (1..70_000).chain([1_000_001, 5_000_000]) {
        let before = live_bytes();
        let buffer: Vec<u8> = Vec::with_capacity(bytes);
        assert_eq!(size_class(bytes), live_bytes().wrapping_sub(before), "{bytes}");
        drop(buffer);
    }
    let seed = HashSeed::new(42);
    // Formatting may allocate something for ever.
    drop(format!("{:?}", values(seed)));
    for (elements, len) in [
        (0, 8),
        (1, 8),
        (3, 30),
        (100, 8),
        (600, 8),
        (600, 100),
        (300_000, 8),
        (150_000, 40),
    ] {
        for at in 0..values(seed).len() {
            let before = live_bytes();
            let mut value = values(seed).swap_remove(at);
            let what = format!("{} of {elements} of {len} bytes", value.type_name());
            let own = size_class(what.capacity());
            (0..elements).for_each(|number| step(&mut value, &what, Change::Put(number), len));
            check(&value, before + own, "grown");
            // Nine in ten go, then some come.
            let taken = (0..elements).filter(|number| number % 10 != 0);
            taken.for_each(|number| step(&mut value, &what, Change::Take(number), len));
            (elements..elements + elements / 5).for_each(|number| step(&mut value, &what, Change::Put(number), len));
            check(&value, before + own, "changed");
            let between = live_bytes();
            let copy = value.clone();
            check(&copy, between, "copied");
            assert_eq!((copy.elements(), copy.encoding()), (value.elements(), value.encoding()));
            drop(copy);
            let mut steps = 0;
            while !bounded(&what, || value.drop_some(1000)) {
                steps += 1;
            }
            assert!(steps <= 2 * elements / 1000 + 2, "{steps} steps for {what}");
            let is_string = matches!(value, Value::String(_));
            if is_string {
                drop(value)
            } else {
                bounded(&what, || drop(value))
            }
            drop(what);
            assert_eq!(live_bytes(), before);
        }
    }
}
