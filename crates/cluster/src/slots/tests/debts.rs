//! What was admitted in place of a holder.

use super::*;
use crate::journal::Admission;
use bytes::Bytes;

impl Net {
    /// A node admits one token of a key, and tells its machine.
    fn admit(&mut self, node: usize, key: u16, admission: Admission) {
        let now_us = self.now_us;
        if admission != Admission::Local {
            assert!(self.nodes[node].store.check(key, 1, now_us));
        }
        let bucket = Bytes::copy_from_slice(&key.to_le_bytes());
        self.nodes[node]
            .machine
            .admitted(key % SLOTS, admission, bucket, Bytes::new(), 1);
    }

    /// Nothing is owed any more.
    fn settled(&self) -> bool {
        self.nodes.iter().all(|node| node.machine.journal_figures() == (0, 0))
    }
}

#[test]
fn what_a_stand_in_and_a_share_admit_is_taken_at_the_holder_once() {
    let mut net = pair();
    for _ in 0..2 {
        net.admit(0, 1, Admission::Heir);
    }
    net.admit(0, 1, Admission::Local);
    // The holder's answers are lost, so the debits come more than once.
    net.cut.push((1, 0));
    net.run(&[0, 1], 800_000);
    assert_eq!(net.left(1, 1), Some(4), "of seven");
    assert!(!net.settled());
    net.cut.clear();
    net.unlink(0, 1);
    net.link(0, 1);
    net.run(&[0, 1], 800_000);
    assert_eq!(
        (net.left(1, 1), net.left(0, 1)),
        (Some(4), Some(4)),
        "and it flows back to the replica"
    );
    assert!(net.settled());
}

#[test]
fn a_stand_in_that_takes_over_has_its_own_admissions_and_takes_those_of_its_share() {
    let mut net = pair();
    net.unlink(0, 1);
    net.admit(0, 1, Admission::Heir);
    net.admit(0, 1, Admission::Local);
    assert_eq!(net.left(0, 1), Some(6));
    net.view(&[0], &[], &[0]);
    assert!(net.decides(0, 1));
    assert_eq!(net.left(0, 1), Some(5));
}

#[test]
fn the_loser_of_a_cut_owes_what_it_has_admitted_since() {
    let mut net = pair();
    assert!(!net.nodes[1].machine.journals(1));
    net.unlink(0, 1);
    net.run(&[0, 1], 300_000);
    assert!(net.nodes[1].machine.journals(1), "nobody knows what the other does");
    net.view(&[0], &[], &[0]);
    for _ in 0..3 {
        net.admit(1, 1, Admission::Held);
    }
    net.admit(0, 1, Admission::Held);
    net.link(0, 1);
    net.run(&[0], 10_000);
    net.run(&[0, 1], 2_000_000);
    let holder = usize::from(!net.decides(0, 1));
    assert_eq!(net.left(holder, 1), Some(3), "of seven, four were admitted");
}

#[test]
fn a_holder_forgets_its_journal_once_all_have_been_back_for_a_while() {
    let mut net = pair();
    net.unlink(0, 1);
    net.run(&[0, 1], 300_000);
    net.admit(1, 1, Admission::Held);
    net.link(0, 1);
    net.run(&[0, 1], 1_000_000);
    assert!(!net.settled(), "it may yet hear of a better claim");
    net.run(&[0, 1], 6_000_000);
    assert!(net.settled() && !net.nodes[1].machine.journals(1));
    assert_eq!(net.left(1, 1), Some(6));
}

#[test]
fn debts_and_what_was_taken_of_them_go_along_with_a_slot() {
    let mut net = pair();
    net.admit(0, 1, Admission::Local);
    net.cut.push((1, 0));
    net.run(&[0, 1], 100_000);
    assert_eq!(net.left(1, 1), Some(6), "taken, and the answer is lost");
    net.cut.clear();
    // Node b leaves: its slot goes to a, which has not heard that its debit was taken.
    net.view(&[0, 1], &[1], &[0, 1]);
    net.run(&[0, 1], 1_500_000);
    assert!(net.decides(0, 1));
    assert_eq!(net.left(0, 1), Some(6), "it does not take it again");
    assert!(net.nodes[1].machine.drained());
}

#[test]
fn what_a_holder_admitted_and_tells_late_is_owed_if_it_lost_the_slot_and_not_if_it_gave_it_away() {
    let mut net = pair();
    net.unlink(0, 1);
    net.view(&[0], &[], &[0]);
    net.link(0, 1);
    net.deliver();
    assert!(!net.decides(1, 1), "lost");
    let owed = |net: &mut Net, node: usize, key: u16| {
        let bucket = Bytes::copy_from_slice(&key.to_le_bytes());
        net.nodes[node]
            .machine
            .admitted(key % SLOTS, Admission::Held, bucket, Bytes::new(), 1);
        net.nodes[node].machine.journal_figures().1
    };
    assert_eq!(owed(&mut net, 1, 1), 1);
    let mut net = pair();
    net.view(&[0, 1], &[1], &[0, 1]);
    net.run(&[0, 1], 500_000);
    assert_eq!(owed(&mut net, 1, 1), 0);
}

#[test]
fn what_a_share_admits_while_a_slot_moves_is_taken_where_it_goes() {
    let mut net = pair();
    net.freezes = false;
    net.view(&[0, 1], &[1], &[0, 1]);
    net.run(&[0, 1], 50_000);
    assert_eq!(net.nodes[1].machine.decider(1, net.now_us), Decider::Soon, "frozen");
    net.admit(1, 1, Admission::Local);
    net.frozen(1, 1);
    net.run(&[0, 1], 200_000);
    assert!(net.decides(0, 1));
    assert_eq!(net.left(0, 1), Some(6), "of seven");
}

#[test]
fn what_a_share_admits_while_a_slot_is_frozen_is_taken_here_if_it_stays() {
    let mut net = pair();
    net.freezes = false;
    net.view(&[0, 1], &[1], &[0, 1]);
    net.run(&[0, 1], 50_000);
    net.admit(1, 1, Admission::Local);
    net.run(&[0, 1], 510_000);
    assert_eq!(net.left(1, 1), Some(6), "nothing came of it in half a second");
}

#[test]
fn that_debits_were_taken_is_believed_of_nobody_but_who_got_them() {
    let mut net = pair();
    let c = net.add("c", 1);
    net.cut.push((0, 1));
    net.admit(0, 1, Admission::Local);
    net.run(&[0, 1], 100_000);
    let id = net.nodes[c].id.clone();
    for number in 0..10 {
        let lie = Message::Debited { slot: 1, number };
        net.step(0, |machine, step| machine.receive(&id, 0, lie, step));
    }
    assert!(!net.settled());
    net.cut.clear();
    net.run(&[0, 1], 800_000);
    assert!(net.settled());
    assert_eq!(net.left(1, 1), Some(6), "of seven");
}
