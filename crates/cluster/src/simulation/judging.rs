//! Who has the best claim to a slot, and what the oracle is told of it.

use super::faults::Profile;
use super::oracle::{Cause, Top};
use super::world::{KEYS, SLOTS, TICK_US, World};
use crate::slots::Event as Said;

impl World {
    pub fn said(&mut self, node: u8, said: &Said) {
        let counts = &mut self.oracle.counts;
        match said {
            Said::Arrived { .. } => counts.moves += 1,
            Said::TookOver { .. } => counts.takeovers += 1,
            Said::Lost { .. } => counts.conflicts += 1,
            Said::Paused { .. } => counts.pauses += 1,
            Said::Nonsense { .. } => self.oracle.fail(format!("node {node} could not read what a peer sent")),
            Said::Left { .. } | Said::TookBack { .. } | Said::Confirmed => {}
        }
        if self.profile == Profile::Planned
            && matches!(said, Said::TookOver { .. } | Said::Lost { .. } | Said::Paused { .. })
        {
            self.oracle
                .fail(format!("planned operations only, and node {node} says {said:?}"));
        }
    }

    /// A node says that it holds a slot.
    pub fn claim(&mut self, node: u8, slot: u16, epoch: u64) {
        let at = self.node(node);
        let (life, said, view) = (at.life, at.machine.cause(slot), at.gossip.hash());
        let cause = match (said, epoch) {
            (_, 1) => Cause::Founded,
            (true, _) => Cause::Handover,
            (false, _) => Cause::Takeover,
        };
        self.oracle.claims(slot, epoch, (node, life), cause, view);
    }

    pub fn keys_of(&self, slot: u16) -> impl Iterator<Item = u16> + use<> {
        (slot..KEYS).step_by(usize::from(SLOTS))
    }

    /// Notes what the states of the node with the best claim contain.
    pub fn note_charges(&mut self, slot: u16, node: u8) {
        for key in self.keys_of(slot) {
            let charged = self
                .node(node)
                .store
                .peek(key)
                .map_or(0, |bucket| bucket.charged + bucket.forgiven);
            self.oracle.best_charged[usize::from(key)] = charged;
        }
    }

    /// Who has the best claim to a slot.
    pub fn top(&self, slot: u16) -> Option<Top> {
        let claims = self.nodes.iter().filter(|(_, node)| node.up).filter_map(|(&i, node)| {
            let epoch = node.machine.claims(slot)?;
            Some((epoch.0, std::cmp::Reverse(i), node.life))
        });
        claims.max().map(|(epoch, i, life)| (epoch, i.0, life))
    }

    /// Notices that another node has the best claim to a slot, and allows what its state lacks, if that has a reason.
    pub fn note_top(&mut self, slot: u16) {
        let Some(top) = self.top(slot) else { return };
        let last = self.oracle.tops[usize::from(slot)];
        if last == Some(top) {
            return;
        }
        self.oracle.tops[usize::from(slot)] = Some(top);
        let noted_us = std::mem::replace(&mut self.oracle.noted_us[usize::from(slot)], self.now_us);
        let Some((last_epoch, last_node, last_life)) = last else {
            return;
        };
        let old = self.node(last_node);
        let old_lives = old.up && old.life == last_life;
        let new = self.node(top.1);
        // By handover from the one with the best claim, or by itself again: its state lacks nothing new.
        let handed = top.0 == last_epoch + 1
            && (new.machine.cause(slot) && old_lives && old.machine.offered_to(slot) == Some(&*new.id.name));
        let again = last_node == top.1 && last_life == top.2 && new.machine.holds_since(slot) <= new.clock_us(noted_us);
        if handed || again {
            return;
        }
        if self.profile == Profile::Planned {
            // The old holder may have given the slot away and gone; its state is where it went.
            return;
        }
        // One that comes by handover from another side of a cut may go back to a state that started anew.
        let new_in_step = new.machine.took_in_step(slot) && !new.machine.cause(slot);
        let calm_since = self.oracle.calm_since(last_node).max(self.oracle.calm_since(top.1));
        let weather = self.network.weather;
        let slow_us = weather.delay_us + weather.jitter_us + weather.late_us;
        let crashed_us = old.crashed_us;
        let bounded = !old_lives && new_in_step && crashed_us.is_some_and(|at_us| calm_since + 8_000_000 < at_us);
        let lag_us = self.settings.stream_interval_us + 2 * TICK_US + 2 * slow_us + 10_000;
        if old_lives && old.machine.claims(slot).is_some() && last_node != top.1 {
            self.note_charges(slot, last_node);
        }
        for key in self.keys_of(slot) {
            let charged = self
                .node(top.1)
                .store
                .peek(key)
                .map_or(0, |bucket| bucket.charged + bucket.forgiven);
            let most = bounded.then(|| {
                self.oracle
                    .admitted_since(key, last_node, crashed_us.unwrap_or(0).saturating_sub(lag_us))
            });
            self.oracle.allow(key, charged, most);
            // A state that does not come from the one before starts anew: at most one full burst. After a crash nobody can tell.
            if !old_lives || !new_in_step || self.profile == Profile::Chaos {
                let known = self.oracle.best_charged[usize::from(key)];
                // What was admitted beside the best claim it may have from anywhere.
                let own: u64 = self
                    .oracle
                    .apart
                    .iter()
                    .filter(|((_, of), _)| *of == key)
                    .map(|(_, tokens)| *tokens)
                    .sum();
                if self.watched == Some(slot) {
                    println!(
                        "{:>9} {last:?} -> {top:?}: key {key}: {known} known, has {charged}, {own} beside",
                        self.now_us
                    );
                }
                self.oracle.lost[usize::from(key)] += known.saturating_sub(charged.saturating_sub(own));
            }
        }
        self.note_charges(slot, top.1);
    }
}
