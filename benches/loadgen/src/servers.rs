//! The servers that are compared: how each is built, started and asked.

mod redis;
mod redis_cell;
mod tollgate;
pub mod values;

pub use redis::TOKEN_BUCKET_SCRIPT;
pub use tollgate::{Options as TollgateOptions, build as build_tollgate, start_on as start_tollgate};

use crate::echo;
use crate::request::{KEY, Template};
use crate::server::Server;
use crate::{Error, Result};
use std::path::PathBuf;

/// What is asked of which server. The order is that of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Redis with the usual token bucket as a script, called by EVALSHA.
    RedisEvalsha,
    /// Redis INCR: the cheapest write Redis has.
    RedisIncr,
    /// Redis with the module redis-cell, CL.THROTTLE.
    RedisCell,
    /// An echo on the runtime of our workers.
    Echo,
    /// Tollgate RL.CHECK.
    TollgateCheck,
    /// Tollgate CL.THROTTLE.
    TollgateThrottle,
}

impl Target {
    /// All, in the order of the reports.
    pub const ALL: [Self; 6] = [
        Self::RedisEvalsha,
        Self::RedisIncr,
        Self::RedisCell,
        Self::Echo,
        Self::TollgateCheck,
        Self::TollgateThrottle,
    ];

    /// The name in reports and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::RedisEvalsha => "redis-evalsha",
            Self::RedisIncr => "redis-incr",
            Self::RedisCell => "redis-cell",
            Self::Echo => "echo",
            Self::TollgateCheck => "tollgate-check",
            Self::TollgateThrottle => "tollgate-throttle",
        }
    }

    /// The target of this name.
    ///
    /// # Errors
    ///
    /// When there is none: which there are.
    pub fn parse(name: &str) -> std::result::Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|target| target.name() == name)
            .ok_or_else(|| format!("one of {}", Self::ALL.map(Self::name).join(", ")))
    }

    /// Starts its server and returns it with the request to send.
    pub fn start(self, workload: Workload, options: &TollgateOptions) -> Result<(Server, Template)> {
        match self {
            Self::RedisEvalsha => {
                let server = redis::start(None)?;
                let template = redis::token_bucket(&server, workload)?;
                Ok((server, template))
            }
            Self::RedisIncr => Ok((redis::start(None)?, Template::new(&["INCR", KEY]))),
            Self::RedisCell => Ok((redis::start(Some(&redis_cell::module()?))?, workload.throttle())),
            Self::Echo => {
                let template = workload.check();
                Ok((echo::start(template.len())?, template))
            }
            Self::TollgateCheck => Ok((tollgate::start(options)?, workload.check())),
            Self::TollgateThrottle => Ok((tollgate::start(options)?, workload.throttle())),
        }
    }

    /// Whether it is Tollgate that answers.
    pub fn is_tollgate(self) -> bool {
        matches!(self, Self::TollgateCheck | Self::TollgateThrottle)
    }

    /// Whether the keys asked for are kept by the server.
    pub fn keeps_keys(self) -> bool {
        self != Self::Echo
    }
}

/// The limit that is asked for, the same at every target; the burst is the limit, the cost 1.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Tokens a window.
    pub limit: u32,
    /// The window in seconds.
    pub window_s: u32,
}

impl Workload {
    /// `RL.CHECK` of it.
    pub fn check(self) -> Template {
        let Self { limit, window_s } = self;
        let per = if window_s % 60 == 0 {
            format!("{}m", window_s / 60)
        } else {
            format!("{window_s}s")
        };
        Template::new(&["RL.CHECK", KEY, "LIMIT", &limit.to_string(), "PER", &per])
    }

    /// `CL.THROTTLE` of it.
    pub fn throttle(self) -> Template {
        let Self { limit, window_s } = self;
        let (max_burst, count) = ((limit - 1).to_string(), limit.to_string());
        Template::new(&["CL.THROTTLE", KEY, &max_burst, &count, &window_s.to_string()])
    }
}

/// The root of the workspace: where the build is and what set-up made.
fn workspace() -> Result<PathBuf> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .map(PathBuf::from)
        .ok_or_else(|| Error::Setup("the workspace is not where it was built".to_owned()))
}

/// Cargo, as the bench was started by it or as the system finds it.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
