//! The scripts that a node knows, by their SHA-1.

use crate::CommandError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tollgate_eval::{SCRIPT_SOURCE_BYTES_MAX, check_source, sha1_hex};

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
    /// It has the flag `no-writes`.
    pub(crate) no_writes: bool,
}

impl ScriptSource {
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
    running: Mutex<Vec<Arc<Killed>>>,
    /// Scripts refused or not kept for want of room.
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    by_sha: HashMap<Sha, Arc<ScriptSource>>,
    bytes: usize,
}

/// Whether SCRIPT KILL was called for a run.
#[derive(Debug, Default)]
pub struct Killed(AtomicBool);

impl Killed {
    /// Whether it was.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
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
        let no_writes = read_shebang(text)?;
        Ok(Arc::new(ScriptSource {
            text: text.into(),
            sha,
            no_writes,
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

    /// Forgets all scripts.
    pub(crate) fn flush(&self) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Known::default();
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes a run that has gone on for more than a slice, so that it can be killed.
    pub(crate) fn note_running(&self) -> Arc<Killed> {
        let killed = Arc::new(Killed::default());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|other| Arc::strong_count(other) > 1);
        running.push(Arc::clone(&killed));
        killed
    }

    /// SCRIPT KILL: ends all runs that go on for more than a slice. `false` if there is none.
    pub(crate) fn kill(&self) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|killed| Arc::strong_count(killed) > 1);
        for killed in &*running {
            killed.0.store(true, Ordering::Release);
        }
        !running.is_empty()
    }
}

/// The digits in lower case, if they are as many as they must be.
pub(crate) fn sha_of(digits: &[u8]) -> Option<Sha> {
    let mut sha: Sha = digits.try_into().ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

/// Reads a first line `#!lua flags=...`; whether the script may not write. A script without one may do everything.
fn read_shebang(text: &[u8]) -> Result<bool, CommandError> {
    if text.len() > SCRIPT_SOURCE_BYTES_MAX {
        // The compiler says so.
        return Ok(false);
    }
    if !text.starts_with(b"#!") {
        return Ok(false);
    }
    let Some(end) = text.iter().position(|&byte| byte == b'\n') else {
        return Err(CommandError::Refused("Invalid script shebang"));
    };
    let line = String::from_utf8_lossy(&text[2..end]).into_owned();
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("lua") => {}
        Some(engine) => {
            return Err(CommandError::Other(format!(
                "Unexpected engine in script shebang: {engine}"
            )));
        }
        None => return Err(CommandError::Refused("Invalid engine in script shebang")),
    }
    let mut no_writes = false;
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(CommandError::Other(format!("Unknown lua shebang option: {word}")));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => no_writes = true,
                // What these allow is allowed here anyhow.
                "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                flag => {
                    return Err(CommandError::Other(format!(
                        "Unexpected flag in script shebang: {flag}"
                    )));
                }
            }
        }
    }
    Ok(no_writes)
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
        let read = |text: &[u8]| read_shebang(text).map_err(|error| error.to_string());
        assert_eq!(read(b"return 1"), Ok(false));
        assert_eq!(read(b"#!lua\nreturn 1"), Ok(false));
        assert_eq!(read(b"#!lua flags=allow-oom,no-writes\nreturn 1"), Ok(true));
        assert_eq!(read(b"#!lua flags=\nreturn 1"), Ok(false));
        for (text, error) in [
            (&b"#!lua"[..], "ERR Invalid script shebang"),
            (b"#!not-lua\n", "ERR Unexpected engine in script shebang: not-lua"),
            (b"#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
            (b"#!lua flags=x\n", "ERR Unexpected flag in script shebang: x"),
        ] {
            assert_eq!(read(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn a_kill_reaches_what_runs() {
        let scripts = scripts();
        assert!(!scripts.kill());
        let run = scripts.note_running();
        assert!(scripts.kill() && run.is_set());
        drop(run);
        assert!(!scripts.kill());
    }
}
