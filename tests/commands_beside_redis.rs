//! Commands answered as a stock redis-server answers them, byte for byte, in both protocols.
//!
//! Redis 7.0 will do as a reference: the commands listed here have not changed up to 7.2.

use tollgate_suite::{Client, Node, RedisServer, Value, skip_without};

/// Answered alike by a server that has just started. An argument with a blank in it is written with `_` for the blank.
const ALIKE: &[&str] = &[
    "PING",
    "ping hello",
    "PING a b",
    "ECHO x",
    "ECHO",
    "SELECT 15",
    "SELECT 16",
    "SELECT -1",
    "SELECT a",
    "SELECT 99999999999999999999",
    "SELECT 0",
    "AUTH x",
    "AUTH x y",
    "AUTH default y",
    "AUTH a b c",
    "HELLO 4",
    "HELLO a",
    "HELLO 3 AUTH",
    "HELLO 3 SETNAME",
    "HELLO 3 SETNAME a_b",
    "HELLO 3 foo",
    "CLIENT",
    "CLIENT nothing",
    "CLIENT SETNAME",
    "CLIENT SETNAME a_b",
    "CLIENT SETNAME me",
    "CLIENT GETNAME",
    "CLIENT GETNAME x",
    "CLIENT NO-EVICT",
    "CLIENT NO-EVICT maybe",
    "CLIENT NO-EVICT ON",
    "CLIENT LIST nothing",
    "CLIENT LIST TYPE nothing",
    "CLIENT LIST TYPE pubsub",
    "CLIENT LIST ID a",
    "CLIENT LIST ID 999999",
    "CLIENT LIST TYPE normal ID 3",
    "CLIENT KILL",
    "CLIENT KILL nothing",
    "CLIENT KILL ID x",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID 999999",
    "CLIENT KILL TYPE nothing",
    "CLIENT KILL USER nobody",
    "CLIENT KILL SKIPME nothing",
    "CLIENT KILL ADDR 192.0.2.1:5",
    "CLIENT KILL ADDR",
    "CLIENT KILL nothing else",
    "nothing",
    "nothing a b c",
    "COMMAND nothing",
    "COMMAND COUNT a",
    "COMMAND DOCS nothing",
    "COMMAND INFO nothing",
    "COMMAND LIST nothing",
    "COMMAND LIST FILTERBY",
    "COMMAND LIST FILTERBY nothing x",
    "COMMAND LIST FILTERBY MODULE x",
    "COMMAND LIST FILTERBY ACLCAT nothing",
    "COMMAND GETKEYS nothing a",
    "COMMAND GETKEYS ping a",
    "COMMAND GETKEYS ttl a b",
    "COMMAND GETKEYS object encoding k",
    "COMMAND GETKEYS del a b c",
    "CONFIG",
    "CONFIG nothing",
    "CONFIG GET",
    "CONFIG GET save",
    "CONFIG GET appendonly",
    "CONFIG GET nothing",
    "CONFIG GET databases",
    "CLUSTER",
    "CLUSTER nothing",
    "CLUSTER HELP",
    "CLUSTER SLOTS",
    "CLUSTER INFO a",
    "READONLY",
    "READWRITE",
    "ASKING",
    "ROLE",
    "ROLE a",
    "TIME a",
    "INFO nothing",
    "INFO cluster",
    "INFO cluster keyspace",
    "OBJECT",
    "OBJECT nothing",
    "OBJECT HELP",
    "OBJECT ENCODING",
    "OBJECT ENCODING k",
    "OBJECT FREQ k",
    "OBJECT IDLETIME k",
    "OBJECT REFCOUNT k",
    "MEMORY nothing",
    "MEMORY USAGE k",
    "MEMORY USAGE k SAMPLES",
    "MEMORY USAGE k SAMPLES -1",
    "MEMORY USAGE k SAMPLES x",
    "MEMORY USAGE k nothing 1",
    "EXPIRE k",
    "EXPIRE k a",
    "EXPIRE k 10 nothing",
    "EXPIRE k 10 NX XX",
    "EXPIRE k 10 GT LT",
    "EXPIRE k 10 NX GT",
    "EXPIRE k 9223372036854775807",
    "EXPIRE k 10",
    "PERSIST k",
    "TTL",
    "TTL k",
    "PTTL k",
    "TYPE k",
    "TYPE",
    "EXISTS",
    "EXISTS a b",
    "TOUCH",
    "TOUCH a",
    "DEL",
    "DEL a b",
    "UNLINK a",
    "SCAN",
    "SCAN a",
    "SCAN 0",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT a",
    "SCAN 0 MATCH",
    "SCAN 0 nothing b",
    "SCAN 0 TYPE nothing",
    "SCAN 18446744073709551616",
    "KEYS",
    "KEYS *",
    "KEYS a b",
    "RANDOMKEY",
    "RANDOMKEY a",
    "DBSIZE",
    "DBSIZE a",
    "FLUSHALL nothing",
    "FLUSHALL SYNC",
    "FLUSHALL async",
    "FLUSHDB SYNC ASYNC",
    "FLUSHDB",
    "RESET a",
];

/// As [`ALIKE`], once sets are told from arrays: their order is left to the server.
const ALIKE_IN_RESP3: &[&str] = &[
    "COMMAND INFO del",
    "COMMAND INFO exists",
    "COMMAND INFO expire",
    "COMMAND INFO pttl",
    "COMMAND INFO flushall",
    "COMMAND INFO hello",
    "COMMAND INFO info",
    "COMMAND INFO append",
    "COMMAND INFO decr",
    "COMMAND INFO decrby",
    "COMMAND INFO expireat",
    "COMMAND INFO expiretime",
    "COMMAND INFO get",
    "COMMAND INFO getdel",
    "COMMAND INFO getrange",
    "COMMAND INFO getset",
    "COMMAND INFO incr",
    "COMMAND INFO incrby",
    "COMMAND INFO pexpire",
    "COMMAND INFO pexpireat",
    "COMMAND INFO pexpiretime",
    "COMMAND INFO psetex",
    "COMMAND INFO setex",
    "COMMAND INFO setnx",
    "COMMAND INFO strlen",
    "COMMAND INFO substr",
    "COMMAND INFO keys",
    "COMMAND INFO role",
    "COMMAND INFO client|id",
    "COMMAND INFO client|kill",
    "COMMAND INFO config|get",
    "COMMAND INFO memory|usage",
    "COMMAND INFO object|encoding",
    "COMMAND GETKEYSANDFLAGS pttl a",
    "COMMAND GETKEYSANDFLAGS del a b",
];

fn ask(client: &mut Client, line: &str) -> Value {
    let args: Vec<String> = line.split(' ').map(|arg| arg.replace('_', " ")).collect();
    client.command(&args)
}

/// Sets in one order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Set(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_key(|item| format!("{item:?}"));
            Value::Set(items)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Map(pairs) => Value::Map(pairs.into_iter().map(|(key, value)| (key, sorted(value))).collect()),
        other => other,
    }
}

#[test]
fn answers_as_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let redis = RedisServer::start(&[]);
    let node = Node::start(&["--workers", "2"]);
    let (mut reference, mut tested) = (redis.client(), node.client());
    for line in ALIKE {
        assert_eq!(ask(&mut tested, line), ask(&mut reference, line), "{line}");
    }
    reference.hello3();
    tested.hello3();
    for line in ALIKE.iter().chain(ALIKE_IN_RESP3) {
        assert_eq!(
            sorted(ask(&mut tested, line)),
            sorted(ask(&mut reference, line)),
            "{line}, RESP3"
        );
    }
}
