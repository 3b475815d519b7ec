//! `cmsgpack`: MessagePack as lua-cmsgpack 0.4.0 has it (`deps/lua/src/lua_cmsgpack.c` of Redis).

mod pack;
mod unpack;

use std::ffi::CStr;

use crate::stack::{Body, Stack};

const FUNCTIONS: [(&CStr, Body); 4] = [
    (c"pack", pack::pack),
    (c"unpack", unpack::unpack),
    (c"unpack_one", unpack::unpack_one),
    (c"unpack_limit", unpack::unpack_limit),
];

const TEXTS: [(&CStr, &str); 4] = [
    (c"_NAME", "cmsgpack"),
    (c"_VERSION", "lua-cmsgpack 0.4.0"),
    (c"_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
    (c"_DESCRIPTION", "MessagePack C implementation for Lua"),
];

/// Pushes the table.
pub(crate) fn push_cmsgpack(stack: &Stack) {
    stack.new_table(0, FUNCTIONS.len() + TEXTS.len());
    for (name, function) in FUNCTIONS {
        stack.push_function(function, name, 0);
        stack.set_field(-2, name);
    }
    for (name, text) in TEXTS {
        stack.push_bytes(text.as_bytes());
        stack.set_field(-2, name);
    }
}
