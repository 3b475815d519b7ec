//! Operations on one bucket at a time: checks of policies whose state is a buffer, refunds, resets.

use super::Order;
use super::reply::{Shown, decision, write, write_rl};
use crate::shard::{Kept, Shard};
use crate::stats::Verdict;
use crate::{CommandError, Env};
use tollgate_limiter::{Cost, Quota, Source};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_script::{Outcome, ParamsId, PolicyId, State as Lua, Stored};
use tollgate_store::{Expiry, Key, MAX_KEY_BYTES, Numbers, Space, State};

/// A state, copied out of the store or the policies.
#[derive(Debug, PartialEq)]
pub(crate) enum Copied {
    Numbers(Numbers),
    Bytes(Vec<u8>),
}

impl Copied {
    fn of_store(state: State<'_>) -> Self {
        match state {
            State::Numbers(numbers) => Self::Numbers(numbers),
            State::Blob(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    pub(crate) fn of_lua(state: Lua<'_>) -> Self {
        match state {
            // The policies have at most as many fields as the store takes.
            Lua::Numbers(fields) => Self::Numbers(Numbers::new(fields).unwrap_or_default()),
            Lua::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    pub(crate) fn lua(&self) -> Lua<'_> {
        match self {
            Self::Numbers(numbers) => Lua::Numbers(numbers),
            Self::Bytes(bytes) => Lua::Bytes(bytes),
        }
    }

    pub(crate) fn store(&self) -> State<'_> {
        match self {
            Self::Numbers(numbers) => State::Numbers(*numbers),
            Self::Bytes(bytes) => State::Blob(bytes),
        }
    }
}

/// A live bucket, found and copied.
#[derive(Debug)]
pub(crate) struct Live {
    /// The parameters it is stored under.
    pub params: ParamsId,
    /// An expiry that the user asked for.
    pub pinned: Option<Expiry>,
    state: Copied,
}

impl Live {
    pub(crate) fn stored(&self) -> Stored<'_> {
        Stored {
            params: self.params,
            state: self.state.lua(),
        }
    }
}

impl Shard {
    /// The key of a bucket in this shard.
    pub(crate) fn bucket_key<'a>(&self, space: Space, key: &'a [u8]) -> Result<Key<'a>, CommandError> {
        if key.len() > MAX_KEY_BYTES {
            return Err(CommandError::KeyTooLong(MAX_KEY_BYTES));
        }
        // The commands of a script mostly have one key in common.
        let prepared = match self.is_in_run() {
            true => self.store.key_again(&mut self.key_memo.borrow_mut(), space, key),
            false => self.store.key(space, key),
        };
        prepared.map_err(|e| CommandError::Other(e.to_string()))
    }

    /// The clock of the key's slot, and how far it is ahead of the node's.
    pub(crate) fn slot_clock(&self, env: &Env, key: &Key<'_>) -> (u64, i64) {
        let offset_us = self.store.slot(key.slot()).map_or(0, |slot| slot.clock_offset_us);
        (env.now_us.saturating_add_signed(offset_us), offset_us)
    }

    /// Refuses a key that holds a value, unless it has expired: then it is gone.
    pub(crate) fn expect_no_value(&mut self, env: &Env, key: &Key<'_>) -> Result<(), CommandError> {
        match self.store.find(key) {
            Some(place) if self.store.value(place).is_some() => {
                if self.remove_if_full(env, key) {
                    Ok(())
                } else {
                    Err(CommandError::WrongType)
                }
            }
            _ => Ok(()),
        }
    }

    /// The bucket of a key as it is stored, full by now or not. `None` if the key holds a value.
    pub(crate) fn live(&self, key: &Key<'_>) -> Option<Live> {
        let place = self
            .store
            .find(key)
            .filter(|&place| self.store.value(place).is_none())?;
        let bucket = self.store.bucket(place);
        Some(Live {
            params: ParamsId(bucket.params),
            pinned: bucket.pinned.then_some(bucket.expiry),
            state: Copied::of_store(bucket.state),
        })
    }

    /// When a live bucket is full again if left alone, in its slot's clock.
    pub(crate) fn full_at_us(&mut self, live: &Live) -> Result<u64, CommandError> {
        let (policy, _) = self.policies.params(live.params);
        let full_at_us = self
            .policies
            .full_at(live.stored())
            .map_err(|fault| self.fault(policy, &fault))?;
        Ok(full_at_us.max(0) as u64)
    }

    /// Decides one check on its own and answers it.
    pub(crate) fn check_alone(
        &mut self,
        env: &Env,
        order: &Order,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        let shown = self.decide_alone(env, order, key)?;
        write(out, env, order.shape, &shown);
        Ok(())
    }

    /// Decides one check on its own.
    pub(crate) fn decide_alone(&mut self, env: &Env, order: &Order, key: &[u8]) -> Result<Shown, CommandError> {
        let space = order.space(env.db);
        let shown = self.decide_in(env, order, space, key)?;
        if shown.decision.allowed && !order.peek && self.has_journals() {
            let params = self.intern(order.policy, order.quota)?;
            let key = self.bucket_key(space, key)?;
            self.journal_admitted(&key, params, order.cost);
        }
        Ok(shown)
    }

    /// As [`Shard::decide_alone`], on the bucket of that space, and noted in no journal.
    pub(crate) fn decide_in(
        &mut self,
        env: &Env,
        order: &Order,
        space: Space,
        key: &[u8],
    ) -> Result<Shown, CommandError> {
        let key = self.bucket_key(space, key)?;
        self.expect_no_value(env, &key)?;
        let params = self.intern(order.policy, order.quota)?;
        let mut live = self.live(&key);
        if let Some(other) = &live
            && !self.policies.same_policy(other.params, params)
        {
            if !self.remove_if_full(env, &key) {
                self.stats.count(order.policy, Verdict::Error);
                return Err(self.other_policy(other.params, order.policy));
            }
            live = None;
        }
        let (clock_us, clock_offset_us) = self.slot_clock(env, &key);
        let checked = self.policies.check_one(
            params,
            live.as_ref().map(Live::stored),
            clock_us as i64,
            order.cost,
            order.peek,
        );
        let (outcome, state) = match checked {
            Ok((outcome, state)) => (outcome, Copied::of_lua(state)),
            Err(fault) => return Err(self.fault(order.policy, &fault)),
        };
        if !order.peek {
            self.keep(&key, clock_us, params, live.as_ref(), &outcome, &state)
                .inspect_err(|_| self.stats.count(order.policy, Verdict::Error))?;
        }
        self.stats.count(
            order.policy,
            if outcome.allowed {
                Verdict::Allowed
            } else {
                Verdict::Denied
            },
        );
        Ok(Shown {
            decision: decision(&outcome, order.quota.limit.get()),
            burst: order.quota.burst.get(),
            clock_us,
            clock_offset_us,
        })
    }

    fn keep(
        &mut self,
        key: &Key<'_>,
        clock_us: u64,
        params: ParamsId,
        live: Option<&Live>,
        outcome: &Outcome,
        state: &Copied,
    ) -> Result<(), CommandError> {
        // A denial leaves most states as they are, and the state of a log is large.
        if live.is_some_and(|live| live.params == params && live.state == *state) {
            return Ok(());
        }
        let kept = Kept {
            full_at_us: outcome.full_at_us.max(0) as u64,
            clock_us,
            pinned: live.and_then(|live| live.pinned),
            params,
        };
        self.store_state(key, kept, state.store())
    }

    /// Removes what a key holds if it does not exist any more: a bucket that is full by now and that nobody asked to keep, or a
    /// value that has expired. `false` if it has to stay.
    pub(crate) fn remove_if_full(&mut self, env: &Env, key: &Key<'_>) -> bool {
        self.present(env.now_us, key).is_none() && self.remove_entry(key)
    }

    /// The bucket that a command with an optional `RULE id` at `at` means: its space, and the rule's policy and parameters.
    fn subject(
        &self,
        env: &Env,
        request: Request<'_>,
        at: usize,
    ) -> Result<(Space, Option<(PolicyId, Quota)>), CommandError> {
        match request.len() - at {
            0 => Ok((Space::Db(env.db), None)),
            2 if request.arg(at).eq_ignore_ascii_case(b"RULE") => {
                let (number, policy, quota) = self.rule(request.arg(at + 1))?;
                Ok((Space::Rule(number), Some((policy, quota))))
            }
            _ => Err(CommandError::Syntax),
        }
    }
}

/// `RL.RESET key [RULE id]`: forgets the bucket, which is full then. Answers 1 if there was one that was not full.
pub(crate) fn rl_reset(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let (space, _) = shard.subject(env, request, 2)?;
    let key = shard.bucket_key(space, request.arg(1))?;
    shard.expect_no_value(env, &key)?;
    let was_there = shard.remove_live(env, &key)?;
    ReplyWriter::new(out, env.proto).int(i64::from(was_there));
    Ok(())
}

impl Shard {
    /// Removes a bucket; whether it was there and not full.
    pub(crate) fn remove_live(&mut self, env: &Env, key: &Key<'_>) -> Result<bool, CommandError> {
        let Some(live) = self.live(key) else { return Ok(false) };
        // A policy that fails must not keep its buckets from being removed.
        let full_at_us = self.full_at_us(&live).unwrap_or(u64::MAX);
        let (clock_us, _) = self.slot_clock(env, key);
        self.remove_entry(key);
        Ok(full_at_us > clock_us || live.pinned.is_some_and(|pinned| pinned > Expiry::from_us(clock_us)))
    }
}

/// `RL.REFUND key amount [RULE id]`: gives tokens back, never beyond full, and answers as a peek. A bucket that does not exist is
/// full; without a rule nobody knows its limit then, which is shown as -1.
pub(crate) fn rl_refund(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let amount = Cost::parse(request.arg(2))
        .map_err(|e| CommandError::Amount(tollgate_limiter::AmountError { field: "amount", ..e }))?;
    let (space, rule) = shard.subject(env, request, 3)?;
    let key = shard.bucket_key(space, request.arg(1))?;
    shard.expect_no_value(env, &key)?;
    // A bucket that is full by now is as if it were not there, whether it has been swept or not.
    shard.remove_if_full(env, &key);
    let live = shard.live(&key);
    let (clock_us, clock_offset_us) = shard.slot_clock(env, &key);
    let (policy, params) = match (rule, &live) {
        (Some((policy, quota)), _) => (policy, shard.intern(policy, quota)?),
        (None, Some(live)) => (shard.policies.params(live.params).0, live.params),
        (None, None) => {
            write_unknown(out, env, clock_us, clock_offset_us);
            return Ok(());
        }
    };
    let info = shard.policies.info(policy);
    if !info.has_give {
        return Err(CommandError::PolicyLacks {
            policy: info.name.clone(),
            function: "give",
        });
    }
    if let Some(live) = &live {
        if !shard.policies.same_policy(live.params, params) {
            return Err(shard.other_policy(live.params, policy));
        }
        let given = shard
            .policies
            .give(params, Some(live.stored()), clock_us as i64, amount.get())
            .map(Copied::of_lua);
        let state = given.map_err(|fault| shard.fault(policy, &fault))?;
        let stored = Stored {
            params,
            state: state.lua(),
        };
        let full_at = shard
            .policies
            .full_at(stored)
            .map_err(|fault| shard.fault(policy, &fault))?;
        let kept = Kept {
            full_at_us: full_at.max(0) as u64,
            clock_us,
            pinned: live.pinned,
            params,
        };
        shard.store_state(&key, kept, state.store())?;
        if shard.has_journals() {
            shard.journal_returned(&key, Some(amount.get()));
        }
    }
    let live = shard.live(&key);
    let peeked = shard
        .policies
        .check_one(params, live.as_ref().map(Live::stored), clock_us as i64, 0, true)
        .map(|(outcome, _)| outcome);
    let outcome = peeked.map_err(|fault| shard.fault(policy, &fault))?;
    let (_, params) = shard.policies.params(params);
    let shown = Shown {
        decision: decision(&outcome, params.limit),
        burst: params.burst,
        clock_us,
        clock_offset_us,
    };
    write_rl(out, env, &shown);
    Ok(())
}

/// The answer about a bucket that does not exist and whose limit nobody has said: allowed, limit and remaining -1.
fn write_unknown(out: &mut Vec<u8>, env: &Env, clock_us: u64, clock_offset_us: i64) {
    let reset_at_ms = env.unix_ms_ceil(clock_us, clock_offset_us) as i64;
    super::reply::write_fields(out, env.proto, [1, -1, -1, 0, reset_at_ms], Source::Owner);
}
