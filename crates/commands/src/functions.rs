//! Functions of clients (<https://redis.io/docs/latest/develop/interact/programmability/functions-intro/>): FUNCTION, FCALL.
//!
//! A node has one [`Functions`], the libraries by their names; each worker compiles a library when a function of it is first called
//! there. A call is a run like that of a script ([`ScriptRun`](crate::ScriptRun)), and so is loading a library, which reaches nothing.

mod compiled;
mod library;
mod load;
mod manage;
mod payload;
mod registry;
mod versions;

pub(crate) use compiled::{Callable, CompiledLibraries};
pub(crate) use load::Loading;
pub(crate) use manage::{delete, dump, flush, help, kill, list, stats};

pub use registry::{Functions, FunctionsLimits, LibraryChange};
pub use versions::{LibraryRecord, Version as LibraryVersion};
