//! `redis.call` and `redis.pcall`.

use std::ffi::c_int;

use mlua::ffi;
use tollgate_protocol::{ArgRange, Request};

use crate::host::HostAnswer;
use crate::number::write_general;
use crate::shared::{Kill, Shared};
use crate::stack::{Fail, Known, Stack};
use crate::to_lua::push_reply;

/// The arguments of one command.
#[derive(Default)]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
    ranges: Vec<ArgRange>,
}

impl Arguments {
    /// Empties it; what many large ones needed is given back.
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.ranges.clear();
        self.ranges.shrink_to(KEPT_BYTES_MAX / size_of::<ArgRange>());
    }

    /// Takes the first `count` values of the stack, or gives the text of the error.
    fn collect(&mut self, stack: &Stack, count: c_int, shared: &Shared) -> Result<(), Vec<u8>> {
        debug_assert!(self.ranges.is_empty());
        for index in 1..=count {
            let start = self.bytes.len();
            let string = stack.string(index);
            // One string may be given many times.
            let bytes = start + string.map_or(0, <[u8]>::len);
            if bytes > KEPT_BYTES_MAX
                && let Some(admitted) = shared.with_host(|host| host.admit_arguments(bytes))
            {
                admitted?;
            }
            match string {
                Some(string) => self.bytes.extend_from_slice(string),
                // Not Lua's conversion, which may be short of digits: `%.17g`, as Redis.
                None if stack.kind(index) == ffi::LUA_TNUMBER => {
                    write_general(&mut self.bytes, stack.number(index).unwrap_or_default(), 17);
                }
                None => return Err(b"ERR Lua redis lib command arguments must be strings or integers".to_vec()),
            }
            self.end(start);
        }
        Ok(())
    }

    /// Says that an argument ends here which began there. All of them together are below 4 GiB: the host was asked.
    #[inline]
    fn end(&mut self, start: usize) {
        debug_assert!(u32::try_from(self.bytes.len()).is_ok());
        self.ranges.push(ArgRange {
            start: start as u32,
            end: self.bytes.len() as u32,
        });
    }
}

/// Bytes of memory that is kept for the next call; of more arguments the host is asked whether they are too many.
const KEPT_BYTES_MAX: usize = 64 * 1024;

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
    let mut arguments = shared.arguments.borrow_mut();
    let arguments = &mut *arguments;
    if let Err(error) = arguments.collect(stack, count, shared) {
        arguments.clear();
        return Ok(Some(error));
    }
    let request = Request::new(&arguments.bytes, &arguments.ranges);
    let mut tape = shared.tape.borrow_mut();
    tape.clear();
    let resp = shared.run.resp.get();
    let answer = shared.with_host(|host| host.call(request, resp, &mut tape));
    arguments.clear();
    // Many that are short by themselves may be long together.
    shared.look_soon();
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
