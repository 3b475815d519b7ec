//! Segments: commands sent to other shards in batches, and the replies put in order.

use super::buffers::Sent;
use super::{Turn, TurnBuffers};
use crate::limits::Bound;
use crate::order::Lost;
use crate::remote::Replies;
use tollgate_commands::{Env, Session, Spec};
use tollgate_protocol::Request;

impl Turn<'_> {
    pub(super) async fn send_later(&mut self, owner: usize, env: &Env, spec: &'static Spec, request: Request<'_>) {
        if self.direct {
            // What came before is answered first; from here on it matters where each reply ends.
            self.flush(env).await;
            self.direct = false;
            self.buffers.queue.start(true);
        }
        let buffers = &mut *self.buffers;
        buffers.make_room_for(owner);
        if buffers.outgoing[owner].is_empty() {
            buffers.numbers[owner] = buffers.sent.len();
            buffers.sent.push(Sent::Collecting);
        }
        let batch = &mut buffers.outgoing[owner];
        buffers.order.remote(buffers.numbers[owner], batch.len());
        batch.push(spec, env, request);
        if batch.is_full(self.worker.node.config.limits.batch_commands) {
            self.worker.counters().limit_hit(Bound::BatchCommands);
            self.send(owner);
        }
    }

    fn send(&mut self, owner: usize) {
        let batch = std::mem::take(&mut self.buffers.outgoing[owner]);
        let commands = batch.len() as u64;
        let posted = self.worker.post(owner, batch, self.connection);
        self.buffers.sent[self.buffers.numbers[owner]] = match posted {
            Ok(replies) => {
                let counters = self.worker.counters();
                counters.forwarded_batches.add(1);
                counters.forwarded_commands.add(commands);
                Sent::Waiting(replies)
            }
            Err(lost) => {
                if lost == Lost::MailboxFull {
                    self.worker.counters().limit_hit(Bound::MailboxBatches);
                }
                Sent::Lost(lost)
            }
        };
    }

    /// Finishes the segment if commands of it are on their way to other shards, or will be: what comes now may look at the same keys.
    pub(super) async fn finish_if_sent(&mut self, session: &Session) {
        if !self.buffers.sent.is_empty() {
            self.finish(session).await;
        }
    }

    /// Finishes the segment: everything that came so far is answered in `out`.
    pub async fn finish(&mut self, session: &Session) {
        self.run_joining().await;
        for owner in 0..self.buffers.outgoing.len() {
            if !self.buffers.outgoing[owner].is_empty() {
                self.send(owner);
            }
        }
        let env = self.env(session);
        if !self.buffers.queue.is_empty() {
            self.flush(&env).await;
        }
        if self.direct {
            return;
        }
        let mut batches = Vec::with_capacity(self.buffers.sent.len());
        let waits = !self.buffers.sent.is_empty();
        self.buffers.unbroken &= !waits;
        for sent in self.buffers.sent.drain(..) {
            batches.push(match sent {
                Sent::Waiting(replies) => replies.await.map_err(|_| Lost::ShardGone),
                Sent::Lost(lost) => Err(lost),
                // Every batch was sent above.
                Sent::Collecting => Err(Lost::ShardGone),
            });
        }
        if waits {
            self.read_clock();
        }
        self.close_segment(&batches);
    }

    /// Puts the replies of the segment together. What it had in other shards is in `batches`.
    pub(super) fn close_segment(&mut self, batches: &[Result<Replies, Lost>]) {
        let TurnBuffers {
            out,
            local,
            order,
            queue,
            ..
        } = &mut *self.buffers;
        if batches.is_empty() {
            out.append(local);
        } else {
            order.splice(local, queue.ends(), batches, out);
        }
        local.clear();
        order.clear();
        queue.start(false);
        self.direct = true;
    }
}
