//! Flushing: what was in a keyspace is swapped out at once and freed a little at a time.

use crate::arena::Arena;
use crate::entry::EntryRef;
use crate::grave::Grave;
use crate::key::Keyspace;
use crate::slot_map::SlotMap;
use crate::store::Store;

/// Flushed entries that are still allocated. Dropping it frees them all at once.
#[derive(Default)]
#[must_use = "dropping it frees everything at once; call drop_some until it says true"]
pub struct Trash {
    tables: Vec<(Vec<SlotMap>, Arena)>,
    grave: Grave,
    bytes: usize,
}

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
        for (index, table) in self.tables.iter_mut().enumerate() {
            if chosen.is_some_and(|chosen| chosen != Some(index)) || table.maps.is_empty() {
                continue;
            }
            let table = std::mem::take(table);
            let maps_bytes = table.maps_bytes();
            let pages_bytes: usize = table.maps.iter().map(SlotMap::allocated_bytes).sum();
            self.bytes -= maps_bytes + pages_bytes;
            trash.bytes += pages_bytes;
            trash.tables.push((table.maps.into_vec(), table.arena));
        }
        self.note_flush(chosen.flatten().map(|index| index as u8));
        self.generation += 1;
        trash
    }
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
