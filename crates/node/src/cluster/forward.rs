//! Commands on their way to peers.

use super::serve::{Forwarded, Malformed, Stretch};
use crate::node::Place;
use crate::order::Lost;
use crate::peers::{Answer, PeerError, Pending, ReplyHandle};
use crate::remote::{Batch, Lane, Replies};
use crate::worker::Worker;
use std::borrow::Cow;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tollgate_cluster::wire::{self, Forward, Kind, NotAnswered, Run, Why, read_message};
use tollgate_commands::{Env, Spec};
use tollgate_protocol::{Proto, Request, write_request};
use tollgate_store::slot_of;

/// How long a command waits for somebody to decide it.
const PATIENCE: Duration = Duration::from_secs(3);
/// The first wait before a command is sent again; it doubles with each, up to the longest.
const AGAIN: Duration = Duration::from_millis(1);
/// The longest wait before a command is sent again.
const AGAIN_MAX: Duration = Duration::from_millis(32);

/// The reply to a command that nobody decided. It had no effect.
const NOBODY: &[u8] = b"-CLUSTERDOWN no node that answers has the key's slot\r\n";
/// The reply to a command that was sent to a node which did not answer any more.
const UNKNOWN: &[u8] = b"-CLUSTERDOWN the node that has the key's slot is gone; the command may have been done\r\n";

/// Commands that were sent to a peer.
struct Sent {
    answer: Result<Pending, PeerError>,
}

/// Commands that have no reply yet.
struct Open {
    batch: Batch,
    lane: u64,
    /// By index: the reply, once there is one.
    replies: Vec<Option<Box<[u8]>>>,
    started: Instant,
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

    /// Sends commands to the peer of a place.
    fn send_to_peer(&self, place: usize, batch: &Batch, lane: u64) -> Sent {
        let answer = self.try_send(place, batch, lane);
        if let Err(error) = &answer
            && let Some(bound) = super::links::bound_of(*error)
        {
            self.counters().limit_hit(bound);
        }
        Sent { answer }
    }

    fn try_send(&self, place: usize, batch: &Batch, lane: u64) -> Result<Pending, PeerError> {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return Err(PeerError::Unknown);
        };
        let number = place.checked_sub(self.node.workers() + 1).ok_or(PeerError::Unknown)?;
        // Numbers of peers have 16 bits.
        let name = cluster.name_of(number as u16).ok_or(PeerError::Unknown)?;
        let slot = first_slot(batch, 0).unwrap_or(0);
        let link = links.peers.link(&name, self.worker_of(&name, slot))?;
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
        link.request(&Forward {
            lane,
            commands: &commands,
            runs: Cow::Owned(runs),
            stand_in_for: None,
        })
    }

    /// Waits for the replies to commands that were sent, and sends again what was not done.
    async fn finish_forward(self: &Rc<Self>, sent: Sent, batch: Batch, lane: u64) -> Replies {
        let mut open = Open {
            replies: vec![None; batch.len()],
            batch,
            lane,
            started: Instant::now(),
        };
        let all: Vec<u32> = (0..open.batch.len() as u32).collect();
        let mut left = match sent.answer {
            Ok(pending) => {
                let answer = pending.await;
                // Nearly always: every command is answered.
                if let Ok(answer) = &answer
                    && let Some(replies) = whole(answer, open.batch.len())
                {
                    return replies;
                }
                open.take(&all, answer)
            }
            Err(error) => open.take(&all, Err(error)),
        };
        let mut wait = AGAIN;
        while !left.is_empty() {
            if open.started.elapsed() >= PATIENCE {
                for index in left {
                    open.replies[index as usize] = Some(NOBODY.into());
                }
                break;
            }
            self.until_changed(wait).await;
            wait = (wait * 2).min(AGAIN_MAX);
            left = self.send_again(&mut open, &left).await;
        }
        open.finish()
    }

    /// Waits until a slot may have another holder, or for a time.
    async fn until_changed(&self, most: Duration) {
        let Some(links) = &self.links else { return };
        // What has come of it matters little: it is tried again.
        let _ = tokio::time::timeout(most, links.opened.notified()).await;
    }

    /// Sends commands to where their slots are now. Answers which of them were not done.
    async fn send_again(self: &Rc<Self>, open: &mut Open, left: &[u32]) -> Vec<u32> {
        let mut by_place: Vec<(usize, Vec<u32>)> = Vec::new();
        let mut still = Vec::new();
        for &index in left {
            let place = first_slot(&open.batch, index as usize).map(|slot| self.node.place(slot));
            match place {
                Some(Place::Of(place)) if place != self.node.workers() => {
                    match by_place.iter_mut().find(|(known, _)| *known == place) {
                        Some((_, commands)) => commands.push(index),
                        None => by_place.push((place, vec![index])),
                    }
                }
                _ => still.push(index),
            }
        }
        for (place, commands) in by_place {
            let mut batch = Batch::default();
            for &index in &commands {
                if let Some((spec, db, proto, request)) = open.batch.get(index as usize) {
                    batch.push(spec, &self.env(0, db, proto), request);
                }
            }
            if place < self.node.workers() {
                // As a peer's: what has gone meanwhile is looked for here.
                let lane = Lane::Peer(u32::MAX, open.lane);
                match self.node.post_batch(place, batch, Some(lane)) {
                    Ok(replies) => match replies.await {
                        Ok(replies) => still.extend(open.fill(&commands, &replies)),
                        Err(_) => open.fail(&commands, Lost::ShardGone.reply()),
                    },
                    Err(lost) => open.fail(&commands, lost.reply()),
                }
                continue;
            }
            let answer = match self.send_to_peer(place, &batch, open.lane).answer {
                Ok(pending) => pending.await,
                Err(error) => Err(error),
            };
            still.extend(open.take(&commands, answer));
        }
        still.sort_unstable();
        still
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
                Forwarded::read(self, Lane::Peer(peer, forward.lane), forward.commands, &stretches)
            });
        let Ok(forwarded) = forwarded else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let replies = forwarded.run(&worker).await;
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
            Err(error) => {
                let mut again = Vec::new();
                for &index in commands {
                    match self.batch.get(index as usize) {
                        Some((spec, ..)) if !was_sent(error) || may_run_twice(spec) => again.push(index),
                        _ => self.replies[index as usize] = Some(UNKNOWN.into()),
                    }
                }
                again
            }
        }
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
    })
}

/// Whether the peer may have got what was sent.
fn was_sent(error: PeerError) -> bool {
    match error {
        PeerError::Unknown
        | PeerError::Unresolved
        | PeerError::Refused
        | PeerError::Handshake(_)
        | PeerError::Full(_)
        | PeerError::NotUnderstood
        | PeerError::TooLong => false,
        PeerError::Reset
        | PeerError::Closed
        | PeerError::TimedOut
        | PeerError::Protocol
        | PeerError::GivenUp
        | PeerError::System(_) => true,
    }
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
