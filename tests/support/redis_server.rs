use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{POLL_INTERVAL, Process};
use crate::{Client, ScratchDir};

const READY_LIMIT: Duration = Duration::from_secs(10);
/// A free port can be taken by another process between the moment it is found and the moment redis-server binds it.
const START_ATTEMPTS: u32 = 5;

/// A stock redis-server on a free loopback port, without persistence, ended when dropped; for tests that compare.
#[derive(Debug)]
pub struct RedisServer {
    process: Process,
    address: SocketAddr,
    // After the process: removed once it is gone.
    _dir: ScratchDir,
}

impl RedisServer {
    /// Starts one and waits until it answers. Call [`crate::skip_without`]`(&["redis-server"])` first.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(args: &[&str]) -> Self {
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS {
            match Self::start_once(args) {
                Ok(server) => return server,
                Err(printed) => log = printed,
            }
        }
        panic!("redis-server did not start; it printed:\n{log}");
    }

    fn start_once(args: &[&str]) -> Result<Self, String> {
        let dir = ScratchDir::new("redis");
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("loopback has a free port");
        let mut command = Command::new("redis-server");
        command
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &address.port().to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .arg("--dir")
            .arg(dir.path())
            .args(args);
        let mut process = Process::start(command, &dir.path().join("log"));
        let deadline = Instant::now() + READY_LIMIT;
        while TcpStream::connect(address).is_err() {
            if process.status().is_some() || Instant::now() > deadline {
                return Err(process.log());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // Some other process may have answered on the port while ours failed to bind it.
        match process.status() {
            None => Ok(Self {
                process,
                address,
                _dir: dir,
            }),
            Some(_) => Err(process.log()),
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}
