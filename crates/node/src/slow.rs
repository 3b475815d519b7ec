//! SLOWLOG and LATENCY: noting a command that took long.

use crate::limits::Bound;
use crate::worker::Worker;
use std::time::Duration;
use tollgate_commands::{SlowCommand, Spec};
use tollgate_protocol::{Proto, Request};

impl Worker {
    /// Notes a command that took so long, where that is long enough. SLOWLOG has nothing of what was sent by a connection that is gone, or
    /// by none.
    #[cold]
    pub fn note_slow(&self, took: Duration, connection: Option<u64>, spec: &Spec, request: Request<'_>) {
        let env = self.env(self.node.clock.now_us(), 0, Proto::Resp2);
        let unix_s = env.unix_us() / 1_000_000;
        self.node.latency.note(spec, took, unix_s);
        if took < self.node.slowlog.slower_than() {
            return;
        }
        let client = connection.and_then(|connection| self.node.clients.info(connection));
        let Some(client) = client else { return };
        if spec.has_flag("skip_slowlog") {
            return;
        }
        let command = SlowCommand {
            unix_s,
            took,
            arguments: SlowCommand::arguments_of(spec.name, request),
            peer: client.peer,
            client_name: client.name,
        };
        if !self.node.slowlog.note(self.index, command) {
            self.counters().limit_hit(Bound::SlowlogEntries);
        }
    }
}
