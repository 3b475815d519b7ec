//! Runs of the simulator.

use super::faults::Profile;
use super::oracle::Counts;
use super::world::World;
use crate::slots::Settings;

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

fn run(seed: u64) -> Run {
    let mut world = World::new(seed, profile(seed), settings());
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

#[test]
fn simulation_of_many_seeds() {
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = number("FIRST").unwrap_or(0);
            (first..first + number("SEEDS").unwrap_or(8)).collect()
        }
    };
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(seeds.len());
    let failed: Vec<(u64, String)> = std::thread::scope(|scope| {
        let part = |thread: usize| {
            let mine: Vec<u64> = seeds.iter().copied().skip(thread).step_by(threads).collect();
            scope.spawn(move || {
                let mut failed = Vec::new();
                for &seed in &mine {
                    let run = run(seed);
                    if number("SEED").is_some() {
                        println!(
                            "seed {seed}, {:?}: {:#?}, trace {:016x}",
                            profile(seed),
                            run.counts,
                            run.trace
                        );
                    }
                    failed.extend(run.violation.map(|violation| (seed, violation)));
                }
                failed
            })
        };
        let running: Vec<_> = (0..threads).map(part).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("a run ends"))
            .collect()
    });
    for (seed, violation) in &failed {
        println!("seed {seed} ({:?}): {violation}", profile(*seed));
    }
    assert!(failed.is_empty(), "{} of {} seeds failed", failed.len(), seeds.len());
}

#[test]
fn a_seed_gives_the_same_trace_every_time() {
    for seed in [1, 2, 4] {
        let (one, two) = (run(seed), run(seed));
        assert_eq!((one.trace, &one.counts), (two.trace, &two.counts), "seed {seed}");
    }
}
