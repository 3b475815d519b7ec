//! A node's own way through the cluster: joining, ready, leaving; and the view that comes of what it hears.

use crate::damping::{self, Departures};
use crate::member::{Incarnation, MemberState};
use crate::view::{Heard, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long nobody new has to be heard before a node takes it that it has heard all.
pub const LISTEN_US: u64 = 500_000;

/// How long a node that has seeds waits to hear anybody before it forms a cluster of its own.
pub const ALONE_AFTER_US: u64 = 5_000_000;

/// What a node is in the cluster, and what it makes of the others.
#[derive(Debug)]
pub struct Membership {
    me: Incarnation,
    slots: u16,
    state: MemberState,
    /// Departures of its own that it has atoned for.
    returns: u32,
    /// The longest that it waits for any number of them.
    delay_max_us: u64,
    /// For how many departures it atones now, and until when.
    atones: Option<(u32, u64)>,
    departures: Departures,
    /// Until when it waits for others to be heard; none if it has no seeds or has waited.
    alone_until_us: Option<u64>,
    /// Whom it has heard, and when somebody new among them.
    known: BTreeSet<Incarnation>,
    quiet_since_us: u64,
    prepared: bool,
    view: Arc<View>,
}

impl Membership {
    /// A node that has just started. `has_seeds`: it was told of others, so it waits to hear them.
    #[must_use]
    pub fn new(me: Incarnation, slots: u16, has_seeds: bool, now_us: u64) -> Self {
        Self {
            me,
            slots,
            state: MemberState::Joining,
            returns: 0,
            delay_max_us: u64::MAX,
            atones: None,
            departures: Departures::default(),
            alone_until_us: has_seeds.then(|| now_us + ALONE_AFTER_US),
            known: BTreeSet::new(),
            quiet_since_us: now_us,
            prepared: false,
            view: Arc::new(View::of(Vec::new(), slots, None)),
        }
    }

    /// Waits at most so long after departures of its own. The others see that it has waited, not for how long, so nodes may differ in this.
    #[must_use]
    pub fn with_delay_max_us(mut self, delay_max_us: u64) -> Self {
        self.delay_max_us = delay_max_us;
        self
    }

    /// How far this node is, to be gossiped.
    #[must_use]
    pub fn state(&self) -> MemberState {
        self.state
    }

    /// How many departures of its own it has atoned for, to be gossiped.
    #[must_use]
    pub fn returns(&self) -> u32 {
        self.returns
    }

    /// Whose departures it has seen, to be gossiped.
    #[must_use]
    pub fn claims(&self) -> Vec<(Arc<str>, u32)> {
        self.departures.claims()
    }

    /// The view of what was heard last.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Until when this node stays out of the ring because it has come and gone.
    #[must_use]
    pub fn damped_until_us(&self) -> Option<u64> {
        self.atones.map(|(_, until_us)| until_us)
    }

    /// The node knows all that it must know to hold slots.
    pub fn prepared(&mut self) {
        self.prepared = true;
    }

    /// The node gives its slots away.
    pub fn leave(&mut self) {
        self.state = MemberState::Leaving;
    }

    /// It does not, or not any more: it goes back into the ring as one that joins.
    pub fn stay(&mut self) {
        if self.state == MemberState::Leaving {
            self.state = MemberState::Joining;
        }
    }

    /// Whether another process, of a later start, has this node's name: then this one is no member any more.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.view
            .member(&self.me.name)
            .is_some_and(|member| member.id.generation > self.me.generation)
    }

    /// Takes what gossip says now, of this node too. Returns whether the view has changed.
    pub fn hear(&mut self, now_us: u64, heard: &[Heard]) -> bool {
        let view = View::new(heard, self.slots, Some(&self.view));
        self.departures.note(now_us, &self.me.name, &self.view, &view);
        let live: BTreeSet<Incarnation> = heard.iter().map(|one| one.member.id.clone()).collect();
        if live.iter().any(|id| !self.known.contains(id)) {
            self.quiet_since_us = now_us;
        }
        self.known = live;
        let changed = view != *self.view;
        if changed {
            self.view = Arc::new(view);
        }
        self.proceed(now_us, heard);
        changed
    }

    /// Goes on to the next state if it is time.
    fn proceed(&mut self, now_us: u64, heard: &[Heard]) {
        let departures = damping::claimed(heard, &self.me.name);
        self.returns = self.returns.min(departures);
        if self.returns < departures {
            let until_us = now_us + damping::delay_us(departures).min(self.delay_max_us);
            match &mut self.atones {
                Some((count, until)) if *count < departures => (*count, *until) = (departures, until_us),
                Some(_) => {}
                None => self.atones = Some((departures, until_us)),
            }
        }
        if let Some((count, until_us)) = self.atones
            && now_us >= until_us
        {
            self.returns = count.min(departures);
            self.atones = None;
        }
        let kept_out = self
            .view
            .member(&self.me.name)
            .is_some_and(|me| me.state == MemberState::Joining);
        let may_enter = self.prepared && self.atones.is_none() && self.has_heard_all(now_us);
        match self.state {
            MemberState::Joining if may_enter => self.state = MemberState::Ready,
            // The others keep it out: it says so itself, so that they see what it sees.
            MemberState::Ready if self.atones.is_some() && kept_out => self.state = MemberState::Joining,
            _ => {}
        }
    }

    fn has_heard_all(&mut self, now_us: u64) -> bool {
        let others = self.known.iter().any(|id| id.name != self.me.name);
        match self.alone_until_us {
            Some(until_us) if others => {
                let all = now_us >= self.quiet_since_us + LISTEN_US || now_us >= until_us;
                self.alone_until_us.take_if(|_| all);
                all
            }
            Some(until_us) => {
                self.alone_until_us.take_if(|until_us| now_us >= *until_us);
                now_us >= until_us
            }
            None => true,
        }
    }
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
