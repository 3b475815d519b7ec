//! The scripts that a node knows, by their SHA-1.

use crate::CommandError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;
use tollgate_eval::{SCRIPT_SOURCE_BYTES_MAX, ScriptFlags, check_source, sha1_hex};
use tollgate_protocol::Request;

/// What error messages call a script, as in Redis.
pub(crate) const CHUNK_NAME: &str = "user_script";

/// Bounds of the scripts that a node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptsLimits {
    /// Scripts.
    pub scripts: usize,
    /// Bytes of all their texts.
    pub bytes: usize,
}

/// 40 hexadecimal digits in lower case.
pub(crate) type Sha = [u8; 40];

/// A script and what its first line says of it.
#[derive(Debug)]
pub struct ScriptSource {
    /// The whole text.
    pub(crate) text: Box<[u8]>,
    pub(crate) sha: Sha,
    /// What its first line declares, if it has one.
    pub(crate) flags: Option<ScriptFlags>,
}

impl ScriptSource {
    /// The whole text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its SHA-1 in lower-case hexadecimal digits.
    pub fn sha1(&self) -> &str {
        // Digits are ASCII.
        std::str::from_utf8(&self.sha).unwrap_or_default()
    }
}

/// The scripts of a node, and which of them are running for long.
#[derive(Debug)]
pub struct Scripts {
    limits: ScriptsLimits,
    known: RwLock<Known>,
    /// Raised by every flush: what workers have compiled is looked up again then.
    generation: AtomicU64,
    running: Mutex<Vec<Arc<Running>>>,
    /// Scripts refused or not kept for want of room.
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    by_sha: HashMap<Sha, Arc<ScriptSource>>,
    bytes: usize,
}

/// A run that has gone on for more than a slice.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) kind: RunKind,
    began: Instant,
    killed: AtomicBool,
}

/// What runs.
#[derive(Debug)]
pub(crate) enum RunKind {
    /// A script.
    Script,
    /// A library that is being loaded.
    Load,
    /// A function.
    Function {
        /// Its name.
        name: Box<str>,
        /// How it was called: as much of the command as FUNCTION STATS shows.
        command: Vec<Box<[u8]>>,
    },
}

impl RunKind {
    /// A function. Arguments after so many bytes are left out: they are kept for as long as it runs.
    pub(crate) fn function(name: &str, request: Request<'_>) -> Self {
        const COMMAND_BYTES_MAX: usize = 1 << 16;
        let mut bytes = 0;
        let shown = request.iter().take_while(|argument| {
            bytes += argument.len();
            bytes <= COMMAND_BYTES_MAX
        });
        Self::Function {
            name: name.into(),
            command: shown.map(Box::from).collect(),
        }
    }

    /// Whether FUNCTION KILL ends it, and not SCRIPT KILL.
    fn is_of_functions(&self) -> bool {
        !matches!(self, Self::Script)
    }
}

impl Running {
    /// Whether it is to be ended.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// How long it has run, in milliseconds.
    pub(crate) fn duration_ms(&self) -> i64 {
        self.began.elapsed().as_millis() as i64
    }
}

impl Scripts {
    /// No scripts, with these bounds.
    pub fn new(limits: ScriptsLimits) -> Self {
        Self {
            limits,
            known: RwLock::default(),
            generation: AtomicU64::new(0),
            running: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Which flush was the last.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Scripts refused or not kept because there were too many, so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How many scripts there are, and the bytes of their texts.
    pub fn count(&self) -> (usize, usize) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        (known.by_sha.len(), known.bytes)
    }

    /// The script of that SHA-1, in digits of any case.
    pub fn find(&self, sha: &[u8]) -> Option<Arc<ScriptSource>> {
        let sha = sha_of(sha)?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.by_sha.get(&sha).map(Arc::clone)
    }

    /// Reads a script: what EVAL is given.
    ///
    /// # Errors
    /// What is wrong with its first line.
    pub(crate) fn read(&self, text: &[u8]) -> Result<Arc<ScriptSource>, CommandError> {
        let digits = sha1_hex(text);
        if let Some(known) = self.find(digits.as_bytes()) {
            return Ok(known);
        }
        let sha = sha_of(digits.as_bytes()).ok_or(CommandError::Syntax)?;
        let flags = read_shebang(text)?;
        Ok(Arc::new(ScriptSource {
            text: text.into(),
            sha,
            flags,
        }))
    }

    /// Keeps a script that compiles; `false` if there is no room.
    pub(crate) fn keep(&self, source: &Arc<ScriptSource>) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.by_sha.contains_key(&source.sha) {
            return true;
        }
        let bytes = known.bytes + source.text.len();
        if known.by_sha.len() >= self.limits.scripts || bytes > self.limits.bytes {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        known.bytes = bytes;
        known.by_sha.insert(source.sha, Arc::clone(source));
        true
    }

    /// SCRIPT LOAD.
    ///
    /// # Errors
    /// The text does not compile, or there is no room.
    pub(crate) fn load(&self, text: &[u8]) -> Result<Arc<ScriptSource>, CommandError> {
        let source = self.read(text)?;
        if self.find(&source.sha).is_some() {
            return Ok(source);
        }
        check_source(text, CHUNK_NAME).map_err(|error| CommandError::Script(error.to_string().into_bytes()))?;
        if !self.keep(&source) {
            return Err(CommandError::TooManyScripts(self.limits));
        }
        Ok(source)
    }

    /// Knows a script that another node knows; whether there was room, and it compiles.
    pub fn learn(&self, text: &[u8]) -> bool {
        self.load(text).is_ok()
    }

    /// As [`Scripts::learn`], if the text has that SHA-1.
    pub fn learn_as(&self, text: &[u8], sha1: &[u8]) -> bool {
        sha_of(sha1).is_some_and(|sha| sha1_hex(text).as_bytes() == sha) && self.learn(text)
    }

    /// Forgets all scripts.
    pub fn flush(&self) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Known::default();
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes a run that has gone on for more than a slice, so that it can be killed.
    pub(crate) fn note_running(&self, kind: RunKind) -> Arc<Running> {
        let run = Arc::new(Running {
            kind,
            began: Instant::now(),
            killed: AtomicBool::new(false),
        });
        self.still_running().push(Arc::clone(&run));
        run
    }

    /// Those that have not ended, in the order in which they began.
    fn still_running(&self) -> MutexGuard<'_, Vec<Arc<Running>>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|run| Arc::strong_count(run) > 1);
        running
    }

    /// The function that has run for the longest time, of those that have gone on for more than a slice.
    pub(crate) fn oldest_function(&self) -> Option<Arc<Running>> {
        let running = self.still_running();
        let is_function = |run: &&Arc<Running>| matches!(run.kind, RunKind::Function { .. });
        running.iter().find(is_function).cloned()
    }

    /// SCRIPT KILL, FUNCTION KILL: ends all runs of that kind that have gone on for more than a slice.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn kill(&self, of_functions: bool) -> Result<(), CommandError> {
        let running = self.still_running();
        if running.is_empty() {
            return Err(CommandError::NotBusy);
        }
        let mut of_kind = running
            .iter()
            .filter(|run| run.kind.is_of_functions() == of_functions)
            .peekable();
        if of_kind.peek().is_none() {
            return Err(CommandError::OtherRuns(if of_functions {
                "SCRIPT"
            } else {
                "FUNCTION"
            }));
        }
        of_kind.for_each(|run| run.killed.store(true, Ordering::Release));
        Ok(())
    }
}

/// The digits in lower case, if they are as many as they must be.
pub(crate) fn sha_of(digits: &[u8]) -> Option<Sha> {
    let mut sha: Sha = digits.try_into().ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

/// Reads a first line `#!lua flags=...`. A script without one may do everything.
fn read_shebang(text: &[u8]) -> Result<Option<ScriptFlags>, CommandError> {
    // Of one that is too large, the compiler says so.
    if text.len() > SCRIPT_SOURCE_BYTES_MAX || !text.starts_with(b"#!") {
        return Ok(None);
    }
    let Some(end) = text.iter().position(|&byte| byte == b'\n') else {
        return Err(CommandError::Refused("Invalid script shebang"));
    };
    let line = String::from_utf8_lossy(&text[..end]).into_owned();
    let mut words = line.split_ascii_whitespace();
    match words.next().unwrap_or_default() {
        "#!lua" => {}
        engine => {
            return Err(CommandError::Other(format!(
                "Unexpected engine in script shebang: {engine}"
            )));
        }
    }
    let mut flags = ScriptFlags::default();
    for word in words {
        let Some(names) = word.strip_prefix("flags=") else {
            return Err(CommandError::Other(format!("Unknown lua shebang option: {word}")));
        };
        for name in names.split(',').filter(|name| !name.is_empty()) {
            // Of functions alone they may be in any case.
            if name.bytes().any(|byte| byte.is_ascii_uppercase()) || !flags.add(name.as_bytes()) {
                return Err(CommandError::Other(format!(
                    "Unexpected flag in script shebang: {name}"
                )));
            }
        }
    }
    Ok(Some(flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts() -> Scripts {
        Scripts::new(ScriptsLimits { scripts: 2, bytes: 40 })
    }

    #[test]
    fn a_script_is_found_by_its_sha1_until_a_flush() {
        let scripts = scripts();
        let source = scripts.load(b"return 1").unwrap();
        assert_eq!(source.sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert!(scripts.find(source.sha1().to_uppercase().as_bytes()).is_some());
        assert!(scripts.find(b"e0").is_none());
        let before = scripts.generation();
        scripts.flush();
        assert!(scripts.find(source.sha1().as_bytes()).is_none() && scripts.generation() > before);
        assert_eq!(scripts.count(), (0, 0));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let scripts = scripts();
        scripts.load(b"return 1").unwrap();
        scripts.load(b"return 1").unwrap();
        scripts.load(b"return 2").unwrap();
        assert!(matches!(
            scripts.load(b"return 3"),
            Err(CommandError::TooManyScripts(_))
        ));
        scripts.flush();
        assert!(matches!(
            scripts.load(&[b"return 1 --".to_vec(), vec![b'x'; 40]].concat()),
            Err(CommandError::TooManyScripts(_))
        ));
        assert_eq!(scripts.refused(), 2);
    }

    #[test]
    fn first_lines() {
        let read = |text: &[u8]| {
            let flags = read_shebang(text).map_err(|error| error.to_string())?;
            Ok(flags.map(|flags| flags.names().collect::<Vec<_>>()))
        };
        assert_eq!(read(b"return 1"), Ok(None));
        assert_eq!(read(b"#!lua\nreturn 1"), Ok(Some(vec![])));
        let both = Ok(Some(vec!["no-writes", "allow-oom"]));
        assert_eq!(read(b"#!lua flags=allow-oom,no-writes\nreturn 1"), both);
        assert_eq!(read(b"#!lua flags=\nreturn 1"), Ok(Some(vec![])));
        for (text, error) in [
            (&b"#!lua"[..], "ERR Invalid script shebang"),
            (b"#!not-lua\n", "ERR Unexpected engine in script shebang: #!not-lua"),
            (b"#!\n", "ERR Unexpected engine in script shebang: #!"),
            (b"#! lua\n", "ERR Unexpected engine in script shebang: #!"),
            (b"#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
            (b"#!lua flags=x\n", "ERR Unexpected flag in script shebang: x"),
            (
                b"#!lua flags=No-writes\n",
                "ERR Unexpected flag in script shebang: No-writes",
            ),
        ] {
            assert_eq!(read(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn a_kill_reaches_what_runs() {
        let scripts = scripts();
        assert_eq!(scripts.kill(false), Err(CommandError::NotBusy));
        let script = scripts.note_running(RunKind::Script);
        assert_eq!(scripts.kill(true), Err(CommandError::OtherRuns("SCRIPT")));
        assert!(scripts.oldest_function().is_none() && !script.is_killed());
        let load = scripts.note_running(RunKind::Load);
        let [first, second] = ["first", "second"].map(|name| {
            let request = |request: Request<'_>| scripts.note_running(RunKind::function(name, request));
            crate::test_request::with_line("FCALL name 0 argument", request)
        });
        let oldest = scripts.oldest_function().unwrap();
        let RunKind::Function { name, command } = &oldest.kind else {
            panic!("{oldest:?}")
        };
        assert_eq!((&**name, command.len(), &*command[3]), ("first", 4, &b"argument"[..]));
        assert_eq!(scripts.kill(true), Ok(()));
        assert!(!script.is_killed() && [&load, &first, &second].iter().all(|run| run.is_killed()));
        assert_eq!(scripts.kill(false), Ok(()));
        assert!(script.is_killed());
        drop((script, oldest));
        assert_eq!(scripts.kill(false), Err(CommandError::OtherRuns("FUNCTION")));
        drop((load, first, second));
        assert_eq!(scripts.kill(false), Err(CommandError::NotBusy));
    }
}
