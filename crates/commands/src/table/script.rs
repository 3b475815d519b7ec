//! Scripts.

use super::{Run, Spec, Wide};
use crate::scripts::{self, ScriptCommand};

pub(super) const BASE: Spec = Spec {
    group: "scripting",
    categories: &["scripting"],
    ..Spec::BASE
};

pub(super) const RUN: Spec = Spec {
    arity: -3,
    counted: 2,
    key_use: &["RW", "access", "update"],
    complexity: "Depends on the script that is executed.",
    ..BASE
};

pub(super) const RUNS: &[&str] = &["noscript", "stale", "skip_monitor", "no_mandatory_keys", "movablekeys"];
pub(super) const READS: &[&str] = &[
    "readonly",
    "noscript",
    "stale",
    "skip_monitor",
    "no_mandatory_keys",
    "movablekeys",
];
pub(super) const MANAGES: &[&str] = &["noscript"];
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const SCRIPT: &[Spec] = &[
    Spec {
        name: "script|exists",
        arity: -3,
        flags: MANAGES,
        tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
        since: "2.6.0",
        syntax: "sha1 [...]",
        complexity: "O(N) where N is the number of scripts asked for",
        summary: "Tells which scripts are known.",
        run: Run::Connection(scripts::exists),
        wide: Some(Wide::ScriptExists),
        ..BASE
    },
    Spec {
        name: "script|flush",
        arity: -2,
        flags: MANAGES,
        tips: ALL_NODES,
        since: "2.6.0",
        syntax: "[ASYNC|SYNC]",
        complexity: "O(N) where N is the number of known scripts",
        summary: "Forgets all scripts.",
        run: Run::Connection(scripts::flush),
        wide: Some(Wide::ScriptFlush),
        ..BASE
    },
    Spec {
        name: "script|help",
        arity: 2,
        flags: &["loading", "stale"],
        since: "5.0.0",
        summary: "Prints what SCRIPT can do.",
        run: Run::Connection(scripts::help),
        ..BASE
    },
    Spec {
        name: "script|kill",
        arity: 2,
        flags: &["noscript", "allow_busy"],
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        since: "2.6.0",
        summary: "Ends the scripts that are running; what they have written is taken back.",
        run: Run::Connection(scripts::kill),
        ..BASE
    },
    Spec {
        name: "script|load",
        arity: 3,
        flags: &["noscript", "stale"],
        tips: ALL_NODES,
        since: "2.6.0",
        syntax: "script",
        complexity: "O(N) where N is the length of the script",
        summary: "Keeps a script and returns its SHA-1.",
        run: Run::Connection(scripts::load),
        wide: Some(Wide::ScriptLoad),
        ..BASE
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "eval",
        flags: RUNS,
        since: "2.6.0",
        syntax: "script numkeys [key [...]] [arg [...]]",
        summary: "Runs a Lua script.",
        run: Run::Script(ScriptCommand::Eval),
        ..RUN
    },
    Spec {
        name: "eval_ro",
        flags: READS,
        key_use: &["RO", "access"],
        since: "7.0.0",
        syntax: "script numkeys [key [...]] [arg [...]]",
        summary: "Runs a Lua script that only reads.",
        run: Run::Script(ScriptCommand::EvalRo),
        ..RUN
    },
    Spec {
        name: "evalsha",
        flags: RUNS,
        since: "2.6.0",
        syntax: "sha1 numkeys [key [...]] [arg [...]]",
        summary: "Runs a known Lua script.",
        run: Run::Script(ScriptCommand::EvalSha),
        ..RUN
    },
    Spec {
        name: "evalsha_ro",
        flags: READS,
        key_use: &["RO", "access"],
        since: "7.0.0",
        syntax: "sha1 numkeys [key [...]] [arg [...]]",
        summary: "Runs a known Lua script that only reads.",
        run: Run::Script(ScriptCommand::EvalShaRo),
        ..RUN
    },
    Spec {
        name: "script",
        arity: -2,
        categories: &[],
        since: "2.6.0",
        summary: "A container for commands about scripts.",
        complexity: "Depends on subcommand.",
        subcommands: SCRIPT,
        ..BASE
    },
];
