//! Looking up a batch of keys, with the cache misses of different keys at the same time.

use crate::entry::EntryRef;
use crate::key::Key;
use crate::page::{PageRef, Spot};
use crate::store::{Place, Store};
use crate::value::StoredValue;
use std::hint::black_box;

/// The most keys that are looked up together.
pub const LOCATE_BATCH: usize = 64;
/// Keys from which on that gains more than the passes cost.
const LOCATE_MIN: usize = 4;

/// Pages with their numbers, and spots.
type Likely<'s> = ([Option<(u32, PageRef<'s>)>; LOCATE_BATCH], [Option<Spot>; LOCATE_BATCH]);

impl Store {
    /// Reads what [`Store::find`] of each key and a look at its value will read, so that it is in the processor's caches then: one
    /// level of all keys before the next of any. Of more than [`LOCATE_BATCH`] keys, the first.
    pub fn warm(&self, keys: &[Key]) {
        let keys = &keys[..keys.len().min(LOCATE_BATCH)];
        let (pages, spots) = self.likely(keys);
        let mut entries: [Option<EntryRef>; LOCATE_BATCH] = [None; LOCATE_BATCH];
        let mut read = 0;
        for ((page, spot), entry) in pages.iter().zip(spots).take(keys.len()).zip(&mut entries) {
            *entry = page.zip(spot).map(|((_, page), spot)| page.entry(spot.offset));
            read += entry.map_or(0, |entry| entry.touch_block());
        }
        let mut values = [None; LOCATE_BATCH];
        for (entry, value) in entries.iter().take(keys.len()).zip(&mut values) {
            *value = entry.and_then(|entry| entry.value());
            read += value.map_or(0, |value: &StoredValue| value.touch_content());
        }
        for value in values.iter().take(keys.len()).flatten() {
            read += value.value.touch();
        }
        black_box(read);
    }

    /// [`Store::find`] of each of `keys`, into the place of the same index, one level of all keys before the next level of any, so
    /// that the processor waits for the misses of a level together.
    ///
    /// # Panics
    /// When `places` is shorter than `keys`.
    pub fn locate(&self, keys: &[Key], places: &mut [Option<Place>]) {
        if keys.len() < LOCATE_MIN {
            for (key, place) in keys.iter().zip(places) {
                *place = self.find(key);
            }
            return;
        }
        for (keys, places) in keys.chunks(LOCATE_BATCH).zip(places.chunks_mut(LOCATE_BATCH)) {
            self.locate_batch(keys, &mut places[..keys.len()]);
        }
    }

    /// Of each key the page, and where its entry probably is, which was touched.
    fn likely<'s>(&'s self, keys: &[Key]) -> Likely<'s> {
        let mut pages: [Option<(u32, PageRef)>; LOCATE_BATCH] = [None; LOCATE_BATCH];
        let mut groups = [0; LOCATE_BATCH];
        let mut spots = [None; LOCATE_BATCH];
        // What is only read so that it will be there.
        let mut read = 0;
        for (key, page) in keys.iter().zip(&mut pages) {
            let local = self.local(key.slot);
            read += u64::from(self.metas[local].period);
            let table = &self.tables[usize::from(key.keyspace)];
            *page = table.maps.get(local).and_then(|map| {
                let number = map.page_of(key.hash);
                let page = Some(map.page(number)).filter(|page| page.live > 0)?;
                Some((number, page.view(&table.arena)))
            });
        }
        for ((key, page), group) in keys.iter().zip(&pages).zip(&mut groups) {
            *group = page.map_or(0, |(_, page)| page.tags_at_home(key));
        }
        for (((key, page), group), spot) in keys.iter().zip(&pages).zip(groups).zip(&mut spots) {
            *spot = page.and_then(|(_, page)| page.likely_spot(key, group));
        }
        for (page, spot) in pages.iter().zip(spots).take(keys.len()) {
            if let (Some((_, page)), Some(spot)) = (page, spot) {
                read += page.touch(spot.offset);
            }
        }
        black_box(read);
        (pages, spots)
    }

    fn locate_batch(&self, keys: &[Key], places: &mut [Option<Place>]) {
        let (pages, spots) = self.likely(keys);
        for (((key, page), spot), place) in keys.iter().zip(&pages).zip(spots).zip(places) {
            *place = page.and_then(|(number, page)| {
                let likely = spot.filter(|spot| page.entry(spot.offset).is_of(key));
                let spot = likely.or_else(|| page.find(key))?;
                Some(self.place_of(key, number, spot))
            });
        }
    }
}
