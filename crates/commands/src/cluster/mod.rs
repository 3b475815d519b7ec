//! CLUSTER and its kin (<https://redis.io/docs/latest/commands/?group=cluster>): the nodes and their slots, as the redirecting face shows them.
//! On the default face there is no cluster.

mod topology;

pub use topology::{ClusterNode, Topology};

use crate::CommandError;
use crate::node_view::ConnectionCall;
use std::fmt::Write as _;
use tollgate_protocol::ReplyWriter;
use tollgate_store::slot_of;

/// What the face shows.
///
/// # Errors
/// It is the default one.
fn topology(call: &ConnectionCall<'_>) -> Result<Topology, CommandError> {
    match call.session.face.redirects() {
        true => Ok(call.node.topology()),
        false => Err(CommandError::ClusterDisabled),
    }
}

/// `READONLY`, `READWRITE`, `ASKING`: nothing is read from replicas, and no slot is anywhere but at its holder.
pub(crate) fn accept(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    if !call.session.face.redirects() {
        return Err(CommandError::ClusterDisabled);
    }
    call.reply().ok();
    Ok(())
}

/// `CLUSTER KEYSLOT key`
pub(crate) fn key_slot(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    if !call.session.face.redirects() {
        return Err(CommandError::ClusterDisabled);
    }
    let slot = slot_of(call.request.arg(2));
    call.reply().int(i64::from(slot));
    Ok(())
}

/// `CLUSTER MYID`
pub(crate) fn my_id(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let topology = topology(call)?;
    call.reply().bulk(topology.own().id().as_bytes());
    Ok(())
}

/// `CLUSTER MYSHARDID`
pub(crate) fn my_shard_id(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let topology = topology(call)?;
    call.reply().bulk(topology.own().shard_id().as_bytes());
    Ok(())
}

/// `CLUSTER REPLICAS node-id`: a replica answers nobody but other nodes, so there is none for clients.
pub(crate) fn replicas(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let topology = topology(call)?;
    let id = call.request.arg(2);
    if !topology.nodes.iter().any(|node| node.id().as_bytes() == id) {
        let shown = String::from_utf8_lossy(&id[..id.len().min(128)]);
        return Err(CommandError::Other(format!("Unknown node {shown}")));
    }
    call.reply().array(0);
    Ok(())
}

/// `CLUSTER SLOTS`
pub(crate) fn slots(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let topology = topology(call)?;
    let ranges = topology.ranges();
    // There may be thousands of ranges.
    let ids: Vec<String> = topology.nodes.iter().map(ClusterNode::id).collect();
    let mut reply = call.reply();
    reply.array(ranges.len());
    for (first, last, node) in ranges {
        let (node, id) = (&topology.nodes[node], &ids[node]);
        reply.array(3);
        reply.int(i64::from(first));
        reply.int(i64::from(last));
        reply.array(4);
        reply.bulk(node.host.as_bytes());
        reply.int(i64::from(node.port));
        reply.bulk(id.as_bytes());
        // There is nothing more to say of where it is.
        reply.map(0);
    }
    Ok(())
}

/// `CLUSTER SHARDS`
pub(crate) fn shards(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let topology = topology(call)?;
    let ranges = topology.ranges();
    let mut reply = call.reply();
    reply.array(topology.nodes.len());
    for (number, node) in topology.nodes.iter().enumerate() {
        let own = ranges.iter().filter(|(_, _, holder)| *holder == number);
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * own.clone().count());
        for (first, last, _) in own {
            reply.int(i64::from(*first));
            reply.int(i64::from(*last));
        }
        reply.bulk(b"nodes");
        reply.array(1);
        write_shard_node(&mut reply, node);
    }
    Ok(())
}

fn write_shard_node(reply: &mut ReplyWriter<'_>, node: &ClusterNode) {
    let id = node.id();
    let text = |reply: &mut ReplyWriter<'_>, name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    let number = |reply: &mut ReplyWriter<'_>, name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.int(value);
    };
    let has_name = node.has_host_name();
    reply.map(7 + usize::from(has_name));
    text(reply, "id", &id);
    number(reply, "port", i64::from(node.port));
    text(reply, "ip", &node.host);
    text(reply, "endpoint", &node.host);
    if has_name {
        text(reply, "hostname", &node.host);
    }
    text(reply, "role", "master");
    number(reply, "replication-offset", 0);
    text(reply, "health", if node.is_suspect { "fail" } else { "online" });
}

/// `CLUSTER NODES`
pub(crate) fn nodes(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let topology = topology(call)?;
    let ranges = topology.ranges();
    let mut text = String::new();
    for (number, node) in topology.nodes.iter().enumerate() {
        let flags = match (number == topology.me, node.is_suspect) {
            (true, _) => "myself,master",
            (false, true) => "master,fail?",
            (false, false) => "master",
        };
        let ClusterNode {
            host, port, peer_port, ..
        } = node;
        let name = match node.has_host_name() {
            true => format!(",{host}"),
            false => String::new(),
        };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{} {host}:{port}@{peer_port}{name} {flags} - 0 {} {} connected",
            node.id(),
            node.heard_unix_ms,
            node.epoch
        );
        for (first, last, _) in ranges.iter().filter(|(_, _, holder)| *holder == number) {
            let _ = match first == last {
                true => write!(text, " {first}"),
                false => write!(text, " {first}-{last}"),
            };
        }
        text.push('\n');
    }
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

/// `CLUSTER INFO`
pub(crate) fn info(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let topology = topology(call)?;
    let assigned = topology.holders.iter().flatten().count();
    let mut with_slots: Vec<u16> = topology.holders.iter().flatten().copied().collect();
    with_slots.sort_unstable();
    with_slots.dedup();
    let mut text = String::new();
    let mut put = |field: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = write!(text, "{field}:{value}\r\n");
    };
    put(
        "cluster_state",
        &if assigned == topology.holders.len() {
            "ok"
        } else {
            "fail"
        },
    );
    put("cluster_slots_assigned", &assigned);
    put("cluster_slots_ok", &assigned);
    put("cluster_slots_pfail", &topology.suspected());
    put("cluster_slots_fail", &0);
    put("cluster_known_nodes", &topology.nodes.len());
    put("cluster_size", &with_slots.len());
    put("cluster_current_epoch", &topology.epoch);
    put("cluster_my_epoch", &topology.own().epoch);
    put("cluster_stats_messages_sent", &topology.messages_sent);
    put("cluster_stats_messages_received", &topology.messages_received);
    put("total_cluster_links_buffer_limit_exceeded", &0);
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

/// `CLUSTER HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    if !call.session.face.redirects() {
        return Err(CommandError::ClusterDisabled);
    }
    call.write_help(
        "CLUSTER",
        &[
            "INFO",
            "    Describe the state of the cluster.",
            "KEYSLOT <key>",
            "    Return the slot of <key>.",
            "MYID",
            "    Return the id of the node.",
            "MYSHARDID",
            "    Return the id of the node's shard.",
            "NODES",
            "    Return the nodes and their slots, a line each.",
            "REPLICAS <node-id>",
            "    Return nothing: clients cannot read from replicas.",
            "SHARDS",
            "    Return the nodes and their slots.",
            "SLOTS",
            "    Return which node has which slots.",
        ],
    )
}

#[cfg(test)]
mod tests;
