//! A server process that a bench starts, pins, measures and ends.

use crate::command::Client;
use crate::{Error, Result, SERVER_CORE, machine, process};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take until it serves.
const START_MAX: Duration = Duration::from_secs(20);

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    /// What it is, with its version.
    pub name: String,
    /// Where it serves RESP.
    pub address: SocketAddr,
    /// Where it serves HTTP, if it does.
    pub admin: Option<SocketAddr>,
    /// Where it serves other nodes, if it does.
    pub peer: Option<SocketAddr>,
    child: Child,
    scratch: Scratch,
}

impl Server {
    /// Starts `command` on [`SERVER_CORE`], its output in `log` of `scratch`, and waits until `ready` says where it
    /// serves.
    pub fn start(
        name: impl Into<String>,
        command: Command,
        scratch: Scratch,
        ready: impl FnMut(&Scratch) -> Option<Serving>,
    ) -> Result<Self> {
        Self::start_on(SERVER_CORE, name, command, scratch, ready)
    }

    /// As [`Server::start`], on that core.
    pub fn start_on(
        core: usize,
        name: impl Into<String>,
        mut command: Command,
        scratch: Scratch,
        mut ready: impl FnMut(&Scratch) -> Option<Serving>,
    ) -> Result<Self> {
        let name = name.into();
        let log = fs::File::create(scratch.path("log")).map_err(Error::io("create a log"))?;
        let errors = log.try_clone().map_err(Error::io("create a log"))?;
        command
            .current_dir(scratch.directory())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let child = machine::on_core(core, || command.spawn())?.map_err(Error::io(format!("start {name}")))?;
        let mut server = Self {
            name,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin: None,
            peer: None,
            child,
            scratch,
        };
        let started = Instant::now();
        loop {
            if let Some(serving) = ready(&server.scratch) {
                server.address = serving.address;
                server.admin = serving.admin;
                server.peer = serving.peer;
                return Ok(server);
            }
            let ended = server.child.try_wait().map_err(Error::io("look after a server"))?;
            if ended.is_some() || started.elapsed() > START_MAX {
                let log = fs::read_to_string(server.scratch.path("log")).unwrap_or_default();
                return Err(Error::Setup(format!("{} did not start: {}", server.name, log.trim())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// User plus system time that the process has used.
    pub fn cpu(&self) -> Result<Duration> {
        process::cpu(self.child.id())
    }

    /// Resident bytes of the process.
    pub fn resident_bytes(&self) -> Result<u64> {
        process::resident_bytes(self.child.id())
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process as a crash does, and waits for that.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().map_err(Error::io("kill a server"))?;
        self.child.wait().map_err(Error::io("wait for a server")).map(|_| ())
    }

    /// A blocking connection.
    pub fn client(&self) -> Result<Client> {
        Client::connect(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after the wait.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a server serves.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    /// RESP.
    pub address: SocketAddr,
    /// HTTP, if it has that.
    pub admin: Option<SocketAddr>,
    /// Other nodes, if it has that.
    pub peer: Option<SocketAddr>,
}

/// A directory for one server; dropping it removes it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A fresh one in the system's directory for temporary files.
    pub fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tollgate-bench-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).map_err(Error::io(format!("create {path:?}")))?;
        Ok(Self(path))
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-overs in the system's temporary directory harm nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port of the loopback that was free a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("find a port"))?;
    let address = listener.local_addr().map_err(Error::io("find a port"))?;
    Ok(address.port())
}
