//! The nodes and their slots, from the view and the routes.

use super::split_address;
use crate::cluster::{Cluster, Route};
use crate::node::Node;
use std::collections::HashMap;
use tollgate_cluster::View;
use tollgate_commands::{ClusterNode, Topology};
use tollgate_store::SLOTS;

/// A silence of gossip from which on a node is shown as one that may be gone, in milliseconds: several rounds.
const SUSPECT_MS: u64 = 900;

/// The nodes and their slots as this node sees them.
pub fn topology(node: &Node) -> Topology {
    match &node.cluster {
        Some(cluster) => clustered(node, cluster),
        None => alone(node),
    }
}

/// A node that is in no cluster has all slots.
fn alone(node: &Node) -> Topology {
    let at = node.redirect_listen.unwrap_or(node.listen);
    Topology {
        nodes: vec![ClusterNode {
            name: node.about.name.clone(),
            host: at.ip().to_string(),
            port: at.port(),
            peer_port: 0,
            epoch: 1,
            heard_unix_ms: 0,
            is_suspect: false,
        }],
        me: 0,
        holders: vec![Some(0); usize::from(SLOTS)],
        epoch: 1,
        messages_sent: 0,
        messages_received: 0,
    }
}

fn clustered(node: &Node, cluster: &Cluster) -> Topology {
    let view = cluster.view();
    let view = std::sync::Arc::clone(&view.borrow());
    let (mut nodes, me) = shown_nodes(node, cluster, &view);
    // By the numbers that routes have for peers.
    let numbers: HashMap<u16, u16> = view
        .members()
        .iter()
        .filter_map(|member| {
            let shown = nodes.iter().position(|node| *node.name == *member.id.name)?;
            // A view has at most a thousand members.
            Some((cluster.number_of(&member.id.name), shown as u16))
        })
        .collect();
    let own = me as u16;
    let mut epoch = 0;
    let mut holders = Vec::with_capacity(usize::from(SLOTS));
    for slot in 0..SLOTS {
        let holder = match cluster.routes.get(slot) {
            // Until it has moved it is here.
            Route::Here | Route::Closing => Some(own),
            // Clients cannot be sent to every peer: this node asks the others for them.
            Route::Peer(number) => Some(numbers.get(&number).copied().unwrap_or(own)),
            Route::Nobody => None,
        };
        let of_slot = cluster.routes.epoch(slot);
        if let Some(holder) = holder {
            let node = &mut nodes[usize::from(holder)];
            node.epoch = node.epoch.max(of_slot);
        }
        epoch = epoch.max(of_slot);
        holders.push(holder);
    }
    let gossip = &node.metrics.gossip;
    Topology {
        nodes,
        me,
        holders,
        epoch,
        messages_sent: gossip.sent.get(),
        messages_received: gossip.received.get(),
    }
}

/// This node and those that clients can be sent to, in the order of their names; and which of them this node is.
fn shown_nodes(node: &Node, cluster: &Cluster, view: &View) -> (Vec<ClusterNode>, usize) {
    let gossip = cluster.status();
    let now_ms = node.clock.now_us().saturating_add_signed(node.clock.wall_offset_us()) / 1_000;
    let mut nodes: Vec<ClusterNode> = view
        .members()
        .iter()
        .filter(|member| member.id.name != cluster.me.name)
        .filter_map(|member| {
            let (host, port) = split_address(member.redirect_listen.as_deref()?);
            let facts = gossip.alive.iter().find(|facts| facts.heard.member.id == member.id);
            let silent_ms = facts.map_or(0, |facts| facts.silent_ms);
            Some(ClusterNode {
                name: member.id.name.to_string(),
                host: host.to_owned(),
                port,
                peer_port: split_address(&member.peer).1,
                epoch: 0,
                heard_unix_ms: now_ms.saturating_sub(silent_ms),
                is_suspect: silent_ms > SUSPECT_MS,
            })
        })
        .collect();
    let (own_host, own_port) = match &cluster.told.redirect_listen {
        Some(told) => split_address(told),
        None => ("", 0),
    };
    let me = nodes.partition_point(|node| *node.name < *cluster.me.name);
    let own = ClusterNode {
        name: cluster.me.name.to_string(),
        host: own_host.to_owned(),
        port: own_port,
        peer_port: split_address(&cluster.told.peer).1,
        epoch: 0,
        heard_unix_ms: 0,
        is_suspect: false,
    };
    nodes.insert(me, own);
    (nodes, me)
}
