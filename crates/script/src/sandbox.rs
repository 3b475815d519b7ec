//! What a policy can reach: a short list of harmless, pure functions, all read-only.

use mlua::chunk::Compiler;
use mlua::{Lua, LuaOptions, StdLib, Table, Value};

use crate::error::HostError;

/// Largest buffer that a policy can create, in bytes. `buffer.fill` and `buffer.copy` are not interrupted, so this
/// bounds what one call of them takes.
pub const POLICY_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The globals that stay. Without `pcall` a policy cannot swallow the error that ends it; without `coroutine`, `table`,
/// `string` and the string metatable it has no library call whose time grows with its input beyond the memory cap;
/// without `setmetatable` an operator always means what it says.
const GLOBALS: [&str; 17] = [
    "assert", "bit32", "buffer", "error", "ipairs", "math", "next", "pairs", "rawequal", "rawget", "rawlen", "select",
    "tonumber", "tostring", "type", "typeof", "_VERSION",
];

/// Members of the libraries that go: `random` is not pure, the strings of `buffer` are not needed and unbounded.
const REMOVED: [(&str, &[&str]); 2] = [
    ("math", &["random", "randomseed"]),
    ("buffer", &["fromstring", "tostring", "readstring", "writestring"]),
];

/// What the compiler knows without looking at the globals, and would call, or compute, even where it is not: it must take
/// these names for variables.
const UNKNOWN_TO_COMPILER: [&str; 8] = [
    "getmetatable",
    "integer",
    "rawset",
    "setmetatable",
    "string",
    "table",
    "unpack",
    "vector",
];

/// A VM in which policies may be loaded: native code, nothing but [`GLOBALS`], no global writable.
pub(crate) fn policy_vm() -> Result<Lua, HostError> {
    let libraries = StdLib::MATH | StdLib::BIT | StdLib::BUFFER;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    lua.enable_jit(true);
    lua.set_compiler(
        Compiler::new()
            .set_optimization_level(2)
            .set_debug_level(1)
            .set_type_info_level(1)
            .set_mutable_globals(UNKNOWN_TO_COMPILER),
    );
    let globals = lua.globals();
    let mut gone = Vec::new();
    for pair in globals.pairs::<String, Value>() {
        let (name, _) = pair?;
        if !GLOBALS.contains(&name.as_str()) {
            gone.push(name);
        }
    }
    for name in gone {
        globals.raw_set(name, Value::Nil)?;
    }
    for (library, members) in REMOVED {
        let library: Table = globals.raw_get(library)?;
        for &member in members {
            library.raw_set(member, Value::Nil)?;
        }
    }
    bound_buffers(&lua, &globals)?;
    hide_addresses(&lua, &globals)?;
    lua.sandbox(true)?;
    // The sandbox gives scripts a table of their own for new globals, shared by all of them: closed, too.
    lua.globals().set_readonly(true);
    Ok(lua)
}

/// Lets `tostring` say no more than the type of what has no text of its own: addresses differ from run to run, and are
/// nobody's business.
fn hide_addresses(lua: &Lua, globals: &Table) -> Result<(), HostError> {
    let hiding: mlua::Function = lua
        .load(
            "local text, type = ...
             return function(value)
                 local kind = type(value)
                 if kind == 'table' or kind == 'function' or kind == 'buffer' then return kind end
                 return text(value)
             end",
        )
        .set_name("=tostring")
        .call((
            globals.raw_get::<mlua::Function>("tostring")?,
            globals.raw_get::<mlua::Function>("type")?,
        ))?;
    globals.raw_set("tostring", hiding)?;
    Ok(())
}

/// Puts a bound on `buffer.create`.
fn bound_buffers(lua: &Lua, globals: &Table) -> Result<(), HostError> {
    let library: Table = globals.raw_get("buffer")?;
    let bounded: mlua::Function = lua
        .load(
            "local create, max = ...
             return function(bytes)
                 if bytes > max then error('a buffer may have ' .. max .. ' bytes', 2) end
                 return create(bytes)
             end",
        )
        .set_name("=buffer.create")
        .call((library.raw_get::<mlua::Function>("create")?, POLICY_BUFFER_BYTES_MAX))?;
    library.raw_set("create", bounded)?;
    Ok(())
}
