//! What can go wrong: with a file ([`PolicyError`]), with one call of a policy ([`PolicyFault`]), with a bound.

use std::path::PathBuf;

use thiserror::Error;

/// Why a policy file, or a set of them, was refused. The text says which file and what is wrong in one line.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// The file or directory could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The text is no policy: it does not compile, fails when it is loaded, or a member is missing or wrong.
    #[error("{file}: {message}")]
    Invalid {
        /// The file's name, with `.lua`.
        file: String,
        /// What is wrong, with the line where there is one.
        message: String,
    },
    /// A bound of the host, or the interpreter itself, refused.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A bound or an internal failure of the host itself, never the fault of one policy.
#[derive(Debug, Error)]
pub enum HostError {
    /// The interpreter could not be set up.
    #[error("Luau: {0}")]
    Luau(String),
    /// More policies, replaced versions included, than [`crate::PolicyLimits::policies_max`].
    #[error("more than {max} policies are loaded (versions replaced since the start included)")]
    TooManyPolicies {
        /// The bound.
        max: usize,
    },
}

impl From<mlua::Error> for HostError {
    fn from(error: mlua::Error) -> Self {
        HostError::Luau(first_line(&error.to_string()).to_owned())
    }
}

/// Every interned parameter set is in use by a stored bucket: [`crate::PolicyLimits::max_params`] distinct ones are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("more than {max} distinct limits are in use")]
pub struct TooManyParams {
    /// The bound.
    pub max: usize,
}

/// One call of a policy failed; the state it was given is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("policy {policy}: {fault}")]
pub struct PolicyFault {
    /// The policy's name.
    pub policy: String,
    /// What happened.
    pub fault: Fault,
}

/// How a call of a policy failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The file raised an error; the text is its message.
    #[error("{0}")]
    Error(String),
    /// The call ran longer than [`crate::PolicyLimits::budget_us`] and was stopped.
    #[error("stopped after its budget of {budget_us} us")]
    Budget {
        /// The budget, in microseconds.
        budget_us: u64,
    },
    /// The call needed more than [`crate::PolicyLimits::memory_bytes`].
    #[error("needs more memory than its cap of {cap_bytes} bytes")]
    Memory {
        /// The cap, in bytes.
        cap_bytes: usize,
    },
    /// A function returned something that its contract excludes.
    #[error("{0}")]
    BadResult(String),
    /// The policy has no such function; the caller must refuse the operation by this name.
    #[error("has no {0}")]
    Lacks(&'static str),
    /// States under this limit could be larger than [`crate::PolicyLimits::state_bytes_max`]. The limit is at fault, not the policy.
    #[error("a state under this limit may take {bytes} bytes, and at most {max} are allowed")]
    LimitTooLarge {
        /// What the policy says, in bytes.
        bytes: usize,
        /// What is allowed, in bytes.
        max: usize,
    },
    /// A stored state is larger than its parameters allow or does not have the policy's form.
    #[error("a state of {bytes} bytes where {max} are allowed")]
    StateSize {
        /// The state's size, in bytes.
        bytes: usize,
        /// What is allowed, in bytes.
        max: usize,
    },
}

/// The first line of an interpreter's message: what follows is its stack trace.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}
