//! What a request costs to scan and a reply to write, in nanoseconds, beside redis-protocol.
//!
//! `cargo run --release -p tollgate-protocol --example measure`

use std::hint::black_box;
use std::time::Instant;

use bytes::BytesMut;
use redis_protocol::resp2::types::BorrowedFrame;
use tollgate_protocol::{Progress, Proto, ReplyWriter, ScanLimits, Scanner, encode_request};

/// Requests in a buffer, as of a client that pipelines.
const PIPELINE: usize = 32;

fn main() {
    let mut one = Vec::new();
    encode_request(
        &["RL.CHECK", "key:12345678901234", "LIMIT", "100", "PER", "1m"],
        &mut one,
    );
    let pipeline = one.repeat(PIPELINE);

    let mut scanner = Scanner::new(ScanLimits::default());
    measure("scan RL.CHECK, 6 arguments", || {
        let mut at = 0;
        while let Ok(Progress::Request { consumed }) = scanner.next(&pipeline[at..]) {
            black_box(scanner.args());
            at += consumed;
        }
        assert_eq!(at, pipeline.len());
    });
    measure("decode it with redis-protocol, ranges", || {
        let mut at = 0;
        while at < pipeline.len() {
            let decoded = redis_protocol::resp2::decode::decode_range(&pipeline[at..]);
            let (frame, len) = decoded.expect("valid").expect("whole");
            black_box(frame);
            at += len;
        }
    });

    let mut out = Vec::with_capacity(64 * PIPELINE);
    let reply = [1, 100, 99, 0, 1_727_314_860_123];
    measure("write its reply, 5 integers and a bulk", || {
        out.clear();
        for _ in 0..PIPELINE {
            let mut writer = ReplyWriter::new(&mut out, Proto::Resp2);
            writer.array(6);
            for value in black_box(reply) {
                writer.int(value);
            }
            writer.bulk(black_box(b"owner"));
        }
        black_box(&out);
    });
    let mut bytes = BytesMut::with_capacity(64 * PIPELINE);
    measure("write it with redis-protocol, borrowed", || {
        bytes.clear();
        for _ in 0..PIPELINE {
            let [a, b, c, d, e] = black_box(reply).map(BorrowedFrame::Integer);
            let frames = [a, b, c, d, e, BorrowedFrame::BulkString(black_box(b"owner"))];
            let frame = BorrowedFrame::Array(&frames);
            redis_protocol::resp2::encode::extend_encode_borrowed(&mut bytes, &frame, false).expect("room");
        }
        black_box(&bytes);
    });
    assert_eq!(out, bytes);
}

/// Prints the nanoseconds for one of the [`PIPELINE`] operations in `run`: the median of 15 rounds and the best.
fn measure(name: &str, mut run: impl FnMut()) {
    const ROUNDS: usize = 15;
    const RUNS: u32 = 20_000;
    let mut nanos: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..RUNS {
                run();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(RUNS) / PIPELINE as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    println!("{name:<42} {:6.1} ns (best {:.1})", nanos[ROUNDS / 2], nanos[0]);
}
