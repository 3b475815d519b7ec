use super::*;
use crate::SLOTS;
use proptest::prelude::*;

fn equal_members(count: usize) -> Vec<(Arc<str>, u32)> {
    (0..count)
        .map(|number| (Arc::from(format!("node-{number:03}")), 1))
        .collect()
}

/// Some members of different names and weights, and how many slots.
fn any_members() -> impl Strategy<Value = (Vec<(Arc<str>, u32)>, u16)> {
    let members = prop::collection::btree_map("[a-z]{1,8}", 0_u32..5, 1..12);
    let slots = prop_oneof![Just(3_u16), Just(64), Just(1000), Just(SLOTS)];
    (members, slots).prop_map(|(members, slots)| {
        (
            members
                .into_iter()
                .map(|(name, weight)| (Arc::from(name.as_str()), weight))
                .collect(),
            slots,
        )
    })
}

/// ceil(1.10 × weight / total × slots), as the bound is stated.
fn most_slots(weight: u32, total: u32, slots: u16) -> u64 {
    (110 * u64::from(weight) * u64::from(slots)).div_ceil(100 * u64::from(total))
}

fn moved(from: &[u16], to: &[u16]) -> usize {
    from.iter().zip(to).filter(|(from, to)| from != to).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_order_of_the_members_does_not_matter(
        (members, shuffled, slots) in any_members()
            .prop_flat_map(|(members, slots)| (Just(members.clone()), Just(members).prop_shuffle(), Just(slots)))
    ) {
        prop_assert_eq!(Ring::new(&members, slots), Ring::new(&shuffled, slots));
    }

    #[test]
    fn nobody_has_more_than_the_bound_and_every_slot_has_somebody((members, slots) in any_members()) {
        let ring = Ring::new(&members, slots);
        let total: u32 = ring.weights().iter().sum();
        prop_assert_eq!(ring.is_empty(), total == 0);
        if total > 0 {
            prop_assert_eq!(ring.shares().iter().map(|&share| u32::from(share)).sum::<u32>(), u32::from(slots));
            for (member, (&share, &weight)) in ring.shares().iter().zip(ring.weights()).enumerate() {
                prop_assert!(u64::from(share) <= most_slots(weight, total, slots), "{share} slots at {weight}/{total}");
                let targets = (0..slots).filter(|&slot| usize::from(ring.target(slot)) == member).count();
                prop_assert_eq!(usize::from(share), targets);
            }
        }
    }

    #[test]
    fn the_heir_is_the_target_in_the_ring_of_the_others((members, slots) in any_members()) {
        let ring = Ring::new(&members, slots);
        prop_assume!(!ring.is_empty());
        let others: Vec<Ring> = ring
            .names()
            .iter()
            .map(|gone| {
                let rest: Vec<_> = members.iter().filter(|(name, _)| name != gone).cloned().collect();
                Ring::new(&rest, slots)
            })
            .collect();
        for slot in 0..slots {
            let other = &others[usize::from(ring.target(slot))];
            let expected = (!other.is_empty()).then(|| &other.names()[usize::from(other.target(slot))]);
            let heir = ring.heir(slot).map(|heir| &ring.names()[usize::from(heir)]);
            prop_assert_eq!(heir, expected, "slot {}", slot);
        }
    }
}

/// Nodes of different builds and machines must agree, so the table of some members never changes. If this fails, the protocol's version
/// has to.
#[test]
fn the_table_of_three_members_is_what_it_always_was() {
    let members = [("alpha", 1), ("beta", 2), ("gamma", 1)].map(|(name, weight)| (Arc::from(name), weight));
    let ring = Ring::new(&members, SLOTS);
    assert_eq!(ring.shares(), [4001, 7887, 4496]);
    let sum = |of: &dyn Fn(u16) -> u16| {
        (0..SLOTS).fold(0_u64, |sum, slot| {
            sum.wrapping_mul(31).wrapping_add(u64::from(of(slot)))
        })
    };
    assert_eq!(sum(&|slot| ring.target(slot)), 4_289_228_966_135_732_225);
    assert_eq!(sum(&|slot| ring.heir(slot).unwrap()), 18_324_605_142_398_131_023);
}

#[test]
fn a_ring_of_nobody_has_no_targets() {
    assert!(Ring::new(&[], SLOTS).is_empty());
    let ring = Ring::new(&[(Arc::from("alone"), 0)], SLOTS);
    assert!(ring.is_empty());
    assert_eq!(ring.heir(0), None);
}

#[test]
fn who_is_alone_has_every_slot_and_no_heir() {
    let ring = Ring::new(&[(Arc::from("idle"), 0), (Arc::from("alone"), 7)], SLOTS);
    assert_eq!(ring.names()[usize::from(ring.target(SLOTS - 1))].as_ref(), "alone");
    assert_eq!(ring.shares(), [SLOTS, 0]);
    assert_eq!(ring.heir(0), None);
}

/// The figures of the design, for 3 to 100 equal members. The largest share is bounded; what a change moves is the share of who comes
/// or goes and what the bound pushes on, which varies with the names. Over twenty other sets of names a join moved 1.03/N of the slots
/// on average and 1.33/N at worst, a leave 1.09/N and 1.42/N; the worst are beyond 60 members.
#[test]
fn few_slots_move_when_a_member_comes_or_goes() {
    let (mut joins, mut leaves) = (Vec::new(), Vec::new());
    let mut before: Option<Vec<u16>> = None;
    for count in 3..=100 {
        let (names, weights): (Vec<_>, Vec<_>) = equal_members(count).into_iter().unzip();
        let circle = Circle::new(&names, &weights, SLOTS);
        let table = circle.place(&weights, None);
        let per_share = count as f64 / f64::from(SLOTS);
        for member in 0..count {
            let share = table.iter().filter(|&&target| usize::from(target) == member).count();
            assert!(share as u64 <= most_slots(1, count as u32, SLOTS));
        }
        if let Some(before) = before {
            // The newcomer's name is the last one, so the numbers of the others stay.
            joins.push(moved(&before, &table) as f64 * (count - 1) as f64 / f64::from(SLOTS));
        }
        for gone in (0..count).step_by(1 + count / 10) {
            leaves.push(moved(&table, &circle.place(&weights, Some(gone))) as f64 * per_share);
        }
        before = Some(table);
    }
    for (what, moved, mean_max, worst_max) in [("join", joins, 1.12, 1.35), ("leave", leaves, 1.10, 1.35)] {
        let mean = moved.iter().sum::<f64>() / moved.len() as f64;
        let worst = moved.iter().copied().fold(0.0, f64::max);
        println!("{what}: mean {mean:.3}/N, worst {worst:.3}/N");
        assert!(mean <= mean_max, "{what}: {mean:.3}/N on average");
        assert!(worst <= worst_max, "{what}: {worst:.3}/N at worst");
    }
}

/// With few members the figures hold each time, not only on average.
#[test]
fn in_a_small_cluster_a_change_moves_little_more_than_a_share() {
    for count in 3..=10 {
        let (names, weights): (Vec<_>, Vec<_>) = equal_members(count).into_iter().unzip();
        let circle = Circle::new(&names, &weights, SLOTS);
        let table = circle.place(&weights, None);
        for gone in 0..count {
            let moved = moved(&table, &circle.place(&weights, Some(gone))) as f64 * count as f64 / f64::from(SLOTS);
            assert!(moved <= 1.12, "{count} members without {gone}: {moved:.3}/N");
        }
    }
}

#[test]
fn a_large_ring_is_built_with_all_its_heirs() {
    let begin = std::time::Instant::now();
    let ring = Ring::new(&equal_members(100), SLOTS);
    println!("100 members with heirs: {:?}", begin.elapsed());
    assert!((0..SLOTS).all(|slot| ring.heir(slot).is_some_and(|heir| heir != ring.target(slot))));
}
