//! What only a cluster has. The default face is a stand-alone server and says so, as Redis does.

use super::{Run, Spec};
use crate::cluster;

const BASE: Spec = Spec {
    group: "cluster",
    since: "3.0.0",
    ..Spec::BASE
};

const CONNECTION: Spec = Spec {
    categories: &["connection"],
    ..BASE
};

const CLUSTER: &[Spec] = &[
    Spec {
        name: "cluster|help",
        arity: 2,
        flags: &["loading", "stale"],
        since: "5.0.0",
        summary: "Lists the subcommands.",
        run: Run::Connection(cluster::help),
        ..BASE
    },
    Spec {
        name: "cluster|info",
        arity: 2,
        flags: &["stale"],
        tips: &["nondeterministic_output"],
        summary: "Describes the state of the cluster.",
        run: Run::Connection(cluster::info),
        ..BASE
    },
    Spec {
        name: "cluster|keyslot",
        arity: 3,
        flags: &["stale"],
        syntax: "key",
        complexity: "O(N) where N is the number of bytes in the key",
        summary: "Returns the slot of a key.",
        run: Run::Connection(cluster::key_slot),
        ..BASE
    },
    Spec {
        name: "cluster|myid",
        arity: 2,
        flags: &["stale"],
        summary: "Returns the id of the node.",
        run: Run::Connection(cluster::my_id),
        ..BASE
    },
    Spec {
        name: "cluster|myshardid",
        arity: 2,
        flags: &["stale"],
        since: "7.2.0",
        summary: "Returns the id of the node's shard.",
        run: Run::Connection(cluster::my_shard_id),
        ..BASE
    },
    Spec {
        name: "cluster|nodes",
        arity: 2,
        flags: &["stale"],
        tips: &["nondeterministic_output"],
        complexity: "O(N) where N is the number of nodes",
        summary: "Returns the nodes and their slots as text.",
        run: Run::Connection(cluster::nodes),
        ..BASE
    },
    Spec {
        name: "cluster|replicas",
        arity: 3,
        flags: &["admin", "stale"],
        tips: &["nondeterministic_output"],
        since: "5.0.0",
        syntax: "node-id",
        complexity: "O(N) where N is the number of nodes",
        summary: "Returns the replicas of a node that clients can ask: none.",
        run: Run::Connection(cluster::replicas),
        ..BASE
    },
    Spec {
        name: "cluster|shards",
        arity: 2,
        flags: &["stale"],
        tips: &["nondeterministic_output"],
        since: "7.0.0",
        complexity: "O(N) where N is the number of nodes",
        summary: "Returns the shards and their slots.",
        run: Run::Connection(cluster::shards),
        ..BASE
    },
    Spec {
        name: "cluster|slots",
        arity: 2,
        flags: &["stale"],
        tips: &["nondeterministic_output"],
        complexity: "O(N) where N is the number of nodes",
        summary: "Returns which node has which slots.",
        run: Run::Connection(cluster::slots),
        ..BASE
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "asking",
        flags: &["fast"],
        summary: "Allows the next command on a slot that is being imported.",
        run: Run::Connection(cluster::accept),
        ..CONNECTION
    },
    Spec {
        name: "cluster",
        arity: -2,
        complexity: "Depends on subcommand.",
        summary: "Container of the cluster commands.",
        run: Run::Container,
        subcommands: CLUSTER,
        ..BASE
    },
    Spec {
        name: "readonly",
        flags: &["loading", "stale", "fast"],
        summary: "Allows reads from a replica.",
        run: Run::Connection(cluster::accept),
        ..CONNECTION
    },
    Spec {
        name: "readwrite",
        flags: &["loading", "stale", "fast"],
        summary: "Ends reads from a replica.",
        run: Run::Connection(cluster::accept),
        ..CONNECTION
    },
];
