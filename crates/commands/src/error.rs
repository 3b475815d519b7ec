//! The errors that commands answer, with Redis's texts where Redis has them.

use thiserror::Error;
use tollgate_limiter::{AmountError, DurationError, QuotaError};

/// Why a command was refused. The text is what the client reads, starting with the code that clients act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandError {
    /// Too few or too many arguments.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(String),
    /// Options that make no sense.
    #[error("ERR syntax error")]
    Syntax,
    /// An option that the command does not have.
    #[error("ERR syntax error: unknown option '{0}'")]
    UnknownOption(String),
    /// An option given twice, or together with one that excludes it.
    #[error("ERR syntax error: {0}")]
    Conflict(&'static str),
    /// Not an integer where one is needed.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// A limit, burst, cost or amount out of range.
    #[error("ERR {0}")]
    Amount(#[from] AmountError),
    /// A malformed or too long duration.
    #[error("ERR PER {0}")]
    Per(#[from] DurationError),
    /// BURST for a policy that has none.
    #[error("ERR {0}")]
    Burst(#[from] QuotaError),
    /// No policy of that name.
    #[error("ERR unknown policy '{0}'")]
    UnknownPolicy(String),
    /// No rule of that id.
    #[error("ERR unknown rule '{0}'")]
    UnknownRule(String),
    /// The policy lacks what the command needs.
    #[error("ERR policy '{policy}' has no '{function}'")]
    PolicyLacks {
        /// The policy's name.
        policy: String,
        /// The function that its file does not define.
        function: &'static str,
    },
    /// The live bucket has another policy.
    #[error("WRONGTYPE bucket has policy '{live}', not '{asked}'; RL.RESET it first")]
    OtherPolicy {
        /// The policy of the live bucket.
        live: String,
        /// The policy that the command named.
        asked: String,
    },
    /// The policy failed; the bucket is as it was.
    #[error("ERR policy '{policy}' failed: {reason}")]
    PolicyFault {
        /// The policy's name.
        policy: String,
        /// What happened, in one line.
        reason: String,
    },
    /// Every interned limit of the shard is in use.
    #[error("BUSY too many different limits in use, at most {0} a shard")]
    TooManyLimits(usize),
    /// No memory for a new key.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    /// A key longer than the store takes.
    #[error("ERR key is longer than {0} bytes")]
    KeyTooLong(usize),
    /// Any other refusal.
    #[error("ERR {0}")]
    Other(String),
}

impl CommandError {
    /// Text from a client, made printable and short enough to put into an error.
    pub fn quote(bytes: &[u8]) -> String {
        const SHOWN_MAX: usize = 64;
        let shown = &bytes[..bytes.len().min(SHOWN_MAX)];
        shown.escape_ascii().to_string()
    }
}
