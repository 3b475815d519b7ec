//! What operators ask: how the nodes are, and that one gives its slots away and goes on running.
//!
//! The admin thread asks the workers by their orders; another node is asked by worker 0, over its connection to that node's, so that with a
//! cluster secret nobody else can.

use crate::admin::DrainError;
use crate::node::Node;
use crate::peers::{Pending, ReplyHandle};
use crate::worker::{Control, Worker};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_cluster::MemberState;
use tollgate_cluster::circuit::CircuitState;
use tollgate_cluster::wire::{AskStatus, Drain, DrainBegun, Kind, NodeStatus, Trouble, read_message};

/// How long a node, or a worker, may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(1);

/// What an operator asks of a worker.
#[derive(Debug)]
pub enum Operation {
    /// How it is.
    Own(oneshot::Sender<NodeStatus>),
    /// How the peers are; nothing for those that do not say so in time. For worker 0.
    Peers(oneshot::Sender<Vec<(Arc<str>, Option<NodeStatus>)>>),
    /// To tell a peer to give its slots away, or to come back. For worker 0.
    Drain {
        /// The peer.
        name: Arc<str>,
        /// Whether it is to come back.
        undo: bool,
        /// What came of it.
        done: oneshot::Sender<Result<(), DrainError>>,
    },
}

/// How this node is; what workers do not say in time is missing.
pub async fn own_status(node: &Node) -> NodeStatus {
    let mut asked = Vec::new();
    for worker in 0..node.workers() {
        let (tell, told) = oneshot::channel();
        if node.order(worker, Control::Operate(Operation::Own(tell))) {
            asked.push(told);
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let mut sum: Option<NodeStatus> = None;
    for told in asked {
        if let Ok(Ok(status)) = timeout_at(deadline, told).await {
            match &mut sum {
                Some(sum) => sum.add(status),
                None => sum = Some(status),
            }
        }
    }
    sum.unwrap_or_default()
}

/// How the peers are.
pub(super) async fn peer_status(node: &Node) -> Vec<(Arc<str>, Option<NodeStatus>)> {
    let (tell, told) = oneshot::channel();
    node.order(0, Control::Operate(Operation::Peers(tell)));
    // Longer than the peers have.
    timeout(2 * PATIENCE, told)
        .await
        .ok()
        .and_then(Result::ok)
        .unwrap_or_default()
}

/// Has a member give its slots away, or come back.
///
/// # Errors
/// [`DrainError`].
pub async fn drain(node: &Node, name: &str, undo: bool) -> Result<(), DrainError> {
    let cluster = node.cluster.as_ref().ok_or(DrainError::NoCluster)?;
    if *name == *cluster.me.name {
        return drain_own(node, undo);
    }
    let known = cluster
        .view()
        .borrow()
        .member(name)
        .map(|member| Arc::clone(&member.id.name));
    let name = known.ok_or_else(|| DrainError::Unknown(name.to_owned()))?;
    let (done, is_done) = oneshot::channel();
    let silent = || DrainError::Silent(name.to_string());
    node.order(
        0,
        Control::Operate(Operation::Drain {
            name: Arc::clone(&name),
            undo,
            done,
        }),
    );
    timeout(2 * PATIENCE, is_done)
        .await
        .ok()
        .and_then(Result::ok)
        .unwrap_or_else(|| Err(silent()))
}

fn drain_own(node: &Node, undo: bool) -> Result<(), DrainError> {
    let cluster = node.cluster.as_ref().ok_or(DrainError::NoCluster)?;
    if undo {
        if node.is_draining() {
            return Err(DrainError::Refused("it has been told to end".to_owned()));
        }
        cluster.stay();
    } else {
        let view = Arc::clone(&cluster.view().borrow());
        let mut others = view.members().iter().filter(|member| member.id.name != cluster.me.name);
        if !others.any(|member| member.state == MemberState::Ready) {
            return Err(DrainError::Refused(
                "no other member is ready to take its slots".to_owned(),
            ));
        }
        cluster.leave();
    }
    tracing::info!(event = "drain_ordered", undo);
    Ok(())
}

impl Worker {
    /// Does what an operator asks.
    pub fn operate(self: &Rc<Self>, operation: Operation) {
        match operation {
            // Who asked may have given up.
            Operation::Own(tell) => drop(tell.send(self.own_status())),
            Operation::Peers(tell) => {
                let asked = self.ask_peers();
                tokio::task::spawn_local(async move {
                    let deadline = Instant::now() + PATIENCE;
                    let mut answers = Vec::with_capacity(asked.len());
                    for (name, pending) in asked {
                        let answer = match pending {
                            Some(pending) => read_status(pending, deadline).await,
                            None => None,
                        };
                        answers.push((name, answer));
                    }
                    drop(tell.send(answers));
                });
            }
            Operation::Drain { name, undo, done } => {
                let pending = self
                    .links
                    .as_ref()
                    .map(|links| links.peers.request(&name, 0, &Drain { undo }));
                tokio::task::spawn_local(async move {
                    let answer = match pending {
                        Some(Ok(pending)) => read_drain(pending).await,
                        _ => None,
                    };
                    drop(done.send(answer.unwrap_or_else(|| Err(DrainError::Silent(name.to_string())))));
                });
            }
        }
    }

    fn ask_peers(&self) -> Vec<(Arc<str>, Option<Pending>)> {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return Vec::new();
        };
        let view = links.view.borrow();
        let others = view.members().iter().filter(|member| member.id.name != cluster.me.name);
        let ask = |name: &Arc<str>| links.peers.request(name, 0, &AskStatus {}).ok();
        others
            .map(|member| (Arc::clone(&member.id.name), ask(&member.id.name)))
            .collect()
    }

    /// How this worker is.
    fn own_status(&self) -> NodeStatus {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return NodeStatus::default();
        };
        let machine = links.machine.borrow();
        let view = links.view.borrow();
        let figures = machine.figures(self.node.clock.now_us());
        let journals = machine.journal_sums();
        let me = view.rank(&cluster.me.name);
        let is_own = |slot: &u16| me.is_some() && view.target(*slot) == me;
        let circuits = links.circuits.borrow();
        let troubled = circuits
            .troubled()
            .map(|(peer, state): (&Arc<str>, CircuitState)| Trouble {
                peer: Arc::clone(peer),
                state: state.word().into(),
            });
        NodeStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            view: view.hash(),
            // None of these is more than there are slots, or followers of them.
            target: machine.range().filter(is_own).count() as u32,
            held: figures.held as u32,
            to_move: figures.to_move as u32,
            moving: figures.moving as u32,
            followed: figures.followed as u32,
            replicas: figures.replicas as u32,
            replicas_in_step: figures.replicas_in_step as u32,
            copies_waiting: figures.copies_waiting as u32,
            unknown: figures.unknown as u32,
            epoch_max: figures.epoch_max,
            lag_us: figures.lag_us,
            journal_buckets: journals.buckets as u64,
            journal_tokens: journals.tokens,
            journal_unacknowledged: journals.unacknowledged as u64,
            journal_dropped: journals.dropped,
            drained: machine.drained(),
            circuits: troubled.collect(),
        }
    }

    /// Does what an operator has asked another node to have done here.
    pub(super) fn serve_operation(self: &Rc<Self>, kind: Kind, version: u16, body: &[u8], reply: ReplyHandle) {
        match kind {
            Kind::Drain => {
                let Ok(Drain { undo }) = read_message::<Drain>(version, body) else {
                    // If the connection is over, nobody waits for that.
                    let _ = reply.not_understood();
                    return;
                };
                let refused = drain_own(&self.node, undo).err();
                // As above.
                let _ = reply.reply(&DrainBegun {
                    refused: refused.map_or_else(String::new, |error| error.reason()).into(),
                });
            }
            _ => {
                let node = Arc::clone(&self.node);
                tokio::task::spawn_local(async move {
                    let status = own_status(&node).await;
                    // As above.
                    let _ = reply.reply(&status);
                });
            }
        }
    }
}

async fn read_status(pending: Pending, deadline: Instant) -> Option<NodeStatus> {
    let answer = timeout_at(deadline, pending).await.ok()?.ok()?;
    match answer.kind {
        Kind::Status => read_message(answer.version, &answer.body).ok(),
        _ => None,
    }
}

async fn read_drain(pending: Pending) -> Option<Result<(), DrainError>> {
    let answer = timeout(PATIENCE, pending).await.ok()?.ok()?;
    if answer.kind != Kind::DrainBegun {
        return None;
    }
    let begun: DrainBegun = read_message(answer.version, &answer.body).ok()?;
    Some(match begun.refused.is_empty() {
        true => Ok(()),
        false => Err(DrainError::Refused(begun.refused.to_string())),
    })
}
