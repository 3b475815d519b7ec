//! What the system knows of this process.

use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// Processor time of this thread so far, in nanoseconds. A system call of about 0.2 µs: once a return to the loop, not once
/// a command.
pub fn thread_cpu_time_ns() -> u64 {
    cpu_time_ns(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process so far, user and system, in nanoseconds.
pub fn process_cpu_time_ns() -> u64 {
    cpu_time_ns(ClockId::ProcessCPUTime)
}

fn cpu_time_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Processor time is never negative and reaches 64 bits after 584 years.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of this process so far in user and in system mode, in microseconds, in steps of a clock tick (10 ms);
/// zero where the system does not say (Linux does).
pub fn cpu_times_us() -> (u64, u64) {
    read_cpu_times_us().unwrap_or_default()
}

fn read_cpu_times_us() -> Option<(u64, u64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the name, may hold blanks and brackets; the 14th and 15th are the times.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user * tick_us, system * tick_us))
}

/// Resident memory in bytes, where the system says (Linux).
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

/// Open file descriptors, where the system says (Linux).
pub fn open_files() -> Option<u64> {
    // The directory being read is open too.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_with_work() {
        let process_before_ns = process_cpu_time_ns();
        let thread_before_ns = thread_cpu_time_ns();
        let mut x = 1u64;
        while thread_cpu_time_ns() < thread_before_ns + 3_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        // The clock of a process may lag behind those of its threads by a tick.
        assert!(process_cpu_time_ns() >= process_before_ns + 2_000_000);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn user_and_system_time_are_the_time_of_the_process() {
        const TICK_US: u64 = 10_000;
        let mut x = 1u64;
        while process_cpu_time_ns() < 100_000_000 {
            // Mostly work of our own, not of the system that tells the time.
            for _ in 0..100_000 {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
        }
        let before_us = process_cpu_time_ns() / 1_000;
        let (user_us, system_us) = cpu_times_us();
        let after_us = process_cpu_time_ns() / 1_000;
        let both_us = user_us + system_us;
        // The system counts what a thread has done with a lag of some ticks, more of them on a busy machine.
        assert!(user_us > 0, "{user_us} user, {system_us} system");
        assert!(
            (before_us / 2..=after_us + 4 * TICK_US).contains(&both_us),
            "{before_us} {both_us} {after_us}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_memory_and_files() {
        assert!(resident_bytes().unwrap() > 1 << 18);
        assert!(open_files().unwrap() >= 3);
    }
}
