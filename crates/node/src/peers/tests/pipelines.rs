//! Many requests at a time.

use super::nodes::{HOLD, MANY, Raw, Server, asking, config, run_local, until, with_secret};
use crate::limits::Bound;
use crate::peers::{PeerConfig, PeerError, Peers};
use std::net::TcpListener;
use tollgate_cluster::wire::{Kind, Pong, Probe, read_message};

async fn echoes(peers: &Peers, worker: u16, requests: usize) {
    let link = peers.link("b", worker).unwrap();
    let body = |number: usize| vec![number as u8; number % 3_000];
    let pending: Vec<_> = (0..requests)
        .map(|number| link.request_body(Kind::Slot, &body(number)).unwrap())
        .collect();
    assert_eq!(link.waiting(), requests);
    for (number, pending) in pending.into_iter().enumerate() {
        let answer = pending.await.unwrap();
        assert_eq!(answer.kind, Kind::Slot);
        assert!(answer.body == body(number), "{number}");
    }
    assert_eq!(link.waiting(), 0);
    assert!(link.is_up() && link.heard_at().is_some());
}

#[test]
fn ten_thousand_requests_are_under_way_and_each_has_its_answer() {
    for secret in [None, Some("secret")] {
        let named = |name: &str| secret.map_or_else(|| config(name), |secret| with_secret(name, secret));
        let server = Server::start(named("b"));
        run_local(async {
            let (peers, config, events) = asking(named("a"), server.address);
            // The first wait for the connection, the second find it.
            echoes(&peers, 0, 10_000).await;
            echoes(&peers, 0, 10_000).await;
            echoes(&peers, 1, 100).await;
            assert_eq!(*events.borrow(), ["connected b 0 b", "connected b 1 b"]);
            let counters = config.metrics.worker(1);
            assert_eq!(counters.peer_frames_out.get(), 20_100);
            assert_eq!(counters.peer_frames_in.get(), 20_100);
            assert_eq!(counters.peer_connections(), 2);
            assert!(counters.peer_bytes_out.get() >= counters.peer_bytes_in.get());
        });
        // The asking worker is worker 1.
        assert_eq!(server.log()[..2], ["open a 1", "open a 1"]);
    }
}

#[test]
fn messages_have_their_types() {
    let server = Server::start(config("b"));
    run_local(async {
        let (peers, ..) = asking(config("a"), server.address);
        for _ in 0..2 {
            let pending = peers.request("b", 0, &Probe::new(7)).unwrap();
            let answer = pending.await.unwrap();
            // The echo answers with the probe itself.
            assert_eq!(answer.kind, Kind::Probe);
            assert_eq!(read_message::<Pong>(answer.version, &answer.body).unwrap().view, 7);
            peers.send("b", 0, &Probe::new(8)).unwrap();
        }
        assert_eq!(peers.request("c", 0, &Probe::new(7)).unwrap_err(), PeerError::Unknown);
    });
}

#[test]
fn frames_may_arrive_in_any_pieces() {
    let server = Server::start(config("b"));
    let mut raw = Raw::connect(server.address, 1, 1);
    for id in 1..20 {
        raw.send(Kind::Slot as u8, id, &[id as u8; 50], 1);
        assert_eq!(raw.receive(), (Kind::Slot as u8, id, vec![id as u8; 50]));
    }
    // Many in one piece.
    let mut out = Vec::new();
    for id in 1..500 {
        raw.established
            .writer
            .write_body(&mut out, Kind::Slot as u8, id, b"x")
            .unwrap();
    }
    super::nodes::send(&mut raw.stream, &out, usize::MAX);
    for id in 1..500 {
        assert_eq!(raw.receive().1, id);
    }
}

#[test]
fn what_one_loop_turn_says_goes_in_one_write() {
    let server = Server::start(config("b"));
    run_local(async {
        let (peers, config, _) = asking(config("a"), server.address);
        let link = peers.link("b", 0).unwrap();
        link.request_body(Kind::Slot, b"connect").unwrap().await.unwrap();
        let bytes = || config.metrics.worker(1).peer_bytes_out.get();
        let before = bytes();
        let pending: Vec<_> = (0..100).map(|_| link.request_body(Kind::Slot, b"x").unwrap()).collect();
        // Nothing was written yet; the next turn writes all of it before it waits.
        assert_eq!(bytes(), before);
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(bytes() - before, 100 * 14);
        for pending in pending {
            pending.await.unwrap();
        }
    });
}

#[test]
fn requests_that_wait_have_a_bound() {
    let server = Server::start(config("b"));
    run_local(async {
        let few = PeerConfig {
            requests: 100,
            ..config("a")
        };
        let (peers, config, _) = asking(few, server.address);
        let link = peers.link("b", 0).unwrap();
        let mut held: Vec<_> = (0..100).map(|_| link.request_body(Kind::Slot, HOLD).unwrap()).collect();
        let full = PeerError::Full(Bound::PeerRequests);
        assert_eq!(link.request_body(Kind::Slot, b"x").unwrap_err(), full);
        until("connected", || link.is_up()).await;
        assert_eq!(link.request_body(Kind::Slot, b"x").unwrap_err(), full);
        assert_eq!(config.metrics.worker(1).limit_hits(Bound::PeerRequests).get(), 2);
        // Who waits no more makes room.
        held.pop();
        link.request_body(Kind::Slot, b"x").unwrap().await.unwrap();
        assert_eq!(link.waiting(), 99);
    });
}

#[test]
fn a_peer_that_asks_more_than_it_is_answered_is_not_read_any_further() {
    let few = PeerConfig {
        requests: 10,
        ..config("b")
    };
    let server = Server::start(few);
    let mut raw = Raw::connect(server.address, 0, 1_000);
    for id in 1..=9 {
        raw.send(Kind::Slot as u8, id, HOLD, 1_000);
    }
    // Nine are held; this is the tenth, and is answered.
    raw.send(Kind::Slot as u8, 10, b"x", 1_000);
    assert_eq!(raw.receive().1, 10);
    for id in 11..100 {
        raw.send(Kind::Slot as u8, id, HOLD, 1_000);
    }
    let mut other = Raw::connect(server.address, 1, 1_000);
    other.send(Kind::Slot as u8, 1, b"x", 1_000);
    assert_eq!(other.receive().1, 1);
    // 9 answered with nothing, 2 answered, and one more held; the rest was not looked at.
    let frames_in = || server.config.metrics.worker(0).peer_frames_in.get();
    run_local(until("ten held", || frames_in() == 11));
    assert_eq!(frames_in(), 11);
}

#[test]
fn a_peer_that_does_not_take_its_answers_is_closed_and_costs_only_itself() {
    let small = PeerConfig {
        queue_bytes: 1 << 20,
        ..config("b")
    };
    let server = Server::start(small);
    let mut raw = Raw::connect(server.address, 0, 1_000);
    let request = [MANY, b"60000"].concat();
    let mut id = 1;
    let counters = server.config.metrics.worker(0);
    while counters.limit_hits(Bound::PeerQueueBytes).get() == 0 {
        assert!(id < 100_000, "the system takes everything");
        let mut out = Vec::new();
        raw.established
            .writer
            .write_body(&mut out, Kind::Slot as u8, id, &request)
            .unwrap();
        if std::io::Write::write_all(&mut raw.stream, &out).is_err() {
            break;
        }
        id += 1;
    }
    run_local(async {
        let (peers, ..) = asking(config("c"), server.address);
        echoes(&peers, 0, 100).await;
        let closed = "close a Full(PeerQueueBytes)".to_owned();
        until("closed", || server.log().contains(&closed)).await;
    });
    raw.until_closed();
}

#[test]
fn what_waits_for_a_peer_that_does_not_read_has_a_bound() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = std::thread::spawn(move || Raw::accept(&listener));
    run_local(async {
        let small = PeerConfig {
            queue_bytes: 1 << 20,
            ..config("a")
        };
        let (peers, config, events) = asking(small, address);
        let link = peers.link("b", 0).unwrap();
        until("connected", || link.is_up()).await;
        let mut pending = Vec::new();
        let full = loop {
            match link.request_body(Kind::Slot, &[0; 60_000]) {
                Ok(waits) => pending.push(waits),
                Err(why) => break why,
            }
            assert!(pending.len() < 10_000, "the system takes everything");
            tokio::task::yield_now().await;
        };
        assert_eq!(full, PeerError::Full(Bound::PeerQueueBytes));
        assert_eq!(config.metrics.worker(1).limit_hits(Bound::PeerQueueBytes).get(), 1);
        // It goes: all who wait are told at once.
        drop(silent.join().unwrap());
        for waits in pending {
            assert!(matches!(waits.await.unwrap_err(), PeerError::Reset | PeerError::Closed));
        }
        assert!(events.borrow()[1].starts_with("lost b 0 "));
    });
}

#[test]
fn a_message_that_is_too_long_is_not_sent() {
    let server = Server::start(config("b"));
    run_local(async {
        let (peers, ..) = asking(config("a"), server.address);
        let link = peers.link("b", 0).unwrap();
        let long = vec![0; (1 << 20) + 1];
        assert_eq!(link.request_body(Kind::Slot, &long).unwrap_err(), PeerError::TooLong);
        until("connected", || link.is_up()).await;
        assert_eq!(link.request_body(Kind::Slot, &long).unwrap_err(), PeerError::TooLong);
        // Nor is an answer.
        let request = [MANY, b"2000000"].concat();
        let answer = link.request_body(Kind::Slot, &request).unwrap().await;
        assert_eq!(answer.unwrap_err(), PeerError::NotUnderstood);
        link.request_body(Kind::Slot, b"x").unwrap().await.unwrap();
    });
}
