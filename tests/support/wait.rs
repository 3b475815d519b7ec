//! Waiting until something is so, instead of for a while.

use crate::{Client, Node};
use std::time::{Duration, Instant};

/// After that long, what is waited for does not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something is so.
///
/// # Panics
/// If it is not so after a long time.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until so many connections of the client's server wait.
pub fn until_blocked(client: &mut Client, count: usize) {
    let wanted = format!("blocked_clients:{count}");
    until(&wanted, || {
        client.line("INFO clients").text().lines().any(|line| line == wanted)
    });
}

/// Waits until a bound was hit so often: a node publishes what it counts now and then.
pub fn until_hit(node: &Node, bound: &str, count: f64) {
    let line_start = format!("tollgate_limit_hit_total{{limit=\"{bound}\"");
    until(bound, || node.metric(&line_start).is_some_and(|hits| hits >= count));
}
