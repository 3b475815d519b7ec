//! What was admitted and nobody else knows of: tokens by bucket, for slots whose journal is on.

use super::record::{put_parameters, put_space};
use crate::Shard;
use std::collections::HashMap;
use tollgate_script::ParamsId;
use tollgate_store::{Key, Keyspace, SlotSet, Space};
use tollgate_values::varint;

/// Buckets that the journals of a shard have at most, unless [`Shard::set_carry_bounds`] sets it.
pub const JOURNAL_BUCKETS_MAX: usize = 100_000;

/// Tokens that a bucket owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// Database or rule, and key, as [`Shard::debit`] reads them.
    pub bucket: Vec<u8>,
    /// Policy, limit, window and burst, as [`Shard::debit`] reads them.
    pub parameters: Vec<u8>,
    /// How many.
    pub tokens: u64,
}

#[derive(Debug)]
struct Admitted {
    /// Retained.
    params: ParamsId,
    tokens: u64,
}

/// What a bucket belongs to, and its key.
type Name = (Space, Box<[u8]>);
type Buckets = HashMap<Name, Admitted>;

/// The journals of a shard.
#[derive(Debug)]
pub(crate) struct Journals {
    by_slot: HashMap<u16, Buckets>,
    buckets: usize,
    buckets_max: usize,
    /// Parameters of what is no longer here, to be released.
    released: Vec<ParamsId>,
}

impl Default for Journals {
    fn default() -> Self {
        Self {
            by_slot: HashMap::new(),
            buckets: 0,
            buckets_max: JOURNAL_BUCKETS_MAX,
            released: Vec::new(),
        }
    }
}

impl Journals {
    pub(super) fn set_buckets_max(&mut self, buckets: usize) {
        self.buckets_max = buckets;
    }

    fn drop_buckets(&mut self, buckets: impl IntoIterator<Item = Admitted>) {
        for admitted in buckets {
            self.buckets -= 1;
            self.released.push(admitted.params);
        }
    }

    pub(super) fn clear_slot(&mut self, slot: u16) {
        if let Some(buckets) = self.by_slot.remove(&slot) {
            self.drop_buckets(buckets.into_values());
        }
    }
}

impl Shard {
    /// Whether any slot has a journal.
    #[inline]
    pub(crate) fn has_journals(&self) -> bool {
        !self.carry.journals.by_slot.is_empty()
    }

    /// Begins or ends the journal of a slot. One that ends is forgotten.
    pub fn set_journal(&mut self, slot: u16, on: bool) {
        if on {
            self.carry.journals.by_slot.entry(slot).or_default();
        } else {
            self.carry.journals.clear_slot(slot);
            self.release_journalled();
        }
    }

    /// The slots whose journal has something.
    pub fn journalled_slots(&self) -> Vec<u16> {
        let by_slot = self.carry.journals.by_slot.iter();
        by_slot
            .filter(|(_, buckets)| !buckets.is_empty())
            .map(|(&slot, _)| slot)
            .collect()
    }

    /// Takes up to `count` buckets out of the journal of a slot, which goes on.
    pub fn take_journal(&mut self, slot: u16, count: usize) -> Vec<Owed> {
        let Some(buckets) = self.carry.journals.by_slot.get_mut(&slot) else {
            return Vec::new();
        };
        let names: Vec<Name> = buckets.keys().take(count).cloned().collect();
        let taken = names.into_iter().filter_map(|name| buckets.remove_entry(&name));
        let taken: Vec<(Name, Admitted)> = taken.collect();
        let mut owed = Vec::with_capacity(taken.len());
        for ((space, key), admitted) in taken {
            owed.extend(self.owed(space, &key, admitted.params, admitted.tokens));
            self.carry.journals.drop_buckets([admitted]);
        }
        self.release_journalled();
        owed
    }

    /// What a bucket owes, in terms that other nodes know; `None` if it is of a rule that is gone.
    pub(super) fn owed(&self, space: Space, key: &[u8], params: ParamsId, tokens: u64) -> Option<Owed> {
        let mut bucket = Vec::new();
        if !put_space(&mut bucket, &self.rules, space) {
            return None;
        }
        varint::put_bytes(&mut bucket, key);
        let mut parameters = Vec::new();
        put_parameters(&mut parameters, &self.policies, params);
        Some(Owed {
            bucket,
            parameters,
            tokens,
        })
    }

    /// Notes an admission, if the journal of the key's slot is on. One that has cost nothing takes no place there.
    pub(crate) fn journal_admitted(&mut self, key: &Key<'_>, params: ParamsId, tokens: u64) {
        if tokens == 0 {
            return;
        }
        let journals = &mut self.carry.journals;
        let Some(buckets) = journals.by_slot.get_mut(&key.slot()) else {
            return;
        };
        let name = (key.space(), Box::from(key.bytes()));
        if let Some(admitted) = buckets.get_mut(&name) {
            admitted.tokens = admitted.tokens.saturating_add(tokens);
        } else if journals.buckets < journals.buckets_max {
            journals.buckets += 1;
            self.policies.retain(params);
            buckets.insert(name, Admitted { params, tokens });
        } else {
            self.stats.carry.journal_lost += 1;
        }
    }

    /// Notes that tokens were given back, or all of them.
    pub(crate) fn journal_returned(&mut self, key: &Key<'_>, tokens: Option<u64>) {
        let journals = &mut self.carry.journals;
        let Some(buckets) = journals.by_slot.get_mut(&key.slot()) else {
            return;
        };
        let name = (key.space(), Box::from(key.bytes()));
        let Some(admitted) = buckets.get_mut(&name) else {
            return;
        };
        admitted.tokens = tokens.map_or(0, |tokens| admitted.tokens.saturating_sub(tokens));
        if admitted.tokens == 0
            && let Some(admitted) = buckets.remove(&name)
        {
            journals.drop_buckets([admitted]);
            self.release_journalled();
        }
    }

    /// Notes that a keyspace was flushed, or all of them, in all slots or in some.
    pub(crate) fn journal_flushed(&mut self, keyspace: Option<Keyspace>, slots: Option<&SlotSet>) {
        let journals = &mut self.carry.journals;
        let mut gone = Vec::new();
        let is_flushed = |slot: u16| slots.is_none_or(|slots| slots.contains(slot));
        let by_slot = journals.by_slot.iter_mut().filter(|(slot, _)| is_flushed(**slot));
        for (_, buckets) in by_slot {
            let flushed = |space: Space| keyspace.is_none_or(|keyspace| keyspace == Keyspace::from(space));
            gone.extend(
                buckets
                    .extract_if(|name, _| flushed(name.0))
                    .map(|(_, admitted)| admitted),
            );
        }
        journals.drop_buckets(gone);
        self.release_journalled();
    }

    fn release_journalled(&mut self) {
        for params in std::mem::take(&mut self.carry.journals.released) {
            self.policies.release(params);
        }
    }
}
