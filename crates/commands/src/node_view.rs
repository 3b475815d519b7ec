//! What commands about the connection and the server may ask of the node that runs them.

use crate::{
    CommandError, Delivery, Env, Functions, KeyspaceLimits, LatencyMonitor, PubSub, Scripts, Session, SlowLog,
    Topology, WhenFull,
};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use tollgate_limiter::RuleSet;
use tollgate_protocol::{Proto, ReplyWriter, Request};

/// The node, as commands see it. Every method returns at once; none waits for a shard.
pub trait NodeView {
    /// What does not change while the node runs.
    fn about(&self) -> &About;

    /// Whether clients must authenticate.
    fn needs_password(&self) -> bool;

    /// Whether a guess is the password, in a time that does not depend on what is wrong with it. `true` if there is none.
    fn password_matches(&self, guess: &[u8]) -> bool;

    /// Every setting, with its real value: those of Redis's names that the node has (`bind`, `port`, `databases`,
    /// `maxmemory`, `maxmemory-policy`, `maxclients`, `timeout`, `save` and `appendonly` which are empty and `no`), and its own
    /// as `section.key`. Never a password.
    fn settings(&self) -> Vec<(String, String)>;

    /// The rules now in force.
    fn rules(&self) -> Arc<RuleSet>;

    /// The policies now in force.
    fn policies(&self) -> Vec<PolicyLabel>;

    /// Sums over the workers; each may be a little behind.
    fn totals(&self) -> Totals;

    /// The scripts that the node knows.
    fn scripts(&self) -> &Scripts;

    /// The libraries of functions that the node knows.
    fn functions(&self) -> &Functions;

    /// Who listens to what.
    fn pubsub(&self) -> &Arc<PubSub>;

    /// Sends a message to listeners of a worker.
    ///
    /// # Errors
    /// The worker is too far behind.
    fn deliver(&self, worker: usize, delivery: Delivery) -> Result<(), CommandError>;

    /// Whether there are other nodes in its cluster.
    fn has_peers(&self) -> bool;

    /// Sends a message to those who listen at other nodes, without waiting for anything.
    fn publish_elsewhere(&self, channel: &[u8], message: &[u8], sharded: bool);

    /// The slots of each shard, in ascending order.
    fn shard_slots(&self) -> Arc<[Range<u16>]>;

    /// Whether a slot is at this node, and not at another of its cluster.
    fn has_slot(&self, slot: u16) -> bool;

    /// Bounds of commands over all keys.
    fn keyspace_limits(&self) -> KeyspaceLimits;

    /// The nodes and their slots, for clients of Redis Cluster.
    fn topology(&self) -> Topology;

    /// Whether another node has a slot.
    fn is_elsewhere(&self, slot: u16) -> bool;

    /// All client connections of the node, in the order of their ids. What they did last may be a little behind.
    fn clients(&self) -> Vec<ClientInfo>;

    /// Ends the wait of a connection in BLPOP and the like, as if its time were over, or with an error. `false` if it does not wait.
    fn unblock_client(&self, id: u64, with_error: bool) -> bool;

    /// Lets commands wait until that time of the node's clock: all, or those that write. What is paused already stays so for as long and
    /// as much as it was to be.
    fn pause_clients(&self, until_us: u64, all: bool);

    /// Lets them go on.
    fn unpause_clients(&self);

    /// The commands that took long.
    fn slowlog(&self) -> &SlowLog;

    /// When commands took long.
    fn latency(&self) -> &LatencyMonitor;

    /// Whether somebody monitors.
    fn is_monitored(&self) -> bool;

    /// Sends lines that [`write_shown`](crate::write_shown) wrote to all who monitor.
    fn show(&self, lines: Vec<u8>);

    /// Sends a connection that monitors no more of them.
    fn end_monitor(&self, id: u64);

    /// Closes the connection of that id, without waiting for it. `false` if there is none.
    fn close_client(&self, id: u64) -> bool;
}

/// What does not change while a node runs.
#[derive(Debug, Clone)]
pub struct About {
    /// The node's name.
    pub name: String,
    /// Tollgate's version.
    pub version: &'static str,
    /// 40 hexadecimal digits, different each time the node starts.
    pub run_id: String,
    /// Process id.
    pub pid: u32,
    /// The port on which clients of the default face connect.
    pub tcp_port: u16,
    /// Worker threads.
    pub workers: usize,
    /// The node's clock when it started, in microseconds.
    pub started_us: u64,
    /// The path of the program.
    pub executable: String,
    /// The path of the configuration file, or nothing.
    pub config_file: String,
    /// Most client connections at one time.
    pub connections_max: usize,
    /// Most bytes of the patterns of one command.
    pub pattern_bytes_max: usize,
    /// Most channels and patterns that one connection listens to.
    pub subscriptions_max: usize,
    /// Most bytes that entries may take; 0 sets no bound.
    pub max_memory_bytes: u64,
    /// What happens at that bound.
    pub when_full: WhenFull,
}

/// A policy, as RL.INFO shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLabel {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
}

/// What a node counts. Numbers that only grow start at 0 when the node starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Client connections now.
    pub connections: u64,
    /// Those that wait for a key to have something.
    pub blocked: u64,
    /// Client connections so far.
    pub connections_received: u64,
    /// Client connections refused for want of room.
    pub connections_rejected: u64,
    /// Commands run, those answered with an error included.
    pub commands: u64,
    /// Bytes read from clients.
    pub bytes_in: u64,
    /// Bytes written to clients.
    pub bytes_out: u64,
    /// Checks admitted.
    pub checks_allowed: u64,
    /// Checks denied.
    pub checks_denied: u64,
    /// Checks answered with an error.
    pub checks_failed: u64,
    /// Keys of each database: buckets and values.
    pub keys: [u64; tollgate_store::DATABASES as usize],
    /// Of those, the ones that have an expiry: all buckets, and some values.
    pub expiring: [u64; tollgate_store::DATABASES as usize],
    /// Values of all databases.
    pub values: u64,
    /// Buckets of rules.
    pub rule_buckets: u64,
    /// Scripts that are known.
    pub scripts: u64,
    /// Libraries of functions that are known.
    pub libraries: u64,
    /// Functions of all libraries.
    pub functions: u64,
    /// Buckets dropped because they were full again.
    pub expired: u64,
    /// Buckets dropped for want of memory.
    pub evicted: u64,
    /// Bytes that entries take.
    pub store_bytes: u64,
    /// Bytes that the node accounts for: entries, VMs of scripts, texts of scripts and libraries.
    pub accounted_bytes: u64,
    /// Bytes of the process that are resident.
    pub resident_bytes: u64,
    /// User CPU time of the process, in microseconds.
    pub cpu_user_us: u64,
    /// System CPU time of the process, in microseconds.
    pub cpu_system_us: u64,
}

impl Totals {
    /// Buckets of all databases.
    pub fn buckets(&self) -> u64 {
        let keys: u64 = self.keys.iter().sum();
        // Both are read while they change.
        keys.saturating_sub(self.values)
    }
}

/// A client connection, as CLIENT LIST shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// Number of the connection.
    pub id: u64,
    /// Where the client is.
    pub peer: SocketAddr,
    /// Where it connected to.
    pub local: SocketAddr,
    /// The name that it gave itself.
    pub name: Box<[u8]>,
    /// The name of its library.
    pub lib_name: Box<[u8]>,
    /// The version of its library.
    pub lib_ver: Box<[u8]>,
    /// The selected database.
    pub db: u8,
    /// The version of the protocol.
    pub proto: Proto,
    /// CLIENT NO-EVICT ON.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH ON.
    pub no_touch: bool,
    /// It monitors.
    pub is_monitor: bool,
    /// It waits, as in BLPOP.
    pub is_blocked: bool,
    /// To how many channels, patterns and channels of slots it listens, if it does.
    pub listens_to: Option<[usize; 3]>,
    /// How many commands it has queued since MULTI, if it has said that.
    pub queued: Option<usize>,
    /// The node's clock when it connected, in microseconds.
    pub created_us: u64,
    /// The node's clock at its last command, in microseconds.
    pub last_active_us: u64,
    /// Its last command.
    pub last_command: Option<&'static str>,
}

/// A command that needs the connection and the node, but no shard.
pub struct ConnectionCall<'a> {
    /// The connection.
    pub session: &'a mut Session,
    /// The node.
    pub node: &'a dyn NodeView,
    /// The circumstances when the command came.
    pub env: &'a Env,
    /// The command.
    pub request: Request<'a>,
    /// Where the reply goes.
    pub out: &'a mut Vec<u8>,
}

impl ConnectionCall<'_> {
    /// Writes in the protocol that the connection speaks now.
    pub(crate) fn reply(&mut self) -> ReplyWriter<'_> {
        ReplyWriter::new(self.out, self.session.proto)
    }

    /// The time of the command as Unix time in seconds.
    pub(crate) fn unix_s(&self) -> u64 {
        self.env.unix_us() / 1_000_000
    }

    /// Writes the lines of a HELP, as Redis lays them out: a head, the given lines, and HELP itself.
    pub(crate) fn write_help(&mut self, container: &str, lines: &[&str]) -> Result<(), CommandError> {
        let mut reply = self.reply();
        reply.array(lines.len() + 3);
        reply.simple(&format!(
            "{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
        ));
        for line in lines.iter().chain(&["HELP", "    Prints this help."]) {
            reply.simple(line);
        }
        Ok(())
    }
}
