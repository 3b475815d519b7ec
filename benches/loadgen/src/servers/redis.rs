//! redis-server, as the system has it, without persistence.

use super::Workload;
use crate::command::Value;
use crate::request::{KEY, Template};
use crate::server::{Scratch, Server, Serving, free_port};
use crate::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// The token bucket as applications keep it in Redis: a hash of tokens and time, refilled on each call, expiring when
/// it would be full again twice over. `ARGV`: capacity, tokens a second, cost.
pub const TOKEN_BUCKET_SCRIPT: &str = r"
local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'refilled_at')
local tokens = tonumber(bucket[1]) or capacity
local refilled_at = tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - refilled_at) * rate)
local allowed = 0
local retry_after = 0
if tokens >= cost then
  tokens = tokens - cost
  allowed = 1
else
  retry_after = math.ceil((cost - tokens) / rate * 1000)
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'refilled_at', now)
redis.call('EXPIRE', KEYS[1], math.ceil(capacity / rate * 2))
return {allowed, math.floor(tokens), retry_after}
";

/// Starts Redis with no persistence, and a module if one is given.
pub fn start(module: Option<&Path>) -> Result<Server> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let mut command = Command::new("redis-server");
    command.args(["--port", &address.port().to_string()]).args([
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    if let Some(module) = module {
        command.arg("--loadmodule").arg(module);
    }
    let mut server = Server::start("redis-server", command, Scratch::new()?, |_| {
        let mut client = crate::command::Client::connect(address).ok()?;
        client.call(&["PING"]).ok()?;
        Some(Serving {
            address,
            admin: None,
            peer: None,
        })
    })?;
    let Value::Text(info) = server.client()?.call(&["INFO", "server"])? else {
        return Err(Error::Setup("redis-server has no INFO".to_owned()));
    };
    let version = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"))
        .unwrap_or("of unknown version");
    let with = if module.is_some() {
        format!(" with redis-cell {}", super::redis_cell::VERSION)
    } else {
        String::new()
    };
    server.name = format!("redis-server {version}{with}");
    Ok(server)
}

/// Loads [`TOKEN_BUCKET_SCRIPT`] and returns the EVALSHA of it.
pub fn token_bucket(server: &Server, workload: Workload) -> Result<Template> {
    let Value::Text(sha) = server.client()?.call(&["SCRIPT", "LOAD", TOKEN_BUCKET_SCRIPT])? else {
        return Err(Error::Setup("SCRIPT LOAD gave no digest".to_owned()));
    };
    let capacity = workload.limit.to_string();
    let rate = f64::from(workload.limit) / f64::from(workload.window_s);
    Ok(Template::new(&[
        "EVALSHA",
        &sha,
        "1",
        KEY,
        &capacity,
        &rate.to_string(),
        "1",
    ]))
}
