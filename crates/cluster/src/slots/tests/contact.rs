//! Deaths, restarts, cuts, pauses, and what peers make of each other's claims.

use super::*;

#[test]
fn of_two_founders_the_smaller_name_holds_all_and_then_they_share() {
    let mut net = Net::new(&["a", "b"]);
    for node in [0, 1] {
        net.step(node, |machine, step| machine.found(step));
        net.view(&[node], &[], &[node]);
    }
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.deliver();
    net.deliver();
    assert_eq!(
        (net.nodes[0].machine.held(), net.nodes[1].machine.held()),
        (usize::from(SLOTS), 0)
    );
    net.run(&[0, 1], 500_000);
    assert_eq!((net.nodes[0].machine.held(), net.nodes[1].machine.held()), (8, 8));
}

#[test]
fn after_a_cut_the_higher_epoch_holds_and_the_other_follows() {
    let mut net = pair();
    net.unlink(0, 1);
    net.view(&[0], &[], &[0]);
    net.view(&[1], &[], &[1]);
    assert!(net.decides(0, 1) && net.decides(1, 1), "both sides go on");
    net.run(&[0, 1], 100_000);
    net.link(0, 1);
    net.deliver();
    assert!(net.decides(0, 1) && !net.decides(1, 1));
    net.view(&[0, 1], &[], &[0, 1]);
    net.run(&[0, 1], 1_000_000);
    assert!(net.decides(1, 1) && net.decides(0, 0), "each has its own again");
}

#[test]
fn a_restart_that_nobody_noticed_leaves_its_slots_to_the_heir() {
    let mut net = pair();
    net.unlink(0, 1);
    let b = net.add("b", 2);
    net.link(0, b);
    net.run(&[0, b], 10_000);
    assert_eq!(net.nodes[0].machine.held(), 8, "the view still has the old b");
    net.view(&[0], &[], &[0]);
    assert_eq!(net.nodes[0].machine.held(), usize::from(SLOTS));
    net.view(&[0, b], &[], &[0, b]);
    net.run(&[0, b], 500_000);
    assert!(net.decides(b, 1));
    assert_eq!(net.left(b, 1), Some(7));
}

#[test]
fn a_lost_announcement_is_noticed_by_a_digest() {
    let mut net = Net::new(&["a", "b", "c"]);
    net.step(0, |machine, step| machine.found(step));
    net.view(&[0, 1, 2], &[], &[0, 1, 2]);
    net.link(0, 1);
    net.link(0, 2);
    net.link(1, 2);
    net.cut.push((1, 2));
    net.run(&[0, 1, 2], 200_000);
    assert_eq!(
        net.nodes[2].machine.decider(1, net.now_us),
        Decider::There("a".into()),
        "c has not heard of b"
    );
    net.cut.clear();
    net.run(&[0, 1, 2], 4_000_000);
    assert_eq!(net.nodes[2].machine.decider(1, net.now_us), Decider::There("b".into()));
}

#[test]
fn after_a_pause_a_node_decides_nothing_until_a_peer_has_confirmed() {
    let mut net = pair();
    net.run(&[0], 1_500_000);
    assert!(!net.decides(1, 1), "even before it ticks");
    net.step(1, |machine, step| machine.tick(step));
    assert_eq!(net.nodes[1].machine.decider(1, net.now_us), Decider::Soon);
    net.run(&[0, 1], 20_000);
    assert!(net.decides(1, 1));
    // This time it was taken for dead.
    net.run(&[0], 1_500_000);
    net.view(&[0], &[], &[0]);
    net.run(&[0, 1], 500_000);
    assert!(!net.decides(1, 1) && net.decides(0, 1));
    net.view(&[0, 1], &[], &[0]);
    net.run(&[0, 1], 500_000);
    assert!(net.decides(1, 1));
}

#[test]
fn a_slot_that_nobody_knows_is_taken_by_its_target_after_all_were_asked() {
    let mut net = Net::new(&["a", "b"]);
    net.view(&[0, 1], &[], &[0, 1]);
    net.link(0, 1);
    net.run(&[0, 1], 2_000_000);
    assert_eq!(net.nodes[0].machine.held(), 0);
    net.run(&[0, 1], 2_000_000);
    assert_eq!((net.nodes[0].machine.held(), net.nodes[1].machine.held()), (8, 8));
}

#[test]
fn messages_for_slots_of_others_do_nothing() {
    let mut net = pair();
    let id = net.nodes[1].id.clone();
    let beyond = SLOTS + 3;
    let claims = vec![Claim {
        first: 3,
        last: u16::MAX,
        epoch: Epoch(0),
        holder: None,
    }];
    let messages = vec![
        Message::Holdings {
            runs: vec![Run {
                first: beyond,
                last: u16::MAX,
                epoch: Epoch(9),
            }],
            all: false,
        },
        Message::Holdings {
            runs: vec![Run {
                first: 9,
                last: 2,
                epoch: Epoch(9),
            }],
            all: false,
        },
        Message::Ask {
            ranges: vec![(beyond, u16::MAX), (7, 3)],
            number: u64::MAX,
        },
        Message::Known {
            claims,
            answer: Some(3),
        },
        Message::Ack {
            slot: beyond,
            stream: 1,
            number: u64::MAX,
        },
        Message::Behind {
            slot: beyond,
            stream: 1,
        },
        Message::Unfollow {
            slot: beyond,
            epoch: Epoch(1),
        },
        Message::NotTaken {
            slot: beyond,
            epoch: Epoch(1),
        },
    ];
    for message in messages {
        net.step(0, |machine, step| machine.receive(&id, 7, message, step));
    }
    net.run(&[0, 1], 100_000);
    assert_eq!((net.nodes[0].machine.held(), net.nodes[1].machine.held()), (8, 8));
}

#[test]
fn a_node_that_was_believed_to_hold_a_slot_and_says_that_nobody_does_is_believed() {
    let mut net = pair();
    let id = net.nodes[1].id.clone();
    let epoch = net.nodes[0].machine.epoch(1);
    let claims = vec![Claim {
        first: 1,
        last: 1,
        epoch,
        holder: None,
    }];
    net.step(0, |machine, step| {
        machine.receive(&id, 0, Message::Known { claims, answer: None }, step)
    });
    assert_eq!(net.nodes[0].machine.decider(1, net.now_us), Decider::Nobody);
}
