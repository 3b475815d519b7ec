//! What a script reaches of the world: commands, and the log.

use tollgate_protocol::Request;

use crate::library::Registration;
use crate::tape::Tape;

/// Which conversions a script asked for with `redis.setresp`; every run begins with [`Resp::Two`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resp {
    /// RESP2: nil is false, maps and sets are arrays.
    #[default]
    Two,
    /// RESP3.
    Three,
}

/// How a command of a script went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// The reply, or the error, is on the tape.
    Replied,
    /// The command went on for longer than a step may, and was broken off: the run is over, whatever the script does.
    TooLong,
    /// A key of the command is elsewhere: the run ends with [`crate::Outcome::Retry`], whatever the script does, and has
    /// to be started anew.
    Elsewhere,
}

/// The levels of `redis.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// What `redis.set_repl` was told, and what `redis.acl_check_cmd` asks, has no meaning here; the rest is this.
pub trait Host {
    /// Executes a command: its name and its arguments, at least one. Writes exactly one reply to `reply`, an error
    /// (with its code, as `ERR no such key`) included. The tape converts what the script's protocol lacks, so rich
    /// types may be written always; `resp` says which the command's reply should have where that differs.
    fn call(&mut self, request: Request<'_>, resp: Resp, reply: &mut Tape) -> HostAnswer;

    /// Whether the arguments of one command may take so many bytes together; asked when they are many. It is below 2^32 where it
    /// answers that they may.
    ///
    /// # Errors
    /// The command is refused, with this text.
    fn admit_arguments(&mut self, bytes: usize) -> Result<(), Vec<u8>> {
        match u32::try_from(bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(b"ERR the arguments of a command are too long".to_vec()),
        }
    }

    /// Whether the user may execute this command, for `redis.acl_check_cmd`; `None` if there is no such command.
    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool>;

    /// A line that the script logs.
    fn log(&mut self, level: LogLevel, message: &[u8]);

    /// A library registers a function: while it is loaded, and again before one is called. Answers whether this is the function
    /// that is to be called.
    ///
    /// # Errors
    /// The library is refused, with this text.
    fn register(&mut self, function: &Registration<'_>) -> Result<bool, String> {
        let _ = function;
        Ok(false)
    }
}
