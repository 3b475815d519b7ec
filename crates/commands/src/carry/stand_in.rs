//! Decisions in place of a holder that does not answer: on the replica of its heir, or on a local share of the limit.

use super::Owed;
use crate::check::{Order, Shown, Subject, write};
use crate::table::{Run, Spec};
use crate::{CommandError, Env, Shard};
use tollgate_limiter::{Burst, Decision, Limit, OnFailure, Quota, Source};
use tollgate_protocol::Request;
use tollgate_store::{DATABASES, Keyspace, Space};

/// When to ask again after a denial because nobody could be asked: by then the heir has taken over.
const ASK_AGAIN_US: u64 = 1_000_000;

/// In whose place a check is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    /// As the holder.
    Owner,
    /// On the replica, as the heir of a holder that does not answer.
    Heir,
    /// On a share of the limit, since neither holder nor heir answers.
    Local(Share),
}

/// This node's share of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How many nodes there are, at least 1.
    pub nodes: u32,
    /// The rank of this one, from 0: the first get what is left over.
    pub rank: u32,
    /// What this node saw last of what is left of the bucket, in tokens, if it has seen any.
    pub remaining: Option<u64>,
}

impl Share {
    fn of(&self, tokens: u64) -> u64 {
        let nodes = u64::from(self.nodes.max(1));
        tokens / nodes + u64::from(u64::from(self.rank) < tokens % nodes)
    }
}

impl Shard {
    /// Decides a check in somebody's place and writes the reply, with the source that says so. Answers what was admitted in the place of
    /// another, which the bucket at its holder owes.
    ///
    /// # Errors
    /// As those of the command, which are not written; also if it is no check.
    pub fn check_as(
        &mut self,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
        standing: As,
        out: &mut Vec<u8>,
    ) -> Result<Option<Owed>, CommandError> {
        let Run::Check(parse) = spec.run else {
            return Err(CommandError::Other(format!("'{}' is no check", spec.name)));
        };
        let order = parse(self, request)?;
        let key = request.arg(1);
        let mut shown = match standing {
            As::Owner => self.decide_alone(env, &order, key)?,
            As::Heir => {
                let slot = tollgate_store::slot_of(key);
                self.finish_remains(slot);
                self.decide_in(env, &order, order.space(env.db), key)?
            }
            As::Local(share) => match order.on_failure {
                OnFailure::Local => self.decide_share(env, &order, key, &share)?,
                OnFailure::Open | OnFailure::Closed => self.decide_blindly(env, &order, key)?,
            },
        };
        shown.decision.source = match standing {
            As::Owner => Source::Owner,
            As::Heir => Source::Heir,
            As::Local(_) => Source::Local,
        };
        // A share is decided under its own; what is shown is what was asked for.
        shown.decision.limit = order.quota.limit.get();
        shown.burst = order.quota.burst.get();
        write(out, env, order.shape, &shown);
        if standing == As::Owner || !shown.decision.allowed || order.peek || order.cost == 0 {
            return Ok(None);
        }
        let params = self.intern(order.policy, order.quota)?;
        Ok(self.owed(order.space(env.db), key, params, order.cost))
    }

    /// Decides as the rule or the caller wants it when nobody can be asked: all or nothing.
    fn decide_blindly(&self, env: &Env, order: &Order, key: &[u8]) -> Result<Shown, CommandError> {
        let key = self.bucket_key(order.space(env.db), key)?;
        let (clock_us, clock_offset_us) = self.slot_clock(env, &key);
        let allowed = order.on_failure == OnFailure::Open || order.cost == 0;
        Ok(Shown {
            decision: Decision {
                allowed,
                limit: order.quota.limit.get(),
                remaining: 0,
                retry_after_us: Some(if allowed { 0 } else { ASK_AGAIN_US }),
                full_at_us: clock_us,
                source: Source::Local,
            },
            burst: order.quota.burst.get(),
            clock_us,
            clock_offset_us,
        })
    }

    fn decide_share(&mut self, env: &Env, order: &Order, key: &[u8], share: &Share) -> Result<Shown, CommandError> {
        let Quota { limit, window, burst } = order.quota;
        let space = Space::StandIn(match order.subject {
            Subject::Plain => u32::from(env.db),
            Subject::Rule(number) => u32::from(DATABASES) + number,
        });
        let stand_in = self.bucket_key(space, key)?;
        let (clock_us, clock_offset_us) = self.slot_clock(env, &stand_in);
        let quota = Limit::new(share.of(limit.get()))
            .ok()
            .zip(Burst::new(share.of(burst.get())).ok());
        let Some((limit, burst)) = quota else {
            // A share of less than one token: whoever has the remainder decides.
            let decision = Decision {
                allowed: order.cost == 0,
                limit: limit.get(),
                remaining: 0,
                retry_after_us: Some(if order.cost == 0 { 0 } else { window.as_us() }),
                full_at_us: clock_us,
                source: Source::Local,
            };
            return Ok(Shown {
                decision,
                burst: burst.get(),
                clock_us,
                clock_offset_us,
            });
        };
        let of_share = Order {
            quota: Quota { limit, window, burst },
            ..*order
        };
        // One that is full by now begins with what the bucket itself had, again.
        self.remove_if_full(env, &stand_in);
        let known = share.remaining.map(|remaining| share.of(remaining));
        let missing = known.map_or(0, |known| burst.get().saturating_sub(known));
        if self.store.find(&stand_in).is_none() && missing > 0 {
            let charge = Order {
                cost: missing,
                peek: false,
                ..of_share
            };
            self.decide_in(env, &charge, space, key)?;
        }
        self.decide_in(env, &of_share, space, key)
    }

    /// Forgets all shares: the holders answer again. They are freed later.
    pub fn end_shares(&mut self) {
        let trash = self.store.flush(Some(Keyspace::StandIns));
        if trash.bytes() > 0 {
            self.trash.push(trash);
        }
    }
}
