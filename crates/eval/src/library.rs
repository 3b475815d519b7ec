//! Libraries of functions.
//!
//! A library is a script that registers functions. It runs twice. When it is loaded, it sees nothing but
//! `redis.register_function`, `redis.log` and what is constant of `redis`, as in Redis: so it does the same whenever it runs.
//! With each call it runs again, then in the environment of scripts, and the function that is asked for is called. So a
//! function finds the variables of its library as loading left them, whichever worker runs it and whatever ran before.

use std::cell::OnceCell;
use std::ffi::c_int;

use mlua::ffi;

use crate::api;
use crate::engine::{Thread, load_text};
use crate::flags::ScriptFlags;
use crate::run::Phase;
use crate::stack::{Fail, Stack};

/// What error messages call a library.
pub(crate) const CHUNK_NAME: &str = "user_function";

/// A function that a library registers.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    /// Its name, of whatever bytes.
    pub name: &'a [u8],
    /// What it says of itself.
    pub description: Option<&'a [u8]>,
    /// What it declares.
    pub flags: ScriptFlags,
}

/// What libraries need of a VM.
#[derive(Default)]
pub(crate) struct Environments {
    /// Its globals are those of libraries that are being loaded.
    loading: OnceCell<Thread>,
    /// Its globals are those of functions.
    calling: OnceCell<Thread>,
    /// The function that runs a library and calls a function of it.
    invoke: OnceCell<c_int>,
}

/// Which environment a library is compiled for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Load,
    Call,
}

impl Environments {
    /// Makes them; the globals are complete and closed.
    pub(crate) fn install(&self, main: &Stack, new_thread: impl Fn() -> Thread) -> Result<(), String> {
        let loading = new_thread();
        push_load_globals(main);
        loading.stack.take_globals(main);
        let calling = new_thread();
        push_call_globals(main);
        calling.stack.take_globals(main);
        load_text(main, include_bytes!("invoke.luau"), '=', "library")?;
        main.push_function(loaded, c"loaded", 0);
        main.call(1, 1);
        let invoke = main.make_reference();
        main.pop(1);
        // They were empty.
        let _ = (
            self.loading.set(loading),
            self.calling.set(calling),
            self.invoke.set(invoke),
        );
        Ok(())
    }

    /// The thread in which a library is compiled.
    pub(crate) fn compiler(&self, purpose: Purpose) -> &Stack {
        let thread = match purpose {
            Purpose::Load => &self.loading,
            Purpose::Call => &self.calling,
        };
        match thread.get() {
            Some(thread) => &thread.stack,
            None => unreachable!("an engine is not handed out before it is set up"),
        }
    }

    /// Pushes the function that runs a library and calls a function of it: it takes the library, the keys and the arguments.
    pub(crate) fn push_invoke(&self, stack: &Stack) {
        stack.push_reference(self.invoke.get().copied().unwrap_or_default());
    }
}

fn push_load_globals(main: &Stack) {
    main.new_table(0, 2);
    api::push_load_redis(main);
    main.push_function(register_function, c"register_function", 0);
    main.set_field(-2, c"register_function");
    copy_metatable_of_globals(main);
    main.set_readonly(-1);
    main.push_copy(-1);
    main.set_field(-3, c"redis");
    main.set_field(-2, c"server");
    copy_metatable_of_globals(main);
    main.set_readonly(-1);
}

fn push_call_globals(main: &Stack) {
    main.new_table(0, 0);
    main.push_copy(ffi::LUA_GLOBALSINDEX);
    main.push_nil();
    while main.next_pair(-2) {
        main.push_copy(-2);
        main.insert(-2);
        main.set_pair(-5);
    }
    main.pop(1);
    api::push_redis(main);
    main.push_function(register_function, c"register_function", 0);
    main.set_field(-2, c"register_function");
    main.set_readonly(-1);
    main.push_copy(-1);
    main.set_field(-3, c"redis");
    main.set_field(-2, c"server");
    copy_metatable_of_globals(main);
    main.set_readonly(-1);
    main.set_safe(-1);
}

/// Gives the table on the top the metatable of the globals, which refuses names that do not exist.
fn copy_metatable_of_globals(main: &Stack) {
    if main.get_metatable(ffi::LUA_GLOBALSINDEX) {
        main.set_metatable(-2);
    }
}

/// Called by `invoke` when its library has run: gives the function that is to be called.
fn loaded(stack: &Stack) -> Result<c_int, Fail> {
    let run = &stack.shared().run;
    run.phase.set(Phase::Run);
    match run.callback.take() {
        Some(reference) => {
            stack.push_reference(reference);
            stack.release_reference(reference);
            Ok(1)
        }
        None => Err(redis("Function not found")),
    }
}

fn redis(message: &str) -> Fail {
    Fail::Redis(format!("ERR {message}").into_bytes())
}

/// `redis.register_function(name, callback)`, or with a table of named arguments.
fn register_function(stack: &Stack) -> Result<c_int, Fail> {
    let shared = stack.shared();
    if shared.run.phase.get() == Phase::Run {
        return Err(redis(
            "redis.register_function can only be called on FUNCTION LOAD command",
        ));
    }
    let (name, description, flags) = match stack.top() {
        1 => named_arguments(stack)?,
        2 => (positional_arguments(stack)?, None, ScriptFlags::default()),
        _ => return Err(redis("wrong number of arguments to redis.register_function")),
    };
    let registration = Registration {
        name: &name,
        description: description.as_deref(),
        flags,
    };
    let answer = shared.with_host(|host| host.register(&registration));
    match answer {
        Some(Ok(true)) => {
            // Both kinds of arguments leave the callback on the top.
            let callback = shared.run.callback.replace(Some(stack.make_reference()));
            if let Some(earlier) = callback {
                stack.release_reference(earlier);
            }
            Ok(0)
        }
        Some(Ok(false)) => Ok(0),
        Some(Err(message)) => Err(redis(&message)),
        None => Err(redis("redis.register_function cannot be used here")),
    }
}

/// The name; the callback is on the top.
fn positional_arguments(stack: &Stack) -> Result<Vec<u8>, Fail> {
    let name = stack.bytes(1);
    let name = name.ok_or_else(|| redis("first argument to redis.register_function must be a string"))?;
    if stack.kind(2) != ffi::LUA_TFUNCTION {
        return Err(redis("second argument to redis.register_function must be a function"));
    }
    Ok(name.to_vec())
}

type Arguments = (Vec<u8>, Option<Vec<u8>>, ScriptFlags);

/// The arguments in a table; the callback is on the top afterwards.
fn named_arguments(stack: &Stack) -> Result<Arguments, Fail> {
    if !stack.is_table(1) {
        return Err(redis(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ));
    }
    stack.require(8);
    let (mut name, mut description, mut flags) = (None, None, ScriptFlags::default());
    // The place of the callback.
    stack.push_nil();
    stack.push_nil();
    while stack.next_pair(1) {
        let key = stack.string(-2).unwrap_or_default().to_ascii_lowercase();
        match &key[..] {
            b"" if !matches!(stack.kind(-2), ffi::LUA_TSTRING | ffi::LUA_TNUMBER) => {
                return Err(redis(
                    "named argument key given to redis.register_function is not a string",
                ));
            }
            b"function_name" => name = Some(text_argument(stack, "function_name")?),
            b"description" => description = Some(text_argument(stack, "description")?),
            b"callback" => {
                if stack.kind(-1) != ffi::LUA_TFUNCTION {
                    return Err(redis(
                        "callback argument given to redis.register_function must be a function",
                    ));
                }
                stack.push_copy(-1);
                stack.replace(2);
            }
            b"flags" => flags = flags_argument(stack)?,
            _ => return Err(redis("unknown argument given to redis.register_function")),
        }
        stack.pop(1);
        // Each is a step, for a table with many.
        stack.shared().tick()?;
    }
    let name = name.ok_or_else(|| redis("redis.register_function must get a function name argument"))?;
    if stack.kind(2) != ffi::LUA_TFUNCTION {
        return Err(redis("redis.register_function must get a callback argument"));
    }
    stack.set_top(2);
    Ok((name, description, flags))
}

/// The string on the top.
fn text_argument(stack: &Stack, argument: &str) -> Result<Vec<u8>, Fail> {
    let text = stack.bytes(-1).map(<[u8]>::to_vec);
    text.ok_or_else(|| {
        redis(&format!(
            "{argument} argument given to redis.register_function must be a string"
        ))
    })
}

/// The flags in the list on the top.
fn flags_argument(stack: &Stack) -> Result<ScriptFlags, Fail> {
    if !stack.is_table(-1) {
        return Err(redis(
            "flags argument to redis.register_function must be a table representing function flags",
        ));
    }
    let mut flags = ScriptFlags::default();
    for item in 1.. {
        stack.shared().tick()?;
        if stack.get_item(-1, item) == ffi::LUA_TNIL {
            stack.pop(1);
            break;
        }
        if !flags.add(stack.bytes(-1).unwrap_or_default()) {
            return Err(redis("unknown flag given"));
        }
        stack.pop(1);
    }
    Ok(flags)
}
