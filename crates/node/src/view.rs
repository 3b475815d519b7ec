//! The node as its commands see it.

use crate::cluster::Route;
use crate::metrics::{cpu_times_us, resident_bytes};
use crate::node::Node;
use crate::pause::Attention;
use crate::worker::Control;
use std::ops::Range;
use std::sync::Arc;
use tollgate_commands::{
    About, ClientInfo, CommandError, Delivery, Functions, KeyspaceLimits, LatencyMonitor, NodeView, PolicyLabel,
    PubSub, Scripts, SlowLog, Topology, Totals,
};
use tollgate_limiter::RuleSet;

impl NodeView for Node {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs_password(&self) -> bool {
        self.config.password.is_some()
    }

    fn password_matches(&self, guess: &[u8]) -> bool {
        self.config
            .password
            .as_ref()
            .is_none_or(|password| password.matches(guess))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let config = &self.config;
        let policy = match config.storage.when_full {
            crate::config::WhenFull::Shed => "volatile-ttl",
            crate::config::WhenFull::Refuse => "noeviction",
        };
        let redis = [
            ("appendonly", "no".to_owned()),
            ("bind", self.listen.ip().to_string()),
            ("databases", tollgate_store::DATABASES.to_string()),
            ("latency-monitor-threshold", self.latency.threshold_ms().to_string()),
            ("maxclients", config.limits.connections.to_string()),
            ("maxmemory", config.storage.max_memory_bytes.to_string()),
            ("maxmemory-policy", policy.to_owned()),
            ("port", self.listen.port().to_string()),
            ("proto-max-bulk-len", config.limits.bulk_bytes.to_string()),
            ("save", String::new()),
            ("slowlog-log-slower-than", self.slowlog.slower_than_us().to_string()),
            ("slowlog-max-len", self.slowlog.entries_max().to_string()),
            ("timeout", "0".to_owned()),
        ];
        let redis = redis.map(|(name, value)| (name.to_owned(), value));
        let own = config.keys().map(|(key, value)| {
            let path = key.path();
            // What CONFIG SET has changed has one value, whichever of its names is asked for.
            let value = match path.as_str() {
                "slowlog.slower_than_us" => self.slowlog.slower_than_us().to_string(),
                "limits.slowlog_entries" => self.slowlog.entries_max().to_string(),
                _ => value.to_string(),
            };
            (path, value)
        });
        redis.into_iter().chain(own).collect()
    }

    fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules)
    }

    fn policies(&self) -> Vec<PolicyLabel> {
        self.policies.clone()
    }

    fn totals(&self) -> Totals {
        let metrics = &self.metrics;
        let policies = |of: fn(&crate::metrics::PolicyCounters) -> u64| -> u64 {
            metrics
                .workers()
                .iter()
                .flat_map(|worker| worker.policies.iter())
                .map(of)
                .sum()
        };
        let cpu = cpu_times_us();
        let functions = self.functions.counts();
        let (scripts, script_bytes) = self.scripts.count();
        let store_bytes = metrics.sum(|worker| &worker.stored_bytes);
        let limits_bytes = metrics.sum(|worker| &worker.limits_bytes);
        let texts_bytes = (script_bytes + functions.bytes) as u64;
        Totals {
            connections: self.connections() as u64,
            blocked: (self.blocked.count() + self.pause.count()) as u64,
            connections_received: metrics.sum(|worker| &worker.connections_opened),
            connections_rejected: metrics.sum(|worker| &worker.connections_rejected),
            commands: metrics.sum(|worker| &worker.commands),
            bytes_in: metrics.sum(|worker| &worker.received_bytes),
            bytes_out: metrics.sum(|worker| &worker.sent_bytes),
            checks_allowed: policies(|policy| policy.allowed.get()),
            checks_denied: policies(|policy| policy.denied.get()),
            checks_failed: policies(|policy| policy.errors.get()),
            keys: std::array::from_fn(|db| self.keys.iter().map(|keys| keys.databases[db].get()).sum()),
            expiring: std::array::from_fn(|db| self.keys.iter().map(|keys| keys.expiring[db].get()).sum()),
            values: metrics.sum(|worker| &worker.values),
            rule_buckets: self.keys.iter().map(|keys| keys.rules.get()).sum(),
            scripts: scripts as u64,
            libraries: functions.libraries as u64,
            functions: functions.functions as u64,
            expired: metrics.sum(|worker| &worker.expired),
            evicted: metrics.sum(|worker| &worker.shed),
            store_bytes,
            accounted_bytes: store_bytes + limits_bytes + metrics.sum(|worker| &worker.script_bytes) + texts_bytes,
            resident_bytes: resident_bytes().unwrap_or(0),
            cpu_user_us: cpu.0,
            cpu_system_us: cpu.1,
        }
    }

    fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    fn functions(&self) -> &Functions {
        &self.functions
    }

    fn pubsub(&self) -> &Arc<PubSub> {
        &self.pubsub
    }

    fn deliver(&self, worker: usize, delivery: Delivery) -> Result<(), CommandError> {
        self.deliver(worker, delivery)
    }

    fn has_peers(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.has_peers())
    }

    fn publish_elsewhere(&self, channel: &[u8], message: &[u8], sharded: bool) {
        if NodeView::has_peers(self) {
            // Like those who are too far behind here, the others get nothing then.
            let _ = self.publish_elsewhere(channel, message, sharded, None);
        }
    }

    fn shard_slots(&self) -> Arc<[Range<u16>]> {
        self.shard_slots()
    }

    fn has_slot(&self, slot: u16) -> bool {
        !self.lacks_slot(slot)
    }

    fn keyspace_limits(&self) -> KeyspaceLimits {
        KeyspaceLimits {
            keys_max: self.config.limits.keys_reply,
            pattern_bytes_max: self.config.limits.pattern_bytes,
        }
    }

    fn topology(&self) -> Topology {
        crate::face::topology(self)
    }

    fn is_elsewhere(&self, slot: u16) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_some_and(|cluster| matches!(cluster.routes.get(slot), Route::Peer(_)))
    }

    fn clients(&self) -> Vec<ClientInfo> {
        let mut clients = self.clients.infos();
        for client in &mut clients {
            client.is_blocked = self.blocked.has(client.id) || self.pause.has(client.id);
        }
        clients
    }

    fn unblock_client(&self, id: u64, with_error: bool) -> bool {
        self.blocked.unblock(id, with_error)
    }

    fn pause_clients(&self, until_us: u64, all: bool) {
        self.pause.start(self.clock.now_us(), until_us, all, &self.attention);
    }

    fn unpause_clients(&self) {
        self.pause.end(&self.attention);
    }

    fn slowlog(&self) -> &SlowLog {
        &self.slowlog
    }

    fn latency(&self) -> &LatencyMonitor {
        &self.latency
    }

    fn is_monitored(&self) -> bool {
        self.attention.get() & Attention::MONITORED != 0
    }

    fn show(&self, lines: Vec<u8>) {
        self.show_lines(lines);
    }

    fn end_monitor(&self, id: u64) {
        self.monitors.remove(id, &self.attention);
    }

    fn close_client(&self, id: u64) -> bool {
        self.clients
            .worker_of(id)
            .is_some_and(|worker| self.order(worker, Control::Kill(id)))
    }
}
