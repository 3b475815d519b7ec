//! Peers that are none, or mean harm.

use super::nodes::{Raw, Server, config, run_local, send, until, with_secret};
use crate::limits::Bound;
use crate::peers::PeerConfig;
use std::io::Read;
use std::net::TcpStream;
use tollgate_cluster::wire::Kind;

/// What a server sends somebody who sends this.
fn answer_to(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    send(&mut stream, bytes, usize::MAX);
    let mut answer = Vec::new();
    // A reset is an end too: it was sent more than it read.
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn refusals(server: &Server, reason: &'static str) -> u64 {
    server.config.metrics.worker(0).peer_refusals(reason).get()
}

#[test]
fn garbage_is_refused_counted_and_logged_once() {
    for server in [Server::start(config("b")), Server::start(with_secret("b", "s"))] {
        for _ in 0..5 {
            assert_eq!(answer_to(&server, b"GET / HTTP/1.1\r\n\r\n"), b"");
        }
        assert_eq!(answer_to(&server, &[0xff; 100_000]), b"");
        run_local(until("counted", || refusals(&server, "not_a_peer") == 6));
        assert_eq!(server.config.refusals.remembered(), 1);
        // A frame of a gigabyte.
        let mut long = b"TOLLPEER".to_vec();
        long.extend_from_slice(&(1u32 << 30).to_le_bytes());
        answer_to(&server, &long);
        run_local(until("counted", || refusals(&server, "frame") == 1));
        assert_eq!(server.config.refusals.remembered(), 2);
        assert!(server.log().is_empty());
    }
}

#[test]
fn frames_of_a_gigabyte_end_a_connection_and_no_other() {
    let server = Server::start(config("b"));
    let mut good = Raw::connect(server.address, 1, 1_000);
    let mut bad = Raw::connect(server.address, 0, 1_000);
    send(&mut bad.stream, &(1u32 << 30).to_le_bytes(), 1);
    bad.until_closed();
    run_local(until("closed", || {
        server.log().contains(&"close a Protocol".to_owned())
    }));
    good.send(Kind::Slot as u8, 1, b"x", 1_000);
    assert_eq!(good.receive().1, 1);
}

#[test]
fn a_kind_that_is_not_known_is_counted_and_answered() {
    let server = Server::start(config("b"));
    let mut raw = Raw::connect(server.address, 0, 1_000);
    raw.send(200, 0, b"wants no answer", 1_000);
    raw.send(201, 5, b"wants one", 1_000);
    assert_eq!(raw.receive(), (Kind::NotUnderstood as u8, 5, Vec::new()));
    // The connection stays.
    raw.send(Kind::Slot as u8, 6, b"x", 1_000);
    assert_eq!(raw.receive().1, 6);
    assert_eq!(server.config.metrics.worker(0).peer_unknown_kinds.get(), 2);
}

#[test]
fn who_says_nothing_is_closed_and_keeps_nobody_out_for_long() {
    let few = PeerConfig {
        handshakes: 2,
        ..config("b")
    };
    let server = Server::start(few);
    let mut silent: Vec<_> = (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // The third is closed at once.
    assert_eq!(answer_to(&server, b""), b"");
    assert_eq!(
        server.config.metrics.worker(0).limit_hits(Bound::PeerHandshakes).get(),
        1
    );
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    run_local(until("counted", || refusals(&server, "silent") == 2));
    let mut raw = Raw::connect(server.address, 0, 1_000);
    raw.send(Kind::Slot as u8, 1, b"x", 1_000);
    assert_eq!(raw.receive().1, 1);
}
