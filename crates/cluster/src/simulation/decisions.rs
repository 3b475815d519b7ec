//! How nodes decide checks, with what the oracle is told of it.

use super::faults::Profile;
use super::oracle::Admitted;
use super::world::{SLOTS, World};
use crate::journal::Admission;
use bytes::Bytes;

impl World {
    /// The node decides as the holder.
    pub fn decide(&mut self, node: u8, key: u16, cost: u64) -> bool {
        let slot = key % SLOTS;
        self.note_top(slot);
        self.oracle.counts.by_holder += 1;
        let now_us = self.now_us;
        let (life, clock_us) = (self.node(node).life, self.node(node).clock_us(now_us));
        let charged = self
            .node(node)
            .store
            .peek(key)
            .map_or(0, |bucket| bucket.charged + bucket.forgiven);
        let unconfirmed = self.node(node).unconfirmed_since_us;
        if unconfirmed.is_some_and(|since_us| now_us < since_us + self.settings.death_us) {
            self.oracle.fail(format!(
                "node {node} decides after a pause, before a peer has confirmed that it is a member"
            ));
        }
        let top = self.top(slot);
        let best = top.is_some_and(|(_, i, of)| (i, of) == (node, life));
        match top {
            Some(top) if best => self.oracle.best_decides(key, charged, top),
            _ if self.profile == Profile::Planned => {
                self.oracle.fail(format!(
                    "two holders: node {node} decides for slot {slot}, which {top:?} holds"
                ));
            }
            _ => {}
        }
        let allowed = self.node_mut(node).store.check(key, cost, clock_us);
        if let Some(bucket) = self.node(node).store.peek(key) {
            self.oracle.state_decided(key, &bucket, now_us);
            if best {
                self.oracle.best_charged[usize::from(key)] = bucket.charged + bucket.forgiven;
            }
        }
        if allowed {
            self.oracle.history[usize::from(key)].push(Admitted {
                at_us: now_us,
                node,
                tokens: cost,
            });
            self.admitted(node, key, cost, Admission::Held, best);
        }
        allowed
    }

    /// The node decides in place of the holder, on its replica.
    pub fn stand_in(&mut self, node: u8, key: u16, cost: u64) -> bool {
        self.oracle.counts.by_heir += 1;
        let (now_us, clock_us) = (self.now_us, self.node(node).clock_us(self.now_us));
        let allowed = self.node_mut(node).store.check(key, cost, clock_us);
        if let Some(bucket) = self.node(node).store.peek(key) {
            self.oracle.state_decided(key, &bucket, now_us);
        }
        if allowed {
            self.admitted(node, key, cost, Admission::Heir, false);
        }
        self.not_when_planned(node, key, "stands in");
        allowed
    }

    pub fn decide_locally(&mut self, node: u8, key: u16, cost: u64) -> bool {
        self.oracle.counts.by_local += 1;
        let (now_us, rule) = (self.now_us, self.rules[usize::from(key)]);
        let allowed = self.node_mut(node).decide_locally(key, &rule, cost, now_us);
        if allowed {
            self.admitted(node, key, cost, Admission::Local, false);
        }
        self.not_when_planned(node, key, "decides by its share");
        allowed
    }

    fn not_when_planned(&mut self, node: u8, key: u16, what: &str) {
        if self.profile == Profile::Planned {
            self.oracle
                .fail(format!("planned operations only, and node {node} {what} for key {key}"));
        }
    }

    fn admitted(&mut self, node: u8, key: u16, cost: u64, admission: Admission, best: bool) {
        self.oracle.counts.admitted += cost;
        if self.watched == Some(key % SLOTS) {
            let k = usize::from(key);
            let best_state = self
                .top(key % SLOTS)
                .and_then(|(_, top, _)| self.node(top).store.peek(key));
            let (all, lost) = (self.oracle.admitted[k] + cost, self.oracle.lost[k]);
            println!(
                "{:>9} {node}: key {key} cost {cost} {admission:?} best {best}; {all} admitted, {lost} lost, best state {:?}",
                self.now_us,
                best_state.map(|bucket| bucket.charged + bucket.forgiven),
            );
        }
        self.oracle.admitted[usize::from(key)] += cost;
        let life = self.node(node).life;
        if !best {
            self.oracle.allowance[usize::from(key)] += cost;
            *self.oracle.apart.entry((life, key)).or_default() += cost;
        }
        let slot = key % SLOTS;
        if self.watched == Some(slot) {
            println!(
                "journals {} at {node}: {:?}",
                self.node(node).machine.journals(slot),
                self.node(node).machine.journalled()
            );
        }
        let bucket = Bytes::copy_from_slice(&key.to_le_bytes());
        self.node_mut(node)
            .machine
            .admitted(slot, admission, bucket, Bytes::new(), cost);
    }
}
