//! Runs of the simulator.

use super::faults::Profile;
use super::oracle::Counts;
use super::world::World;
use crate::slots::{Defect, Settings};
use std::sync::atomic::{AtomicU64, Ordering};

fn settings() -> Settings {
    Settings {
        batch_bytes: 80,
        copy_in_flight_bytes_max: 4_000,
        copies_max: 16,
        moves_max: 8,
        replica_idle_us: 3_000_000,
        journal_linger_us: 3_000_000,
        ..Settings::default()
    }
}

struct Run {
    counts: Counts,
    trace: u64,
    violation: Option<String>,
}

fn profile(seed: u64) -> Profile {
    match seed % 4 {
        0 => Profile::Planned,
        1 => Profile::Cuts,
        _ => Profile::Chaos,
    }
}

fn run(seed: u64, defect: Option<Defect>) -> Run {
    let mut world = World::new(seed, profile(seed), settings(), defect);
    world.run();
    Run {
        counts: world.oracle.counts.clone(),
        trace: world.trace,
        violation: world.oracle.violation.take(),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seeds to run: `SEED=n` one, else `SEEDS=n` of them from `FIRST=n` on.
fn seeds() -> Vec<u64> {
    match number("SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = number("FIRST").unwrap_or(0);
            (first..first + number("SEEDS").unwrap_or(8)).collect()
        }
    }
}

#[test]
fn simulation_of_many_seeds() {
    let seeds = seeds();
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(seeds.len());
    let runs: Vec<(u64, Run)> = std::thread::scope(|scope| {
        let part = |thread: usize| {
            let mine: Vec<u64> = seeds.iter().copied().skip(thread).step_by(threads).collect();
            scope.spawn(move || mine.into_iter().map(|seed| (seed, run(seed, None))).collect::<Vec<_>>())
        };
        let running: Vec<_> = (0..threads).map(part).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("a run ends"))
            .collect()
    });
    for profile in [Profile::Planned, Profile::Cuts, Profile::Chaos] {
        let of_profile: Vec<&Run> = runs
            .iter()
            .filter(|(seed, _)| self::profile(*seed) == profile)
            .map(|(_, run)| run)
            .collect();
        let mut sum = Counts::default();
        of_profile.iter().for_each(|run| sum.add(&run.counts));
        let fewest = of_profile
            .iter()
            .map(|run| (run.counts.faults, run.counts.checks))
            .min()
            .unwrap_or_default();
        println!(
            "{profile:?}, {} seeds, at least {} faults and {} checks each: {sum}",
            of_profile.len(),
            fewest.0,
            fewest.1
        );
    }
    let failed: Vec<&(u64, Run)> = runs.iter().filter(|(_, run)| run.violation.is_some()).collect();
    for (seed, run) in &failed {
        let violation = run.violation.as_deref().unwrap_or_default();
        println!(
            "seed {seed} ({:?}, trace {:016x}): {violation}",
            profile(*seed),
            run.trace
        );
    }
    assert!(failed.is_empty(), "{} of {} seeds failed", failed.len(), seeds.len());
}

#[test]
fn a_seed_gives_the_same_trace_every_time() {
    for seed in [1, 2, 4] {
        let (one, two) = (run(seed, None), run(seed, None));
        assert_eq!((one.trace, &one.counts), (two.trace, &two.counts), "seed {seed}");
    }
}

/// Runs seeds until one finds the defect; which, and what it said.
fn find(defect: Defect, first: u64) -> Option<(u64, String)> {
    let next = AtomicU64::new(first);
    let found = AtomicU64::new(u64::MAX);
    let search = || {
        let mut mine = None;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + 1_000 || seed > found.load(Ordering::Relaxed) {
                return mine;
            }
            // A defect may also break what a machine takes for certain.
            let violation = match std::panic::catch_unwind(|| run(seed, Some(defect)).violation) {
                Ok(violation) => violation,
                Err(_) => Some("a machine panics".to_string()),
            };
            if let Some(violation) = violation {
                found.fetch_min(seed, Ordering::Relaxed);
                mine = Some((seed, violation));
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let searches: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        searches
            .into_iter()
            .filter_map(|search| search.join().expect("a search ends"))
            .min()
    })
}

/// A test for each defect: some seed of the thousand from a given one on finds it. The first seed is near one that is known to find it, so
/// that the test is short.
macro_rules! planted {
    ($($name:ident: $defect:ident, from $first:literal;)*) => {
        mod planted_defects {
            $(#[test]
            fn $name() {
                let found = super::find(super::Defect::$defect, $first);
                let (seed, violation) = found.expect("one of 1,000 seeds finds it");
                println!("seed {seed}: {violation}");
            })*
        }
    };
}

planted! {
    stale_handover_wins: StaleHandoverWins, from 512;
    remainder_lost: RemainderLost, from 0;
    merge_by_maximum: MergeByMaximum, from 0;
    journal_dropped: JournalDropped, from 0;
    decides_while_offered: DecidesWhileOffered, from 0;
    clock_not_carried: ClockNotCarried, from 0;
    acknowledged_before_applied: AcknowledgedBeforeApplied, from 0;
    changes_reordered: ChangesReordered, from 50;
    takeover_keeps_epoch: TakeoverKeepsEpoch, from 0;
    debits_of_others_taken_for_seen: DebitsOfOthersTakenForSeen, from 0;
    pause_not_noticed: PauseNotNoticed, from 0;
    copy_end_not_awaited: CopyEndNotAwaited, from 596;
    stand_in_not_journalled: StandInNotJournalled, from 0;
    local_not_journalled: LocalNotJournalled, from 0;
    restart_not_noticed: RestartNotNoticed, from 0;
    resumed_without_state: ResumedWithoutState, from 0;
}
