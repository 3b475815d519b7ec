//! Segments: commands sent to other shards in batches, and the replies put in order.

use super::buffers::Sent;
use super::{Turn, TurnBuffers};
use crate::limits::Bound;
use crate::link::Phase;
use crate::order::{Lost, Origin};
use crate::remote::Replies;
use crate::turn::LARGE_OUT_BYTES;
use tollgate_commands::{Env, Run, Session, Spec};
use tollgate_protocol::Request;
use tollgate_store::slot_of;

impl Turn<'_> {
    pub(super) async fn send_later(&mut self, owner: usize, env: &Env, spec: &'static Spec, request: Request<'_>) {
        if self.direct {
            // What came before is answered first; from here on it matters where each reply ends.
            self.flush(env).await;
            self.direct = false;
            self.buffers.queue.start(true);
        }
        let buffers = &mut *self.buffers;
        if self.worker.node.cluster.is_some() && !matches!(spec.run, Run::Check(_)) {
            let slots = spec
                .key_positions(request)
                .map(|position| slot_of(request.arg(position)));
            buffers.sent_slots.extend(slots.map(|slot| (slot, owner)));
        }
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
        if waits {
            self.broke();
        }
        let mut in_parts = false;
        for sent in self.buffers.sent.drain(..) {
            batches.push(match sent {
                // It may not begin before all parts of one before it are taken, which are taken in the order of the commands.
                Sent::Waiting(replies) if in_parts => Ok(Replies::pending(replies)),
                Sent::Waiting(replies) => {
                    let replies = replies.await.map_err(|_| Lost::ShardGone);
                    in_parts |= replies.as_ref().is_ok_and(|replies| replies.more.is_some());
                    replies
                }
                Sent::Lost(lost) => Err(lost),
                // Every batch was sent above.
                Sent::Collecting => Err(Lost::ShardGone),
            });
        }
        if waits {
            self.read_clock();
            self.goes_on();
        }
        if in_parts {
            self.splice_parts(batches).await;
        } else {
            self.close_segment(&batches);
        }
    }

    /// Puts the replies of the segment together as they come, and sends them when they are many.
    async fn splice_parts(&mut self, batches: Vec<Result<Replies, Lost>>) {
        let local = std::mem::take(&mut self.buffers.local);
        let mut local_ends = self.buffers.queue.ends().to_vec().into_iter();
        let origins: Vec<Origin> = self.buffers.order.origins().collect();
        let mut parts: Vec<Parts> = batches.into_iter().map(Parts::new).collect();
        let mut start = 0;
        for origin in origins {
            if self.buffers.out.len() >= LARGE_OUT_BYTES {
                self.send_so_far().await;
                if self.buffers.out.len() > self.worker.node.config.limits.output_bytes {
                    // The client is given up at the end of the turn: nothing more needs to come.
                    break;
                }
            }
            match origin {
                Origin::Local => {
                    let end = local_ends.next().map_or(local.len(), |end| end as usize);
                    self.buffers.out.extend_from_slice(&local[start..end]);
                    start = end;
                }
                Origin::Batch { batch, index } => {
                    let parts = &mut parts[batch as usize];
                    while parts.is_beyond(index as usize) {
                        // The other shard goes on only now: what it has sent must not wait here meanwhile.
                        self.send_so_far().await;
                        parts.next().await;
                    }
                    self.buffers.out.extend_from_slice(parts.get(index as usize));
                }
            }
        }
        self.buffers.order.clear();
        self.buffers.sent_slots.clear();
        self.buffers.queue.start(false);
        self.direct = true;
        self.read_clock();
    }

    /// Sends what is finished. What nobody wants is left out, and what is too large for a client is left for whoever ends the turn.
    pub(super) async fn send_so_far(&mut self) {
        if self.kept.is_some() {
            self.leave_out();
            return;
        }
        if self.buffers.out.is_empty() || self.buffers.out.len() > self.worker.node.config.limits.output_bytes {
            return;
        }
        self.broke();
        let out = &mut self.buffers.out;
        self.worker.counters().sent_bytes.add(out.len() as u64);
        self.link.phase.set(Phase::Writing);
        // Who is gone is noticed at the end of the turn.
        let _ = self.link.send(out).await;
        self.link.phase.set(Phase::Turn);
        out.clear();
    }

    /// Puts the replies of the segment together. What it had in other shards is in `batches`.
    pub(super) fn close_segment(&mut self, batches: &[Result<Replies, Lost>]) {
        let TurnBuffers {
            out,
            local,
            order,
            queue,
            sent_slots,
            ..
        } = &mut *self.buffers;
        if batches.is_empty() {
            out.append(local);
        } else {
            order.splice(local, queue.ends(), batches, out);
        }
        local.clear();
        order.clear();
        sent_slots.clear();
        queue.start(false);
        self.direct = true;
    }
}

/// The replies to a batch, part after part.
struct Parts {
    part: Result<Replies, Lost>,
    /// The index of the first command of the part.
    first: usize,
}

impl Parts {
    fn new(part: Result<Replies, Lost>) -> Self {
        Self { part, first: 0 }
    }

    /// Whether the reply to a command is in a part that has not come yet.
    fn is_beyond(&self, index: usize) -> bool {
        let Ok(part) = &self.part else { return false };
        part.more.is_some() && index >= self.first + part.ends.len()
    }

    /// Waits for the next part.
    async fn next(&mut self) {
        let Ok(part) = &mut self.part else { return };
        let Some(more) = part.more.take() else { return };
        self.first += part.ends.len();
        let _ = more.go_on.send(());
        self.part = more.replies.await.map_err(|_| Lost::ShardGone);
    }

    /// The reply to a command.
    fn get(&self, index: usize) -> &[u8] {
        match &self.part {
            Ok(part) => part.get(index - self.first).unwrap_or(Lost::ShardGone.reply()),
            Err(lost) => lost.reply(),
        }
    }
}
