//! PUBLISH and SPUBLISH over all nodes, and PUBSUB.
//!
//! All messages of a node go to its peers through one worker, over one connection to each, so that they arrive in the order in which
//! they were published here.

use super::ANSWER_PATIENCE;
use crate::limits::Bound;
use crate::loans::KeyJob;
use crate::node::Node;
use crate::peers::{PeerError, ReplyHandle};
use crate::worker::Worker;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_cluster::wire::{self, Kind, Listeners, ListenersOf, Listening, Published, read_message};
use tollgate_commands::{CommandError, Env};
use tollgate_protocol::{ReplyWriter, Request};

/// The worker through which messages go, of the node that sends them and of those that get them.
const WORKER: usize = 0;

/// Bytes of a frame beside a channel and a message.
const FRAME_BESIDE_BYTES: usize = 64;

/// A message on its way to other nodes.
#[derive(Debug)]
pub struct Outbound {
    channel: Box<[u8]>,
    message: Box<[u8]>,
    sharded: bool,
    /// Who wants to know how many clients it is on its way to there.
    counted: Option<oneshot::Sender<u64>>,
}

impl Outbound {
    fn bytes(&self) -> usize {
        self.channel.len() + self.message.len()
    }
}

impl Node {
    /// Sends a message to those who listen at other nodes. `counted` is told how many they are, as far as their nodes say so in time.
    ///
    /// # Errors
    /// Too many bytes are on their way.
    pub fn publish_elsewhere(
        &self,
        channel: &[u8],
        message: &[u8],
        sharded: bool,
        counted: Option<oneshot::Sender<u64>>,
    ) -> Result<(), CommandError> {
        let outbound = Outbound {
            channel: channel.into(),
            message: message.into(),
            sharded,
            counted,
        };
        self.take_room(WORKER, outbound.bytes())?;
        self.key_job(WORKER, KeyJob::Publish(outbound));
        Ok(())
    }
}

impl Worker {
    /// The other members of the cluster.
    pub(super) fn members_beside(&self) -> Vec<(Arc<str>, u16)> {
        let (Some(links), Some(cluster)) = (&self.links, &self.node.cluster) else {
            return Vec::new();
        };
        let view = links.view.borrow();
        let others = view.members().iter().filter(|member| member.id.name != cluster.me.name);
        others
            .map(|member| (Arc::clone(&member.id.name), member.workers.max(1)))
            .collect()
    }

    /// Sends a message to all peers. Who does not answer is sent it all the same, but not waited for.
    pub fn publish_to_peers(self: &Rc<Self>, outbound: Outbound) {
        self.node.delivered(self.index, outbound.bytes());
        let Some(links) = &self.links else { return };
        let message = wire::Publish {
            channel: &outbound.channel,
            message: &outbound.message,
            sharded: outbound.sharded,
        };
        let mut asked = Vec::new();
        for (name, _) in self.members_beside() {
            let now_us = self.node.clock.now_us();
            let may_wait = outbound.counted.is_some() && links.circuits.borrow_mut().may_ask(&name, now_us);
            let sent = links.peers.link(&name, WORKER as u16).and_then(|link| match may_wait {
                true => link.request(&message).map(Some),
                false => link.send(&message).map(|()| None),
            });
            match sent {
                Ok(Some(pending)) => {
                    let due = Duration::from_micros(links.circuits.borrow().deadline_us(&name));
                    asked.push((name, pending, Instant::now() + due));
                }
                Ok(None) => {}
                Err(PeerError::Full(bound)) => self.counters().limit_hit(bound),
                Err(PeerError::TooLong) => self.counters().limit_hit(Bound::PeerFrameBytes),
                // Nobody is told who listens at a node that is not there.
                Err(_) => {}
            }
        }
        let Some(counted) = outbound.counted else { return };
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let mut receivers = 0;
            for (name, pending, deadline) in asked {
                let answer = worker.answer_of(&name, pending, deadline).await.ok();
                let published = answer.filter(|answer| answer.kind == Kind::Published);
                let published =
                    published.and_then(|answer| read_message::<Published>(answer.version, &answer.body).ok());
                receivers += published.map_or(0, |published| published.receivers);
            }
            // Whoever asked may be gone.
            let _ = counted.send(receivers);
        });
    }

    /// Sends a message of a peer to those who listen here.
    pub(in crate::cluster) fn serve_publish(&self, version: u16, body: &[u8], reply: ReplyHandle) {
        let Ok(message) = read_message::<wire::Publish<'_>>(version, body) else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let node = &*self.node;
        let receivers = node
            .pubsub
            .publish(node, message.channel, message.message, message.sharded);
        let _ = reply.reply(&Published { receivers });
    }

    /// Publishes a message on all nodes. `own` writes the reply of this node alone.
    pub(super) async fn publish_everywhere(
        self: &Rc<Self>,
        (env, request): (&Env, Request<'_>),
        sharded: bool,
        own: impl FnOnce(&mut Vec<u8>) -> Result<(), CommandError>,
        out: &mut Vec<u8>,
    ) {
        let (channel, message) = (request.arg(1), request.arg(2));
        let bytes_max = self
            .node
            .config
            .limits
            .peer_frame_bytes
            .saturating_sub(FRAME_BESIDE_BYTES);
        if channel.len() + message.len() > bytes_max {
            self.counters().limit_hit(Bound::PeerFrameBytes);
            let refused =
                CommandError::Refused("message is longer than a frame between nodes (limits.peer_frame_bytes)");
            return refused.write(out, env.proto);
        }
        let mut reply = Vec::new();
        if let Err(error) = own(&mut reply) {
            return error.write(out, env.proto);
        }
        let (counted, count) = oneshot::channel();
        let elsewhere = match self.node.publish_elsewhere(channel, message, sharded, Some(counted)) {
            // What is dropped with its worker counts none.
            Ok(()) => count.await.unwrap_or(0),
            Err(error) => return error.write(out, env.proto),
        };
        let here = super::integer_of(&reply).unwrap_or(0);
        ReplyWriter::new(out, env.proto).int(here + elsewhere as i64);
    }

    /// Who listens to what at the other nodes; one that does not answer in time counts none.
    async fn listeners_elsewhere(&self, of: ListenersOf<'_>) -> Vec<(Vec<Box<[u8]>>, Vec<u64>)> {
        let message = Listeners { of };
        let deadline = Instant::now() + ANSWER_PATIENCE;
        let mut found = Vec::new();
        for (name, pending) in self.ask_all(|links, name, worker| links.peers.request(name, worker, &message)) {
            let Some(pending) = pending else { continue };
            let answer = self.answer_of(&name, pending, deadline).await.ok();
            let Some(answer) = answer.filter(|answer| answer.kind == Kind::Listening) else {
                continue;
            };
            if let Ok(listening) = read_message::<Listening<'_>>(answer.version, &answer.body) {
                found.push((listening.names.into_iter().map(Box::from).collect(), listening.counts));
            }
        }
        found
    }

    /// `PUBSUB CHANNELS` and `SHARDCHANNELS`, with a pattern that is not too long.
    pub(super) async fn channels_everywhere(&self, env: &Env, request: Request<'_>, sharded: bool, out: &mut Vec<u8>) {
        let pattern = request.get(2);
        let mut names: BTreeSet<Box<[u8]>> = self.node.pubsub.channels(pattern, sharded).into_iter().collect();
        let others = self
            .listeners_elsewhere(ListenersOf::Channels { pattern, sharded })
            .await;
        names.extend(others.into_iter().flat_map(|(names, _)| names));
        let mut reply = ReplyWriter::new(out, env.proto);
        reply.array(names.len());
        names.iter().for_each(|name| reply.bulk(name));
    }

    /// `PUBSUB NUMSUB` and `SHARDNUMSUB`
    pub(super) async fn counts_everywhere(&self, env: &Env, request: Request<'_>, sharded: bool, out: &mut Vec<u8>) {
        let channels: Vec<&[u8]> = request.iter().skip(2).collect();
        let mut counts = self.node.pubsub.counts(channels.iter().copied(), sharded);
        let of = ListenersOf::Counts {
            channels: channels.clone(),
            sharded,
        };
        for (_, others) in self.listeners_elsewhere(of).await {
            counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        }
        let mut reply = ReplyWriter::new(out, env.proto);
        // A flat list in both protocols.
        reply.array(2 * channels.len());
        for (name, count) in channels.iter().zip(counts) {
            reply.bulk(name);
            reply.int(count as i64);
        }
    }

    /// `PUBSUB NUMPAT`
    pub(super) async fn patterns_everywhere(&self, env: &Env, out: &mut Vec<u8>) {
        let mut names: BTreeSet<Box<[u8]>> = self.node.pubsub.patterns().into_iter().collect();
        let others = self.listeners_elsewhere(ListenersOf::Patterns).await;
        names.extend(others.into_iter().flat_map(|(names, _)| names));
        ReplyWriter::new(out, env.proto).int(names.len() as i64);
    }

    /// Tells a peer who listens to what here.
    pub(in crate::cluster) fn serve_listeners(&self, version: u16, body: &[u8], reply: ReplyHandle) {
        let pubsub = &self.node.pubsub;
        let Ok(message) = read_message::<Listeners<'_>>(version, body) else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let (names, counts) = match message.of {
            ListenersOf::Channels { pattern, sharded } => (pubsub.channels(pattern, sharded), Vec::new()),
            ListenersOf::Counts { channels, sharded } => (Vec::new(), pubsub.counts(channels, sharded)),
            ListenersOf::Patterns => (pubsub.patterns(), Vec::new()),
        };
        let listening = Listening {
            names: names.iter().map(|name| &**name).collect(),
            counts,
        };
        if let Err(PeerError::TooLong) = reply.reply(&listening) {
            self.counters().limit_hit(Bound::PeerFrameBytes);
        }
    }
}
