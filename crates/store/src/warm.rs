//! Starting the cache misses of a batch of keys before they are needed.

use crate::key::Key;
use crate::page::PageRef;
use crate::store::Store;
use std::hint::black_box;

/// The most keys that are warmed together.
pub const WARM_BATCH: usize = 64;

impl Store {
    /// Reads what [`Store::find`], [`Store::bucket`] and [`Store::update`] of these keys will read, one level of all keys
    /// before the next level of any, so that the processor waits for the misses of a level together. Results do not
    /// depend on it.
    pub fn warm(&self, keys: &[Key]) {
        for batch in keys.chunks(WARM_BATCH) {
            self.warm_batch(batch);
        }
    }

    fn warm_batch(&self, keys: &[Key]) {
        let mut pages: [Option<PageRef>; WARM_BATCH] = [None; WARM_BATCH];
        let mut groups = [0; WARM_BATCH];
        let mut offsets = [0; WARM_BATCH];
        let mut read = 0;
        for (key, page) in keys.iter().zip(&mut pages) {
            let local = usize::from(key.slot - self.first_slot);
            read += u64::from(self.metas[local].changes);
            let table = &self.tables[usize::from(key.keyspace)];
            *page = table
                .maps
                .get(local)
                .map(|map| map.page(map.page_of(key.hash)))
                .filter(|page| page.live > 0)
                .map(|page| page.view(&table.arena));
        }
        for ((key, page), group) in keys.iter().zip(pages).zip(&mut groups) {
            *group = page.map_or(0, |page| page.tags_at_home(key));
        }
        for (((key, page), group), offset) in keys.iter().zip(pages).zip(groups).zip(&mut offsets) {
            *offset = page.map_or(0, |page| page.likely_offset(key, group));
        }
        for (page, offset) in pages.iter().zip(offsets).take(keys.len()) {
            read += page.map_or(0, |page| page.touch(offset));
        }
        black_box(read);
    }
}
