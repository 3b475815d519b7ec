//! The queue of a turn's checks, and how a batch of them is decided.
//!
//! A flush goes over the batch in passes, so that the cache misses of different keys overlap and Lua is called once:
//! look the buckets up, decide, write the states back (first those that stay in place, then those that move or are
//! new, since an insert invalidates places), answer in order.

use super::reply::{Shown, decision, write};
use super::{Order, Shape, Subject};
use crate::shard::{Kept, Shard};
use crate::stats::Verdict;
use crate::{CommandError, Env};
use tollgate_protocol::{Proto, Request};
use tollgate_script::{Batch, MAX_BATCH, OpIx, ParamsId, PolicyId, Progress, StateIn, StateIx};
use tollgate_store::{Expiry, Key, MAX_KEY_BYTES, Numbers, Place, Space, State};

/// Slots of the table that finds two checks of one bucket; a power of two, at least twice the batch.
const SAME_KEY_SLOTS: usize = 2 * MAX_BATCH;
/// Marks an empty slot of that table.
const NOBODY: u8 = u8::MAX;
/// Microseconds in policies after which a flush lets others run, although its last batch is done.
const SPENT_MAX_US: u64 = 500;
/// Key bytes that a queue keeps between turns; a huge key's memory is given back.
const KEPT_KEY_BYTES: usize = 64 * 1024;

/// Whether a flush got to the end of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// Every queued check is answered.
    Done,
    /// The policies used up the time of one budget; the rest waits. Serve others, then flush again.
    Yield,
    /// The first that is left is for a key that is held, see [`CheckQueue::first_key`]. Flush again when it may be free.
    Wait,
}

/// One queued check.
#[derive(Debug, Clone, Copy)]
struct Pending {
    space: Space,
    /// Where in `keys` the key is.
    key: (u32, u32),
    policy: PolicyId,
    params: ParamsId,
    limit: u64,
    burst: u64,
    cost: u64,
    peek: bool,
    shape: Shape,
    /// The protocol of the connection when the check came.
    proto: Proto,
}

/// The bucket of one or more checks of a batch.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The check that named it first.
    first: u8,
    /// The parameters it is stored under; of a new one, those of its first check.
    params: ParamsId,
    state: StateIx,
    place: Option<Place>,
    /// An expiry that the user asked for, which a check may put off but not bring forward.
    pinned: Option<Expiry>,
    clock_us: u64,
    clock_offset_us: i64,
    /// When the last check that was not a peek said it is full again.
    full_at_us: Option<u64>,
    /// There was no memory for it.
    refused: bool,
}

/// What became of a check before the policies saw it.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// It is in the batch.
    Op { op: OpIx, bucket: u8 },
    /// Its bucket has another policy: it is stored under these parameters. Or its key holds a value, which has none.
    OtherPolicy(ParamsId),
}

/// Checks of one connection's turn, or of several small ones, that wait to be decided together. Reused from turn to turn, it
/// keeps its memory.
#[derive(Debug)]
pub struct CheckQueue {
    pending: Vec<Pending>,
    keys: Vec<u8>,
    buckets: Vec<Bucket>,
    asked: Vec<Asked>,
    same_key: [u8; SAME_KEY_SLOTS],
    /// Whether a check has a policy that is not built in.
    guarded: bool,
    /// Whether `ends` is kept.
    track_ends: bool,
    /// Where each reply ends that was written since [`CheckQueue::start`].
    ends: Vec<u32>,
}

impl Default for CheckQueue {
    fn default() -> Self {
        Self {
            pending: Vec::with_capacity(MAX_BATCH),
            keys: Vec::new(),
            buckets: Vec::with_capacity(MAX_BATCH),
            asked: Vec::with_capacity(MAX_BATCH),
            same_key: [NOBODY; SAME_KEY_SLOTS],
            guarded: false,
            track_ends: false,
            ends: Vec::new(),
        }
    }
}

impl CheckQueue {
    /// Begins a run of commands whose replies go into one buffer from its start. With `track_ends`, [`CheckQueue::ends`] tells
    /// afterwards where each reply ends.
    pub fn start(&mut self, track_ends: bool) {
        debug_assert!(self.pending.is_empty());
        self.track_ends = track_ends;
        self.ends.clear();
    }

    /// Where each reply ends that was written since [`CheckQueue::start`], if that was asked for.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Notes that a reply, not to a queued check, now ends the buffer at that length.
    pub fn note_end(&mut self, length: usize) {
        if self.track_ends {
            // A turn sends its replies long before 4 GiB of them.
            self.ends.push(length as u32);
        }
    }

    /// Puts another reply in place of the last in `out`, if that is longer. Nothing waits, and ends are noted.
    pub fn shorten_last(&mut self, out: &mut Vec<u8>, reply: &[u8]) {
        debug_assert!(self.pending.is_empty() && self.track_ends);
        let start = match self.ends[..] {
            [.., before, _] => before as usize,
            _ => 0,
        };
        if out.len() > start + reply.len()
            && let Some(end) = self.ends.last_mut()
        {
            out.truncate(start);
            out.extend_from_slice(reply);
            *end = out.len() as u32;
        }
    }

    /// Notes that the last reply that was noted was replaced by another, which ends at that length.
    pub fn amend_end(&mut self, length: usize) {
        if let Some(end) = self.ends.last_mut() {
            *end = length as u32;
        }
    }

    /// How many checks wait.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether all that wait are of policies built in, which cannot be slow.
    pub fn is_trusted(&self) -> bool {
        !self.guarded
    }

    /// Whether what waits in `other` can be appended.
    pub fn has_room_for(&self, other: &CheckQueue) -> bool {
        self.pending.len() + other.pending.len() <= MAX_BATCH
    }

    /// Takes over what waits in `other`.
    pub fn append(&mut self, other: &mut CheckQueue) {
        debug_assert!(self.has_room_for(other));
        // A queue is flushed long before it holds 4 GiB of keys.
        let base = self.keys.len() as u32;
        self.keys.extend_from_slice(&other.keys);
        self.pending.extend(other.pending.iter().map(|check| Pending {
            key: (base + check.key.0, base + check.key.1),
            ..*check
        }));
        self.guarded |= other.guarded;
        other.drop_front(other.pending.len());
    }

    /// The key of the first check that waits.
    pub fn first_key(&self) -> Option<&[u8]> {
        let (start, end) = self.pending.first()?.key;
        Some(&self.keys[start as usize..end as usize])
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether it must be flushed before another check can be queued.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= MAX_BATCH
    }

    /// Forgets the first `n` checks.
    fn drop_front(&mut self, n: usize) {
        self.pending.drain(..n);
        if self.pending.is_empty() {
            self.guarded = false;
            self.keys.clear();
            self.keys.shrink_to(KEPT_KEY_BYTES);
        }
    }
}

/// The keys of a batch, hashed.
type Keys<'a> = smallvec::SmallVec<[Key<'a>; MAX_BATCH]>;

impl Shard {
    /// Queues a parsed check. The queue must not be full.
    pub(crate) fn queue_check(
        &mut self,
        env: &Env,
        queue: &mut CheckQueue,
        order: &Order,
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        debug_assert!(!queue.is_full());
        let key = request.arg(1);
        if key.len() > MAX_KEY_BYTES {
            return Err(CommandError::KeyTooLong(MAX_KEY_BYTES));
        }
        let params = self.intern(order.policy, order.quota)?;
        // Held until the flush: the cache of unused parameters must not lose what the queue refers to.
        self.policies.retain(params);
        queue.guarded |= !self.policies.info(order.policy).trusted;
        let start = queue.keys.len() as u32;
        queue.keys.extend_from_slice(key);
        queue.pending.push(Pending {
            space: order.space(env.db),
            key: (start, queue.keys.len() as u32),
            policy: order.policy,
            params,
            limit: order.quota.limit.get(),
            burst: order.quota.burst.get(),
            cost: order.cost,
            peek: order.peek,
            shape: order.shape,
            proto: env.proto,
        });
        Ok(())
    }

    /// Forgets the checks that wait: they are not decided, and not answered.
    pub fn forget_checks(&mut self, queue: &mut CheckQueue) {
        self.drop_front(queue, queue.len());
    }

    /// Takes the first `n` checks out of a queue.
    fn drop_front(&mut self, queue: &mut CheckQueue, n: usize) {
        for pending in &queue.pending[..n] {
            self.policies.release(pending.params);
        }
        queue.drop_front(n);
    }

    /// Decides what is queued and writes the replies, in order. [`Flow::Yield`] means that the policies used up their
    /// time and that checks are left: let others run, then call again. Of `env` only the times count: each check has its own
    /// database and protocol.
    pub fn flush(&mut self, env: &Env, queue: &mut CheckQueue, out: &mut Vec<u8>) -> Flow {
        let mut spent_us = 0;
        while !queue.is_empty() {
            if self.blocks_first(queue) {
                return Flow::Wait;
            }
            let (decided, progress) = self.flush_batch(env, queue, out);
            spent_us += self.batch.time_us();
            self.drop_front(queue, decided);
            if (progress == Progress::More || spent_us >= SPENT_MAX_US) && !queue.is_empty() {
                return Flow::Yield;
            }
        }
        Flow::Done
    }

    /// One pass over what is queued. Returns how many checks, from the front, are answered.
    fn flush_batch(&mut self, env: &Env, queue: &mut CheckQueue, out: &mut Vec<u8>) -> (usize, Progress) {
        let CheckQueue {
            pending,
            keys: key_bytes,
            buckets,
            asked,
            same_key,
            track_ends,
            ends,
            ..
        } = queue;
        // queue_check admitted the length, and the caller routed the key here by its slot: all are keys of this shard.
        let keys: Keys<'_> = pending
            .iter()
            .map_while(|p| {
                self.store
                    .key(p.space, &key_bytes[p.key.0 as usize..p.key.1 as usize])
                    .ok()
            })
            .collect();
        if keys.is_empty() {
            // Whatever led here: a queue that never gets shorter would keep the worker for ever.
            return (self.refuse_first(pending, *track_ends, ends, out), Progress::Done);
        }
        let mut places = [None; MAX_BATCH];
        self.store.locate(&keys, &mut places);
        if let (Some(check), Some(key), Some(place)) = (pending.first(), keys.first(), places[0])
            && !self.is_of_policy(ParamsId(self.store.params(place)), check.params)
            && self.remove_if_full(env, key)
        {
            // A bucket of another policy that is full by now is as if it were not there; and a removal moves others.
            self.store.locate(&keys, &mut places);
        }
        self.batch.clear();
        buckets.clear();
        asked.clear();
        same_key.fill(NOBODY);
        let trusted = pending
            .first()
            .is_some_and(|check| self.policies.info(check.policy).trusted);
        let has_holds = self.has_holds();
        for (index, ((check, key), place)) in pending.iter().zip(&keys).zip(&places).enumerate() {
            if has_holds && self.is_key_blocked(key) {
                // It is the first of the next batch, and waits.
                break;
            }
            if self.policies.info(check.policy).trusted != trusted {
                // Each of the host's two VMs decides in order, but one after the other: a batch keeps to one of them, so that
                // what is decided is always a prefix.
                break;
            }
            let bucket = match find_bucket(same_key, &keys, buckets, key) {
                Ok(bucket) => bucket,
                Err(slot) => {
                    let Some(bucket) = self.load_bucket(env, index as u8, check, key, *place) else {
                        break;
                    };
                    same_key[slot] = buckets.len() as u8;
                    buckets.push(bucket);
                    (buckets.len() - 1) as u8
                }
            };
            let seen = &buckets[bucket as usize];
            if !self.is_of_policy(seen.params, check.params) {
                if seen.place.is_none() {
                    // Whether an earlier check creates the bucket is not known yet: decide those first.
                    break;
                }
                asked.push(Asked::OtherPolicy(seen.params));
                continue;
            }
            let op = self
                .batch
                .check(check.params, seen.state, seen.clock_us as i64, check.cost, check.peek);
            asked.push(Asked::Op { op, bucket });
        }
        let progress = self.policies.run(&mut self.batch);
        let decided = count_decided(asked, &self.batch);
        note_full_at(pending, &asked[..decided], buckets, &self.batch);
        self.write_back(&keys, buckets);
        if self.has_journals() {
            self.journal_batch(&keys, pending, &asked[..decided], buckets);
        }
        for (check, asked) in pending.iter().zip(&asked[..decided]) {
            self.answer(env, check, asked, buckets, out);
            if *track_ends {
                ends.push(out.len() as u32);
            }
        }
        (decided, progress)
    }

    /// Answers the first check of a queue with an error; how many that are.
    #[cold]
    fn refuse_first(&mut self, pending: &[Pending], track_ends: bool, ends: &mut Vec<u32>, out: &mut Vec<u8>) -> usize {
        let Some(check) = pending.first() else { return 0 };
        self.stats.count(check.policy, Verdict::Error);
        CommandError::TryAgain.write(out, check.proto);
        if track_ends {
            ends.push(out.len() as u32);
        }
        1
    }

    /// Puts the state of the bucket at `place` into the batch. `None` if that has to wait until the earlier checks are decided.
    fn load_bucket(
        &mut self,
        env: &Env,
        first: u8,
        check: &Pending,
        key: &Key<'_>,
        place: Option<Place>,
    ) -> Option<Bucket> {
        let clock_offset_us = self.store.slot(key.slot()).map_or(0, |slot| slot.clock_offset_us);
        let clock_us = env.now_us.saturating_add_signed(clock_offset_us);
        let mut params = check.params;
        if let Some(found) = place {
            params = ParamsId(self.store.params(found));
            if first > 0 && !self.is_of_policy(params, check.params) {
                // It may be full, and is removed then. But that would invalidate places: it begins a batch of its own.
                return None;
            }
        }
        let (pinned, state) = match place.map(|place| self.store.numbers(place)) {
            None => (None, self.batch.state(StateIn::NEW)),
            Some(Some(stored)) => {
                let state = self.batch.state(StateIn {
                    params: Some(params),
                    fields: &stored.state,
                });
                (stored.pinned, state)
            }
            // Of a policy with a buffer, so not that of a queued check, or no bucket at all: the check is refused.
            Some(None) => (None, self.batch.state(StateIn::NEW)),
        };
        Some(Bucket {
            first,
            params,
            state,
            place,
            pinned,
            clock_us,
            clock_offset_us,
            full_at_us: None,
            refused: false,
        })
    }

    /// Stores the changed states: what stays in place first, since an insert invalidates places.
    fn write_back(&mut self, keys: &Keys<'_>, buckets: &mut [Bucket]) {
        let mut moving = smallvec::SmallVec::<[u8; MAX_BATCH]>::new();
        for (index, bucket) in buckets.iter().enumerate() {
            let Some(full_at_us) = bucket.full_at_us else { continue };
            let after = self.batch.state_after(bucket.state);
            // A denial leaves states as they are: nothing to write, and nothing to replicate, unless another version of the
            // policy has taken the state over.
            if !after.changed && (bucket.place.is_none() || after.params == bucket.params) {
                continue;
            }
            if self.undo.is_some() {
                self.note_before_bucket(&keys[usize::from(bucket.first)]);
            }
            if self.interest.watches_any() {
                self.note_change(&keys[usize::from(bucket.first)]);
            }
            let (expiry, pinned) = self.expiry(full_at_us, after.params, bucket.pinned);
            let in_place = bucket
                .place
                .is_some_and(|place| self.store.update(place, after.params.0, expiry, pinned, after.fields()));
            if !in_place {
                moving.push(index as u8);
            } else if after.params != bucket.params {
                self.policies.retain(after.params);
                self.policies.release(bucket.params);
            }
        }
        for index in moving {
            let bucket = &mut buckets[usize::from(index)];
            let after = self.batch.state_after(bucket.state);
            let state = Numbers::new(after.fields()).map(State::Numbers);
            // full_at_us was there above, and a batch has at most four fields.
            let (Some(full_at_us), Ok(state)) = (bucket.full_at_us, state) else {
                continue;
            };
            let kept = Kept {
                full_at_us,
                clock_us: bucket.clock_us,
                pinned: bucket.pinned,
                params: after.params,
            };
            bucket.refused = self.store_state(&keys[usize::from(bucket.first)], kept, state).is_err();
        }
    }

    /// Notes what was admitted, for the slots whose journal is on.
    #[cold]
    fn journal_batch(&mut self, keys: &Keys<'_>, pending: &[Pending], asked: &[Asked], buckets: &[Bucket]) {
        for ((key, check), asked) in keys.iter().zip(pending).zip(asked) {
            if let Asked::Op { op, bucket } = *asked
                && !check.peek
                && !buckets[usize::from(bucket)].refused
                && self.batch.outcome(op).is_ok_and(|outcome| outcome.allowed)
            {
                self.journal_admitted(key, check.params, check.cost);
            }
        }
    }

    fn answer(&mut self, env: &Env, check: &Pending, asked: &Asked, buckets: &[Bucket], out: &mut Vec<u8>) {
        let env = &Env {
            proto: check.proto,
            ..*env
        };
        let (op, bucket) = match *asked {
            Asked::Op { op, bucket } => (op, &buckets[usize::from(bucket)]),
            Asked::OtherPolicy(live) => {
                self.stats.count(check.policy, Verdict::Error);
                let error = self.other_policy(live, check.policy);
                error.write(out, env.proto);
                return;
            }
        };
        match self.batch.outcome(op) {
            Ok(_) if bucket.refused && !check.peek => {
                self.stats.count(check.policy, Verdict::Error);
                CommandError::OutOfMemory.write(out, env.proto);
            }
            Ok(outcome) => {
                self.stats.count(
                    check.policy,
                    if outcome.allowed {
                        Verdict::Allowed
                    } else {
                        Verdict::Denied
                    },
                );
                let decision = decision(&outcome, check.limit);
                let shown = Shown {
                    decision,
                    burst: check.burst,
                    clock_us: bucket.clock_us,
                    clock_offset_us: bucket.clock_offset_us,
                };
                write(out, env, check.shape, &shown);
            }
            Err(fault) => {
                let error = self.fault(check.policy, &fault);
                error.write(out, env.proto);
            }
        }
    }
}

impl Order {
    /// The space of the bucket, for a connection that has selected database `db`.
    pub(crate) fn space(&self, db: u8) -> Space {
        match self.subject {
            Subject::Plain => Space::Db(db),
            Subject::Rule(number) => Space::Rule(number),
        }
    }
}

/// The bucket that an earlier check of the batch has for this key, or the slot of `same_key` where it belongs.
fn find_bucket(
    same_key: &[u8; SAME_KEY_SLOTS],
    keys: &Keys<'_>,
    buckets: &[Bucket],
    key: &Key<'_>,
) -> Result<u8, usize> {
    let mut slot = key.hash() as usize % SAME_KEY_SLOTS;
    loop {
        match same_key[slot] {
            NOBODY => return Err(slot),
            bucket if same_key_as(&keys[usize::from(buckets[usize::from(bucket)].first)], key) => return Ok(bucket),
            _ => slot = (slot + 1) % SAME_KEY_SLOTS,
        }
    }
}

fn same_key_as(a: &Key<'_>, b: &Key<'_>) -> bool {
    a.hash() == b.hash() && a.bytes() == b.bytes() && a.space() == b.space()
}

/// How many checks from the front the policies have decided.
fn count_decided(asked: &[Asked], batch: &Batch) -> usize {
    let undecided = |asked: &Asked| matches!(*asked, Asked::Op { op, .. } if !batch.is_decided(op));
    asked.iter().position(undecided).unwrap_or(asked.len())
}

/// Notes for each bucket when it is full again after the last check that counted.
fn note_full_at(pending: &[Pending], asked: &[Asked], buckets: &mut [Bucket], batch: &Batch) {
    for (check, asked) in pending.iter().zip(asked) {
        if let Asked::Op { op, bucket } = *asked
            && !check.peek
            && let Some(full_at_us) = batch.full_at_us(op)
        {
            buckets[usize::from(bucket)].full_at_us = Some(full_at_us.max(0) as u64);
        }
    }
}

#[cfg(test)]
mod tests;
