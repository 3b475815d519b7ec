//! Scripts of clients (<https://redis.io/docs/latest/develop/interact/programmability/eval-intro/>): EVAL and its kin, SCRIPT; and the
//! runs of functions.
//!
//! A node has one [`Scripts`], the texts by their SHA-1; each worker a [`ScriptHost`] that compiles and runs them. A [`ScriptRun`] goes on
//! in slices on one shard, and says what it needs when a key that it asks for is held or elsewhere: then it is taken back as if it had
//! not begun, and starts anew once the keys are there, with the same time.

mod call;
mod host;
mod manage;
mod names;
mod registry;
mod run;
mod touched;
mod wire;

pub(crate) use call::log;
pub(crate) use manage::{exists, flush, help, kill, load};
pub(crate) use registry::{RunKind, Running};

pub use host::{ScriptHost, ScriptLimits};
pub use names::Names;
pub use registry::{ScriptSource, Scripts, ScriptsLimits};
pub use run::{KeyNeed, Needs, ScriptBound, ScriptRun, ScriptStep};

/// The commands that run a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptCommand {
    /// `EVAL`
    Eval,
    /// `EVALSHA`
    EvalSha,
    /// `EVAL_RO`
    EvalRo,
    /// `EVALSHA_RO`
    EvalShaRo,
    /// `FCALL`
    Fcall,
    /// `FCALL_RO`
    FcallRo,
    /// `FUNCTION LOAD`
    FunctionLoad,
    /// `FUNCTION RESTORE`
    FunctionRestore,
}

impl ScriptCommand {
    /// Whether the script is named by its SHA-1.
    fn is_by_sha(self) -> bool {
        matches!(self, Self::EvalSha | Self::EvalShaRo)
    }

    /// Whether it may only read.
    fn is_read_only(self) -> bool {
        matches!(self, Self::EvalRo | Self::EvalShaRo | Self::FcallRo)
    }
}
