//! Small turns: left to the worker, to be done with those of other connections.

use super::Turn;
use crate::joined::JOINED_BYTES_MAX;
use crate::keyspace;
use crate::node::Place;
use tollgate_commands::{Run, Spec};
use tollgate_protocol::Request;
use tollgate_store::slot_of;

impl Turn<'_> {
    /// Says how many bytes its requests have: those of small turns may be left to be run with those of others.
    pub fn may_join(&mut self, bytes: usize) {
        self.may_join = bytes <= JOINED_BYTES_MAX && self.worker.node.attention.get() == 0;
    }

    /// Whether a command is of this shard alone, and can be left to be run with those of others.
    pub(super) fn joins(&self, spec: &Spec, key: Option<usize>, request: Request<'_>) -> bool {
        let is_own = |owner: Option<usize>| self.single || owner == Some(self.worker.index);
        let place = |key: usize| match self.worker.node.place(slot_of(request.arg(key))) {
            Place::Of(place) => Some(place),
            Place::Closing => None,
        };
        match spec.run {
            Run::Key(_) => self.single || is_own(key.and_then(place)),
            Run::Keys(_) | Run::Script(_) => is_own(self.owner_of_keys(spec, request)),
            Run::EachKey(_) => request.len() <= keyspace::KEYS_AT_ONCE && is_own(self.owner_of_all(request)),
            _ => false,
        }
    }

    /// Leaves nothing more to be run with others.
    pub(crate) async fn stop_joining(&mut self) {
        self.may_join = false;
        self.run_joining().await;
    }

    /// Runs what was to be left to others, since something else comes after it.
    pub(super) async fn run_joining(&mut self) {
        if self.buffers.joining.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.buffers.joining);
        let mut at = 0;
        while let Some((spec, db, proto, request)) = batch.get(at) {
            let env = self.worker.env(self.now_us, db, proto);
            self.run_here(&env, spec, request, false).await;
            at += 1;
            if self.is_large() && !self.send_local().await {
                break;
            }
        }
        batch.clear();
        self.buffers.joining = batch;
    }

    /// Sends the replies so far of a turn that has nothing in other shards; whether they are no more than may be sent at once. If they
    /// are, they are left, and whoever sends them at the end of the turn ends the connection.
    async fn send_local(&mut self) -> bool {
        self.close_segment(&[]);
        if self.buffers.out.len() > self.worker.node.config.limits.output_bytes {
            return false;
        }
        self.send_so_far().await;
        self.refresh_clock();
        true
    }

    /// Leaves this turn to the worker's round, if its `commands` are few, and checks alone or others alone.
    pub fn join_round(&mut self, commands: u64) -> bool {
        let buffers = &mut *self.buffers;
        // All of its commands are waiting there, or none.
        let is_whole = buffers.joining.len() as u64 == commands && buffers.out.is_empty() && buffers.local.is_empty();
        debug_assert!(is_whole || buffers.joining.is_empty());
        if is_whole && !buffers.joining.is_empty() {
            self.worker
                .join(&mut buffers.joining, self.connection, self.link, self.started);
            return true;
        }
        let only_checks = buffers.queue.len() as u64 == commands
            && buffers.out.is_empty()
            && buffers.local.is_empty()
            && buffers.sent.is_empty()
            && self.worker.round.admits(&buffers.queue)
            // A round cannot wait for a key that is held.
            && !self.worker.shard.borrow().has_holds();
        if only_checks {
            buffers.order.clear();
            self.worker.join_round(&mut buffers.queue, self.link, self.started);
        }
        only_checks
    }
}
