//! Sets.

use super::{Run, Spec};
use crate::sets;

const BASE: Spec = Spec {
    group: "set",
    keys: (1, 1, 1),
    since: "1.0.0",
    ..Spec::BASE
};

const READ: &[&str] = &["readonly"];
const READ_FAST: &[&str] = &["readonly", "fast"];
const WRITE_FAST: &[&str] = &["write", "fast"];
const WRITE_GROWS: &[&str] = &["write", "denyoom"];
const WRITE_GROWS_FAST: &[&str] = &["write", "denyoom", "fast"];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "sadd",
        arity: -3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "insert"],
        syntax: "key member [...]",
        complexity: "O(N) where N is the number of members to be added",
        summary: "Adds members.",
        run: Run::Keys(sets::sadd),
        ..BASE
    },
    Spec {
        name: "scard",
        arity: 2,
        flags: READ_FAST,
        key_use: &["RO"],
        syntax: "key",
        summary: "Returns the number of members.",
        run: Run::Key(sets::scard),
        ..BASE
    },
    Spec {
        name: "sdiff",
        arity: -2,
        flags: READ,
        keys: (1, -1, 1),
        key_use: &["RO", "access"],
        tips: ANY_ORDER,
        syntax: "key [...]",
        complexity: "O(N) where N is the number of members of all sets",
        summary: "Returns the members of the first set that no other has.",
        run: Run::Keys(sets::sdiff),
        ..BASE
    },
    Spec {
        name: "sdiffstore",
        arity: -3,
        flags: WRITE_GROWS,
        keys: (1, -1, 1),
        key_use: &["OW", "update"],
        later_key_use: &["RO", "access"],
        syntax: "destination key [...]",
        complexity: "O(N) where N is the number of members of all sets",
        summary: "Stores the members of the first set that no other has.",
        run: Run::Keys(sets::sdiffstore),
        ..BASE
    },
    Spec {
        name: "sinter",
        arity: -2,
        flags: READ,
        keys: (1, -1, 1),
        key_use: &["RO", "access"],
        tips: ANY_ORDER,
        syntax: "key [...]",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        summary: "Returns the members that all sets have.",
        run: Run::Keys(sets::sinter),
        ..BASE
    },
    Spec {
        name: "sintercard",
        arity: -3,
        flags: &["readonly", "movablekeys"],
        keys: (0, 0, 0),
        counted: 1,
        key_use: &["RO", "access"],
        since: "7.0.0",
        syntax: "numkeys key [...] [LIMIT limit]",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        summary: "Counts the members that all sets have.",
        run: Run::Keys(sets::sintercard),
        ..BASE
    },
    Spec {
        name: "sinterstore",
        arity: -3,
        flags: WRITE_GROWS,
        keys: (1, -1, 1),
        key_use: &["RW", "update"],
        later_key_use: &["RO", "access"],
        syntax: "destination key [...]",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        summary: "Stores the members that all sets have.",
        run: Run::Keys(sets::sinterstore),
        ..BASE
    },
    Spec {
        name: "sismember",
        arity: 3,
        flags: READ_FAST,
        key_use: &["RO"],
        syntax: "key member",
        summary: "Tells whether a set has a member.",
        run: Run::Key(sets::sismember),
        ..BASE
    },
    Spec {
        name: "smembers",
        arity: 2,
        flags: READ,
        key_use: &["RO", "access"],
        tips: ANY_ORDER,
        syntax: "key",
        complexity: "O(N) where N is the size of the set",
        summary: "Returns all members.",
        run: Run::Keys(sets::smembers),
        ..BASE
    },
    Spec {
        name: "smismember",
        arity: -3,
        flags: READ_FAST,
        key_use: &["RO", "access"],
        since: "6.2.0",
        syntax: "key member [...]",
        complexity: "O(N) where N is the number of members asked for",
        summary: "Tells which members a set has.",
        run: Run::Keys(sets::smismember),
        ..BASE
    },
    Spec {
        name: "smove",
        arity: 4,
        flags: WRITE_FAST,
        keys: (1, 2, 1),
        key_use: &["RW", "access", "delete"],
        later_key_use: &["RW", "insert"],
        syntax: "source destination member",
        summary: "Moves a member to another set.",
        run: Run::Keys(sets::smove),
        ..BASE
    },
    Spec {
        name: "spop",
        arity: -2,
        flags: WRITE_FAST,
        key_use: &["RW", "access", "delete"],
        tips: RANDOM,
        syntax: "key [count]",
        complexity: "O(N) where N is the number of members returned",
        summary: "Takes random members out of a set.",
        run: Run::Keys(sets::spop),
        ..BASE
    },
    Spec {
        name: "srandmember",
        arity: -2,
        flags: READ,
        key_use: &["RO", "access"],
        tips: RANDOM,
        syntax: "key [count]",
        complexity: "O(N) where N is the number of members returned",
        summary: "Returns random members.",
        run: Run::Keys(sets::srandmember),
        ..BASE
    },
    Spec {
        name: "srem",
        arity: -3,
        flags: WRITE_FAST,
        key_use: &["RW", "delete"],
        syntax: "key member [...]",
        complexity: "O(N) where N is the number of members to be removed",
        summary: "Removes members.",
        run: Run::Keys(sets::srem),
        ..BASE
    },
    Spec {
        name: "sscan",
        arity: -3,
        flags: READ,
        key_use: &["RO", "access"],
        tips: RANDOM,
        since: "2.8.0",
        syntax: "key cursor [MATCH pattern] [COUNT count]",
        complexity: "O(1) for every call, O(N) for all N elements",
        summary: "Returns some members and a cursor to go on.",
        run: Run::Keys(sets::sscan),
        ..BASE
    },
    Spec {
        name: "sunion",
        arity: -2,
        flags: READ,
        keys: (1, -1, 1),
        key_use: &["RO", "access"],
        tips: ANY_ORDER,
        syntax: "key [...]",
        complexity: "O(N) where N is the number of members of all sets",
        summary: "Returns the members that any of the sets has.",
        run: Run::Keys(sets::sunion),
        ..BASE
    },
    Spec {
        name: "sunionstore",
        arity: -3,
        flags: WRITE_GROWS,
        keys: (1, -1, 1),
        key_use: &["OW", "update"],
        later_key_use: &["RO", "access"],
        syntax: "destination key [...]",
        complexity: "O(N) where N is the number of members of all sets",
        summary: "Stores the members that any of the sets has.",
        run: Run::Keys(sets::sunionstore),
        ..BASE
    },
];
