//! The environment in which a Redis client's Lua scripts run: Luau with the libraries of Redis, and nothing of a server.
//!
//! An [`Engine`] belongs to one thread. It compiles scripts and starts runs; a [`Run`] goes on in slices, between which its
//! thread does other things, and reaches commands through a [`Host`]. A key that is elsewhere ends the run with
//! [`Outcome::Retry`]. Replies go through a visitor, [`ReplySink`], in both directions, without frames in between.
//!
//! ```
//! use std::time::Duration;
//! use tollgate_eval::{Engine, EngineLimits, Host, HostAnswer, LogLevel, Outcome, ReplySink, Resp, Tape};
//! use tollgate_protocol::Request;
//!
//! struct Echo;
//! impl Host for Echo {
//!     fn call(&mut self, request: Request<'_>, _: Resp, reply: &mut Tape) -> HostAnswer {
//!         reply.bulk(request.arg(request.len() - 1));
//!         HostAnswer::Replied
//!     }
//!     fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
//!         Some(true)
//!     }
//!     fn log(&mut self, _: LogLevel, _: &[u8]) {}
//! }
//!
//! let engine = Engine::new(EngineLimits::default()).unwrap();
//! let script = engine.compile(b"return redis.call('ECHO', KEYS[1]) .. ARGV[1]", "user_script").unwrap();
//! let mut run = engine.start(&script, &["a"], &["b"]);
//! assert!(matches!(run.resume(&mut Echo, Duration::from_millis(1)), Outcome::Finished));
//! let mut reply = Tape::default();
//! run.write_reply(&mut reply).unwrap();
//! ```
//!
//! A library of functions ([`Engine::load_library`], [`Engine::call`]) runs in the same way; it says what it has through
//! [`Host::register`].
//!
//! What holds of every run:
//! - It stops within its slice, or within [`EngineLimits::step`] of it: loops, calls, patterns, coroutines and the parts
//!   of the library that are written in Lua yield; what cannot (a library function over much data, a metamethod, a
//!   callback of `xpcall`) is ended after that time. [`Run::kill`] ends it between two slices; there is nothing in it that could catch that.
//! - It adds at most [`EngineLimits::memory_bytes`] to the VM.
//! - It changes nothing for the next one: all tables that exist before it are read-only, and what `redis.setresp`,
//!   `math.randomseed` and the settings of `cjson` set is its own.
//!
//! What differs from Redis: `tostring(n)` and `n .. ''` have as many digits as it takes; KEYS and ARGV are locals of the
//! script rather than globals (`KEYS = x` is no error, and functions made by `loadstring` do not see them); `print`,
//! `string.dump` and the like are absent; messages of the parser and of operators are worded by Luau; a NUL byte in a script's text is an error wherever it is (`\\0` in a string is none). A function finds the
//! variables of its library as loading left them: what another call put there is not seen.

mod api;
mod bits;
mod call;
mod decimal;
#[allow(unsafe_code)]
mod engine;
mod flags;
#[allow(unsafe_code)]
mod globals;
mod host;
mod json;
mod library;
mod list;
mod msgpack;
mod number;
mod output;
mod random;
#[allow(unsafe_code)]
mod run;
mod sha1;
#[allow(unsafe_code)]
mod shared;
#[allow(unsafe_code)]
mod stack;
mod structs;
mod tape;
mod text;
mod to_lua;
mod to_reply;

pub use engine::{
    CompileError, Engine, EngineLimits, Library, SCRIPT_SOURCE_BYTES_MAX, Script, SetupError, check_source,
};
pub use flags::ScriptFlags;
pub use host::{Host, HostAnswer, LogLevel, Resp};
pub use library::Registration;
pub use run::{Failure, KillReason, Outcome, Run, ScriptError};
pub use sha1::sha1_hex;
pub use shared::thread_time;
pub use tape::{ReplySink, Tape};
