//! Strings.

use super::{Run, Spec};
use crate::key_use;
use crate::strings::{self, lcs, numbers, parts, several};

const BASE: Spec = Spec {
    group: "string",
    keys: (1, 1, 1),
    ..Spec::BASE
};

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "fast"];
const WRITE_GROWS: &[&str] = &["write", "denyoom"];
const WRITE_GROWS_FAST: &[&str] = &["write", "denyoom", "fast"];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "append",
        arity: 3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "insert"],
        since: "2.0.0",
        syntax: "key value",
        summary: "Appends to a string.",
        run: Run::Keys(parts::append),
        ..BASE
    },
    Spec {
        name: "decr",
        arity: 2,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        since: "1.0.0",
        syntax: "key",
        summary: "Subtracts 1 from an integer.",
        run: Run::Key(numbers::decr),
        ..BASE
    },
    Spec {
        name: "decrby",
        arity: 3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        since: "1.0.0",
        syntax: "key decrement",
        summary: "Subtracts from an integer.",
        run: Run::Key(numbers::decrby),
        ..BASE
    },
    Spec {
        name: "get",
        arity: 2,
        flags: READ,
        key_use: &["RO", "access"],
        since: "1.0.0",
        syntax: "key",
        summary: "Returns a string.",
        run: Run::Key(strings::get),
        ..BASE
    },
    Spec {
        name: "getdel",
        arity: 2,
        flags: WRITE,
        key_use: &["RW", "access", "delete"],
        since: "6.2.0",
        syntax: "key",
        summary: "Returns a string and deletes it.",
        run: Run::Key(strings::getdel),
        ..BASE
    },
    Spec {
        name: "getex",
        arity: -2,
        flags: WRITE,
        key_use: &["RW", "access", "update"],
        since: "6.2.0",
        syntax: "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]",
        summary: "Returns a string and sets or clears its time to live.",
        run: Run::Key(strings::getex),
        ..BASE
    },
    Spec {
        name: "getrange",
        arity: 4,
        flags: &["readonly"],
        key_use: &["RO", "access"],
        since: "2.4.0",
        syntax: "key start end",
        complexity: "O(N) where N is the length of the answer",
        summary: "Returns a part of a string.",
        run: Run::Key(parts::getrange),
        ..BASE
    },
    Spec {
        name: "getset",
        arity: 3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        since: "1.0.0",
        syntax: "key value",
        summary: "Returns the old string and sets a new one.",
        run: Run::Key(strings::getset),
        ..BASE
    },
    Spec {
        name: "incr",
        arity: 2,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        since: "1.0.0",
        syntax: "key",
        summary: "Adds 1 to an integer.",
        run: Run::Key(numbers::incr),
        ..BASE
    },
    Spec {
        name: "incrby",
        arity: 3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        since: "1.0.0",
        syntax: "key increment",
        summary: "Adds to an integer.",
        run: Run::Key(numbers::incrby),
        ..BASE
    },
    Spec {
        name: "incrbyfloat",
        arity: 3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "access", "update"],
        since: "2.6.0",
        syntax: "key increment",
        summary: "Adds to a number with a fraction.",
        run: Run::Key(numbers::incrbyfloat),
        ..BASE
    },
    Spec {
        name: "lcs",
        arity: -3,
        flags: &["readonly"],
        keys: (1, 2, 1),
        key_use: &["RO", "access"],
        since: "7.0.0",
        syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        complexity: "O(N*M) where N and M are the lengths of the strings",
        summary: "Finds the longest common subsequence of two strings.",
        run: Run::Keys(lcs::lcs),
        ..BASE
    },
    Spec {
        name: "mget",
        arity: -2,
        flags: READ,
        keys: (1, -1, 1),
        key_use: &["RO", "access"],
        tips: &["request_policy:multi_shard"],
        since: "1.0.0",
        syntax: "key [...]",
        complexity: "O(N) where N is the number of keys",
        summary: "Returns the strings of several keys.",
        run: Run::Keys(several::mget),
        ..BASE
    },
    Spec {
        name: "mset",
        arity: -3,
        flags: WRITE_GROWS,
        keys: (1, -1, 2),
        key_use: &["OW", "update"],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        since: "1.0.1",
        syntax: "key value [...]",
        complexity: "O(N) where N is the number of keys",
        summary: "Sets several strings at once.",
        run: Run::Keys(several::mset),
        ..BASE
    },
    Spec {
        name: "msetnx",
        arity: -3,
        flags: WRITE_GROWS,
        keys: (1, -1, 2),
        key_use: &["OW", "insert"],
        tips: &["request_policy:multi_shard", "response_policy:agg_min"],
        since: "1.0.1",
        syntax: "key value [...]",
        complexity: "O(N) where N is the number of keys",
        summary: "Sets several strings, or none if one of the keys exists.",
        run: Run::Keys(several::msetnx),
        ..BASE
    },
    Spec {
        name: "psetex",
        arity: 4,
        flags: WRITE_GROWS,
        key_use: &["OW", "update"],
        since: "2.6.0",
        syntax: "key milliseconds value",
        summary: "Sets a string that expires in so many milliseconds.",
        run: Run::Key(strings::psetex),
        ..BASE
    },
    Spec {
        name: "set",
        arity: -3,
        flags: WRITE_GROWS,
        key_use: &["RW", "access", "update", "variable_flags"],
        use_in_call: Some(key_use::of_set),
        since: "1.0.0",
        syntax: "key value [NX|XX] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        summary: "Sets a string.",
        run: Run::Key(strings::set),
        ..BASE
    },
    Spec {
        name: "setex",
        arity: 4,
        flags: WRITE_GROWS,
        key_use: &["OW", "update"],
        since: "2.0.0",
        syntax: "key seconds value",
        summary: "Sets a string that expires in so many seconds.",
        run: Run::Key(strings::setex),
        ..BASE
    },
    Spec {
        name: "setnx",
        arity: 3,
        flags: WRITE_GROWS_FAST,
        key_use: &["OW", "insert"],
        since: "1.0.0",
        syntax: "key value",
        summary: "Sets a string unless the key exists.",
        run: Run::Key(strings::setnx),
        ..BASE
    },
    Spec {
        name: "setrange",
        arity: 4,
        flags: WRITE_GROWS,
        key_use: &["RW", "update"],
        since: "2.2.0",
        syntax: "key offset value",
        complexity: "O(N) where N is the length of the value, or of the string where it grows",
        summary: "Overwrites a part of a string, with zeros up to there.",
        run: Run::Keys(parts::setrange),
        ..BASE
    },
    Spec {
        name: "strlen",
        arity: 2,
        flags: READ,
        key_use: &["RO"],
        since: "2.2.0",
        syntax: "key",
        summary: "Returns the length of a string.",
        run: Run::Key(strings::strlen),
        ..BASE
    },
    Spec {
        name: "substr",
        arity: 4,
        flags: &["readonly"],
        key_use: &["RO", "access"],
        since: "1.0.0",
        syntax: "key start end",
        complexity: "O(N) where N is the length of the answer",
        summary: "Returns a part of a string: the older name of GETRANGE.",
        run: Run::Key(parts::getrange),
        ..BASE
    },
];
