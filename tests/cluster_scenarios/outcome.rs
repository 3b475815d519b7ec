//! What clients have seen in a scenario, and what must be so.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::delays::Delays;
use crate::oracle::{Check, Judgement, Quota, Source, judge};

/// A command of the load, with the number of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Check(usize),
    Throttle(usize),
    Increment(usize),
    Read(usize),
}

impl Command {
    /// Whether it must be answered whatever happens to other nodes.
    pub fn is_check(self) -> bool {
        matches!(self, Self::Check(_) | Self::Throttle(_))
    }
}

/// A command without an answer, or with an error for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub at_us: u64,
    /// The node that was asked.
    pub node: String,
    pub is_check: bool,
    pub text: String,
}

impl Fault {
    pub fn new(at_us: u64, node: &str, command: Command, text: String) -> Self {
        Self {
            at_us,
            node: node.to_owned(),
            is_check: command.is_check(),
            text,
        }
    }
}

/// All that a load has seen.
#[derive(Debug, Default)]
pub struct Records {
    /// By key of RL.CHECK.
    pub checks: Vec<Vec<Check>>,
    /// By key of CL.THROTTLE.
    pub throttles: Vec<Vec<Check>>,
    /// By key of RL.CHECK: whether its bucket has been emptied.
    pub emptied: Vec<bool>,
    pub faults: Vec<Fault>,
    /// By node that was asked: the longest time to an answer to a check, when that came, and all times.
    pub latencies_us: BTreeMap<String, Vec<(u64, u32)>>,
    /// Commands other than checks that were answered.
    pub others: u64,
    /// When a counter had less than it must have, and how much.
    pub lost: Vec<(u64, u64)>,
    /// When a counter had more.
    pub doubled: Vec<(u64, u64)>,
    /// Tokens that were asked for without an answer: they may have been given.
    pub unknown: u64,
}

impl Records {
    pub fn new(checks: usize, throttles: usize) -> Self {
        Self {
            checks: vec![Vec::new(); checks],
            throttles: vec![Vec::new(); throttles],
            emptied: vec![false; checks],
            ..Self::default()
        }
    }

    /// Notes an answer.
    pub fn answered(&mut self, command: Command, node: &str, at_us: u64, took_us: u64) {
        if !command.is_check() {
            self.others += 1;
            return;
        }
        let took_us = took_us.try_into().unwrap_or(u32::MAX);
        match self.latencies_us.get_mut(node) {
            Some(latencies) => latencies.push((at_us, took_us)),
            None => drop(self.latencies_us.insert(node.to_owned(), vec![(at_us, took_us)])),
        }
    }

    /// Notes what a counter says, which nobody else changes.
    pub fn counted(&mut self, at_us: u64, expected: Option<i64>, found: i64) {
        match expected {
            Some(expected) if found < expected => self.lost.push((at_us, expected.abs_diff(found))),
            Some(expected) if found > expected => self.doubled.push((at_us, expected.abs_diff(found))),
            _ => {}
        }
    }

    /// Notes a command whose fate is not known.
    pub fn unanswered(&mut self, command: Command, cost: u64) {
        if command.is_check() {
            self.unknown += cost;
        }
    }
}

/// What became of all keys together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    pub admitted: u64,
    pub model: u64,
    pub excess: u64,
    pub short: u64,
    /// Of all limits of keys that were checked.
    pub limits: u64,
    pub keys: usize,
}

/// The end of a scenario.
pub struct Outcome {
    pub scenario: String,
    pub client: &'static str,
    pub quota: Quota,
    pub records: Records,
    /// By key of RL.CHECK, with its number.
    pub judged: Vec<(usize, Judgement)>,
    /// By key of CL.THROTTLE.
    pub judged_throttles: Vec<(usize, Judgement)>,
    /// Nodes that were taken away, whose clients may meet a closed connection.
    pub gone: Vec<String>,
    /// Part of all processors' time that the nodes and the clients took.
    pub cpu: f64,
    /// How long nodes have waited for a processor.
    pub delays: Duration,
    /// Decisions of heirs and shares at times when no node waited for a processor.
    pub unexplained: Vec<(u64, Source)>,
}

impl Outcome {
    pub fn new(scenario: &str, client: &'static str, quota: Quota, records: Records, delays: &Delays) -> Self {
        let judge_all = |keys: &[Vec<Check>]| -> Vec<(usize, Judgement)> {
            let checked = keys.iter().enumerate().filter(|(_, checks)| !checks.is_empty());
            checked.map(|(key, checks)| (key, judge(quota, checks))).collect()
        };
        let stood_in = records
            .checks
            .iter()
            .flatten()
            .filter(|check| check.source != Source::Holder);
        let unexplained = stood_in
            .filter(|check| !delays.explain(check.sent_us) && !delays.explain(check.replied_us))
            .map(|check| (check.replied_us, check.source))
            .collect();
        Self {
            scenario: scenario.to_owned(),
            client,
            quota,
            judged: judge_all(&records.checks),
            judged_throttles: judge_all(&records.throttles),
            gone: Vec::new(),
            cpu: 0.0,
            delays: delays.sum(),
            unexplained,
            records,
        }
    }

    /// Checks that were answered.
    pub fn checks(&self) -> usize {
        let all = self.records.checks.iter().chain(&self.records.throttles);
        all.map(Vec::len).sum()
    }

    /// How many decisions, allowed or not, are from there.
    pub fn decided_by(&self, source: Source) -> usize {
        let checks = self.records.checks.iter().flatten();
        checks.filter(|check| check.source == source).count()
    }

    pub fn sums(&self) -> Sums {
        let all = self.judged.iter().chain(&self.judged_throttles);
        all.fold(Sums::default(), |sums, (_, judged)| Sums {
            admitted: sums.admitted + judged.admitted,
            model: sums.model + judged.model.min(judged.offered),
            excess: sums.excess + judged.excess,
            short: sums.short + judged.short,
            limits: sums.limits + self.quota.limit,
            keys: sums.keys + 1,
        })
    }

    /// Excess over limits, of all keys together.
    pub fn excess_part(&self) -> f64 {
        let sums = self.sums();
        sums.excess as f64 / sums.limits.max(1) as f64
    }

    /// Faults that clients of nodes which stayed have met.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        let has_gone = |fault: &Fault| {
            let unanswered = ["Unreached", "Closed", "Silent"].contains(&fault.text.as_str());
            unanswered && self.gone.contains(&fault.node)
        };
        self.records.faults.iter().filter(move |fault| !has_gone(fault))
    }

    /// How long the slowest check took, of those who asked nodes that stayed.
    pub fn slowest(&self) -> Duration {
        let stayed = self
            .records
            .latencies_us
            .iter()
            .filter(|(node, _)| !self.gone.contains(node));
        let slowest = stayed
            .flat_map(|(_, latencies)| latencies)
            .map(|(_, took_us)| *took_us)
            .max();
        Duration::from_micros(slowest.unwrap_or(0).into())
    }

    /// What must be so whatever happens: checks are answered, and the load was one that can show something.
    pub fn assert_checks_are_answered(&self) {
        let faults: Vec<&Fault> = self.faults().filter(|fault| fault.is_check).collect();
        assert!(
            faults.is_empty(),
            "{}: checks without an answer: {:?}",
            self.scenario,
            first(&faults)
        );
        let sums = self.sums();
        assert!(
            sums.keys > 0 && sums.admitted * 2 >= sums.model,
            "{}: of {} tokens only {} were given: {sums:?}",
            self.scenario,
            sums.model,
            sums.admitted
        );
    }

    /// No key was given more too much than what others gave in place of its holder, and what the events of the scenario add to that: see
    /// docs/consistency.md. `adds` says how much they add for a key with these checks.
    pub fn assert_excess_within(&self, adds: impl Fn(&[Check]) -> u64) {
        let is_beyond =
            |(key, judged): &&(usize, Judgement)| judged.excess > judged.stood_in + adds(&self.records.checks[*key]);
        let beyond: Vec<&(usize, Judgement)> = self.judged.iter().filter(is_beyond).collect();
        assert!(
            beyond.is_empty(),
            "{}: {} keys were given too much: {:?}",
            self.scenario,
            beyond.len(),
            first(&beyond)
        );
    }

    /// Commands other than checks failed only between these times, and checks were decided by others than holders only then, unless a node
    /// waited for a processor.
    pub fn assert_calm_outside(&self, events: &[Range<u64>]) {
        let is_outside = |at_us: u64| events.iter().all(|event| !event.contains(&at_us));
        let faults: Vec<&Fault> = self.faults().filter(|fault| is_outside(fault.at_us)).collect();
        assert!(
            faults.is_empty(),
            "{}: errors outside {events:?}: {:?}",
            self.scenario,
            first(&faults)
        );
        let stood_in = self.unexplained.iter().filter(|(at_us, _)| is_outside(*at_us));
        let stood_in: Vec<_> = stood_in.copied().collect();
        assert!(
            stood_in.is_empty(),
            "{}: {} checks not decided by holders outside {events:?}: {:?}",
            self.scenario,
            stood_in.len(),
            first(&stood_in)
        );
    }

    /// What must be so if nothing unplanned happens: nobody is given a token too many or too few, no command fails, none is done twice or
    /// forgotten, and only holders decide, as long as all have a processor.
    pub fn assert_planned(&self) {
        self.assert_checks_are_answered();
        let faults: Vec<&Fault> = self.faults().collect();
        assert!(faults.is_empty(), "{}: errors: {:?}", self.scenario, first(&faults));
        assert!(
            self.unexplained.is_empty(),
            "{}: {} checks not decided by holders: {:?}",
            self.scenario,
            self.unexplained.len(),
            first(&self.unexplained)
        );
        self.assert_excess_within(|_| 0);
        if self.decided_by(Source::Holder) == self.records.checks.iter().map(Vec::len).sum::<usize>() {
            let sums = self.sums();
            assert_eq!(sums.excess, 0, "{}: {sums:?}", self.scenario);
            // A moving slot's clock stands still for the time of the way.
            assert!(sums.short * 20 <= sums.model, "{}: {sums:?}", self.scenario);
        }
        let (lost, doubled) = (&self.records.lost, &self.records.doubled);
        assert!(
            lost.is_empty() && doubled.is_empty(),
            "{}: counters lost {:?} and doubled {:?}",
            self.scenario,
            first(lost),
            first(doubled)
        );
    }
}

/// Tokens that were given in a time.
pub fn given_in(checks: &[Check], time: &Range<u64>) -> u64 {
    let given = checks
        .iter()
        .filter(|check| check.allowed && time.contains(&check.replied_us));
    given.map(|check| check.cost).sum()
}

/// The first few of what may be many.
fn first<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(5)]
}
