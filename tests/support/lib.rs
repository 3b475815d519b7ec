//! What the integration tests share: starting a node or a redis-server, talking RESP and HTTP to it, comparing the
//! two, and saying that a test cannot run here.
//!
//! Everything panics with the reason on failure, since a test can do nothing else with it, and everything that was
//! started is ended by `Drop`, so that a failing test leaves no process and no file behind.

mod differential;
mod draw;
mod http;
mod leeway;
mod node;
mod process;
mod redis_server;
mod require;
mod resp;
mod scratch;
mod script_file;
mod state;
mod wait;
mod watch;

pub use differential::{Check, Differential, Servers, Trial};
pub use draw::Draw;
pub use http::{HttpReply, http};
pub use leeway::Leeway;
pub use node::{Node, StartFailure, run_tollgate, tollgate_path};
pub use redis_server::RedisServer;
pub use require::{find_tool, skip_without};
pub use resp::{Client, DecodeError, Value, decode, encode_command};
pub use scratch::ScratchDir;
pub use script_file::{ScriptFile, TestClock};
pub use wait::{until, until_blocked, until_hit};
pub use watch::{Watch, Watched};
