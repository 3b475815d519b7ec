//! The conditions of a measurement: pinning and what to print about the machine.

use crate::{CLIENT_CORE, Error, Result, SERVER_CORE};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::fs;

/// Pins the calling thread, and what it starts from now on, to a core.
///
/// # Errors
///
/// When the machine has no such core: benches need two.
pub fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None::<Pid>, &set)
        .map_err(|e| Error::io(format!("pin to core {core} (benches need two cores)"))(e.into()))
}

/// Runs `start` pinned to a core, so that a process it starts stays there, and goes back to where this thread was.
pub fn on_core<T>(core: usize, start: impl FnOnce() -> T) -> Result<T> {
    let before = sched_getaffinity(None::<Pid>).map_err(|e| Error::io("read the pinning")(e.into()))?;
    pin(core)?;
    let started = start();
    sched_setaffinity(None::<Pid>, &before).map_err(|e| Error::io("pin")(e.into()))?;
    Ok(started)
}

/// Lines that say what a figure was measured on.
pub fn conditions() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu_info = read("/proc/cpuinfo");
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(':').nth(1))
        .unwrap_or("unknown")
        .trim();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    vec![
        format!(
            "CPU {model}, {cores} cores; Linux {}",
            read("/proc/sys/kernel/osrelease").trim()
        ),
        format!("server pinned to core {SERVER_CORE}, client (one thread) to core {CLIENT_CORE}, TCP over loopback"),
        format!("load average at the start {}", load_average()),
    ]
}

/// The load average, which says whether others used the machine.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
