//! What only a cluster has; this face is a stand-alone server and says so, as Redis does.

use super::{Run, Spec};
use crate::server::cluster_disabled;

const BASE: Spec = Spec {
    group: "cluster",
    since: "3.0.0",
    run: Run::Connection(cluster_disabled),
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
        ..BASE
    },
    Spec {
        name: "cluster|info",
        arity: 2,
        flags: &["stale"],
        tips: &["nondeterministic_output"],
        summary: "Describes the state of the cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|keyslot",
        arity: 3,
        flags: &["stale"],
        syntax: "key",
        complexity: "O(N) where N is the number of bytes in the key",
        summary: "Returns the slot of a key.",
        ..BASE
    },
    Spec {
        name: "cluster|myid",
        arity: 2,
        flags: &["stale"],
        summary: "Returns the id of the node.",
        ..BASE
    },
    Spec {
        name: "cluster|nodes",
        arity: 2,
        flags: &["stale"],
        tips: &["nondeterministic_output"],
        complexity: "O(N) where N is the number of nodes",
        summary: "Returns the nodes and their slots as text.",
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
        ..BASE
    },
    Spec {
        name: "cluster|slots",
        arity: 2,
        flags: &["stale"],
        tips: &["nondeterministic_output"],
        complexity: "O(N) where N is the number of nodes",
        summary: "Returns which node has which slots.",
        ..BASE
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "asking",
        flags: &["fast"],
        summary: "Allows the next command on a slot that is being imported.",
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
        ..CONNECTION
    },
    Spec {
        name: "readwrite",
        flags: &["loading", "stale", "fast"],
        summary: "Ends reads from a replica.",
        ..CONNECTION
    },
];
