//! Replies of checks.

use super::Shape;
use crate::Env;
use tollgate_limiter::{Decision, Source, us_to_s_ceil};
use tollgate_protocol::{Proto, ReplyWriter};
use tollgate_script::Outcome;

/// A decision and what the reply needs beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub decision: Decision,
    /// The capacity B.
    pub burst: u64,
    /// The slot's clock at the decision.
    pub clock_us: u64,
    /// How far the slot's clock is ahead of the node's.
    pub clock_offset_us: i64,
}

/// What a policy decided, as a decision on that limit.
pub(crate) fn decision(outcome: &Outcome, limit: u64) -> Decision {
    Decision {
        allowed: outcome.allowed,
        limit,
        remaining: outcome.remaining.max(0) as u64,
        retry_after_us: u64::try_from(outcome.retry_after_us).ok(),
        full_at_us: outcome.full_at_us.max(0) as u64,
        source: Source::Owner,
    }
}

/// Writes a decision in the shape that the command asks for.
pub(crate) fn write(out: &mut Vec<u8>, env: &Env, shape: Shape, shown: &Shown) {
    match shape {
        Shape::RlCheck => write_rl(out, env, shown),
        Shape::Throttle => write_throttle(out, env.proto, shown),
        Shape::ThrottleZero { token_us } => {
            let debt_us = shown
                .decision
                .retry_after_us
                .filter(|_| !shown.decision.allowed)
                .unwrap_or(0)
                .saturating_sub(token_us);
            let decision = Decision {
                allowed: debt_us == 0,
                retry_after_us: Some(debt_us),
                ..shown.decision
            };
            write_throttle(out, env.proto, &Shown { decision, ..*shown });
        }
    }
}

/// The reply of RL.CHECK: an array in RESP2, a map in RESP3.
pub(crate) fn write_rl(out: &mut Vec<u8>, env: &Env, shown: &Shown) {
    let decision = &shown.decision;
    // Both are far below 2^63: amounts end at 10^12, times at 2^53.
    let retry_after_ms = decision
        .retry_after_us
        .map_or(-1, |us| tollgate_limiter::us_to_ms_ceil(us) as i64);
    let reset_at_ms = env.unix_ms_ceil(decision.full_at_us, shown.clock_offset_us) as i64;
    let numbers = [
        i64::from(decision.allowed),
        decision.limit as i64,
        decision.remaining as i64,
        retry_after_ms,
        reset_at_ms,
    ];
    write_fields(out, env.proto, numbers, decision.source);
}

/// The fields of RL.CHECK's reply.
pub(crate) fn write_fields(out: &mut Vec<u8>, proto: Proto, numbers: [i64; 5], source: Source) {
    let source = source.as_str().as_bytes();
    let mut reply = ReplyWriter::new(out, proto);
    match proto {
        Proto::Resp2 => {
            reply.array_of_ints(6, numbers);
            reply.bulk(source);
        }
        Proto::Resp3 => {
            reply.map(6);
            for (name, n) in ["allowed", "limit", "remaining", "retry_after_ms", "reset_at_ms"]
                .iter()
                .zip(numbers)
            {
                reply.bulk(name.as_bytes());
                reply.int(n);
            }
            reply.bulk(b"source");
            reply.bulk(source);
        }
    }
}

/// The reply of CL.THROTTLE: five integers, whole seconds rounded up; retry is -1 when allowed and when never.
fn write_throttle(out: &mut Vec<u8>, proto: Proto, shown: &Shown) {
    let decision = &shown.decision;
    let retry_s = match decision.retry_after_us {
        Some(us) if !decision.allowed => us_to_s_ceil(us) as i64,
        _ => -1,
    };
    let reset_s = us_to_s_ceil(decision.full_at_us.saturating_sub(shown.clock_us)) as i64;
    let mut reply = ReplyWriter::new(out, proto);
    let numbers = [
        i64::from(!decision.allowed),
        shown.burst as i64,
        decision.remaining as i64,
        retry_s,
        reset_s,
    ];
    reply.array_of_ints(5, numbers);
}
