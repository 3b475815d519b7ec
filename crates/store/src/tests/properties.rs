//! Properties, with pages so small that they split and merge all the time.

use super::TINY;
use super::model::{Name, Pair, names, steps};
use crate::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_store_is_the_model(steps in prop::collection::vec(steps(), 1..400)) {
        let mut pair = Pair::new(TINY);
        for (at, step) in steps.into_iter().enumerate() {
            pair.run(step);
            if at % 50 == 0 {
                pair.check();
            }
        }
        pair.check();
        let now = 120 * EXPIRY_UNIT_US;
        pair.sweep_round(now);
        pair.check();
    }

    #[test]
    fn a_scan_shows_what_was_there_throughout(
        before in prop::collection::vec(names(), 1..300),
        between in prop::collection::vec((names(), any::<bool>()), 1..300),
        want in 1..12usize,
        changes_a_step in 1..20usize,
    ) {
        let mut store = Store::with_bounds(0..SLOTS, 9, 0, TINY);
        let put = |store: &mut Store, (_, bytes): &Name| {
            let key = store.key(Space::Db(0), bytes).unwrap();
            store.put(&key, 1, Expiry::NEVER, false, State::Numbers(Numbers::default())).unwrap();
        };
        before.iter().for_each(|name| put(&mut store, name));
        let mut throughout: BTreeSet<Vec<u8>> = before.into_iter().map(|(_, bytes)| bytes).collect();
        let mut seen = BTreeSet::new();
        let mut changes = between.into_iter();
        let mut cursor = Some(Cursor::START);
        while let Some(at) = cursor {
            cursor = store.scan(Keyspace::Db(0), at, want, &mut |view| {
                seen.insert(view.entry.key().to_vec());
            });
            for (name, insert) in changes.by_ref().take(changes_a_step) {
                if insert {
                    put(&mut store, &name);
                } else {
                    throughout.remove(&name.1);
                    let key = store.key(Space::Db(0), &name.1).unwrap();
                    store.remove(&key);
                }
            }
        }
        prop_assert!(throughout.is_subset(&seen));
    }
}
