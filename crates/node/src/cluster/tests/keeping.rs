//! What the worker tells its slot machine, and when.

use super::{CHECK, batch, see_members, see_ring, text, with_worker};
use crate::remote::Lane;
use std::rc::Rc;
use std::time::Duration;
use tollgate_cluster::slots::Machine;
use tollgate_commands::CheckQueue;
use tollgate_store::slot_of;

/// A little longer than the time of death.
const PAUSE: Duration = Duration::from_millis(1_100);

#[test]
fn what_is_in_the_journal_of_a_slot_is_told_before_the_slot_is_frozen_or_cleared() {
    for cleared in [false, true] {
        with_worker(async |worker, _inbox| {
            let links = worker.links.as_ref().unwrap();
            let slot = slot_of(b"k");
            // One to whom there is no connection may have taken slots: journals are kept.
            see_members(&worker, &["b"]);
            tokio::time::sleep(Duration::from_millis(60)).await;
            worker.step_slots(Machine::tick);
            worker.choose_journals();
            let check = batch(&worker, CHECK);
            let (spec, db, proto, request) = check.get(0).unwrap();
            let env = worker.env(worker.node.clock.now_us(), db, proto);
            let (mut queue, mut out) = (CheckQueue::default(), Vec::new());
            queue.start(false);
            let _queued = worker.try_run(&env, &mut queue, spec, request, &mut out);
            worker.flush(&env, &mut queue, &mut out).await;
            let journalled = || links.machine.borrow().journal_figures().1;
            assert_eq!(journalled(), 0, "only the shard has it");
            if cleared {
                // Another has it, of whom nobody knows how.
                see_ring(&worker, &["b", "c"], 1, 2);
                super::peer::Peer::holds_all(&worker, "c");
                assert!(!links.machine.borrow().is_held(slot) && !links.machine.borrow().can_stand_in(slot));
            } else {
                let peer = super::peer::Peer::start(&worker, "b", super::peer::Manner::Silent);
                peer.follow(&worker, "b", slot).await;
                super::settle().await;
            }
            assert_eq!(journalled(), 1, "cleared: {cleared}");
        });
    }
}

#[test]
fn after_a_pause_nothing_is_decided_before_the_machine_has_noticed() {
    with_worker(async |worker, inbox| {
        tokio::task::spawn_local(crate::mailbox::run(Rc::clone(&worker), inbox.mailbox));
        see_members(&worker, &["b"]);
        let ask = async || {
            let lane = Some(Lane::Client(1));
            let replies = worker.node.post_batch(0, batch(&worker, CHECK), lane).unwrap();
            text(&replies.await.unwrap())
        };
        assert!(ask().await.ends_with("owner\r\n"));
        // The whole loop stands still.
        std::thread::sleep(PAUSE);
        assert!(ask().await.ends_with("local\r\n"), "nobody has confirmed what it holds");
    });
}
