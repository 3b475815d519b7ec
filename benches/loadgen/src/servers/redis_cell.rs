//! redis-cell, built as a module from its package's own source. Everything it needs is under `.cache/redis-cell`.

use super::{cargo, workspace};
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The release on crates.io.
pub const VERSION: &str = "0.2.2";

/// The module, built if it was not yet.
pub fn module() -> Result<PathBuf> {
    let cache = workspace()?.join(".cache/redis-cell");
    let module = cache.join("target/release/libredis_cell.so");
    if !module.exists() {
        eprintln!("building redis-cell {VERSION} from its package, once");
        build(&cache)?;
    }
    if module.exists() {
        Ok(module)
    } else {
        Err(Error::Setup(format!("building redis-cell left no {module:?}")))
    }
}

fn build(cache: &Path) -> Result<()> {
    // A package that only depends on redis-cell: cargo fetches the sources for it, ours to build from then on.
    let write = |name: &str, text: &str| {
        let path = cache.join(name);
        fs::write(&path, text).map_err(Error::io(format!("write {path:?}")))
    };
    fs::create_dir_all(cache.join("src")).map_err(Error::io(format!("create {cache:?}")))?;
    write("src/lib.rs", "")?;
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [dependencies]\nredis-cell = \"={VERSION}\"\n\n[workspace]\n"
        ),
    )?;
    run(cache, &["vendor", "--quiet", "sources"])?;
    let package = cache.join("sources/redis-cell");
    let manifest = package.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(Error::io(format!("read {manifest:?}")))?;
    if !text.contains("[workspace]") {
        // Its own workspace, so that cargo does not take it for a part of ours.
        fs::write(&manifest, text + "\n[workspace]\n").map_err(Error::io(format!("write {manifest:?}")))?;
    }
    let target = cache.join("target");
    let target = target.to_string_lossy();
    // Its warnings are not ours to mend.
    run(
        &package,
        &[
            "build",
            "--release",
            "--quiet",
            "--config",
            "build.rustflags=['--cap-lints=allow']",
            "--target-dir",
            &target,
        ],
    )
}

fn run(directory: &Path, arguments: &[&str]) -> Result<()> {
    let output = cargo()
        .args(arguments)
        .current_dir(directory)
        .output()
        .map_err(Error::io("run cargo"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Setup(format!(
        "cargo {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}
