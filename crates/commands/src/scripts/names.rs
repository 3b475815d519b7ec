//! The keys of other shards, for KEYS, SCAN, DBSIZE and RANDOMKEY of a script. They are collected while the whole node belongs to the
//! run, so they stay right: only the run itself can change them, and what it changes it has as guests.

use crate::keyspace::{KeyList, KeyspaceAnswer, KeyspaceOp, Name, STEP_ENTRIES_MAX, ScanCursor, ScanOp, Scanned};
use crate::{CommandError, Env, RunId, Shard};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use tollgate_store::{Space, slot_of};

/// The keys of one database in each of the other shards.
#[derive(Debug, Default)]
pub struct Names {
    /// The database.
    db: u8,
    /// By shard, in ascending order of slots; nothing of the shard where the run is.
    shards: Vec<Vec<Name>>,
    all: HashSet<Box<[u8]>>,
    clocks: HashMap<u16, i64>,
}

impl Names {
    /// The names of a database, by shard, each in ascending order of slots; and by slot how far its clock is ahead of the node's, in
    /// microseconds, where that is anything.
    pub fn new(db: u8, shards: Vec<Vec<Name>>, clocks: HashMap<u16, i64>) -> Self {
        let all = shards.iter().flatten().map(|name| name.key.clone()).collect();
        Self {
            db,
            shards,
            all,
            clocks,
        }
    }

    /// How far the clock of a key's slot is ahead of the node's, in microseconds.
    pub(crate) fn clock_offset_us(&self, key: &[u8]) -> i64 {
        self.clocks.get(&slot_of(key)).copied().unwrap_or(0)
    }

    /// Whether the other shards have no such key, nor can have: a key of this database that is not among the names.
    pub(crate) fn lacks(&self, space: Space, key: &[u8]) -> bool {
        space == Space::Db(self.db) && !self.all.contains(key)
    }

    /// The names from one on that is known, as many as `count`, in the order of a scan.
    pub fn from(&self, key: &[u8], count: usize) -> impl Iterator<Item = &[u8]> {
        let names = self.shards.iter().flatten();
        names
            .map(|name| &*name.key)
            .skip_while(move |name| *name != key)
            .take(count)
    }

    /// The database.
    pub fn db(&self) -> u8 {
        self.db
    }

    /// How many entries of the run's shard are guests of the database.
    pub(crate) fn guests(&self, shard: &Shard, run: RunId) -> usize {
        let space = Space::Db(self.db);
        let guests = shard.interest.guests_of_run(run);
        let stored = guests.iter().filter(|(of, key)| {
            let key = (*of == space).then(|| shard.store.key(*of, key).ok()).flatten();
            key.is_some_and(|key| shard.store.find(&key).is_some())
        });
        stored.count()
    }

    /// What a shard of those slots would answer.
    pub(crate) fn answer(
        &self,
        shard: &mut Shard,
        run: RunId,
        index: usize,
        slots: &Range<u16>,
        env: &Env,
        op: &KeyspaceOp,
    ) -> Result<KeyspaceAnswer, CommandError> {
        match op {
            KeyspaceOp::Len { .. } => Ok(KeyspaceAnswer::Len(self.keys(shard, run, index, slots, env).len())),
            KeyspaceOp::Random { .. } => {
                let keys = self.keys(shard, run, index, slots, env);
                let draw = shard.next_draw() as usize;
                let picked = draw.checked_rem(keys.len()).map(|at| keys[at].1.clone());
                Ok(KeyspaceAnswer::Random(picked))
            }
            KeyspaceOp::Scan(op) => Ok(KeyspaceAnswer::Scanned(scan(
                &self.keys(shard, run, index, slots, env),
                op,
            ))),
            KeyspaceOp::Flush { .. } | KeyspaceOp::Free | KeyspaceOp::Names { .. } => {
                Err(CommandError::Refused("This command is not allowed from script"))
            }
        }
    }

    /// All keys of a shard now, in ascending order of slots, each with its type.
    fn keys(
        &self,
        shard: &mut Shard,
        run: RunId,
        index: usize,
        slots: &Range<u16>,
        env: &Env,
    ) -> Vec<(u16, Box<[u8]>, &'static str)> {
        let space = Space::Db(self.db);
        let of_others = self.shards.get(index).into_iter().flatten();
        let mut keys: Vec<_> = of_others
            .filter(|name| !shard.interest.is_guest_of(space, &name.key, run))
            .map(|name| (slot_of(&name.key), name.key.clone(), name.type_name))
            .collect();
        let guests = shard.interest.guests_of_run(run).into_iter();
        for (_, key) in guests.filter(|(of, _)| *of == space) {
            let slot = slot_of(&key);
            if slots.contains(&slot)
                && let Some(type_name) = shard.type_of(env, &key)
            {
                keys.push((slot, key, type_name));
            }
        }
        keys.sort_by_key(|&(slot, ..)| slot);
        keys
    }
}

/// Whole slots, until there are as many keys as wanted.
fn scan(keys: &[(u16, Box<[u8]>, &'static str)], op: &ScanOp) -> Scanned {
    let want = op.count.clamp(1, STEP_ENTRIES_MAX);
    let start = keys.partition_point(|&(slot, ..)| slot < op.cursor.slot());
    let mut found = KeyList::default();
    let mut looked_at = 0;
    for (slot, key, type_name) in &keys[start..] {
        if looked_at >= want && keys[start + looked_at - 1].0 != *slot {
            return Scanned {
                keys: found,
                looked_at,
                next: Some(ScanCursor::at_slot(*slot)),
            };
        }
        looked_at += 1;
        let matches = op.pattern.as_ref().is_none_or(|pattern| pattern.matches(key));
        if matches && op.of_type.wants(type_name) {
            found.push(key);
        }
    }
    Scanned {
        keys: found,
        looked_at,
        next: None,
    }
}

impl Shard {
    /// The type of what a key holds, if it exists.
    pub(crate) fn type_of(&mut self, env: &Env, key: &[u8]) -> Option<&'static str> {
        let present = self.find_present(env, key)?;
        let stored = self.store.value(present.place);
        Some(stored.map_or(crate::keys::TYPE_NAME, |stored| stored.value.type_name()))
    }
}
