//! Scripts in files whose first lines say how to call them with random arguments.
//!
//! ```text
//! -- What the script is.
//! -- keys: <key bucket> <key bucket>:block
//! -- args: <int 1 20> <now ms> <of NX|XX|>
//! -- beside: HSET <key bucket> tokens <int 0 20>
//! -- compare: near 3000
//! ```
//!
//! `keys` and `args` may be repeated, as pairs: one of the pairs is taken for each call. `beside` are commands that other clients send
//! meanwhile. Between `<` and `>`:
//! - `key NAME` one of a few keys of that name, the same one wherever the name occurs in one call
//! - `int A B` and `float A B`, from A to B
//! - `now s`, `now ms`, `now us`, a clock of the test's own, which also goes backwards now and then
//! - `of A|B|C` one of these, which may be empty
//! - `id` one of a few member names
//! - `bytes` a few bytes of any kind
//! - `big` an integer of 15 to 19 digits
//! - `many A B KIND` from A to B arguments, each of that kind
//!
//! `compare` names what may differ: `near N` (numbers above 999, by N), `digits` (numbers, after the thirteenth), `unordered`,
//! `bare-code`; see [`Leeway`].

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Draw, Leeway};

/// Keys of one name.
const KEYS_OF_NAME: usize = 3;
/// Where the clock of the test begins: in the future, so that what is to expire at a time of this clock does not do so during a test.
const CLOCK_START_US: i64 = 2_000_000_000_000_000;
/// What arguments are not meant to be. No number that is a short time. The last few have more digits than Lua 5.1 keeps in a text, and
/// come only where digits may differ.
const ODD: &[&str] = &[
    "",
    "abc",
    "-1",
    "0",
    "nan",
    "inf",
    "-inf",
    "0x7fffffff",
    " 90000000",
    "90000000.5",
    "123456789012",
    "a b",
    "1e400",
    "nil",
    "false",
    "1e17",
    "-9223372036854775808",
    "9007199254740993",
];
const ODD_OF_MANY_DIGITS: usize = 3;
/// One argument in so many is odd.
const ODD_ONE_IN: usize = 60;

/// A script with the ways to call it.
#[derive(Debug)]
pub struct ScriptFile {
    /// The file's name without its ending.
    pub name: String,
    /// Its text, header included.
    pub text: String,
    /// How its answers are compared.
    pub leeway: Leeway,
    calls: Vec<(Vec<Word>, Vec<Word>)>,
    beside: Vec<Vec<Word>>,
}

/// An argument: text and what is put in.
type Word = Vec<Part>;

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Kind(Vec<String>),
}

/// The test's clock.
#[derive(Debug, Clone, Copy)]
pub struct TestClock(i64);

impl Default for TestClock {
    fn default() -> Self {
        Self(CLOCK_START_US)
    }
}

impl TestClock {
    fn go_on(&mut self, draw: &mut Draw) {
        self.0 += match draw.below(100) {
            0..10 => 0,
            10..13 => -(draw.below(3_000_000) as i64),
            13..16 => draw.below(4_000_000_000) as i64,
            _ => draw.below(800_000) as i64,
        };
    }
}

impl ScriptFile {
    /// All scripts of a directory, by name.
    ///
    /// # Panics
    /// If a file cannot be read or its header is not understood.
    pub fn all_in(directory: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut scripts: Vec<Self> = entries
            .map(|entry| entry.expect("a directory can be listed").path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "lua"))
            .map(|path| {
                let name = path
                    .file_stem()
                    .expect("a file has a name")
                    .to_string_lossy()
                    .into_owned();
                let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
                Self::parse(name, text)
            })
            .collect();
        scripts.sort_by(|a, b| a.name.cmp(&b.name));
        scripts
    }

    fn parse(name: String, text: String) -> Self {
        let (mut calls, mut beside, mut leeway) = (Vec::new(), Vec::new(), Leeway::default());
        let header = text.lines().skip_while(|line| line.starts_with("#!"));
        for line in header.map_while(|line| line.strip_prefix("-- ")) {
            let (what, rest) = line.split_once(':').unwrap_or((line, ""));
            match what {
                "keys" => calls.push((words(rest), Vec::new())),
                "args" => calls.last_mut().unwrap_or_else(|| panic!("{name}: args before keys")).1 = words(rest),
                "beside" => beside.push(words(rest)),
                "compare" => {
                    let mut options = rest.split_whitespace();
                    while let Some(option) = options.next() {
                        match option {
                            "near" => leeway.absolute = options.next().and_then(|by| by.parse().ok()).expect("near N"),
                            "digits" => leeway.relative = 1e-13,
                            "unordered" => leeway.unordered = true,
                            "bare-code" => leeway.bare_code = true,
                            other => panic!("{name}: compare has no option {other}"),
                        }
                    }
                }
                _ => {}
            }
        }
        assert!(!calls.is_empty(), "{name} does not say how it is called");
        Self {
            name,
            text,
            leeway,
            calls,
            beside,
        }
    }

    /// The number of keys, the keys and the arguments of a call, as after `EVAL script`.
    pub fn draw_call(&self, draw: &mut Draw, clock: &mut TestClock) -> Vec<Vec<u8>> {
        clock.go_on(draw);
        let (keys, args) = &self.calls[draw.below(self.calls.len())];
        let mut filler = Filler::new(draw, *clock);
        let keys = filler.fill(keys);
        let mut args = filler.fill(args);
        let many_digits = if self.leeway.relative > 0.0 {
            0
        } else {
            ODD_OF_MANY_DIGITS
        };
        for arg in &mut args {
            if draw.one_in(ODD_ONE_IN) {
                *arg = draw.of(&ODD[..ODD.len() - many_digits]).as_bytes().to_vec();
            }
        }
        if draw.one_in(2 * ODD_ONE_IN) {
            args.pop();
        }
        let count = keys.len().to_string().into_bytes();
        [vec![count], keys, args].concat()
    }

    /// A command of another client: one of the file's, or one that any key may get.
    pub fn draw_beside(&self, draw: &mut Draw, clock: TestClock) -> Vec<Vec<u8>> {
        if !self.beside.is_empty() && !draw.one_in(5) {
            let words = &self.beside[draw.below(self.beside.len())];
            return Filler::new(draw, clock).fill(words);
        }
        const ANY: &[&str] = &[
            "DEL KEY",
            "DEL KEY",
            "DEL KEY",
            "DEL KEY",
            "DEL KEY",
            "DEL KEY",
            "DEL KEY",
            "EXPIRE KEY 90000000",
            "PERSIST KEY",
            "SET KEY 7",
            "SET KEY x",
            "SET KEY 3 EX 80000000",
            "HSET KEY f v",
            "LPUSH KEY a b",
            "SADD KEY a b",
            "ZADD KEY 1 a 2 b",
            "TYPE KEY",
            "EXISTS KEY",
            "GET KEY",
            "INCRBY KEY 2",
            "UNLINK KEY",
            "HGET KEY f",
            "ZSCORE KEY a",
            "LLEN KEY",
            "STRLEN KEY",
            "APPEND KEY 1",
        ];
        // Not those that count the digits of a number where these may differ.
        let has_digits = self.leeway.relative > 0.0 || self.leeway.absolute > 0.0;
        let any = &ANY[..ANY.len() - if has_digits { 2 } else { 0 }];
        let (keys, _) = &self.calls[draw.below(self.calls.len())];
        let keys = Filler::new(draw, clock).fill(keys);
        let key = match keys.len() {
            0 => b"none".to_vec(),
            count => keys[draw.below(count)].clone(),
        };
        let line = draw.of(any).split(' ');
        line.map(|word| {
            if word == "KEY" {
                key.clone()
            } else {
                word.as_bytes().to_vec()
            }
        })
        .collect()
    }
}

/// Splits at blanks outside of `<` and `>`.
fn words(line: &str) -> Vec<Word> {
    let (mut words, mut word, mut text) = (Vec::new(), Word::new(), String::new());
    let mut chars = line.trim().chars();
    while let Some(char) = chars.next() {
        match char {
            '<' => {
                if !text.is_empty() {
                    word.push(Part::Text(std::mem::take(&mut text)));
                }
                let kind: String = chars.by_ref().take_while(|&char| char != '>').collect();
                word.push(Part::Kind(kind.split(' ').map(str::to_owned).collect()));
            }
            ' ' => {
                if !text.is_empty() {
                    word.push(Part::Text(std::mem::take(&mut text)));
                }
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            char => text.push(char),
        }
    }
    if !text.is_empty() {
        word.push(Part::Text(text));
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Fills in the words of one call.
struct Filler<'a> {
    draw: &'a mut Draw,
    clock: TestClock,
    keys: BTreeMap<String, usize>,
}

impl<'a> Filler<'a> {
    fn new(draw: &'a mut Draw, clock: TestClock) -> Self {
        Self {
            draw,
            clock,
            keys: BTreeMap::new(),
        }
    }

    fn fill(&mut self, words: &[Word]) -> Vec<Vec<u8>> {
        let mut filled = Vec::new();
        for word in words {
            if let [Part::Kind(kind)] = &word[..]
                && kind[0] == "many"
            {
                let count = self.int(&kind[1], &kind[2]);
                filled.extend((0..count).map(|_| self.kind(&kind[3..])));
                continue;
            }
            let parts = word.iter().map(|part| match part {
                Part::Text(text) => text.clone().into_bytes(),
                Part::Kind(kind) => self.kind(kind),
            });
            filled.push(parts.collect::<Vec<_>>().concat());
        }
        filled
    }

    fn int(&mut self, from: &str, to: &str) -> i64 {
        let number = |text: &str| text.parse::<i64>().unwrap_or_else(|_| panic!("{text} is no integer"));
        let (from, to) = (number(from), number(to));
        from + self.draw.below((to - from + 1) as usize) as i64
    }

    fn kind(&mut self, kind: &[String]) -> Vec<u8> {
        let words: Vec<&str> = kind.iter().map(String::as_str).collect();
        match words[..] {
            ["key", name] => {
                let draw = &mut *self.draw;
                let number = *self
                    .keys
                    .entry(name.to_owned())
                    .or_insert_with(|| draw.below(KEYS_OF_NAME));
                format!("{name}{number}").into_bytes()
            }
            ["int", from, to] => self.int(from, to).to_string().into_bytes(),
            ["float", from, to] => {
                let micros = self.int(&format!("{from}000000"), &format!("{to}000000"));
                (micros as f64 / 1e6).to_string().into_bytes()
            }
            ["now", unit] => {
                let divisor = match unit {
                    "s" => 1_000_000,
                    "ms" => 1_000,
                    "us" => 1,
                    _ => panic!("no unit {unit}"),
                };
                (self.clock.0 / divisor).to_string().into_bytes()
            }
            ["id"] => format!("member:{}", self.draw.below(8)).into_bytes(),
            ["bytes"] => (0..self.draw.below(12)).map(|_| self.draw.below(256) as u8).collect(),
            ["big"] => {
                let digits = 15 + self.draw.below(5);
                let rest = (1..digits).map(|_| char::from(b'0' + self.draw.below(10) as u8));
                std::iter::once('1').chain(rest).collect::<String>().into_bytes()
            }
            ["of", ..] => {
                let choices = words[1..].join(" ");
                let choices: Vec<&str> = choices.split('|').collect();
                choices[self.draw.below(choices.len())].as_bytes().to_vec()
            }
            _ => panic!("no kind {words:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_how_a_script_is_called() {
        let text = "-- A test.\n-- keys: {<key a>}:x <key a>\n-- args: <int 5 5> <of p q|p q> <many 2 2 now s>\n\
                    -- beside: GET <key a>\n-- compare: near 5 bare-code\nreturn 1\n-- keys: <key b>\n";
        let script = ScriptFile::parse("test".to_owned(), text.to_owned());
        // Now and then an argument is replaced by something odd.
        let as_said = (0..50).filter(|&seed| {
            let call = script.draw_call(&mut Draw::new(seed), &mut TestClock::default());
            let call: Vec<&str> = call.iter().filter_map(|arg| std::str::from_utf8(arg).ok()).collect();
            let [count, tagged, key, five, pq, now, again] = call[..] else {
                return false;
            };
            let now_s: i64 = now.parse().unwrap_or(0);
            (count, five, pq, again) == ("2", "5", "p q", now)
                && tagged == format!("{{{key}}}:x")
                && (-3..=4_000).contains(&(now_s - CLOCK_START_US / 1_000_000))
        });
        let as_said = as_said.count();
        assert!((25..50).contains(&as_said), "{as_said}");
        assert!(script.leeway.bare_code && script.leeway.absolute == 5.0 && !script.leeway.unordered);
    }
}
