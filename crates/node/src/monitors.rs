//! MONITOR: connections that read what all others ask for.

use crate::limits::Bound;
use crate::loans::KeyJob;
use crate::node::Node;
use crate::pause::Attention;
use crate::worker::{Control, Worker};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The connections that monitor, each with its worker.
#[derive(Debug, Default)]
pub struct Monitors {
    connections: Mutex<Vec<(usize, u64)>>,
}

impl Monitors {
    /// Adds one.
    pub fn add(&self, worker: usize, connection: u64, attention: &Attention) {
        // As in `remove`, while it is locked: else one that is taken off at once would leave it set.
        let mut connections = self.connections.lock();
        connections.push((worker, connection));
        attention.set(Attention::MONITORED, true);
    }

    /// Takes one off, if it is there.
    pub fn remove(&self, connection: u64, attention: &Attention) {
        let mut connections = self.connections.lock();
        connections.retain(|(_, listed)| *listed != connection);
        attention.set(Attention::MONITORED, !connections.is_empty());
    }

    /// Those of one worker.
    fn of(&self, worker: usize) -> Vec<u64> {
        let connections = self.connections.lock();
        let of_worker = connections.iter().filter(|(of, _)| *of == worker);
        of_worker.map(|(_, connection)| *connection).collect()
    }

    /// The workers that have some.
    fn workers(&self) -> Vec<usize> {
        let mut workers: Vec<usize> = self.connections.lock().iter().map(|(worker, _)| *worker).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }
}

impl Node {
    /// Sends lines to all who monitor. A worker that has too much on its way loses its monitors: they would miss something.
    pub fn show_lines(&self, lines: Vec<u8>) {
        let lines: Arc<[u8]> = lines.into();
        for worker in self.monitors.workers() {
            let on_their_way = &self.on_their_way_bytes[worker];
            let before = on_their_way.fetch_add(lines.len(), Ordering::Relaxed);
            if before + lines.len() > self.config.limits.published_bytes {
                on_their_way.fetch_sub(lines.len(), Ordering::Relaxed);
                self.metrics.shared.limit_hit(Bound::PublishedBytes);
                for connection in self.monitors.of(worker) {
                    self.monitors.remove(connection, &self.attention);
                    self.order(worker, Control::Kill(connection));
                }
                continue;
            }
            self.key_job(worker, KeyJob::Show(Arc::clone(&lines)));
        }
    }
}

impl Worker {
    /// Writes lines to the connections of this worker that monitor.
    pub fn push_shown(&self, lines: &[u8]) {
        self.node.delivered(self.index, lines.len());
        let most = self.node.config.limits.output_bytes;
        for connection in self.node.monitors.of(self.index) {
            let Some(link) = self.link_of(connection) else { continue };
            if !link.push(lines, most) {
                self.counters().limit_hit(Bound::OutputBytes);
                self.node.monitors.remove(connection, &self.node.attention);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_look_for_monitors_while_there_are_some() {
        let (monitors, attention) = (Monitors::default(), Attention::default());
        monitors.add(1, 7, &attention);
        monitors.add(0, 8, &attention);
        monitors.add(1, 9, &attention);
        assert_eq!((monitors.of(1), monitors.workers()), (vec![7, 9], vec![0, 1]));
        monitors.remove(7, &attention);
        monitors.remove(8, &attention);
        monitors.remove(8, &attention);
        assert_eq!(attention.get(), Attention::MONITORED);
        monitors.remove(9, &attention);
        assert_eq!((attention.get(), monitors.workers().len()), (0, 0));
    }
}
