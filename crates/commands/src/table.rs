//! Every command, declared once. Dispatch, arity, routing by key, `COMMAND`, `COMMAND DOCS` and the README's list read this table.

use crate::check::{self, Order};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::Request;

/// What a command's function is given and answers. It writes its reply, or returns an error and has changed nothing.
pub type KeyFn = fn(&mut Shard, &Env, Request<'_>, &mut Vec<u8>) -> Result<(), CommandError>;

/// How a command is run.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// By the connection itself: it needs no shard.
    Connection,
    /// A check: parsed, then queued in the shard of its key (argument 1).
    Check(fn(&mut Shard, Request<'_>) -> Result<Order, CommandError>),
    /// In the shard of its key (argument 1).
    Key(KeyFn),
    /// In the shard of each of its keys (all arguments); the answers are summed.
    EachKey(fn(&mut Shard, &Env, &[u8]) -> Result<i64, CommandError>),
    /// Over all shards.
    Keyspace,
}

/// A command, as `COMMAND` describes it (<https://redis.io/docs/latest/commands/command/>).
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Name in lower case; for a subcommand the part after the blank.
    pub name: &'static str,
    /// Number of arguments including the name; negative: at least so many.
    pub arity: i16,
    /// Flags as `COMMAND` names them.
    pub flags: &'static [&'static str],
    /// Position of the first key, the last key (negative: from the end) and the step; zeros for none.
    pub keys: (i16, i16, i16),
    /// Group of `COMMAND DOCS`.
    pub group: &'static str,
    /// The first version that has it: Redis's for Redis's commands, ours for ours.
    pub since: &'static str,
    /// One line.
    pub summary: &'static str,
    /// How it runs. A command with subcommands finds its way itself.
    pub run: Run,
    /// Its subcommands.
    pub subcommands: &'static [Spec],
}

impl Spec {
    /// Whether that many arguments, the name included, are acceptable.
    pub fn takes(&self, args: usize) -> bool {
        let bound = usize::from(self.arity.unsigned_abs());
        if self.arity >= 0 { args == bound } else { args >= bound }
    }
}
