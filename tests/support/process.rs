//! A child process that never outlives its handle.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a state that nothing announces is looked at.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A started program whose output goes to a file.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with no input and with standard output and error appended to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Self {
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("the scratch directory is writable");
        let err = out.try_clone().expect("a second handle of an open file");
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", command.get_program().display()));
        Self {
            child,
            log: log.to_path_buf(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has printed so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Its exit status, or `None` while it runs.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Sends the signal named `signal` (`TERM`, `STOP`, ...).
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{signal} {}", self.pid()))
            .status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "cannot send {signal} to {}",
            self.pid()
        );
    }

    /// Waits until it ends.
    ///
    /// # Panics
    /// If it still runs after `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "still running after {limit:?}; it printed:\n{}",
                self.log()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends it with SIGKILL; nothing happens if it has ended.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
