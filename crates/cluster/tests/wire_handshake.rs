//! Who may talk to whom, and what those who may not are told.

mod support;

use support::{End, Party, connected, local, opener, secret, shake};
use tollgate_cluster::wire::{FrameError, HELLO_BYTES_MAX, Handshake, Local, Refusal, Versions};

/// Why opener and accepter refuse each other.
fn refused(one: Local, with: &str, to: (&str, u16), other: Local, others: &str) -> (Refusal, Refusal) {
    let accepter = Handshake::accept(other, secret(others), [2; 32]);
    let (one, other) = shake(opener(one, with, to), accepter, 3);
    (one.expect("over").refusal(), other.expect("over").refusal())
}

#[test]
fn two_nodes_learn_who_the_other_is() {
    for with in ["", "secret"] {
        for step in [1, 2, 5, usize::MAX] {
            let accepter = Handshake::accept(local("b"), secret(with), [2; 32]);
            let (one, other) = shake(opener(local("a"), with, ("b", 1)), accepter, step);
            let (one, other) = (one.expect("over").established(), other.expect("over").established());
            assert_eq!((one.version, other.version), (1, 1));
            assert_eq!((&*one.peer.id.name, one.peer.worker), ("b", 1));
            assert_eq!((&*other.peer.id.name, other.peer.worker), ("a", 1));
            assert_eq!(other.peer.to_worker, 1);
            assert_eq!(one.peer.id.generation, 1_800_000_000_000);
            assert_eq!(other.peer.workers, 2);
        }
    }
}

#[test]
fn frames_go_both_ways_sealed_or_not() {
    for with in ["", "secret"] {
        let (mut one, mut other) = connected(with);
        for id in 0..100u64 {
            let body = vec![id as u8; id as usize * 7];
            let mut out = Vec::new();
            one.writer.write_body(&mut out, 1, id, &body).unwrap();
            assert!(body.is_empty() || out.ends_with(&body) == with.is_empty());
            other.reader.input().extend_from_slice(&out);
            let frame = other.reader.next_frame().unwrap().unwrap();
            assert_eq!((frame.kind, frame.id, frame.body), (1, id, &body[..]));
            out.clear();
            other.writer.write_body(&mut out, 2, id, &body).unwrap();
            one.reader.input().extend_from_slice(&out);
            let frame = one.reader.next_frame().unwrap().unwrap();
            assert_eq!((frame.kind, frame.id, frame.body), (2, id, &body[..]));
        }
    }
}

#[test]
fn frames_that_follow_a_proof_at_once_are_not_lost() {
    for with in ["", "secret"] {
        let (one, hello) = opener(local("a"), with, ("b", 0));
        let (mut one, mut other) = (
            Party::new(one),
            Party::new(Handshake::accept(local("b"), secret(with), [2; 32])),
        );
        let mut to_one = other.feed(&hello, usize::MAX);
        if !with.is_empty() {
            let proof = one.feed(&to_one, usize::MAX);
            to_one = other.feed(&proof, usize::MAX);
        }
        // The accepter stands, and sends in the same write.
        let Some(End::Open(accepter)) = &mut other.end else {
            panic!("{:?}", other.end);
        };
        accepter.writer.write_body(&mut to_one, 9, 3, b"first").unwrap();
        one.feed(&to_one, usize::MAX);
        let mut one = one.end.expect("over").established();
        assert_eq!(one.reader.next_frame().unwrap().unwrap().body, b"first");
    }
}

#[test]
fn no_common_version_is_refused_on_both_sides() {
    let versions = |name, lowest, highest| Local {
        versions: Versions { lowest, highest },
        ..local(name)
    };
    let (one, other) = refused(versions("a", 1, 1), "", ("b", 0), versions("b", 2, 3), "");
    assert_eq!(
        other.to_string(),
        "no common version of the protocol: it speaks 1, this node 2 to 3"
    );
    assert_eq!(one.reason(), "version");
    assert!(one.to_string().contains("it speaks 1, this node 2 to 3"), "{one}");
    // Secrets or not: the version comes first.
    let (one, other) = refused(versions("a", 4, 5), "x", ("b", 0), versions("b", 1, 3), "");
    assert_eq!((one.reason(), other.reason()), ("version", "version"));
}

#[test]
fn a_node_of_the_next_version_speaks_this_one() {
    let next = |name| Local {
        versions: Versions { lowest: 1, highest: 2 },
        ..local(name)
    };
    for with in ["", "secret"] {
        for (one, other, version) in [
            (next("a"), local("b"), 1),
            (local("a"), next("b"), 1),
            (next("a"), next("b"), 2),
        ] {
            let accepter = Handshake::accept(other, secret(with), [2; 32]);
            let (one, other) = shake(opener(one, with, ("b", 0)), accepter, 7);
            assert_eq!(one.expect("over").established().version, version);
            assert_eq!(other.expect("over").established().version, version);
        }
    }
}

#[test]
fn secrets_must_be_the_same() {
    for (one, other, opener, accepter) in [
        ("", "s", "secret_missing", "secret_missing"),
        ("s", "", "secret_unwanted", "secret_unwanted"),
        ("s", "t", "secret_wrong", "secret_wrong"),
    ] {
        let (told, refusal) = refused(local("a"), one, ("b", 0), local("b"), other);
        assert!(matches!(told, Refusal::Told { .. }), "{told}");
        assert_eq!((told.reason(), refusal.reason()), (opener, accepter));
    }
}

#[test]
fn a_node_must_be_who_was_meant() {
    let (told, refusal) = refused(local("a"), "", ("c", 0), local("b"), "");
    assert_eq!(refusal.to_string(), "\"c\" was meant, this is \"b\"");
    assert_eq!((told.reason(), refusal.reason()), ("other_name", "other_name"));
    let (told, refusal) = refused(local("b"), "", ("b", 0), local("b"), "");
    assert_eq!((told.reason(), refusal.reason()), ("same_name", "same_name"));
    let (told, refusal) = refused(local("a"), "", ("b", 2), local("b"), "");
    assert_eq!((told.reason(), refusal.reason()), ("worker", "worker"));
    let other = Local {
        cluster: "other".into(),
        ..local("b")
    };
    let (told, refusal) = refused(local("a"), "", ("b", 0), other, "");
    assert_eq!((told.reason(), refusal.reason()), ("cluster", "cluster"));
}

/// An accepter after these bytes, and what it has sent.
fn accepter_after(bytes: &[u8]) -> (Option<End>, Vec<u8>) {
    let mut party = Party::new(Handshake::accept(local("b"), secret("s"), [2; 32]));
    let sent = party.feed(bytes, 1);
    (party.end, sent)
}

#[test]
fn garbage_is_refused_at_its_first_wrong_byte_and_told_nothing() {
    for garbage in [
        b"GET / HTTP/1.1\r\n".as_slice(),
        b"\0",
        b"TOLLPEE\0",
        b"*1\r\n$4\r\nPING\r\n",
    ] {
        let (end, sent) = accepter_after(garbage);
        assert_eq!(end.expect("over").refusal(), Refusal::NotAPeer);
        assert!(sent.is_empty());
    }
    let (end, _) = accepter_after(b"TOLLPEE");
    assert!(end.is_none());
}

#[test]
fn a_hello_of_a_gigabyte_is_refused_by_its_length() {
    let mut bytes = b"TOLLPEER".to_vec();
    bytes.extend_from_slice(&(1u32 << 30).to_le_bytes());
    let (end, sent) = accepter_after(&bytes);
    let refusal = end.expect("over").refusal();
    assert_eq!(
        refusal,
        Refusal::Frame(FrameError::TooLong {
            bytes: (1 << 30) + 4,
            max_bytes: HELLO_BYTES_MAX
        })
    );
    assert!(sent.starts_with(b"TOLLPEER") && sent.len() < HELLO_BYTES_MAX);
}

#[test]
fn every_cut_waits_and_every_changed_bit_is_refused_with_a_secret() {
    let (_, hello) = opener(local("a"), "s", ("b", 0));
    let (end, _) = accepter_after(&hello[..hello.len() - 1]);
    assert!(end.is_none());
    for bit in 0..hello.len() * 8 {
        let (one, mut hello) = opener(local("a"), "s", ("b", 0));
        hello[bit / 8] ^= 1 << (bit % 8);
        let accepter = Handshake::accept(local("b"), secret("s"), [2; 32]);
        let (one, other) = shake((one, hello), accepter, usize::MAX);
        // Either it waits for more, or it has refused; it never stands.
        for end in [one, other].into_iter().flatten() {
            end.refusal();
        }
    }
}

#[test]
fn a_recorded_connection_cannot_be_played_again() {
    // What an opener sent to an accepter whose nonce was 2.
    let (one, hello) = opener(local("a"), "s", ("b", 0));
    let mut party = Party::new(one);
    let mut accepter = Party::new(Handshake::accept(local("b"), secret("s"), [2; 32]));
    let proof = party.feed(&accepter.feed(&hello, usize::MAX), usize::MAX);
    // Played to the same node, which has a new nonce now.
    let mut again = Party::new(Handshake::accept(local("b"), secret("s"), [3; 32]));
    again.feed(&hello, usize::MAX);
    again.feed(&proof, usize::MAX);
    assert_eq!(again.end.expect("over").refusal(), Refusal::WrongSecret);
}

#[test]
fn a_proof_cannot_be_reflected() {
    // Somebody without the secret connects, and answers with what it is sent.
    let (one, hello) = opener(local("a"), "s", ("b", 0));
    let mut victim = Party::new(one);
    let mut honest = Party::new(Handshake::accept(local("b"), secret("s"), [2; 32]));
    let proof = victim.feed(&honest.feed(&hello, usize::MAX), usize::MAX);
    assert!(!proof.is_empty());
    victim.feed(&proof, usize::MAX);
    assert_eq!(victim.end.expect("over").refusal(), Refusal::WrongSecret);
}

#[test]
fn frames_before_the_proof_are_refused() {
    let (one, mut hello) = opener(local("a"), "s", ("b", 0));
    drop(one);
    // A frame of kind 1 with id 0 and an empty body: no proof.
    hello.extend_from_slice(&[9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (end, _) = accepter_after(&hello);
    assert_eq!(end.expect("over").refusal(), Refusal::Malformed);
}
