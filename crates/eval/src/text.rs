//! Functions on strings that replace Luau's: its plain search compares at every place, 3.4 s for one megabyte in another;
//! its joining leaves each buffer that it outgrows to the garbage collector, three times the result.

use std::ffi::c_int;

use mlua::ffi;

use crate::decimal::decimal;
use crate::number::truncate;
use crate::stack::{Fail, Known, Stack};

/// A pattern with none of these is searched as it is.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// `string.find(text, pattern, init, plain)`; the first upvalue is Luau's own.
pub(crate) fn find(stack: &Stack) -> Result<c_int, Fail> {
    let text = stack.check_bytes(1, "find")?;
    let pattern = stack.check_bytes(2, "find")?;
    let is_plain = stack.boolean(4) || !pattern.iter().any(|byte| SPECIALS.contains(byte));
    if !is_plain {
        let arguments = stack.top();
        stack.require(1);
        stack.push_copy(Stack::upvalue(1));
        stack.insert(1);
        stack.call(arguments, -1);
        return Ok(stack.top());
    }
    let init = stack.number_or(3, "find", 1.0)?.trunc();
    let len = text.len() as f64;
    let start = if init < 0.0 { len + init } else { init - 1.0 };
    let start = start.clamp(0.0, len) as usize;
    match memchr::memmem::find(&text[start..], pattern) {
        Some(at) => {
            stack.push_number((start + at + 1) as f64);
            stack.push_number((start + at + pattern.len()) as f64);
            Ok(2)
        }
        None => {
            stack.push_nil();
            Ok(1)
        }
    }
}

/// `string.sub(text, from, to)`: Luau takes its places for 32 bits, so that the end of `sub(1, 2^32)` is lost.
pub(crate) fn sub(stack: &Stack) -> Result<c_int, Fail> {
    let text = stack.check_bytes(1, "sub")?;
    let len = text.len() as i64;
    let place = |number: f64| match truncate(number) {
        place if place < 0 => place + len + 1,
        place => place,
    };
    let from = place(stack.check_number(2, "sub")?).max(1);
    let to = place(stack.number_or(3, "sub", -1.0)?).min(len);
    if from <= to {
        // Both are from 1 to the length.
        stack.push_bytes(&text[from as usize - 1..to as usize]);
    } else {
        stack.push_bytes(b"");
    }
    Ok(1)
}

/// Longest string that one call makes (`string.rep`, `table.concat`, `cjson.encode`, `cmsgpack.pack`, `struct.pack`), in bytes: about 10 ms.
pub(crate) const STRING_BYTES_MAX: usize = 16 << 20;

/// `table.concat(list, separator, from, to)`
pub(crate) fn concat(stack: &Stack) -> Result<c_int, Fail> {
    if !stack.is_table(1) {
        let message = format!("table expected, got {}", stack.kind_name(1));
        return Err(Fail::argument(1, "concat", &message));
    }
    stack.set_top(4);
    let separator = match stack.kind(2) {
        ffi::LUA_TNIL => b"",
        _ => stack.check_bytes(2, "concat")?,
    };
    let from = stack.number_or(3, "concat", 1.0)? as c_int;
    let to = match stack.kind(4) {
        ffi::LUA_TNIL => stack.length(1) as c_int,
        _ => stack.check_number(4, "concat")? as c_int,
    };
    let mut out = Vec::new();
    for item in from..=to {
        stack.get_item(1, item);
        let Some(text) = stack.bytes(-1) else {
            let kind = stack.kind_name(-1);
            return Err(Fail::text(format!(
                "invalid value ({kind}) at index {item} in table for 'concat'"
            )));
        };
        if out.len() + text.len() + separator.len() > STRING_BYTES_MAX {
            return Err(Fail::text("resulting string too large"));
        }
        out.extend_from_slice(text);
        if item != to {
            out.extend_from_slice(separator);
        }
        stack.pop(1);
    }
    stack.push_bytes(&out);
    Ok(1)
}

/// `string.rep(text, count)`; the first upvalue is Luau's own.
pub(crate) fn rep(stack: &Stack) -> Result<c_int, Fail> {
    let bytes = stack.check_bytes(1, "rep")?.len();
    let count = stack.check_number(2, "rep")?.max(0.0);
    if bytes as f64 * count > STRING_BYTES_MAX as f64 {
        return Err(Fail::text("resulting string too large"));
    }
    stack.set_top(2);
    stack.push_copy(Stack::upvalue(1));
    stack.insert(1);
    stack.call(2, 1);
    Ok(1)
}

/// `tonumber(value, base)`; the first upvalue is Luau's own, which reads numbers with C's `strtod`: seven times as expensive.
pub(crate) struct ToNumber;

impl Known for ToNumber {
    fn call(stack: &Stack) -> Result<c_int, Fail> {
        let arguments = stack.top();
        if arguments == 1 {
            if let Some(number) = stack.string(1).and_then(decimal).or_else(|| stack.number(1)) {
                stack.push_number(number);
                return Ok(1);
            }
            stack.push_nil();
            return Ok(1);
        }
        // An error of Luau's own function would name no place, since it is called from here.
        if arguments == 0 {
            return Err(Fail::argument(1, "tonumber", "value expected"));
        }
        let base = truncate(stack.number_or(2, "tonumber", 10.0)?);
        if !(2..=36).contains(&base) {
            return Err(Fail::argument(2, "tonumber", "base out of range"));
        }
        if base != 10 {
            stack.check_bytes(1, "tonumber")?;
        }
        stack.require(1);
        stack.push_copy(Stack::upvalue(1));
        stack.insert(1);
        stack.call(arguments, 1);
        Ok(1)
    }
}
