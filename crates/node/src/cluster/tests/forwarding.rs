//! Commands whose holder is a peer that does not do them.

use super::peer::{DONE, Manner, Peer};
use super::{CHECK, batch, see_members, text, with_worker};
use crate::node::Place;
use crate::remote::Replies;
use crate::worker::Worker;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_store::slot_of;

/// Longer than anything may wait: only a hang takes that long.
const HANG: Duration = Duration::from_secs(20);

async fn forwarded(worker: &Rc<Worker>, command: &str) -> Replies {
    let Place::Of(place) = worker.node.place(slot_of(b"k")) else {
        panic!("it is closing");
    };
    assert!(place > worker.node.workers(), "a peer");
    let replies = worker.post(place, batch(worker, command), 1).unwrap();
    tokio::time::timeout(HANG, replies).await.expect("an answer").unwrap()
}

#[test]
fn a_check_is_decided_whatever_its_holder_answers_instead() {
    for manner in [
        Manner::NotHere,
        Manner::MovedTo("b"),
        Manner::MovedTo("a"),
        Manner::MovedTo("nobody"),
        Manner::NotUnderstood,
        Manner::Nonsense,
        Manner::Silent,
    ] {
        with_worker(async |worker, _inbox| {
            see_members(&worker, &["b"]);
            let peer = Peer::start(&worker, "b", manner);
            Peer::holds_all(&worker, "b");
            let reply = text(&forwarded(&worker, CHECK).await);
            assert!(reply.ends_with("$5\r\nlocal\r\n"), "{manner:?}: {reply}");
            // It is asked again while nodes may not agree yet, and not all the time.
            assert!((1..100).contains(&peer.asked.get()), "{manner:?}: {peer:?}");
        });
    }
}

#[test]
fn other_commands_get_an_error_in_the_end() {
    for (manner, command, waits) in [
        (Manner::NotHere, "GET k", true),
        (Manner::NotUnderstood, "GET k", false),
        (Manner::NotHere, "RL.REFUND k 1", false),
        (Manner::Silent, "RL.RESET k", false),
    ] {
        with_worker(async |worker, _inbox| {
            see_members(&worker, &["b"]);
            let _peer = Peer::start(&worker, "b", manner);
            Peer::holds_all(&worker, "b");
            let started = Instant::now();
            let reply = text(&forwarded(&worker, command).await);
            assert!(reply.starts_with("-CLUSTERDOWN "), "{manner:?}: {reply}");
            if waits {
                assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
            }
        });
    }
}

#[test]
fn a_command_goes_on_at_once_to_where_its_slot_has_gone() {
    for command in [CHECK, "GET k"] {
        with_worker(async |worker, _inbox| {
            see_members(&worker, &["b", "c"]);
            let before = Peer::start(&worker, "b", Manner::MovedTo("c"));
            let after = Peer::start(&worker, "c", Manner::Done);
            Peer::holds_all(&worker, "b");
            assert_eq!(text(&forwarded(&worker, command).await), DONE);
            assert_eq!((before.asked.get(), after.asked.get()), (1, 1));
            assert_eq!(after.asked_as_heir.get(), 0, "as the holder");
        });
    }
}

#[test]
fn a_local_share_begins_with_its_part_of_what_was_seen_last() {
    with_worker(async |worker, _inbox| {
        see_members(&worker, &["b"]);
        let peer = Peer::start(&worker, "b", Manner::Done);
        Peer::holds_all(&worker, "b");
        // 4 remain, as the holder says.
        assert_eq!(text(&forwarded(&worker, CHECK).await), DONE);
        peer.manner.set(Manner::NotUnderstood);
        // This node alone is in its view of members.
        for remaining in (0..4).rev() {
            let reply = text(&forwarded(&worker, CHECK).await);
            let expected = format!("*6\r\n:1\r\n:5\r\n:{remaining}\r\n");
            assert!(reply.starts_with(&expected) && reply.ends_with("local\r\n"), "{reply}");
        }
        let reply = text(&forwarded(&worker, CHECK).await);
        assert!(reply.starts_with("*6\r\n:0\r\n"), "{reply}");
    });
}

#[test]
fn a_command_whose_sending_fails_at_once_gets_an_error_and_others_have_their_chance() {
    let long = format!("SET k {}", "x".repeat(17 << 20));
    for (failure, command, reply) in [
        ("too long", long.as_str(), "-ERR the command is too long "),
        ("unknown", "SET k v", "-CLUSTERDOWN "),
        ("unknown", "RL.RESET k", "-CLUSTERDOWN "),
        ("refused", "SET k v", "-CLUSTERDOWN "),
        ("unresolved", "SET k v", "-CLUSTERDOWN "),
        ("full", "SET k v", "-CLUSTERDOWN "),
    ] {
        with_worker(async |worker, _inbox| {
            see_members(&worker, &["b"]);
            let peers = &worker.links.as_ref().unwrap().peers;
            let name = "b".into();
            let _peer = Peer::start(&worker, "b", Manner::NotHere);
            match failure {
                "unknown" => peers.retain(|_| false),
                "refused" => {
                    let free = std::net::TcpListener::bind("127.0.0.1:0")
                        .unwrap()
                        .local_addr()
                        .unwrap();
                    peers.set(&name, 2, &free.to_string().into());
                }
                "unresolved" => peers.set(&name, 2, &"no such host:1".into()),
                "full" => {
                    // Nobody takes what is sent there, and so much may wait.
                    let link = peers.link("b", 0).unwrap();
                    let body = vec![0; 1 << 20];
                    while link.send_body(tollgate_cluster::wire::Kind::Pong, &body).is_ok() {}
                }
                _ => {}
            }
            Peer::holds_all(&worker, "b");
            let chances = Rc::new(std::cell::Cell::new(0));
            let others = {
                let chances = Rc::clone(&chances);
                tokio::task::spawn_local(async move {
                    loop {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        chances.set(chances.get() + 1);
                    }
                })
            };
            let answered = text(&forwarded(&worker, command).await);
            others.abort();
            assert!(answered.starts_with(reply), "{failure} {command:.20}: {answered}");
            // They have waited for three seconds, but for those that cannot.
            let waits = failure != "too long" && command.starts_with("SET");
            assert!(!waits || chances.get() > 20, "{failure}: {}", chances.get());
        });
    }
}

#[test]
fn without_a_replica_the_heir_decides_by_its_share() {
    with_worker(async |worker, _inbox| {
        super::see_ring(&worker, &["b", "c"], 1, 0);
        Peer::holds_all(&worker, "c");
        let reply = worker.decide_all_instead(crate::cluster::Standing::Heir, &batch(&worker, CHECK));
        assert!(text(&reply).ends_with("local\r\n"), "{}", text(&reply));
    });
}
