//! FUNCTION and FCALL beside a stock redis-server: the same conversation, the same answers, in both protocols.

use tollgate_suite::{Client, Node, RedisServer, Value, skip_without};

/// A library whose functions do what commands can see.
const COUNTERS: &str = "#!lua name=counters
local function bump(keys, args)
  local by = tonumber(args[1]) or 1
  return redis.call('INCRBY', keys[1], by)
end
redis.register_function('bump', bump)
redis.register_function('Both', function(keys, args) return {bump({keys[1]}, args), bump({keys[2]}, args), #keys, #args} end)
redis.register_function{function_name = 'peek', callback = function(keys) return redis.call('GET', keys[1]) end,
  flags = {'no-writes', 'allow-stale'}, description = 'shows a counter'}
redis.register_function{function_name = 'sneak', callback = function(keys) return redis.call('SET', keys[1], 'x') end,
  flags = {'no-writes'}}
redis.register_function{function_name = 'try', callback = function(keys) return redis.pcall('SET', keys[1], 'x') end,
  flags = {'no-writes', 'allow-oom', 'no-cluster', 'allow-cross-slot-keys'}}
";

/// A library of functions that answer of every kind, and fail.
const REPLIES: &str = "#!lua name=replies
local all = {
  nothing = function() end,
  no = function() return false end,
  yes = function() return true end,
  number = function() return 3.99 end,
  text = function() return 'some text' end,
  list = function(keys, args) return {1, 'two', {3, {'four'}}, keys, args} end,
  status = function() return redis.status_reply('FINE') end,
  problem = function() return redis.error_reply('MY problem') end,
  raised = function()
    error('boo')
  end,
  thrown = function() error({err = 'MY own'}) end,
  command = function() return redis.call('INCRBY', 'a') end,
  unknown = function() return redis.call('NOPE') end,
  wrong = function(keys) return redis.call('LPUSH', keys[1], 'x') end,
  caught = function(keys) return redis.pcall('LPUSH', keys[1], 'x') end,
  double = function() redis.setresp(3) return {double = 1.5} end,
  map = function() redis.setresp(3) return {map = {a = 1}} end,
  globals = function() return {type(KEYS) == 'nil', 1} end,
  keep = function() x = 1 end,
  types = function() return {type(cjson), type(cmsgpack), type(bit), type(struct), type(redis.sha1hex)} end,
  select = function() redis.call('SELECT', '3') return redis.call('SET', 'selected', '1') end,
  nested = function() return redis.call('FCALL', 'yes', '0') end,
  manage = function() return redis.call('FUNCTION', 'FLUSH') end,
}
redis.register_function('nothing', all.nothing)
redis.register_function('no', all.no)
redis.register_function('yes', all.yes)
redis.register_function('number', all.number)
redis.register_function('text', all.text)
redis.register_function('list', all.list)
redis.register_function('status', all.status)
redis.register_function('problem', all.problem)
redis.register_function('raised', all.raised)
redis.register_function('thrown', all.thrown)
redis.register_function('command', all.command)
redis.register_function('unknown', all.unknown)
redis.register_function('wrong', all.wrong)
redis.register_function('caught', all.caught)
redis.register_function('double', all.double)
redis.register_function('map', all.map)
redis.register_function('globals', all.globals)
redis.register_function('keep', all.keep)
redis.register_function('types', all.types)
redis.register_function('select', all.select)
redis.register_function('nested', all.nested)
redis.register_function('manage', all.manage)
";

/// Bodies of a library `broken` that is not taken. (Redis ends with a fault when two functions differ in case alone.)
const BROKEN: &[&str] = &[
    "",
    "return redis.call('PING')",
    "return redis.pcall('PING')",
    "return redis.setresp(3)",
    "return math.random()",
    "local x = pairs",
    "return _G",
    "return KEYS",
    "return nothing",
    "return redis",
    "x = 1",
    "redis.x = 1",
    "redis = 1",
    "\n\nreturn string.rep('x', 3)",
    "redis.log()",
    "redis.log(redis.LOG_DEBUG)",
    "redis.log(77, 'x')",
    "redis.register_function()",
    "redis.register_function(1)",
    "redis.register_function('a')",
    "redis.register_function('a', 1)",
    "redis.register_function(function() end, function() end)",
    "redis.register_function('a', function() end, {})",
    "redis.register_function('a-b', function() end)",
    "redis.register_function('', function() end)",
    "redis.register_function('\u{e4}', function() end)",
    "redis.register_function('a', function() end) redis.register_function('a', function() end)",
    "redis.register_function('new', function() end) redis.register_function('bump', function() end)",
    "redis.register_function('BUMP', function() end)",
    "redis.register_function{}",
    "redis.register_function{function_name='x'}",
    "redis.register_function{callback=function() end}",
    "redis.register_function{function_name={}, callback=function() end}",
    "redis.register_function{function_name='x', callback=1}",
    "redis.register_function{function_name='x', callback=function() end, description={}}",
    "redis.register_function{function_name='x', callback=function() end, flags=1}",
    "redis.register_function{function_name='x', callback=function() end, flags={'no-write'}}",
    "redis.register_function{function_name='x', callback=function() end, flags={'no-writes', {}}}",
    "redis.register_function{function_name='x', callback=function() end, foo=1}",
    "redis.register_function{[1]='x'}",
    "redis.register_function{[{}]='x'}",
];

/// First lines of a library that is not taken.
const HEADS: &[&str] = &[
    "",
    "x",
    "#",
    "#!",
    "#!lua name=a",
    "#!\n",
    "#! \n",
    "#!lua\n",
    "#!lua \"name=a b\n",
    "#!foo name=a\n",
    "#!lua name=a name=b\n",
    "#!lua name=a foo=b\n",
    "#!lua name=a-b\n",
    "#!lua name=\n",
    "#!lua flags=no-writes\n",
];

/// Lines with one blank between arguments; `_` stands for a blank within one.
const LINES: &[&str] = &[
    "FUNCTION",
    "FUNCTION nothing",
    "FUNCTION HELP x",
    "FUNCTION LOAD",
    "FUNCTION LOAD x",
    "FUNCTION LOAD x y",
    "FUNCTION LOAD REPLACE",
    "FUNCTION LOAD replace x",
    "FUNCTION DELETE",
    "FUNCTION DELETE nothing",
    "FUNCTION DELETE COUNTERS",
    "FUNCTION LIST",
    "FUNCTION LIST WITHCODE",
    "FUNCTION LIST WITHCODE WITHCODE",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LIST LIBRARYNAME c*",
    "FUNCTION LIST LIBRARYNAME C[o]unter? withcode",
    "FUNCTION LIST LIBRARYNAME nothing",
    "FUNCTION LIST LIBRARYNAME a LIBRARYNAME b",
    "FUNCTION LIST nothing",
    "FUNCTION STATS",
    "FUNCTION STATS x",
    "FUNCTION KILL",
    "FUNCTION DUMP x",
    "FUNCTION RESTORE",
    "FUNCTION RESTORE x",
    "FUNCTION RESTORE x y",
    "FUNCTION restore x y z",
    "FUNCTION FLUSH nothing",
    "FUNCTION flush SYNC x",
    "FCALL",
    "FCALL bump",
    "FCALL nothing_of_that_name 0",
    "FCALL nothing_of_that_name x",
    "FCALL bump x",
    "FCALL bump -1",
    "FCALL bump 00",
    "FCALL bump 1",
    "FCALL bump 1 count",
    "FCALL BUMP 1 count 5",
    "FCALL both 2 count other",
    "FCALL bump 1 count nothing",
    "FCALL both 2 count other 3 4",
    "FCALL both 1 count",
    "FCALL peek 1 count",
    "FCALL sneak 1 count",
    "FCALL try 1 count",
    "FCALL_RO",
    "FCALL_RO nothing_of_that_name 0",
    "FCALL_RO bump 1 count",
    "FCALL_RO bump 1",
    "FCALL_RO peek 1 count",
    "FCALL_RO peek 1 none",
    "FCALL_RO sneak 1 count",
    "FCALL nothing 0",
    "FCALL no 0",
    "FCALL yes 0",
    "FCALL number 0",
    "FCALL text 0",
    "FCALL list 2 a b c d",
    "FCALL list 0",
    "FCALL status 0",
    "FCALL problem 0",
    "FCALL raised 0",
    "FCALL thrown 0",
    "FCALL command 0",
    "FCALL unknown 0",
    "FCALL wrong 1 count",
    "FCALL caught 1 count",
    "FCALL double 0",
    "FCALL map 0",
    "FCALL globals 0",
    "FCALL keep 0",
    "FCALL types 0",
    "FCALL select 0",
    "FCALL nested 0",
    "FCALL manage 0",
    "EXISTS selected",
    "GET count",
    "GET other",
    "MULTI",
    "FCALL bump 1 count",
    "FCALL raised 0",
    "FCALL both 2 count other",
    "FCALL nothing_of_that_name 0",
    "FUNCTION STATS",
    "EXEC",
    "MULTI",
    "FUNCTION DELETE replies",
    "FCALL text 0",
    "FUNCTION FLUSH ASYNC",
    "FCALL bump 1 count",
    "FUNCTION LIST",
    "EXEC",
    "FUNCTION FLUSH",
    "FUNCTION FLUSH SYNC",
    "FUNCTION STATS",
    "SCRIPT KILL",
    "COMMAND GETKEYS fcall f 2 a b c",
    "COMMAND GETKEYS fcall_ro f 1 a b c",
    "COMMAND GETKEYS fcall f 0 a",
    "EVAL_RO #!lua\nreturn_1 0",
    "EVAL_RO #!lua_flags=no-writes\nreturn_1 0",
    "EVAL_RO return_1 0",
    "EVAL #!lua_flags=no-writes\nreturn_redis.call('SET','a','b') 0",
    "EVAL #!lua_flags=No-writes\nreturn_1 0",
    "EVAL return_redis.register_function 0",
];

/// In one order, whatever order the server has.
fn in_order(value: Value, at: &str) -> Value {
    let sorted = |items: Vec<Value>| {
        let mut items: Vec<Value> = items.into_iter().map(|item| in_order(item, "")).collect();
        items.sort_by_key(|item| format!("{item:?}"));
        items
    };
    match value {
        Value::Set(items) => Value::Set(sorted(items)),
        Value::Array(items) if at == "list" || at == "functions" || at == "flags" => Value::Array(sorted(items)),
        Value::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(key, value)| {
                let value = in_order(value, key.text());
                (key, value)
            });
            Value::Map(pairs.collect())
        }
        // A map in RESP2, or a list of replies.
        Value::Array(items) => {
            let mut name = String::new();
            let items = items.into_iter().map(|item| {
                let item = in_order(item, &name);
                name = if let Value::Bulk(_) = item {
                    item.text().to_owned()
                } else {
                    String::new()
                };
                item
            });
            Value::Array(items.collect())
        }
        other => other,
    }
}

struct Pair {
    reference: Client,
    tested: Client,
    about: String,
}

impl Pair {
    fn ask(&mut self, args: &[&str]) -> Value {
        let at = if args[0] == "FUNCTION" && args.get(1) == Some(&"LIST") {
            "list"
        } else {
            ""
        };
        let expected = self.reference.command(args);
        let answered = self.tested.command(args);
        assert_eq!(
            in_order(answered.clone(), at),
            in_order(expected, at),
            "{args:?}, {}",
            self.about
        );
        answered
    }

    fn converse(&mut self) {
        let library = |body: &str| format!("#!lua name=broken\n{body}");
        for text in [COUNTERS, REPLIES] {
            assert!(!self.ask(&["FUNCTION", "LOAD", "REPLACE", text]).is_error());
        }
        assert!(self.ask(&["FUNCTION", "LOAD", COUNTERS]).is_error());
        for body in BROKEN {
            assert!(self.ask(&["FUNCTION", "LOAD", &library(body)]).is_error(), "{body}");
        }
        for head in HEADS {
            assert!(self.ask(&["FUNCTION", "LOAD", head]).is_error(), "{head}");
        }
        for body in [
            "redis.register_function(1, function() return 'one' end)",
            "redis.register_function{Function_Name=12, CALLBACK=function() return 1 end, flags={'NO-writes'}, description=5}",
            "redis.log(redis.LOG_WARNING, redis.REDIS_VERSION ~= nil) redis.register_function('f', function() return ('x'):rep(3) end)",
        ] {
            self.ask(&["FUNCTION", "LOAD", "REPLACE", &library(body)]);
            self.ask(&["FUNCTION", "LIST", "LIBRARYNAME", "broken", "WITHCODE"]);
        }
        self.ask(&["FCALL", "1", "0"]);
        self.ask(&["FCALL", "f", "0"]);
        for head in ["#!LUA NAME=broken", "#!lua name=\"broken\"", "#!lua   name=broken   "] {
            self.ask(&[
                "FUNCTION",
                "LOAD",
                "REPLACE",
                &format!("{head}\nredis.register_function('f', function() end)"),
            ]);
        }
        // A library that fails leaves the one that it would have replaced.
        self.ask(&[
            "FUNCTION",
            "LOAD",
            "REPLACE",
            &library("redis.register_function('bump', function() end)"),
        ]);
        self.ask(&["FCALL", "f", "0"]);
        self.ask(&["FUNCTION", "DELETE", "broken"]);
        self.ask(&["FCALL", "f", "0"]);
        for line in LINES {
            let args: Vec<String> = match line.starts_with("FCALL") {
                true => line.split(' ').map(str::to_owned).collect(),
                false => line.split(' ').map(|arg| arg.replace('_', " ")).collect(),
            };
            let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
            if line.starts_with("EVAL_RO") {
                args[0] = "EVAL_RO";
            }
            if line.starts_with("EVAL return_redis.register_function") {
                args[1] = "return redis.register_function";
            }
            if line.starts_with("COMMAND GETKEYS fcall_ro") {
                args[2] = "fcall_ro";
            }
            self.ask(&args);
        }
    }

    /// Restored where it was dumped. The payloads are each server's own.
    fn dump_and_restore(&mut self) {
        self.ask(&["FUNCTION", "FLUSH"]);
        self.ask(&["FUNCTION", "LOAD", COUNTERS]);
        self.ask(&["FUNCTION", "LOAD", REPLIES]);
        let payloads = [&mut self.reference, &mut self.tested].map(|client| match client.line("FUNCTION DUMP") {
            Value::Bulk(payload) => payload,
            other => panic!("{other:?}"),
        });
        let moved = "#!lua name=moved\nredis.register_function('bump', function() return 'moved' end)";
        let changed = "#!lua name=replies\nredis.register_function('text', function() return 'changed' end)";
        for policy in [None, Some("APPEND"), Some("replace"), Some("FLUSH")] {
            for before in [&[][..], &[moved], &[changed], &[changed, moved]] {
                self.ask(&["FUNCTION", "FLUSH"]);
                for text in before {
                    self.ask(&["FUNCTION", "LOAD", text]);
                }
                let answers: Vec<Value> = [&mut self.reference, &mut self.tested]
                    .into_iter()
                    .zip(&payloads)
                    .map(|(client, payload)| {
                        let mut args = vec![&b"FUNCTION"[..], b"RESTORE", payload];
                        args.extend(policy.map(str::as_bytes));
                        client.command(&args)
                    })
                    .collect();
                let text = |value: &Value| match value {
                    // Which function is named of several, the order of a hash decides.
                    Value::Error(text) if text.starts_with("ERR Function ") => "ERR Function".to_owned(),
                    other => format!("{other:?}"),
                };
                assert_eq!(text(&answers[1]), text(&answers[0]), "{policy:?} {before:?}");
                self.ask(&["FUNCTION", "LIST", "WITHCODE"]);
                self.ask(&["FCALL", "text", "0"]);
                self.ask(&["FCALL", "bump", "1", "count"]);
            }
        }
    }
}

#[test]
fn functions_are_as_in_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    for workers in ["1", "3"] {
        let redis = RedisServer::start(&[]);
        let node = Node::start(&["--workers", workers]);
        let mut pair = Pair {
            reference: redis.client(),
            tested: node.client(),
            about: format!("RESP2, {workers} workers"),
        };
        pair.converse();
        pair.dump_and_restore();
        pair.reference.hello3();
        pair.tested.hello3();
        pair.about = format!("RESP3, {workers} workers");
        pair.converse();
        pair.dump_and_restore();
    }
}

#[test]
fn every_command_is_described_as_in_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let redis = RedisServer::start(&[]);
    let node = Node::start(&["--workers", "1"]);
    let mut pair = Pair {
        reference: redis.client(),
        tested: node.client(),
        about: String::new(),
    };
    pair.reference.hello3();
    pair.tested.hello3();
    for name in [
        "delete", "dump", "flush", "help", "kill", "list", "load", "restore", "stats",
    ] {
        pair.ask(&["COMMAND", "INFO", &format!("function|{name}")]);
    }
}
