//! Slots that change their role while all else goes on.

use super::TINY;
use super::model::{Name, Pair, Step, TAGS, keyspaces, steps};
use crate::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Move {
    Step(Step),
    Role(usize, Role),
    Drop(usize, Option<Keyspace>),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let role = prop_oneof![2 => Just(Role::Held), 1 => Just(Role::Replica), 1 => Just(Role::Away)];
    // What is not held is not scanned and not shed; the model knows nothing of that.
    let steps = steps().prop_filter("of entries", |step| !matches!(step, Step::Scan { .. } | Step::Evict(_)));
    let next = prop_oneof![
        30 => steps.prop_map(Move::Step),
        3 => (0..TAGS.len(), role).prop_map(|(tag, role)| Move::Role(tag, role)),
        1 => (0..TAGS.len(), prop::option::of(keyspaces())).prop_map(|(tag, keyspace)| Move::Drop(tag, keyspace)),
    ];
    prop::collection::vec(next, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_counted_are_the_entries_of_the_slots_that_are_held(moves in moves()) {
        let mut pair = Pair::new(TINY);
        let slot = |tag: usize| slot_of(TAGS[tag].as_bytes());
        for (at, next) in moves.into_iter().enumerate() {
            match next {
                Move::Step(step) => pair.run(step),
                Move::Role(tag, role) => pair.store.set_role(slot(tag), role),
                Move::Drop(tag, keyspace) => {
                    let mut from = Some(DropFrom::default());
                    while let Some(at) = from {
                        from = pair.store.drop_slot(slot(tag), keyspace, None, at, 10, &mut |_| {});
                    }
                    let goes = |(space, key): &Name| {
                        slot_of(key) == slot(tag) && keyspace.is_none_or(|keyspace| keyspace == (*space).into())
                    };
                    pair.model.retain(|name, _| !goes(name));
                }
            }
            if at % 20 == 0 {
                pair.check();
            }
        }
        pair.check();
        (0..TAGS.len()).for_each(|tag| pair.store.set_role(slot(tag), Role::Held));
        pair.check();
    }
}
