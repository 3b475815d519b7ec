//! Slots on their way while keys of them are held, and commands that meet them.

use super::peer::{Manner, Peer};
use super::{CHECK, batch, see_members, settle, text, with_worker};
use crate::link::Link;
use crate::node::Place;
use crate::remote::Lane;
use crate::work::Ran;
use crate::worker::Worker;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tollgate_cluster::slots::Machine;
use tollgate_commands::{CheckQueue, RunId};
use tollgate_store::slot_of;

/// Longer than commands wait for a slot that is frozen.
const FREEZE: Duration = Duration::from_millis(510);
const RUN: RunId = RunId(1);

fn release(worker: &Worker, key: &[u8]) {
    worker.shard.borrow_mut().release(key, RUN);
    worker.wake_waiting();
}

#[test]
fn a_slot_that_was_let_go_of_is_not_closed_by_the_attempt_before() {
    with_worker(async |worker, _inbox| {
        let peer = Peer::start(&worker, "b", Manner::Silent);
        let slot = slot_of(b"k");
        assert!(worker.shard.borrow_mut().hold(b"k", RUN));
        peer.follow(&worker, "b", slot).await;
        settle().await;
        // What holds the key takes longer than commands wait.
        tokio::time::sleep(FREEZE).await;
        worker.step_slots(Machine::tick);
        assert_eq!(worker.node.place(slot), Place::Of(0));
        release(&worker, b"k");
        settle().await;
        assert!(
            !worker.shard.borrow().is_blocked(b"k"),
            "nobody waits for the attempt that is over"
        );
        assert!(!worker.shard.borrow().has_holds());
        peer.told.take();
        // The next one goes through.
        worker.step_slots(Machine::tick);
        settle().await;
        assert!(worker.shard.borrow().is_blocked(b"k"));
        worker.step_slots(Machine::tick);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(peer.was_offered());
    });
}

#[test]
fn no_key_is_lent_out_of_a_slot_that_is_offered() {
    with_worker(async |worker, _inbox| {
        let peer = Peer::start(&worker, "b", Manner::Silent);
        peer.follow(&worker, "b", slot_of(b"k")).await;
        settle().await;
        assert!(!worker.shard.borrow().may_lend(b"k", RUN));
        assert!(worker.shard.borrow().may_lend(b"other", RUN));
    });
}

#[test]
fn a_command_that_was_sent_here_is_not_done_where_its_slot_is_not_any_more() {
    for command in ["SET k v", "DEL k", "GET k", CHECK, "DEL k {k}2"] {
        with_worker(async |worker, _inbox| {
            see_members(&worker, &["b"]);
            let _peer = Peer::start(&worker, "b", Manner::Done);
            let commands = batch(&worker, command);
            let (spec, db, proto, request) = commands.get(0).unwrap();
            let env = worker.env(worker.node.clock.now_us(), db, proto);
            let (mut queue, mut out) = (CheckQueue::default(), Vec::new());
            Peer::holds_all(&worker, "b");
            let ran = worker.try_run(&env, &mut queue, spec, request, &mut out);
            assert!(matches!(ran, Ran::Later(_)), "{command}");
            assert!(queue.is_empty() && out.is_empty(), "{command}");
        });
    }
}

#[test]
fn each_key_of_a_command_is_done_where_it_is() {
    with_worker(async |worker, inbox| {
        tokio::task::spawn_local(crate::mailbox::run(Rc::clone(&worker), inbox.mailbox));
        let peer = Peer::start(&worker, "b", Manner::One);
        let ask = async |command: &str| {
            let lane = Some(Lane::Client(1));
            let replies = worker.node.post_batch(0, batch(&worker, command), lane).unwrap();
            text(&replies.await.unwrap())
        };
        assert_eq!(ask("SET own v").await, "+OK\r\n");
        assert_eq!(ask("SET k v").await, "+OK\r\n");
        // Of the keys that were all here one has gone, and here is what is left of it.
        peer.follow(&worker, "b", slot_of(b"k")).await;
        settle().await;
        Peer::holds(&worker, "b", slot_of(b"k"));
        assert_eq!(peer.asked.get(), 0);
        assert_eq!(ask("EXISTS own k").await, ":2\r\n");
        assert_eq!(peer.asked.get(), 1);
        assert_eq!(ask("DEL own k own2").await, ":2\r\n");
        assert_eq!(peer.asked.get(), 2);
    });
}

#[test]
fn checks_of_a_round_wait_for_a_key_that_is_held_after_all() {
    with_worker(async |worker, _inbox| {
        tokio::task::spawn_local(Rc::clone(&worker).run_rounds());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (mut client, accepted) = (client.await.unwrap(), listener.accept().await.unwrap().0);
        let (_input, output) = accepted.into_split();
        let link = Rc::new(Link::new(output));
        let commands = batch(&worker, CHECK);
        let (spec, db, proto, request) = commands.get(0).unwrap();
        let env = worker.env(worker.node.clock.now_us(), db, proto);
        let (mut queue, mut out) = (CheckQueue::default(), Vec::new());
        assert!(matches!(
            worker.try_run(&env, &mut queue, spec, request, &mut out),
            Ran::Done
        ));
        worker.join_round(&mut queue, &link, Instant::now());
        worker.shard.borrow_mut().hold(b"k", RUN);
        worker.decide_checks();
        settle().await;
        let mut reply = [0; 64];
        assert!(client.try_read(&mut reply).is_err(), "it waits");
        release(&worker, b"k");
        let read = client.read(&mut reply).await.unwrap();
        assert!(reply[..read].starts_with(b"*6\r\n:1\r\n:5\r\n:4\r\n"));
    });
}

#[test]
fn who_waits_for_a_slot_of_any_worker_is_woken_when_it_opens() {
    with_worker(async |worker, _inbox| {
        let peer = Peer::start(&worker, "b", Manner::Silent);
        let slot = slot_of(b"k");
        assert!(worker.shard.borrow_mut().hold(b"k", RUN));
        peer.follow(&worker, "b", slot).await;
        // As another worker's thread waits, which has a runtime of its own and no part in this one's.
        let node = std::sync::Arc::clone(&worker.node);
        let opened = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(crate::cluster::places::until_open(&node, slot));
        });
        tokio::time::sleep(FREEZE).await;
        assert!(!opened.is_finished());
        worker.step_slots(Machine::tick);
        assert_eq!(worker.node.place(slot), Place::Of(0));
        let woken = async {
            while !opened.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), woken)
            .await
            .expect("it is told");
    });
}
