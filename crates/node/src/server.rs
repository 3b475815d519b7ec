//! Starting a node, and stopping it.

use crate::admin::Readiness;
use crate::clock::NodeClock;
use crate::config::{Config, ListenAddress, Origin, WhenFull, did_you_mean, nearest};
use crate::gossip::{Files, GossipError};
use crate::metrics::Metrics;
use crate::node::{Node, Outboxes, Parts, slots_of};
use crate::worker::{self, Inbox, Listeners, StartError};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tollgate_cluster::MemberState;
use tollgate_commands::{About, PolicyLabel, ShardConfig, ShardError};
use tollgate_limiter::RuleSet;
use tollgate_script::{PolicyError, PolicyHost, PolicyLimits, PolicySource, builtin_policies, load_dir};
use tollgate_values::HashSeed;

/// Why a node did not start. Each is one line that says what is wrong and where.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An address could not be listened on.
    #[error("cannot listen on {address} ({key}): {source}")]
    Listen {
        /// The configuration key of the address.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is nothing to tell peers, or it cannot be resolved.
    #[error("cluster.advertise: {0}")]
    Advertise(String),
    /// The node cannot be a member of its cluster.
    #[error(transparent)]
    Gossip(#[from] GossipError),
    /// The memory bound is below what shards need before they hold anything.
    #[error(
        "storage.max_memory_bytes = {bytes} is too little for {workers} workers: at least {least_bytes}, or 0 for no bound"
    )]
    LittleMemory {
        /// The bound.
        bytes: u64,
        /// How many workers share it.
        workers: usize,
        /// The least that is acceptable.
        least_bytes: u64,
    },
    /// A policy file is not acceptable.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A rule is not acceptable.
    #[error("{at}: {error}{}", did_you_mean(.nearest.as_deref()))]
    Rule {
        /// Where it is.
        at: Origin,
        /// What is wrong with it.
        error: ShardError,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A worker did not start.
    #[error(transparent)]
    Worker(StartError),
    /// The ready file could not be written.
    #[error("cannot write {path} (node.ready_file): {source}")]
    ReadyFile {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A thread, a runtime or a signal handler could not be had.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
    /// A worker ended without being told to.
    #[error("a worker ended unexpectedly; see the log")]
    WorkerEnded,
}

/// Runs a node until a signal stops it: SIGTERM or SIGINT finishes what has been read, answers it and returns; a second
/// one ends the process at once.
///
/// # Errors
/// [`ServeError`]: the node did not start, or a worker failed.
pub fn serve(config: Config) -> Result<(), ServeError> {
    let sources = policy_sources(&config)?;
    let policy_limits = policy_limits(&config);
    // Compiled once here, so that a bad file is one clear error before anything starts.
    let policies = labels(&compile(&config, &sources, policy_limits)?);
    let listener = listen("listen.default", &config.listen.default, &config)?;
    let listen_at = listener.local_addr()?;
    let redirecting = config.listen.redirect.as_ref();
    let redirecting = redirecting
        .map(|address| listen("listen.redirect", address, &config))
        .transpose()?;
    let redirect_listen = redirecting.as_ref().map(TcpListener::local_addr).transpose()?;
    let peers = crate::gossip_thread::bind(&config)?;
    let workers = config.worker_count();
    let least_bytes = (workers * MEMORY_MIN_BYTES) as u64;
    if (1..least_bytes).contains(&config.storage.max_memory_bytes) {
        return Err(ServeError::LittleMemory {
            bytes: config.storage.max_memory_bytes,
            workers,
            least_bytes,
        });
    }
    let (outboxes, inboxes) = channels(&config, workers);
    let clock = NodeClock::start();
    let names = policies.iter().map(|policy| policy.name.clone()).collect();
    let metrics = Arc::new(Metrics::new(config.node_name(), workers, names));
    let about = about(&config, &clock, listen_at, workers);
    let rules = Arc::new(config.rules.clone());
    let (cluster, peer_listener) = match peers {
        None => (None, None),
        Some(peers) => {
            let files = Files::of(&config.rules, &sources);
            let (cluster, listener) = peers.start(&config, listen_at, redirect_listen, files, &metrics)?;
            (Some(cluster), Some(listener))
        }
    };
    let peer_address = peer_listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let node = Arc::new(Node::new(
        Parts {
            config,
            clock,
            cluster,
            metrics,
            listen: listen_at,
            redirect_listen,
            rules: Arc::clone(&rules),
            policies,
            about,
        },
        outboxes,
    ));
    let admin = crate::admin_thread::bind(&node.config)?;
    let listeners = Listeners {
        clients: listener,
        redirecting,
        peers: peer_listener,
    };
    let threads = start_workers(&node, inboxes, listeners, &sources, policy_limits, &rules)?;
    let readiness = Arc::new(Readiness::default());
    // Before the node says that it is ready: who waits for that may send a signal at once.
    let signals = Signals::listen()?;
    let admin_address = admin.address;
    let admin = admin.start(&node, &readiness)?;
    if let Some(cluster) = &node.cluster {
        cluster.serves();
        if cluster.has_seeds {
            readiness.joining();
        }
        wait_for_holders(cluster, &threads);
    }
    announce(&node, admin_address, peer_address)?;
    // One that joins others is not ready before it has a place among them.
    if node.cluster.as_ref().is_none_or(|cluster| !cluster.has_seeds) {
        readiness.ready();
    }
    let served = wait_for_signal(signals, &node, &readiness, &threads);
    if let Some(cluster) = &node.cluster {
        cluster.stop();
    }
    admin.stop();
    stop(&node, threads)?;
    served
}

fn policy_sources(config: &Config) -> Result<Arc<[PolicySource]>, PolicyError> {
    let sources = match &config.node.lua_dir {
        Some(dir) => load_dir(dir)?,
        None => builtin_policies(),
    };
    Ok(sources.into())
}

/// Compiles the policies. A file that fails is named with its directory.
pub(crate) fn compile(
    config: &Config,
    sources: &[PolicySource],
    limits: PolicyLimits,
) -> Result<PolicyHost, PolicyError> {
    PolicyHost::new(sources, limits).map_err(|error| match (error, &config.node.lua_dir) {
        (PolicyError::Invalid { file, message }, Some(dir)) => PolicyError::Invalid {
            file: dir.join(file).display().to_string(),
            message,
        },
        (error, _) => error,
    })
}

pub(crate) fn policy_limits(config: &Config) -> PolicyLimits {
    PolicyLimits {
        budget_us: config.policy.budget_us,
        memory_bytes: config.policy.memory_bytes,
        max_params: config.limits.interned_limits,
        ..PolicyLimits::default()
    }
}

/// The policies by the numbers that the shards' counters go by.
pub(crate) fn labels(host: &PolicyHost) -> Vec<PolicyLabel> {
    let mut policies: Vec<_> = host.policies().collect();
    policies.sort_by_key(|policy| policy.index());
    let infos = policies.into_iter().map(|policy| host.info(policy));
    infos
        .map(|info| PolicyLabel {
            name: info.name.clone(),
            version: info.version,
        })
        .collect()
}

fn listen(key: &'static str, address: &ListenAddress, config: &Config) -> Result<TcpListener, ServeError> {
    let address = address.socket();
    crate::listen::bind(address, config.listen.backlog).map_err(|source| ServeError::Listen { key, address, source })
}

pub(crate) fn channels(config: &Config, workers: usize) -> (Outboxes, Vec<Inbox>) {
    /// Orders besides one for each connection: kills, and connections of peers.
    const OTHER_ORDERS: usize = 64;
    let mut outboxes = Outboxes {
        mailboxes: Vec::new(),
        key_jobs: Vec::new(),
        controls: Vec::new(),
    };
    let mut inboxes = Vec::new();
    for _ in 0..workers {
        let (to_mailbox, mailbox) = mpsc::channel(config.limits.mailbox_batches);
        let (to_control, control) = mpsc::channel(config.limits.connections + OTHER_ORDERS);
        let (to_key_jobs, key_jobs) = mpsc::unbounded_channel();
        outboxes.mailboxes.push(to_mailbox);
        outboxes.key_jobs.push(to_key_jobs);
        outboxes.controls.push(to_control);
        inboxes.push(Inbox {
            mailbox,
            key_jobs,
            control,
        });
    }
    (outboxes, inboxes)
}

pub(crate) fn about(config: &Config, clock: &NodeClock, listen: SocketAddr, workers: usize) -> About {
    About {
        name: config.node_name(),
        version: env!("CARGO_PKG_VERSION"),
        run_id: run_id(),
        pid: std::process::id(),
        tcp_port: listen.port(),
        workers,
        started_us: clock.started_us(),
        executable: std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string()),
        config_file: config
            .file
            .as_deref()
            .map_or_else(String::new, |path: &Path| path.display().to_string()),
        connections_max: config.limits.connections,
        pattern_bytes_max: config.limits.pattern_bytes,
        subscriptions_max: config.limits.subscriptions,
        max_memory_bytes: config.storage.max_memory_bytes,
        when_full: when_full(config),
    }
}

fn when_full(config: &Config) -> tollgate_commands::WhenFull {
    match config.storage.when_full {
        WhenFull::Shed => tollgate_commands::WhenFull::Shed,
        WhenFull::Refuse => tollgate_commands::WhenFull::Refuse,
    }
}

/// A number that nobody can guess, from the random keys of the standard library's hasher.
fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// 40 hexadecimal digits.
fn run_id() -> String {
    let mut id = format!("{:016x}{:016x}{:016x}", random_u64(), random_u64(), random_u64());
    id.truncate(40);
    id
}

fn start_workers(
    node: &Arc<Node>,
    inboxes: Vec<Inbox>,
    listeners: Listeners,
    sources: &Arc<[PolicySource]>,
    policy_limits: PolicyLimits,
    rules: &Arc<RuleSet>,
) -> Result<Vec<JoinHandle<()>>, ServeError> {
    let workers = inboxes.len();
    let seed = random_u64();
    let hash_seed = HashSeed::new(random_u64());
    let (ready, started) = std::sync::mpsc::channel();
    let mut listeners = Some(listeners);
    let mut threads = Vec::new();
    for (index, inbox) in inboxes.into_iter().enumerate() {
        let config = shard_config(node, index, sources, policy_limits, rules, (seed, hash_seed));
        let (node, listeners, ready) = (Arc::clone(node), listeners.take(), ready.clone());
        let thread = std::thread::Builder::new().name(format!("worker-{index}"));
        threads.push(thread.spawn(move || worker::run(node, index, config, inbox, listeners, ready))?);
    }
    drop(ready);
    for _ in 0..workers {
        let started = started.recv().map_err(|_| ServeError::WorkerEnded)?;
        started.map_err(|error| located(node, error))?;
    }
    Ok(threads)
}

/// The configuration of a worker's shard. `seeds`: of its hashes, and of those of values.
pub(crate) fn shard_config(
    node: &Node,
    index: usize,
    sources: &Arc<[PolicySource]>,
    policy_limits: PolicyLimits,
    rules: &Arc<RuleSet>,
    (seed, hash_seed): (u64, HashSeed),
) -> ShardConfig {
    let (workers, limits) = (node.workers(), &node.config.limits);
    ShardConfig {
        slots: slots_of(index, workers),
        seed,
        now_us: node.clock.started_us(),
        policies: Arc::clone(sources),
        policy_limits,
        rules: Arc::clone(rules),
        max_memory_bytes: (node.config.storage.max_memory_bytes as usize).div_ceil(workers),
        when_full: when_full(&node.config),
        idle_us: node.config.storage.idle_ms.saturating_mul(1_000),
        string_bytes_max: limits.string_bytes,
        pattern_bytes_max: limits.pattern_bytes,
        random_picks_max: limits.random_picks,
        awaited_keys_max: limits.awaited_keys,
        undo_bytes_max: limits.undo_bytes,
        hash_seed,
    }
}

/// Why a worker did not start, with the place in the file if that is a rule.
fn located(node: &Node, error: StartError) -> ServeError {
    let StartError::Shard(error) = error else {
        return ServeError::Worker(error);
    };
    let config = &node.config;
    let number = error.rule_id().and_then(|id| config.rules.get(id.as_bytes()));
    let similar = match &error {
        ShardError::RulePolicy { policy, .. } => nearest(policy, node.policies.iter().map(|known| known.name.clone())),
        _ => None,
    };
    match number.and_then(|(number, _)| config.rule_origin(number)) {
        Some(at) => ServeError::Rule {
            at,
            error,
            nearest: similar,
        },
        None => ServeError::Worker(error.into()),
    }
}

/// Says that the node serves: in the ready file, if there is one, and on standard output.
fn announce(node: &Node, admin: SocketAddr, peer: Option<SocketAddr>) -> Result<(), ServeError> {
    let name = &node.about.name;
    let peer = peer.map(|peer| peer.to_string());
    let redirect_listen = node.redirect_listen.map(|listen| listen.to_string());
    if let Some(path) = &node.config.node.ready_file {
        let ready = serde_json::json!({
            "name": name,
            "listen": node.listen.to_string(),
            "redirect_listen": redirect_listen,
            "admin": admin.to_string(),
            "peer": peer,
            "pid": node.about.pid,
        });
        write_whole(path, &format!("{ready}\n")).map_err(|source| ServeError::ReadyFile {
            path: path.clone(),
            source,
        })?;
    }
    tracing::info!(event = "ready", name, listen = %node.listen, redirect_listen, admin = %admin, peer, workers = node.workers());
    Ok(())
}

/// Writes a file so that a reader sees all of it or nothing.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path)
}

/// The least memory bound of a shard: its tables take a third of that before there is a bucket.
const MEMORY_MIN_BYTES: usize = 4 << 20;

/// How often the main thread looks whether the workers are alive.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The signals that stop a node, and the main thread's runtime, which they need.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        drop(entered);
        Ok(Self {
            runtime,
            terminate,
            interrupt,
        })
    }
}

/// Waits for the signal that stops the node.
fn wait_for_signal(
    signals: Signals,
    node: &Node,
    readiness: &Readiness,
    threads: &[JoinHandle<()>],
) -> Result<(), ServeError> {
    let Signals {
        runtime,
        mut terminate,
        mut interrupt,
    } = signals;
    runtime.block_on(async {
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        let watched = async {
            loop {
                watch.tick().await;
                if threads.iter().any(JoinHandle::is_finished) {
                    return ServeError::WorkerEnded;
                }
                let Some(status) = node.cluster.as_ref().map(|cluster| cluster.status()) else {
                    continue;
                };
                if let Some(failed) = &status.failed {
                    return failed.clone().into();
                }
                if status.state == Some(MemberState::Ready) {
                    readiness.ready();
                }
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            failed = watched => return Err(failed),
        }
        tracing::info!(event = "draining");
        readiness.draining();
        let deadline = Instant::now() + Duration::from_millis(node.config.node.drain_ms);
        let drain = async {
            if let Some(cluster) = &node.cluster {
                cluster.leave();
                while Instant::now() < deadline && cluster.gives_slots_away() {
                    tokio::time::sleep(DRAIN_POLL).await;
                }
            }
            node.drain();
            while Instant::now() < deadline && threads.iter().any(|thread| !thread.is_finished()) {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        tokio::select! {
            _ = terminate.recv() => std::process::exit(SECOND_SIGNAL_EXIT),
            _ = interrupt.recv() => std::process::exit(SECOND_SIGNAL_EXIT),
            () = drain => {}
        }
        Ok(())
    })
}

/// How often the main thread looks whether the workers have drained.
const DRAIN_POLL: Duration = Duration::from_millis(2);
/// The exit code when a second signal cuts the drain short.
const SECOND_SIGNAL_EXIT: i32 = 1;

/// How long a node that joins others waits for them, before it says that it serves all the same. Who hears nobody for five seconds is a cluster
/// of its own.
const HOLDERS_WAIT: Duration = Duration::from_secs(6);

/// Waits until the node knows who decides for each slot: before, it could give clients no more than a local share.
fn wait_for_holders(cluster: &crate::cluster::Cluster, threads: &[JoinHandle<()>]) {
    let deadline = Instant::now() + HOLDERS_WAIT;
    while cluster.has_seeds
        && !cluster.routes.are_known()
        && Instant::now() < deadline
        && cluster.status().failed.is_none()
        && !threads.iter().any(JoinHandle::is_finished)
    {
        std::thread::sleep(DRAIN_POLL);
    }
}

/// Waits for the workers that have drained; those that have not by their time end with the process.
fn stop(node: &Node, threads: Vec<JoinHandle<()>>) -> Result<(), ServeError> {
    let mut stuck = 0;
    for thread in threads {
        if !thread.is_finished() {
            stuck += 1;
        } else if thread.join().is_err() {
            return Err(ServeError::WorkerEnded);
        }
    }
    if stuck > 0 {
        tracing::warn!(
            event = "drain_cut_short",
            workers = stuck,
            connections = node.connections()
        );
    }
    tracing::info!(event = "stopped");
    Ok(())
}
