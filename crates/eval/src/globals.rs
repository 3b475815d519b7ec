//! The globals of a script: Lua 5.1 as Redis has it, less what could leave a trace, all of it read-only.

use std::ffi::{CStr, c_int};

use mlua::ffi;

use crate::engine::load_text;
use crate::random::{random, randomseed};
use crate::stack::{Body, Fail, Stack};
use crate::text::{ToNumber, concat, find, rep, sub};
use crate::{api, bits, json, msgpack, structs};

type Opener = unsafe extern "C-unwind" fn(*mut ffi::lua_State) -> c_int;

const LIBRARIES: [(&CStr, Opener); 6] = [
    (c"", ffi::luaopen_base),
    (c"table", ffi::luaopen_table),
    (c"string", ffi::luaopen_string),
    (c"math", ffi::luaopen_math),
    (c"coroutine", ffi::luaopen_coroutine),
    (c"os", ffi::luaopen_os),
];

/// What goes of Luau's globals: Redis does not have it, and `table.move`, `string.split` and their like loop where
/// nothing interrupts them.
const REMOVED: [(&CStr, &[&CStr]); 6] = [
    (
        c"",
        &[c"getfenv", c"newproxy", c"print", c"rawlen", c"setfenv", c"typeof"],
    ),
    (
        c"table",
        &[
            c"clear",
            c"clone",
            c"create",
            c"find",
            c"freeze",
            c"isfrozen",
            c"move",
            c"pack",
            c"unpack",
        ],
    ),
    (c"string", &[c"pack", c"packsize", c"split", c"unpack"]),
    (
        c"math",
        &[
            c"clamp",
            c"isfinite",
            c"isinf",
            c"isnan",
            c"lerp",
            c"map",
            c"noise",
            c"round",
            c"sign",
        ],
    ),
    (c"coroutine", &[c"close", c"finally", c"isyieldable"]),
    (c"os", &[c"date", c"difftime", c"time"]),
];

/// Makes the globals of a new VM.
pub(crate) fn install(main: &Stack) -> Result<(), String> {
    for (name, open) in LIBRARIES {
        // SAFETY: a library's opener takes its name. Nothing limits the memory yet, so nothing fails.
        unsafe {
            ffi::lua_pushcclosurek(main.state(), open, name.as_ptr(), 0, None);
            ffi::lua_pushstring_(main.state(), name.as_ptr());
            ffi::lua_call(main.state(), 1, 0);
        }
    }
    push_globals(main);
    main.get_field(-1, c"tonumber");
    main.push_known::<ToNumber>(c"tonumber", 1);
    main.set_field(-2, c"tonumber");
    push_library(main, c"string");
    for (name, function) in [(c"find", find as Body), (c"rep", rep)] {
        main.get_field(-1, name);
        main.push_function(function, name, 1);
        main.set_field(-2, name);
    }
    main.push_function(sub, c"sub", 0);
    main.set_field(-2, c"sub");
    main.pop(1);
    push_library(main, c"table");
    main.push_function(concat, c"concat", 0);
    main.set_field(-2, c"concat");
    main.pop(1);
    push_library(main, c"math");
    for (name, function) in [(c"random", random as Body), (c"randomseed", randomseed)] {
        main.push_function(function, name, 0);
        main.set_field(-2, name);
    }
    main.pop(1);
    run_prelude(main)?;
    remove(main);
    api::push_redis(main);
    main.push_copy(-1);
    main.set_field(-3, c"redis");
    main.set_field(-2, c"server");
    for (name, push) in [
        (c"cjson", json::push_cjson as fn(&Stack)),
        (c"cmsgpack", msgpack::push_cmsgpack),
        (c"bit", bits::push_bit),
        (c"struct", structs::push_struct),
    ] {
        push(main);
        main.set_field(-2, name);
    }
    main.push_bytes(b"Lua 5.1");
    main.set_field(-2, c"_VERSION");
    close(main);
    Ok(())
}

fn push_globals(main: &Stack) {
    main.push_copy(ffi::LUA_GLOBALSINDEX);
}

/// The table of a library; that of the base library are the globals. The globals are on the top.
fn push_library(main: &Stack, name: &CStr) {
    if name.is_empty() {
        main.push_copy(-1);
    } else {
        main.get_field(-1, name);
    }
}

fn run_prelude(main: &Stack) -> Result<(), String> {
    load_text(main, include_bytes!("prelude.luau"), '=', "library")?;
    push_globals(main);
    main.push_function(loadstring, c"loadstring", 0);
    // SAFETY: a function and two arguments are on the top.
    let status = unsafe { ffi::lua_pcall(main.state(), 2, 0, 0) };
    if status != 0 {
        return Err(String::from_utf8_lossy(main.bytes(-1).unwrap_or_default()).into_owned());
    }
    Ok(())
}

fn remove(main: &Stack) {
    for (library, names) in REMOVED {
        push_library(main, library);
        for name in names {
            main.push_nil();
            main.set_field(-2, name);
        }
        main.pop(1);
    }
}

/// Makes everything read-only: the libraries, the metatable of strings, the globals and their metatable. The globals are
/// on the top, and popped.
fn close(main: &Stack) {
    main.push_nil();
    while main.next_pair(-2) {
        // `_G` is among them, and is closed last.
        // SAFETY: compares two values on the stack.
        let is_globals = unsafe { ffi::lua_rawequal(main.state(), -1, -3) } != 0;
        if main.is_table(-1) && !is_globals {
            main.set_readonly(-1);
        }
        main.pop(1);
    }
    main.push_bytes(b"");
    if main.get_metatable(-1) {
        main.set_readonly(-1);
        main.pop(1);
    }
    main.pop(1);
    if main.get_metatable(-1) {
        main.set_readonly(-1);
        main.pop(1);
    }
    main.set_readonly(-1);
    main.pop(1);
    // SAFETY: no global changes from here on, so the compiler's imports of globals stay true.
    unsafe { ffi::lua_setsafeenv(main.state(), ffi::LUA_GLOBALSINDEX, 1) };
}

/// Largest text for `loadstring`, in bytes: compiling is not interrupted.
const LOADSTRING_BYTES_MAX: usize = 64 * 1024;

/// `loadstring(text, name)`: the function, or nil and a message.
fn loadstring(stack: &Stack) -> Result<c_int, Fail> {
    let text = stack.check_bytes(1, "loadstring")?;
    if text.len() > LOADSTRING_BYTES_MAX {
        stack.push_nil();
        stack.push_bytes(b"chunk has too many bytes");
        return Ok(2);
    }
    let text = text.to_vec();
    let name = match stack.string(2) {
        Some([b'=' | b'@', name @ ..]) => String::from_utf8_lossy(name).into_owned(),
        Some(name) => chunk_name(name),
        None => chunk_name(&text),
    };
    match load_text(stack, &text, '@', &name) {
        Ok(()) => Ok(1),
        Err(message) => {
            stack.push_nil();
            stack.push_bytes(message.as_bytes());
            Ok(2)
        }
    }
}

/// `[string "the first line..."]`
fn chunk_name(text: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let shown = &line[..line.len().min(SHOWN_BYTES_MAX)];
    let dots = if shown.len() < text.len() { "..." } else { "" };
    format!("[string \"{}{dots}\"]", String::from_utf8_lossy(shown))
}
