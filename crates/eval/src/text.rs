//! `string.find`: Luau's plain search compares at every place, 3.4 s for one megabyte in another.

use std::ffi::c_int;

use crate::stack::{Fail, Stack};

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
