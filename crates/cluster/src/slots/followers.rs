//! Who follows a slot that this node holds, and what becomes of its streams when links, views or holders change.

use super::message::Message;
use super::peers::{ME, PeerIx};
use super::state::{Follower, Role, Stage};
use super::{Machine, Step};
use std::ops::Range;

impl Machine {
    /// Looks after who follows a slot that this node holds.
    pub(super) fn choose_followers(&mut self, slot: u16, step: &mut Step<'_>) {
        if self.slot(slot).held().is_none() {
            return;
        }
        let mut wanted = [self.heir(slot, ME), self.target(slot)];
        for peer in &mut wanted {
            *peer = peer.filter(|&peer| peer != ME && self.peers.get(peer).member);
        }
        let peers = &self.peers;
        let Role::Held(held) = &mut self.slots[usize::from(slot - self.first)].role else {
            return;
        };
        for peer in wanted.into_iter().flatten() {
            if !held.followers.iter().any(|follower| follower.peer == peer) {
                held.followers.push(Follower::new(peer, step.now_us));
                self.streams.waiting.insert(slot);
            }
        }
        if held.from.is_some_and(|(from, _)| !wanted.contains(&Some(from))) {
            held.from = None;
        }
        // Who was wanted before goes on until the others have caught up.
        let is_wanted = |follower: &Follower| wanted.contains(&Some(follower.peer));
        let caught_up = held
            .followers
            .iter()
            .filter(|follower| is_wanted(follower))
            .all(|follower| follower.in_step);
        let target = held.moving.map(|moving| moving.to);
        let goes = |follower: &Follower| {
            let useless = !follower.in_step || !peers.get(follower.peer).member;
            !is_wanted(follower) && target != Some(follower.peer) && (caught_up || useless)
        };
        let mut gone = Vec::new();
        for follower in held.followers.extract_if(.., |follower| goes(follower)) {
            gone.push(follower);
        }
        for mut follower in gone {
            self.streams.end(&mut follower, step.now_us);
            let epoch = self.slot(slot).belief.epoch;
            self.send_for(follower.peer, slot, Message::Unfollow { slot, epoch }, step);
        }
        if self.should_move(slot) {
            self.busy.insert(slot);
        }
        self.trim(slot, step);
    }

    /// No follower needs changes up to where all are.
    pub(super) fn trim(&mut self, slot: u16, step: &mut Step<'_>) {
        let Some(held) = self.slot(slot).held() else { return };
        let flowing = held
            .followers
            .iter()
            .filter(|follower| follower.stage != Stage::Waiting);
        let marks = flowing
            .map(|follower| follower.mark)
            .chain(held.from.map(|(_, mark)| mark));
        step.store.forget(slot, marks.min());
    }

    /// What was sent to a peer for these slots may be lost.
    pub(super) fn break_streams(&mut self, peer: PeerIx, slots: Range<u16>, step: &mut Step<'_>) {
        for slot in slots {
            let Some(held) = self.slot(slot).held() else { continue };
            let found = held.followers.iter().position(|follower| follower.peer == peer);
            if let Some(i) = found
                && self.follower(slot, i).stage != Stage::Waiting
            {
                self.restart(slot, i, step.now_us);
            }
        }
    }

    /// This node does not hold the slot any more.
    pub(super) fn stop_streams(&mut self, slot: u16, step: &mut Step<'_>) {
        let Role::Held(held) = &mut self.slots[usize::from(slot - self.first)].role else {
            return;
        };
        for follower in &mut held.followers {
            self.streams.end(follower, step.now_us);
        }
        held.followers.clear();
        self.streams.waiting.remove(slot);
        self.streams.unlinked.remove(slot);
        self.busy.remove(slot);
        self.flowing.remove(slot);
        step.store.forget(slot, None);
    }

    /// There is a link to a peer for these slots where there was none.
    pub(super) fn link_changed(&mut self, peer: PeerIx, slots: Range<u16>, step: &mut Step<'_>) {
        for slot in slots {
            let Some(held) = self.slot(slot).held() else { continue };
            if held
                .followers
                .iter()
                .any(|follower| follower.peer == peer && follower.stage == Stage::Waiting)
            {
                self.streams.waiting.insert(slot);
            }
            self.offer_again(slot, peer, step);
        }
    }
}
