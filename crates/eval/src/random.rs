//! `math.random` and `math.randomseed`: the generator of Redis (`src/rand.c`, drand48), so that a seed gives the same
//! numbers. Each run begins elsewhere, as scripts of Redis 7 do.

use std::ffi::c_int;

use crate::number::truncate;
use crate::shared::Shared;
use crate::stack::{Fail, Stack};

/// 48 bits of state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

const MASK: u64 = (1 << 48) - 1;

impl Default for Random {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Random {
    pub(crate) fn seeded(seed: u32) -> Self {
        Self(u64::from(seed) << 16 | 0x330e)
    }

    /// 31 bits.
    pub(crate) fn step(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
        (self.0 >> 17) as u32
    }
}

impl Shared {
    /// Where the next run begins.
    pub(crate) fn random_seed(&self) -> Random {
        let mut random = self.seeds.get();
        let seed = random.step();
        self.seeds.set(random);
        Random::seeded(seed)
    }
}

pub(crate) fn random(stack: &Stack) -> Result<c_int, Fail> {
    const MAX: u32 = i32::MAX as u32;
    let state = &stack.shared().run.random;
    let mut random = state.get();
    let part = f64::from(random.step() % MAX) / f64::from(MAX);
    state.set(random);
    let value = match stack.top() {
        0 => part,
        1 => {
            let upper = stack.check_number(1, "random")?.trunc();
            if upper < 1.0 {
                return Err(Fail::argument(1, "random", "interval is empty"));
            }
            (part * upper).floor() + 1.0
        }
        2 => {
            let lower = stack.check_number(1, "random")?.trunc();
            let upper = stack.check_number(2, "random")?.trunc();
            if lower > upper {
                return Err(Fail::argument(2, "random", "interval is empty"));
            }
            (part * (upper - lower + 1.0)).floor() + lower
        }
        _ => return Err(Fail::text("wrong number of arguments")),
    };
    stack.push_number(value);
    Ok(1)
}

pub(crate) fn randomseed(stack: &Stack) -> Result<c_int, Fail> {
    let seed = truncate(stack.check_number(1, "randomseed")?) as u32;
    stack.shared().run.random.set(Random::seeded(seed));
    Ok(0)
}
