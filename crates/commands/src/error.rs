//! The errors that commands answer, with Redis's texts where Redis has them.

use crate::{FunctionsLimits, ScriptsLimits};
use thiserror::Error;
use tollgate_limiter::{AmountError, DurationError, QuotaError};
use tollgate_protocol::{Proto, ReplyWriter, Request};

/// Why a command was refused. The text is what the client reads, starting with the code that clients act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandError {
    /// Too few or too many arguments.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(String),
    /// No command of that name.
    #[error("ERR unknown command '{name}', with args beginning with: {args}")]
    UnknownCommand {
        /// The name, shortened.
        name: String,
        /// The first arguments, each quoted and followed by a blank.
        args: String,
    },
    /// A command that has subcommands, but not that one.
    #[error("ERR unknown subcommand '{name}'. Try {container} HELP.")]
    UnknownSubcommand {
        /// What was asked for, shortened.
        name: String,
        /// The command, in upper case.
        container: String,
    },
    /// The connection must authenticate first.
    #[error("NOAUTH Authentication required.")]
    NoAuth,
    /// HELLO without AUTH on a connection that must authenticate first.
    #[error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
         option can be used to authenticate the client and select the RESP protocol version at the same time"
    )]
    NoAuthHello,
    /// A wrong user name or password.
    #[error("WRONGPASS invalid username-password pair or user is disabled.")]
    WrongPass,
    /// A version of RESP that is neither 2 nor 3.
    #[error("NOPROTO unsupported protocol version")]
    NoProto,
    /// What only a cluster has.
    #[error("ERR This instance has cluster support disabled")]
    ClusterDisabled,
    /// Options that make no sense.
    #[error("ERR syntax error")]
    Syntax,
    /// An option that the command does not have.
    #[error("ERR syntax error: unknown option '{0}'")]
    UnknownOption(String),
    /// An option without the value that belongs to it.
    #[error("ERR syntax error: {0} needs a value")]
    NoValue(String),
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
    /// BURST for a policy that has none, or a LIMIT above the largest that it takes.
    #[error("ERR {0}")]
    Quota(#[from] QuotaError),
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
    /// The key holds a value of another type, or a bucket where a value is asked for, or the other way round.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
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
    /// A string that would become longer than the node takes.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    /// More random elements, of which one may come again, than one command may answer.
    #[error("ERR too many random elements, at most {0}")]
    TooManyPicks(usize),
    /// More keys than one command may wait for.
    #[error("ERR too many keys to wait for, at most {0}")]
    TooManyAwaited(usize),
    /// A write of a script, or of a transaction with scripts, whose writes up to now take so much to be taken back that there is no room
    /// for more.
    #[error("ERR too much was written to be taken back, at most {0} bytes")]
    UndoFull(usize),
    /// The offset of a bit that is no integer, is negative, or is one that no string is long enough for.
    #[error("ERR bit offset is not an integer or out of range")]
    BitOffset {
        /// Whether it is only too large.
        beyond_bound: bool,
    },
    /// A pattern, or several together, longer than the node takes.
    #[error("ERR pattern is longer than {0} bytes")]
    PatternTooLong(usize),
    /// The node cannot keep what the policy would need under the limit that was given.
    #[error("ERR LIMIT is too large for policy '{policy}': {reason}")]
    LimitRefused {
        /// The policy's name.
        policy: String,
        /// Why, in one line.
        reason: String,
    },
    /// EXPIRE with a time at which the bucket is not full again: to drop it then would grant tokens.
    #[error("ERR the bucket is full again in {full_in_ms} ms and cannot expire sooner; DEL or RL.RESET resets it")]
    ExpireTooSoon {
        /// When it is full, in milliseconds from now.
        full_in_ms: u64,
    },
    /// More keys match than KEYS may answer.
    #[error("ERR too many keys match, use SCAN")]
    TooManyKeys,
    /// A script that is not known.
    #[error("NOSCRIPT No matching script. Please use EVAL.")]
    NoScript,
    /// SCRIPT KILL or FUNCTION KILL while nothing runs.
    #[error("NOTBUSY No scripts in execution right now.")]
    NotBusy,
    /// SCRIPT KILL while only functions run, or FUNCTION KILL while only scripts do.
    #[error("BUSY Redis is busy running a script. You can only call {0} KILL or SHUTDOWN NOSAVE.")]
    OtherRuns(&'static str),
    /// A script's own error, with its code in front; it need not be UTF-8.
    #[error("{}", String::from_utf8_lossy(.0))]
    Script(Vec<u8>),
    /// More scripts, or longer ones, than the node keeps.
    #[error("ERR too many scripts, at most {} of {} bytes together; SCRIPT FLUSH forgets them", .0.scripts, .0.bytes)]
    TooManyScripts(ScriptsLimits),
    /// More libraries of functions, or larger ones, than the node keeps.
    #[error(
        "ERR too many libraries of functions, at most {} of {} bytes together; FUNCTION DELETE and FUNCTION FLUSH forget them",
        .0.libraries,
        .0.bytes
    )]
    TooManyLibraries(FunctionsLimits),
    /// A connection that wants to listen to more than it may.
    #[error("ERR too many subscriptions, at most {0} a connection")]
    TooManySubscriptions(usize),
    /// A message for a worker that has not sent the ones before.
    #[error("BUSY subscribers are too far behind, try again")]
    SubscribersBehind,
    /// CLIENT UNBLOCK with ERROR.
    #[error("UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    Unblocked,
    /// EXEC of a transaction in which a command was refused.
    #[error("EXECABORT Transaction discarded because of previous errors.")]
    ExecAbort,
    /// The keys of a command could not be had in time; nothing was done.
    #[error("TRYAGAIN the keys of the command were in use for too long, try again")]
    TryAgain,
    /// Not all keys of a command, a transaction or a script are at the node that runs it; nothing was done.
    #[error("CROSSSLOT not all keys of the command are at one node of the cluster")]
    OtherNode,
    /// Nobody has the slot of a key of a command, a transaction or a script; nothing was done.
    #[error("CLUSTERDOWN no node that answers has the slots of all keys")]
    NoHolder,
    /// A node that has lent keys has not taken back what a command, a transaction or a script has made of them.
    #[error("CLUSTERDOWN a node that has lent keys has not taken them back; the command may have been done in part")]
    Torn,
    /// An error of another node, with its code in front.
    #[error("{0}")]
    OfNode(String),
    /// Keys, or channels, of several slots on the face of Redis Cluster.
    #[error("CROSSSLOT Keys in request don't hash to the same slot")]
    CrossSlot,
    /// Another node has the slot.
    #[error("MOVED {slot} {address}")]
    Moved {
        /// The slot.
        slot: u16,
        /// Where clients reach that node: host, colon, port.
        address: String,
    },
    /// A refusal with a text of its own, as Redis words it.
    #[error("ERR {0}")]
    Refused(&'static str),
    /// Any other refusal.
    #[error("ERR {0}")]
    Other(String),
}

impl CommandError {
    /// A subcommand with more arguments than it takes, of those for which Redis says so itself.
    pub(crate) fn wrong_subcommand(request: Request<'_>) -> Self {
        let [container, name] = [0, 1].map(|at| Self::quote(request.arg(at)));
        let container = container.to_ascii_uppercase();
        Self::Other(format!(
            "unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
        ))
    }

    /// Text from a client, made printable and short enough to put into an error.
    pub fn quote(bytes: &[u8]) -> String {
        const SHOWN_MAX: usize = 64;
        let shown = &bytes[..bytes.len().min(SHOWN_MAX)];
        shown.escape_ascii().to_string()
    }
}

impl CommandError {
    /// Writes it as an error reply.
    pub fn write(&self, out: &mut Vec<u8>, proto: Proto) {
        let text = self.to_string();
        // Every text starts with a code and a blank.
        let (code, rest) = text.split_once(' ').unwrap_or(("ERR", &text));
        ReplyWriter::new(out, proto).error(code, rest);
    }
}
