//! Functions.

use super::script::{BASE, MANAGES, READS, RUN, RUNS};
use super::{Run, Spec, Wide};
use crate::functions;
use crate::scripts::ScriptCommand;

const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const CHANGES: &[&str] = &["write", "noscript"];
const ADDS: &[&str] = &["write", "denyoom", "noscript"];

const FUNCTION: &[Spec] = &[
    Spec {
        name: "function|delete",
        arity: 3,
        flags: CHANGES,
        tips: ALL_SHARDS,
        since: "7.0.0",
        syntax: "library-name",
        summary: "Forgets a library.",
        run: Run::Connection(functions::delete),
        wide: Some(Wide::Libraries),
        ..BASE
    },
    Spec {
        name: "function|dump",
        arity: 2,
        flags: MANAGES,
        since: "7.0.0",
        complexity: "O(N) where N is the length of all libraries",
        summary: "Returns all libraries in one string, for FUNCTION RESTORE.",
        run: Run::Connection(functions::dump),
        ..BASE
    },
    Spec {
        name: "function|flush",
        arity: -2,
        flags: CHANGES,
        tips: ALL_SHARDS,
        since: "7.0.0",
        syntax: "[ASYNC|SYNC]",
        complexity: "O(N) where N is the number of functions",
        summary: "Forgets all libraries.",
        run: Run::Connection(functions::flush),
        wide: Some(Wide::Libraries),
        ..BASE
    },
    Spec {
        name: "function|help",
        arity: 2,
        flags: &["loading", "stale"],
        since: "7.0.0",
        summary: "Prints what FUNCTION can do.",
        run: Run::Connection(functions::help),
        ..BASE
    },
    Spec {
        name: "function|kill",
        arity: 2,
        flags: &["noscript", "allow_busy"],
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        since: "7.0.0",
        summary: "Ends the functions that are running; what they have written is taken back.",
        run: Run::Connection(functions::kill),
        ..BASE
    },
    Spec {
        name: "function|list",
        arity: -2,
        flags: MANAGES,
        tips: &["nondeterministic_output_order"],
        since: "7.0.0",
        syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
        complexity: "O(N) where N is the number of functions",
        summary: "Lists the libraries and their functions.",
        run: Run::Connection(functions::list),
        ..BASE
    },
    Spec {
        name: "function|load",
        arity: -3,
        flags: ADDS,
        tips: ALL_SHARDS,
        since: "7.0.0",
        syntax: "[REPLACE] function-code",
        complexity: "Depends on the library.",
        summary: "Keeps a library of functions.",
        run: Run::Script(ScriptCommand::FunctionLoad),
        wide: Some(Wide::Libraries),
        ..BASE
    },
    Spec {
        name: "function|restore",
        arity: -3,
        flags: ADDS,
        tips: ALL_SHARDS,
        since: "7.0.0",
        syntax: "serialized-value [FLUSH|APPEND|REPLACE]",
        complexity: "Depends on the libraries.",
        summary: "Keeps the libraries that FUNCTION DUMP returned.",
        run: Run::Script(ScriptCommand::FunctionRestore),
        wide: Some(Wide::Libraries),
        ..BASE
    },
    Spec {
        name: "function|stats",
        arity: 2,
        flags: &["noscript", "allow_busy"],
        tips: &[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ],
        since: "7.0.0",
        summary: "Tells which function is running, and how many there are.",
        run: Run::Connection(functions::stats),
        ..BASE
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "fcall",
        flags: RUNS,
        since: "7.0.0",
        syntax: "function numkeys [key [...]] [arg [...]]",
        complexity: "Depends on the function that is executed.",
        summary: "Calls a function.",
        run: Run::Script(ScriptCommand::Fcall),
        ..RUN
    },
    Spec {
        name: "fcall_ro",
        flags: READS,
        key_use: &["RO", "access"],
        since: "7.0.0",
        syntax: "function numkeys [key [...]] [arg [...]]",
        complexity: "Depends on the function that is executed.",
        summary: "Calls a function that only reads.",
        run: Run::Script(ScriptCommand::FcallRo),
        ..RUN
    },
    Spec {
        name: "function",
        arity: -2,
        categories: &[],
        since: "7.0.0",
        summary: "A container for commands about functions.",
        complexity: "Depends on subcommand.",
        subcommands: FUNCTION,
        ..BASE
    },
];
