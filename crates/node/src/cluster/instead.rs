//! Checks decided in place of a holder that does not answer.

use crate::order::Lost;
use crate::remote::{Batch, Job, Replies};
use crate::worker::Worker;
use tokio::sync::oneshot;
use tollgate_cluster::MemberState;
use tollgate_cluster::journal::Admission;
use tollgate_commands::{As, CommandError, Env, Run, Share, Spec};
use tollgate_protocol::Request;
use tollgate_store::slot_of;

/// In which role a node decides what is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As the heir, on its replica.
    Heir,
    /// By its share of the limit.
    Local,
}

impl Worker {
    /// Whether this worker has a replica of a slot by which it can stand in for the holder.
    pub(super) fn can_stand_in(&self, slot: u16) -> bool {
        self.links
            .as_ref()
            .is_some_and(|links| links.machine.borrow().can_stand_in(slot))
    }

    /// Decides a check, with a key of a slot of this worker, in place of the holder. What it admits is owed to the holder.
    pub(super) fn decide_instead(
        &self,
        standing: Standing,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return CommandError::TryAgain.write(out, env.proto);
        };
        if !matches!(spec.run, Run::Check(_)) {
            return CommandError::TryAgain.write(out, env.proto);
        }
        let slot = slot_of(request.arg(1));
        let (standing, admission) = match standing {
            // Without a replica each bucket would be full.
            Standing::Heir if self.can_stand_in(slot) => (As::Heir, Admission::Heir),
            Standing::Heir | Standing::Local => {
                let view = links.view.borrow();
                // Those that join or leave have no part of their own, so a remainder is none of theirs.
                let ready = || {
                    view.members()
                        .iter()
                        .filter(|member| member.state == MemberState::Ready)
                };
                let nodes = ready().count().max(1);
                let rank = ready().position(|member| member.id.name == cluster.me.name);
                let share = Share {
                    // There are at most MAX_MEMBERS.
                    nodes: nodes as u32,
                    rank: rank.unwrap_or(nodes) as u32,
                    remaining: links.seen.of(env.db, request),
                };
                (As::Local(share), Admission::Local)
            }
        };
        let counters = self.counters();
        match admission {
            Admission::Heir => counters.decided_as_heir.add(1),
            _ => counters.decided_locally.add(1),
        }
        let checked = self.shard.borrow_mut().check_as(env, spec, request, standing, out);
        match checked {
            Ok(Some(owed)) => links.machine.borrow_mut().admitted(
                slot,
                admission,
                owed.bucket.into(),
                owed.parameters.into(),
                owed.tokens,
            ),
            Ok(None) => {}
            Err(error) => error.write(out, env.proto),
        }
    }

    /// Decides checks of one worker's slots in place of their holder.
    pub fn decide_all_instead(&self, standing: Standing, batch: &Batch) -> Replies {
        let mut replies = Replies::default();
        for index in 0..batch.len() {
            let Some((spec, db, proto, request)) = batch.get(index) else {
                break;
            };
            let env = self.env(self.node.clock.now_us(), db, proto);
            self.decide_instead(standing, &env, spec, request, &mut replies.bytes);
            replies.ends.push(replies.bytes.len() as u32);
        }
        replies
    }

    /// As [`Worker::decide_all_instead`], for the slots of any worker of this node.
    pub(super) async fn stand_in(&self, owner: usize, standing: Standing, batch: Batch) -> Result<Replies, Lost> {
        if owner == self.index {
            return Ok(self.decide_all_instead(standing, &batch));
        }
        let (reply_to, replies) = oneshot::channel();
        self.node.post_job(owner, Job::Instead(standing, batch, reply_to))?;
        replies.await.map_err(|_| Lost::ShardGone)
    }

    /// Tells the machine what its holders' journals have.
    pub(super) fn tell_journals(&self) {
        let Some(links) = &self.links else { return };
        let mut shard = self.shard.borrow_mut();
        let slots = shard.journalled_slots();
        if slots.is_empty() {
            return;
        }
        let mut machine = links.machine.borrow_mut();
        for slot in slots {
            for owed in shard.take_journal(slot, usize::MAX) {
                let (bucket, parameters) = (owed.bucket.into(), owed.parameters.into());
                machine.admitted(slot, Admission::Held, bucket, parameters, owed.tokens);
            }
        }
    }

    /// Lets holders keep journals where the machine wants them, and nowhere else.
    pub(super) fn choose_journals(&self) {
        self.tell_journals();
        let Some(links) = &self.links else { return };
        let machine = links.machine.borrow();
        let mut journaled = links.journaled.borrow_mut();
        let (journaled, version) = &mut *journaled;
        let now = machine.journals_version();
        if std::mem::replace(version, now) == now {
            return;
        }
        let mut shard = self.shard.borrow_mut();
        let first = machine.range().start;
        journaled.resize(machine.range().len(), false);
        for (slot, is_on) in (first..).zip(journaled.iter_mut()) {
            let wanted = machine.journals(slot) && machine.is_held(slot);
            if std::mem::replace(is_on, wanted) != wanted {
                shard.set_journal(slot, wanted);
            }
        }
    }
}
