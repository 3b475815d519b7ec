//! `redis.call` and `redis.pcall`.

use std::ffi::c_int;

use mlua::ffi;

use crate::host::HostAnswer;
use crate::number::write_general;
use crate::shared::Kill;
use crate::stack::{Fail, Known, Stack};
use crate::to_lua::push_reply;

/// Numbers given as arguments, as text.
#[derive(Default)]
pub(crate) struct Arguments {
    text: Vec<u8>,
    /// Which argument it is, and where its text ends.
    ends: Vec<(c_int, usize)>,
}

impl Arguments {
    /// Empties it; what many large ones needed is given back.
    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES_MAX);
        self.ends.clear();
        self.ends.shrink_to(KEPT_BYTES_MAX / size_of::<(c_int, usize)>());
    }
}

/// Bytes of memory that is kept for the next call.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Arguments that are put together without an allocation.
const ARGUMENTS_INLINE: usize = 32;

/// `redis.call`: an error of the command is raised.
pub(crate) struct Call;

impl Known for Call {
    fn call(stack: &Stack) -> Result<c_int, Fail> {
        match execute(stack)? {
            Some(error) => Err(Fail::Redis(error)),
            None => Ok(1),
        }
    }
}

/// `redis.pcall`: an error of the command is returned as a table.
pub(crate) fn pcall(stack: &Stack) -> Result<c_int, Fail> {
    if let Some(error) = execute(stack)? {
        stack.push_field_table(c"err", &error);
    }
    Ok(1)
}

/// Pushes the reply, or gives the text of the error.
fn execute(stack: &Stack) -> Result<Option<Vec<u8>>, Fail> {
    let count = stack.top();
    if count == 0 {
        return Ok(Some(
            b"ERR Please specify at least one argument for this redis lib call".to_vec(),
        ));
    }
    let shared = stack.shared();
    // The host does not come back here: a script is not started by a command of a script.
    let mut numbers = shared.arguments.borrow_mut();
    numbers.clear();
    // Numbers first: while they are written, their texts may move.
    for index in 1..=count {
        match stack.kind(index) {
            ffi::LUA_TSTRING => {}
            ffi::LUA_TNUMBER => {
                // Not Lua's conversion, which may be short of digits: `%.17g`, as Redis.
                write_general(&mut numbers.text, stack.number(index).unwrap_or_default(), 17);
                let end = numbers.text.len();
                numbers.ends.push((index, end));
            }
            _ => {
                return Ok(Some(
                    b"ERR Lua redis lib command arguments must be strings or integers".to_vec(),
                ));
            }
        }
    }
    let (mut written, mut start) = (numbers.ends.iter().peekable(), 0);
    let mut argument = |index| -> &[u8] {
        match written.next_if(|&&(of, _)| of == index) {
            Some(&(_, end)) => &numbers.text[std::mem::replace(&mut start, end)..end],
            // It is no number, so it is a string.
            None => stack.string_bytes(index),
        }
    };
    let mut tape = shared.tape.borrow_mut();
    tape.clear();
    let resp = shared.run.resp.get();
    let answer = if count as usize <= ARGUMENTS_INLINE {
        let mut arguments: [&[u8]; ARGUMENTS_INLINE] = [&[]; ARGUMENTS_INLINE];
        for index in 1..=count {
            arguments[index as usize - 1] = argument(index);
        }
        shared.with_host(|host| host.call(&arguments[..count as usize], resp, &mut tape))
    } else {
        let arguments: Vec<&[u8]> = (1..=count).map(argument).collect();
        shared.with_host(|host| host.call(&arguments, resp, &mut tape))
    };
    match answer {
        Some(HostAnswer::Replied) => {}
        Some(HostAnswer::TooLong) => return Err(shared.kill(Kill::Step)),
        Some(HostAnswer::Elsewhere) => return Err(shared.kill(Kill::Retry)),
        None => return Ok(Some(b"ERR redis.call cannot be used here".to_vec())),
    }
    if let Some(error) = tape.error_text() {
        return Ok(Some(error.to_vec()));
    }
    push_reply(stack, &tape, resp)?;
    // A large one is not kept until the next call.
    tape.clear();
    Ok(None)
}

/// `redis.acl_check_cmd`
pub(crate) fn acl_check(stack: &Stack) -> Result<c_int, Fail> {
    let count = stack.top();
    if count == 0 {
        return Err(Fail::Redis(
            b"ERR Please specify at least one argument for this redis.acl_check_cmd() call".to_vec(),
        ));
    }
    let mut arguments = Vec::new();
    for index in 1..=count {
        arguments.push(stack.bytes(index).ok_or_else(|| {
            Fail::Redis(b"ERR redis.acl_check_cmd() require only string or integer arguments".to_vec())
        })?);
    }
    match stack.shared().with_host(|host| host.may_call(&arguments)).flatten() {
        Some(may) => {
            stack.push_boolean(may);
            Ok(1)
        }
        None => Err(Fail::Redis(
            b"ERR Invalid command passed to redis.acl_check_cmd()".to_vec(),
        )),
    }
}
