//! What is asked of Redis and of Tollgate in the same words: values, and scripts on them.

use super::{TollgateOptions, Workload, redis, tollgate};
use crate::command::Value;
use crate::request::{KEY, Template};
use crate::server::Server;
use crate::{Error, Result};

/// A sliding window as applications keep it in Redis: the times of the last calls in a sorted set. `ARGV`: the window in microseconds,
/// the limit, and a time that is unique to the call.
pub const SLIDING_WINDOW_SCRIPT: &str = r"
local window = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then
  return {0, limit - used}
end
redis.call('ZADD', KEYS[1], now, now)
redis.call('EXPIRE', KEYS[1], math.ceil(window / 1000000))
return {1, limit - used - 1}
";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// The usual token bucket, by EVALSHA.
    TokenBucket,
    /// [`SLIDING_WINDOW_SCRIPT`], by EVALSHA.
    SlidingWindow,
    /// `GET`
    Get,
    /// `SET`
    Set,
    /// `INCR`
    Incr,
    /// `HINCRBY`
    Hincrby,
}

impl Job {
    /// All, in the order of the report.
    pub const ALL: [Self; 6] = [
        Self::TokenBucket,
        Self::SlidingWindow,
        Self::Get,
        Self::Set,
        Self::Incr,
        Self::Hincrby,
    ];

    /// The name in reports and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::SlidingWindow => "sliding-window",
            Self::Get => "get",
            Self::Set => "set",
            Self::Incr => "incr",
            Self::Hincrby => "hincrby",
        }
    }

    /// The job of this name.
    ///
    /// # Errors
    /// When there is none: which there are.
    pub fn parse(name: &str) -> std::result::Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|job| job.name() == name)
            .ok_or_else(|| format!("one of {}", Self::ALL.map(Self::name).join(", ")))
    }

    /// The request that asks a server for it; scripts are loaded there.
    ///
    /// # Errors
    /// The server refuses the script.
    pub fn template(self, server: &Server, workload: Workload) -> Result<Template> {
        Ok(match self {
            Self::TokenBucket => redis::token_bucket(server, workload)?,
            Self::SlidingWindow => {
                let loaded = server.client()?.call(&["SCRIPT", "LOAD", SLIDING_WINDOW_SCRIPT])?;
                let Value::Text(sha) = loaded else {
                    return Err(Error::Setup("SCRIPT LOAD gave no digest".to_owned()));
                };
                let window_us = (u64::from(workload.window_s) * 1_000_000).to_string();
                Template::new(&["EVALSHA", &sha, "1", KEY, &window_us, &workload.limit.to_string()])
            }
            Self::Get => Template::new(&["GET", KEY]),
            Self::Set => Template::new(&["SET", KEY, "a value of some length"]),
            Self::Incr => Template::new(&["INCR", KEY]),
            Self::Hincrby => Template::new(&["HINCRBY", KEY, "count", "1"]),
        })
    }

    /// What must be asked for every key before it, so that there is something.
    pub fn before(self) -> Option<Template> {
        (self == Self::Get).then(|| Template::new(&["SET", KEY, "a value of some length"]))
    }
}

/// Starts a redis-server.
///
/// # Errors
/// It does not start.
pub fn start_redis() -> Result<Server> {
    redis::start(None)
}

/// Starts a node with one worker.
///
/// # Errors
/// It does not start.
pub fn start_tollgate(options: &TollgateOptions) -> Result<Server> {
    tollgate::start(options)
}
