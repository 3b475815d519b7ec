//! A fixed stream of mutations of a target's seeds: what the tests of the crates run in place of a fuzzer. Only they include this file.

use std::path::Path;

const ROUNDS_DEFAULT: u64 = 20_000;

/// Runs a target's body over its seeds and their mutations, with `telling` bytes among the new ones.
///
/// # Panics
/// When the body does; the input is printed first.
pub fn run(target: &str, telling: &[u8], body: fn(&[u8])) {
    let seeds = read_seeds(target);
    assert!(seeds.len() >= 5, "seeds of {target} are missing");
    for seed in &seeds {
        body(seed);
    }
    let rounds =
        std::env::var("TOLLGATE_FUZZ_ROUNDS").map_or(ROUNDS_DEFAULT, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let mut random = Random(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let input = mutate(&seeds, telling, &mut random);
        if let Err(panic) = std::panic::catch_unwind(|| body(&input)) {
            eprintln!("{target} round {round}: {:?}", input.escape_ascii().to_string());
            std::panic::resume_unwind(panic);
        }
    }
}

fn read_seeds(target: &str) -> Vec<Vec<u8>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut files: Vec<_> = std::fs::read_dir(seeds.join(target))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a file")).collect()
}

/// A seed, or the front of one and the back of another, with up to eight bytes changed, added or dropped.
fn mutate(seeds: &[Vec<u8>], telling: &[u8], random: &mut Random) -> Vec<u8> {
    let front = &seeds[random.below(seeds.len())];
    let mut input = front.clone();
    if random.below(3) == 0 {
        let back = &seeds[random.below(seeds.len())];
        input.truncate(random.below(front.len() + 1));
        input.extend_from_slice(&back[random.below(back.len() + 1)..]);
    }
    for _ in 0..random.below(9) {
        let at = random.below(input.len() + 1);
        let byte = match random.below(2) {
            0 => telling[random.below(telling.len())],
            _ => random.below(256) as u8,
        };
        match random.below(3) {
            0 => input.insert(at, byte),
            1 if at < input.len() => input[at] = byte,
            2 if at < input.len() => {
                input.remove(at);
            }
            _ => {}
        }
    }
    input
}

/// xorshift64: the same inputs on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
