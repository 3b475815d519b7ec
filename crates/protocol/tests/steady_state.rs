//! Once warm, scanning requests and writing replies allocates nothing.
#![expect(unsafe_code, reason = "counting allocations takes a global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tollgate_protocol::{Progress, Proto, ReplyWriter, ScanLimits, Scanner, encode_request};

thread_local! {
    /// Of this thread alone: the test harness has threads of its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that ends has no counter any more.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_in(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

/// Scans every request in `wire`, the first 10 bytes of each alone at first, and answers each with every kind of reply.
fn turn(scanner: &mut Scanner, wire: &[u8], proto: Proto, out: &mut Vec<u8>) {
    out.clear();
    let mut at = 0;
    while at < wire.len() {
        if let Ok(Progress::Incomplete { .. }) = scanner.next(&wire[at..wire.len().min(at + 10)])
            && let Ok(Progress::Request { consumed }) = scanner.next(&wire[at..])
        {
            let request = scanner.request(&wire[at..]);
            let mut writer = ReplyWriter::new(out, proto);
            writer.map(request.len());
            for arg in request.iter() {
                writer.bulk(arg);
                writer.array(9);
                writer.int(i64::MIN);
                writer.int(7);
                writer.double(0.1);
                writer.bulk_int(1_727_314_860_123);
                writer.null();
                writer.bool(true);
                writer.simple("fine");
                writer.error("ERR", "not\r\nso fine");
                writer.verbatim(b"text");
            }
            at += consumed;
        }
    }
}

#[test]
fn nothing_is_allocated_once_warm() {
    let mut wire = Vec::new();
    encode_request(
        &["RL.CHECK", "key:12345678901234", "LIMIT", "100", "PER", "1m"],
        &mut wire,
    );
    encode_request(&vec![vec![b'x'; 1500]; 40], &mut wire);
    wire.extend_from_slice(b"RL.CHECK \"a key\\x00\" LIMIT 100 PER '1m'\r\n");
    wire.extend_from_slice(b"RL.CHECK key LIMIT 100 PER 1m\n");

    let mut scanner = Scanner::new(ScanLimits::default());
    let mut out = Vec::new();
    for proto in [Proto::Resp2, Proto::Resp3] {
        let warming = allocations_in(|| turn(&mut scanner, &wire, proto, &mut out));
        assert!(warming > 0 || proto == Proto::Resp3, "the counter counts");
        let written = out.len();
        let steady = allocations_in(|| {
            for _ in 0..1000 {
                turn(&mut scanner, &wire, proto, &mut out);
            }
        });
        assert_eq!(steady, 0);
        assert_eq!(out.len(), written);
    }
}
