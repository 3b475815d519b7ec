//! Commands on their way to peers.

use super::instead::Standing;
use super::lanes::Finished;
use super::open::{NOBODY, Open, UNKNOWN, class_of, first_slot, whole, whole_or_part};
use super::places::Whereabouts;
use super::serve::{Forwarded, Malformed, Stretch, fit};
use super::unknown::name_node;
use crate::limits::Bound;
use crate::node::Place;
use crate::order::Lost;
use crate::peers::{PeerError, Pending, ReplyHandle};
use crate::remote::{Batch, Lane, Replies};
use crate::worker::Worker;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tollgate_cluster::Epoch;
use tollgate_cluster::circuit::{Class, Question, Route};
use tollgate_cluster::slots::Decider;
use tollgate_cluster::wire::{self, Forward, Holder, NotAnswered, Run, Why, read_message};
use tollgate_commands::{Env, Spec};
use tollgate_protocol::{Proto, Request, write_request};

/// How long to wait for a slot to have a holder before it is looked at again.
const AGAIN: Duration = Duration::from_millis(5);
/// How long to wait when a node that is asked as the holder says that it is not, and nobody knows better.
const AGREE: Duration = Duration::from_millis(1);
/// So many times. Then it takes longer.
const AGREE_HOPS: u32 = 32;

/// Commands that were sent to a peer.
struct Sent {
    /// Which, if there is one.
    peer: Option<Arc<str>>,
    answer: Result<Pending, PeerError>,
}

/// Who decides a command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// That worker of this node.
    Here(usize),
    /// That worker of a peer, as the holder.
    Holder(Arc<str>, u16),
    /// That worker of a peer, in place of the holder, which is named last.
    Heir(Arc<str>, u16, Arc<str>),
    /// That worker of this node, in place of the holder.
    Instead(usize, Standing),
    /// Nobody: the time is over.
    Nobody,
}

impl Worker {
    /// Sends commands to a place: to a worker of this node, or to a peer. Those of one connection run there in the order in which they are
    /// sent.
    ///
    /// # Errors
    /// They were not taken.
    pub fn post(
        self: &Rc<Self>,
        place: usize,
        batch: Batch,
        connection: u64,
    ) -> Result<oneshot::Receiver<Replies>, Lost> {
        if place < self.node.workers() {
            return self.node.post_batch(place, batch, Some(Lane::Client(connection)));
        }
        let (reply_to, replies) = oneshot::channel();
        // Sent here and not in the task, so that batches of a connection leave in their order.
        let mut under_way = self
            .links
            .as_ref()
            .map(|links| links.lanes.enter((connection, place), self.peer_worker(place, &batch)));
        let to = under_way.as_ref().map_or(0, |under_way| under_way.worker);
        let sent = self.send_to_peer(place, to, &batch, connection);
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let before = under_way.as_mut().and_then(|under_way| under_way.before.take());
            // Whoever asked may be gone.
            let _ = reply_to.send(worker.finish_forward(sent, batch, connection, before).await);
        });
        Ok(replies)
    }

    /// Runs one command where its keys are, and writes its reply.
    pub async fn forward_alone(
        self: &Rc<Self>,
        place: usize,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        let mut batch = Batch::default();
        batch.push(spec, env, request);
        // A lane of its own: whoever sends it waits for it.
        let lane = self.next_run().0;
        let sent = self.send_to_peer(place, self.peer_worker(place, &batch), &batch, lane);
        self.counters().forwarded_batches.add(1);
        self.counters().forwarded_commands.add(1);
        let replies = self.finish_forward(sent, batch, lane, None).await;
        out.extend_from_slice(replies.get(0).unwrap_or(Lost::ShardGone.reply()));
    }

    /// The peer of a place.
    fn peer_of(&self, place: usize) -> Option<Arc<str>> {
        let number = place.checked_sub(self.node.workers() + 1)?;
        // Numbers of peers have 16 bits.
        self.node.cluster.as_ref()?.name_of(number as u16)
    }

    /// The worker of the peer of a place that has the first key of a batch.
    fn peer_worker(&self, place: usize, batch: &Batch) -> u16 {
        let slot = first_slot(batch, 0).unwrap_or(0);
        self.peer_of(place).map_or(0, |peer| self.worker_of(&peer, slot))
    }

    /// Sends commands to a worker of the peer of a place, if it may be asked.
    fn send_to_peer(&self, place: usize, worker: u16, batch: &Batch, lane: u64) -> Sent {
        let (Some(links), Some(peer)) = (&self.links, self.peer_of(place)) else {
            return Sent {
                peer: None,
                answer: Err(PeerError::Unknown),
            };
        };
        let answer = match links.circuits.borrow_mut().may_ask(&peer, self.node.clock.now_us()) {
            true => self.try_send(&peer, worker, batch, lane, None),
            false => Err(PeerError::Refused),
        };
        Sent {
            peer: Some(peer),
            answer,
        }
    }

    fn try_send(
        &self,
        peer: &str,
        worker: u16,
        batch: &Batch,
        lane: u64,
        stand_in_for: Option<&str>,
    ) -> Result<Pending, PeerError> {
        let links = self.links.as_ref().ok_or(PeerError::Unknown)?;
        let link = links.peers.link(peer, worker)?;
        let mut commands = Vec::with_capacity(batch.bytes());
        let mut runs: Vec<Run> = Vec::new();
        for index in 0..batch.len() {
            let Some((_, db, proto, request)) = batch.get(index) else {
                break;
            };
            write_request(request, &mut commands);
            let resp = resp_of(proto);
            match runs.last_mut() {
                Some(run) if (run.db, run.resp) == (db, resp) => run.commands += 1,
                _ => runs.push(Run { commands: 1, db, resp }),
            }
        }
        link.request(&Forward {
            lane,
            commands: &commands,
            runs: Cow::Owned(runs),
            stand_in_for,
        })
    }

    /// Waits for the replies to commands that were sent, and sees to what was not done: where order matters, after what was sent `before`.
    async fn finish_forward(
        self: &Rc<Self>,
        sent: Sent,
        batch: Batch,
        lane: u64,
        before: Option<Rc<Finished>>,
    ) -> Replies {
        let asked_us = match batch.asked_us() {
            0 => self.node.clock.now_us(),
            asked_us => asked_us,
        };
        let mut open = Open::new(batch, lane, asked_us);
        let all: Vec<u32> = (0..open.batch.len() as u32).collect();
        let mut left = match self.take_answer(&mut open, &all, sent, false).await {
            Ok(replies) => return replies,
            Err(left) => left,
        };
        if let Some(before) = before {
            // Checks never wait past their deadline, and do not care which of them comes first.
            let waits = |&index: &u32| class_of(&open.batch, index) == Class::Other;
            let (others, mut prompt): (Vec<u32>, Vec<u32>) = left.into_iter().partition(waits);
            while !prompt.is_empty() {
                prompt = self.settle(&mut open, &prompt).await;
            }
            left = others;
            if !left.is_empty() {
                before.wait().await;
            }
        }
        while !left.is_empty() {
            left = self.settle(&mut open, &left).await;
        }
        open.finish()
    }

    /// Waits for the answer to some of the commands: checks, and the other RL commands, only for as long as their deadline. Answers all
    /// replies, if these were all commands and each has one, or else which have none yet. `stood_in`: the peer was asked as the heir.
    async fn take_answer(
        self: &Rc<Self>,
        open: &mut Open,
        commands: &[u32],
        sent: Sent,
        stood_in: bool,
    ) -> Result<Replies, Vec<u32>> {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return Err(open.take(commands, Err(PeerError::Unknown)));
        };
        let mut pending = match sent.answer {
            Ok(pending) => pending,
            Err(error) => {
                if error == PeerError::TooLong {
                    self.counters().limit_hit(Bound::PeerFrameBytes);
                }
                open.missed.extend(sent.peer);
                return Err(open.take_failure(commands, error));
            }
        };
        let Some(peer) = sent.peer else {
            return Err(open.take(commands, pending.await));
        };
        let waits = |&index: &u32| class_of(&open.batch, index) == Class::Other;
        let deadline_us = links.circuits.borrow().deadline_us(&peer);
        let answer = if commands.iter().all(waits) {
            pending.await
        } else {
            match tokio::time::timeout(Duration::from_micros(deadline_us), &mut pending).await {
                Ok(answer) => answer,
                Err(_) => {
                    self.counters().peer_deadlines.add(1);
                    links.circuits.borrow_mut().missed(&peer, self.node.clock.now_us());
                    open.missed.push(peer);
                    let others: Vec<u32> = commands.iter().copied().filter(waits).collect();
                    let class = |index: &u32| class_of(&open.batch, *index);
                    let prompt: Vec<u32> = commands
                        .iter()
                        .copied()
                        .filter(|index| class(index) == Class::Prompt)
                        .collect();
                    let mut checks: Vec<u32> = commands
                        .iter()
                        .copied()
                        .filter(|index| class(index) == Class::Check)
                        .collect();
                    open.fail(&prompt, UNKNOWN);
                    if others.is_empty() {
                        return Err(checks);
                    }
                    // The checks are decided now; the others go on waiting for this answer.
                    while !checks.is_empty() {
                        checks = Box::pin(self.settle(open, &checks)).await;
                    }
                    let answer = pending.await;
                    return Err(open.take_some(commands, &others, answer));
                }
            }
        };
        match &answer {
            Ok(answer) => {
                let now_us = self.node.clock.now_us();
                let mut circuits = links.circuits.borrow_mut();
                circuits.answered(&peer, now_us);
                // Nearly always: every command is answered.
                if commands.len() == open.batch.len()
                    && let Some(replies) = whole(answer, commands.len())
                {
                    for index in 0..commands.len() {
                        if let Some((spec, db, _, request)) = open.batch.get(index) {
                            links
                                .seen
                                .note(spec, db, request, replies.get(index).unwrap_or_default());
                        }
                    }
                    return Ok(replies);
                }
                let late = now_us >= open.asked_us + circuits.settings().deadline_us;
                open.note_moves(&cluster.me.name, (&peer, stood_in), answer, late);
                if whole_or_part(answer, commands.len()).is_none() {
                    open.missed.push(peer);
                }
            }
            Err(error) => {
                if *error == PeerError::Refused {
                    links.circuits.borrow_mut().refused(&peer, self.node.clock.now_us());
                }
                open.missed.push(peer);
                return Err(open.take_failure(commands, *error));
            }
        }
        Err(open.take(commands, answer))
    }

    /// Waits until a slot may have another holder, or for a time.
    pub(super) async fn until_changed(&self, most: Duration) {
        let Some(cluster) = &self.node.cluster else { return };
        // What has come of it matters little: it is tried again.
        let _ = tokio::time::timeout(most, cluster.opened.notified()).await;
    }

    /// Sends commands to whoever decides them now. Answers which of them have no reply yet.
    async fn settle(self: &Rc<Self>, open: &mut Open, left: &[u32]) -> Vec<u32> {
        if std::mem::take(&mut open.waits) {
            let most = if open.hops < AGREE_HOPS { AGREE } else { AGAIN };
            self.until_changed(most).await;
        }
        let now_us = self.node.clock.now_us();
        let mut groups: Vec<(Target, Vec<u32>)> = Vec::new();
        let mut still = Vec::new();
        for &index in left {
            match self.target(open, index, now_us) {
                Some(Target::Nobody) => open.replies[index as usize] = Some(NOBODY.into()),
                Some(target) => match groups.iter_mut().find(|(known, _)| *known == target) {
                    Some((_, commands)) => commands.push(index),
                    None => groups.push((target, vec![index])),
                },
                None => still.push(index),
            }
        }
        open.forget_moves();
        if groups.is_empty() && !still.is_empty() {
            self.until_changed(AGAIN).await;
            return still;
        }
        for (target, commands) in groups {
            let mut batch = Batch::default();
            for &index in &commands {
                if let Some((spec, db, proto, request)) = open.batch.get(index as usize) {
                    batch.push(spec, &self.env(0, db, proto), request);
                }
            }
            let (peer, worker, stand_in_for) = match target {
                Target::Here(owner) => {
                    // As a peer's: what has gone meanwhile is looked for here.
                    let lane = Lane::Peer(u32::MAX, open.lane);
                    match self.node.post_batch(owner, batch, Some(lane)) {
                        Ok(replies) => match replies.await {
                            Ok(replies) => {
                                let left = open.fill(&commands, &replies);
                                open.waits |= !left.is_empty();
                                still.extend(left);
                            }
                            Err(_) => open.fail(&commands, Lost::ShardGone.reply()),
                        },
                        Err(lost) => open.fail(&commands, lost.reply()),
                    }
                    continue;
                }
                Target::Instead(owner, standing) => {
                    match self.stand_in(owner, standing, batch).await {
                        Ok(replies) => still.extend(open.fill(&commands, &replies)),
                        Err(lost) => open.fail(&commands, lost.reply()),
                    }
                    continue;
                }
                Target::Holder(peer, worker) => (peer, worker, None),
                Target::Heir(peer, worker, holder) => (peer, worker, Some(holder)),
                Target::Nobody => continue,
            };
            let sent = Sent {
                answer: self.try_send(&peer, worker, &batch, open.lane, stand_in_for.as_deref()),
                peer: Some(peer),
            };
            match Box::pin(self.take_answer(open, &commands, sent, stand_in_for.is_some())).await {
                Ok(replies) => still.extend(open.fill(&commands, &replies)),
                Err(more) => still.extend(more),
            }
        }
        still.sort_unstable();
        still
    }

    /// Who decides a command now; none: that is open, ask again in a moment.
    fn target(&self, open: &Open, index: u32, now_us: u64) -> Option<Target> {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return Some(Target::Nobody);
        };
        let (spec, _, _, request) = open.batch.get(index as usize)?;
        let whereabouts = || self.whereabouts(spec, request);
        if spec.key_positions(request).nth(1).is_some()
            && matches!(whereabouts(), Whereabouts::Here | Whereabouts::Several)
        {
            // What is in several places is brought together here, or done in each of them.
            return Some(Target::Here(self.index));
        }
        let slot = first_slot(&open.batch, index as usize)?;
        let owner = self.node.owner(slot);
        let workers = self.node.workers();
        let decider = match self.node.place(slot) {
            Place::Closing => Decider::Soon,
            Place::Of(place) if place < workers => Decider::Here,
            Place::Of(place) if place == workers => Decider::Nobody,
            // Numbers of peers have 16 bits.
            Place::Of(place) => cluster
                .name_of((place - workers - 1) as u16)
                .map_or(Decider::Nobody, Decider::There),
        };
        let class = class_of(&open.batch, index);
        let decider = match (decider, open.moved_to(slot)) {
            (Decider::There(_) | Decider::Nobody, Some(to)) => Decider::There(Arc::clone(to)),
            (decider, _) => decider,
        };
        let decider = match decider {
            // The view has lost the holder, and who takes the slot over has not said so yet.
            Decider::There(holder) if !links.peers.has(&holder) => Decider::Nobody,
            decider => decider,
        };
        let mut circuits = links.circuits.borrow_mut();
        if class == Class::Other && now_us >= open.asked_us + circuits.settings().wait_us_max {
            return Some(Target::Nobody);
        }
        let view = links.view.borrow();
        let name = |number: Option<u16>| {
            let member = view.members().get(usize::from(number?))?;
            Some(Arc::clone(&member.id.name))
        };
        let target = name(view.target(slot));
        let heir = match &decider {
            Decider::There(holder) if Some(holder) != target.as_ref() => target,
            _ => name(view.heir(slot)),
        };
        let holder = match &decider {
            Decider::There(holder) => Arc::clone(holder),
            _ => "".into(),
        };
        let question = Question {
            me: &cluster.me.name,
            decider,
            heir,
            // Of other workers' slots it is known there.
            replica: owner != self.index || self.can_stand_in(slot),
            class,
            asked_us: open.asked_us,
            missed: &open.missed,
        };
        let worker = |name: &str| self.worker_of(name, slot);
        match circuits.route(&question, now_us) {
            Route::Here => Some(Target::Here(owner)),
            Route::Holder(name) => Some(Target::Holder(Arc::clone(&name), worker(&name))),
            Route::Heir(name) => Some(Target::Heir(Arc::clone(&name), worker(&name), holder)),
            Route::StandIn => Some(Target::Instead(owner, Standing::Heir)),
            Route::Local => Some(Target::Instead(owner, Standing::Local)),
            Route::Wait(_) => None,
            Route::ClusterDown => Some(Target::Nobody),
        }
    }

    /// The peer that holds a slot, as far as is known here, and with which epoch, if the slot is one of this worker's; else 0.
    fn holder_of(&self, slot: u16) -> Option<(Epoch, Arc<str>)> {
        let (cluster, links) = (self.node.cluster.as_ref()?, self.links.as_ref()?);
        let Place::Of(place) = self.node.place(slot) else {
            return None;
        };
        // Numbers of peers have 16 bits.
        let name = cluster.name_of(place.checked_sub(self.node.workers() + 1)? as u16)?;
        Some((links.machine.borrow().epoch(slot), name))
    }

    /// Runs commands that a peer has sent, and answers.
    pub(super) fn serve_forward(self: &Rc<Self>, peer: u32, version: u16, body: &[u8], reply: ReplyHandle) {
        let forwarded = read_message::<Forward<'_>>(version, body)
            .map_err(|_| Malformed)
            .and_then(|forward| {
                let stretches = forward.runs.iter().map(|run| Stretch {
                    commands: run.commands,
                    db: run.db,
                    proto: if run.resp == 3 { Proto::Resp3 } else { Proto::Resp2 },
                });
                let stretches: Vec<Stretch> = stretches.collect();
                let lane = Lane::Peer(peer, forward.lane);
                Forwarded::read(self, lane, forward.commands, &stretches, forward.stand_in_for.is_some())
            });
        let Ok(forwarded) = forwarded else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let mut replies = forwarded.run(&worker).await;
            name_node(&mut replies, &worker.node.about.name);
            if fit(&mut replies, worker.node.config.limits.peer_frame_bytes) {
                worker.counters().limit_hit(Bound::PeerFrameBytes);
            }
            let holders: Vec<Option<(Epoch, Arc<str>)>> = replies
                .elsewhere
                .iter()
                .map(|command| worker.holder_of(command.slot))
                .collect();
            let not_answered = replies
                .elsewhere
                .iter()
                .zip(&holders)
                .map(|(command, holder)| NotAnswered {
                    index: command.index,
                    why: match holder {
                        Some((epoch, name)) => Why::Moved {
                            slot: command.slot,
                            holder: Holder { epoch: *epoch, name },
                        },
                        None => Why::NotHere { slot: command.slot },
                    },
                });
            let message = wire::Replies {
                bytes: &replies.bytes,
                not_answered: not_answered.collect(),
                ends: Cow::Borrowed(&replies.ends),
            };
            // Who has gone wants no answer.
            let _ = reply.reply(&message);
        });
    }
}

fn resp_of(proto: Proto) -> u8 {
    match proto {
        Proto::Resp2 => 2,
        Proto::Resp3 => 3,
    }
}
