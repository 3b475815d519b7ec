//! LATENCY: when commands took long (<https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/latency-monitor/>).
//!
//! A node has the two events that it can measure: `command` and, for commands that are flagged so, `fast-command`. While the threshold
//! is 0 nothing is noted; a command that was not slow costs nothing more than SLOWLOG does.

mod graph;

use crate::CommandError;
use crate::node_view::ConnectionCall;
use crate::table::Spec;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Samples that an event keeps (Redis, `LATENCY_TS_LEN`).
const SAMPLES_MAX: usize = 160;
/// Names of the events.
const EVENTS: [&str; 2] = ["command", "fast-command"];

/// The worst of one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    /// Unix time in seconds.
    unix_s: u64,
    latency_ms: u64,
}

/// The samples of an event, the oldest first.
#[derive(Debug, Default)]
struct Series {
    samples: VecDeque<Sample>,
    /// The worst since the last reset.
    max_ms: u64,
}

/// When commands of a node took long.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    threshold_ms: AtomicU64,
    events: [Mutex<Series>; EVENTS.len()],
}

impl LatencyMonitor {
    /// Commands that take so long are noted; none if this is [`Duration::MAX`].
    #[inline]
    pub fn noted_from(&self) -> Duration {
        match self.threshold_ms() {
            0 => Duration::MAX,
            ms => Duration::from_millis(ms),
        }
    }

    /// The threshold in milliseconds; 0 while nothing is noted.
    pub fn threshold_ms(&self) -> u64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_threshold_ms(&self, ms: u64) {
        self.threshold_ms.store(ms, Ordering::Relaxed);
    }

    /// Notes a command that took so long, if that is worth it, at a Unix time in seconds.
    pub fn note(&self, spec: &Spec, took: Duration, unix_s: u64) {
        if took < self.noted_from() {
            return;
        }
        // 64 bits of milliseconds are more than any command takes.
        let latency_ms = took.as_millis() as u64;
        let mut series = lock(&self.events[usize::from(spec.has_flag("fast"))]);
        series.max_ms = series.max_ms.max(latency_ms);
        match series.samples.back_mut() {
            // One a second. Workers are not quite in step.
            Some(last) if last.unix_s >= unix_s => last.latency_ms = last.latency_ms.max(latency_ms),
            _ => {
                if series.samples.len() == SAMPLES_MAX {
                    series.samples.pop_front();
                }
                series.samples.push_back(Sample { unix_s, latency_ms });
            }
        }
    }

    /// The events of which there are samples, each with its last and its worst.
    fn latest(&self) -> Vec<(&'static str, Sample, u64)> {
        let latest = |(name, series): (&&'static str, &Mutex<Series>)| {
            let series = lock(series);
            Some((*name, *series.samples.back()?, series.max_ms))
        };
        EVENTS.iter().zip(&self.events).filter_map(latest).collect()
    }

    /// The samples of an event and the worst latency since the last reset. Names are compared as Redis does: case counts.
    fn samples(&self, event: &[u8]) -> (Vec<Sample>, u64) {
        let Some(at) = EVENTS.iter().position(|name| name.as_bytes() == event) else {
            return (Vec::new(), 0);
        };
        let series = lock(&self.events[at]);
        (series.samples.iter().copied().collect(), series.max_ms)
    }

    /// Forgets the samples of an event; whether there were any.
    fn reset(&self, event: &[u8]) -> bool {
        let found = EVENTS.iter().position(|name| name.as_bytes() == event);
        found.is_some_and(|at| !std::mem::take(&mut *lock(&self.events[at])).samples.is_empty())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `LATENCY LATEST`
pub(crate) fn latest(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let latest = call.node.latency().latest();
    let mut reply = call.reply();
    reply.array(latest.len());
    for (event, last, max_ms) in latest {
        reply.array(4);
        reply.bulk(event.as_bytes());
        // All far below 2^63.
        for number in [last.unix_s, last.latency_ms, max_ms] {
            reply.int(number as i64);
        }
    }
    Ok(())
}

/// `LATENCY HISTORY event`
pub(crate) fn history(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let (samples, _) = call.node.latency().samples(call.request.arg(2));
    let mut reply = call.reply();
    reply.array(samples.len());
    for sample in samples {
        reply.array(2);
        reply.int(sample.unix_s as i64);
        reply.int(sample.latency_ms as i64);
    }
    Ok(())
}

/// `LATENCY RESET [event ...]`
pub(crate) fn reset(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let (node, request) = (call.node, call.request);
    let is_reset = |event: &&[u8]| node.latency().reset(event);
    let count = match request.len() {
        2 => EVENTS.iter().map(|name| name.as_bytes()).filter(is_reset).count(),
        _ => request.iter().skip(2).filter(is_reset).count(),
    };
    call.reply().int(count as i64);
    Ok(())
}

/// `LATENCY GRAPH event`
pub(crate) fn graph(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let event = call.request.arg(2);
    let (samples, max_ms) = call.node.latency().samples(event);
    if samples.is_empty() {
        let event = CommandError::quote(event);
        return Err(CommandError::Other(format!("No samples available for event '{event}'")));
    }
    let text = graph::draw(&String::from_utf8_lossy(event), &samples, max_ms, call.unix_s());
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

/// `LATENCY DOCTOR`
pub(crate) fn doctor(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let monitor = call.node.latency();
    let text = report(monitor, call.unix_s());
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

/// What DOCTOR says, in words of our own: Redis's are not meant for programs.
fn report(monitor: &LatencyMonitor, now_s: u64) -> String {
    let threshold_ms = monitor.threshold_ms();
    let mut text = match threshold_ms {
        0 => "The latency monitor is off: CONFIG SET latency-monitor-threshold MILLISECONDS turns it on.\n".to_owned(),
        ms => format!("The latency monitor notes commands that take {ms} ms or longer, the worst of each second.\n"),
    };
    let mut is_any = false;
    for event in EVENTS {
        let (samples, max_ms) = monitor.samples(event.as_bytes());
        let (Some(first), count) = (samples.first(), samples.len() as u64) else {
            continue;
        };
        is_any = true;
        let sum_ms: u64 = samples.iter().map(|sample| sample.latency_ms).sum();
        let mean_ms = sum_ms / count;
        let deviations = samples.iter().map(|sample| sample.latency_ms.abs_diff(mean_ms));
        let deviation_ms = deviations.sum::<u64>() / count;
        let span_s = now_s.saturating_sub(first.unix_s).max(1);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "- {event}: in {count} of the last {span_s} seconds; {mean_ms} ms on average, mean deviation {deviation_ms} ms; the worst \
             since the last reset took {max_ms} ms.",
        );
    }
    text.push_str(match is_any {
        true => {
            "SLOWLOG GET shows which commands were slow, and CONFIG SET slowlog-log-slower-than which it shows. \
                 A fast-command is slow when something else held its worker or its key: look for long scripts, for commands over many \
                 elements, and for other processes on the same processors (tollgate_shard_longest_stretch_seconds has the first two).\n"
        }
        false => "There are no samples.\n",
    });
    text
}

/// `LATENCY HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "LATENCY",
        &[
            "DOCTOR",
            "    Return a human readable latency analysis report.",
            "GRAPH <event>",
            "    Return an ASCII latency graph for the <event> class.",
            "HISTORY <event>",
            "    Return time-latency samples for the <event> class.",
            "LATEST",
            "    Return the latest latency samples for all events.",
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes.",
            "    (default: reset all data for all event classes)",
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandTable;
    use crate::test_node::{TestNode, run, session};
    use crate::test_request::with_line;

    fn note(monitor: &LatencyMonitor, name: &str, ms: u64, unix_s: u64) {
        let table = CommandTable::default();
        let spec = table.find(name.as_bytes()).unwrap();
        monitor.note(spec, Duration::from_millis(ms), unix_s);
    }

    #[test]
    fn nothing_is_noted_until_it_is_wanted_and_then_the_worst_of_each_second() {
        let node = TestNode::default();
        let mut session = session(&node, 1);
        let mut say = |line: &str| with_line(line, |request| run(&node, &mut session, request));
        let monitor = &node.latency;
        assert_eq!(monitor.noted_from(), Duration::MAX);
        note(monitor, "keys", 5_000, 10);
        assert_eq!(say("LATENCY LATEST"), "*0\r\n");
        assert_eq!(say("CONFIG SET latency-monitor-threshold 100"), "+OK\r\n");
        for (name, ms, unix_s) in [
            ("keys", 99, 10),
            ("keys", 100, 10),
            ("keys", 300, 10),
            ("eval", 200, 10),
            ("keys", 150, 12),
            ("get", 700, 11),
        ] {
            note(monitor, name, ms, unix_s);
        }
        assert_eq!(
            say("LATENCY LATEST"),
            "*2\r\n*4\r\n$7\r\ncommand\r\n:12\r\n:150\r\n:300\r\n*4\r\n$12\r\nfast-command\r\n:11\r\n:700\r\n:700\r\n"
        );
        assert_eq!(
            say("LATENCY HISTORY command"),
            "*2\r\n*2\r\n:10\r\n:300\r\n*2\r\n:12\r\n:150\r\n"
        );
        assert_eq!(say("LATENCY HISTORY Command"), "*0\r\n");
        assert_eq!(say("LATENCY RESET nothing fast-command fast-command"), ":1\r\n");
        assert_eq!(say("LATENCY HISTORY fast-command"), "*0\r\n");
        assert_eq!(say("LATENCY RESET"), ":1\r\n");
        assert_eq!(say("LATENCY RESET"), ":0\r\n");
        assert_eq!(
            say("CONFIG SET latency-monitor-threshold -1"),
            "-ERR CONFIG SET failed (possibly related to argument 'latency-monitor-threshold') - argument must be between 0 and \
             9223372036854775807 inclusive\r\n"
        );
    }

    #[test]
    fn an_event_keeps_so_many_samples() {
        let monitor = LatencyMonitor::default();
        monitor.set_threshold_ms(1);
        (0..1_000).for_each(|second| note(&monitor, "keys", 1_000 - second, second));
        let (samples, max_ms) = monitor.samples(b"command");
        assert_eq!((samples.len(), samples[0].unix_s, max_ms), (160, 840, 1_000));
    }

    #[test]
    fn the_doctor_says_what_there_is() {
        let monitor = LatencyMonitor::default();
        assert!(report(&monitor, 5).starts_with("The latency monitor is off"));
        monitor.set_threshold_ms(10);
        assert!(report(&monitor, 5).ends_with("There are no samples.\n"));
        note(&monitor, "keys", 10, 100);
        note(&monitor, "keys", 30, 110);
        let said = "- command: in 2 of the last 20 seconds; 20 ms on average, mean deviation 10 ms; the worst since the last reset took 30 ms.";
        assert!(report(&monitor, 120).contains(said), "{}", report(&monitor, 120));
    }

    #[test]
    fn errors_are_those_of_redis() {
        let node = TestNode::default();
        let mut session = session(&node, 1);
        let mut say = |line: &str| with_line(line, |request| run(&node, &mut session, request));
        assert_eq!(
            say("LATENCY GRAPH command"),
            "-ERR No samples available for event 'command'\r\n"
        );
        assert_eq!(
            say("LATENCY HISTOGRAM"),
            "-ERR unknown subcommand 'HISTOGRAM'. Try LATENCY HELP.\r\n"
        );
        assert_eq!(
            say("LATENCY LATEST x"),
            "-ERR wrong number of arguments for 'latency|latest' command\r\n"
        );
    }
}
