//! How long a node waits for a peer, when it stops asking, and who decides instead.

use crate::slots::Decider;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Times of circuits, in microseconds.
#[derive(Debug, Clone)]
pub struct CircuitSettings {
    /// An answer is due in this time.
    pub deadline_us: u64,
    /// An answer of a peer that has missed one is due in this time.
    pub suspect_deadline_us: u64,
    /// So many misses open a circuit,
    pub misses_max: u32,
    /// if there has been no reply for this time.
    pub silence_us: u64,
    /// An open circuit lets one request through so often.
    pub probe_us: u64,
    /// How long commands other than checks wait for a holder.
    pub wait_us_max: u64,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self {
            deadline_us: 20_000,
            suspect_deadline_us: 5_000,
            misses_max: 3,
            silence_us: 100_000,
            probe_us: 100_000,
            wait_us_max: 3_000_000,
        }
    }
}

/// What a node thinks of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// It answers.
    Closed,
    /// It has missed an answer.
    Suspect,
    /// It is not asked.
    Open,
    /// It has been asked again, to see whether it answers.
    Probing,
}

#[derive(Debug, Clone, Copy)]
struct Circuit {
    state: CircuitState,
    misses: u32,
    replied_us: u64,
    probed_us: u64,
}

/// The circuits of one worker.
#[derive(Debug, Default)]
pub struct Circuits {
    settings: CircuitSettings,
    peers: BTreeMap<Arc<str>, Circuit>,
}

impl Circuits {
    /// Circuits to peers of which nothing is known yet, all closed.
    pub fn new(settings: CircuitSettings) -> Self {
        Self {
            settings,
            peers: BTreeMap::new(),
        }
    }

    /// The times.
    pub fn settings(&self) -> &CircuitSettings {
        &self.settings
    }

    /// In how many microseconds an answer of a peer is due.
    pub fn deadline_us(&self, peer: &str) -> u64 {
        match self.state(peer) {
            CircuitState::Closed => self.settings.deadline_us,
            _ => self.settings.suspect_deadline_us,
        }
    }

    /// What is thought of a peer.
    pub fn state(&self, peer: &str) -> CircuitState {
        self.peers
            .get(peer)
            .map_or(CircuitState::Closed, |circuit| circuit.state)
    }

    /// Whether a request may go to a peer now. Of an open circuit one now and then may: it is a probe.
    pub fn may_ask(&mut self, peer: &str, now_us: u64) -> bool {
        let Some(circuit) = self.peers.get_mut(peer) else {
            return true;
        };
        match circuit.state {
            CircuitState::Closed | CircuitState::Suspect => true,
            CircuitState::Open | CircuitState::Probing => {
                // A probe whose answer never came does not stop the next.
                let due = now_us >= circuit.probed_us + self.settings.probe_us;
                if due {
                    (circuit.state, circuit.probed_us) = (CircuitState::Probing, now_us);
                }
                due
            }
        }
    }

    /// A peer has answered: in time or not, it is there.
    pub fn answered(&mut self, peer: &Arc<str>, now_us: u64) {
        let circuit = Circuit {
            state: CircuitState::Closed,
            misses: 0,
            replied_us: now_us,
            probed_us: 0,
        };
        self.peers.insert(peer.clone(), circuit);
    }

    /// An answer was not there when it was due.
    pub fn missed(&mut self, peer: &Arc<str>, now_us: u64) {
        let settings = &self.settings;
        let circuit = self.peers.entry(peer.clone()).or_insert(Circuit {
            state: CircuitState::Closed,
            misses: 0,
            replied_us: now_us.saturating_sub(settings.deadline_us),
            probed_us: 0,
        });
        circuit.misses += 1;
        let silent = now_us >= circuit.replied_us + settings.silence_us;
        circuit.state = match circuit.state {
            CircuitState::Probing | CircuitState::Open => CircuitState::Open,
            _ if circuit.misses >= settings.misses_max && silent => {
                circuit.probed_us = now_us;
                CircuitState::Open
            }
            _ => CircuitState::Suspect,
        };
    }

    /// The connection to a peer was reset, and a new one refused.
    pub fn refused(&mut self, peer: &Arc<str>, now_us: u64) {
        let circuit = Circuit {
            state: CircuitState::Open,
            misses: 0,
            replied_us: 0,
            probed_us: now_us,
        };
        self.peers.insert(peer.clone(), circuit);
    }

    /// A new connection to a peer is up: it may be another life of it, of which nothing is known.
    pub fn connected(&mut self, peer: &str) {
        self.peers.remove(peer);
    }

    /// Forgets peers that are no members any more.
    pub fn retain(&mut self, is_member: impl Fn(&str) -> bool) {
        self.peers.retain(|peer, _| is_member(peer));
    }

    /// The circuits that are not closed, by peer.
    pub fn troubled(&self) -> impl Iterator<Item = (&Arc<str>, CircuitState)> {
        self.peers
            .iter()
            .map(|(peer, circuit)| (peer, circuit.state))
            .filter(|(_, state)| *state != CircuitState::Closed)
    }
}

/// What a command may do when its holder is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// RL.CHECK and CL.THROTTLE: they never wait past a deadline, and can be decided elsewhere.
    Check,
    /// RL.REFUND and RL.RESET: they never wait past a deadline either, and only the holder can do them.
    Prompt,
    /// All others: they wait for a takeover.
    Other,
}

/// Who decides a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// This node, as the holder.
    Here,
    /// Another node, believed to be the holder.
    Holder(Arc<str>),
    /// The heir, in place of the holder.
    Heir(Arc<str>),
    /// This node, as the heir.
    StandIn,
    /// This node, by its local share.
    Local,
    /// Nobody yet: ask again when something has changed, at the latest at this time.
    Wait(u64),
    /// Nobody: the command fails without effect.
    ClusterDown,
}

/// What is known when a command is routed.
#[derive(Debug)]
pub struct Question<'a> {
    /// This node's name.
    pub me: &'a str,
    /// Who decides for the slot.
    pub decider: Decider,
    /// Who would have the slot if its holder were gone.
    pub heir: Option<Arc<str>>,
    /// Whether this node has a replica of the slot.
    pub replica: bool,
    /// What kind of command it is.
    pub class: Class,
    /// When the command came, by this node's monotonic clock in microseconds.
    pub asked_us: u64,
    /// The peers that have been asked for this command and have not answered in time.
    pub missed: &'a [Arc<str>],
}

impl Circuits {
    /// Says who decides a command now.
    pub fn route(&mut self, question: &Question<'_>, now_us: u64) -> Route {
        match (&question.decider, question.class) {
            (Decider::Here, _) => Route::Here,
            (Decider::Soon, Class::Check) => {
                let until_us = question.asked_us + self.settings.deadline_us;
                if now_us < until_us {
                    Route::Wait(until_us)
                } else {
                    self.instead(question, None, now_us)
                }
            }
            (Decider::There(holder), Class::Check) => {
                if !question.missed.contains(holder) && self.may_ask(holder, now_us) {
                    Route::Holder(holder.clone())
                } else {
                    self.instead(question, Some(holder), now_us)
                }
            }
            (Decider::Nobody, Class::Check) => self.instead(question, None, now_us),
            (Decider::There(holder), Class::Prompt) => {
                if !question.missed.contains(holder) && self.may_ask(holder, now_us) {
                    Route::Holder(holder.clone())
                } else {
                    Route::ClusterDown
                }
            }
            (_, Class::Prompt) => Self::wait(question.asked_us + self.settings.deadline_us, now_us),
            (Decider::There(holder), Class::Other) if self.may_ask(holder, now_us) => Route::Holder(holder.clone()),
            (_, Class::Other) => Self::wait(question.asked_us + self.settings.wait_us_max, now_us),
        }
    }

    fn wait(until_us: u64, now_us: u64) -> Route {
        match now_us < until_us {
            true => Route::Wait(until_us),
            false => Route::ClusterDown,
        }
    }

    fn instead(&mut self, question: &Question<'_>, holder: Option<&Arc<str>>, now_us: u64) -> Route {
        match &question.heir {
            Some(heir) if **heir == *question.me => {
                if question.replica {
                    Route::StandIn
                } else {
                    Route::Local
                }
            }
            Some(heir) if Some(heir) != holder && !question.missed.contains(heir) && self.may_ask(heir, now_us) => {
                Route::Heir(heir.clone())
            }
            _ => Route::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question<'a>(decider: Decider, class: Class, missed: &'a [Arc<str>]) -> Question<'a> {
        Question {
            me: "a",
            decider,
            heir: Some("c".into()),
            replica: false,
            class,
            asked_us: 1000,
            missed,
        }
    }

    #[test]
    fn a_circuit_opens_after_three_misses_in_silence_and_closes_with_an_answer_to_a_probe() {
        let mut circuits = Circuits::default();
        let b: Arc<str> = "b".into();
        circuits.answered(&b, 0);
        assert_eq!(circuits.deadline_us("b"), 20_000);
        for now_us in [20_000, 25_000, 30_000, 95_000] {
            circuits.missed(&b, now_us);
            assert_eq!(
                (circuits.state("b"), circuits.deadline_us("b")),
                (CircuitState::Suspect, 5_000)
            );
            assert!(circuits.may_ask("b", now_us));
        }
        circuits.missed(&b, 100_000);
        assert_eq!(circuits.state("b"), CircuitState::Open);
        assert!(!circuits.may_ask("b", 199_999));
        assert!(
            circuits.may_ask("b", 200_000) && !circuits.may_ask("b", 200_000),
            "one probe"
        );
        circuits.missed(&b, 205_000);
        assert!(!circuits.may_ask("b", 299_999) && circuits.may_ask("b", 300_000));
        circuits.answered(&b, 301_000);
        assert!(circuits.may_ask("b", 301_000) && circuits.troubled().next().is_none());
    }

    #[test]
    fn a_refused_connection_opens_a_circuit_at_once() {
        let mut circuits = Circuits::default();
        circuits.refused(&"b".into(), 1000);
        assert!(!circuits.may_ask("b", 1001) && circuits.may_ask("c", 1001));
        circuits.connected("b");
        assert_eq!(circuits.state("b"), CircuitState::Closed);
        circuits.refused(&"b".into(), 1000);
        circuits.retain(|peer| peer != "b");
        assert!(circuits.may_ask("b", 1001));
    }

    #[test]
    fn a_check_goes_to_the_holder_then_the_heir_then_its_local_share() {
        let mut circuits = Circuits::default();
        let there = || Decider::There("b".into());
        let (b, c): (Arc<str>, Arc<str>) = ("b".into(), "c".into());
        let mut route = |decider, missed: &[Arc<str>]| circuits.route(&question(decider, Class::Check, missed), 2000);
        assert_eq!(route(Decider::Here, &[]), Route::Here);
        assert_eq!(route(there(), &[]), Route::Holder(b.clone()));
        assert_eq!(route(there(), std::slice::from_ref(&b)), Route::Heir(c.clone()));
        assert_eq!(route(there(), &[b.clone(), c]), Route::Local);
        assert_eq!(route(Decider::Soon, &[]), Route::Wait(21_000));
        circuits.refused(&b, 2000);
        assert_eq!(
            circuits.route(&question(there(), Class::Check, &[]), 2000),
            Route::Heir("c".into())
        );
        let heir_here = Question {
            me: "c",
            replica: true,
            ..question(there(), Class::Check, &[])
        };
        assert_eq!(circuits.route(&heir_here, 2000), Route::StandIn);
        assert_eq!(
            circuits.route(
                &Question {
                    replica: false,
                    ..heir_here
                },
                2000
            ),
            Route::Local
        );
    }

    #[test]
    fn what_only_a_holder_can_do_waits_for_one_no_longer_than_a_deadline() {
        let mut circuits = Circuits::default();
        let b: Arc<str> = "b".into();
        let mut route =
            |decider, missed: &[Arc<str>], now_us| circuits.route(&question(decider, Class::Prompt, missed), now_us);
        assert_eq!(route(Decider::Here, &[], 2000), Route::Here);
        assert_eq!(route(Decider::There(b.clone()), &[], 2000), Route::Holder(b.clone()));
        assert_eq!(route(Decider::There(b.clone()), &[b], 2000), Route::ClusterDown);
        for open in [Decider::Soon, Decider::Nobody] {
            assert_eq!(route(open.clone(), &[], 2000), Route::Wait(21_000));
            assert_eq!(route(open, &[], 21_000), Route::ClusterDown);
        }
        circuits.refused(&"b".into(), 2000);
        assert_eq!(
            circuits.route(&question(Decider::There("b".into()), Class::Prompt, &[]), 2000),
            Route::ClusterDown
        );
    }

    #[test]
    fn a_check_waits_no_longer_than_a_deadline_and_another_command_for_a_takeover() {
        let mut circuits = Circuits::default();
        circuits.refused(&"b".into(), 1000);
        let there = || Decider::There("b".into());
        assert_eq!(
            circuits.route(&question(Decider::Soon, Class::Check, &[]), 21_000),
            Route::Heir("c".into())
        );
        assert_eq!(
            circuits.route(&question(there(), Class::Other, &[]), 2000),
            Route::Wait(3_001_000)
        );
        assert_eq!(
            circuits.route(&question(Decider::Nobody, Class::Other, &[]), 3_001_000),
            Route::ClusterDown
        );
        assert_eq!(
            circuits.route(&question(there(), Class::Other, &[]), 3_001_000),
            Route::Holder("b".into()),
            "a probe"
        );
    }
}
