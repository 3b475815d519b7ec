//! Small policies and shorthands for the host's tests.
#![allow(dead_code, clippy::unwrap_used)] // Every test file uses its own part.

use tollgate_script::{
    Batch, OpIx, Params, ParamsId, PolicyHost, PolicyLimits, PolicySource, Progress, StateIn, StateIx,
};

/// A bucket of whole tokens that never refills: state `used`, full again 10 µs a used token after time 0.
pub const COUNTER: &str = "
local function check(limit, now, cost, used)
    used = used or 0
    local left = limit.burst - used
    if cost > limit.burst then return false, left, -1, used end
    if cost > left then return false, left, 10 * cost, used end
    return true, left - cost, 0, used + cost
end
return {
    version = 1, fields = { 'used' }, burst = 'limit',
    check = check,
    full_at = function(limit, used) return 10 * used end,
    give = function(limit, now, amount, used) return math.max(0, used - amount) end,
    take = function(limit, now, amount, used) return math.min(2 * limit.burst, used + amount) end,
}";

/// The same with its state in a buffer: one byte a used token.
pub const BYTES: &str = "
local function check(limit, now, cost, buf, len)
    local left = limit.burst - len
    if cost > limit.burst then return false, left, -1, len end
    if cost > left then return false, left, 10 * cost, len end
    for i = len, len + cost - 1 do buffer.writeu8(buf, i, 7) end
    return true, left - cost, 0, len + cost
end
return {
    version = 1, fields = 'buffer', burst = 'none',
    max_bytes = function(limit) return limit.burst end,
    check = check,
    full_at = function(limit, buf, len) return 10 * len end,
}";

/// A policy with one field whose `check` is this body, after `level = level or 0`.
pub fn check_body(body: &str) -> String {
    format!(
        "return {{ version = 1, fields = {{ 'level' }}, burst = 'limit',
            check = function(limit, now, cost, level) level = level or 0 {body} end,
            full_at = function(limit, level) return 0 end }}"
    )
}

pub fn source(name: &str, text: &str) -> PolicySource {
    PolicySource {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

pub fn host(sources: &[(&str, &str)]) -> PolicyHost {
    host_with(sources, PolicyLimits::default())
}

pub fn host_with(sources: &[(&str, &str)], limits: PolicyLimits) -> PolicyHost {
    let sources: Vec<PolicySource> = sources.iter().map(|(name, text)| source(name, text)).collect();
    PolicyHost::new(&sources, limits).unwrap()
}

/// `limit` tokens a minute, as much burst, retained.
pub fn params(host: &mut PolicyHost, policy: &str, limit: u64) -> ParamsId {
    let policy = host.policy(policy.as_bytes()).unwrap();
    let params = Params {
        limit,
        window_us: 60_000_000,
        burst: limit,
    };
    let id = host.intern(policy, params).unwrap();
    host.retain(id);
    id
}

pub fn run(host: &mut PolicyHost, batch: &mut Batch) {
    while host.run(batch) == Progress::More {}
}

/// Adds a check of a new bucket.
pub fn fresh(batch: &mut Batch, params: ParamsId, cost: u64) -> (OpIx, StateIx) {
    let state = batch.state(StateIn::NEW);
    (batch.check(params, state, 1_000, cost, false), state)
}
