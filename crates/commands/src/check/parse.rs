//! Arguments of `RL.CHECK` and `CL.THROTTLE`.

use super::{Order, Shape, Subject};
use crate::shard::terms_of;
use crate::{CommandError, Shard};
use tollgate_limiter::{AMOUNT_MAX, AmountError, Burst, Cost, Limit, OnFailure, Quota, Window};
use tollgate_protocol::Request;

/// Options of `RL.CHECK` seen so far; each may come once, in any order.
#[derive(Default)]
struct Options<'a> {
    limit: Option<Limit>,
    per: Option<Window>,
    burst: Option<Burst>,
    cost: Option<Cost>,
    policy: Option<&'a [u8]>,
    on_failure: Option<OnFailure>,
    rule: Option<&'a [u8]>,
    peek: bool,
}

fn set<T>(place: &mut Option<T>, value: T, twice: &'static str) -> Result<(), CommandError> {
    if place.replace(value).is_some() {
        Err(CommandError::Conflict(twice))
    } else {
        Ok(())
    }
}

impl<'a> Options<'a> {
    fn parse(request: Request<'a>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = 2;
        while at < request.len() {
            let name = request.arg(at);
            let mut value = || {
                at += 1;
                if at < request.len() {
                    Ok(request.arg(at))
                } else {
                    let name = name.to_ascii_uppercase();
                    Err(CommandError::NoValue(CommandError::quote(&name)))
                }
            };
            // By length first: it tells all keywords apart but two pairs, and costs one jump.
            match name.len() {
                5 if name.eq_ignore_ascii_case(b"LIMIT") => {
                    set(&mut options.limit, Limit::parse(value()?)?, "LIMIT given twice")?
                }
                3 if name.eq_ignore_ascii_case(b"PER") => {
                    set(&mut options.per, Window::parse(value()?)?, "PER given twice")?
                }
                5 if name.eq_ignore_ascii_case(b"BURST") => {
                    set(&mut options.burst, Burst::parse(value()?)?, "BURST given twice")?
                }
                4 if name.eq_ignore_ascii_case(b"COST") => {
                    set(&mut options.cost, Cost::parse(value()?)?, "COST given twice")?
                }
                6 if name.eq_ignore_ascii_case(b"POLICY") => set(&mut options.policy, value()?, "POLICY given twice")?,
                10 if name.eq_ignore_ascii_case(b"ON_FAILURE") => {
                    let word = OnFailure::parse(value()?)
                        .ok_or(CommandError::Conflict("ON_FAILURE is local, open or closed"))?;
                    set(&mut options.on_failure, word, "ON_FAILURE given twice")?;
                }
                4 if name.eq_ignore_ascii_case(b"RULE") => set(&mut options.rule, value()?, "RULE given twice")?,
                4 if name.eq_ignore_ascii_case(b"PEEK") => {
                    if std::mem::replace(&mut options.peek, true) {
                        return Err(CommandError::Conflict("PEEK given twice"));
                    }
                }
                _ => return Err(CommandError::UnknownOption(CommandError::quote(name))),
            }
            at += 1;
        }
        Ok(options)
    }
}

/// `RL.CHECK key LIMIT n PER duration [BURST b] [COST c] [POLICY name] [ON_FAILURE local|open|closed] [PEEK]` or
/// `RL.CHECK key RULE id [COST c] [PEEK]`. The options may come in any order.
pub(crate) fn rl_check(shard: &mut Shard, request: Request<'_>) -> Result<Order, CommandError> {
    let options = Options::parse(request)?;
    let cost = options.cost.unwrap_or(Cost::ONE).get();
    let peek = options.peek;
    if let Some(id) = options.rule {
        if options.limit.is_some()
            || options.per.is_some()
            || options.burst.is_some()
            || options.policy.is_some()
            || options.on_failure.is_some()
        {
            return Err(CommandError::Conflict(
                "RULE brings its own limit, window, burst, policy and failure mode",
            ));
        }
        let (number, policy, quota) = shard.rule(id)?;
        let rule = shard.rules().by_number(number);
        return Ok(Order {
            on_failure: rule.map_or(OnFailure::Local, |rule| rule.on_failure),
            subject: Subject::Rule(number),
            policy,
            quota,
            cost,
            peek,
            shape: Shape::RlCheck,
        });
    }
    let (Some(limit), Some(per)) = (options.limit, options.per) else {
        return Err(CommandError::Conflict("LIMIT n PER duration, or RULE id, is needed"));
    };
    let policy = shard.policy_or_default(options.policy)?;
    let info = shard.policies().info(policy);
    let quota = Quota::new(limit, per, options.burst, &terms_of(info))?;
    Ok(Order {
        on_failure: options.on_failure.unwrap_or(OnFailure::Local),
        subject: Subject::Plain,
        policy,
        quota,
        cost,
        peek,
        shape: Shape::RlCheck,
    })
}

/// Parses a number of `CL.THROTTLE`: a decimal integer, with Redis's error if it is none.
fn integer(text: &[u8]) -> Result<i64, CommandError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|t| t.parse::<i64>().ok())
        .ok_or(CommandError::NotAnInteger)
}

fn ranged(field: &'static str, value: i64, min: u64, max: u64) -> Result<u64, CommandError> {
    let value = u64::try_from(value).ok().filter(|v| (min..=max).contains(v));
    value.ok_or_else(|| CommandError::Other(format!("{field} must be a whole number from {min} to {max}")))
}

/// `CL.THROTTLE key max_burst count period [quantity]`, argument for argument as redis-cell 0.5: L = count, W = period in
/// seconds, B = max_burst + 1.
pub(crate) fn cl_throttle(shard: &mut Shard, request: Request<'_>) -> Result<Order, CommandError> {
    const PERIOD_MAX_S: u64 = tollgate_limiter::WINDOW_MAX_US / 1_000_000;
    let policy = shard.policy_or_default(None)?;
    let count_max = terms_of(shard.policies().info(policy)).limit_max;
    if request.len() > 6 {
        return Err(CommandError::Arity("cl.throttle".to_owned()));
    }
    let max_burst = ranged("max_burst", integer(request.arg(2))?, 0, AMOUNT_MAX - 1)?;
    let count = ranged("count", integer(request.arg(3))?, 1, count_max)?;
    let period_s = ranged("period", integer(request.arg(4))?, 1, PERIOD_MAX_S)?;
    let quantity = if request.len() > 5 {
        ranged("quantity", integer(request.arg(5))?, 0, AMOUNT_MAX)?
    } else {
        1
    };
    let out_of_range = |e: AmountError| CommandError::Amount(e);
    let quota = Quota {
        limit: Limit::new(count).map_err(out_of_range)?,
        window: Window::from_us(period_s * 1_000_000)?,
        burst: Burst::new(max_burst + 1).map_err(out_of_range)?,
    };
    let (cost, peek, shape) = match quantity {
        0 => (
            1,
            true,
            Shape::ThrottleZero {
                token_us: quota.window.as_us().div_ceil(count),
            },
        ),
        quantity => (quantity, false, Shape::Throttle),
    };
    Ok(Order {
        on_failure: OnFailure::Local,
        subject: Subject::Plain,
        policy,
        quota,
        cost,
        peek,
        shape,
    })
}
