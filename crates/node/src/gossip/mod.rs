//! Who is in the cluster: gossip over UDP, on a thread of its own, so that a busy worker delays no heartbeat.
//!
//! chitchat spreads a few small keys of each node (`facts`) and detects failures; `liveness` smooths what it detects; the
//! decisions (which members count, who is in the ring, who waits) are [`tollgate_cluster::Membership`]'s. What comes out is a
//! [`View`], replaced whole, and what there is to tell about it ([`GossipStatus`]).

mod address;
mod facts;
mod files;
mod liveness;
mod names;
mod run;
mod seeds;
mod transport;

pub use address::{PeerSockets, advertised};
pub use facts::{Home, Identity};
pub use files::Files;
pub use transport::{DATAGRAM_BYTES_MAX, GossipCounters, Lossy, Seal};

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;
use tollgate_cluster::{Heard, Incarnation, MemberState, View};

/// Why gossip did not start, or ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GossipError {
    /// Another process has this node's name.
    #[error(
        "the name {name:?} belongs to a node that answers at {at}: give this one another with --name, or stop that one"
    )]
    NameTaken {
        /// The name.
        name: Arc<str>,
        /// Where its owner answers.
        at: SocketAddr,
    },
    /// A process that started later has taken this node's name.
    #[error("a node that started later has the name {name:?}, and this one cannot be heard where that one is")]
    Superseded {
        /// The name.
        name: Arc<str>,
    },
    /// A thread, a runtime or a socket failed.
    #[error("gossip failed: {0}")]
    System(String),
}

/// How to gossip.
#[derive(Clone)]
pub struct GossipConfig {
    /// This node's name.
    pub name: Arc<str>,
    /// Its generation, wall time of its start in milliseconds; a higher one is taken if its name was seen with this or a later one.
    pub generation: u64,
    /// What it says of itself.
    pub identity: Identity,
    /// Hashes of its rules and policies.
    pub files: Files,
    /// Where others reach its gossip.
    pub advertised: SocketAddr,
    /// Other nodes as `host:port`; names are resolved again and again.
    pub seeds: Vec<String>,
    /// How many slots there are.
    pub slots: u16,
    /// Versions of the peers' protocol that it speaks.
    pub versions: RangeInclusive<u16>,
    /// Time from one round of gossip to the next; also the interval between heartbeats that is assumed first.
    pub interval: Duration,
    /// A longer interval between two heartbeats says nothing about the usual one.
    pub interval_max: Duration,
    /// The phi above which a node is suspected of being dead.
    pub phi: f64,
    /// A silence that is shorter than this is nobody's death.
    pub silence_min: Duration,
    /// How long the dead are remembered.
    pub grace: Duration,
    /// The longest that this node stays out of the ring because it comes and goes.
    pub delay_max: Duration,
    /// Seals datagrams, if there is a secret.
    pub seal: Option<Arc<dyn Seal>>,
    /// Loses datagrams, in tests.
    pub lossy: Option<Lossy>,
    /// What it counts.
    pub counters: Arc<GossipCounters>,
}

impl fmt::Debug for GossipConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GossipConfig")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What the node tells gossip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The node knows all that it must know to hold slots.
    pub prepared: bool,
    /// The node gives its slots away.
    pub leaving: bool,
    /// Where its slots are.
    pub home: Home,
}

/// What there is to tell about one process that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFacts {
    /// What it says.
    pub heard: Heard,
    /// A hash of the slots that it holds and their epochs.
    pub slots_hash: u64,
    /// Hashes of its rules and policies, if it says them.
    pub files: Option<Files>,
    /// Where its gossip comes from.
    pub gossip: SocketAddr,
    /// How long nothing was heard of it, in milliseconds.
    pub silent_ms: u64,
}

/// What there is to tell about the cluster as this node sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GossipStatus {
    /// How far this node is; none before the first look.
    pub state: Option<MemberState>,
    /// How much longer it stays out of the ring because it has come and gone, in milliseconds.
    pub damped_ms: u64,
    /// Whether all members have this node's view and all slots are where they belong.
    pub settled: bool,
    /// All that are alive, of each name the last generation, in the order of their names.
    pub alive: Vec<MemberFacts>,
    /// Who has died and is still remembered, unless its name is alive again; and for how long it has been silent, in milliseconds.
    pub dead: Vec<(Incarnation, u64)>,
    /// How many processes gossip remembers, alive or dead.
    pub remembered: usize,
    /// Why gossip ended, or has to.
    pub failed: Option<GossipError>,
}

/// The gossip thread, and what goes in and comes out.
#[derive(Debug)]
pub struct Gossip {
    me: Incarnation,
    inputs: watch::Sender<Inputs>,
    view: watch::Receiver<Arc<View>>,
    status: watch::Receiver<Arc<GossipStatus>>,
    counters: Arc<GossipCounters>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gossip {
    /// Starts to gossip over a socket; asks first whether this node's name is free, if there are seeds.
    ///
    /// # Errors
    /// [`GossipError`]: the name is taken, or the system refused a thread.
    pub fn start(config: GossipConfig, socket: std::net::UdpSocket) -> Result<Self, GossipError> {
        let counters = Arc::clone(&config.counters);
        let (inputs, inputs_given) = watch::channel(Inputs::default());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (started, start) = std::sync::mpsc::sync_channel(1);
        let ends = run::Ends {
            inputs: inputs_given,
            stopped,
            started,
        };
        let thread = std::thread::Builder::new().name("gossip".to_owned());
        let thread = thread
            .spawn(move || run::thread(config, socket, ends))
            .map_err(system)?;
        let run::Started { me, view, status } = start
            .recv()
            .map_err(|_| GossipError::System("its thread ended".to_owned()))??;
        Ok(Self {
            me,
            inputs,
            view,
            status,
            counters,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// This life of this node.
    pub fn me(&self) -> &Incarnation {
        &self.me
    }

    /// The view, whenever it changes.
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// What there is to tell, several times a second.
    pub fn status(&self) -> watch::Receiver<Arc<GossipStatus>> {
        self.status.clone()
    }

    /// What to tell the others, from any thread.
    pub fn inputs(&self) -> &watch::Sender<Inputs> {
        &self.inputs
    }

    /// What the transport counts.
    pub fn counters(&self) -> &Arc<GossipCounters> {
        &self.counters
    }

    /// The node knows all that it must know to hold slots.
    pub fn prepared(&self) {
        self.inputs.send_modify(|inputs| inputs.prepared = true);
    }

    /// The node gives its slots away.
    pub fn leave(&self) {
        self.inputs.send_modify(|inputs| inputs.leaving = true);
    }

    /// Tells the others that this node ends, and ends the thread. Without it (dropped) the others find out by the silence.
    pub fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // A thread that has ended has nothing more to say.
            let _ = stop.send(());
        }
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(event = "gossip_panicked");
        }
    }
}

impl Drop for Gossip {
    fn drop(&mut self) {
        self.end();
    }
}

fn system(error: impl fmt::Display) -> GossipError {
    GossipError::System(error.to_string())
}

#[cfg(test)]
mod tests;
