//! Commands that wait until a list or a sorted set has something.

use super::{Run, Spec};
use crate::blocking;

const LIST: Spec = Spec {
    group: "list",
    flags: &["write", "noscript", "blocking"],
    key_use: &["RW", "access", "delete"],
    keys: (1, -2, 1),
    categories: &["blocking"],
    ..Spec::BASE
};

const MOVE: Spec = Spec {
    flags: &["write", "denyoom", "noscript", "blocking"],
    keys: (1, 2, 1),
    later_key_use: &["RW", "insert"],
    ..LIST
};

const SET: Spec = Spec {
    group: "sorted-set",
    flags: &["write", "noscript", "blocking", "fast"],
    complexity: "O(log(N)) with N being the number of members",
    ..LIST
};

const COUNTED: &[&str] = &["write", "blocking", "movablekeys"];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "blmove",
        arity: 6,
        since: "6.2.0",
        syntax: "source destination LEFT|RIGHT LEFT|RIGHT timeout",
        summary: "Moves an element from one list to another, as soon as there is one.",
        run: Run::Block(&blocking::BLMOVE),
        ..MOVE
    },
    Spec {
        name: "blmpop",
        arity: -5,
        flags: COUNTED,
        keys: (0, 0, 0),
        counted: 2,
        since: "7.0.0",
        syntax: "timeout numkeys key [...] LEFT|RIGHT [COUNT count]",
        complexity: "O(K + M) where K is the number of keys and M that of elements returned",
        summary: "Removes and returns elements of the first list that exists, as soon as one does.",
        run: Run::Block(&blocking::BLMPOP),
        ..LIST
    },
    Spec {
        name: "blpop",
        arity: -3,
        since: "2.0.0",
        syntax: "key [...] timeout",
        complexity: "O(N) where N is the number of keys",
        summary: "Removes and returns the first element of a list, as soon as there is one.",
        run: Run::Block(&blocking::BLPOP),
        ..LIST
    },
    Spec {
        name: "brpop",
        arity: -3,
        since: "2.0.0",
        syntax: "key [...] timeout",
        complexity: "O(N) where N is the number of keys",
        summary: "Removes and returns the last element of a list, as soon as there is one.",
        run: Run::Block(&blocking::BRPOP),
        ..LIST
    },
    Spec {
        name: "brpoplpush",
        arity: 4,
        since: "2.2.0",
        syntax: "source destination timeout",
        summary: "Moves the last element of a list to the start of another, as soon as there is one.",
        run: Run::Block(&blocking::BRPOPLPUSH),
        ..MOVE
    },
    Spec {
        name: "bzmpop",
        arity: -5,
        flags: COUNTED,
        keys: (0, 0, 0),
        counted: 2,
        since: "7.0.0",
        syntax: "timeout numkeys key [...] MIN|MAX [COUNT count]",
        complexity: "O(K) + O(M*log(N)) where K is the number of keys, N that of members and M that of those returned",
        summary: "Removes and returns members of the first sorted set that exists, as soon as one does.",
        run: Run::Block(&blocking::BZMPOP),
        ..SET
    },
    Spec {
        name: "bzpopmax",
        arity: -3,
        since: "5.0.0",
        syntax: "key [...] timeout",
        summary: "Removes and returns the member with the highest score, as soon as there is one.",
        run: Run::Block(&blocking::BZPOPMAX),
        ..SET
    },
    Spec {
        name: "bzpopmin",
        arity: -3,
        since: "5.0.0",
        syntax: "key [...] timeout",
        summary: "Removes and returns the member with the lowest score, as soon as there is one.",
        run: Run::Block(&blocking::BZPOPMIN),
        ..SET
    },
];
