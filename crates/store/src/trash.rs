//! Flushing: what was in a keyspace is swapped out at once and freed a little at a time.

use crate::arena::Arena;
use crate::changes::{DropFrom, Role};
use crate::entry::EntryRef;
use crate::grave::Grave;
use crate::key::{self, Keyspace};
use crate::slot_map::SlotMap;
use crate::slot_set::SlotSet;
use crate::store::Store;

/// Flushed entries that are still allocated. Dropping it frees them all at once.
#[derive(Default)]
#[must_use = "dropping it frees everything at once; call drop_some until it says true"]
pub struct Trash {
    tables: Vec<(Vec<SlotMap>, Arena)>,
    grave: Grave,
    bytes: usize,
}

/// Entries of a large slot that one step of a flush drops.
const ENTRIES_AT_ONCE: usize = 1024;

/// Slots that one step of a flush looks at.
const SLOTS_AT_ONCE: usize = 4096;

/// Giving a segment of the arena back costs about as much as so many entries.
const SEGMENT_COST: usize = 64;

impl Store {
    /// Empties a keyspace, or all of them (`None`). The entries are in the trash, those of slots that are not held with them.
    pub fn flush(&mut self, keyspace: Option<Keyspace>) -> Trash {
        let mut trash = Trash::default();
        let chosen = keyspace.map(Keyspace::index);
        if chosen == Some(None) {
            return trash;
        }
        for index in 0..self.tables.len() {
            if chosen.is_none_or(|chosen| chosen == Some(index)) {
                self.take_table(index, &mut trash);
            }
        }
        self.note_flush(chosen.flatten().map(|index| index as u8), None);
        self.generation += 1;
        trash
    }

    fn take_table(&mut self, index: usize, trash: &mut Trash) {
        if self.tables[index].maps.is_empty() {
            return;
        }
        let table = std::mem::take(&mut self.tables[index]);
        let maps_bytes = table.maps_bytes();
        let pages_bytes: usize = table.maps.iter().map(SlotMap::allocated_bytes).sum();
        self.bytes -= maps_bytes + pages_bytes;
        trash.bytes += pages_bytes;
        trash.tables.push((table.maps.into_vec(), table.arena));
    }

    /// Begins to empty a keyspace, or all of them (`None`), of some slots, all of which are held: followers are told, and what can be
    /// swapped out at once is in the trash. Until [`Store::flush_some`] says that the rest has followed, nobody may use these slots. One
    /// that is not held any more then is left alone.
    pub fn begin_flush(&mut self, keyspace: Option<Keyspace>, slots: &SlotSet, trash: &mut Trash) -> Flushing {
        let all = 0..self.tables.len();
        let mut keyspaces: Vec<usize> = match keyspace {
            None => all.collect(),
            Some(keyspace) => keyspace.index().into_iter().collect(),
        };
        let own: Vec<u16> = match keyspaces.is_empty() {
            true => Vec::new(),
            false => self.slots().filter(|&slot| slots.contains(slot)).collect(),
        };
        if own.is_empty() {
            return Flushing::default();
        }
        self.note_flush(keyspace.and_then(Keyspace::index).map(|index| index as u8), Some(slots));
        self.generation += 1;
        keyspaces.retain(|&index| {
            let table = &self.tables[index];
            let of_slot = |&slot: &u16| table.maps.get(self.local(slot)).map_or(0, SlotMap::live);
            let is_all = own.iter().map(of_slot).sum::<usize>() == table.live;
            if is_all {
                self.take_table(index, trash);
            }
            !is_all
        });
        Flushing {
            keyspaces,
            slots: own,
            at: (0, 0),
            from: DropFrom::default(),
        }
    }

    /// Goes on with a flush, for about `bytes` of what is stored, and shows the `params` of each bucket that is dropped and not put into the
    /// trash. `true` once that was all.
    pub fn flush_some(
        &mut self,
        flushing: &mut Flushing,
        bytes: usize,
        trash: &mut Trash,
        on_drop: &mut dyn FnMut(u32),
    ) -> bool {
        let Flushing {
            keyspaces,
            slots,
            at,
            from,
        } = flushing;
        let mut maps = Vec::new();
        let mut arena = Arena::default();
        let (mut moved, mut looked_at) = (0, 0);
        self.generation += 1;
        while moved < bytes && looked_at < SLOTS_AT_ONCE {
            let Some(&index) = keyspaces.get(at.0) else { break };
            let Some(&slot) = slots.get(at.1) else {
                *at = (at.0 + 1, 0);
                continue;
            };
            looked_at += 1;
            let local = self.local(slot);
            let map_bytes = match self.tables[index].maps.get(local) {
                Some(map) if map.live() > 0 && self.role(slot) == Role::Held => map.allocated_bytes(),
                _ => 0,
            };
            if map_bytes > bytes {
                // Too much to be moved at once.
                let mut dropped = |params: Option<u32>| params.into_iter().for_each(&mut *on_drop);
                let keyspace = Some(key::keyspace(index as u8));
                if let Some(next) = self.drop_slot(slot, keyspace, None, *from, ENTRIES_AT_ONCE, &mut dropped) {
                    *from = next;
                    moved += bytes;
                    continue;
                }
            } else if map_bytes > 0 {
                let before = self.tables[index].maps[local].allocated_bytes();
                maps.push(self.tables[index].take_map(local, &mut arena));
                self.bytes -= before - self.tables[index].maps[local].allocated_bytes();
                moved += before;
                trash.bytes += before;
            }
            (*from, at.1) = (DropFrom::default(), at.1 + 1);
        }
        if !maps.is_empty() {
            trash.tables.push((maps, arena));
        }
        at.0 >= keyspaces.len()
    }
}

/// A flush of some slots that is under way.
#[derive(Debug, Default)]
pub struct Flushing {
    /// By their numbers.
    keyspaces: Vec<usize>,
    slots: Vec<u16>,
    /// Which of the keyspaces, and of the slots, comes next.
    at: (usize, usize),
    /// Where in a slot that is large.
    from: DropFrom,
}

impl Trash {
    /// Frees entries until about `budget` entries and slots have gone, and shows the `params` of each bucket; finishes the last
    /// page. `true` once nothing is left.
    pub fn drop_some(&mut self, budget: usize, on_drop: &mut dyn FnMut(u32)) -> bool {
        let mut spent = 0;
        while spent < budget {
            if !self.grave.drop_some(budget - spent) {
                // It took all that was left.
                return false;
            }
            let Some((table, arena)) = self.tables.last_mut() else {
                return true;
            };
            let Some(map) = table.last_mut() else {
                if arena.discard_segment() {
                    spent += SEGMENT_COST;
                } else {
                    self.tables.pop();
                }
                continue;
            };
            let before = map.allocated_bytes();
            let show = &mut |entry: EntryRef| {
                if let Some(params) = entry.held_params() {
                    on_drop(params);
                }
            };
            let (entries, emptied) = map.discard_page(arena, &mut self.grave, show);
            let after = if emptied {
                table.pop();
                0
            } else {
                map.allocated_bytes()
            };
            self.bytes = self.bytes - before + after;
            spent += entries + 1;
        }
        self.tables.is_empty() && self.grave.drop_some(0)
    }

    /// Bytes that are still allocated for entries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves what is in `other` here.
    pub fn append(&mut self, other: Trash) {
        self.bytes += other.bytes;
        self.grave.append(other.grave);
        self.tables.extend(other.tables);
    }
}
