//! What goes wrong, or is done by an operator, in a run.

use super::random::Random;

/// What kind of run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Joins, drains and restarts only: nothing may show.
    Planned,
    /// Cuts and lost connections; no node stops.
    Cuts,
    /// Everything.
    Chaos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process is killed, or its machine loses power; it comes back after a time.
    Crash { power: bool, back_us: u64 },
    /// A process stands still.
    Pause { for_us: u64 },
    /// One node is cut off from some others, in both directions or in one.
    Cut { both: bool, others: u8, for_us: u64 },
    /// A connection is lost.
    Reset,
    /// A wall clock is set.
    Step { by_us: i64 },
    /// A node that is not there comes.
    Join,
    /// A node gives its slots away, goes, and comes back after a time.
    Drain { back_us: u64 },
}

/// The faults of a run, with their times.
pub(super) fn schedule(profile: Profile, from_us: u64, to_us: u64, random: &mut Random) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    let count = match profile {
        Profile::Planned | Profile::Cuts => 32,
        Profile::Chaos => random.between(32, 40),
    };
    for i in 0..count {
        let width_us = (to_us - from_us) / count;
        let at_us = from_us + i * width_us + random.between(0, width_us - 1);
        faults.push((at_us, one(profile, random)));
    }
    faults
}

fn one(profile: Profile, random: &mut Random) -> Fault {
    let short_or_long = |random: &mut Random| match random.one_in(3) {
        true => random.between(2_000_000, 6_000_000),
        false => random.between(20_000, 1_500_000),
    };
    let step = |random: &mut Random| Fault::Step {
        by_us: random.between(0, 10_000_000) as i64 - 5_000_000,
    };
    match profile {
        Profile::Planned => match random.between(0, 9) {
            0..=2 => Fault::Join,
            3..=7 => Fault::Drain {
                back_us: random.between(100_000, 2_000_000),
            },
            _ => step(random),
        },
        Profile::Cuts => match random.between(0, 9) {
            0..=6 => Fault::Cut {
                both: !random.one_in(3),
                others: random.between(1, 6) as u8,
                for_us: short_or_long(random),
            },
            7 | 8 => Fault::Reset,
            _ => step(random),
        },
        Profile::Chaos => match random.between(0, 15) {
            0..=3 => Fault::Crash {
                power: random.one_in(2),
                back_us: random.between(50_000, 5_000_000),
            },
            4..=6 => Fault::Pause {
                for_us: short_or_long(random),
            },
            7..=10 => Fault::Cut {
                both: !random.one_in(3),
                others: random.between(1, 6) as u8,
                for_us: short_or_long(random),
            },
            11 => Fault::Reset,
            12 => step(random),
            13 => Fault::Join,
            _ => Fault::Drain {
                back_us: random.between(100_000, 2_000_000),
            },
        },
    }
}
