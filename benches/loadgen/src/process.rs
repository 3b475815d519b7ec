//! What the kernel says about a process: its CPU time and its memory.

use crate::{Error, Result};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// User plus system time of all threads of a process, as the scheduler counts it, in nanoseconds. Threads that have
/// ended are not in it; no server here ends one while it is measured.
pub fn cpu(pid: u32) -> Result<Duration> {
    let tasks = format!("/proc/{pid}/task");
    let mut nanoseconds = 0u64;
    for task in fs::read_dir(&tasks).map_err(Error::io(format!("read {tasks}")))? {
        let path = task
            .map_err(Error::io(format!("read {tasks}")))?
            .path()
            .join("schedstat");
        let text = fs::read_to_string(&path).map_err(Error::io(format!("read {path:?}")))?;
        let running: Option<u64> = text.split_whitespace().next().and_then(|t| t.parse().ok());
        nanoseconds += running.ok_or_else(|| Error::Setup(format!("{path:?} is not as expected: {text:?}")))?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Resident bytes of a process.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).map_err(Error::io(format!("read {path}")))?;
    text.lines()
        .find_map(|line| line.strip_prefix("Rss:")?.split_whitespace().next())
        .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| Error::Setup(format!("no Rss in {path}")))
}

/// User plus system time of the calling thread.
pub fn own_thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_shows_in_the_cpu_time_of_this_process() {
        let pid = std::process::id();
        let (before, thread_before) = (cpu(pid).unwrap(), own_thread_cpu());
        let started = Instant::now();
        let mut x = 0u64;
        while own_thread_cpu() - thread_before < Duration::from_millis(50) {
            x = std::hint::black_box(x.wrapping_mul(3) + 1);
            assert!(started.elapsed() < Duration::from_secs(60));
        }
        // The kernel brings a running thread's count up to date at a tick; some are at 100 Hz.
        assert!(cpu(pid).unwrap() - before >= Duration::from_millis(30));
    }

    #[test]
    fn touched_memory_is_resident() {
        let before = resident_bytes(std::process::id()).unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = resident_bytes(std::process::id()).unwrap();
        assert!(after > before + (60 << 20), "{before} to {after}");
        drop(block);
    }
}
