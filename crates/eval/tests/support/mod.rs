//! A host with a few commands of its own, and runs from start to end.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::time::Duration;

use tollgate_eval::{
    Engine, EngineLimits, Host, HostAnswer, LogLevel, Outcome, ReplySink, Resp, Run, ScriptError, Tape,
};
use tollgate_protocol::Request;

/// Keys in a map, and commands that answer with each type.
#[derive(Default)]
pub struct FakeHost {
    pub values: HashMap<Vec<u8>, Vec<u8>>,
    pub calls: usize,
    pub logged: Vec<(LogLevel, Vec<u8>)>,
    pub is_elsewhere: bool,
}

impl Host for FakeHost {
    fn call(&mut self, request: Request<'_>, _: Resp, reply: &mut Tape) -> HostAnswer {
        let arguments: Vec<&[u8]> = request.iter().collect();
        self.calls += 1;
        if self.is_elsewhere {
            return HostAnswer::Elsewhere;
        }
        match &arguments[..] {
            [b"GET", key] => match self.values.get(*key) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            [b"SET", key, value] => {
                self.values.insert(key.to_vec(), value.to_vec());
                reply.status(b"OK");
            }
            [b"ARGS", arguments @ ..] => {
                reply.array(arguments.len());
                arguments.iter().for_each(|argument| reply.bulk(argument));
            }
            [b"COUNT", arguments @ ..] => reply.integer(arguments.len() as i64),
            [b"HOLES"] => {
                reply.array(3);
                reply.bulk(b"a");
                reply.null();
                reply.bulk(b"c");
            }
            [b"MAP"] => {
                reply.map(2);
                reply.bulk(b"a");
                reply.integer(1);
                reply.bulk(b"b");
                reply.integer(2);
            }
            [b"MEMBERS"] => {
                reply.set(1);
                reply.bulk(b"a");
            }
            // Takes 8 ms of this thread's time.
            [b"SLOW"] => {
                let begin = thread_time();
                while thread_time() - begin < Duration::from_millis(8) {}
                reply.null();
            }
            [b"DOUBLE"] => reply.double(1.5),
            [b"BOOLEAN"] => reply.boolean(true),
            [b"BIG"] => reply.big_number(b"12345678901234567890"),
            [b"VERBATIM"] => reply.verbatim(b"mkd", b"text"),
            [b"LARGE", count] => {
                let count: usize = String::from_utf8_lossy(count).parse().expect("a number");
                reply.array(count);
                (0..count).for_each(|item| reply.integer(item as i64));
            }
            _ => reply.error(b"WRONGTYPE Operation against a key holding the wrong kind of value"),
        }
        HostAnswer::Replied
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        (arguments[0] != b"NOSUCH").then_some(true)
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.logged.push((level, message.to_vec()));
    }
}

/// A reply as text, in the manner of RESP without line ends.
#[derive(Default)]
pub struct Text(pub String);

impl Text {
    fn add(&mut self, mark: char, text: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push(mark);
        self.0.push_str(&text.escape_ascii().to_string());
    }
}

impl ReplySink for Text {
    fn integer(&mut self, value: i64) {
        self.add(':', value.to_string().as_bytes());
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.add('$', bytes);
    }
    fn status(&mut self, text: &[u8]) {
        self.add('+', text);
    }
    fn error(&mut self, text: &[u8]) {
        self.add('-', text);
    }
    fn null(&mut self) {
        self.add('_', b"");
    }
    fn array(&mut self, len: usize) {
        self.add('*', len.to_string().as_bytes());
    }
    fn map(&mut self, pairs: usize) {
        self.add('%', pairs.to_string().as_bytes());
    }
    fn set(&mut self, len: usize) {
        self.add('~', len.to_string().as_bytes());
    }
    fn boolean(&mut self, value: bool) {
        self.add('#', if value { b"t" } else { b"f" });
    }
    fn double(&mut self, value: f64) {
        self.add(',', value.to_string().as_bytes());
    }
    fn big_number(&mut self, digits: &[u8]) {
        self.add('(', digits);
    }
    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        self.add('=', &[format, b":", text].concat());
    }
}

/// Slices of a millisecond, as a worker gives.
pub const SLICE: Duration = Duration::from_millis(1);

pub fn engine() -> Engine {
    Engine::new(EngineLimits::default()).expect("an engine")
}

pub fn start(engine: &Engine, source: &str) -> Run {
    let script = engine.compile(source.as_bytes(), "user_script").expect("a script");
    engine.start(&script, &["key1", "key2"], &["arg1", "2"])
}

/// How a run went, slice by slice.
pub struct Watched {
    pub outcome: Outcome,
    pub slices: usize,
    /// The longest slice, in time of this thread: what other processes take is no fault of the script's.
    pub longest: Duration,
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Resumes until the run is over, or has used its budget of this thread's time.
pub fn watch(run: &mut Run, host: &mut FakeHost, budget: Duration) -> Watched {
    let begin = thread_time();
    let (mut slices, mut longest) = (0, Duration::ZERO);
    loop {
        let slice_begin = thread_time();
        let outcome = run.resume(host, SLICE);
        slices += 1;
        longest = longest.max(thread_time() - slice_begin);
        if !matches!(outcome, Outcome::Yielded) || thread_time() - begin > budget {
            return Watched {
                outcome,
                slices,
                longest,
            };
        }
    }
}

pub fn finish(run: &mut Run, host: &mut FakeHost) -> Result<String, ScriptError> {
    match watch(run, host, Duration::from_secs(30)).outcome {
        Outcome::Finished => {
            let mut text = Text::default();
            run.write_reply(&mut text)?;
            Ok(text.0)
        }
        Outcome::Failed(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// The reply of a script that returns.
pub fn eval(source: &str) -> String {
    finish(&mut start(&engine(), source), &mut FakeHost::default())
        .unwrap_or_else(|error| panic!("{source}: {}", String::from_utf8_lossy(&error.message)))
}

/// The error reply of one that fails.
pub fn eval_error(source: &str) -> String {
    match finish(&mut start(&engine(), source), &mut FakeHost::default()) {
        Ok(reply) => panic!("{source}: {reply}"),
        Err(error) => String::from_utf8_lossy(&error.to_reply("sha")).into_owned(),
    }
}
