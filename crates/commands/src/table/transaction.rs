//! Transactions.

use super::{Run, Spec, WorkerCommand};

const BASE: Spec = Spec {
    group: "transactions",
    categories: &["transaction"],
    ..Spec::BASE
};

const FLAGS: &[&str] = &["noscript", "loading", "stale", "fast", "allow_busy"];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "discard",
        flags: FLAGS,
        since: "2.0.0",
        complexity: "O(N), when N is the number of queued commands",
        summary: "Forgets the transaction.",
        run: Run::Worker(WorkerCommand::Discard),
        ..BASE
    },
    Spec {
        name: "exec",
        flags: &["noscript", "loading", "stale", "skip_slowlog"],
        since: "1.2.0",
        complexity: "Depends on commands in the transaction",
        summary: "Runs the commands of the transaction.",
        run: Run::Worker(WorkerCommand::Exec),
        ..BASE
    },
    Spec {
        name: "multi",
        flags: FLAGS,
        since: "1.2.0",
        summary: "Starts a transaction.",
        run: Run::Worker(WorkerCommand::Multi),
        ..BASE
    },
    Spec {
        name: "unwatch",
        flags: FLAGS,
        since: "2.2.0",
        summary: "Forgets all watched keys.",
        run: Run::Worker(WorkerCommand::Unwatch),
        ..BASE
    },
    Spec {
        name: "watch",
        arity: -2,
        flags: FLAGS,
        keys: (1, -1, 1),
        key_use: &["RO"],
        since: "2.2.0",
        syntax: "key [...]",
        complexity: "O(1) for every key.",
        summary: "Lets EXEC do nothing if one of the keys changes before it.",
        run: Run::Worker(WorkerCommand::Watch),
        ..BASE
    },
];
