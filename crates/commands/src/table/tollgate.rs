//! Commands of Tollgate's own, and `CL.THROTTLE`, which it shares with redis-cell.

use super::{Run, Spec};
use crate::{check, rules};

const BASE: Spec = Spec {
    group: "tollgate",
    since: "0.1.0",
    ..Spec::BASE
};

const BUCKET: Spec = Spec {
    flags: &["write", "denyoom", "fast"],
    keys: (1, 1, 1),
    key_use: &["RW", "access", "update"],
    ..BASE
};

const RULE: &[Spec] = &[
    Spec {
        name: "rl.rule|get",
        arity: 3,
        flags: &["readonly", "fast"],
        syntax: "id",
        summary: "Returns the fields of a rule.",
        run: Run::Connection(rules::get),
        ..BASE
    },
    Spec {
        name: "rl.rule|help",
        arity: 2,
        flags: &["fast"],
        summary: "Lists the subcommands.",
        run: Run::Connection(rules::help),
        ..BASE
    },
    Spec {
        name: "rl.rule|list",
        arity: 2,
        flags: &["readonly"],
        complexity: "O(N) where N is the number of rules",
        summary: "Returns the fields of every rule, by id.",
        run: Run::Connection(rules::list),
        ..BASE
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "cl.throttle",
        arity: -5,
        syntax: "key max_burst count period [quantity]",
        summary: "Checks a bucket that holds max_burst + 1 and gets count back every period seconds.",
        run: Run::Check(check::cl_throttle),
        ..BUCKET
    },
    Spec {
        name: "rl.check",
        arity: -4,
        syntax: "key <LIMIT n PER duration [BURST b] [POLICY name] [ON_FAILURE LOCAL|OPEN|CLOSED] | RULE id> [COST c] [PEEK]",
        summary: "Checks a bucket: takes its cost if it holds so much, and says what is left.",
        run: Run::Check(check::rl_check),
        ..BUCKET
    },
    Spec {
        name: "rl.info",
        flags: &["readonly", "fast"],
        tips: &["nondeterministic_output"],
        summary: "Describes the node.",
        run: Run::Connection(rules::node_info),
        ..BASE
    },
    Spec {
        name: "rl.refund",
        arity: -3,
        syntax: "key amount [RULE id]",
        summary: "Gives tokens back to a bucket and answers as a peek.",
        run: Run::Key(check::rl_refund),
        ..BUCKET
    },
    Spec {
        name: "rl.reset",
        arity: -2,
        flags: &["write", "fast"],
        key_use: &["RM", "delete"],
        syntax: "key [RULE id]",
        summary: "Resets a bucket: the next check finds it full.",
        run: Run::Key(check::rl_reset),
        ..BUCKET
    },
    Spec {
        name: "rl.rule",
        arity: -2,
        complexity: "Depends on subcommand.",
        summary: "Container of the commands about rules.",
        subcommands: RULE,
        ..BASE
    },
];
