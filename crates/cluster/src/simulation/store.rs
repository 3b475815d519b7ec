//! A store of exact token buckets. Besides its level, each bucket has what was ever charged to it, by admissions and debits: however
//! a slot has moved, level and charges together are never more than one bucket may admit.

use crate::slots::{Changes, Cursor, Debit, Forgotten, Malformed, Mark, SlotStore};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The limit of one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRule {
    pub slot: u16,
    pub limit: u64,
    pub window_us: u64,
    pub burst: u64,
}

/// One bucket. Levels are in tokens times the window, so that refilling is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub level: i64,
    pub filled_us: u64,
    /// Tokens that were ever taken from it.
    pub charged: u64,
    /// Tokens of debits that were beyond the deepest debt.
    pub forgiven: u64,
}

#[derive(Debug, Default)]
struct Slot {
    buckets: BTreeMap<u16, Bucket>,
    /// Slot clock minus the node's monotonic clock.
    offset_us: Option<i64>,
    mark: u64,
    /// The mark of the last change of each key, while changes are tracked.
    changes: Option<BTreeMap<u16, u64>>,
    told: bool,
    mentioned: Option<BTreeSet<u16>>,
}

/// The store of one simulated node.
#[derive(Debug)]
pub(crate) struct ModelStore {
    rules: Arc<[KeyRule]>,
    slots: Vec<Slot>,
    changed: Vec<u16>,
    /// Wall time minus the node's monotonic clock.
    pub wall_offset_us: i64,
}

impl KeyRule {
    pub fn full(&self) -> i64 {
        (self.burst * self.window_us) as i64
    }

    fn refill(&self, bucket: &mut Bucket, clock_us: u64) {
        let since_us = clock_us.saturating_sub(bucket.filled_us);
        let gained = (since_us as i64).saturating_mul(self.limit as i64);
        bucket.level = bucket.level.saturating_add(gained).min(self.full());
        bucket.filled_us = bucket.filled_us.max(clock_us);
    }
}

impl ModelStore {
    pub fn new(slots: u16, rules: Arc<[KeyRule]>, wall_offset_us: i64) -> Self {
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Self {
            rules,
            slots,
            changed: Vec::new(),
            wall_offset_us,
        }
    }

    fn slot(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[usize::from(slot)]
    }

    fn bucket(&mut self, key: u16, now_us: u64) -> Bucket {
        let rule = self.rules[usize::from(key)];
        let clock_us = self.clock(rule.slot, now_us);
        // The first reading sets the clock, as it would in a shard.
        self.slot(rule.slot).offset_us = Some(clock_us as i64 - now_us as i64);
        let fresh = Bucket {
            level: rule.full(),
            filled_us: clock_us,
            charged: 0,
            forgiven: 0,
        };
        let mut bucket = self.slot(rule.slot).buckets.get(&key).copied().unwrap_or(fresh);
        rule.refill(&mut bucket, clock_us);
        bucket
    }

    fn put(&mut self, key: u16, bucket: Bucket) {
        let at = self.rules[usize::from(key)].slot;
        let slot = self.slot(at);
        slot.buckets.insert(key, bucket);
        slot.mark += 1;
        let mark = slot.mark;
        if let Some(changes) = &mut slot.changes {
            changes.insert(key, mark);
            if !std::mem::replace(&mut slot.told, true) {
                self.changed.push(at);
            }
        }
    }

    /// Decides one check, and takes what it admits.
    pub fn check(&mut self, key: u16, cost: u64, now_us: u64) -> bool {
        let rule = self.rules[usize::from(key)];
        let mut bucket = self.bucket(key, now_us);
        let price = (cost * rule.window_us) as i64;
        let allowed = bucket.level >= price;
        if allowed {
            bucket.level -= price;
            bucket.charged += cost;
        }
        self.put(key, bucket);
        allowed
    }

    /// What is remembered of a key, without a change.
    pub fn peek(&self, key: u16) -> Option<Bucket> {
        let rule = &self.rules[usize::from(key)];
        self.slots[usize::from(rule.slot)].buckets.get(&key).copied()
    }

    /// Forgets a key, as sweeping does.
    #[allow(dead_code)]
    pub fn remove(&mut self, key: u16) {
        let at = self.rules[usize::from(key)].slot;
        if let Some(bucket) = self.peek(key) {
            self.put(key, bucket);
            self.slot(at).buckets.remove(&key);
        }
    }

    fn write(&self, slot: u16, key: u16, out: &mut Vec<u8>) {
        out.extend(key.to_le_bytes());
        match self.slots[usize::from(slot)].buckets.get(&key) {
            None => out.push(0),
            Some(bucket) => {
                out.push(1);
                out.extend(bucket.level.to_le_bytes());
                out.extend(bucket.filled_us.to_le_bytes());
                out.extend(bucket.charged.to_le_bytes());
                out.extend(bucket.forgiven.to_le_bytes());
            }
        }
    }
}

impl SlotStore for ModelStore {
    fn copy_some(&mut self, slot: u16, from: Cursor, budget_bytes: usize, out: &mut Vec<u8>) -> Option<Cursor> {
        let start = out.len();
        let keys: Vec<u16> = self
            .slot(slot)
            .buckets
            .range(from.0 as u16..)
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            if out.len() > start && out.len() - start >= budget_bytes {
                return Some(Cursor(u64::from(key), 0));
            }
            self.write(slot, key, out);
        }
        None
    }

    fn track(&mut self, slot: u16) -> Mark {
        let slot = self.slot(slot);
        slot.changes.get_or_insert_default();
        Mark(slot.mark)
    }

    fn forget(&mut self, slot: u16, up_to: Option<Mark>) {
        let slot = self.slot(slot);
        match up_to {
            None => slot.changes = None,
            Some(Mark(mark)) => slot
                .changes
                .iter_mut()
                .for_each(|changes| changes.retain(|_, at| *at > mark)),
        }
    }

    fn changed(&mut self, out: &mut Vec<u16>) {
        for slot in std::mem::take(&mut self.changed) {
            self.slot(slot).told = false;
            out.push(slot);
        }
    }

    fn changes(
        &mut self,
        slot: u16,
        since: Mark,
        budget_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Changes, Forgotten> {
        let state = self.slot(slot);
        let mut keys: Vec<(u64, u16)> = state
            .changes
            .as_ref()
            .ok_or(Forgotten)?
            .iter()
            .map(|(key, at)| (*at, *key))
            .collect();
        let last = state.mark;
        keys.retain(|(at, _)| *at > since.0);
        keys.sort_unstable();
        let start = out.len();
        for (i, &(at, key)) in keys.iter().enumerate() {
            self.write(slot, key, out);
            if out.len() - start >= budget_bytes && i + 1 < keys.len() {
                return Ok(Changes {
                    mark: Mark(at),
                    more: true,
                });
            }
        }
        Ok(Changes {
            mark: Mark(last),
            more: false,
        })
    }

    fn apply(&mut self, slot: u16, mut bytes: &[u8]) -> Result<(), Malformed> {
        fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
            let (head, rest) = bytes.split_first_chunk::<N>().ok_or(Malformed)?;
            *bytes = rest;
            Ok(*head)
        }
        while !bytes.is_empty() {
            let key = u16::from_le_bytes(take(&mut bytes)?);
            let there = take::<1>(&mut bytes)? == [1];
            let slot = self.slot(slot);
            if let Some(mentioned) = &mut slot.mentioned {
                mentioned.insert(key);
            }
            if there {
                let level = i64::from_le_bytes(take(&mut bytes)?);
                let filled_us = u64::from_le_bytes(take(&mut bytes)?);
                let charged = u64::from_le_bytes(take(&mut bytes)?);
                let forgiven = u64::from_le_bytes(take(&mut bytes)?);
                slot.buckets.insert(
                    key,
                    Bucket {
                        level,
                        filled_us,
                        charged,
                        forgiven,
                    },
                );
            } else {
                slot.buckets.remove(&key);
            }
        }
        Ok(())
    }

    fn begin_copy(&mut self, slot: u16) {
        self.slot(slot).mentioned = Some(BTreeSet::new());
    }

    fn end_copy(&mut self, slot: u16) {
        let slot = self.slot(slot);
        if let Some(mentioned) = slot.mentioned.take() {
            slot.buckets.retain(|key, _| mentioned.contains(key));
        }
    }

    fn clear(&mut self, slot: u16) {
        let told = self.slot(slot).told;
        *self.slot(slot) = Slot {
            told,
            ..Slot::default()
        };
    }

    fn clock(&self, slot: u16, now_us: u64) -> u64 {
        let offset = self.slots[usize::from(slot)].offset_us.unwrap_or(self.wall_offset_us);
        now_us.saturating_add_signed(offset)
    }

    fn set_clock(&mut self, slot: u16, reading_us: u64, now_us: u64) {
        self.slot(slot).offset_us = Some(reading_us as i64 - now_us as i64);
    }

    fn set_held(&mut self, _slot: u16, _held: bool) {}

    fn debit(&mut self, slot: u16, debit: &Debit, now_us: u64) {
        let Ok(key) = <[u8; 2]>::try_from(&debit.bucket[..]).map(u16::from_le_bytes) else {
            return;
        };
        let rule = self.rules[usize::from(key)];
        debug_assert_eq!(rule.slot, slot, "a debit goes where its bucket is");
        let mut bucket = self.bucket(key, now_us);
        // Down to a debt of the burst; in whole tokens, so that the charges stay exact.
        let window = rule.window_us as i64;
        let taken = debit.tokens.min(((bucket.level + rule.full()) / window) as u64);
        bucket.level -= taken as i64 * window;
        bucket.charged += taken;
        bucket.forgiven += debit.tokens - taken;
        self.put(key, bucket);
    }

    fn entries(&self, slot: u16) -> usize {
        self.slots[usize::from(slot)].buckets.len()
    }
}
