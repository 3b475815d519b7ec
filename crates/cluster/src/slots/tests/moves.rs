//! Joins, drains, and offers that go wrong.

use super::*;

#[test]
fn a_founder_holds_all_and_a_join_moves_half_with_their_entries() {
    let net = pair();
    for slot in 0..SLOTS {
        let (holder, other) = if slot % 2 == 0 { (0, 1) } else { (1, 0) };
        assert!(net.decides(holder, slot) && !net.decides(other, slot), "slot {slot}");
        let name = net.nodes[holder].id.name.clone();
        assert_eq!(net.nodes[other].machine.decider(slot, net.now_us), Decider::There(name));
        assert!(net.nodes[other].machine.can_stand_in(slot), "the other has a replica");
        for key in [slot, slot + SLOTS] {
            assert_eq!(net.left(holder, key), Some(7));
            assert_eq!(net.left(other, key), Some(7));
        }
    }
}

#[test]
fn changes_reach_the_heir_within_an_interval_and_it_takes_over_with_them() {
    let mut net = pair();
    assert!(net.check(1, 1));
    net.run(&[0, 1], 30_000);
    assert_eq!(net.left(0, 1), Some(6));
    let epoch = net.nodes[0].machine.epoch(1);
    net.view(&[0], &[], &[0]);
    assert!(net.decides(0, 1));
    assert_eq!(net.nodes[0].machine.epoch(1), Epoch(epoch.0 + 1));
    assert!(net.nodes[0].events.contains(&Event::TookOver {
        slot: 1,
        epoch: Epoch(epoch.0 + 1),
        in_step: true
    }));
    assert!((0..6).all(|_| net.check(0, 1)) && !net.check(0, 1));
}

#[test]
fn the_clock_travels_and_a_fast_wall_clock_refills_nothing() {
    let mut net = pair();
    // Node b's wall clock is three seconds ahead; a token takes six.
    while net.check(1, 1) {}
    net.run(&[0, 1], 100_000);
    assert!(!net.check(1, 1));
    net.run(&[0, 1], 6_000_000);
    assert!(net.check(1, 1) && !net.check(1, 1));
}

#[test]
fn a_drain_leaves_nothing_behind() {
    let mut net = pair();
    net.view(&[0, 1], &[1], &[0, 1]);
    net.run(&[0, 1], 500_000);
    assert_eq!(net.nodes[1].machine.held(), 0);
    assert_eq!(net.nodes[0].machine.held(), usize::from(SLOTS));
    assert_eq!(net.left(0, 1), Some(7));
}

#[test]
fn an_offer_that_was_not_answered_is_not_decided_on_and_asked_again() {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.freezes = false;
    net.run(&[0, 1], 100_000);
    assert_eq!(net.nodes[0].machine.decider(1, net.now_us), Decider::Soon, "frozen");
    net.cut.push((1, 0));
    net.frozen(0, 1);
    net.deliver();
    assert!(net.decides(1, 1), "b has taken it");
    net.unlink(0, 1);
    net.cut.clear();
    net.run(&[0, 1], 1_000_000);
    assert_eq!(
        net.nodes[0].machine.decider(1, net.now_us),
        Decider::There("b".into()),
        "those who waited ask b"
    );
    net.link(0, 1);
    net.run(&[0, 1], 100_000);
    assert!(net.nodes[0].machine.can_stand_in(1) && net.nodes[0].machine.epoch(1) == Epoch(2));
}

#[test]
fn a_slot_offered_to_one_that_dies_is_taken_back_with_an_epoch_that_was_not_offered() {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.freezes = false;
    net.run(&[0, 1], 100_000);
    net.cut.push((0, 1));
    net.frozen(0, 1);
    net.run(&[0, 1], 100_000);
    assert!(!net.decides(0, 1));
    net.view(&[0], &[], &[0]);
    assert!(net.decides(0, 1));
    assert_eq!(net.nodes[0].machine.epoch(1), Epoch(4));
}

#[test]
fn an_offer_after_lost_changes_is_refused_and_the_slot_is_copied_again() {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.freezes = false;
    net.run(&[0, 1], 100_000);
    // The last changes are lost, and the offer is not.
    let now_us = net.now_us;
    assert!(net.nodes[0].store.check(1, 1, now_us));
    net.cut.push((0, 1));
    net.frozen(0, 1);
    net.cut.clear();
    net.freezes = true;
    net.run(&[0, 1], 2_000_000);
    assert!(net.decides(1, 1));
    assert_eq!(net.left(1, 1), Some(9));
    assert!(net.nodes[0].events.contains(&Event::TookBack {
        slot: 1,
        epoch: Epoch(3)
    }));
    assert_eq!(net.nodes[1].machine.epoch(1), Epoch(4));
}

#[test]
fn what_was_to_be_frozen_and_was_let_go_of_is_not_frozen_by_the_attempt_before() {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.freezes = false;
    net.run(&[0, 1], 100_000);
    let first = net.freeze_numbers[&(0, 1)];
    assert!(net.nodes[0].machine.is_freezing(1, first));
    // Longer than commands may wait: it thaws, and is to be frozen again.
    while net.freeze_numbers[&(0, 1)] == first {
        net.run(&[0, 1], 5_000);
    }
    assert!(!net.nodes[0].machine.is_freezing(1, first));
    net.step(0, |machine, step| machine.frozen(1, first, step));
    net.run(&[0, 1], 100_000);
    assert!(!net.decides(1, 1), "its commands are still under way");
    net.frozen(0, 1);
    net.run(&[0, 1], 100_000);
    assert!(net.decides(1, 1));
    assert!(!net.nodes[0].machine.is_freezing(1, net.freeze_numbers[&(0, 1)]));
}

/// Two nodes, of which the first has founded the cluster, has three tokens taken of each key, and streams to the other.
fn founder_and_follower() -> Net {
    let mut net = Net::new(&["a", "b"]);
    net.step(0, |machine, step| machine.found(step));
    for key in 0..SLOTS * 4 {
        assert!((0..3).all(|_| net.check(0, key)));
    }
    net.freezes = false;
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net
}

#[test]
fn a_replica_of_which_only_a_part_has_come_stands_in_for_nobody() {
    let mut net = founder_and_follower();
    // Its entries are several batches.
    let stands_in = |net: &Net| net.nodes[1].machine.can_stand_in(1);
    let keys_there = |net: &Net| (0..4).filter(|i| net.left(1, 1 + i * SLOTS).is_some()).count();
    let mut in_parts = false;
    for _ in 0..100 {
        net.now_us += 5_000;
        net.step(0, |machine, step| machine.tick(step));
        for (from, to, message) in std::mem::take(&mut net.under_way) {
            let id = net.nodes[from].id.clone();
            net.step(to, |machine, step| machine.receive(&id, 0, message, step));
            in_parts |= (1..4).contains(&keys_there(&net));
            assert!(!stands_in(&net) || keys_there(&net) == 4);
        }
    }
    assert!(in_parts && stands_in(&net));
    // When its stream begins again it is old, but whole.
    net.unlink(0, 1);
    net.link(0, 1);
    assert!(stands_in(&net));
}

#[test]
fn a_batch_that_makes_no_sense_is_not_acknowledged_and_the_copy_begins_again() {
    let mut net = founder_and_follower();
    let mut spoiled = 0;
    for _ in 0..200 {
        net.now_us += 5_000;
        (0..2).for_each(|node| net.step(node, |machine, step| machine.tick(step)));
        for (_, _, message) in &mut net.under_way {
            if let Message::Batch(batch) = message
                && batch.slot == 1
                && !batch.entries.is_empty()
                && spoiled < 2
            {
                batch.entries = batch.entries[..batch.entries.len() - 1].to_vec().into();
                spoiled += 1;
            }
        }
        net.deliver();
    }
    assert_eq!(spoiled, 2);
    assert!(net.nodes[1].events.contains(&Event::Nonsense { peer: "a".into() }));
    for key in [1, 1 + SLOTS, 1 + 2 * SLOTS, 1 + 3 * SLOTS] {
        assert_eq!(net.left(1, key), Some(7), "key {key}");
    }
}
