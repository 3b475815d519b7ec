//! Redis's commands on keys of any type, buckets included.

use super::{Run, Spec, WorkerCommand};
use crate::keyspace::KeyspaceCommand;
use crate::{keys, object, rename, ttl};

const BASE: Spec = Spec {
    group: "generic",
    ..Spec::BASE
};

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "fast"];
const MULTI: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

const ONE_KEY: Spec = Spec {
    arity: 2,
    keys: (1, 1, 1),
    syntax: "key",
    ..BASE
};

const ALL_KEYS: Spec = Spec {
    arity: -2,
    keys: (1, -1, 1),
    tips: MULTI,
    syntax: "key [...]",
    complexity: "O(N) where N is the number of keys",
    ..BASE
};

const OBJECT_KEY: Spec = Spec {
    arity: 3,
    flags: &["readonly"],
    keys: (2, 2, 1),
    key_use: &["RO"],
    tips: &["nondeterministic_output"],
    since: "2.2.3",
    syntax: "key",
    ..BASE
};

const OBJECT: &[Spec] = &[
    Spec {
        name: "object|encoding",
        summary: "Returns how Redis would keep a value; of a bucket its policy.",
        run: Run::Key(object::encoding),
        ..OBJECT_KEY
    },
    Spec {
        name: "object|freq",
        since: "4.0.0",
        summary: "Fails: how often a key is used is not tracked.",
        run: Run::Key(object::freq),
        ..OBJECT_KEY
    },
    Spec {
        name: "object|help",
        arity: 2,
        flags: &["loading", "stale"],
        since: "6.2.0",
        summary: "Lists the subcommands.",
        run: Run::Connection(object::object_help),
        ..BASE
    },
    Spec {
        name: "object|idletime",
        summary: "Fails: when a key was used last is not tracked.",
        run: Run::Key(object::idle_time),
        ..OBJECT_KEY
    },
    Spec {
        name: "object|refcount",
        summary: "Returns 1 for a key that exists.",
        run: Run::Key(object::refcount),
        ..OBJECT_KEY
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "copy",
        arity: -3,
        flags: &["write", "denyoom"],
        keys: (1, 2, 1),
        key_use: &["RO", "access"],
        later_key_use: &["OW", "update"],
        since: "6.2.0",
        syntax: "source destination [DB destination-db] [REPLACE]",
        complexity: "O(N) where N is the number of elements, or of bytes of a string",
        summary: "Copies a value to another key; a bucket is refused.",
        run: Run::Keys(rename::copy),
        ..BASE
    },
    Spec {
        name: "del",
        flags: &["write"],
        key_use: &["RM", "delete"],
        since: "1.0.0",
        summary: "Deletes keys. A bucket is reset: the next check finds it full.",
        run: Run::EachKey(keys::delete),
        ..ALL_KEYS
    },
    Spec {
        name: "exists",
        flags: READ,
        key_use: &["RO"],
        since: "1.0.0",
        summary: "Counts those of the keys that exist.",
        run: Run::EachKey(keys::exists),
        ..ALL_KEYS
    },
    Spec {
        name: "expire",
        arity: -3,
        flags: WRITE,
        key_use: &["RW", "update"],
        since: "1.0.0",
        syntax: "key seconds [NX|XX|GT|LT]",
        summary: "Sets for how many seconds a key exists; a bucket not shorter than until it is full again.",
        run: Run::Key(ttl::expire),
        ..ONE_KEY
    },
    Spec {
        name: "expireat",
        arity: -3,
        flags: WRITE,
        key_use: &["RW", "update"],
        since: "1.2.0",
        syntax: "key unix-time-seconds [NX|XX|GT|LT]",
        summary: "Sets the Unix time in seconds until which a key exists.",
        run: Run::Key(ttl::expireat),
        ..ONE_KEY
    },
    Spec {
        name: "expiretime",
        arity: 2,
        flags: READ,
        key_use: &["RO", "access"],
        since: "7.0.0",
        syntax: "key",
        summary: "Returns the Unix time in seconds until which a key exists.",
        run: Run::Key(ttl::expiretime),
        ..ONE_KEY
    },
    Spec {
        name: "keys",
        arity: 2,
        flags: &["readonly"],
        categories: &["dangerous"],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        since: "1.0.0",
        syntax: "pattern",
        complexity: "O(N) where N is the number of keys in the database",
        summary: "Returns all keys that match the pattern.",
        run: Run::Keyspace(KeyspaceCommand::Keys),
        ..BASE
    },
    Spec {
        name: "object",
        arity: -2,
        since: "2.2.3",
        complexity: "Depends on subcommand.",
        summary: "Container of the commands that look into a key.",
        subcommands: OBJECT,
        ..BASE
    },
    Spec {
        name: "persist",
        flags: WRITE,
        key_use: &["RW", "update"],
        since: "2.2.0",
        summary: "Takes back what EXPIRE set; a bucket may then go once it is full again.",
        run: Run::Key(ttl::persist),
        ..ONE_KEY
    },
    Spec {
        name: "pexpire",
        arity: -3,
        flags: WRITE,
        key_use: &["RW", "update"],
        since: "2.6.0",
        syntax: "key milliseconds [NX|XX|GT|LT]",
        summary: "Sets for how many milliseconds a key exists.",
        run: Run::Key(ttl::pexpire),
        ..ONE_KEY
    },
    Spec {
        name: "pexpireat",
        arity: -3,
        flags: WRITE,
        key_use: &["RW", "update"],
        since: "2.6.0",
        syntax: "key unix-time-milliseconds [NX|XX|GT|LT]",
        summary: "Sets the Unix time in milliseconds until which a key exists.",
        run: Run::Key(ttl::pexpireat),
        ..ONE_KEY
    },
    Spec {
        name: "pexpiretime",
        arity: 2,
        flags: READ,
        key_use: &["RO", "access"],
        since: "7.0.0",
        syntax: "key",
        summary: "Returns the Unix time in milliseconds until which a key exists.",
        run: Run::Key(ttl::pexpiretime),
        ..ONE_KEY
    },
    Spec {
        name: "pttl",
        flags: READ,
        key_use: &["RO", "access"],
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        summary: "Returns the milliseconds for which a key still exists.",
        run: Run::Key(ttl::pttl),
        ..ONE_KEY
    },
    Spec {
        name: "randomkey",
        flags: &["readonly"],
        tips: &["request_policy:all_shards", "nondeterministic_output"],
        since: "1.0.0",
        summary: "Returns a random key of the database.",
        run: Run::Keyspace(KeyspaceCommand::RandomKey),
        ..BASE
    },
    Spec {
        name: "rename",
        arity: 3,
        flags: &["write"],
        keys: (1, 2, 1),
        key_use: &["RW", "access", "delete"],
        later_key_use: &["OW", "update"],
        since: "1.0.0",
        syntax: "key newkey",
        summary: "Moves a value or a bucket to another key, in place of what that holds.",
        run: Run::Keys(rename::rename),
        ..BASE
    },
    Spec {
        name: "renamenx",
        arity: 3,
        flags: WRITE,
        keys: (1, 2, 1),
        key_use: &["RW", "access", "delete"],
        later_key_use: &["OW", "insert"],
        since: "1.0.0",
        syntax: "key newkey",
        summary: "Moves a value or a bucket to another key, unless that exists.",
        run: Run::Keys(rename::renamenx),
        ..BASE
    },
    Spec {
        name: "scan",
        arity: -2,
        flags: &["readonly"],
        tips: &["nondeterministic_output", "request_policy:special"],
        since: "2.8.0",
        syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        complexity: "O(1) for every call, O(N) for all N keys of the database",
        summary: "Returns some keys of the database and a cursor to go on.",
        run: Run::Keyspace(KeyspaceCommand::Scan),
        ..BASE
    },
    Spec {
        name: "touch",
        flags: READ,
        key_use: &["RO"],
        since: "3.2.1",
        summary: "Counts those of the keys that exist.",
        run: Run::EachKey(keys::exists),
        ..ALL_KEYS
    },
    Spec {
        name: "ttl",
        flags: READ,
        key_use: &["RO", "access"],
        tips: &["nondeterministic_output"],
        since: "1.0.0",
        summary: "Returns the seconds for which a key still exists.",
        run: Run::Key(ttl::ttl),
        ..ONE_KEY
    },
    Spec {
        name: "type",
        flags: READ,
        key_use: &["RO"],
        since: "1.0.0",
        summary: "Returns the type of a value, bucket, or none.",
        run: Run::Key(keys::type_of),
        ..ONE_KEY
    },
    Spec {
        name: "unlink",
        flags: WRITE,
        key_use: &["RM", "delete"],
        since: "4.0.0",
        summary: "Deletes keys, as DEL does.",
        run: Run::EachKey(keys::delete),
        ..ALL_KEYS
    },
    Spec {
        name: "wait",
        arity: 3,
        flags: &["blocking"],
        categories: &["connection", "blocking"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        since: "3.0.0",
        syntax: "numreplicas timeout",
        summary: "Waits until replicas have what was written; there are none.",
        run: Run::Worker(WorkerCommand::Wait),
        ..BASE
    },
    Spec {
        name: "waitaof",
        arity: 4,
        flags: &["blocking"],
        categories: &["connection", "blocking"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        since: "7.2.0",
        syntax: "numlocal numreplicas timeout",
        summary: "Waits until replicas have what was written in their files; there are none.",
        run: Run::Worker(WorkerCommand::WaitAof),
        ..BASE
    },
];
