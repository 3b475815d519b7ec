//! `cjson`: lua-cjson 2.1.0 as Redis has it (`deps/lua/src/lua_cjson.c`).
//!
//! Numbers are written with `%.14g`, as there: what is exact in a script may be rounded in its JSON. Settings last as
//! long as the run that makes them; in Redis they last as long as the server.

mod decode;
mod encode;

use std::ffi::{CStr, c_int};

use mlua::ffi;

use crate::stack::{Body, Fail, Stack};

/// Arrays and objects in each other that this crate follows, whatever a script sets: its own stack is not Lua's.
const DEPTH_MAX: u32 = 1_000;

const FUNCTIONS: [(&CStr, Body); 10] = [
    (c"encode", encode::encode),
    (c"decode", decode::decode),
    (c"encode_sparse_array", encode_sparse_array),
    (c"encode_max_depth", encode_max_depth),
    (c"decode_max_depth", decode_max_depth),
    (c"encode_number_precision", encode_number_precision),
    (c"encode_keep_buffer", encode_keep_buffer),
    (c"encode_invalid_numbers", encode_invalid_numbers),
    (c"decode_invalid_numbers", decode_invalid_numbers),
    (c"new", new),
];

/// What the settings functions set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonSettings {
    sparse_to_object: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth: u32,
    decode_depth: u32,
    precision: u32,
    is_buffer_kept: bool,
    encode_invalid: Invalid,
    decode_invalid: bool,
}

/// What becomes of NaN and infinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for JsonSettings {
    fn default() -> Self {
        Self {
            sparse_to_object: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: DEPTH_MAX,
            decode_depth: DEPTH_MAX,
            precision: 14,
            is_buffer_kept: true,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
        }
    }
}

/// Pushes the table.
pub(crate) fn push_cjson(stack: &Stack) {
    stack.new_table(0, FUNCTIONS.len() + 3);
    for (name, function) in FUNCTIONS {
        stack.push_function(function, name, 0);
        stack.set_field(-2, name);
    }
    stack.push_null();
    stack.set_field(-2, c"null");
    stack.push_bytes(b"cjson");
    stack.set_field(-2, c"_NAME");
    stack.push_bytes(b"2.1.0");
    stack.set_field(-2, c"_VERSION");
}

fn settings(stack: &Stack) -> JsonSettings {
    stack.shared().run.json.get()
}

fn update(stack: &Stack, change: impl FnOnce(&mut JsonSettings)) {
    let mut settings = settings(stack);
    change(&mut settings);
    stack.shared().run.json.set(settings);
}

fn is_given(stack: &Stack, index: c_int) -> bool {
    !matches!(stack.kind(index), ffi::LUA_TNONE | ffi::LUA_TNIL)
}

fn at_most(stack: &Stack, function: &str, max: c_int) -> Result<(), Fail> {
    if stack.top() > max {
        return Err(Fail::argument(max + 1, function, "found too many arguments"));
    }
    Ok(())
}

/// The integer argument, if it is given.
fn integer(stack: &Stack, index: c_int, function: &str, min: i32, max: i32) -> Result<Option<i32>, Fail> {
    if !is_given(stack, index) {
        return Ok(None);
    }
    let value = stack.check_number(index, function)?;
    if value < f64::from(min) || value > f64::from(max) || value.is_nan() {
        let message = format!("expected integer between {min} and {max}");
        return Err(Fail::argument(index, function, &message));
    }
    Ok(Some(value as i32))
}

fn encode_sparse_array(stack: &Stack) -> Result<c_int, Fail> {
    let function = "encode_sparse_array";
    at_most(stack, function, 3)?;
    let to_object = is_given(stack, 1).then(|| stack.boolean(1));
    let ratio = integer(stack, 2, function, 0, i32::MAX)?;
    let safe = integer(stack, 3, function, 0, i32::MAX)?;
    update(stack, |settings| {
        settings.sparse_to_object = to_object.unwrap_or(settings.sparse_to_object);
        settings.sparse_ratio = ratio.unwrap_or(settings.sparse_ratio);
        settings.sparse_safe = safe.unwrap_or(settings.sparse_safe);
    });
    let settings = settings(stack);
    stack.push_boolean(settings.sparse_to_object);
    stack.push_number(settings.sparse_ratio.into());
    stack.push_number(settings.sparse_safe.into());
    Ok(3)
}

fn encode_max_depth(stack: &Stack) -> Result<c_int, Fail> {
    at_most(stack, "encode_max_depth", 1)?;
    if let Some(depth) = integer(stack, 1, "encode_max_depth", 1, i32::MAX)? {
        update(stack, |settings| settings.encode_depth = depth.unsigned_abs());
    }
    stack.push_number(settings(stack).encode_depth.into());
    Ok(1)
}

fn decode_max_depth(stack: &Stack) -> Result<c_int, Fail> {
    at_most(stack, "decode_max_depth", 1)?;
    if let Some(depth) = integer(stack, 1, "decode_max_depth", 1, i32::MAX)? {
        update(stack, |settings| settings.decode_depth = depth.unsigned_abs());
    }
    stack.push_number(settings(stack).decode_depth.into());
    Ok(1)
}

fn encode_number_precision(stack: &Stack) -> Result<c_int, Fail> {
    at_most(stack, "encode_number_precision", 1)?;
    if let Some(digits) = integer(stack, 1, "encode_number_precision", 1, 14)? {
        update(stack, |settings| settings.precision = digits.unsigned_abs());
    }
    stack.push_number(settings(stack).precision.into());
    Ok(1)
}

/// There is no buffer to keep; the setting is remembered.
fn encode_keep_buffer(stack: &Stack) -> Result<c_int, Fail> {
    at_most(stack, "encode_keep_buffer", 1)?;
    if is_given(stack, 1) {
        let is_kept = stack.boolean(1);
        update(stack, |settings| settings.is_buffer_kept = is_kept);
    }
    stack.push_boolean(settings(stack).is_buffer_kept);
    Ok(1)
}

fn encode_invalid_numbers(stack: &Stack) -> Result<c_int, Fail> {
    at_most(stack, "encode_invalid_numbers", 1)?;
    if is_given(stack, 1) {
        let invalid = match stack.string(1) {
            Some(b"on") => Invalid::Written,
            Some(b"off") => Invalid::Refused,
            Some(b"null") => Invalid::Null,
            None if stack.kind(1) == ffi::LUA_TBOOLEAN && stack.boolean(1) => Invalid::Written,
            None if stack.kind(1) == ffi::LUA_TBOOLEAN => Invalid::Refused,
            _ => return Err(Fail::argument(1, "encode_invalid_numbers", "invalid option")),
        };
        update(stack, |settings| settings.encode_invalid = invalid);
    }
    match settings(stack).encode_invalid {
        Invalid::Null => stack.push_bytes(b"null"),
        other => stack.push_boolean(other == Invalid::Written),
    }
    Ok(1)
}

fn decode_invalid_numbers(stack: &Stack) -> Result<c_int, Fail> {
    at_most(stack, "decode_invalid_numbers", 1)?;
    if is_given(stack, 1) {
        let is_accepted = match stack.string(1) {
            Some(b"on") => true,
            Some(b"off") => false,
            None if stack.kind(1) == ffi::LUA_TBOOLEAN => stack.boolean(1),
            _ => return Err(Fail::argument(1, "decode_invalid_numbers", "invalid option")),
        };
        update(stack, |settings| settings.decode_invalid = is_accepted);
    }
    stack.push_boolean(settings(stack).decode_invalid);
    Ok(1)
}

/// Another table of the same functions; the settings are the run's.
fn new(stack: &Stack) -> Result<c_int, Fail> {
    push_cjson(stack);
    Ok(1)
}
