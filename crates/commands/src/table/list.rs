//! Lists.

use super::{Run, Spec};
use crate::lists;

const BASE: Spec = Spec {
    group: "list",
    keys: (1, 1, 1),
    ..Spec::BASE
};

const READ: &[&str] = &["readonly"];
const READ_FAST: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write"];
const WRITE_FAST: &[&str] = &["write", "fast"];
const WRITE_GROWS: &[&str] = &["write", "denyoom"];
const WRITE_GROWS_FAST: &[&str] = &["write", "denyoom", "fast"];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "lindex",
        arity: 3,
        flags: READ,
        key_use: &["RO", "access"],
        since: "1.0.0",
        syntax: "key index",
        complexity: "O(N) where N is the length of the list",
        summary: "Returns an element by its index.",
        run: Run::Key(lists::lindex),
        ..BASE
    },
    Spec {
        name: "linsert",
        arity: 5,
        flags: WRITE_GROWS,
        key_use: &["RW", "insert"],
        since: "2.2.0",
        syntax: "key BEFORE|AFTER pivot element",
        complexity: "O(N) where N is the length of the list",
        summary: "Inserts an element before or after another.",
        run: Run::Keys(lists::linsert),
        ..BASE
    },
    Spec {
        name: "llen",
        arity: 2,
        flags: READ_FAST,
        key_use: &["RO"],
        since: "1.0.0",
        syntax: "key",
        summary: "Returns how many elements a list has.",
        run: Run::Key(lists::llen),
        ..BASE
    },
    Spec {
        name: "lmove",
        arity: 5,
        flags: WRITE_GROWS,
        keys: (1, 2, 1),
        key_use: &["RW", "access", "delete"],
        later_key_use: &["RW", "insert"],
        since: "6.2.0",
        syntax: "source destination LEFT|RIGHT LEFT|RIGHT",
        summary: "Takes an element off one end of a list, puts it at an end of another and returns it.",
        run: Run::Keys(lists::lmove),
        ..BASE
    },
    Spec {
        name: "lmpop",
        arity: -4,
        flags: &["write", "movablekeys"],
        keys: (0, 0, 0),
        counted: 1,
        key_use: &["RW", "access", "delete"],
        since: "7.0.0",
        syntax: "numkeys key [...] LEFT|RIGHT [COUNT count]",
        complexity: "O(K + M) where K is the number of keys and M that of elements returned",
        summary: "Removes and returns elements at an end of the first list that exists.",
        run: Run::Keys(lists::lmpop),
        ..BASE
    },
    Spec {
        name: "lpop",
        arity: -2,
        flags: WRITE_FAST,
        key_use: &["RW", "access", "delete"],
        since: "1.0.0",
        syntax: "key [count]",
        complexity: "O(M) where M is the number of elements returned",
        summary: "Removes and returns the first elements of a list.",
        run: Run::Keys(lists::lpop),
        ..BASE
    },
    Spec {
        name: "lpos",
        arity: -3,
        flags: READ,
        key_use: &["RO", "access"],
        since: "6.0.6",
        syntax: "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
        complexity: "O(N) where N is the length of the list",
        summary: "Returns the indexes of equal elements.",
        run: Run::Keys(lists::lpos),
        ..BASE
    },
    Spec {
        name: "lpush",
        arity: -3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "insert"],
        since: "1.0.0",
        syntax: "key element [...]",
        complexity: "O(M) where M is the number of elements given",
        summary: "Puts elements before the first of a list.",
        run: Run::Keys(lists::lpush),
        ..BASE
    },
    Spec {
        name: "lpushx",
        arity: -3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "insert"],
        since: "2.2.0",
        syntax: "key element [...]",
        complexity: "O(M) where M is the number of elements given",
        summary: "Puts elements before the first of a list that exists.",
        run: Run::Keys(lists::lpushx),
        ..BASE
    },
    Spec {
        name: "lrange",
        arity: 4,
        flags: READ,
        key_use: &["RO", "access"],
        since: "1.0.0",
        syntax: "key start stop",
        complexity: "O(N) where N is the number of elements returned",
        summary: "Returns the elements in a range of indexes.",
        run: Run::Keys(lists::lrange),
        ..BASE
    },
    Spec {
        name: "lrem",
        arity: 4,
        flags: WRITE,
        key_use: &["RW", "delete"],
        since: "1.0.0",
        syntax: "key count element",
        complexity: "O(N) where N is the length of the list",
        summary: "Removes equal elements.",
        run: Run::Keys(lists::lrem),
        ..BASE
    },
    Spec {
        name: "lset",
        arity: 4,
        flags: WRITE_GROWS,
        key_use: &["RW", "update"],
        since: "1.0.0",
        syntax: "key index element",
        complexity: "O(N) where N is the length of the list",
        summary: "Puts another element at an index.",
        run: Run::Key(lists::lset),
        ..BASE
    },
    Spec {
        name: "ltrim",
        arity: 4,
        flags: WRITE,
        key_use: &["RW", "delete"],
        since: "1.0.0",
        syntax: "key start stop",
        complexity: "O(N) where N is the number of elements removed",
        summary: "Removes the elements outside of a range of indexes.",
        run: Run::Keys(lists::ltrim),
        ..BASE
    },
    Spec {
        name: "rpop",
        arity: -2,
        flags: WRITE_FAST,
        key_use: &["RW", "access", "delete"],
        since: "1.0.0",
        syntax: "key [count]",
        complexity: "O(M) where M is the number of elements returned",
        summary: "Removes and returns the last elements of a list.",
        run: Run::Keys(lists::rpop),
        ..BASE
    },
    Spec {
        name: "rpoplpush",
        arity: 3,
        flags: WRITE_GROWS,
        keys: (1, 2, 1),
        key_use: &["RW", "access", "delete"],
        later_key_use: &["RW", "insert"],
        since: "1.2.0",
        syntax: "source destination",
        summary: "Takes the last element off a list, puts it before the first of another and returns it.",
        run: Run::Keys(lists::rpoplpush),
        ..BASE
    },
    Spec {
        name: "rpush",
        arity: -3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "insert"],
        since: "1.0.0",
        syntax: "key element [...]",
        complexity: "O(M) where M is the number of elements given",
        summary: "Puts elements after the last of a list.",
        run: Run::Keys(lists::rpush),
        ..BASE
    },
    Spec {
        name: "rpushx",
        arity: -3,
        flags: WRITE_GROWS_FAST,
        key_use: &["RW", "insert"],
        since: "2.2.0",
        syntax: "key element [...]",
        complexity: "O(M) where M is the number of elements given",
        summary: "Puts elements after the last of a list that exists.",
        run: Run::Keys(lists::rpushx),
        ..BASE
    },
];
