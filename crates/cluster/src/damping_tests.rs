use super::*;
use crate::view::tests::says;

const S: u64 = 1_000_000;

fn view(names: &[&str]) -> View {
    let heard: Vec<Heard> = names.iter().map(|name| says(name, 1, MemberState::Ready)).collect();
    View::new(&heard, 2048, None)
}

fn claims(departures: &Departures) -> Vec<(String, u32)> {
    departures
        .claims()
        .into_iter()
        .map(|(name, count)| (name.to_string(), count))
        .collect()
}

#[test]
fn the_delay_doubles_up_to_a_minute() {
    let delays: Vec<u64> = (0..10).map(|departures| delay_us(departures) / S).collect();
    assert_eq!(delays, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(delay_us(u32::MAX), 60 * S);
}

#[test]
fn departures_of_a_series_are_counted_and_then_forgotten() {
    let (all, without) = (view(&["a", "b", "c"]), view(&["a", "b"]));
    let mut seen = Departures::default();
    for (round, now_us) in [0, 10 * S, 70 * S].into_iter().enumerate() {
        seen.note(now_us, "a", &all, &without);
        assert_eq!(claims(&seen), [("c".to_owned(), round as u32 + 1)]);
        seen.note(now_us + S, "a", &without, &all);
    }
    // A minute, and the two seconds that the third departure made it wait.
    seen.note(132 * S - 1, "a", &all, &all);
    assert_eq!(claims(&seen), [("c".to_owned(), 3)]);
    seen.note(132 * S, "a", &all, &all);
    assert_eq!(claims(&seen), []);
    seen.note(133 * S, "a", &all, &without);
    assert_eq!(claims(&seen), [("c".to_owned(), 1)]);
}

#[test]
fn a_restart_and_a_leave_are_departures_and_a_wait_is_none() {
    let all = view(&["a", "b", "c", "d", "e"]);
    let mut heard: Vec<Heard> = ["a", "b", "c", "d", "e"]
        .map(|name| says(name, 1, MemberState::Ready))
        .into();
    heard[1] = says("b", 2, MemberState::Ready);
    heard[2].member.state = MemberState::Joining;
    heard[3].member.state = MemberState::Leaving;
    let now = View::new(&heard, 64, None);
    let mut seen = Departures::default();
    seen.note(0, "a", &all, &now);
    assert_eq!(claims(&seen), [("b".to_owned(), 1), ("d".to_owned(), 1)]);
    heard.remove(3);
    seen.note(S, "a", &now, &View::new(&heard, 64, None));
    assert_eq!(claims(&seen), [("b".to_owned(), 1), ("d".to_owned(), 1)]);
}

#[test]
fn who_loses_most_of_the_ring_was_cut_off_itself() {
    let views = [
        &["a", "b", "c", "d", "e"][..],
        &["a", "b", "d", "e"],
        &["a", "d", "e"],
        &["d", "e"],
    ]
    .map(view);
    let mut seen = Departures::default();
    for step in 0..2 {
        seen.note(step * S, "e", &views[step as usize], &views[step as usize + 1]);
        assert_eq!(seen.claims().len(), step as usize + 1);
    }
    seen.note(2 * S, "e", &views[2], &views[3]);
    assert_eq!(claims(&seen), []);
    // What comes later has its own cause.
    seen.note(2 * S, "e", &views[3], &views[0]);
    seen.note(6 * S, "e", &views[0], &views[1]);
    assert_eq!(claims(&seen), [("c".to_owned(), 1)]);
}

#[test]
fn of_two_halves_the_one_with_the_smallest_name_claims() {
    let (all, first, second) = (view(&["a", "b"]), view(&["a"]), view(&["b"]));
    let (mut at_a, mut at_b) = (Departures::default(), Departures::default());
    at_a.note(0, "a", &all, &first);
    at_b.note(0, "b", &all, &second);
    assert_eq!((claims(&at_a), claims(&at_b)), (vec![("b".to_owned(), 1)], vec![]));
}

#[test]
fn departures_are_counted_of_so_many_names_only() {
    let names: Vec<String> = (0..300).map(|number| format!("{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut seen = Departures::default();
    for gone in 1..=(MAX_NAMES + 20) {
        seen.note(
            gone as u64,
            "000",
            &view(&names),
            &view(&[&names[..gone], &names[gone + 1..]].concat()),
        );
    }
    let claims = claims(&seen);
    assert_eq!(claims.len(), MAX_NAMES);
    assert_eq!(claims[0].0, "021");
}

#[test]
fn who_has_not_atoned_is_kept_out_unless_that_were_all() {
    let mut heard = ["a", "b", "c"].map(|name| says(name, 1, MemberState::Ready));
    heard[0].departures = vec![("a".into(), 9), ("b".into(), 2), ("c".into(), 1)];
    heard[2].departures = vec![("b".into(), 3)];
    let out = |heard: &[Heard; 3]| damped(&heard.iter().collect::<Vec<_>>());
    assert_eq!(
        out(&heard),
        [false, true, false],
        "its own claims on itself do not count, nor does a first departure"
    );
    heard[1].returns = 2;
    assert_eq!(out(&heard), [false, true, false]);
    heard[1].returns = 3;
    assert_eq!(out(&heard), [false; 3]);
    heard[1].returns = 0;
    heard[1].departures = vec![("a".into(), 2), ("c".into(), 2)];
    assert_eq!(out(&heard), [false; 3], "nobody would be left");
}
