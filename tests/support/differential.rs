//! Random commands on two servers at once: the same questions, the same answers.
//!
//! A test declares the commands and options of a family, and gives a function that makes random [`Trial`]s of them.
//! [`Differential::run`] puts each to a stock redis-server and to a node, and compares. A difference is replayed with fewer and
//! fewer commands before until none can be left out. [`Differential::finish`] prints how often each command and option ran and
//! succeeded, and fails if that was too seldom for the test to mean anything.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::state::compare_states;
use crate::{Client, Draw, Leeway, Value};

/// Times that each command and option has to run.
const RUNS_MIN: usize = 200;
/// Times that each command and option has to succeed.
const SUCCESSES_MIN: usize = 40;
/// Of all commands, how many have to succeed, in percent.
const SUCCESS_PERCENT_MIN: usize = 60;
/// How long a failing sequence is made shorter.
const SHRINK_LIMIT: Duration = Duration::from_secs(20);
/// Commands of a sequence that are printed.
const SHOWN_COMMANDS: usize = 40;
/// Bytes of a command that are printed.
const SHOWN_BYTES: usize = 300;
/// Calls after which a scan that has not come to its end never will.
const SCAN_CALLS_MAX: usize = 10_000;

/// How the two answers are compared.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// They are the same, bit for bit.
    Same,
    /// The elements of an array come in any order, in groups of so many (2 for fields with values in RESP2). A map is one of pairs
    /// whatever the size of the groups.
    Unordered(usize),
    /// As [`Check::Unordered`] if redis-server keeps the value of argument 1 in a hashtable, which has no order; else the same.
    AsKept(usize),
    /// What a command like HSCAN answers, with its cursor in argument 2: from cursor 0, all steps together show the same, in groups of
    /// so many. Of another cursor, only whether it is an error is compared.
    Scan(usize),
    /// As this decides of the node's answer and of redis-server's.
    Alike(fn(&Value, &Value) -> bool),
    /// They are the same but for what the leeway allows.
    Within(Leeway),
    /// No command: the keys of both servers, their values and about when they expire are compared.
    State(Leeway),
    /// This puts the command to the servers itself and answers what the node did, or what is wrong: for a random pick, where it leaves
    /// both with the same data.
    By(fn(&mut Servers<'_>, &[Vec<u8>]) -> Result<Value, String>),
}

/// A command and how its answers are compared.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The command's name and arguments.
    pub args: Vec<Vec<u8>>,
    /// How its answers are compared.
    pub check: Check,
}

impl Trial {
    /// A command whose answers have to be the same.
    pub fn new<A: Into<Vec<u8>>>(args: impl IntoIterator<Item = A>) -> Self {
        Self {
            args: args.into_iter().map(Into::into).collect(),
            check: Check::Same,
        }
    }

    /// The same command, compared in another way.
    pub fn checked(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// As it would be typed, shortened.
    fn line(&self) -> String {
        let mut line = String::new();
        for arg in &self.args {
            if line.len() > SHOWN_BYTES {
                return format!("{line} ... ({} arguments)", self.args.len());
            }
            let shown = &arg[..arg.len().min(SHOWN_BYTES)];
            let quote = if arg.is_empty() || arg.contains(&b' ') { "'" } else { "" };
            line += &format!(" {quote}{}{quote}", shown.escape_ascii());
        }
        line.trim_start().to_owned()
    }
}

/// The two servers, each with one connection.
#[derive(Debug)]
pub struct Servers<'a> {
    /// The redis-server.
    pub reference: &'a mut Client,
    /// The node.
    pub tested: &'a mut Client,
}

impl Servers<'_> {
    /// Runs a trial: what the node answered, or what is wrong.
    fn run(&mut self, trial: &Trial) -> Result<Value, String> {
        let args = &trial.args;
        if let Check::By(run) = trial.check {
            return run(self, args);
        }
        if let Check::State(leeway) = trial.check {
            return compare_states(self, &leeway);
        }
        let kept = match trial.check {
            Check::AsKept(_) if args.len() > 1 => self.reference.command(&[b"OBJECT", &b"ENCODING"[..], &args[1]]),
            _ => Value::Null,
        };
        let expected = self.reference.command(args);
        let answered = self.tested.command(args);
        let alike = match trial.check {
            Check::Scan(group) => return self.finish_scan(args, answered, expected, group),
            Check::Unordered(group) => in_some_order(&answered, group) == in_some_order(&expected, group),
            Check::AsKept(group) if kept == Value::Bulk(b"hashtable".to_vec()) => {
                in_some_order(&answered, group) == in_some_order(&expected, group)
            }
            Check::Alike(alike) => alike(&answered, &expected),
            Check::Within(leeway) => leeway.allows(&answered, &expected),
            _ => answered == expected,
        };
        if alike {
            Ok(answered)
        } else {
            Err(difference(&answered, &expected))
        }
    }

    fn finish_scan(
        &mut self,
        args: &[Vec<u8>],
        answered: Value,
        expected: Value,
        group: usize,
    ) -> Result<Value, String> {
        if answered.is_error() || expected.is_error() {
            return match answered == expected {
                true => Ok(answered),
                false => Err(difference(&answered, &expected)),
            };
        }
        if args[2] != b"0" {
            return Ok(answered);
        }
        let shown = scan_on(self.tested, args, answered.clone(), group)?;
        let wanted = scan_on(self.reference, args, expected, group)?;
        if shown == wanted {
            return Ok(answered);
        }
        let missing: Vec<_> = wanted.iter().filter(|group| !shown.contains(group)).take(3).collect();
        let more: Vec<_> = shown.iter().filter(|group| !wanted.contains(group)).take(3).collect();
        Err(format!("the scan does not show {missing:?}, but {more:?}"))
    }

    fn flush(&mut self) {
        self.reference.line("FLUSHALL");
        self.tested.line("FLUSHALL");
    }

    /// Empties both servers and runs so many trials from a seed, each on both. `done` gets each with the node's answer.
    ///
    /// # Panics
    /// At the first difference, with the shortest sequence of commands found that shows it.
    pub fn compare(
        &mut self,
        seed: u64,
        trials: usize,
        mut generate: impl FnMut(&mut Draw) -> Trial,
        mut done: impl FnMut(&Trial, &Value),
    ) {
        self.flush();
        let mut draw = Draw::new(seed);
        let mut before: Vec<Trial> = Vec::new();
        for number in 0..trials {
            let trial = generate(&mut draw);
            let running = Running {
                trial: &trial,
                number,
                seed,
            };
            let outcome = self.run(&trial);
            drop(running);
            match outcome {
                Ok(answer) => {
                    done(&trial, &answer);
                    before.push(trial);
                }
                Err(wrong) => {
                    let line = trial.line();
                    before.push(trial);
                    let shortest = self.shortest(before);
                    panic!("seed {seed}, command {number}: {line}\n  {wrong}\n{shortest}");
                }
            }
        }
    }

    /// The shortest sequence found that still goes wrong, in words.
    fn shortest(&mut self, trials: Vec<Trial>) -> String {
        let Some((trials, wrong)) = self.shrink(trials) else {
            return "it does not happen again when the same commands are run once more".to_owned();
        };
        let from = trials.len().saturating_sub(SHOWN_COMMANDS);
        let lines: Vec<_> = trials[from..].iter().map(Trial::line).collect();
        format!(
            "the shortest sequence found, of {}:\n  {}\n  {wrong}",
            trials.len(),
            lines.join("\n  ")
        )
    }

    /// Runs trials one after the other; the number of the first that goes wrong, and what is wrong.
    fn replay(&mut self, trials: &[Trial]) -> Option<(usize, String)> {
        self.flush();
        let fails = |(at, trial)| self.run(trial).err().map(|wrong| (at, wrong));
        trials.iter().enumerate().find_map(fails)
    }

    /// A sequence that still fails, and as short as can be found in time, with what is wrong.
    fn shrink(&mut self, mut trials: Vec<Trial>) -> Option<(Vec<Trial>, String)> {
        let started = Instant::now();
        let mut found = None;
        // From the end first: most differences need little of what was before.
        let mut tail = 8;
        while found.is_none() {
            let from = trials.len().saturating_sub(tail);
            if let Some((at, wrong)) = self.replay(&trials[from..]) {
                trials = trials[from..=from + at].to_vec();
                found = Some(wrong);
            } else if from == 0 {
                return None;
            }
            tail *= 4;
        }
        let mut wrong = found?;
        let mut part = trials.len().div_ceil(2);
        while started.elapsed() < SHRINK_LIMIT {
            let mut start = 0;
            let before = trials.len();
            while start < trials.len() && started.elapsed() < SHRINK_LIMIT {
                let mut fewer = trials.clone();
                fewer.drain(start..(start + part).min(trials.len()));
                match self.replay(&fewer) {
                    Some((at, still)) => {
                        fewer.truncate(at + 1);
                        (trials, wrong) = (fewer, still);
                    }
                    None => start += part,
                }
            }
            if part == 1 && trials.len() == before {
                break;
            }
            part = part.div_ceil(2);
        }
        Some((trials, wrong))
    }
}

/// What a whole scan shows, sorted and each once.
fn scan_on(client: &mut Client, args: &[Vec<u8>], first: Value, group: usize) -> Result<Vec<String>, String> {
    let mut args = args.to_vec();
    let mut answer = first;
    let mut shown = Vec::new();
    for _ in 0..SCAN_CALLS_MAX {
        let [cursor, elements] = answer.items() else {
            return Err(format!("{answer:?} is no answer of a scan"));
        };
        shown.extend(in_some_order(elements, group));
        args[2] = cursor.text().as_bytes().to_vec();
        if args[2] == b"0" {
            shown.sort_unstable();
            shown.dedup();
            return Ok(shown);
        }
        answer = client.command(&args);
    }
    Err("the scan does not come to an end".to_owned())
}

/// What an answer consists of, in an order that both servers' have. The first line says what kind of answer it is.
fn in_some_order(answer: &Value, group: usize) -> Vec<String> {
    let (kind, mut parts): (_, Vec<String>) = match answer {
        Value::Array(items) => ("array", items.chunks(group).map(|chunk| format!("{chunk:?}")).collect()),
        Value::Set(items) => ("set", items.chunks(group).map(|chunk| format!("{chunk:?}")).collect()),
        Value::Map(pairs) => ("map", pairs.iter().map(|pair| format!("{pair:?}")).collect()),
        other => ("", vec![format!("{other:?}")]),
    };
    parts.sort_unstable();
    parts.insert(0, kind.to_owned());
    parts
}

pub(crate) fn difference(answered: &Value, expected: &Value) -> String {
    let short = |value: &Value| -> String { format!("{value:?}").chars().take(2000).collect() };
    format!(
        "answered {}\n  where redis-server answers {}",
        short(answered),
        short(expected)
    )
}

/// How often a command or option ran.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    runs: usize,
    successes: usize,
}

impl Count {
    fn add(&mut self, success: bool) {
        self.runs += 1;
        self.successes += usize::from(success);
    }
}

/// Random commands of one family. See the module.
#[derive(Debug)]
pub struct Differential {
    generate: fn(&mut Draw) -> Trial,
    all: Count,
    /// By command, and by command and option.
    counts: BTreeMap<(&'static str, &'static str), Count>,
}

impl Differential {
    /// `commands` are all that `generate` makes, each with its options, in upper case. An argument that reads as an option, in any
    /// case, counts as one.
    pub fn new(commands: &[(&'static str, &[&'static str])], generate: fn(&mut Draw) -> Trial) -> Self {
        let counts = commands.iter().flat_map(|&(command, options)| {
            let options = std::iter::once(&"").chain(options);
            options.map(move |&option| ((command, option), Count::default()))
        });
        Self {
            generate,
            all: Count::default(),
            counts: counts.collect(),
        }
    }

    /// Empties both servers and runs so many trials from a seed, each on both.
    ///
    /// # Panics
    /// At the first difference, with the shortest sequence of commands found that shows it.
    pub fn run(&mut self, reference: &mut Client, tested: &mut Client, seed: u64, trials: usize) {
        let generate = self.generate;
        Servers { reference, tested }.compare(seed, trials, generate, |trial, answer| {
            self.count(trial, !answer.is_error());
        });
    }

    fn count(&mut self, trial: &Trial, success: bool) {
        self.all.add(success);
        let name = trial.args[0].to_ascii_uppercase();
        let mut declared = false;
        for (&(command, option), count) in &mut self.counts {
            if command.as_bytes() != name {
                continue;
            }
            declared = true;
            if option.is_empty()
                || trial.args[1..]
                    .iter()
                    .any(|arg| arg.eq_ignore_ascii_case(option.as_bytes()))
            {
                count.add(success);
            }
        }
        assert!(declared, "{} is not among the declared commands", trial.line());
    }

    /// Prints how often each command and option ran.
    ///
    /// # Panics
    /// If that was too seldom, or if too few succeeded.
    pub fn finish(self) {
        let percent = |count: &Count| 100 * count.successes / count.runs.max(1);
        for ((command, option), count) in &self.counts {
            let name = format!("{command} {option}");
            println!("{name:28}{:8} runs, {:3} % succeeded", count.runs, percent(count));
        }
        println!(
            "{:28}{:8} runs, {:3} % succeeded",
            "all",
            self.all.runs,
            percent(&self.all)
        );
        assert!(
            percent(&self.all) >= SUCCESS_PERCENT_MIN,
            "only {} % of the commands succeeded",
            percent(&self.all)
        );
        for ((command, option), count) in &self.counts {
            assert!(
                count.runs >= RUNS_MIN && count.successes >= SUCCESSES_MIN,
                "{command} {option} ran {} times and succeeded {} times",
                count.runs,
                count.successes
            );
        }
    }
}

/// Says which command was running when a client panics, as it does when a server goes away.
struct Running<'a> {
    trial: &'a Trial,
    number: usize,
    seed: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, command {}: {}", self.seed, self.number, self.trial.line());
        }
    }
}
