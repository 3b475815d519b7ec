//! Tests of the whole store.

mod crowds;
mod follow;
mod held;
mod model;
mod properties;
mod single;

use crate::layout::Bounds;
use crate::slot_map::SlotMap;
use crate::*;

const TINY: Bounds = Bounds {
    entries: 6,
    bytes: 1024,
};

fn put_numbered(store: &mut Store, bytes: &[u8], expiry: Expiry, number: u32) {
    let key = store.key(Space::Db(0), bytes).unwrap();
    let state = State::Numbers(Numbers::new(&[1.0, f64::from(number)]).unwrap());
    store.put(&key, number, expiry, false, state).unwrap();
}

/// What is allocated, added up from scratch.
fn allocated(store: &Store) -> usize {
    let class = tollgate_values::size_class;
    let mut bytes = class(size_of_val(&*store.metas));
    for table in &store.tables {
        bytes += table.maps_bytes();
        table.arena.check();
        let pages = table.maps.iter().map(|map| {
            let numbers = 0..map.pages() as u32;
            numbers.filter(|&number| map.page(number).live > 0).count()
        });
        assert_eq!(table.arena.blocks(), pages.sum());
        for map in &table.maps {
            if let SlotMap::Many(directory) = map {
                bytes += directory.allocated_bytes();
                let pages = directory.leaves.iter().map(|leaf| leaf.page.allocated_bytes());
                bytes -= directory.pages_bytes();
                bytes += pages.sum::<usize>();
                directory.check();
            } else {
                bytes += map.page(0).allocated_bytes();
            }
            let pages = (0..map.pages() as u32).map(|number| map.page(number));
            pages.for_each(|page| page.view(&table.arena).check());
        }
    }
    bytes
}
