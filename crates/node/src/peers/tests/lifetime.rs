//! Connections that end, come back, are replaced, or never come about.

use super::nodes::{HOLD, Raw, Server, asking, config, run_local, until, with_secret};
use crate::peers::{PeerConfig, PeerError};
use std::net::TcpListener;
use tollgate_cluster::wire::{Kind, Local, Versions};

#[test]
fn a_peer_that_is_killed_fails_all_requests_and_is_found_again() {
    let mut server = Server::start(config("b"));
    let address = server.address;
    run_local(async {
        let (peers, config_a, events) = asking(config("a"), address);
        let link = peers.link("b", 0).unwrap();
        let held: Vec<_> = (0..100).map(|_| link.request_body(Kind::Slot, HOLD).unwrap()).collect();
        until("connected", || link.is_up()).await;
        link.request_body(Kind::Slot, b"x").unwrap().await.unwrap();
        server.stop();
        for held in held {
            assert!(matches!(held.await.unwrap_err(), PeerError::Closed | PeerError::Reset));
        }
        assert_eq!(link.waiting(), 0);
        // Until it is there again, requests fail: at once, or with the next attempt.
        until("refused", || {
            events
                .borrow()
                .last()
                .is_some_and(|event| event == "failed b 0 Refused")
        })
        .await;
        assert_eq!(link.request_body(Kind::Slot, b"x").unwrap_err(), PeerError::Refused);
        let _server = Server::start_at(config("b"), address);
        until("connected again", || link.is_up()).await;
        link.request_body(Kind::Slot, b"x").unwrap().await.unwrap();
        assert_eq!(events.borrow().last().map(String::as_str), Some("connected b 0 b"));
        assert_eq!(config_a.metrics.worker(1).peer_connections(), 1);
    });
}

#[test]
fn requests_to_nobody_fail_when_that_is_known() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    run_local(async {
        let (peers, _, events) = asking(config("a"), address);
        let link = peers.link("b", 0).unwrap();
        let pending = link.request_body(Kind::Slot, b"x").unwrap();
        assert_eq!(pending.await.unwrap_err(), PeerError::Refused);
        assert_eq!(events.borrow()[0], "failed b 0 Refused");
        peers.set(&"b".into(), 2, &"no such host:1".into());
        let pending = peers.link("b", 0).unwrap().request_body(Kind::Slot, b"x").unwrap();
        assert_eq!(pending.await.unwrap_err(), PeerError::Unresolved);
    });
}

#[test]
fn a_request_that_was_never_sent_does_not_look_as_if_it_had_been() {
    // It listens, and closes whoever comes before hands are shaken.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    run_local(async {
        let (peers, _, events) = asking(config("a"), address);
        let link = peers.link("b", 0).unwrap();
        let pending = link.request_body(Kind::Slot, b"x").unwrap();
        let why = pending.await.unwrap_err();
        assert!(!why.may_have_arrived(), "{why:?}");
        assert!(matches!(
            events.borrow()[0].as_str(),
            "failed b 0 Reset" | "failed b 0 Closed"
        ));
        // Nor does one while the next attempt is not due.
        let why = link.request_body(Kind::Slot, b"x").unwrap_err();
        assert_eq!(why, PeerError::Unreached);
        // Given up before there was a connection.
        peers.set(&"b".into(), 2, &address.to_string().into());
        let pending = peers.link("b", 0).unwrap().request_body(Kind::Slot, b"x").unwrap();
        peers.retain(|_| false);
        assert_eq!(pending.await.unwrap_err(), PeerError::Unreached);
    });
    // And one on a connection that stood may have been.
    let server = Server::start(config("b"));
    run_local(async {
        let (peers, _, events) = asking(config("a"), server.address);
        let link = peers.link("b", 0).unwrap();
        let held = link.request_body(Kind::Slot, HOLD).unwrap();
        until("connected", || link.is_up()).await;
        peers.retain(|_| false);
        assert!(held.await.unwrap_err().may_have_arrived());
        assert_eq!(events.borrow().last().map(String::as_str), Some("lost b 0 GivenUp"));
        // One that did not stand is not lost.
        let told = events.borrow().len();
        peers.set(&"b".into(), 2, &server.address.to_string().into());
        peers.link("b", 0).unwrap();
        peers.retain(|_| false);
        assert_eq!(events.borrow().len(), told);
    });
}

#[test]
fn a_peer_is_found_by_a_name_of_its_host() {
    let server = Server::start(config("b"));
    run_local(async {
        let (peers, ..) = asking(config("a"), server.address);
        let by_name = format!("localhost:{}", server.address.port());
        peers.set(&"b".into(), 2, &by_name.into());
        let link = peers.link("b", 0).unwrap();
        link.request_body(Kind::Slot, b"x").unwrap().await.unwrap();
    });
}

#[test]
fn a_peer_that_moves_starts_again_or_leaves_is_given_up_where_it_was() {
    let (first, second) = (Server::start(config("b")), Server::start(config("b")));
    run_local(async {
        let (peers, ..) = asking(config("a"), first.address);
        let link = peers.link("b", 0).unwrap();
        let held = link.request_body(Kind::Slot, HOLD).unwrap();
        until("connected", || link.is_up()).await;
        // What is known already changes nothing.
        peers.set(&"b".into(), 1, &first.address.to_string().into());
        assert!(link.is_up());
        peers.set(&"b".into(), 2, &second.address.to_string().into());
        assert_eq!(held.await.unwrap_err(), PeerError::GivenUp);
        assert_eq!(link.request_body(Kind::Slot, b"x").unwrap_err(), PeerError::Unreached);
        let link = peers.link("b", 0).unwrap();
        link.request_body(Kind::Slot, b"x").unwrap().await.unwrap();
        let held = link.request_body(Kind::Slot, HOLD).unwrap();
        peers.retain(|name| name != "b");
        assert_eq!(held.await.unwrap_err(), PeerError::GivenUp);
        assert_eq!(peers.link("b", 0).unwrap_err(), PeerError::Unknown);
        until("both closed", || {
            let closed = |server: &Server| server.log().iter().any(|line| line.starts_with("close a"));
            closed(&first) && closed(&second)
        })
        .await;
    });
}

#[test]
fn of_two_connections_of_one_worker_the_newer_counts() {
    let server = Server::start(config("b"));
    let mut one = Raw::connect(server.address, 0, 1_000);
    one.send(Kind::Slot as u8, 1, b"x", 1_000);
    one.receive();
    let mut other = Raw::connect(server.address, 0, 1_000);
    other.send(Kind::Slot as u8, 1, b"x", 1_000);
    other.receive();
    one.until_closed();
    run_local(until("one closed", || {
        server.log().contains(&"close a GivenUp".to_owned())
    }));
    other.send(Kind::Slot as u8, 2, b"x", 1_000);
    assert_eq!(other.receive().1, 2);
}

/// How asking `b` ends, and what is counted on both sides.
fn refused(one: PeerConfig, other: PeerConfig) -> (PeerError, [u64; 2]) {
    let server = Server::start(other);
    run_local(async {
        let (peers, config, events) = asking(one, server.address);
        let pending = peers.link("b", 0).unwrap().request_body(Kind::Slot, b"x").unwrap();
        let why = pending.await.unwrap_err();
        let PeerError::Handshake(reason) = why else {
            panic!("{why}");
        };
        assert_eq!(events.borrow()[0], format!("failed b 0 {why:?}"));
        let theirs = || server.config.metrics.worker(0).peer_refusals(reason).get();
        until("several attempts", || theirs() >= 3).await;
        // Each is counted, the first is logged.
        assert_eq!(
            (config.refusals.remembered(), server.config.refusals.remembered()),
            (1, 1)
        );
        let ours = config.metrics.worker(1).peer_refusals(reason).get();
        assert!(ours >= 2);
        (why, [ours, theirs()])
    })
}

#[test]
fn who_is_not_wanted_is_told_and_counted_on_both_sides() {
    let versions = |name: &str, lowest, highest| PeerConfig {
        local: Local {
            versions: Versions { lowest, highest },
            ..config(name).local
        },
        ..config(name)
    };
    for (one, other, reason) in [
        (with_secret("a", "s"), config("b"), "secret_unwanted"),
        (config("a"), with_secret("b", "s"), "secret_missing"),
        (with_secret("a", "s"), with_secret("b", "t"), "secret_wrong"),
        (versions("a", 1, 1), versions("b", 2, 3), "version"),
        (config("a"), config("other"), "other_name"),
    ] {
        let (why, _) = refused(one, other);
        assert_eq!(why, PeerError::Handshake(reason));
    }
}

#[test]
fn a_peer_of_the_next_version_is_spoken_to_in_this_one() {
    let next = PeerConfig {
        local: Local {
            versions: Versions { lowest: 1, highest: 2 },
            ..config("b").local
        },
        ..config("b")
    };
    let server = Server::start(next);
    run_local(async {
        let this = PeerConfig {
            local: Local {
                versions: Versions { lowest: 1, highest: 1 },
                ..config("a").local
            },
            ..config("a")
        };
        let (peers, ..) = asking(this, server.address);
        let link = peers.link("b", 0).unwrap();
        let answer = link.request_body(Kind::Slot, b"x").unwrap().await.unwrap();
        assert_eq!(answer.version, 1);
    });
}
