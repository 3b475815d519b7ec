//! Bytes an element, and the CPU time that operations take: `cargo run --release -p tollgate-values --example measure`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tikv_jemallocator::Jemalloc;
use tollgate_values::{End, Hash, HashSeed, Inserted, List, Score, Set, SortedSet, Value};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const ELEMENTS: [u32; 4] = [4, 100, 1_000, 1_000_000];

/// A number in its text of 16 digits, in no order.
fn name(number: u32) -> [u8; 16] {
    let mut digits = u64::from(number.wrapping_mul(2_654_435_769)) * 1_000_003 + 1_000_000_000_000_000;
    let mut name = [b'0'; 16];
    for digit in name.iter_mut().rev() {
        *digit += (digits % 10) as u8;
        digits /= 10;
    }
    name
}

fn score(number: u32) -> Score {
    Score::new(f64::from(number)).expect("a number")
}

/// CPU time of this thread: what others do on the machine is not in it.
fn now() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .expect("a time after 0")
}

/// Runs it for each number, and says how long it took on average and at most.
fn measure(what: &str, numbers: u32, mut run: impl FnMut(u32)) {
    let clock_started = now();
    (0..1000).for_each(|_| assert!(now() >= clock_started));
    let clock = (now() - clock_started) / 1000;
    let (started, mut longest) = (now(), Duration::ZERO);
    let mut before = started;
    for number in 0..numbers {
        run(number);
        let after = now();
        longest = longest.max(after - before);
        before = after;
    }
    let average = (now() - started) / numbers.max(1);
    let us = |time: Duration| time.saturating_sub(clock).as_nanos() as f64 / 1000.0;
    print!("; {what} {:.2} us, at most {:.0}", us(average), us(longest));
}

fn report(elements: u32, mut value: Value) {
    let bytes = value.bytes();
    let mut done = false;
    measure("drop a step", 2 * elements / 1000 + 3, |_| {
        done = done || value.drop_some(1000)
    });
    println!("; {:.1} bytes each", bytes as f64 / f64::from(elements));
    assert!(done);
}

fn main() {
    let seed = HashSeed::new(42);
    for elements in ELEMENTS {
        println!("{elements} elements");

        print!("  hash");
        let mut hash = Hash::new(seed);
        measure("set", elements, |number| {
            assert!(hash.set(&name(number), &name(number)))
        });
        measure("get", elements, |number| assert!(hash.get(&name(number)).is_some()));
        measure("random", elements, |number| {
            assert!(hash.random(u64::from(number) << 32).is_some())
        });
        report(elements, Value::Hash(Box::new(hash)));

        print!("  set");
        let mut set = Set::new(seed, b"x", 1);
        measure("add", elements, |number| assert!(set.add(&name(number))));
        measure("contains", elements, |number| assert!(set.contains(&name(number))));
        measure("pop half", elements / 2, |number| {
            assert!(set.pop(u64::from(number) << 32).is_some())
        });
        report(elements - elements / 2, Value::Set(Box::new(set)));

        print!("  zset in no order");
        let mut sorted_set = SortedSet::new(seed);
        measure("insert", elements, |number| {
            sorted_set.insert(&name(number), score(number.wrapping_mul(2_246_822_519)));
        });
        measure("score", elements, |number| {
            assert!(sorted_set.score(&name(number)).is_some())
        });
        measure("rank", elements, |number| {
            assert!(sorted_set.rank(&name(number)).is_some())
        });
        report(elements, Value::SortedSet(Box::new(sorted_set)));

        print!("  zset in order");
        let mut log = SortedSet::new(seed);
        measure("insert", elements, |number| {
            assert_eq!(log.insert(&name(number), score(number)), Inserted::Added)
        });
        let left = elements - elements / 1000 * 500;
        measure("remove 500", elements / 1000, |_| {
            assert_eq!(log.remove_ranks(0..1000, 500), 500)
        });
        report(left, Value::SortedSet(Box::new(log)));

        print!("  list");
        let mut list = List::new();
        measure("push", elements, |number| {
            list.push(
                if number.is_multiple_of(2) {
                    End::Left
                } else {
                    End::Right
                },
                &name(number),
            );
        });
        measure("get", elements, |number| assert!(list.get(number as usize).is_some()));
        measure("insert", elements, |number| list.insert(number as usize, b"1"));
        report(2 * elements, Value::List(Box::new(list)));
    }
}
