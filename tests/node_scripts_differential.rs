//! The scripts in `tests/scripts`, written as rate limiting libraries write theirs, on a redis-server and on a node at once: with
//! random arguments, among commands of other clients for the same keys. Replies have to be the same, and at the end all keys.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use tollgate_suite::{
    Check, Draw, Leeway, Node, RedisServer, ScriptFile, Servers, TestClock, Trial, Value, skip_without,
};

/// Scripts, commands and comparisons of all keys, by script.
const TRIALS: usize = 420;
/// Times that a script has to run, over all its keys.
const RUNS_MIN: usize = 200;
/// Of the runs of all scripts, how many have to succeed, in percent.
const SUCCESS_PERCENT_MIN: usize = 65;
/// How far apart times may be that commands of other clients ask for.
const BESIDE_APART: f64 = 5_000.0;

#[derive(Debug, Default)]
struct Counts {
    runs: usize,
    successes: usize,
    commands: usize,
    keys: i64,
}

fn next_trial(script: &ScriptFile, sha1: &str, draw: &mut Draw, clock: &mut TestClock) -> Trial {
    let leeway = script.leeway;
    match draw.below(100) {
        0..58 => {
            let call = script.draw_call(draw, clock);
            let (command, text) = match draw.below(12) {
                0 => ("EVAL", script.text.as_str()),
                1 => ("evalsha", sha1),
                _ => ("EVALSHA", sha1),
            };
            let head = [command, text].map(|word| word.as_bytes().to_vec());
            Trial::new([&head[..], &call].concat()).checked(Check::Within(leeway))
        }
        58..98 => {
            let check = Check::Within(Leeway {
                absolute: BESIDE_APART,
                ..leeway
            });
            Trial::new(script.draw_beside(draw, *clock)).checked(check)
        }
        _ => Trial::new(["all keys"]).checked(Check::State(leeway)),
    }
}

fn compare_script(script: &ScriptFile, seed: u64, servers: &mut Servers<'_>, counts: &mut Counts) {
    let sha1 = servers.reference.command(&["SCRIPT", "LOAD", &script.text]);
    assert_eq!(servers.tested.command(&["SCRIPT", "LOAD", &script.text]), sha1);
    let mut clock = TestClock::default();
    let mut left = TRIALS;
    servers.compare(
        seed,
        TRIALS,
        |draw| {
            left -= 1;
            match left {
                0 => Trial::new(["all keys"]).checked(Check::State(script.leeway)),
                _ => next_trial(script, sha1.text(), draw, &mut clock),
            }
        },
        |trial, answer| match trial.check {
            Check::State(_) => counts.keys = answer.int(),
            _ if trial.args[0].to_ascii_uppercase().starts_with(b"EVAL") => {
                counts.runs += 1;
                counts.successes += usize::from(!matches!(answer, Value::Error(_)));
            }
            _ => counts.commands += 1,
        },
    );
}

fn compare(workers: &str, resp3: bool) {
    if skip_without(&["redis-server"]) {
        return;
    }
    let redis = RedisServer::start(&[]);
    let node = Node::start(&["--workers", workers]);
    let (mut reference, mut tested) = (redis.client(), node.client());
    if resp3 {
        reference.hello3();
        tested.hello3();
    }
    let scripts = ScriptFile::all_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts"));
    assert!(scripts.len() >= 40, "{} scripts", scripts.len());
    let mut table: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut differing = Vec::new();
    for (number, script) in scripts.iter().enumerate() {
        let seed = 1000 * number as u64 + 100 * u64::from(resp3) + u64::from(workers != "1");
        println!("{}: seed {seed}", script.name);
        let counts = table.entry(&script.name).or_default();
        let mut servers = Servers {
            reference: &mut reference,
            tested: &mut tested,
        };
        // All scripts are told of that differ, not only the first.
        let compared = AssertUnwindSafe(|| compare_script(script, seed, &mut servers, counts));
        if std::panic::catch_unwind(compared).is_err() {
            differing.push(&script.name);
        }
    }
    println!(
        "{:36}{:>6}{:>11}{:>10}{:>6}",
        "script", "runs", "succeeded", "commands", "keys"
    );
    for (name, counts) in &table {
        let percent = 100 * counts.successes / counts.runs.max(1);
        println!(
            "{name:36}{:6}{percent:9} %{:10}{:6}",
            counts.runs, counts.commands, counts.keys
        );
    }
    assert!(differing.is_empty(), "{differing:?} differ");
    for (name, counts) in &table {
        assert!(counts.runs >= RUNS_MIN, "{name} ran {} times", counts.runs);
        assert!(counts.successes > 0, "{name} never succeeded");
    }
    let sum = |count: fn(&Counts) -> usize| table.values().map(count).sum::<usize>();
    let (runs, successes) = (sum(|counts| counts.runs), sum(|counts| counts.successes));
    println!(
        "{:36}{runs:6}{:9} %{:10}",
        "all",
        100 * successes / runs.max(1),
        sum(|counts| counts.commands)
    );
    assert!(
        100 * successes >= SUCCESS_PERCENT_MIN * runs,
        "{successes} of {runs} succeeded"
    );
}

#[test]
fn scripts_answer_as_in_redis_with_one_worker() {
    compare("1", false);
}

#[test]
fn scripts_answer_as_in_redis_with_one_worker_in_resp3() {
    compare("1", true);
}

#[test]
fn scripts_answer_as_in_redis_with_three_workers() {
    compare("3", false);
}

#[test]
fn scripts_answer_as_in_redis_with_three_workers_in_resp3() {
    compare("3", true);
}
