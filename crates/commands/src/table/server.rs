//! Commands about the server.

use super::{Run, Spec, WorkerCommand};
use crate::keyspace::KeyspaceCommand;
use crate::{command_docs, command_info, info, latency, object, server, slowlog};

const BASE: Spec = Spec {
    group: "server",
    ..Spec::BASE
};

const HELP: Spec = Spec {
    arity: 2,
    flags: &["loading", "stale"],
    since: "5.0.0",
    summary: "Lists the subcommands.",
    ..BASE
};

const COMMAND_BASE: Spec = Spec {
    flags: &["loading", "stale"],
    categories: &["connection"],
    since: "2.8.13",
    complexity: "O(N) where N is the number of commands",
    ..BASE
};

const IN_NO_ORDER: &[&str] = &["nondeterministic_output_order"];

const COMMAND: &[Spec] = &[
    Spec {
        name: "command|count",
        arity: 2,
        complexity: "O(1)",
        summary: "Counts the commands.",
        run: Run::Connection(command_info::count),
        ..COMMAND_BASE
    },
    Spec {
        name: "command|docs",
        arity: -2,
        tips: IN_NO_ORDER,
        since: "7.0.0",
        syntax: "[command-name [...]]",
        summary: "Documents the commands named, or all.",
        run: Run::Connection(command_docs::docs),
        ..COMMAND_BASE
    },
    Spec {
        name: "command|getkeys",
        arity: -3,
        syntax: "command [arg [...]]",
        complexity: "O(N) where N is the number of arguments to the command",
        summary: "Returns the keys of a command with its arguments.",
        run: Run::Connection(command_info::get_keys),
        ..COMMAND_BASE
    },
    Spec {
        name: "command|getkeysandflags",
        arity: -3,
        since: "7.0.0",
        syntax: "command [arg [...]]",
        complexity: "O(N) where N is the number of arguments to the command",
        summary: "Returns the keys of a command with its arguments, and what happens to them.",
        run: Run::Connection(command_info::get_keys_and_flags),
        ..COMMAND_BASE
    },
    Spec {
        name: "command|help",
        categories: &["connection"],
        run: Run::Connection(command_info::help),
        ..HELP
    },
    Spec {
        name: "command|info",
        arity: -2,
        tips: IN_NO_ORDER,
        syntax: "[command-name [...]]",
        summary: "Describes the commands named, or all.",
        run: Run::Connection(command_info::info),
        ..COMMAND_BASE
    },
    Spec {
        name: "command|list",
        arity: -2,
        tips: IN_NO_ORDER,
        since: "7.0.0",
        syntax: "[FILTERBY MODULE|ACLCAT|PATTERN value]",
        summary: "Lists the names of the commands.",
        run: Run::Connection(command_info::list),
        ..COMMAND_BASE
    },
];

const CONFIG: &[Spec] = &[
    Spec {
        name: "config|get",
        arity: -3,
        flags: &["admin", "noscript", "loading", "stale"],
        since: "2.0.0",
        syntax: "parameter [...]",
        complexity: "O(N) where N is the number of parameters",
        summary: "Returns settings by name or pattern.",
        run: Run::Connection(server::config_get),
        ..BASE
    },
    Spec {
        name: "config|help",
        run: Run::Connection(server::config_help),
        ..HELP
    },
    Spec {
        name: "config|set",
        arity: -4,
        flags: &["admin", "noscript", "loading", "stale"],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.0.0",
        syntax: "parameter value [...]",
        complexity: "O(N) where N is the number of parameters",
        summary: "Changes settings: slowlog-log-slower-than, slowlog-max-len, latency-monitor-threshold.",
        run: Run::Connection(server::config_set),
        ..BASE
    },
];

const LATENCY_BASE: Spec = Spec {
    arity: 2,
    flags: &["admin", "noscript", "loading", "stale"],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    since: "2.8.13",
    ..BASE
};

const LATENCY: &[Spec] = &[
    Spec {
        name: "latency|doctor",
        summary: "Describes in words when commands took long.",
        run: Run::Connection(latency::doctor),
        ..LATENCY_BASE
    },
    Spec {
        name: "latency|graph",
        arity: 3,
        syntax: "event",
        summary: "Draws the samples of an event.",
        run: Run::Connection(latency::graph),
        ..LATENCY_BASE
    },
    Spec {
        name: "latency|help",
        since: "2.8.13",
        run: Run::Connection(latency::help),
        ..HELP
    },
    Spec {
        name: "latency|history",
        arity: 3,
        syntax: "event",
        summary: "Returns the samples of an event: the worst of each second, with its time.",
        run: Run::Connection(latency::history),
        ..LATENCY_BASE
    },
    Spec {
        name: "latency|latest",
        summary: "Returns the last and the worst sample of each event.",
        run: Run::Connection(latency::latest),
        ..LATENCY_BASE
    },
    Spec {
        name: "latency|reset",
        arity: -2,
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        syntax: "[event [...]]",
        summary: "Forgets the samples of events, or of all.",
        run: Run::Connection(latency::reset),
        ..LATENCY_BASE
    },
];

const MEMORY: &[Spec] = &[
    Spec {
        name: "memory|help",
        since: "4.0.0",
        run: Run::Connection(object::memory_help),
        ..HELP
    },
    Spec {
        name: "memory|usage",
        arity: -3,
        flags: &["readonly"],
        keys: (2, 2, 1),
        key_use: &["RO"],
        since: "4.0.0",
        syntax: "key [SAMPLES count]",
        summary: "Returns the bytes that a key and its bucket take.",
        run: Run::Key(object::memory_usage),
        ..BASE
    },
];

const SLOWLOG_BASE: Spec = Spec {
    arity: 2,
    flags: &["admin", "loading", "stale"],
    since: "2.2.12",
    ..BASE
};

const SLOWLOG: &[Spec] = &[
    Spec {
        name: "slowlog|get",
        arity: -2,
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        syntax: "[count]",
        complexity: "O(N) where N is the number of entries returned",
        summary: "Returns the commands that took long, the last first.",
        run: Run::Connection(slowlog::get),
        ..SLOWLOG_BASE
    },
    Spec {
        name: "slowlog|help",
        since: "6.2.0",
        run: Run::Connection(slowlog::help),
        ..HELP
    },
    Spec {
        name: "slowlog|len",
        tips: &[
            "request_policy:all_nodes",
            "response_policy:agg_sum",
            "nondeterministic_output",
        ],
        summary: "Counts them.",
        run: Run::Connection(slowlog::len),
        ..SLOWLOG_BASE
    },
    Spec {
        name: "slowlog|reset",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        complexity: "O(N) where N is the number of entries",
        summary: "Forgets them.",
        run: Run::Connection(slowlog::reset),
        ..SLOWLOG_BASE
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "command",
        arity: -1,
        tips: IN_NO_ORDER,
        summary: "Describes all commands.",
        run: Run::Connection(command_info::all),
        subcommands: COMMAND,
        ..COMMAND_BASE
    },
    Spec {
        name: "config",
        arity: -2,
        since: "2.0.0",
        complexity: "Depends on subcommand.",
        summary: "Container of the commands about settings.",
        subcommands: CONFIG,
        ..BASE
    },
    Spec {
        name: "dbsize",
        flags: &["readonly", "fast"],
        categories: &["keyspace"],
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        since: "1.0.0",
        summary: "Counts the keys of the database, those included that are full again and wait to be dropped.",
        run: Run::Keyspace(KeyspaceCommand::DbSize),
        ..BASE
    },
    Spec {
        name: "flushall",
        arity: -1,
        flags: &["write"],
        categories: &["keyspace", "dangerous"],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "1.0.0",
        syntax: "[ASYNC|SYNC]",
        complexity: "O(1); the memory of N keys is freed step by step",
        summary: "Resets the buckets of all databases and of all rules.",
        run: Run::Keyspace(KeyspaceCommand::FlushAll),
        ..BASE
    },
    Spec {
        name: "flushdb",
        arity: -1,
        flags: &["write"],
        categories: &["keyspace", "dangerous"],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "1.0.0",
        syntax: "[ASYNC|SYNC]",
        complexity: "O(1); the memory of N keys is freed step by step",
        summary: "Resets the buckets of the database.",
        run: Run::Keyspace(KeyspaceCommand::FlushDb),
        ..BASE
    },
    Spec {
        name: "info",
        arity: -1,
        flags: &["loading", "stale"],
        categories: &["dangerous"],
        tips: &[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ],
        since: "1.0.0",
        syntax: "[section [...]]",
        summary: "Describes the server, section by section.",
        run: Run::Connection(info::info),
        ..BASE
    },
    Spec {
        name: "latency",
        arity: -2,
        since: "2.8.13",
        complexity: "Depends on subcommand.",
        summary: "Container of the commands about when commands took long.",
        subcommands: LATENCY,
        ..BASE
    },
    Spec {
        name: "memory",
        arity: -2,
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "Container of the commands about memory.",
        subcommands: MEMORY,
        ..BASE
    },
    Spec {
        name: "monitor",
        flags: &["admin", "noscript", "loading", "stale"],
        since: "1.0.0",
        summary: "Shows all commands that the node runs, as they come.",
        run: Run::Worker(WorkerCommand::Monitor),
        ..BASE
    },
    Spec {
        name: "role",
        flags: &["noscript", "loading", "stale", "fast"],
        categories: &["admin", "dangerous"],
        since: "2.8.12",
        summary: "Returns that this server is a master without replicas.",
        run: Run::Connection(server::role),
        ..BASE
    },
    Spec {
        name: "slowlog",
        arity: -2,
        since: "2.2.12",
        complexity: "Depends on subcommand.",
        summary: "Container of the commands about commands that took long.",
        subcommands: SLOWLOG,
        ..BASE
    },
    Spec {
        name: "time",
        flags: &["loading", "stale", "fast"],
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        summary: "Returns the Unix time in seconds, and the microseconds in that second.",
        run: Run::Connection(server::time),
        ..BASE
    },
];
