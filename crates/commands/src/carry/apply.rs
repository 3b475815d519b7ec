//! Taking what another node has written of a slot.

use super::record::{Chunk, Parameters, Reader, Record, SpaceName};
use super::{CarryStats, Malformed};
use crate::Shard;
use crate::shard::{Kept, params_of};
use smallvec::SmallVec;
use tollgate_limiter::{Burst, Limit, Quota, Window};
use tollgate_script::{Fields, Params, ParamsId, State as Lua};
use tollgate_store::{Expiry, Key, MAX_BLOB_BYTES, Numbers, Space, State, Taken, slot_of};
use tollgate_values::{Import, Value};

/// A value of which parts have come.
#[derive(Debug)]
pub(super) struct Arriving {
    db: u8,
    key: Box<[u8]>,
    expires: Expiry,
    import: Import,
}

/// A kind of bucket, as it is here.
#[derive(Debug, Clone, Copy)]
struct Kind {
    space: Space,
    /// Retained until the end.
    params: ParamsId,
    /// Numbers that a state may have; `None`: it is a blob.
    numbers_max: Option<usize>,
    is_same_version: bool,
}

/// Why there is no such kind here.
#[derive(Debug, Clone, Copy)]
enum Unknown {
    Policy,
    Rule,
    TooManyLimits,
    /// No such limit can be.
    Malformed,
}

impl CarryStats {
    fn count(&mut self, unknown: Unknown) {
        *match unknown {
            Unknown::Policy => &mut self.unknown_policy,
            Unknown::Rule => &mut self.unknown_rule,
            Unknown::TooManyLimits => &mut self.too_many_limits,
            Unknown::Malformed => &mut self.malformed,
        } += 1;
    }
}

impl Shard {
    /// Takes what [`Shard::copy_slot`] or [`Shard::slot_changes`] of another node have written of a slot. A record that makes no sense is
    /// skipped and counted.
    ///
    /// # Errors
    /// [`Malformed`]: it cannot be told where records begin. What came before that stays.
    pub fn apply_to_slot(&mut self, slot: u16, bytes: &[u8]) -> Result<(), Malformed> {
        let mut kinds = SmallVec::new();
        let mut retained = SmallVec::new();
        let result = self.apply_records(slot, Reader(bytes), &mut kinds, &mut retained);
        retained.into_iter().for_each(|params| self.policies.release(params));
        result
    }

    fn apply_records(
        &mut self,
        slot: u16,
        mut reader: Reader<'_>,
        kinds: &mut SmallVec<[Result<Kind, Unknown>; 2]>,
        retained: &mut SmallVec<[ParamsId; 4]>,
    ) -> Result<(), Malformed> {
        let mut in_section = false;
        while let Some(record) = reader.next()? {
            if !in_section && !matches!(record, Record::Section) {
                return Err(Malformed);
            }
            let taken = match record {
                Record::Section => {
                    in_section = true;
                    kinds.clear();
                    Ok(())
                }
                Record::Kind(space, parameters) => {
                    let kind = self.kind(space, &parameters);
                    if let Ok(kind) = &kind {
                        self.policies.retain(kind.params);
                        retained.push(kind.params);
                    }
                    kinds.push(kind);
                    Ok(())
                }
                Record::Bucket {
                    kind,
                    key,
                    expiry,
                    pinned,
                    state,
                } => match *kinds.get(kind).ok_or(Malformed)? {
                    Ok(kind) => self.apply_bucket(slot, &kind, key, expiry, pinned, state),
                    Err(unknown) => {
                        self.stats.carry.count(unknown);
                        Ok(())
                    }
                },
                Record::Value {
                    chunk,
                    db,
                    key,
                    expires,
                    bytes,
                } => self.apply_value(slot, chunk, db, key, expires, bytes),
                Record::Remove(space, key) => self.apply_removal(slot, space, key),
                Record::Keep(space, key) => self.apply_keep(slot, space, key),
                Record::Flush(keyspace) => {
                    self.flush_slot(slot, keyspace);
                    Ok(())
                }
            };
            self.stats.carry.malformed += u64::from(taken.is_err());
        }
        Ok(())
    }

    fn apply_removal(&mut self, slot: u16, space: SpaceName<'_>, key: &[u8]) -> Result<(), Malformed> {
        if let Some(space) = self.space_named(space) {
            self.abandon_arriving_of(slot, space, key);
            let key = self.arriving_key(slot, space, key)?;
            self.remove_unnoted(&key);
        }
        Ok(())
    }

    fn apply_keep(&mut self, slot: u16, space: SpaceName<'_>, key: &[u8]) -> Result<(), Malformed> {
        if let Some(space) = self.space_named(space) {
            let key = self.arriving_key(slot, space, key)?;
            if let Some(place) = self.store.find(&key) {
                self.store.touch_mark(place);
            }
        }
        Ok(())
    }

    /// The space of that name, if it is known here.
    pub(super) fn space_named(&self, name: SpaceName<'_>) -> Option<Space> {
        match name {
            SpaceName::Db(number) => Some(Space::Db(number)),
            SpaceName::Rule(id) => self.rule(id).ok().map(|(number, ..)| Space::Rule(number)),
        }
    }

    fn arriving_key<'a>(&self, slot: u16, space: Space, bytes: &'a [u8]) -> Result<Key<'a>, Malformed> {
        if slot_of(bytes) != slot {
            return Err(Malformed);
        }
        self.store.key_in_slot(space, slot, bytes).map_err(|_| Malformed)
    }

    fn kind(&mut self, space: SpaceName<'_>, parameters: &Parameters<'_>) -> Result<Kind, Unknown> {
        let params = checked(parameters.params).ok_or(Unknown::Malformed)?;
        let space = self.space_named(space).ok_or(Unknown::Rule)?;
        let policy = self.policies.policy(parameters.policy).ok_or(Unknown::Policy)?;
        let id = self
            .policies
            .intern(policy, params)
            .map_err(|_| Unknown::TooManyLimits)?;
        let info = self.policies.info(policy);
        Ok(Kind {
            space,
            params: id,
            numbers_max: match &info.fields {
                Fields::Numbers(names) => Some(names.len()),
                Fields::Buffer => None,
            },
            is_same_version: u64::from(info.version) == parameters.version,
        })
    }

    fn apply_bucket(
        &mut self,
        slot: u16,
        kind: &Kind,
        key: &[u8],
        expiry: Expiry,
        pinned: bool,
        state: State<'_>,
    ) -> Result<(), Malformed> {
        self.abandon_arriving_of(slot, kind.space, key);
        let key = self.arriving_key(slot, kind.space, key)?;
        if !kind.is_same_version {
            self.stats.carry.other_version += 1;
            self.store_empty(&key, kind.params);
            return Ok(());
        }
        let fits = match (state, kind.numbers_max) {
            (State::Numbers(numbers), Some(max)) => numbers.len() <= max,
            (State::Blob(blob), None) => blob.len() <= MAX_BLOB_BYTES,
            _ => false,
        };
        if !fits {
            self.store_empty(&key, kind.params);
            return Err(Malformed);
        }
        let place = self.store.find(&key);
        if place.is_none() && self.is_out_of_memory() {
            return Ok(());
        }
        let before = place
            .filter(|&place| self.store.value(place).is_none())
            .map(|place| ParamsId(self.store.params(place)));
        let in_place = match (place, state) {
            (Some(place), State::Numbers(numbers)) => self.store.update(place, kind.params.0, expiry, pinned, &numbers),
            _ => false,
        };
        if !in_place {
            self.store
                .put(&key, kind.params.0, expiry, pinned, state)
                .map_err(|_| Malformed)?;
        }
        self.policies.retain(kind.params);
        if let Some(before) = before {
            self.policies.release(before);
        }
        Ok(())
    }

    /// Stores a bucket with nothing left in it, since what is left of it cannot be told.
    fn store_empty(&mut self, key: &Key<'_>, params: ParamsId) {
        let clock_us = self.slot_clock_at(key.slot(), self.carry.now_us);
        let (_, Params { burst, .. }) = self.policies.params(params);
        let Ok((outcome, state)) = self.policies.check_one(params, None, clock_us as i64, burst, false) else {
            return;
        };
        let (numbers, bytes);
        let state = match state {
            Lua::Numbers(fields) => {
                // No policy has more fields than the store takes.
                numbers = Numbers::new(fields).unwrap_or_default();
                State::Numbers(numbers)
            }
            Lua::Bytes(content) => {
                bytes = content.to_vec();
                State::Blob(&bytes)
            }
        };
        let kept = Kept {
            full_at_us: outcome.full_at_us.max(0) as u64,
            clock_us,
            pinned: None,
            params,
        };
        if self.store_state(key, kept, state).is_err() {
            self.stats.carry.out_of_memory += 1;
        }
    }

    fn is_out_of_memory(&mut self) -> bool {
        let is_out = self.max_memory_bytes > 0 && self.bounded_bytes() >= self.max_memory_bytes;
        self.stats.carry.out_of_memory += u64::from(is_out);
        is_out
    }

    fn apply_value(
        &mut self,
        slot: u16,
        chunk: Chunk,
        db: u8,
        key: &[u8],
        expires: Expiry,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        if matches!(chunk, Chunk::Whole | Chunk::First) {
            self.abandon_arriving(slot);
            let arriving = Arriving {
                db,
                key: self.arriving_key(slot, Space::Db(db), key)?.bytes().into(),
                expires,
                import: Import::new(self.hash_seed),
            };
            self.carry.arriving.insert(slot, arriving);
        }
        // Without a first part: there was no memory for it, or something else has come in its place.
        let Some(mut arriving) = self.carry.arriving.remove(&slot) else {
            return Ok(());
        };
        arriving.import.read_some(bytes).map_err(|_| Malformed)?;
        if matches!(chunk, Chunk::First | Chunk::Middle) {
            if !self.is_out_of_memory() {
                self.carry.arriving.insert(slot, arriving);
            } else if let Some(value) = arriving.import.abandon() {
                self.store.bury(value);
            }
            return Ok(());
        }
        let value = arriving.import.finish().map_err(|_| Malformed)?;
        let key = self.arriving_key(slot, Space::Db(arriving.db), &arriving.key)?;
        self.store_arrived(&key, arriving.expires, value);
        Ok(())
    }

    fn store_arrived(&mut self, key: &Key<'_>, expires: Expiry, value: Value) {
        let place = self.store.find(key);
        if place.is_none() && self.is_out_of_memory() {
            return self.store.bury(value);
        }
        if let Some(place) = place.filter(|&place| self.store.value(place).is_some()) {
            let before = self.store.change_value(place, |stored| {
                stored.expires = expires;
                std::mem::replace(&mut stored.value, value)
            });
            return before.into_iter().for_each(|before| self.store.bury(before));
        }
        self.remove_unnoted(key);
        self.store.insert_value(key, Taken { expires, value });
    }

    /// Forgets a value of a slot of which only parts have come.
    pub(super) fn abandon_arriving(&mut self, slot: u16) {
        if self.carry.arriving.is_empty() {
            return;
        }
        let arriving = self.carry.arriving.remove(&slot);
        if let Some(value) = arriving.and_then(|arriving| arriving.import.abandon()) {
            self.store.bury(value);
        }
    }

    /// As [`Shard::abandon_arriving`], if it is of that key.
    fn abandon_arriving_of(&mut self, slot: u16, space: Space, key: &[u8]) {
        let arriving = self.carry.arriving.get(&slot);
        if arriving.is_some_and(|arriving| Space::Db(arriving.db) == space && *arriving.key == *key) {
            self.abandon_arriving(slot);
        }
    }
}

/// Parameters that a check could have had.
pub(super) fn checked(params: Params) -> Option<Params> {
    let quota = Quota {
        limit: Limit::new(params.limit).ok()?,
        window: Window::from_us(params.window_us).ok()?,
        burst: Burst::new(params.burst).ok()?,
    };
    Some(params_of(quota))
}
