//! The `redis` table (alias `server`), `redis.call` and `redis.pcall` apart. Messages are those of Redis
//! (`src/script_lua.c`).

use std::ffi::{CStr, c_int};

use mlua::ffi;

use crate::call::{Call, acl_check, pcall};
use crate::host::{LogLevel, Resp};
use crate::sha1::sha1_hex;
use crate::stack::{Body, Fail, Stack};

const FUNCTIONS: [(&CStr, Body); 11] = [
    (c"pcall", pcall),
    (c"acl_check_cmd", acl_check),
    (c"error_reply", error_reply),
    (c"status_reply", status_reply),
    (c"sha1hex", sha1hex),
    (c"log", log),
    (c"setresp", setresp),
    (c"set_repl", set_repl),
    (c"replicate_commands", replicate_commands),
    (c"breakpoint", breakpoint),
    (c"debug", debug),
];

const NUMBERS: [(&CStr, f64); 10] = [
    (c"LOG_DEBUG", 0.0),
    (c"LOG_VERBOSE", 1.0),
    (c"LOG_NOTICE", 2.0),
    (c"LOG_WARNING", 3.0),
    (c"REPL_NONE", 0.0),
    (c"REPL_AOF", 1.0),
    (c"REPL_SLAVE", 2.0),
    (c"REPL_REPLICA", 2.0),
    (c"REPL_ALL", 3.0),
    // 7.2.4 as 0x00MMmmpp.
    (c"REDIS_VERSION_NUM", 0x0007_0204 as f64),
];

/// Longest string for `redis.sha1hex`, in bytes: about 20 ms.
const SHA1_BYTES_MAX: usize = 8 << 20;

/// Pushes the table.
pub(crate) fn push_redis(stack: &Stack) {
    stack.new_table(0, 1 + FUNCTIONS.len() + NUMBERS.len());
    stack.push_known::<Call>(c"call", 0);
    stack.set_field(-2, c"call");
    for (name, function) in FUNCTIONS {
        stack.push_function(function, name, 0);
        stack.set_field(-2, name);
    }
    for (name, value) in NUMBERS {
        stack.push_number(value);
        stack.set_field(-2, name);
    }
    stack.push_bytes(b"7.2.4");
    stack.set_field(-2, c"REDIS_VERSION");
}

fn fail(message: &str) -> Fail {
    Fail::Redis(format!("ERR {message}").into_bytes())
}

/// The one string that the function takes, or the error table that Redis returns (and does not raise).
fn only_string(stack: &Stack) -> Option<Vec<u8>> {
    let text = if stack.top() == 1 { stack.string(1) } else { None };
    let text = text.map(<[u8]>::to_vec);
    if text.is_none() {
        stack.push_field_table(c"err", b"ERR wrong number or type of arguments");
    }
    text
}

/// An error reply to return. Its first word is the code. A text of one word is that code alone, as up to Redis 6.2:
/// later ones put `ERR` before it, which a client that compares the text (bottleneck) does not expect.
fn error_reply(stack: &Stack) -> Result<c_int, Fail> {
    if let Some(text) = only_string(stack) {
        stack.push_field_table(c"err", &error_text(&text));
    }
    Ok(1)
}

fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    match text.strip_prefix(b"-").unwrap_or(text) {
        b"" => b"ERR ".to_vec(),
        text => text.to_vec(),
    }
}

fn status_reply(stack: &Stack) -> Result<c_int, Fail> {
    if let Some(text) = only_string(stack) {
        stack.push_field_table(c"ok", &text);
    }
    Ok(1)
}

fn sha1hex(stack: &Stack) -> Result<c_int, Fail> {
    if stack.top() != 1 {
        return Err(fail("wrong number of arguments"));
    }
    let text = stack.bytes(1).unwrap_or_default();
    if text.len() > SHA1_BYTES_MAX {
        return Err(fail("redis.sha1hex() of a string that is too large"));
    }
    let digest = sha1_hex(text);
    stack.push_bytes(digest.as_bytes());
    Ok(1)
}

fn log(stack: &Stack) -> Result<c_int, Fail> {
    let count = stack.top();
    if count < 2 {
        return Err(fail("redis.log() requires two arguments or more."));
    }
    if stack.kind(1) != ffi::LUA_TNUMBER {
        return Err(fail("First argument must be a number (log level)."));
    }
    let level = match stack.number(1).unwrap_or_default() as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(fail("Invalid debug level.")),
    };
    let mut message = Vec::new();
    for index in 2..=count {
        if let Some(part) = stack.bytes(index) {
            if !message.is_empty() {
                message.push(b' ');
            }
            message.extend_from_slice(part);
        }
    }
    stack.shared().with_host(|host| host.log(level, &message));
    Ok(0)
}

fn setresp(stack: &Stack) -> Result<c_int, Fail> {
    if stack.top() != 1 {
        return Err(fail("redis.setresp() requires one argument."));
    }
    let resp = match stack.number(1) {
        Some(2.0) => Resp::Two,
        Some(3.0) => Resp::Three,
        _ => return Err(fail("RESP version must be 2 or 3.")),
    };
    stack.shared().run.resp.set(resp);
    Ok(0)
}

/// Nothing is replicated command by command here: a choice that exists is accepted.
fn set_repl(stack: &Stack) -> Result<c_int, Fail> {
    if stack.top() != 1 {
        return Err(fail("redis.set_repl() requires two arguments."));
    }
    match stack.number(1) {
        Some(0.0 | 1.0 | 2.0 | 3.0) => Ok(0),
        _ => Err(fail(
            "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        )),
    }
}

fn replicate_commands(stack: &Stack) -> Result<c_int, Fail> {
    stack.push_boolean(true);
    Ok(1)
}

/// No debugger is attached.
fn breakpoint(stack: &Stack) -> Result<c_int, Fail> {
    stack.push_boolean(false);
    Ok(1)
}

fn debug(_: &Stack) -> Result<c_int, Fail> {
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::error_text;

    #[test]
    fn an_error_reply_has_a_code() {
        for (text, reply) in [
            ("MY err", "MY err"),
            ("-MY err\r\n", "MY err"),
            ("SETTINGS_KEY_NOT_FOUND", "SETTINGS_KEY_NOT_FOUND"),
            ("-CODE", "CODE"),
            ("key does not exist", "key does not exist"),
            ("", "ERR "),
        ] {
            assert_eq!(error_text(text.as_bytes()), reply.as_bytes(), "{text}");
        }
    }
}
