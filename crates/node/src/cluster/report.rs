//! What there is to tell about the whole cluster, as one node sees it.

use super::operate::{own_status, peer_status};
use crate::admin::{ClusterReport, DeadReport, MemberReport, SlotsReport};
use crate::node::Node;
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_cluster::wire::NodeStatus;
use tollgate_cluster::{Member, MemberState};

/// Asks every member how it is; none if the node is in no cluster.
pub async fn report(node: &Node) -> Option<ClusterReport> {
    let cluster = node.cluster.as_ref()?;
    let (own, peers) = tokio::join!(own_status(node), peer_status(node));
    let mut answers: BTreeMap<Arc<str>, NodeStatus> = peers
        .into_iter()
        .filter_map(|(name, status)| Some((name, status?)))
        .collect();
    answers.insert(Arc::clone(&cluster.me.name), own);
    let view = Arc::clone(&cluster.view().borrow());
    let gossip = cluster.status();
    let silent_ms = |name: &str| {
        let facts = gossip.alive.iter().find(|facts| *facts.heard.member.id.name == *name);
        facts.map_or(0, |facts| facts.silent_ms)
    };
    let members: Vec<MemberReport> = view
        .members()
        .iter()
        .map(|member| {
            let name = &member.id.name;
            member_report(member, answers.get(name), silent_ms(name))
        })
        .collect();
    let dead = gossip.dead.iter().map(|(id, silent_ms)| DeadReport {
        name: id.name.to_string(),
        generation: id.generation,
        silent_ms: *silent_ms,
    });
    Some(ClusterReport {
        node: cluster.me.name.to_string(),
        view: hex(view.hash()),
        settled: gossip.settled && members.iter().all(|member| member.is_settled(&hex(view.hash()))),
        dead: dead.collect(),
        members,
    })
}

fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

fn member_report(member: &Member, status: Option<&NodeStatus>, silent_ms: u64) -> MemberReport {
    let state = match (status, member.state) {
        (None, _) => "suspect",
        (_, MemberState::Joining) => "joining",
        (_, MemberState::Ready) => "ready",
        (_, MemberState::Leaving) => "leaving",
    };
    MemberReport {
        name: member.id.name.to_string(),
        generation: member.id.generation,
        state: state.to_owned(),
        weight: member.weight,
        workers: member.workers,
        peer: member.peer.to_string(),
        listen: member.listen.to_string(),
        redirect_listen: member.redirect_listen.as_ref().map(|listen| listen.to_string()),
        silent_ms,
        version: status.map(|status| status.version.to_string()),
        view: status.map(|status| hex(status.view)),
        slots: status.map(slots_report),
    }
}

fn slots_report(status: &NodeStatus) -> SlotsReport {
    let circuits = status.circuits.iter();
    SlotsReport {
        held: status.held,
        target: status.target,
        to_move: status.to_move,
        moving: status.moving,
        unknown: status.unknown,
        epoch_max: status.epoch_max,
        followed: status.followed,
        replicas: status.replicas,
        replicas_in_step: status.replicas_in_step,
        copies_waiting: status.copies_waiting,
        lag_us: status.lag_us,
        journal_buckets: status.journal_buckets,
        journal_tokens: status.journal_tokens,
        journal_unacknowledged: status.journal_unacknowledged,
        journal_dropped: status.journal_dropped,
        drained: status.drained,
        circuits: circuits
            .map(|trouble| (trouble.peer.to_string(), trouble.state.to_string()))
            .collect(),
    }
}
