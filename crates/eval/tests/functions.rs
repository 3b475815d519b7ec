//! Libraries of functions: what they see while they are loaded, what they register, how a function is called.

mod support;

use std::time::Duration;

use support::{FakeHost, SLICE, Text, engine, finish};
use tollgate_eval::{Engine, Failure, Host, HostAnswer, LogLevel, Outcome, Registration, Resp, Run, ScriptError, Tape};
use tollgate_protocol::Request;

/// Notes what is registered, and picks one function.
#[derive(Default)]
struct Registrar {
    commands: FakeHost,
    wanted: &'static str,
    registered: Vec<(String, Option<String>, Vec<&'static str>)>,
}

impl Host for Registrar {
    fn call(&mut self, request: Request<'_>, resp: Resp, reply: &mut Tape) -> HostAnswer {
        self.commands.call(request, resp, reply)
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        self.commands.may_call(arguments)
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.commands.log(level, message);
    }

    fn register(&mut self, function: &Registration<'_>) -> Result<bool, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if function.name == b"refused" {
            return Err("refused".to_owned());
        }
        let flags = function.flags.names().collect();
        self.registered
            .push((text(function.name), function.description.map(text), flags));
        Ok(function.name == self.wanted.as_bytes())
    }
}

fn load(code: &str) -> Result<Registrar, String> {
    let engine = engine();
    let mut registrar = Registrar::default();
    let mut run = engine
        .load_library(format!("\n{code}").as_bytes())
        .map_err(|error| error.to_string())?;
    match run.resume(&mut registrar, Duration::from_secs(1)) {
        Outcome::Finished => Ok(registrar),
        Outcome::Failed(error) => Err(String::from_utf8_lossy(&error.message).into_owned()),
        other => panic!("{code}: {other:?}"),
    }
}

fn start(engine: &Engine, code: &str) -> Run {
    let library = engine
        .compile_library(format!("\n{code}").as_bytes())
        .expect("a library");
    engine.call(&library, &["key1", "key2"], &["arg1", "2"])
}

fn end(run: &mut Run, host: &mut Registrar) -> Result<String, ScriptError> {
    loop {
        match run.resume(host, SLICE) {
            Outcome::Yielded => {}
            Outcome::Finished => {
                let mut text = Text::default();
                run.write_reply(&mut text)?;
                return Ok(text.0);
            }
            Outcome::Failed(error) => return Err(error),
            other => panic!("{other:?}"),
        }
    }
}

/// What the function `f` of a library answers.
fn call(code: &str) -> String {
    let mut host = Registrar {
        wanted: "f",
        ..Registrar::default()
    };
    match end(&mut start(&engine(), code), &mut host) {
        Ok(reply) => reply,
        Err(error) => String::from_utf8_lossy(&error.to_reply("f")).into_owned(),
    }
}

#[test]
fn functions_are_registered_by_position_and_by_name() {
    let registrar = load(
        "local function f() end redis.register_function('one', f) server.register_function(2, f) \
         redis.register_function{function_name='three', callback=f, description='third', flags={'no-writes', 'ALLOW-oom'}} \
         redis.register_function{FUNCTION_NAME='four', Callback=f}",
    );
    let registered = registrar.unwrap_or_else(|error| panic!("{error}")).registered;
    let names: Vec<&str> = registered.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(names, ["one", "2", "three", "four"]);
    assert_eq!(registered[2].1.as_deref(), Some("third"));
    assert_eq!(registered[2].2, ["no-writes", "allow-oom"]);
    assert_eq!(registered[0].1, None);
    assert!(registered[0].2.is_empty());
}

#[test]
fn arguments_that_are_wrong() {
    let errors = [
        ("()", "wrong number of arguments to redis.register_function"),
        (
            "('a', 'b', 'c')",
            "wrong number of arguments to redis.register_function",
        ),
        (
            "('a')",
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ),
        (
            "('a', 1)",
            "second argument to redis.register_function must be a function",
        ),
        (
            "({}, function() end)",
            "first argument to redis.register_function must be a string",
        ),
        ("{}", "redis.register_function must get a function name argument"),
        (
            "{function_name='x'}",
            "redis.register_function must get a callback argument",
        ),
        (
            "{callback=function() end}",
            "redis.register_function must get a function name argument",
        ),
        (
            "{function_name={}}",
            "function_name argument given to redis.register_function must be a string",
        ),
        (
            "{callback=1}",
            "callback argument given to redis.register_function must be a function",
        ),
        (
            "{description={}}",
            "description argument given to redis.register_function must be a string",
        ),
        (
            "{flags=1}",
            "flags argument to redis.register_function must be a table representing function flags",
        ),
        ("{flags={'foo'}}", "unknown flag given"),
        ("{flags={{}}}", "unknown flag given"),
        ("{foo=1}", "unknown argument given to redis.register_function"),
        ("{'x'}", "unknown argument given to redis.register_function"),
        (
            "{[{}]='x'}",
            "named argument key given to redis.register_function is not a string",
        ),
        ("('refused', function() end)", "refused"),
    ];
    for (arguments, error) in errors {
        let found = load(&format!("redis.register_function{arguments}")).err();
        assert_eq!(found, Some(format!("ERR {error}")), "{arguments}");
    }
}

#[test]
fn a_library_sees_next_to_nothing_while_it_is_loaded() {
    for name in [
        "pairs",
        "string",
        "math",
        "cjson",
        "_G",
        "KEYS",
        "pcall",
        "loadstring",
        "setmetatable",
        "nothing",
    ] {
        let error = format!("ERR user_function:2: Script attempted to access nonexistent global variable '{name}'");
        assert_eq!(load(&format!("return {name}")).err(), Some(error));
    }
    for name in ["call", "pcall", "sha1hex", "setresp", "REPL_ALL", "nothing"] {
        let error = format!("ERR user_function:2: Script attempted to access nonexistent global variable '{name}'");
        assert_eq!(load(&format!("return redis.{name}")).err(), Some(error.clone()));
        assert_eq!(load(&format!("return server['{name}']")).err(), Some(error));
    }
    for change in ["x = 1", "redis = 1", "redis.x = 1", "redis.log = nil"] {
        let error = "ERR user_function:2: Attempt to modify a readonly table".to_owned();
        assert_eq!(load(change).err(), Some(error), "{change}");
    }
    let registrar = load("redis.log(redis.LOG_WARNING, redis.REDIS_VERSION, redis.REDIS_VERSION_NUM, ('x'):rep(2))");
    let logged = registrar.unwrap_or_else(|error| panic!("{error}")).commands.logged;
    assert_eq!(logged, [(LogLevel::Warning, b"7.2.4 459268 xx".to_vec())]);
    let error = load("x x").err().unwrap_or_default();
    assert!(
        error.starts_with("ERR Error compiling function: user_function:2: "),
        "{error}"
    );
}

#[test]
fn a_function_gets_keys_and_arguments() {
    assert_eq!(
        call(
            "redis.register_function('f', function(keys, args) return {keys[1], keys[2], args[1], args[2] + 1, #keys} end)"
        ),
        "*5 $key1 $key2 $arg1 :3 :2"
    );
    // Another one of the library, and what they share.
    assert_eq!(
        call(
            "local function both(keys, args) return redis.call('ARGS', keys[1], args[1]) end \
             redis.register_function('g', function() end) redis.register_function('f', both)"
        ),
        "*2 $key1 $arg1"
    );
    // The whole environment of scripts, but KEYS and ARGV.
    assert_eq!(
        call("redis.register_function('f', function() return cjson.encode({math.floor(1.5), redis.sha1hex('')}) end)"),
        "$[1,\\\"da39a3ee5e6b4b0d3255bfef95601890afd80709\\\"]"
    );
    assert_eq!(
        call("redis.register_function('f', function() return KEYS end)"),
        "ERR user_function:2: Script attempted to access nonexistent global variable 'KEYS' script: f, on @user_function:2."
    );
    assert_eq!(
        call("redis.register_function('f', function() return redis.error_reply('MY own') end)"),
        "-MY own"
    );
}

#[test]
fn errors_name_the_function_and_its_line() {
    assert_eq!(
        call("redis.register_function('f', function()\n error('boo') end)"),
        "ERR user_function:3: boo script: f, on @user_function:3."
    );
    assert_eq!(
        call("redis.register_function('f', function()\n\n redis.call('WRONG') end)"),
        "WRONGTYPE Operation against a key holding the wrong kind of value script: f, on @user_function:4."
    );
    let late = "redis.register_function can only be called on FUNCTION LOAD command script: f, on @user_function:2.";
    assert_eq!(
        call("redis.register_function('f', function() redis.register_function('g', function() end) end)"),
        format!("ERR {late}")
    );
    let error = call("redis.register_function('g', function() end)");
    assert!(error.starts_with("ERR Function not found"), "{error}");
}

#[test]
fn a_call_finds_the_library_as_it_was_loaded() {
    let engine = engine();
    let code = "local count, seen = 0, {} redis.log(redis.LOG_WARNING, 'loaded') \
                redis.register_function('f', function() count = count + 1 seen[#seen + 1] = count return {count, #seen} end)";
    let library = engine.compile_library(code.as_bytes()).expect("a library");
    let mut host = Registrar {
        wanted: "f",
        ..Registrar::default()
    };
    for _ in 0..3 {
        let mut run = engine.call(&library, &[""; 0], &[""; 0]);
        assert_eq!(end(&mut run, &mut host).ok().as_deref(), Some("*2 :1 :1"));
    }
    assert!(host.commands.logged.is_empty(), "it was logged when it was loaded");
}

#[test]
fn runs_of_functions_and_scripts_take_turns() {
    let engine = engine();
    let code = "local x = 'library' redis.register_function('f', function(keys) for i = 1, 1e6 do end return x .. keys[1] end)";
    let mut calls: Vec<Run> = (0..3).map(|_| start(&engine, code)).collect();
    let mut script = support::start(&engine, "for i = 1, 1e6 do end return redis.register_function == nil");
    let mut host = Registrar {
        wanted: "f",
        ..Registrar::default()
    };
    let mut yields = 0;
    let mut over = [false; 3];
    while over.contains(&false) {
        for (run, over) in calls.iter_mut().zip(&mut over).filter(|(_, over)| !**over) {
            match run.resume(&mut host, Duration::from_micros(100)) {
                Outcome::Yielded => yields += 1,
                Outcome::Finished => *over = true,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(yields > 3, "{yields}");
    for run in &mut calls {
        let mut text = Text::default();
        run.write_reply(&mut text).expect("a reply");
        assert_eq!(text.0, "$librarykey1");
    }
    assert_eq!(
        finish(&mut script, &mut FakeHost::default()).ok().as_deref(),
        Some(":1")
    );
}

#[test]
fn a_library_that_does_not_end_or_takes_all_memory_is_stopped() {
    let engine = engine();
    let mut registrar = Registrar::default();
    let endless = "while true do end";
    let mut run = engine.load_library(endless.as_bytes()).expect("it compiles");
    for _ in 0..5 {
        assert!(matches!(run.resume(&mut registrar, SLICE), Outcome::Yielded));
    }
    drop(run);
    for (code, failure) in [
        ("local t = 'x' while true do t = t .. t end", Failure::Memory),
        ("local t = {} for i = 1, 1e9 do t[i] = {i} end", Failure::Memory),
        ("local function f() return 1 + f() end f()", Failure::Raised),
    ] {
        let mut run = engine.load_library(code.as_bytes()).expect("it compiles");
        match end(&mut run, &mut Registrar::default()) {
            Err(error) => assert_eq!(error.failure, failure, "{code}: {error:?}"),
            Ok(reply) => panic!("{code}: {reply}"),
        }
    }
    let f = "redis.register_function('f', function() return 'fine' end)";
    let mut host = Registrar {
        wanted: "f",
        ..Registrar::default()
    };
    assert_eq!(end(&mut start(&engine, f), &mut host).ok().as_deref(), Some("$fine"));
}

#[test]
fn dropped_runs_leave_nothing_behind() {
    let engine = engine();
    let code = "redis.register_function('f', function() end) for i = 1, 1e9 do end";
    let library = engine.compile_library(code.as_bytes()).expect("a library");
    let mut host = Registrar {
        wanted: "f",
        ..Registrar::default()
    };
    engine.collect();
    let before_bytes = engine.used_bytes();
    for _ in 0..2_000 {
        // It is dropped between the registration and the call.
        let mut run = engine.call(&library, &["key"], &["argument"]);
        assert!(matches!(
            run.resume(&mut host, Duration::from_micros(20)),
            Outcome::Yielded
        ));
    }
    engine.collect();
    let after_bytes = engine.used_bytes();
    assert!(after_bytes < before_bytes + 20_000, "{before_bytes} {after_bytes}");
}
