//! Both loops against servers whose answers and pauses are known.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;
use tollgate_loadgen::Error;
use tollgate_loadgen::closed::{self, ClosedLoop, Until};
use tollgate_loadgen::command::{Client, Value};
use tollgate_loadgen::keys::Distribution;
use tollgate_loadgen::open::{Arrivals, OpenLoop, Stream};
use tollgate_loadgen::request::{KEY, Template};

const REQUEST_BYTES: usize = "*2\r\n$3\r\nGET\r\n$20\r\nbucket:0000000000000\r\n".len();

/// Answers every request with `reply`, and sleeps once for `pause` before it answers the request with number `pause_at`.
fn server(reply: &'static [u8], pause_at: u64, pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback listener works");
    let address = listener.local_addr().expect("a loopback listener works");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a loopback listener works");
            thread::spawn(move || {
                let mut request = [0; REQUEST_BYTES];
                let mut number = 0;
                while stream.read_exact(&mut request).is_ok() {
                    if number == pause_at {
                        thread::sleep(pause);
                    }
                    number += 1;
                    if stream.write_all(reply).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn template() -> Template {
    Template::new(&["GET", KEY])
}

fn plan(connections: usize, pipeline: usize) -> closed::Plan {
    closed::Plan {
        template: template(),
        distribution: Distribution::uniform(100),
        connections,
        pipeline,
        seed: 1,
    }
}

fn stream(rate_per_s: f64) -> Stream {
    Stream {
        template: template(),
        distribution: Distribution::uniform(100),
        connections: 1,
        rate_per_s,
        burst: 1,
        arrivals: Arrivals::Even,
        seed: 1,
    }
}

#[test]
fn the_closed_loop_sends_whole_batches_and_counts_every_reply() {
    let address = server(b"$2\r\nhi\r\n", u64::MAX, Duration::ZERO);
    let mut load = ClosedLoop::connect(address, &plan(3, 8)).unwrap();
    let outcome = load.run(Until::Requests(100)).unwrap();
    assert_eq!(outcome.replies, 104);
    assert_eq!(outcome.reply_bytes, 104 * 8);
    assert_eq!(outcome.latency_ns.len(), 104);
    // The connections stay usable.
    let outcome = load.run(Until::Elapsed(Duration::from_millis(50))).unwrap();
    assert!(outcome.replies > 0);
    assert!(outcome.elapsed >= Duration::from_millis(50));
}

#[test]
fn an_error_reply_fails_both_loops() {
    let address = server(b"-ERR no\r\n", u64::MAX, Duration::ZERO);
    let mut load = ClosedLoop::connect(address, &plan(1, 1)).unwrap();
    let error = load.run(Until::Requests(1)).unwrap_err();
    assert_eq!(error.to_string(), "the server answered \"ERR no\" to \"GET {key}\"");
    let mut load = OpenLoop::connect(address, &[stream(1000.0)]).unwrap();
    let error = load.run(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, Error::BadReply { .. }), "{error}");
}

#[test]
fn the_open_loop_sees_a_pause_in_every_request_that_fell_into_it() {
    let pause = Duration::from_millis(300);
    let address = server(b"+OK\r\n", 100, pause);
    let mut load = OpenLoop::connect(address, &[stream(1000.0)]).unwrap();
    let outcomes = load.run(Duration::from_secs(1)).unwrap();
    let [outcome] = outcomes.as_slice() else {
        panic!("one stream, {} outcomes", outcomes.len());
    };
    // One is due every millisecond, the first a gap after the start.
    assert_eq!(outcome.requests, 999);
    assert_eq!(outcome.latency_ns.len(), 999);
    assert!(outcome.latency_ns.max() >= 300_000_000);
    // 300 requests fell due during the pause; half of them had to wait for more than half of it. A loop that waits for
    // replies before it sends would have seen one.
    let slow = outcome.latency_ns.count_between(150_000_000, u64::MAX);
    assert!(slow >= 140, "{slow} waited over 150 ms");
}

#[test]
fn a_single_request_decodes_its_reply() {
    let address = server(b"*3\r\n:1\r\n$2\r\nhi\r\n$-1\r\n", u64::MAX, Duration::ZERO);
    let mut client = Client::connect(address).unwrap();
    let value = client.call_template(&template(), 5).unwrap();
    assert_eq!(
        value,
        Value::Array(vec![Value::Integer(1), Value::Text("hi".to_owned()), Value::Null])
    );
    assert_eq!(value.to_string(), "[1, \"hi\", null]");
}
