//! Debts: tokens that were admitted elsewhere, taken from the bucket that owes them.

use super::Malformed;
use super::apply::checked;
use super::record::Reader;
use crate::check::Copied;
use crate::holds::HeldDebit;
use crate::shard::Kept;
use crate::{Env, Shard};
use tollgate_limiter::AMOUNT_MAX;
use tollgate_protocol::Proto;
use tollgate_script::{ParamsId, Stored};
use tollgate_store::{Key, slot_of};

impl Shard {
    /// Takes tokens from a bucket of a held slot, down to a debt of its burst. One that is not there is made with the parameters that
    /// the debt names, or with those of its rule. A debt is lost, and counted, where nothing can owe it: the policy or rule does not
    /// exist here or has no `take`, or the key holds a value. One for a key that a run has is taken when the run lets go of it.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn debit(
        &mut self,
        slot: u16,
        bucket: &[u8],
        parameters: &[u8],
        tokens: u64,
        now_us: u64,
    ) -> Result<(), Malformed> {
        let mut reader = Reader(bucket);
        let (space, bytes) = (reader.space()?, reader.bytes()?);
        let names_bytes = parameters;
        let mut names = Reader(parameters);
        let parameters = names.parameters()?;
        let params = checked(parameters.params).ok_or(Malformed)?;
        if !reader.is_at_end() || !names.is_at_end() || slot_of(bytes) != slot {
            return Err(Malformed);
        }
        let Some(space) = self.space_named(space) else {
            self.stats.carry.debits_lost += 1;
            return Ok(());
        };
        let held = || HeldDebit {
            bucket: bucket.into(),
            parameters: names_bytes.into(),
            tokens,
            now_us,
        };
        if self.holds.keep_debit(bytes, held) {
            return Ok(());
        }
        let key = self.store.key_in_slot(space, slot, bytes).map_err(|_| Malformed)?;
        let env = Env {
            db: 0,
            proto: Proto::Resp2,
            now_us,
            wall_offset_us: 0,
        };
        // A bucket that is full by now is as if it were not there.
        self.remove_if_full(&env, &key);
        let id = match self.live(&key) {
            Some(live) => Some(live.params),
            None if self.store.find(&key).is_some() => None,
            None => {
                let policy = self.policies.policy(parameters.policy);
                policy.and_then(|policy| self.policies.intern(policy, params).ok())
            }
        };
        let taken = id.is_some_and(|id| self.take_tokens(&env, &key, id, tokens));
        let stats = &mut self.stats.carry;
        *(if taken {
            &mut stats.debits
        } else {
            &mut stats.debits_lost
        }) += 1;
        Ok(())
    }

    /// Takes the debits that have waited for a key of a slot.
    pub(crate) fn take_held_debits(&mut self, slot: u16, debits: Option<Vec<HeldDebit>>) {
        for debit in debits.into_iter().flatten() {
            let now_us = self.carry.now_us.max(debit.now_us);
            // It made sense when it came.
            let _ = self.debit(slot, &debit.bucket, &debit.parameters, debit.tokens, now_us);
        }
    }

    fn take_tokens(&mut self, env: &Env, key: &Key<'_>, params: ParamsId, tokens: u64) -> bool {
        let live = self.live(key);
        let (clock_us, _) = self.slot_clock(env, key);
        // No bucket goes into debt by more than twice its burst, and more than that is no exact number.
        let tokens = tokens.min(2 * AMOUNT_MAX);
        let stored = live.as_ref().map(|live| live.stored());
        let Ok(state) = self.policies.take(params, stored, clock_us as i64, tokens) else {
            return false;
        };
        let state = Copied::of_lua(state);
        let full_at = self.policies.full_at(Stored {
            params,
            state: state.lua(),
        });
        let Ok(full_at_us) = full_at else { return false };
        let kept = Kept {
            full_at_us: full_at_us.max(0) as u64,
            clock_us,
            pinned: live.and_then(|live| live.pinned),
            params,
        };
        self.store_state(key, kept, state.store()).is_ok()
    }
}
