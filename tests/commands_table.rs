//! The command table, as COMMAND shows it, beside redis-server's: every command that both have.

use std::collections::{BTreeMap, BTreeSet};
use tollgate_suite::{Client, Node, RedisServer, Value, skip_without};

/// What Redis 7.2 does otherwise than the 7.0 that may be here: the command, and which of the elements.
const NEWER: &[(&str, &str)] = &[
    ("client|setname", "tips"),
    ("command|getkeys", "arity"),
    ("command|getkeysandflags", "arity"),
    ("wait", "categories"),
    ("wait", "flags"),
    ("zrank", "arity"),
    ("zrevrank", "arity"),
];

const ELEMENTS: [&str; 9] = [
    "name",
    "arity",
    "flags",
    "first key",
    "last key",
    "step",
    "categories",
    "tips",
    "key specifications",
];

/// All commands and subcommands by name.
fn table(client: &mut Client) -> BTreeMap<String, Vec<Value>> {
    let mut table = BTreeMap::new();
    for command in client.line("COMMAND").items() {
        let subcommands = command.items()[9].items();
        for spec in std::iter::once(command).chain(subcommands) {
            table.insert(spec.items()[0].text().to_owned(), spec.items()[..9].to_vec());
        }
    }
    table
}

/// The same whatever the order of flags is, and without the notes for people.
fn settled(value: &Value) -> String {
    let Value::Array(items) = value else {
        return format!("{value:?}");
    };
    let mut items = &items[..];
    if let [Value::Bulk(name), _, rest @ ..] = items
        && name == b"notes"
    {
        items = rest;
    }
    let mut texts: Vec<String> = items.iter().map(settled).collect();
    if items.iter().all(|item| matches!(item, Value::Simple(_))) {
        texts.sort();
    }
    format!("[{}]", texts.join(", "))
}

#[test]
fn every_command_is_described_as_by_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let (redis, node) = (RedisServer::start(&[]), Node::start(&[]));
    let (theirs, ours) = (table(&mut redis.client()), table(&mut node.client()));
    let mut compared = 0;
    let mut differences = Vec::new();
    for (name, spec) in &ours {
        let Some(expected) = theirs.get(name) else { continue };
        compared += 1;
        for (number, element) in ELEMENTS.into_iter().enumerate() {
            let (expected, spec) = (settled(&expected[number]), settled(&spec[number]));
            if expected != spec && !NEWER.contains(&(name.as_str(), element)) {
                differences.push(format!("{name}: {element} is {spec}, not {expected}"));
            }
        }
    }
    assert!(compared > 200, "{compared}");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The numbers of key specifications in the arguments of COMMAND DOCS.
fn key_spec_indexes(docs: &Value, indexes: &mut Vec<i64>) {
    let Value::Array(items) = docs else { return };
    for (at, item) in items.iter().enumerate() {
        if matches!(item, Value::Bulk(name) if name == b"key_spec_index") {
            indexes.push(items[at + 1].int());
        }
        if !matches!(item, Value::Bulk(name) if name == b"subcommands") {
            key_spec_indexes(item, indexes);
        }
    }
}

#[test]
fn keys_in_the_documentation_belong_to_the_specifications_that_redis_says() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let (redis, node) = (RedisServer::start(&[]), Node::start(&[]));
    let (mut theirs, mut ours) = (redis.client(), node.client());
    let names: BTreeSet<String> = table(&mut theirs).into_keys().collect();
    let shared: Vec<String> = table(&mut ours)
        .into_keys()
        .filter(|name| names.contains(name))
        .collect();
    for name in shared {
        let indexes = |client: &mut Client| {
            let mut indexes = Vec::new();
            key_spec_indexes(&client.command(&["COMMAND", "DOCS", &name]), &mut indexes);
            indexes
        };
        assert_eq!(indexes(&mut ours), indexes(&mut theirs), "{name}");
    }
}

/// Requests for a command: with as many arguments as it takes and a few more, some of which may be numbers of keys.
fn requests(name: &str, arity: i64) -> Vec<String> {
    let words: Vec<&str> = name.split('|').collect();
    let least = (arity.unsigned_abs() as usize).saturating_sub(words.len());
    let mut requests = Vec::new();
    for count in least.saturating_sub(1)..least + 4 {
        let letters: Vec<&str> = ["a", "b", "c", "d", "e", "f", "g", "h"][..count.min(8)].to_vec();
        let mut push = |arguments: &[&str]| {
            requests.push([&words[..], arguments].concat().join(" "));
        };
        push(&letters);
        for number in ["0", "1", "2", "3", "-1"] {
            for at in 0..letters.len().min(2) {
                let mut arguments = letters.clone();
                arguments[at] = number;
                push(&arguments);
            }
        }
    }
    requests
}

const MORE_REQUESTS: &[&str] = &[
    "nothing a",
    "client",
    "client nothing a",
    "set k v get",
    "set k v EX 10 GET",
    "set get v",
    "set k get",
    "bitfield k get u8 0",
    "bitfield k get u8",
    "bitfield k overflow sat",
    "bitfield k overflow sat get u8 0",
    "bitfield k get u8 0 set u8 0 1",
    "bitfield k incrby u8 0 1",
    "bitfield k nothing",
    "eval script 2 a b c",
    "evalsha_ro sha 0 c",
    "zunionstore d 2 a b WEIGHTS 1 2",
    "zinterstore d 3 a b",
    "lmpop 2 a b LEFT COUNT 1",
    "blmpop 0 2 a b LEFT",
    "bzmpop 0 1 a MIN",
    "mset a 1 b 2",
    "mset a 1 b",
    "bitop NOT d a",
    "copy a b DB 3 REPLACE",
    "memory usage k samples 5",
    "object encoding k",
];

#[test]
fn keys_are_found_where_redis_finds_them() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let (redis, node) = (RedisServer::start(&[]), Node::start(&[]));
    let (mut theirs, mut ours) = (redis.client(), node.client());
    let names = table(&mut theirs);
    let mut lines: Vec<String> = MORE_REQUESTS.iter().map(|&line| line.to_owned()).collect();
    for (name, spec) in table(&mut ours) {
        if names.contains_key(&name) && !NEWER.contains(&(name.as_str(), "arity")) {
            lines.extend(requests(&name, spec[1].int()));
        }
    }
    for line in lines.iter().filter(|line| line.contains(' ')) {
        for asked in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let asked = format!("COMMAND {asked} {line}");
            assert_eq!(settled(&ours.line(&asked)), settled(&theirs.line(&asked)), "{asked}");
        }
    }
}

#[test]
fn cursors_are_read_as_by_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let (redis, node) = (RedisServer::start(&[]), Node::start(&[]));
    let (mut theirs, mut ours) = (redis.client(), node.client());
    // On nothing: which keys a cursor of a client's own making shows is up to the server.
    let cursors: &[&[u8]] = &[
        b"",
        b"0",
        b"00",
        b"+0",
        b"-0",
        b"-1",
        b"18446744073709551615",
        b"18446744073709551616",
        b"-18446744073709551616",
        b" 0",
        b"0 ",
        b"\t0",
        b"0x0",
        b"1x",
        b"+",
        b"-",
        b"--1",
        b"+-1",
        b"x",
        b"0\0",
        b"0\0x",
        b"\0",
        b"99999999999999999999999",
    ];
    for cursor in cursors {
        for scan in [
            &[&b"SCAN"[..], cursor][..],
            &[b"SSCAN", b"nothing", cursor],
            &[b"HSCAN", b"nothing", cursor],
        ] {
            assert_eq!(ours.command(scan), theirs.command(scan), "{scan:?}");
        }
    }
}
