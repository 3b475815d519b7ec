//! What a run runs.

use super::FIRST;
use crate::CommandError;
use crate::functions::{Callable, Functions, Loading};
use crate::scripts::ScriptCommand;
use crate::scripts::host::{Compiled, ScriptHost};
use crate::scripts::registry::{RunKind, Scripts};
use std::rc::Rc;
use tollgate_eval::ScriptFlags;
use tollgate_protocol::{Request, parse_integer};

/// What runs.
pub(super) enum Program {
    Script(Rc<Compiled>),
    Function(Callable),
    Load(Box<Loading>),
}

impl Program {
    /// What a request asks for, how many keys it names, and whether it may only read.
    ///
    /// # Errors
    /// As [`ScriptRun::new`](super::ScriptRun::new).
    pub(super) fn of(
        host: &mut ScriptHost,
        (scripts, functions): (&Scripts, &Functions),
        command: ScriptCommand,
        request: Request<'_>,
    ) -> Result<(Self, usize, bool), CommandError> {
        let (program, keys) = match command {
            ScriptCommand::Fcall | ScriptCommand::FcallRo => {
                let callable = host.function(functions, request.arg(1))?;
                let keys = count_keys(request, CommandError::Refused("Bad number of keys provided"))?;
                (Self::Function(callable), keys)
            }
            ScriptCommand::FunctionLoad | ScriptCommand::FunctionRestore => {
                (Self::Load(Box::new(Loading::new(functions, command, request)?)), 0)
            }
            ScriptCommand::Eval | ScriptCommand::EvalSha | ScriptCommand::EvalRo | ScriptCommand::EvalShaRo => {
                let keys = count_keys(request, CommandError::NotAnInteger)?;
                (Self::Script(host.script(scripts, command, request)?), keys)
            }
        };
        let flags = program.flags();
        let no_writes = flags.is_some_and(ScriptFlags::no_writes);
        if command.is_read_only() && flags.is_some() && !no_writes {
            return Err(CommandError::Refused(
                "Can not execute a script with write flag using *_ro command.",
            ));
        }
        Ok((program, keys, command.is_read_only() || no_writes))
    }

    /// What errors and the log call it.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Script(compiled) => compiled.source.sha1(),
            Self::Function(callable) => &callable.function().name,
            Self::Load(_) => "",
        }
    }

    /// The function that is called, if one is.
    pub(super) fn function(&self) -> Option<&str> {
        match self {
            Self::Function(callable) => Some(&callable.function().name),
            Self::Script(_) | Self::Load(_) => None,
        }
    }

    /// What it declares, if that counts.
    fn flags(&self) -> Option<ScriptFlags> {
        match self {
            Self::Script(compiled) => compiled.source.flags,
            Self::Function(callable) => Some(callable.function().flags),
            Self::Load(_) => None,
        }
    }

    pub(super) fn kind(&self, request: Request<'_>) -> RunKind {
        match self {
            Self::Script(_) => RunKind::Script,
            Self::Function(callable) => RunKind::function(&callable.function().name, request),
            Self::Load(_) => RunKind::Load,
        }
    }
}

/// How many keys a request names.
fn count_keys(request: Request<'_>, not_a_number: CommandError) -> Result<usize, CommandError> {
    let keys = parse_integer(request.arg(2)).ok_or(not_a_number)?;
    if keys > (request.len() - FIRST) as i64 {
        return Err(CommandError::Refused(
            "Number of keys can't be greater than number of args",
        ));
    }
    usize::try_from(keys).map_err(|_| CommandError::Refused("Number of keys can't be negative"))
}
