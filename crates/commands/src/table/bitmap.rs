//! Strings as bits.

use super::{Run, Spec};
use crate::bits::{self, fields, operation};
use crate::key_use;

const BASE: Spec = Spec {
    group: "bitmap",
    keys: (1, 1, 1),
    ..Spec::BASE
};

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "bitcount",
        arity: -2,
        flags: &["readonly"],
        key_use: &["RO", "access"],
        since: "2.6.0",
        syntax: "key [start end [BYTE|BIT]]",
        complexity: "O(N) where N is the length of the string",
        summary: "Counts the bits of a string that are set.",
        run: Run::Keys(bits::bitcount),
        ..BASE
    },
    Spec {
        name: "bitfield",
        arity: -2,
        flags: &["write", "denyoom"],
        key_use: &["RW", "update", "access", "variable_flags"],
        use_in_call: Some(key_use::of_bitfield),
        since: "3.2.0",
        syntax: "key [<GET type offset | OVERFLOW WRAP|SAT|FAIL | SET type offset value | INCRBY type offset increment> [...]]",
        complexity: "O(1) for each subcommand",
        summary: "Reads and writes integers of some bits in a string.",
        run: Run::Keys(fields::bitfield),
        ..BASE
    },
    Spec {
        name: "bitfield_ro",
        arity: -2,
        flags: &["readonly", "fast"],
        key_use: &["RO", "access"],
        since: "6.0.0",
        syntax: "key [<GET type offset> [...]]",
        complexity: "O(1) for each subcommand",
        summary: "Reads integers of some bits in a string.",
        run: Run::Keys(fields::bitfield_ro),
        ..BASE
    },
    Spec {
        name: "bitop",
        arity: -4,
        flags: &["write", "denyoom"],
        keys: (2, -1, 1),
        key_use: &["OW", "update"],
        later_key_use: &["RO", "access"],
        since: "2.6.0",
        syntax: "AND|OR|XOR|NOT destkey key [...]",
        complexity: "O(N) where N is the length of all strings together",
        summary: "Stores what an operation makes of the bits of strings.",
        run: Run::Keys(operation::bitop),
        ..BASE
    },
    Spec {
        name: "bitpos",
        arity: -3,
        flags: &["readonly"],
        key_use: &["RO", "access"],
        since: "2.8.7",
        syntax: "key bit [start [end [BYTE|BIT]]]",
        complexity: "O(N) where N is the length of the string",
        summary: "Finds the first bit of a string that is set, or not.",
        run: Run::Keys(bits::bitpos),
        ..BASE
    },
    Spec {
        name: "getbit",
        arity: 3,
        flags: &["readonly", "fast"],
        key_use: &["RO", "access"],
        since: "2.2.0",
        syntax: "key offset",
        summary: "Returns a bit of a string.",
        run: Run::Key(bits::getbit),
        ..BASE
    },
    Spec {
        name: "setbit",
        arity: 4,
        flags: &["write", "denyoom"],
        key_use: &["RW", "access", "update"],
        since: "2.2.0",
        syntax: "key offset value",
        summary: "Sets a bit of a string, with zeros up to there.",
        run: Run::Keys(bits::setbit),
        ..BASE
    },
];
