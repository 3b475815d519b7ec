//! Hashes.

use super::{Run, Spec};
use crate::hashes;

const BASE: Spec = Spec {
    group: "hash",
    keys: (1, 1, 1),
    since: "2.0.0",
    ..Spec::BASE
};

const READ: &[&str] = &["readonly"];
const READ_FAST: &[&str] = &["readonly", "fast"];
const WRITE_FAST: &[&str] = &["write", "fast"];
const WRITE_GROWS_FAST: &[&str] = &["write", "denyoom", "fast"];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "hdel",
        arity: -3,
        flags: WRITE_FAST,
        key_use: &["RW", "delete"],
        syntax: "key field [...]",
        complexity: "O(N) where N is the number of fields to be removed",
        summary: "Deletes fields.",
        run: Run::Keys(hashes::hdel),
        ..BASE
    },
    Spec {
        name: "hexists",
        arity: 3,
        flags: READ_FAST,
        key_use: &["RO"],
        syntax: "key field",
        summary: "Tells whether a field exists.",
        run: Run::Key(hashes::hexists),
        ..BASE
    },
    Spec {
        name: "hget",
        arity: 3,
        flags: READ_FAST,
        key_use: &["RO", "access"],
        syntax: "key field",
        summary: "Returns the value of a field.",
        run: Run::Key(hashes::hget),
        ..BASE
    },
    Spec {
        name: "hgetall",
        arity: 2,
        flags: READ,
        key_use: &["RO", "access"],
        tips: ANY_ORDER,
        syntax: "key",
        complexity: "O(N) where N is the size of the hash",
        summary: "Returns all fields with their values.",
        run: Run::Keys(hashes::hgetall),
        ..BASE
    },
    Spec {
        name: "hincrby",
        arity: 4,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        syntax: "key field increment",
        summary: "Adds to the integer in a field.",
        run: Run::Key(hashes::hincrby),
        ..BASE
    },
    Spec {
        name: "hincrbyfloat",
        arity: 4,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        since: "2.6.0",
        syntax: "key field increment",
        summary: "Adds to the floating point number in a field.",
        run: Run::Key(hashes::hincrbyfloat),
        ..BASE
    },
    Spec {
        name: "hkeys",
        arity: 2,
        flags: READ,
        key_use: &["RO", "access"],
        tips: ANY_ORDER,
        syntax: "key",
        complexity: "O(N) where N is the size of the hash",
        summary: "Returns all fields.",
        run: Run::Keys(hashes::hkeys),
        ..BASE
    },
    Spec {
        name: "hlen",
        arity: 2,
        flags: READ_FAST,
        key_use: &["RO"],
        syntax: "key",
        summary: "Returns the number of fields.",
        run: Run::Key(hashes::hlen),
        ..BASE
    },
    Spec {
        name: "hmget",
        arity: -3,
        flags: READ_FAST,
        key_use: &["RO", "access"],
        syntax: "key field [...]",
        complexity: "O(N) where N is the number of fields asked for",
        summary: "Returns the values of fields.",
        run: Run::Keys(hashes::hmget),
        ..BASE
    },
    Spec {
        name: "hmset",
        arity: -4,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "update"],
        syntax: "key <field value> [...]",
        complexity: "O(N) where N is the number of fields",
        summary: "Sets fields: the older form of HSET.",
        run: Run::Keys(hashes::hmset),
        ..BASE
    },
    Spec {
        name: "hrandfield",
        arity: -2,
        flags: READ,
        key_use: &["RO", "access"],
        tips: RANDOM,
        since: "6.2.0",
        syntax: "key [count [WITHVALUES]]",
        complexity: "O(N) where N is the number of fields returned",
        summary: "Returns random fields.",
        run: Run::Keys(hashes::hrandfield),
        ..BASE
    },
    Spec {
        name: "hscan",
        arity: -3,
        flags: READ,
        key_use: &["RO", "access"],
        tips: RANDOM,
        since: "2.8.0",
        syntax: "key cursor [MATCH pattern] [COUNT count]",
        complexity: "O(1) for every call, O(N) for all N elements",
        summary: "Returns some fields with their values and a cursor to go on.",
        run: Run::Keys(hashes::hscan),
        ..BASE
    },
    Spec {
        name: "hset",
        arity: -4,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "update"],
        syntax: "key <field value> [...]",
        complexity: "O(N) where N is the number of fields",
        summary: "Sets fields.",
        run: Run::Keys(hashes::hset),
        ..BASE
    },
    Spec {
        name: "hsetnx",
        arity: 4,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "insert"],
        syntax: "key field value",
        summary: "Sets a field unless it exists.",
        run: Run::Key(hashes::hsetnx),
        ..BASE
    },
    Spec {
        name: "hstrlen",
        arity: 3,
        flags: READ_FAST,
        key_use: &["RO"],
        since: "3.2.0",
        syntax: "key field",
        summary: "Returns the length of the value of a field.",
        run: Run::Key(hashes::hstrlen),
        ..BASE
    },
    Spec {
        name: "hvals",
        arity: 2,
        flags: READ,
        key_use: &["RO", "access"],
        tips: ANY_ORDER,
        syntax: "key",
        complexity: "O(N) where N is the size of the hash",
        summary: "Returns all values.",
        run: Run::Keys(hashes::hvals),
        ..BASE
    },
];
