//! Commands that are kept for later: on their way to another shard, or until EXEC.

use crate::{Env, Spec};
use tollgate_protocol::{ArgRange, Proto, Request};

/// Commands copied out of the buffer that they were read to.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    args: Vec<ArgRange>,
    commands: Vec<BatchCommand>,
    /// When the first of them was asked for.
    asked_us: u64,
}

#[derive(Debug, Clone, Copy)]
struct BatchCommand {
    spec: &'static Spec,
    /// Index of the first argument in `args`.
    first_arg: u32,
    arg_count: u32,
    db: u8,
    proto: Proto,
}

/// Bytes of arguments that a batch may hold besides its last command; positions are 32 bits wide.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

impl Batch {
    /// Adds a command.
    pub fn push(&mut self, spec: &'static Spec, env: &Env, request: Request<'_>) {
        self.push_args(spec, env, request.iter());
    }

    /// Adds a command given by its arguments.
    pub fn push_args<'a>(&mut self, spec: &'static Spec, env: &Env, args: impl Iterator<Item = &'a [u8]>) {
        if self.commands.is_empty() {
            self.asked_us = env.now_us;
        }
        let first_arg = self.args.len();
        for arg in args {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            // is_full keeps positions below BATCH_BYTES_MAX plus one request, and requests below 4 GiB minus that; a transaction has a
            // bound below 4 GiB.
            self.args.push(ArgRange {
                start: start as u32,
                end: self.bytes.len() as u32,
            });
        }
        let arg_count = (self.args.len() - first_arg) as u32;
        self.commands.push(BatchCommand {
            spec,
            first_arg: first_arg as u32,
            arg_count,
            db: env.db,
            proto: env.proto,
        });
    }

    /// Bytes that it takes: of all arguments, and what there is to know of them.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.args) + size_of_val(&*self.commands)
    }

    /// Empties it; it keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.args.clear();
        self.commands.clear();
    }

    /// The time of the first command's circumstances, by the node's clock in microseconds: when it was asked for.
    pub fn asked_us(&self) -> u64 {
        self.asked_us
    }

    /// Number of commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there is no command in it.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether it should be sent before another command is added.
    pub fn is_full(&self, commands_max: usize) -> bool {
        self.commands.len() >= commands_max || self.bytes.len() >= BATCH_BYTES_MAX
    }

    /// The command of that index: what runs, for which database and protocol, with which arguments.
    pub fn get(&self, index: usize) -> Option<(&'static Spec, u8, Proto, Request<'_>)> {
        let command = self.commands.get(index)?;
        let first = command.first_arg as usize;
        let args = &self.args[first..first + command.arg_count as usize];
        Some((command.spec, command.db, command.proto, Request::new(&self.bytes, args)))
    }
}
