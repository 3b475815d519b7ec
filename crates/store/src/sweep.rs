//! Dropping what has expired, a little at a time.

use crate::changes::Role;
use crate::entry::EntryView;
use crate::expiry::Coarse;
use crate::key::KEYSPACES;
use crate::store::{Store, view_of};

/// Where the next step goes on: a page, by a hash that it has.
#[derive(Clone, Copy, Default)]
pub(crate) struct SweepPosition {
    keyspace: usize,
    local_slot: usize,
    hash: u64,
}

/// What one step of a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepProgress {
    /// Pages passed by because nothing in them could have expired.
    pub skipped_pages: usize,
    /// Entries looked at.
    pub examined: usize,
    /// Entries dropped.
    pub dropped: usize,
    /// Whether the step reached the end of the last keyspace; the next starts from the first.
    pub wrapped: bool,
}

impl Store {
    /// One step of the sweep over all keyspaces: drops entries whose expiry, as kept, has come on their slot's clock, when
    /// the node's clock reads `node_us`, unless `may_go` says that one has to stay for now. Goes on where the last step stopped.
    ///
    /// A step ends once skipped pages and examined entries together reach `budget`, or at the end of the last keyspace; the
    /// last page is finished, so it overshoots by at most one page. A page whose earliest expiry is later is skipped.
    /// Memory is given back as entries go.
    pub fn sweep(&mut self, node_us: u64, budget: usize, may_go: &mut dyn FnMut(EntryView) -> bool) -> SweepProgress {
        let mut progress = SweepProgress::default();
        while progress.skipped_pages + progress.examined < budget {
            if !self.sweep_step(node_us, &mut progress, may_go) {
                progress.wrapped = true;
                break;
            }
        }
        self.generation += u64::from(progress.dropped > 0);
        progress
    }

    /// Sweeps one page; `false` at the end.
    fn sweep_step(
        &mut self,
        node_us: u64,
        progress: &mut SweepProgress,
        may_go: &mut dyn FnMut(EntryView) -> bool,
    ) -> bool {
        let SweepPosition {
            keyspace,
            local_slot,
            hash,
        } = self.sweep_at;
        let slot = self.slot_at(local_slot);
        let table = &mut self.tables[keyspace];
        if local_slot >= table.maps.len() {
            return self.next_keyspace();
        }
        let (map, mut shop) = table.map_to_change(local_slot, &self.hasher, self.bounds);
        let (_, next) = map.hash_range(hash);
        self.sweep_at = match next {
            Some(hash) => SweepPosition { hash, ..self.sweep_at },
            None => SweepPosition {
                keyspace,
                local_slot: local_slot + 1,
                hash: 0,
            },
        };
        let number = map.page_of(hash);
        let page = map.page(number);
        let now = self.base.round_down(self.metas[local_slot].clock_us(node_us));
        let Some(now) = now.filter(|&now| page.live > 0 && Coarse(page.min_expiry) <= now) else {
            progress.skipped_pages += 1;
            return true;
        };
        progress.examined += usize::from(page.live);
        let base = self.base;
        let role = self.metas[local_slot].role;
        let before = map.allocated_bytes();
        let mut values = 0;
        let dropped = map.sweep_page(number, now, &mut shop, &mut self.grave, &mut |entry| {
            let goes = may_go(view_of(base, keyspace as u8, (slot, role), entry));
            values += i32::from(goes && entry.value().is_some());
            goes
        });
        self.bytes = self.bytes - before + map.allocated_bytes();
        table.pack();
        table.live -= dropped;
        let is_held = role == Role::Held;
        if !is_held {
            table.hidden -= dropped;
        }
        // Of those that have no expiry none was dropped.
        table.count_values(local_slot, is_held, (-values, 0));
        progress.dropped += dropped;
        true
    }

    fn next_keyspace(&mut self) -> bool {
        self.free_if_empty(self.sweep_at.keyspace);
        let keyspace = (self.sweep_at.keyspace + 1) % KEYSPACES;
        self.sweep_at = SweepPosition {
            keyspace,
            ..SweepPosition::default()
        };
        keyspace != 0
    }

    fn free_if_empty(&mut self, keyspace: usize) {
        let table = &mut self.tables[keyspace];
        if table.live == 0 && !table.maps.is_empty() {
            self.bytes -= table.maps_bytes();
            table.free_slots();
        }
    }
}
