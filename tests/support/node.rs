use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::process::{POLL_INTERVAL, Process};
use crate::{Client, HttpReply, ScratchDir, http};

/// How long a node may take to serve. It does in under a second, or in seven if it is to join others and hears nobody; a loaded machine
/// gets several times that.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long a node may take to drain after SIGTERM, or to give up on a bad start.
const EXIT_LIMIT: Duration = Duration::from_secs(10);

/// The binary under test: `TOLLGATE_BIN`, or `tollgate` in the target directory that this test was built in.
pub fn tollgate_path() -> PathBuf {
    if let Some(path) = std::env::var_os("TOLLGATE_BIN") {
        return path.into();
    }
    // <target>/<profile>/deps/<this test>
    let test = std::env::current_exe().expect("the running test has a path");
    let profile_dir = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("a test lies in <target>/<profile>/deps");
    let path = profile_dir.join("tollgate");
    assert!(
        path.is_file(),
        "no {}: build it first with `cargo build -p tollgate`",
        path.display()
    );
    path
}

/// A command of the binary, untouched by the environment: `TOLLGATE_*` are its settings, and it refuses unknown ones.
fn tollgate() -> Command {
    let mut command = Command::new(tollgate_path());
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command
}

/// A node that would not start.
#[derive(Debug)]
pub struct StartFailure {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed, standard output and error together.
    pub log: String,
}

/// Runs the binary with `args` until it ends, and returns how it ended and what it printed.
///
/// # Panics
/// If it still runs after ten seconds.
pub fn run_tollgate(args: &[&str]) -> StartFailure {
    let dir = ScratchDir::new("run");
    let mut command = tollgate();
    command.args(args);
    let mut process = Process::start(command, &dir.path().join("log"));
    let status = process.wait(EXIT_LIMIT);
    StartFailure {
        status,
        log: process.log(),
    }
}

/// A running node on free loopback ports, ended when dropped.
#[derive(Debug)]
pub struct Node {
    // Dropped, and so killed, before its directory is removed.
    process: Process,
    dir: ScratchDir,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    name: String,
    listen: SocketAddr,
    redirect_listen: Option<SocketAddr>,
    admin: SocketAddr,
    peer: Option<SocketAddr>,
}

impl Node {
    /// Nodes with one worker and with several, one after the other, with these further arguments.
    pub fn of_each_size<'a>(args: &'a [&'a str]) -> impl Iterator<Item = Self> + 'a {
        ["1", "3"]
            .into_iter()
            .map(move |workers| Self::start(&[&["--workers", workers], args].concat()))
    }

    /// Starts a node with `args` after `serve --listen 127.0.0.1:0 --admin 127.0.0.1:0`, and waits until it serves.
    ///
    /// # Panics
    /// If it does not start; the message holds what it printed.
    pub fn start(args: &[&str]) -> Self {
        Self::try_start(args).unwrap_or_else(|failure| {
            panic!(
                "the node did not start ({}); it printed:\n{}",
                failure.status, failure.log
            )
        })
    }

    /// Like [`Node::start`], for starts that are meant to fail.
    ///
    /// # Panics
    /// If the node neither serves nor ends within ten seconds.
    pub fn try_start(args: &[&str]) -> Result<Self, StartFailure> {
        Self::try_start_in(args, &[])
    }

    /// Like [`Node::try_start`], with more in its environment.
    ///
    /// # Panics
    /// If the node neither serves nor ends within ten seconds.
    pub fn try_start_in(args: &[&str], environment: &[(&str, &str)]) -> Result<Self, StartFailure> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self::launch(ScratchDir::new("node"), args, environment.collect(), [0; 2])
    }

    fn launch(
        dir: ScratchDir,
        args: Vec<String>,
        environment: Vec<(String, String)>,
        ports: [u16; 2],
    ) -> Result<Self, StartFailure> {
        let ready_file = dir.path().join("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let mut command = tollgate();
        let [listen, admin] = ports.map(|port| format!("127.0.0.1:{port}"));
        command
            .args(["serve", "--listen", &listen, "--admin", &admin, "--ready-file"])
            .arg(&ready_file)
            .args(&args)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        // The default address for peers would be one for all tests.
        if !args.iter().any(|arg| arg == "--peer") {
            command.args(["--peer", "127.0.0.1:0"]);
        }
        let mut process = Process::start(command, &dir.path().join("log"));
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            // The file appears whole or not yet whole; only a whole one parses.
            let ready = std::fs::read(&ready_file)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(ready) = ready {
                return Ok(Self::from_ready(process, dir, (args, environment), &ready));
            }
            if let Some(status) = process.status() {
                return Err(StartFailure {
                    status,
                    log: process.log(),
                });
            }
            assert!(
                Instant::now() < deadline,
                "the node was not ready after {READY_LIMIT:?}; it printed:\n{}",
                process.log()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn from_ready(
        process: Process,
        dir: ScratchDir,
        (args, environment): (Vec<String>, Vec<(String, String)>),
        ready: &serde_json::Value,
    ) -> Self {
        let text = |field: &str| ready[field].as_str();
        let address = |field: &str| -> Option<SocketAddr> {
            text(field).map(|at| {
                at.parse()
                    .unwrap_or_else(|_| panic!("the ready file's {field} is {at:?}"))
            })
        };
        assert_eq!(
            ready["pid"].as_u64(),
            Some(u64::from(process.pid())),
            "the ready file's pid in {ready}"
        );
        Self {
            name: text("name").unwrap_or_else(|| panic!("no name in {ready}")).to_owned(),
            listen: address("listen").unwrap_or_else(|| panic!("no listen in {ready}")),
            redirect_listen: address("redirect_listen"),
            admin: address("admin").unwrap_or_else(|| panic!("no admin in {ready}")),
            peer: address("peer"),
            process,
            dir,
            args,
            environment,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where clients connect.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where clients of the redirect face connect, if it has one.
    pub fn redirect_listen(&self) -> Option<SocketAddr> {
        self.redirect_listen
    }

    /// Where its admin HTTP answers.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where its peers connect, if it listens for any.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A directory of its own, removed with it.
    pub fn dir(&self) -> &ScratchDir {
        &self.dir
    }

    /// Everything it has printed so far, standard output and error together.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// A new connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.listen)
    }

    /// One HTTP request to its admin listener.
    pub fn http(&self, method: &str, path: &str, body: &str) -> HttpReply {
        http(self.admin, method, path, body)
    }

    /// The sum of the metrics whose lines start like that: a name, or a name with labels. `None` if there is no such line.
    pub fn metric(&self, line_start: &str) -> Option<f64> {
        let body = self.http("GET", "/metrics", "").body;
        let lines = body.lines().filter(|line| line.starts_with(line_start));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.reduce(|sum, value| sum + value)
    }

    /// True while the process runs.
    pub fn is_running(&mut self) -> bool {
        self.process.status().is_none()
    }

    /// Sends the signal named `signal` (`TERM`, `STOP`, `CONT`, ...) and returns at once.
    pub fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Waits until it has ended by itself or by a signal sent earlier.
    ///
    /// # Panics
    /// If it still runs after ten seconds.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait(EXIT_LIMIT)
    }

    /// SIGTERM, then waits until it has drained and ended.
    ///
    /// # Panics
    /// If it still runs after ten seconds.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it if it still runs, and starts it again with the same arguments on the same ports.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(self) -> Self {
        let args = self.args.clone();
        self.restart_with(args)
    }

    /// Like [`Node::restart`], with other arguments.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart_with(mut self, args: Vec<String>) -> Self {
        self.process.kill();
        let ports = [self.listen.port(), self.admin.port()];
        Self::launch(self.dir, args, self.environment, ports).unwrap_or_else(|failure| {
            panic!(
                "the node did not start again ({}); it printed:\n{}",
                failure.status, failure.log
            )
        })
    }
}
