//! What must hold at every step, seen from outside.
//!
//! For each key, G is what all nodes have admitted, and a state of its bucket at a node has a charge C: what admissions and debits have
//! ever taken from it. A state admits at most B + L·t/W, so C + level <= B + L·t/W for each state, always. The state of the holder with
//! the best claim may lack G - C, and no more than the allowances A, which only these add to:
//!
//! - a decision by a stand-in, by a local share, or by a holder that does not know of a better claim: its tokens;
//! - a takeover: what the new holder's state lacks. If the old holder has crashed, its heir was in step and the network between them
//!   was calm, that is at most what it admitted within the lag of the stream.
//!
//! So G <= B + L·t/W + A. Planned moves add nothing. Once all have met, what G - C is beyond what nobody journalled is a lost debt.

use super::store::{Bucket, KeyRule};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a node says that it holds a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Founded,
    Handover,
    Takeover,
}

/// One admission.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    pub at_us: u64,
    pub node: u8,
    pub tokens: u64,
}

/// Who has the best claim to a slot: epoch, node and its life.
pub(super) type Top = (u64, u8, u64);

#[derive(Debug)]
pub(super) struct Oracle {
    rules: Arc<[KeyRule]>,
    started_us: u64,
    /// G, by key.
    pub admitted: Vec<u64>,
    /// A, by key.
    pub allowance: Vec<u64>,
    /// What the state of the node with the best claim contained when that was last seen, by key.
    pub best_charged: Vec<u64>,
    /// What nobody can know any more, by key.
    pub lost: Vec<u64>,
    /// Admissions of holders, by key.
    pub history: Vec<Vec<Admitted>>,
    /// Tokens that each life of a node has admitted without having the best claim, by (life, key).
    pub apart: BTreeMap<(u64, u16), u64>,
    pub tops: Vec<Option<Top>>,
    /// When that was noted.
    pub noted_us: Vec<u64>,
    claims: BTreeMap<(u16, u64), (u8, u64, Cause, u64)>,
    /// The last times at which something was wrong with a node's connections, or with itself.
    pub troubles: BTreeMap<u8, Vec<u64>>,
    pub violation: Option<String>,
    pub counts: Counts,
}

/// What happened in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub checks: u64,
    pub by_holder: u64,
    pub by_heir: u64,
    pub by_local: u64,
    pub admitted: u64,
    pub excess: u64,
    pub others: u64,
    pub cluster_down: u64,
    pub unanswered: u64,
    pub moves: u64,
    pub takeovers: u64,
    pub conflicts: u64,
    pub pauses: u64,
    pub messages: u64,
    pub messages_in_a_second_max: u64,
    pub faults: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.checks += other.checks;
        self.by_holder += other.by_holder;
        self.by_heir += other.by_heir;
        self.by_local += other.by_local;
        self.admitted += other.admitted;
        self.excess += other.excess;
        self.others += other.others;
        self.cluster_down += other.cluster_down;
        self.unanswered += other.unanswered;
        self.moves += other.moves;
        self.takeovers += other.takeovers;
        self.conflicts += other.conflicts;
        self.pauses += other.pauses;
        self.messages += other.messages;
        self.messages_in_a_second_max = self.messages_in_a_second_max.max(other.messages_in_a_second_max);
        self.faults += other.faults;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} faults; {} checks: {} by holders, {} by heirs, {} by shares; {} tokens admitted, {} lacking at takeovers; \
             {} other commands, {} refused, {} lost with their node; {} slots moved, {} taken over, {} lost on contact; \
             {} pauses; {} messages, at most {} in a second",
            self.faults,
            self.checks,
            self.by_holder,
            self.by_heir,
            self.by_local,
            self.admitted,
            self.excess,
            self.others,
            self.cluster_down,
            self.unanswered,
            self.moves,
            self.takeovers,
            self.conflicts,
            self.pauses,
            self.messages,
            self.messages_in_a_second_max
        )
    }
}

impl Oracle {
    pub fn new(rules: Arc<[KeyRule]>, slots: u16, started_us: u64) -> Self {
        let keys = rules.len();
        Self {
            rules,
            started_us,
            admitted: vec![0; keys],
            allowance: vec![0; keys],
            best_charged: vec![0; keys],
            lost: vec![0; keys],
            history: vec![Vec::new(); keys],
            apart: BTreeMap::new(),
            tops: vec![None; usize::from(slots)],
            noted_us: vec![0; usize::from(slots)],
            claims: BTreeMap::new(),
            troubles: BTreeMap::new(),
            violation: None,
            counts: Counts::default(),
        }
    }

    pub fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// C + level <= B + L·t/W, for any state.
    pub fn state_decided(&mut self, key: u16, bucket: &Bucket, now_us: u64) {
        let rule = self.rules[usize::from(key)];
        let most = i128::from(rule.full()) + i128::from(rule.limit) * i128::from(now_us - self.started_us);
        let has = i128::from(bucket.level) + i128::from(bucket.charged) * i128::from(rule.window_us);
        if has > most {
            let over = (has - most) / i128::from(rule.window_us);
            self.fail(format!(
                "minted: key {key} has {over} tokens more than its limit gives ({bucket:?}, {rule:?})"
            ));
        }
    }

    /// A holder with the best claim decides: what its state lacks is within the allowances.
    pub fn best_decides(&mut self, key: u16, charged: u64, who: Top) {
        let lacks = self.admitted[usize::from(key)].saturating_sub(charged);
        let allowance = self.allowance[usize::from(key)];
        if lacks > allowance {
            self.fail(format!(
                "lost admissions: node {} (epoch {}) decides for key {key} without {lacks} tokens that were admitted; \
                 {allowance} may be lacking",
                who.1, who.0
            ));
        }
    }

    /// Another node has the best claim to a slot now: what its states lack is allowed from now on, or the most that is allowed.
    pub fn allow(&mut self, key: u16, charged: u64, most: Option<u64>) -> u64 {
        let k = usize::from(key);
        let lacks = self.admitted[k].saturating_sub(charged);
        let more = lacks.saturating_sub(self.allowance[k]);
        if let Some(most) = most.filter(|most| more > *most) {
            self.fail(format!(
                "takeover: key {key} lacks {more} tokens beyond what was lacking before, and the dead holder admitted {most} \
                 within the lag"
            ));
        }
        self.allowance[k] += more;
        self.counts.excess += more;
        more
    }

    /// Tokens that a node admitted as a holder since a time.
    pub fn admitted_since(&self, key: u16, node: u8, since_us: u64) -> u64 {
        let recent = self.history[usize::from(key)]
            .iter()
            .rev()
            .take_while(|one| one.at_us >= since_us);
        recent.filter(|one| one.node == node).map(|one| one.tokens).sum()
    }

    pub fn trouble(&mut self, node: u8, now_us: u64) {
        self.troubles.entry(node).or_default().push(now_us);
    }

    pub fn calm_since(&self, node: u8) -> u64 {
        self.troubles
            .get(&node)
            .and_then(|times| times.last().copied())
            .unwrap_or(0)
    }

    /// A node has come to hold a slot, with a view of which this is the hash. A view has one target for a slot, so that two nodes never
    /// come to the same epoch in one view.
    pub fn claims(&mut self, slot: u16, epoch: u64, who: (u8, u64), cause: Cause, view: u64) {
        let Some(&(node, life, other, other_view)) = self.claims.get(&(slot, epoch)) else {
            self.claims.insert((slot, epoch), (who.0, who.1, cause, view));
            return;
        };
        if (node, life) != who && view == other_view {
            let who = who.0;
            self.fail(format!(
                "two holders: slot {slot} epoch {epoch}: node {node} by {other:?}, node {who} by {cause:?}"
            ));
        }
    }

    /// What holders admitted around the times when something was wrong with them, before they began a journal.
    pub fn gap(&self, key: u16, before_us: u64, after_us: u64) -> u64 {
        let near = |one: &&Admitted| {
            let times = self.troubles.get(&one.node).map_or(&[][..], |times| times);
            times
                .iter()
                .any(|time| one.at_us + before_us >= *time && one.at_us <= time + after_us)
        };
        self.history[usize::from(key)]
            .iter()
            .filter(near)
            .map(|one| one.tokens)
            .sum()
    }
}
