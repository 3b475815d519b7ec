//! Commands on their way to peers.

use super::instead::Standing;
use super::places::Whereabouts;
use super::serve::{Forwarded, Malformed, Stretch, fit};
use crate::limits::Bound;
use crate::node::Place;
use crate::order::Lost;
use crate::peers::{Answer, PeerError, Pending, ReplyHandle};
use crate::remote::{Batch, Lane, Replies};
use crate::worker::Worker;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tollgate_cluster::circuit::{Class, Question, Route};
use tollgate_cluster::slots::Decider;
use tollgate_cluster::wire::{self, Forward, Kind, NotAnswered, Run, Why, read_message};
use tollgate_commands::{Env, Run as CommandRun, Spec};
use tollgate_protocol::{Proto, Request, write_request};
use tollgate_store::slot_of;

/// How long to wait for a slot to have a holder before it is looked at again.
const AGAIN: Duration = Duration::from_millis(5);

/// The reply to a command that nobody decided. It had no effect.
const NOBODY: &[u8] = b"-CLUSTERDOWN no node that answers has the key's slot\r\n";
/// The reply to a command that was sent to a node which did not answer any more.
const UNKNOWN: &[u8] =
    b"-CLUSTERDOWN the node that has the key's slot has not answered; the command may have been done\r\n";

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

/// Commands that have no reply yet.
struct Open {
    batch: Batch,
    lane: u64,
    /// By index: the reply, once there is one.
    replies: Vec<Option<Box<[u8]>>>,
    /// When they came, by the node's clock.
    asked_us: u64,
    /// Peers that were asked for them and did not answer in time.
    missed: Vec<Arc<str>>,
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
        let sent = self.send_to_peer(place, &batch, connection);
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            // Whoever asked may be gone.
            let _ = reply_to.send(worker.finish_forward(sent, batch, connection).await);
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
        let sent = self.send_to_peer(place, &batch, lane);
        let replies = self.finish_forward(sent, batch, lane).await;
        out.extend_from_slice(replies.get(0).unwrap_or(Lost::ShardGone.reply()));
    }

    /// Sends commands to the peer of a place, if it may be asked.
    fn send_to_peer(&self, place: usize, batch: &Batch, lane: u64) -> Sent {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return Sent {
                peer: None,
                answer: Err(PeerError::Unknown),
            };
        };
        let number = place.checked_sub(self.node.workers() + 1);
        // Numbers of peers have 16 bits.
        let Some(peer) = number.and_then(|number| cluster.name_of(number as u16)) else {
            return Sent {
                peer: None,
                answer: Err(PeerError::Unknown),
            };
        };
        let answer = match links.circuits.borrow_mut().may_ask(&peer, self.node.clock.now_us()) {
            true => {
                let slot = first_slot(batch, 0).unwrap_or(0);
                self.try_send(&peer, self.worker_of(&peer, slot), batch, lane, None)
            }
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
        let counters = self.counters();
        counters.forwarded_batches.add(1);
        counters.forwarded_commands.add(batch.len() as u64);
        let sent = link.request(&Forward {
            lane,
            commands: &commands,
            runs: Cow::Owned(runs),
            stand_in_for,
        });
        if let Err(error) = &sent
            && let Some(bound) = super::links::bound_of(*error)
        {
            counters.limit_hit(bound);
        }
        sent
    }

    /// Waits for the replies to commands that were sent, and sees to what was not done.
    async fn finish_forward(self: &Rc<Self>, sent: Sent, batch: Batch, lane: u64) -> Replies {
        let mut open = Open {
            replies: vec![None; batch.len()],
            batch,
            lane,
            asked_us: self.node.clock.now_us(),
            missed: Vec::new(),
        };
        let all: Vec<u32> = (0..open.batch.len() as u32).collect();
        let mut left = match self.take_answer(&mut open, &all, sent).await {
            Ok(replies) => return replies,
            Err(left) => left,
        };
        while !left.is_empty() {
            left = self.settle(&mut open, &left).await;
        }
        open.finish()
    }

    /// Waits for the answer to some of the commands: checks only for as long as their deadline. Answers all replies, if these were all
    /// commands and each has one, or else which have none yet.
    async fn take_answer(self: &Rc<Self>, open: &mut Open, commands: &[u32], sent: Sent) -> Result<Replies, Vec<u32>> {
        let Some(links) = &self.links else {
            return Err(open.take(commands, Err(PeerError::Unknown)));
        };
        let mut pending = match sent.answer {
            Ok(pending) => pending,
            Err(error) => {
                open.missed.extend(sent.peer);
                return Err(open.take(commands, Err(error)));
            }
        };
        let Some(peer) = sent.peer else {
            return Err(open.take(commands, pending.await));
        };
        let (mut checks, others): (Vec<u32>, Vec<u32>) = commands
            .iter()
            .partition(|&&index| class_of(&open.batch, index) == Class::Check);
        let deadline_us = links.circuits.borrow().deadline_us(&peer);
        let answer = if checks.is_empty() {
            pending.await
        } else {
            match tokio::time::timeout(Duration::from_micros(deadline_us), &mut pending).await {
                Ok(answer) => answer,
                Err(_) => {
                    self.counters().peer_deadlines.add(1);
                    links.circuits.borrow_mut().missed(&peer, self.node.clock.now_us());
                    open.missed.push(peer);
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
                links.circuits.borrow_mut().answered(&peer, self.node.clock.now_us());
                // Nearly always: every command is answered.
                if commands.len() == open.batch.len()
                    && let Some(replies) = whole(answer, commands.len())
                {
                    return Ok(replies);
                }
            }
            Err(PeerError::Refused) => {
                links.circuits.borrow_mut().refused(&peer, self.node.clock.now_us());
                open.missed.push(peer);
            }
            Err(_) => open.missed.push(peer),
        }
        Err(open.take(commands, answer))
    }

    /// Waits until a slot may have another holder, or for a time.
    pub(super) async fn until_changed(&self, most: Duration) {
        let Some(links) = &self.links else { return };
        // What has come of it matters little: it is tried again.
        let _ = tokio::time::timeout(most, links.opened.notified()).await;
    }

    /// Sends commands to whoever decides them now. Answers which of them have no reply yet.
    async fn settle(self: &Rc<Self>, open: &mut Open, left: &[u32]) -> Vec<u32> {
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
                            Ok(replies) => still.extend(open.fill(&commands, &replies)),
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
            match Box::pin(self.take_answer(open, &commands, sent)).await {
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
        if spec.key_positions(request).nth(1).is_some() {
            match self.whereabouts(spec, request) {
                // What is in several places is brought together here.
                Whereabouts::Here => return Some(Target::Here(self.index)),
                Whereabouts::Closing(_) => return None,
                Whereabouts::Elsewhere(_) => {}
            }
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
            class: class_of(&open.batch, index),
            asked_us: open.asked_us,
            missed: &open.missed,
        };
        let worker = |name: &str| self.worker_of(name, slot);
        match links.circuits.borrow_mut().route(&question, now_us) {
            Route::Here => Some(Target::Here(owner)),
            Route::Holder(name) => Some(Target::Holder(Arc::clone(&name), worker(&name))),
            Route::Heir(name) => Some(Target::Heir(Arc::clone(&name), worker(&name), holder)),
            Route::StandIn => Some(Target::Instead(owner, Standing::Heir)),
            Route::Local => Some(Target::Instead(owner, Standing::Local)),
            Route::Wait(_) => None,
            Route::ClusterDown => Some(Target::Nobody),
        }
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
            if fit(&mut replies, worker.node.config.limits.peer_frame_bytes) {
                worker.counters().limit_hit(Bound::PeerFrameBytes);
            }
            let not_answered = replies.elsewhere.iter().map(|&index| NotAnswered {
                index,
                // Where it is the sender learns from the holder itself.
                why: Why::NotHere { slot: 0 },
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

impl Open {
    /// Takes the answer to some of the commands. Answers which of them were not done and can be sent again.
    fn take(&mut self, commands: &[u32], answer: Result<Answer, PeerError>) -> Vec<u32> {
        match answer {
            Ok(answer) => match whole_or_part(&answer, commands.len()) {
                Some(replies) => self.fill(commands, &replies),
                None => {
                    self.fail(commands, UNKNOWN);
                    Vec::new()
                }
            },
            // It would not be understood the next time either, and may have been done: so ends an answer that was too long.
            Err(PeerError::NotUnderstood) => {
                self.fail(commands, UNKNOWN);
                Vec::new()
            }
            Err(error) => {
                let mut again = Vec::new();
                for &index in commands {
                    match self.batch.get(index as usize) {
                        Some((spec, ..)) if !error.may_have_arrived() || may_run_twice(spec) => again.push(index),
                        _ => self.replies[index as usize] = Some(UNKNOWN.into()),
                    }
                }
                again
            }
        }
    }

    /// As [`Open::take`], for `some` of the commands that were sent together.
    fn take_some(&mut self, commands: &[u32], some: &[u32], answer: Result<Answer, PeerError>) -> Vec<u32> {
        let decided: Vec<(u32, Option<Box<[u8]>>)> = commands
            .iter()
            .filter(|index| !some.contains(index))
            .map(|&index| (index, self.replies[index as usize].take()))
            .collect();
        let mut left = self.take(commands, answer);
        left.retain(|index| some.contains(index));
        for (index, reply) in decided {
            self.replies[index as usize] = reply;
        }
        left
    }

    /// Takes replies. Answers which commands were not done.
    fn fill(&mut self, commands: &[u32], replies: &Replies) -> Vec<u32> {
        let mut left = Vec::new();
        for (at, &index) in commands.iter().enumerate() {
            if replies.elsewhere.binary_search(&(at as u32)).is_ok() {
                left.push(index);
            } else {
                self.replies[index as usize] = Some(replies.get(at).unwrap_or(UNKNOWN).into());
            }
        }
        left
    }

    fn fail(&mut self, commands: &[u32], reply: &[u8]) {
        for &index in commands {
            self.replies[index as usize] = Some(reply.into());
        }
    }

    fn finish(self) -> Replies {
        let mut replies = Replies::default();
        for reply in self.replies {
            replies.bytes.extend_from_slice(reply.as_deref().unwrap_or(NOBODY));
            replies.ends.push(replies.bytes.len() as u32);
        }
        replies
    }
}

/// Whether a command can be decided elsewhere, or has to wait for who has its keys.
fn class_of(batch: &Batch, index: u32) -> Class {
    match batch.get(index as usize) {
        Some((spec, ..)) if matches!(spec.run, CommandRun::Check(_)) => Class::Check,
        _ => Class::Other,
    }
}

/// The slot of the first key of a command of a batch.
fn first_slot(batch: &Batch, index: usize) -> Option<u16> {
    let (spec, _, _, request) = batch.get(index)?;
    let position = spec.key_positions(request).next()?;
    Some(slot_of(request.arg(position)))
}

/// The replies that an answer has, if every command is answered.
fn whole(answer: &Answer, commands: usize) -> Option<Replies> {
    whole_or_part(answer, commands).filter(|replies| replies.elsewhere.is_empty())
}

fn whole_or_part(answer: &Answer, commands: usize) -> Option<Replies> {
    if answer.kind != Kind::Replies {
        return None;
    }
    let replies = read_message::<wire::Replies<'_>>(answer.version, &answer.body).ok()?;
    let is_sound = replies.ends.len() == commands
        && replies.ends.is_sorted()
        && replies.ends.last().map_or(0, |&end| end as usize) == replies.bytes.len();
    is_sound.then(|| Replies {
        elsewhere: replies.not_answered.iter().map(|command| command.index).collect(),
        bytes: replies.bytes.to_vec(),
        ends: replies.ends.into_owned(),
        more: None,
    })
}

/// Whether a command may be done twice: it changes nothing, or is a check, which then counts twice and so admits less.
fn may_run_twice(spec: &Spec) -> bool {
    spec.group == "tollgate" || spec.has_flag("readonly")
}

fn resp_of(proto: Proto) -> u8 {
    match proto {
        Proto::Resp2 => 2,
        Proto::Resp3 => 3,
    }
}
