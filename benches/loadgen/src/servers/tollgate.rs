//! Tollgate, one worker, ports of its own choice.

use super::{cargo, workspace};
use crate::server::{Scratch, Server, Serving};
use crate::{Error, Result, SERVER_CORE};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Which binary, and how it is set.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The binary; without it, the workspace's release build.
    pub binary: Option<PathBuf>,
    /// More arguments of `tollgate serve`.
    pub arguments: Vec<String>,
}

/// Builds the release binary unless one is named, so that it is never an old one that is measured.
pub fn build(options: &Options) -> Result<()> {
    if options.binary.is_some() {
        return Ok(());
    }
    let status = cargo()
        .args(["build", "--release", "--quiet", "--package", "tollgate"])
        .current_dir(workspace()?)
        .status()
        .map_err(Error::io("run cargo"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Setup("tollgate does not build".to_owned()))
    }
}

/// Starts `tollgate serve` with one worker, which has no peers unless the options say so.
pub fn start(options: &Options) -> Result<Server> {
    start_on(SERVER_CORE, options)
}

/// As `start`, on that core.
pub fn start_on(core: usize, options: &Options) -> Result<Server> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => release_binary()?,
    };
    let scratch = Scratch::new()?;
    let ready_file = scratch.path("ready.json");
    let mut command = Command::new(&binary);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--workers", "1", "--ready-file"])
        .arg(&ready_file)
        .args(&options.arguments);
    let mut server = Server::start_on(core, "tollgate", command, scratch, |scratch| {
        let text = fs::read_to_string(scratch.path("ready.json")).ok()?;
        let ready: Value = serde_json::from_str(&text).ok()?;
        let address = |name: &str| ready.get(name)?.as_str()?.parse().ok();
        Some(Serving {
            address: address("listen")?,
            admin: address("admin"),
            peer: address("peer"),
        })
    })?;
    server.name = version(&binary);
    Ok(server)
}

fn release_binary() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || workspace().map(|root| root.join("target")),
        |target| Ok(target.into()),
    )?;
    Ok(target.join("release/tollgate"))
}

fn version(binary: &PathBuf) -> String {
    let output = Command::new(binary).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "tollgate".to_owned())
}
