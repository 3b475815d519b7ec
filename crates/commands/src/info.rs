//! INFO: the server described in text, section by section, with the fields that clients read.

use crate::node_view::{About, ConnectionCall, Totals};
use crate::{CommandError, Env, Face, REDIS_VERSION, WhenFull};
use std::fmt::{Arguments, Write as _};
use tollgate_protocol::Request;

/// What the sections are written from.
struct Facts<'a> {
    about: &'a About,
    totals: &'a Totals,
    env: &'a Env,
    face: Face,
    /// Where the client connected to.
    port: u16,
    policies: usize,
    rules: usize,
}

/// Lines of one section.
struct Lines<'a>(&'a mut String);

impl Lines<'_> {
    fn put(&mut self, field: &str, value: impl std::fmt::Display) {
        self.line(format_args!("{field}:{value}"));
    }

    fn line(&mut self, line: Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(line);
        self.0.push_str("\r\n");
    }
}

type Section = (&'static str, &'static str, fn(&Facts<'_>, &mut Lines<'_>));

/// Name, heading and writer of each section, in the order in which they are shown. All of them are shown by default.
const SECTIONS: [Section; 10] = [
    ("server", "Server", server),
    ("clients", "Clients", clients),
    ("memory", "Memory", memory),
    ("persistence", "Persistence", persistence),
    ("stats", "Stats", stats),
    ("replication", "Replication", replication),
    ("cpu", "CPU", cpu),
    ("modules", "Modules", modules),
    ("cluster", "Cluster", cluster),
    ("keyspace", "Keyspace", keyspace),
];

/// Our own section.
const TOLLGATE: Section = ("tollgate", "Tollgate", tollgate);

/// `INFO [section ...]`
pub(crate) fn info(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let totals = call.node.totals();
    let facts = Facts {
        about: call.node.about(),
        totals: &totals,
        env: call.env,
        face: call.session.face,
        port: match call.session.face {
            Face::Default => call.node.about().tcp_port,
            Face::Redirect => call.session.local.port(),
        },
        policies: call.node.policies().len(),
        rules: call.node.rules().len(),
    };
    let text = write_sections(call.request, &facts);
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

fn write_sections(request: Request<'_>, facts: &Facts<'_>) -> String {
    let is_wanted = |name: &str| {
        let mut asked = request.iter().skip(1);
        let collective = ["default", "all", "everything"];
        request.len() == 1
            || asked.any(|word| {
                word.eq_ignore_ascii_case(name.as_bytes())
                    || collective.iter().any(|all| word.eq_ignore_ascii_case(all.as_bytes()))
            })
    };
    let mut text = String::new();
    for (name, heading, write) in SECTIONS.iter().chain([&TOLLGATE]) {
        if is_wanted(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let mut lines = Lines(&mut text);
            lines.line(format_args!("# {heading}"));
            write(facts, &mut lines);
        }
    }
    text
}

fn server(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    let about = facts.about;
    let uptime_s = facts.env.now_us.saturating_sub(about.started_us) / 1_000_000;
    lines.put("redis_version", REDIS_VERSION);
    lines.put("redis_mode", facts.face.mode());
    lines.put("tollgate_version", about.version);
    lines.put(
        "os",
        format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    );
    lines.put("arch_bits", usize::BITS);
    lines.put("process_id", about.pid);
    lines.put("run_id", &about.run_id);
    lines.put("tcp_port", facts.port);
    lines.put("server_time_usec", facts.env.unix_us());
    lines.put("uptime_in_seconds", uptime_s);
    lines.put("uptime_in_days", uptime_s / 86_400);
    lines.put("executable", &about.executable);
    lines.put("config_file", &about.config_file);
}

fn clients(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    lines.put("connected_clients", facts.totals.connections);
    lines.put("cluster_connections", 0);
    lines.put("maxclients", facts.about.connections_max);
    lines.put("blocked_clients", facts.totals.blocked);
    lines.put("tracking_clients", 0);
    lines.put("clients_in_timeout_table", 0);
}

fn memory(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    let totals = facts.totals;
    for (field, bytes) in [
        ("used_memory", totals.accounted_bytes),
        ("used_memory_rss", totals.resident_bytes),
        ("used_memory_dataset", totals.store_bytes),
        ("maxmemory", facts.about.max_memory_bytes),
    ] {
        lines.put(field, bytes);
        if field != "used_memory_dataset" {
            lines.put(&format!("{field}_human"), human(bytes));
        }
    }
    lines.put("maxmemory_policy", memory_policy(facts.about.when_full));
    for (field, count) in [
        ("number_of_cached_scripts", totals.scripts),
        ("number_of_functions", totals.functions),
        ("number_of_libraries", totals.libraries),
    ] {
        lines.put(field, count);
    }
}

/// The word of Redis for what happens when memory is used up: to shed the fullest buckets is to evict what expires first.
pub fn memory_policy(when_full: WhenFull) -> &'static str {
    match when_full {
        WhenFull::Shed => "volatile-ttl",
        WhenFull::Refuse => "noeviction",
    }
}

fn persistence(_: &Facts<'_>, lines: &mut Lines<'_>) {
    for field in [
        "loading",
        "async_loading",
        "rdb_bgsave_in_progress",
        "aof_enabled",
        "aof_rewrite_in_progress",
    ] {
        lines.put(field, 0);
    }
}

fn stats(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    let totals = facts.totals;
    for (field, count) in [
        ("total_connections_received", totals.connections_received),
        ("total_commands_processed", totals.commands),
        ("total_net_input_bytes", totals.bytes_in),
        ("total_net_output_bytes", totals.bytes_out),
        ("rejected_connections", totals.connections_rejected),
        ("expired_keys", totals.expired),
        ("evicted_keys", totals.evicted),
        ("pubsub_channels", 0),
        ("pubsub_patterns", 0),
    ] {
        lines.put(field, count);
    }
}

fn replication(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    lines.put("role", "master");
    lines.put("connected_slaves", 0);
    lines.put("master_failover_state", "no-failover");
    lines.put("master_replid", &facts.about.run_id);
    lines.put("master_replid2", "0".repeat(40));
    lines.put("master_repl_offset", 0);
    lines.put("second_repl_offset", -1);
    lines.put("repl_backlog_active", 0);
}

fn cpu(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    for (field, us) in [
        ("used_cpu_sys", facts.totals.cpu_system_us),
        ("used_cpu_user", facts.totals.cpu_user_us),
    ] {
        lines.put(field, format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000));
    }
}

fn modules(_: &Facts<'_>, _: &mut Lines<'_>) {}

fn cluster(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    lines.put("cluster_enabled", u8::from(facts.face.redirects()));
}

/// Every bucket has a time at which it may go, so it counts as one that expires. Redis too says an average of 0 for unknown.
fn keyspace(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    let databases = facts.totals.keys.iter().zip(&facts.totals.expiring).enumerate();
    for (db, (keys, expiring)) in databases.filter(|(_, (keys, _))| **keys > 0) {
        lines.line(format_args!("db{db}:keys={keys},expires={expiring},avg_ttl=0"));
    }
}

fn tollgate(facts: &Facts<'_>, lines: &mut Lines<'_>) {
    let totals = facts.totals;
    lines.put("node_name", &facts.about.name);
    lines.put("workers", facts.about.workers);
    lines.put("policies", facts.policies);
    lines.put("rules", facts.rules);
    for (field, count) in [
        ("buckets", totals.buckets()),
        ("values", totals.values),
        ("rule_buckets", totals.rule_buckets),
        ("stored_bytes", totals.store_bytes),
        ("checks_allowed", totals.checks_allowed),
        ("checks_denied", totals.checks_denied),
        ("checks_failed", totals.checks_failed),
    ] {
        lines.put(field, count);
    }
}

/// A number of bytes for people, as Redis writes it (`bytesToHuman`).
fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    let amount = bytes as f64 / f64::from(1u32 << 10).powi(power as i32);
    format!("{amount:.2}{}", units[power - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeView;
    use crate::test_node::TestNode;
    use crate::test_request::with_line;

    fn text(line: &str) -> String {
        let node = TestNode::default();
        let env = Env {
            db: 0,
            proto: Default::default(),
            now_us: 5_000_000,
            wall_offset_us: 0,
        };
        let facts = Facts {
            about: node.about(),
            totals: &node.totals(),
            env: &env,
            face: Face::Default,
            port: 6379,
            policies: 5,
            rules: 0,
        };
        with_line(line, |request| write_sections(request, &facts))
    }

    #[test]
    fn sections_by_name_in_their_own_order() {
        assert_eq!(text("INFO cluster"), "# Cluster\r\ncluster_enabled:0\r\n");
        assert_eq!(text("INFO nothing"), "");
        assert_eq!(
            text("INFO Keyspace CLUSTER"),
            "# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\ndb0:keys=3,expires=2,avg_ttl=0\r\n"
        );
    }

    #[test]
    fn all_of_them_by_default() {
        let all = text("INFO");
        assert_eq!(all, text("INFO everything"));
        assert_eq!(all, text("info ALL server"));
        assert_eq!(all, text("info default"));
        assert_eq!(all.matches("# ").count(), SECTIONS.len() + 1);
        for field in [
            "redis_version:7.2.4",
            "redis_mode:standalone",
            "loading:0",
            "role:master",
            "connected_clients:1",
            "master_repl_offset:0",
            "cluster_enabled:0",
            "uptime_in_seconds:4",
            "maxmemory_policy:volatile-ttl",
        ] {
            assert!(all.contains(&format!("{field}\r\n")), "{field}");
        }
    }

    #[test]
    fn bytes_for_people() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(1023), "1023B");
        assert_eq!(human(1024), "1.00K");
        assert_eq!(human(1_572_864), "1.50M");
        assert_eq!(human(u64::MAX), "16.00E");
    }
}
