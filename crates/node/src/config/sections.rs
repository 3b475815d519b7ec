//! Every configuration key that is not a bound of `[limits]`: those are in [`crate::limits`].

use super::address::{ListenAddress, PeerListen};
use super::key::{Kind, choice, section};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tollgate_cluster::MAX_WEIGHT;

/// The port of the Redis protocol.
pub const LISTEN_PORT: u16 = 6379;
/// The port of the admin HTTP listener.
pub const ADMIN_PORT: u16 = 8379;
/// The port for peers: TCP, and UDP gossip on the same number.
pub const PEER_PORT: u16 = 7379;

section! {
    /// `[node]`: the process as a whole.
    Node: "node" {
        /// Name of this node in logs and metrics; empty takes the host's name.
        name: String = String::new(), Kind::Text, "";
        /// Worker threads, each with its connections, its shard of the keys and its Lua VMs; 0 takes one a core.
        workers: usize = 0, Kind::Count(0, 256), "threads";
        /// Directory of policy files (`*.lua`) to load beside the built-in ones; a file with a built-in's name replaces
        /// it. Empty loads the built-in ones only.
        lua_dir: Option<PathBuf> = None, Kind::Path, "";
        /// File that gets one JSON object (name, listen, redirect_listen, admin, peer, pid) once the node serves. Empty
        /// writes none.
        ready_file: Option<PathBuf> = None, Kind::Path, "";
        /// Longest time that a node told to stop (SIGTERM) goes on answering what it has read before it exits.
        drain_ms: u64 = 5_000, Kind::Millis(0, 600_000), "ms";
    }
}

section! {
    /// `[listen]`: where clients connect.
    Listen: "listen" {
        /// Address for clients that speak the Redis protocol; looks like one stand-alone Redis.
        default: ListenAddress = loopback(LISTEN_PORT), Kind::Address, "";
        /// Address for clients of Redis Cluster, which are sent to the node that has a key; looks like a node of one. Empty has none.
        redirect: Option<ListenAddress> = None, Kind::OptionalAddress, "";
        /// What clients of Redis Cluster are told of that address, as a host or `host:port`, if they do not reach it as other nodes would:
        /// behind a forwarded port, for example. Empty tells the host of cluster.advertise and the port that it listens on.
        redirect_advertise: String = String::new(), Kind::Endpoint, "";
        /// Connections the kernel may hold until they are accepted.
        backlog: u32 = 1_024, Kind::Count(1, 65_535), "connections";
    }
}

section! {
    /// `[admin]`: the HTTP listener for health, metrics and checks over HTTP.
    Admin: "admin" {
        /// Address of the admin HTTP listener.
        address: ListenAddress = loopback(ADMIN_PORT), Kind::Address, "";
    }
}

section! {
    /// `[auth]`: who may use the node.
    Auth: "auth" {
        /// File with the password that clients must give (AUTH, HELLO, HTTP Basic or Bearer), on one line. Empty asks for
        /// none.
        password_file: Option<PathBuf> = None, Kind::Path, "";
        /// Listen beyond loopback even without a password.
        insecure: bool = false, Kind::Flag, "";
    }
}

section! {
    /// `[cluster]`: nodes that act as one.
    Cluster: "cluster" {
        /// Address for other nodes: TCP, and UDP gossip on the same number. Empty takes 127.0.0.1:7379, and does without it where that is
        /// taken and the node joins nobody; `off` takes none: then no other can join it.
        peer: PeerListen = PeerListen::IfFree, Kind::PeerAddress, "";
        /// Host that other nodes, and clients of Redis Cluster, are told to reach this one at. Empty tells the address that it listens on.
        advertise: String = String::new(), Kind::Host, "";
        /// Other nodes of the cluster to join, as `host:port` of their peer addresses; one that lives is enough. Names are resolved again.
        join: Vec<String> = Vec::new(), Kind::Seeds, "";
        /// Share of the keys that this node holds, in relation to others.
        weight: u32 = 1, Kind::Count(1, MAX_WEIGHT as u64), "";
        /// File with the secret that all nodes of the cluster share, on one line of at least 16 bytes. Empty has none: then everybody who
        /// reaches the peer address is trusted.
        secret_file: Option<PathBuf> = None, Kind::Path, "";
        /// Time from one round of gossip to the next.
        gossip_interval_ms: u64 = 200, Kind::Millis(20, 10_000), "ms";
        /// A node is suspected of being dead once its silence is this many times its usual interval between heartbeats.
        phi: u64 = 11, Kind::Count(2, 1_000), "";
        /// Longest interval between heartbeats that counts as usual.
        heartbeat_max_ms: u64 = 1_000, Kind::Millis(20, 60_000), "ms";
        /// A shorter silence than this is nobody's death.
        silence_min_ms: u64 = 1_000, Kind::Millis(100, 60_000), "ms";
        /// Time for which a dead node is remembered and sought.
        dead_grace_ms: u64 = 600_000, Kind::Millis(1_000, 86_400_000), "ms";
        /// Longest time that this node stays out of the ring when it comes and goes again and again; 0 lets it in at once.
        rejoin_delay_max_ms: u64 = 60_000, Kind::Millis(0, 60_000), "ms";
    }
}

section! {
    /// `[storage]`: what is kept in memory.
    Storage: "storage" {
        /// Most bytes of keys and buckets that the node keeps; 0 sets no bound.
        max_memory_bytes: u64 = 0, Kind::Bytes(0, 1 << 50), "bytes";
        /// What happens at max_memory_bytes: `shed` drops the buckets that are cheapest to lose (fullest first), `refuse`
        /// answers OOM to checks that need a new bucket.
        when_full: WhenFull = WhenFull::Shed, Kind::Choice(WhenFull::WORDS), "";
        /// A bucket that is full again is dropped at the latest after this time without a check.
        idle_ms: u64 = 3_600_000, Kind::Millis(1, 366 * 86_400_000), "ms";
        /// Least time from the start of one pass of the sweep, which drops buckets that are full again, to the next.
        sweep_interval_ms: u64 = 100, Kind::Millis(1, 60_000), "ms";
        /// Most time that the sweep takes from a shard at once.
        sweep_budget_us: u64 = 500, Kind::Micros(1, 100_000), "us";
    }
}

section! {
    /// `[policy]`: what a Lua policy may take. The built-in policies are far below both bounds.
    Policy: "policy" {
        /// Longest time that one check may spend in a policy.
        budget_us: u64 = 1_000, Kind::Micros(10, 1_000_000), "us";
        /// Most memory that one check may add to the VM of a policy.
        memory_bytes: usize = 1 << 20, Kind::Bytes(1 << 12, 1 << 32), "bytes";
    }
}

section! {
    /// `[script]`: what a script of a client (EVAL) may take.
    Script: "script" {
        /// Longest time that one run may take, all its slices together; its keys are held meanwhile.
        budget_ms: u64 = 1_000, Kind::Millis(1, 3_600_000), "ms";
        /// Most memory that one run may add to its VM.
        memory_bytes: usize = 64 << 20, Kind::Bytes(1 << 18, 1 << 34), "bytes";
        /// Longest time that one run may spend in something that cannot be interrupted, such as a library function over much data.
        step_ms: u64 = 50, Kind::Millis(1, 10_000), "ms";
        /// Time from which on a run is logged as slow.
        slow_ms: u64 = 50, Kind::Millis(1, 3_600_000), "ms";
    }
}

section! {
    /// `[slowlog]`: which commands SLOWLOG shows. How many it keeps is `limits.slowlog_entries`.
    Slowlog: "slowlog" {
        /// Time from which on a command is one that took long; CONFIG SET slowlog-log-slower-than changes it, and takes -1 for never.
        slower_than_us: u64 = 10_000, Kind::Micros(0, 366 * 86_400_000_000), "us";
    }
}

section! {
    /// `[log]`: what is written to standard error.
    Log: "log" {
        /// Least level that is logged: error, warn, info, debug, trace or off, or a filter such as `info,tollgate_node=debug`.
        /// The environment variable RUST_LOG takes its place.
        level: String = "info".to_owned(), Kind::LogFilter, "";
        /// `text` for people, `json` for machines: one object a line.
        format: LogFormat = LogFormat::Text, Kind::Choice(LogFormat::WORDS), "";
    }
}

choice! {
    /// What happens when the memory bound is reached.
    WhenFull {
        /// Drop the buckets that are cheapest to lose.
        Shed = "shed",
        /// Refuse new ones.
        Refuse = "refuse",
    }
}

choice! {
    /// How log lines are written.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

fn loopback(port: u16) -> ListenAddress {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()
}
