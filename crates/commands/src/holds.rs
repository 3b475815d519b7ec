//! Keys that a run has for itself, in this shard or lent to another.
//!
//! A run is a command over several keys, a transaction or a script. While it waits for something or lets others work, its keys are
//! held: commands of others for them wait. A key of another shard is lent: its shard gives away what the key holds and blocks the key
//! until it comes back; the borrower has it as a guest. Runs take their keys in ascending order, so no two of them wait for each other.

use crate::check::CheckQueue;
use crate::table::{Run, Spec};
use crate::undo::{Held, HeldBucket, HeldState};
use crate::{CommandError, Env, Shard};
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::hash_map;
use tollgate_protocol::Request;
use tollgate_script::{Params, ParamsId, PolicyId};
use tollgate_store::{Expiry, Key, Space, Taken, slot_of};

/// Number of a run, unique in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunId(pub u64);

/// The held keys of a shard. A key counts as a whole, whatever database or rule it is asked for in.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    by_key: HashMap<Box<[u8]>, Hold>,
    /// How many of them are of each slot that has any.
    by_slot: HashMap<u16, usize>,
    /// Slots on their way to another node: nobody begins anything with their keys.
    closed: BTreeSet<u16>,
    /// The run that has the whole shard.
    frozen: Option<RunId>,
    /// The run whose commands come now.
    running: Option<RunId>,
}

#[derive(Debug)]
struct Hold {
    run: RunId,
    /// What of it is lent.
    lent: Vec<Lent>,
    /// Whether somebody waits for the key who could not be called while it was lent.
    call_waiting: bool,
    /// Debits that came meanwhile. They are taken when the key is let go of: what is lent comes back as the run has left it, and what the
    /// run has done may be taken back.
    debits: Vec<HeldDebit>,
}

/// A debit that waits for its key.
#[derive(Debug)]
pub(crate) struct HeldDebit {
    pub(crate) bucket: Box<[u8]>,
    pub(crate) parameters: Box<[u8]>,
    pub(crate) tokens: u64,
    /// The node's clock when it came.
    pub(crate) now_us: u64,
}

#[derive(Debug)]
struct Lent {
    space: Space,
    /// Kept in use meanwhile, so that the bucket can come back even if no other can be interned.
    params: Option<ParamsId>,
    /// What the key held, for scans: the type of its value.
    type_name: Option<&'static str>,
}

/// What a key holds, on its way to another shard or back.
#[derive(Debug)]
pub struct Loan {
    /// What the key belongs to.
    pub space: Space,
    /// The key.
    pub key: Box<[u8]>,
    /// Whether the run has changed it.
    pub changed: bool,
    /// What to add to the node's clock for the clock of its slot, in microseconds.
    clock_offset_us: i64,
    content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Nothing,
    Value(Taken),
    Bucket {
        policy: PolicyId,
        params: Params,
        expiry: Expiry,
        pinned: bool,
        state: HeldState,
    },
}

impl Loan {
    pub(crate) fn new(space: Space, key: &[u8], clock_offset_us: i64, content: Content) -> Self {
        Self {
            space,
            key: key.into(),
            changed: false,
            clock_offset_us,
            content,
        }
    }

    #[cfg(test)]
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.content, Content::Nothing)
    }
}

impl Hold {
    fn of(run: RunId) -> Self {
        Self {
            run,
            lent: Vec::new(),
            call_waiting: false,
            debits: Vec::new(),
        }
    }
}

impl Holds {
    /// The hold of a key, which is that run's from now on if it was nobody's.
    fn hold(&mut self, key: &[u8], run: RunId) -> &mut Hold {
        match self.by_key.entry(key.into()) {
            hash_map::Entry::Occupied(hold) => hold.into_mut(),
            hash_map::Entry::Vacant(vacant) => {
                *self.by_slot.entry(slot_of(key)).or_default() += 1;
                vacant.insert(Hold::of(run))
            }
        }
    }

    /// Lets go of a key.
    fn remove(&mut self, key: &[u8]) -> Option<Hold> {
        let hold = self.by_key.remove(key)?;
        if let hash_map::Entry::Occupied(mut held) = self.by_slot.entry(slot_of(key)) {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
        Some(hold)
    }

    /// Keeps a debit until its key is let go of: those of one bucket together. `false`: nobody holds the key.
    pub(crate) fn keep_debit(&mut self, key: &[u8], debit: impl FnOnce() -> HeldDebit) -> bool {
        let Some(hold) = self.by_key.get_mut(key) else {
            return false;
        };
        let debit = debit();
        match hold.debits.iter_mut().find(|known| known.bucket == debit.bucket) {
            Some(known) => known.tokens = known.tokens.saturating_add(debit.tokens),
            None => hold.debits.push(debit),
        }
        true
    }

    /// Whether a key is lent.
    pub(crate) fn is_lent(&self, key: &[u8]) -> bool {
        self.by_key.get(key).is_some_and(|hold| !hold.lent.is_empty())
    }

    /// Calls who waits for a lent key when it is back.
    pub(crate) fn call_when_back(&mut self, key: &[u8]) {
        if let Some(hold) = self.by_key.get_mut(key) {
            hold.call_waiting = true;
        }
    }

    /// Whether the slot of a key is on its way to another node.
    fn is_closed(&self, key: &[u8]) -> bool {
        !self.closed.is_empty() && self.closed.contains(&slot_of(key))
    }

    /// Whether a run has a key.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(key)
    }
}

impl Shard {
    /// Whether any key is held.
    #[inline]
    pub fn has_holds(&self) -> bool {
        !self.holds.by_key.is_empty() || self.holds.frozen.is_some() || !self.holds.closed.is_empty()
    }

    /// Says whether a slot is on its way to another node. Commands for its keys wait then; nothing may be queued for it.
    pub fn set_slot_closed(&mut self, slot: u16, closed: bool) {
        match closed {
            true => self.holds.closed.insert(slot),
            false => self.holds.closed.remove(&slot),
        };
    }

    /// Whether a key of a slot is held or lent, or the whole shard is some run's.
    pub fn has_holds_in(&self, slot: u16) -> bool {
        self.holds.frozen.is_some() || self.holds.by_slot.contains_key(&slot)
    }

    /// Says whose commands come next: those of a run, or those of nobody.
    pub fn set_running(&mut self, run: Option<RunId>) {
        self.holds.running = run;
    }

    /// Whether the commands that come now are those of a run.
    #[inline]
    pub(crate) fn is_in_run(&self) -> bool {
        self.holds.running.is_some()
    }

    /// Whether commands for a key have to wait, now.
    pub fn is_blocked(&self, key: &[u8]) -> bool {
        self.is_blocked_for(key, self.holds.running)
    }

    /// Whether a run, or what belongs to none, has to wait for a key.
    pub fn is_blocked_for(&self, key: &[u8], run: Option<RunId>) -> bool {
        match self.holds.by_key.get(key) {
            Some(hold) => Some(hold.run) != run || !hold.lent.is_empty(),
            None => (self.holds.frozen.is_some() && self.holds.frozen != run) || self.holds.is_closed(key),
        }
    }

    /// Whether a key can be lent to a run now. It may have it already, in another database.
    pub fn may_lend(&self, key: &[u8], run: RunId) -> bool {
        match self.holds.by_key.get(key) {
            Some(hold) => hold.run == run,
            None => self.holds.frozen.is_none_or(|frozen| frozen == run) && !self.holds.is_closed(key),
        }
    }

    /// The key for which a command has to wait.
    pub fn blocked_key<'a>(&self, spec: &Spec, request: Request<'a>) -> Option<&'a [u8]> {
        if !self.has_holds() || matches!(spec.run, Run::Connection(_) | Run::Keyspace(_)) {
            return None;
        }
        spec.key_positions(request)
            .map(|position| request.arg(position))
            .find(|key| self.is_blocked(key))
    }

    /// Holds a key that is not blocked; whether it was not held before.
    pub fn hold(&mut self, key: &[u8], run: RunId) -> bool {
        debug_assert!(self.holds.by_key.get(key).is_none_or(|hold| hold.run == run));
        let is_new = !self.holds.by_key.contains_key(key);
        self.holds.hold(key, run);
        is_new
    }

    /// Lets go of a key that a run holds here.
    pub fn release(&mut self, key: &[u8], run: RunId) {
        if let Some(hold) = self.holds.by_key.get(key)
            && hold.run == run
            && hold.lent.is_empty()
        {
            let hold = self.holds.remove(key);
            self.take_held_debits(slot_of(key), hold.map(|hold| hold.debits));
        }
    }

    /// Whether runs but that one have keys.
    pub fn has_holds_of_others(&self, run: RunId) -> bool {
        self.holds.by_key.values().any(|hold| hold.run != run)
    }

    /// Whether the whole shard is another run's, or is about to be.
    pub fn is_frozen_for(&self, run: RunId) -> bool {
        self.holds.frozen.is_some_and(|frozen| frozen != run)
    }

    /// Gives the whole shard to a run, or back. Keys that other runs hold stay theirs.
    pub fn freeze(&mut self, run: Option<RunId>) {
        self.holds.frozen = run;
    }

    /// The space that a command's key at that position belongs to.
    pub fn space_of(&self, env: &Env, spec: &Spec, request: Request<'_>, position: usize) -> Space {
        if spec.name == "copy" && position == 2 {
            return Space::Db(crate::rename::copy_db(env, request));
        }
        if spec.name.starts_with("rl.") {
            let mut words = request.iter().skip(2);
            while let Some(word) = words.next() {
                if word.eq_ignore_ascii_case(b"RULE") {
                    let rule = words.next().and_then(|id| self.rule(id).ok());
                    return rule.map_or(Space::Db(env.db), |(number, ..)| Space::Rule(number));
                }
            }
        }
        Space::Db(env.db)
    }

    /// Lends a key that is not blocked for that run: takes what it holds out and blocks it.
    ///
    /// # Errors
    /// The key is too long for any store.
    pub fn lend(&mut self, space: Space, bytes: &[u8], run: RunId) -> Result<Loan, CommandError> {
        let key = self.bucket_key(space, bytes)?;
        let clock_offset_us = self.store.slot(key.slot()).map_or(0, |slot| slot.clock_offset_us);
        let (content, params, type_name) = match self.take_held(&key) {
            Held::Nothing => (Content::Nothing, None, None),
            Held::Value(taken) => {
                let type_name = taken.value.type_name();
                (Content::Value(taken), None, Some(type_name))
            }
            Held::Bucket(bucket) => {
                let id = bucket.params;
                (self.portable(bucket), Some(id), Some(crate::keys::TYPE_NAME))
            }
        };
        let hold = self.holds.hold(bytes, run);
        debug_assert_eq!(hold.run, run);
        hold.lent.push(Lent {
            space,
            params,
            type_name,
        });
        Ok(Loan {
            space,
            key: bytes.into(),
            changed: false,
            clock_offset_us,
            content,
        })
    }

    /// Puts back what was lent; whether all of the key is back, so that who waits for it can go on.
    pub fn take_back(&mut self, loan: Loan) -> bool {
        let hold = self.holds.by_key.get_mut(&loan.key);
        // Without one it is new: made by a run that has the whole node, and so knew that there was no such key.
        let lent = hold.and_then(|hold| {
            let at = hold.lent.iter().position(|lent| lent.space == loan.space)?;
            let lent = hold.lent.swap_remove(at);
            Some((lent, hold.lent.is_empty(), hold.call_waiting))
        });
        let is_last = matches!(lent, Some((_, true, _)));
        let call_waiting = matches!(lent, Some((_, _, true)));
        let debits = match is_last {
            true => self.holds.remove(&loan.key).map(|hold| hold.debits),
            false => None,
        };
        let (space, bytes, changed) = (loan.space, loan.key.clone(), loan.changed);
        let params = lent.and_then(|(lent, ..)| lent.params);
        self.put_loan(loan, params);
        if let Some(params) = params {
            self.policies.release(params);
        }
        self.take_held_debits(slot_of(&bytes), debits);
        if let Ok(key) = self.bucket_key(space, &bytes) {
            if changed {
                self.note_change(&key);
            }
            if call_waiting {
                self.call_waiting(&key);
            }
        }
        is_last
    }

    /// Takes a loan of another shard in, for a run here.
    pub fn admit(&mut self, loan: Loan, run: RunId) {
        self.store.admit_guests();
        self.hold(&loan.key, run);
        // It goes on as on the clock of its shard.
        if let Ok(key) = self.store.key(loan.space, &loan.key)
            && let Some(slot) = self.store.slot_mut(key.slot())
        {
            slot.clock_offset_us = loan.clock_offset_us;
        }
        self.interest.admit(loan.space, &loan.key, run);
        self.put_loan(loan, None);
    }

    /// Takes a key of another shard in that holds nothing there, for a run that has the whole node. `clock_offset_us`: of its slot there.
    pub(crate) fn admit_nothing(&mut self, space: Space, bytes: &[u8], clock_offset_us: i64, run: RunId) {
        self.admit(Loan::new(space, bytes, clock_offset_us, Content::Nothing), run);
    }

    /// The guests of a run.
    pub fn guests(&self, run: RunId) -> Vec<(Space, Box<[u8]>)> {
        self.interest.guests_of_run(run)
    }

    /// Takes a guest out again, to give it back.
    pub fn dismiss(&mut self, space: Space, bytes: &[u8], run: RunId) -> Option<Loan> {
        let changed = self.interest.dismiss(space, bytes)?;
        self.release(bytes, run);
        let key = self.bucket_key(space, bytes).ok()?;
        let clock_offset_us = self.store.slot(key.slot()).map_or(0, |slot| slot.clock_offset_us);
        let content = match self.take_held(&key) {
            Held::Nothing => Content::Nothing,
            Held::Value(taken) => Content::Value(taken),
            Held::Bucket(bucket) => {
                let id = bucket.params;
                let content = self.portable(bucket);
                self.policies.release(id);
                content
            }
        };
        Some(Loan {
            space,
            key: bytes.into(),
            changed,
            clock_offset_us,
            content,
        })
    }

    /// Whether a key has an entry.
    pub fn has_entry(&self, space: Space, bytes: &[u8]) -> bool {
        let key = self.store.key(space, bytes);
        key.is_ok_and(|key| self.store.find(&key).is_some())
    }

    /// Whether a guest is not as it was when it came.
    pub fn has_changed_guest(&self, space: Space, bytes: &[u8]) -> bool {
        self.interest.has_changed(space, bytes)
    }

    /// Frees what a loan holds that nobody wants.
    pub fn drop_loan(&mut self, loan: Loan) {
        if let Content::Value(taken) = loan.content {
            self.store.bury(taken.value);
        }
    }

    /// Stores what a run of another node has made of a key that is held for it here.
    pub fn replace_held(&mut self, loan: Loan) {
        let Ok(key) = self.store.key(loan.space, &loan.key) else {
            return;
        };
        let (space, bytes) = (loan.space, loan.key.clone());
        let before = self.store.find(&key);
        let before = before.filter(|&place| self.store.value(place).is_none());
        let params = before.map(|place| ParamsId(self.store.params(place)));
        if let Some(params) = params {
            self.policies.retain(params);
        }
        self.put_loan(loan, params);
        if let Some(params) = params {
            self.policies.release(params);
        }
        if let Ok(key) = self.bucket_key(space, &bytes) {
            self.note_change(&key);
        }
    }

    /// A bucket in terms that all shards of a node share: each has the same policies under the same numbers.
    fn portable(&self, bucket: HeldBucket) -> Content {
        let (policy, params) = self.policies.params(bucket.params);
        Content::Bucket {
            policy,
            params,
            expiry: bucket.expiry,
            pinned: bucket.pinned,
            state: bucket.state,
        }
    }

    /// Stores what a loan holds. `fallback` are parameters to keep a bucket under if its own cannot be interned.
    fn put_loan(&mut self, loan: Loan, fallback: Option<ParamsId>) {
        // It was a key of a store before, and guests are admitted.
        let Ok(key) = self.store.key(loan.space, &loan.key) else {
            return;
        };
        let held = match loan.content {
            Content::Nothing => Held::Nothing,
            Content::Value(taken) => Held::Value(taken),
            Content::Bucket {
                policy,
                params,
                expiry,
                pinned,
                state,
            } => {
                let Some(params) = self.policies.intern(policy, params).ok().or(fallback) else {
                    // More different limits than the shard can have: as any bucket then, this one is lost, and full.
                    return;
                };
                self.policies.retain(params);
                Held::Bucket(HeldBucket {
                    params,
                    expiry,
                    pinned,
                    state,
                })
            }
        };
        self.put_held(&key, held);
    }

    /// Keys of a database that are lent now and exist, with their types, in the slots from `start` on and before `end`: a scan of the
    /// store does not see them.
    pub(crate) fn lent_keys(&self, db: u8, start: u16, end: u16) -> impl Iterator<Item = (&[u8], &'static str)> {
        let in_range = move |key: &[u8]| (start..end).contains(&slot_of(key));
        self.holds
            .by_key
            .iter()
            .filter(move |(key, hold)| !hold.lent.is_empty() && in_range(key))
            .flat_map(move |(key, hold)| {
                let of_db = hold.lent.iter().filter(move |lent| lent.space == Space::Db(db));
                of_db.filter_map(move |lent| Some((&**key, lent.type_name?)))
            })
    }

    /// Whether the first check of a queue has to wait.
    pub(crate) fn blocks_first(&self, queue: &CheckQueue) -> bool {
        self.has_holds() && queue.first_key().is_some_and(|key| self.is_blocked(key))
    }

    pub(crate) fn is_key_blocked(&self, key: &Key<'_>) -> bool {
        self.is_blocked(key.bytes())
    }
}

#[cfg(test)]
mod tests;
