use super::*;
use crate::SLOTS;
use crate::member::Incarnation;
use proptest::prelude::*;

/// What a member that is ready and at home in the view of a hash says.
pub fn says(name: &str, generation: u64, state: MemberState) -> Heard {
    Heard {
        member: Member {
            id: Incarnation {
                name: name.into(),
                generation,
            },
            state,
            weight: 1,
            workers: 2,
            peer: format!("{name}:7379").into(),
            listen: format!("{name}:6379").into(),
            redirect_listen: None,
        },
        returns: 0,
        departures: Vec::new(),
        view_hash: 0,
        at_home: true,
    }
}

fn ready(names: &[&str]) -> Vec<Heard> {
    names.iter().map(|name| says(name, 1, MemberState::Ready)).collect()
}

fn names(view: &View) -> Vec<&str> {
    view.members().iter().map(|member| &*member.id.name).collect()
}

proptest! {
    #[test]
    fn what_was_heard_first_does_not_matter(
        heard in prop::collection::vec(("[a-e]", 0_u64..3, "[xy]"), 1..10)
            .prop_flat_map(|heard| (Just(heard.clone()), Just(heard).prop_shuffle()))
    ) {
        let view = |of: &[(String, u64, String)]| {
            let heard: Vec<Heard> = of
                .iter()
                // What one process says of itself does not contradict itself, so the state follows from who it is.
                .map(|(name, generation, peer)| {
                    let state = [MemberState::Joining, MemberState::Ready, MemberState::Leaving];
                    let mut one = says(name, *generation, state[*generation as usize]);
                    one.member.peer = peer.as_str().into();
                    one
                })
                .collect();
            View::new(&heard, 64, None)
        };
        let (one, other) = (view(&heard.0), view(&heard.1));
        prop_assert_eq!(one.hash(), other.hash());
        prop_assert_eq!(one, other);
    }
}

#[test]
fn of_one_name_only_the_last_start_counts() {
    let mut heard = ready(&["b", "a"]);
    heard.push(says("a", 7, MemberState::Joining));
    heard.push(says("a", 3, MemberState::Ready));
    let view = View::new(&heard, SLOTS, None);
    assert_eq!(names(&view), ["a", "b"]);
    assert_eq!(view.member("a").unwrap().id.generation, 7);
    assert_eq!((view.share(0), view.share(1)), (0, SLOTS));
    assert_eq!(
        (view.rank("a"), view.rank("b"), view.rank("c")),
        (Some(0), Some(1), None)
    );
}

#[test]
fn who_joins_or_leaves_is_asked_but_has_no_slots() {
    let mut heard = ready(&["b", "d", "f"]);
    heard.push(says("a", 1, MemberState::Leaving));
    heard.push(says("c", 1, MemberState::Joining));
    let view = View::new(&heard, SLOTS, None);
    assert_eq!(names(&view), ["a", "b", "c", "d", "f"]);
    let mut shares = [0; 5];
    for slot in 0..SLOTS {
        let (target, heir) = (view.target(slot).unwrap(), view.heir(slot).unwrap());
        assert_ne!(target, heir);
        shares[usize::from(target)] += 1;
        for member in [target, heir] {
            assert_eq!(view.members()[usize::from(member)].state, MemberState::Ready);
        }
    }
    assert_eq!((0..5).map(|member| view.share(member)).collect::<Vec<_>>(), shares);
    let ring = Ring::new(&["b", "d", "f"].map(|name| (name.into(), 1)), SLOTS);
    assert_eq!(view.ring().map(AsRef::as_ref), Some(&ring));
}

#[test]
fn as_long_as_nobody_is_ready_slots_belong_to_nobody() {
    let view = View::new(&[says("a", 1, MemberState::Joining)], SLOTS, None);
    assert_eq!((view.target(0), view.heir(0), view.share(0)), (None, None, 0));
    assert!(view.ring().is_none() && view.rank("a") == Some(0));
    let view = View::new(&ready(&["a"]), SLOTS, None);
    assert_eq!((view.target(0), view.heir(0), view.share(0)), (Some(0), None, SLOTS));
}

/// Nodes of different builds compare hashes, so a change of this one needs a new version of the protocol.
#[test]
fn everything_that_matters_changes_the_hash() {
    let first = ready(&["a", "b"]);
    let hash = View::new(&first, SLOTS, None).hash();
    assert_eq!(hash, 12_166_341_543_204_418_184);
    type Change = fn(&mut Member);
    let changes: [(&str, Change); 7] = [
        ("generation", |member| member.id.generation = 2),
        ("state", |member| member.state = MemberState::Leaving),
        ("weight", |member| member.weight = 2),
        ("workers", |member| member.workers = 3),
        ("peer", |member| member.peer = "b:1".into()),
        ("listen", |member| member.listen = "b:1".into()),
        ("redirect_listen", |member| member.redirect_listen = Some("b:1".into())),
    ];
    for (what, change) in changes {
        let mut changed = first.clone();
        change(&mut changed[1].member);
        assert_ne!(View::new(&changed, SLOTS, None).hash(), hash, "{what}");
    }
    let mut same = first;
    same[0].view_hash = 9;
    same[0].at_home = false;
    same[0].departures.push(("b".into(), 1));
    assert_eq!(View::new(&same, SLOTS, None).hash(), hash);
}

#[test]
fn the_ring_is_built_again_only_if_it_is_another() {
    let view = View::new(&ready(&["a", "b"]), SLOTS, None);
    let mut heard = ready(&["a", "b"]);
    heard.push(says("0", 1, MemberState::Joining));
    heard[1].member.peer = "elsewhere:1".into();
    let next = View::new(&heard, SLOTS, Some(&view));
    assert!(Arc::ptr_eq(view.ring().unwrap(), next.ring().unwrap()));
    assert_eq!(view.target(7).map(|target| target + 1), next.target(7));
    heard[1].member.weight = 2;
    let next = View::new(&heard, SLOTS, Some(&next));
    assert_eq!(next.ring().unwrap().weights(), [1, 2]);
}

#[test]
fn a_cluster_is_settled_when_all_say_so_of_one_view() {
    let mut heard = ready(&["a", "b"]);
    let view = View::new(&heard, SLOTS, None);
    assert!(!view.is_settled(&heard));
    heard.iter_mut().for_each(|one| one.view_hash = view.hash());
    assert!(view.is_settled(&heard));
    heard[1].at_home = false;
    assert!(!view.is_settled(&heard));
    heard[1].at_home = true;
    assert!(!view.is_settled(&heard[..1]));
    heard[1].view_hash += 1;
    assert!(!view.is_settled(&heard));
}

#[test]
fn there_is_a_most_of_members_and_of_weight() {
    let mut heard: Vec<Heard> = (0..MAX_MEMBERS + 10)
        .map(|number| says(&format!("{number:04}"), 1, MemberState::Joining))
        .collect();
    heard[0].member.weight = u32::MAX;
    heard[0].member.state = MemberState::Ready;
    let view = View::new(&heard, SLOTS, None);
    assert_eq!(view.members().len(), MAX_MEMBERS);
    assert_eq!(view.members()[0].weight, MAX_WEIGHT);
    assert_eq!(view.share(0), SLOTS);
}
