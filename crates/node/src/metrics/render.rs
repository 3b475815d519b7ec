//! Every metric of a node with its name and help.

use super::histogram::HistogramSnapshot;
use super::process::{open_files, process_cpu_time_ns, resident_bytes};
use super::text::MetricType::{Counter, Gauge};
use super::text::{Exposition, seconds};
use super::{ENTRY_REFUSALS, Histogram, Metrics, PolicyFaultKind, WorkerCounters};
use crate::limits::Bound;
use tollgate_cluster::wire::Refusal;

impl Metrics {
    /// All metrics as Prometheus text.
    pub fn render(&self) -> String {
        let mut text = Exposition::default();
        self.render_checks(&mut text);
        self.render_work(&mut text);
        self.render_store(&mut text);
        self.render_connections(&mut text);
        self.render_peers(&mut text);
        self.render_limits(&mut text);
        self.render_gossip(&mut text);
        self.render_process(&mut text);
        text.finish()
    }

    fn render_checks(&self, text: &mut Exposition) {
        let name = "tollgate_checks_total";
        text.family(name, Counter, "Checks by policy and verdict.");
        for (index, policy) in self.policies.iter().enumerate() {
            let counters = || self.workers.iter().filter_map(move |worker| worker.policies.get(index));
            for (verdict, count) in [
                ("allowed", counters().map(|policy| policy.allowed.get()).sum::<u64>()),
                ("denied", counters().map(|policy| policy.denied.get()).sum()),
                ("error", counters().map(|policy| policy.errors.get()).sum()),
            ] {
                text.sample(name, &[("policy", policy), ("verdict", verdict)], count);
            }
        }
        let name = "tollgate_policy_faults_total";
        text.family(name, Counter, "Calls of a policy that failed, by policy and kind.");
        for (index, policy) in self.policies.iter().enumerate() {
            for kind in PolicyFaultKind::ALL {
                let counters = self.workers.iter().filter_map(|worker| worker.policies.get(index));
                let count: u64 = counters.map(|policy| policy.faults(kind).get()).sum();
                text.sample(name, &[("policy", policy), ("kind", kind.label())], count);
            }
        }
    }

    fn render_work(&self, text: &mut Exposition) {
        let histogram = |of: fn(&WorkerCounters) -> &Histogram| HistogramSnapshot::of(self.workers.iter().map(of));
        let commands = self.sum(|worker| &worker.commands);
        text.single("tollgate_commands_total", Counter, "Commands answered.", commands);
        text.single(
            "tollgate_forwarded_commands_total",
            Counter,
            "Commands that went to the shard of another worker.",
            self.sum(|worker| &worker.forwarded_commands),
        );
        text.single(
            "tollgate_forwarded_batches_total",
            Counter,
            "Batches in which commands went to the shard of another worker.",
            self.sum(|worker| &worker.forwarded_batches),
        );
        text.single(
            "tollgate_slots_held",
            Gauge,
            "Slots that this node holds.",
            self.sum(|worker| &worker.slots_held),
        );
        text.single(
            "tollgate_slots_astray",
            Gauge,
            "Slots that this node holds and that belong to another.",
            self.sum(|worker| &worker.slots_astray),
        );
        text.single(
            "tollgate_heir_decisions_total",
            Counter,
            "Checks decided on a replica, in place of a holder that did not answer.",
            self.sum(|worker| &worker.decided_as_heir),
        );
        text.single(
            "tollgate_local_decisions_total",
            Counter,
            "Checks decided by this node's share of the limit, since neither holder nor heir answered.",
            self.sum(|worker| &worker.decided_locally),
        );
        text.single(
            "tollgate_peer_deadlines_missed_total",
            Counter,
            "Answers of peers that were not there when they were due.",
            self.sum(|worker| &worker.peer_deadlines),
        );
        text.single(
            "tollgate_rounds_total",
            Counter,
            "Batches in which the checks of small turns were decided, of all that were ready together.",
            self.sum(|worker| &worker.rounds),
        );
        text.single(
            "tollgate_round_turns_total",
            Counter,
            "Turns decided in rounds.",
            self.sum(|worker| &worker.round_turns),
        );
        text.single(
            "tollgate_scripts_total",
            Counter,
            "Runs of clients' scripts and functions.",
            self.sum(|worker| &worker.scripts),
        );
        text.single(
            "tollgate_script_restarts_total",
            Counter,
            "Times that a script or transaction started again because a script needed another key.",
            self.sum(|worker| &worker.script_restarts),
        );
        text.single(
            "tollgate_keys_borrowed_total",
            Counter,
            "Keys lent by other shards and nodes to commands over several keys, transactions and scripts.",
            self.sum(|worker| &worker.keys_borrowed),
        );
        text.single(
            "tollgate_keys_lent_total",
            Counter,
            "Keys lent to other nodes.",
            self.sum(|worker| &worker.keys_lent),
        );
        text.single(
            "tollgate_keys_lent",
            Gauge,
            "Keys that are lent to other nodes, or wanted by them, now.",
            self.sum(|worker| &worker.keys_lent_now),
        );
        text.single(
            "tollgate_loans_torn_total",
            Counter,
            "Loans that their node did not take back as a command of this node left them.",
            self.sum(|worker| &worker.loans_torn),
        );
        text.single(
            "tollgate_key_waits_total",
            Counter,
            "Times that a command waited for a key that another held.",
            self.sum(|worker| &worker.keys_waited),
        );
        text.histogram(
            "tollgate_command_duration_seconds",
            "Time from the read that brought a command to the write of its reply.",
            &histogram(|worker| &worker.command_duration),
        );
        text.histogram(
            "tollgate_turn_duration_seconds",
            "Time of a turn: one read of one connection, everything in it, one write.",
            &histogram(|worker| &worker.turn_duration),
        );
        text.histogram(
            "tollgate_shard_stretch_seconds",
            "Time that a worker worked on its shard between two returns to its loop.",
            &histogram(|worker| &worker.stretches),
        );
        let name = "tollgate_shard_longest_stretch_seconds";
        text.family(name, Gauge, "The longest such stretch since the start, by shard.");
        self.by_shard(text, name, |worker| seconds(worker.longest_stretch_ns.get()));
    }

    fn render_gossip(&self, text: &mut Exposition) {
        let gossip = &self.gossip;
        let name = "tollgate_members";
        text.family(
            name,
            Gauge,
            "Members of the cluster that this node takes to be alive, itself too, by state.",
        );
        for (state, count) in [
            ("joining", &gossip.joining),
            ("ready", &gossip.ready),
            ("leaving", &gossip.leaving),
        ] {
            text.sample(name, &[("state", state)], count.get());
        }
        let name = "tollgate_members_differing";
        text.family(
            name,
            Gauge,
            "Members of the cluster whose rules, or policies, are not those of this node.",
        );
        for (what, count) in [("rules", &gossip.other_rules), ("policies", &gossip.other_policies)] {
            text.sample(name, &[("what", what)], count.get());
        }
        let name = "tollgate_gossip_datagrams_total";
        text.family(
            name,
            Counter,
            "Datagrams of gossip: sent, received, refused (not sealed with this cluster's secret, or no gossip), failed.",
        );
        for (what, count) in [
            ("sent", &gossip.sent),
            ("received", &gossip.received),
            ("refused", &gossip.refused),
            ("failed", &gossip.errors),
        ] {
            text.sample(name, &[("what", what)], count.get());
        }
        text.single(
            "tollgate_views_total",
            Counter,
            "Changes of this node's view of the cluster.",
            gossip.views.get(),
        );
    }

    fn render_store(&self, text: &mut Exposition) {
        let name = "tollgate_buckets";
        text.family(name, Gauge, "Buckets in memory, by shard.");
        self.by_shard(text, name, |worker| worker.buckets.get());
        let name = "tollgate_values";
        text.family(name, Gauge, "Redis values in memory, by shard.");
        self.by_shard(text, name, |worker| worker.values.get());
        let name = "tollgate_stored_bytes";
        text.family(name, Gauge, "Bytes of keys, buckets and values in memory, by shard.");
        self.by_shard(text, name, |worker| worker.stored_bytes.get());
        let name = "tollgate_limits_memory_bytes";
        text.family(
            name,
            Gauge,
            "Bytes of the different limits in use, and of some kept as a cache, by shard.",
        );
        self.by_shard(text, name, |worker| worker.limits_bytes.get());
        let name = "tollgate_script_memory_bytes";
        text.family(
            name,
            Gauge,
            "Bytes of compiled scripts, and of what runs of them hold, by shard.",
        );
        self.by_shard(text, name, |worker| worker.script_bytes.get());
        let name = "tollgate_buckets_dropped_total";
        text.family(
            name,
            Counter,
            "Buckets dropped: expired (full again, so that dropping changes nothing) or shed (for want of memory).",
        );
        text.sample(name, &[("reason", "expired")], self.sum(|worker| &worker.expired));
        text.sample(name, &[("reason", "shed")], self.sum(|worker| &worker.shed));
        let name = "tollgate_slot_entries_refused_total";
        text.family(
            name,
            Counter,
            "Entries of other nodes that were not kept, by reason; those of another version of their policy were kept without tokens.",
        );
        for (index, reason) in ENTRY_REFUSALS.iter().enumerate() {
            let count = self
                .workers
                .iter()
                .map(|worker| worker.slot_entries_refused[index].get());
            text.sample(name, &[("reason", reason)], count.sum::<u64>());
        }
        let name = "tollgate_debits_total";
        text.family(
            name,
            Counter,
            "Debts that other nodes have sent: taken from their bucket, or lost as nothing can owe them.",
        );
        text.sample(name, &[("outcome", "taken")], self.sum(|worker| &worker.debits_taken));
        text.sample(name, &[("outcome", "lost")], self.sum(|worker| &worker.debits_lost));
    }

    fn render_connections(&self, text: &mut Exposition) {
        let name = "tollgate_connections";
        text.family(name, Gauge, "Clients connected, by worker.");
        for (worker, counters) in self.workers.iter().enumerate() {
            text.sample(name, &[("worker", &worker.to_string())], counters.connections());
        }
        text.single(
            "tollgate_connections_accepted_total",
            Counter,
            "Client connections accepted.",
            self.sum(|worker| &worker.connections_opened),
        );
        text.single(
            "tollgate_connections_rejected_total",
            Counter,
            "Client connections refused.",
            self.sum(|worker| &worker.connections_rejected),
        );
        text.single(
            "tollgate_protocol_errors_total",
            Counter,
            "Requests that broke the protocol.",
            self.sum(|worker| &worker.protocol_errors),
        );
        text.single(
            "tollgate_received_bytes_total",
            Counter,
            "Bytes read from clients.",
            self.sum(|worker| &worker.received_bytes),
        );
        text.single(
            "tollgate_sent_bytes_total",
            Counter,
            "Bytes written to clients.",
            self.sum(|worker| &worker.sent_bytes),
        );
    }

    fn render_peers(&self, text: &mut Exposition) {
        let name = "tollgate_peer_connections";
        text.family(name, Gauge, "Connections to and from other nodes, by worker.");
        for (worker, counters) in self.workers.iter().enumerate() {
            text.sample(name, &[("worker", &worker.to_string())], counters.peer_connections());
        }
        let name = "tollgate_peer_frames_total";
        text.family(name, Counter, "Messages between nodes, by direction.");
        text.sample(name, &[("direction", "in")], self.sum(|worker| &worker.peer_frames_in));
        text.sample(
            name,
            &[("direction", "out")],
            self.sum(|worker| &worker.peer_frames_out),
        );
        let name = "tollgate_peer_bytes_total";
        text.family(name, Counter, "Bytes between nodes, by direction.");
        text.sample(name, &[("direction", "in")], self.sum(|worker| &worker.peer_bytes_in));
        text.sample(name, &[("direction", "out")], self.sum(|worker| &worker.peer_bytes_out));
        text.single(
            "tollgate_peer_unknown_messages_total",
            Counter,
            "Messages of kinds that this version does not know.",
            self.sum(|worker| &worker.peer_unknown_kinds),
        );
        text.single(
            "tollgate_peer_nonsense_total",
            Counter,
            "Messages of other nodes about slots that make no sense.",
            self.sum(|worker| &worker.peer_nonsense),
        );
        text.single(
            "tollgate_journal_buckets",
            Gauge,
            "Buckets of which the node has admitted what another may not know of.",
            self.sum(|worker| &worker.journal_buckets),
        );
        text.single(
            "tollgate_journal_tokens_dropped_total",
            Counter,
            "Tokens that were admitted, that another does not know of, and that were forgotten for want of room.",
            self.sum(|worker| &worker.journal_tokens_dropped),
        );
        let name = "tollgate_peer_refused_total";
        text.family(
            name,
            Counter,
            "Connections between nodes that did not come about, by reason.",
        );
        for reason in Refusal::REASONS {
            text.sample(
                name,
                &[("reason", reason)],
                self.sum(|worker| worker.peer_refusals(reason)),
            );
        }
    }

    fn render_limits(&self, text: &mut Exposition) {
        let name = "tollgate_limit_hit_total";
        text.family(name, Counter, "Times that a bound was hit, by bound.");
        for bound in Bound::ALL {
            let on_workers = self.sum(|worker| worker.limit_hits(*bound));
            let count = on_workers.wrapping_add(self.shared.limit_hits(*bound).get());
            text.sample(name, &[("limit", bound.info().label)], count);
        }
    }

    fn render_process(&self, text: &mut Exposition) {
        let name = "tollgate_info";
        text.family(name, Gauge, "Version and name of this node; always 1.");
        text.sample(name, &[("version", env!("CARGO_PKG_VERSION")), ("node", &self.node)], 1);
        text.single("tollgate_workers", Gauge, "Worker threads.", self.workers.len());
        text.single(
            "tollgate_uptime_seconds",
            Gauge,
            "Time since the start.",
            self.uptime().as_secs_f64(),
        );
        text.single(
            "process_start_time_seconds",
            Gauge,
            "Unix time of the start.",
            self.started_unix_s,
        );
        text.single(
            "process_cpu_seconds_total",
            Counter,
            "Processor time, user and system.",
            seconds(process_cpu_time_ns()),
        );
        if let Some(bytes) = resident_bytes() {
            text.single("process_resident_memory_bytes", Gauge, "Resident memory.", bytes);
        }
        if let Some(files) = open_files() {
            text.single("process_open_fds", Gauge, "Open file descriptors.", files);
        }
    }

    fn by_shard<T: std::fmt::Display>(&self, text: &mut Exposition, name: &str, value: impl Fn(&WorkerCounters) -> T) {
        for (shard, worker) in self.workers.iter().enumerate() {
            text.sample(name, &[("shard", &shard.to_string())], value(worker));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;
    use tollgate_protocol::ProtocolError;

    fn metrics() -> Metrics {
        let metrics = Metrics::new("n \"1\"", 2, vec!["token_bucket".to_owned(), "own".to_owned()]);
        for (index, worker) in metrics.workers().iter().enumerate() {
            let n = index as u64 + 1;
            worker.policies[0].allowed.add(10 * n);
            worker.policies[1].denied.set(n);
            worker.policies[1].faults(PolicyFaultKind::Budget).add(n);
            worker.turn(32, Duration::from_nanos(3_000 * n));
            worker.stretch(Duration::from_millis(n));
            worker.connections_opened.add(5);
            worker.connections_closed.add(n);
            worker.buckets.set(100 * n);
            (0..n).for_each(|_| worker.limit_hit(Bound::MailboxBatches));
        }
        (0..4).for_each(|_| metrics.shared.limit_hit(Bound::AdminConnections));
        metrics.worker(0).shed.add(9);
        metrics
    }

    /// Samples by name and labels; checks the format on the way as a Prometheus server does: HELP and TYPE once and
    /// before the samples, families not interleaved, names and values well formed, no sample twice.
    fn parse(text: &str) -> BTreeMap<String, f64> {
        assert!(text.ends_with('\n'));
        let is_name = |name: &str| {
            !name.starts_with(|c: char| c.is_ascii_digit())
                && !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let mut samples = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let (mut family, mut kind) = ("", "");
        let mut helped = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(is_name(name) && !help.is_empty() && seen.insert(name), "{line}");
                helped = name;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                (family, kind) = rest.split_once(' ').unwrap();
                assert_eq!(family, helped);
                assert_eq!(family.ends_with("_total"), kind == "counter", "{line}");
            } else {
                let (id, value) = line.rsplit_once(' ').unwrap();
                let name = id.split('{').next().unwrap();
                let suffix = name
                    .strip_prefix(family)
                    .unwrap_or_else(|| panic!("{line} in {family}"));
                let suffixes: &[&str] = if kind == "histogram" {
                    &["_bucket", "_sum", "_count"]
                } else {
                    &[""]
                };
                assert!(is_name(name) && suffixes.contains(&suffix), "{line}");
                assert!(
                    samples.insert(id.to_owned(), value.parse().unwrap()).is_none(),
                    "{line}"
                );
            }
        }
        samples
    }

    #[test]
    fn sums_the_workers() {
        let samples = parse(&metrics().render());
        for (id, value) in [
            (
                "tollgate_checks_total{policy=\"token_bucket\",verdict=\"allowed\"}",
                30.0,
            ),
            ("tollgate_checks_total{policy=\"own\",verdict=\"denied\"}", 3.0),
            ("tollgate_checks_total{policy=\"own\",verdict=\"error\"}", 0.0),
            ("tollgate_policy_faults_total{policy=\"own\",kind=\"budget\"}", 3.0),
            ("tollgate_commands_total", 64.0),
            ("tollgate_command_duration_seconds_count", 64.0),
            ("tollgate_turn_duration_seconds_count", 2.0),
            ("tollgate_turn_duration_seconds_sum", 0.000009),
            ("tollgate_shard_longest_stretch_seconds{shard=\"1\"}", 0.002),
            ("tollgate_buckets{shard=\"0\"}", 100.0),
            ("tollgate_buckets_dropped_total{reason=\"shed\"}", 9.0),
            ("tollgate_connections{worker=\"0\"}", 4.0),
            ("tollgate_connections_accepted_total", 10.0),
            ("tollgate_limit_hit_total{limit=\"mailbox_batches\"}", 3.0),
            ("tollgate_limit_hit_total{limit=\"admin_connections\"}", 4.0),
            ("tollgate_workers", 2.0),
        ] {
            assert_eq!(samples.get(id), Some(&value), "{id}");
        }
        let info = format!(
            "tollgate_info{{version=\"{}\",node=\"n \\\"1\\\"\"}}",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(samples.get(&info), Some(&1.0));
    }

    #[test]
    fn every_bound_has_a_sample_before_it_is_hit() {
        let samples = parse(&Metrics::new("n", 1, Vec::new()).render());
        for bound in Bound::ALL {
            let id = format!("tollgate_limit_hit_total{{limit=\"{}\"}}", bound.info().label);
            assert_eq!(samples.get(&id), Some(&0.0));
        }
    }

    #[test]
    fn a_broken_bound_of_the_protocol_is_counted_by_its_name() {
        let metrics = Metrics::new("n", 1, Vec::new());
        let worker = metrics.worker(0);
        for error in [
            ProtocolError::TooBigInlineRequest,
            ProtocolError::TooBigRequest,
            ProtocolError::TooBigBulkCount,
            ProtocolError::UnbalancedQuotes,
        ] {
            worker.protocol_error(&error);
        }
        let samples = parse(&metrics.render());
        for (id, value) in [
            ("tollgate_protocol_errors_total", 4.0),
            ("tollgate_limit_hit_total{limit=\"inline_bytes\"}", 2.0),
            ("tollgate_limit_hit_total{limit=\"request_bytes\"}", 1.0),
            ("tollgate_limit_hit_total{limit=\"bulk_bytes\"}", 0.0),
        ] {
            assert_eq!(samples.get(id), Some(&value), "{id}");
        }
    }

    #[test]
    fn histograms_are_cumulative_and_end_with_all() {
        let text = metrics().render();
        let prefix = "tollgate_command_duration_seconds_bucket{le=\"";
        let buckets: Vec<(&str, u64)> = text
            .lines()
            .filter_map(|line| line.strip_prefix(prefix)?.split_once("\"} "))
            .map(|(bound, count)| (bound, count.parse().unwrap()))
            .collect();
        assert!(buckets.len() > 50);
        assert!(buckets.is_sorted_by_key(|(_, count)| *count));
        assert!(buckets.is_sorted_by_key(|(bound, _)| bound.parse::<f64>().unwrap().to_bits()));
        assert_eq!(buckets.last(), Some(&("+Inf", 64)));
        assert_eq!(buckets.iter().find(|(_, count)| *count > 0), Some(&("0.000003072", 32)));
    }

    #[test]
    fn blocks_of_workers_share_no_cache_line() {
        assert_eq!(align_of::<WorkerCounters>() % 128, 0);
        assert_eq!(size_of::<WorkerCounters>() % 128, 0);
    }
}
