//! Publish and subscribe (<https://redis.io/docs/latest/develop/interact/pubsub/>): who listens to what, and the commands.
//!
//! A node has one [`PubSub`]. A message goes to the workers that have listeners, each of which writes it to its connections.

mod listeners;

use crate::CommandError;
use crate::glob::{Case, Glob};
use crate::node_view::ConnectionCall;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tollgate_protocol::{Proto, ReplyWriter};

/// Kinds of what a connection can listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A channel of one slot.
    Shard,
}

impl Kind {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Channel => ("subscribe", "unsubscribe"),
            Self::Pattern => ("psubscribe", "punsubscribe"),
            Self::Shard => ("ssubscribe", "sunsubscribe"),
        }
    }
}

/// A connection that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Listener {
    worker: usize,
    connection: u64,
}

/// Who listens to what in a node.
#[derive(Debug, Default)]
pub struct PubSub {
    topics: RwLock<Topics>,
    /// Channels and patterns listened to, so that PUBLISH need not look while there is none.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Topics {
    channels: HashMap<Box<[u8]>, Vec<Listener>>,
    shard_channels: HashMap<Box<[u8]>, Vec<Listener>>,
    patterns: BTreeMap<Box<[u8]>, PatternListeners>,
}

impl Topics {
    fn channels_of(&self, sharded: bool) -> &HashMap<Box<[u8]>, Vec<Listener>> {
        match sharded {
            true => &self.shard_channels,
            false => &self.channels,
        }
    }
}

#[derive(Debug)]
struct PatternListeners {
    glob: Glob,
    listeners: Vec<Listener>,
}

/// A connection that gets a message, and the pattern because of which.
pub type Recipient = (u64, Option<Arc<[u8]>>);

/// A message on its way to the connections of one worker.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The connections; each may come several times, with a pattern each time.
    pub to: Vec<Recipient>,
    /// Where it was published.
    pub channel: Arc<[u8]>,
    /// What was published.
    pub message: Arc<[u8]>,
    sharded: bool,
}

impl Delivery {
    /// Bytes that it takes while it is on its way.
    pub fn bytes(&self) -> usize {
        self.channel.len() + self.message.len() + self.to.len() * size_of::<Recipient>()
    }

    /// Writes it for a connection.
    pub fn write(&self, pattern: Option<&[u8]>, proto: Proto, out: &mut Vec<u8>) {
        let mut reply = ReplyWriter::new(out, proto);
        reply.push(3 + usize::from(pattern.is_some()));
        match pattern {
            Some(pattern) => {
                reply.bulk(b"pmessage");
                reply.bulk(pattern);
            }
            None if self.sharded => reply.bulk(b"smessage"),
            None => reply.bulk(b"message"),
        }
        reply.bulk(&self.channel);
        reply.bulk(&self.message);
    }
}

/// What a connection listens to. Dropping it ends that.
#[derive(Debug)]
pub struct Subscriptions {
    registry: Arc<PubSub>,
    listener: Listener,
    topics: HashSet<(Kind, Box<[u8]>)>,
    /// How many of them are channels of slots.
    sharded: usize,
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for (kind, name) in self.topics.drain() {
            self.registry.remove(kind, &name, self.listener);
        }
    }
}

impl Subscriptions {
    fn count(&self, sharded: bool) -> usize {
        match sharded {
            true => self.sharded,
            false => self.topics.len() - self.sharded,
        }
    }

    /// How many channels, patterns and channels of slots they are.
    pub fn counts(&self) -> [usize; 3] {
        let of = |kind: Kind| self.topics.iter().filter(|(of, _)| *of == kind).count();
        [of(Kind::Channel), of(Kind::Pattern), of(Kind::Shard)]
    }

    /// Whether it listens to anything.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn names(&self, kind: Kind) -> Vec<Box<[u8]>> {
        let of_kind = self.topics.iter().filter(|(of, _)| *of == kind);
        let mut names: Vec<Box<[u8]>> = of_kind.map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names
    }
}

impl PubSub {
    fn add(&self, kind: Kind, name: &[u8], listener: Listener) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        let listeners = match kind {
            Kind::Channel => topics.channels.entry(name.into()).or_default(),
            Kind::Shard => topics.shard_channels.entry(name.into()).or_default(),
            Kind::Pattern => {
                let pattern = || PatternListeners {
                    glob: Glob::new(name, Case::Sensitive),
                    listeners: Vec::new(),
                };
                &mut topics.patterns.entry(name.into()).or_insert_with(pattern).listeners
            }
        };
        if let Err(at) = listeners.binary_search(&listener) {
            listeners.insert(at, listener);
        }
        self.recount(&topics);
    }

    fn remove(&self, kind: Kind, name: &[u8], listener: Listener) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        let Topics {
            channels,
            shard_channels,
            patterns,
        } = &mut *topics;
        let listeners = match kind {
            Kind::Channel => channels.get_mut(name),
            Kind::Shard => shard_channels.get_mut(name),
            Kind::Pattern => patterns.get_mut(name).map(|pattern| &mut pattern.listeners),
        };
        let Some(listeners) = listeners else { return };
        if let Ok(at) = listeners.binary_search(&listener) {
            listeners.remove(at);
        }
        if listeners.is_empty() {
            match kind {
                Kind::Channel => drop(channels.remove(name)),
                Kind::Shard => drop(shard_channels.remove(name)),
                Kind::Pattern => drop(patterns.remove(name)),
            }
        }
        self.recount(&topics);
    }

    fn recount(&self, topics: &Topics) {
        let count = topics.channels.len() + topics.shard_channels.len() + topics.patterns.len();
        self.count.store(count, Ordering::Release);
    }

    /// Whether a connection still listens to what a message is for: to the pattern, or to the channel itself.
    pub fn has(&self, delivery: &Delivery, pattern: Option<&[u8]>, worker: usize, connection: u64) -> bool {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let listeners = match pattern {
            Some(pattern) => topics.patterns.get(pattern).map(|pattern| &pattern.listeners),
            None if delivery.sharded => topics.shard_channels.get(&*delivery.channel),
            None => topics.channels.get(&*delivery.channel),
        };
        let listener = Listener { worker, connection };
        listeners.is_some_and(|listeners| listeners.binary_search(&listener).is_ok())
    }

    /// Who gets a message, by worker.
    pub(crate) fn deliveries(&self, channel: &[u8], message: &[u8], sharded: bool) -> Vec<(usize, Delivery)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let mut to: BTreeMap<usize, Vec<Recipient>> = BTreeMap::new();
        let of_channel = topics.channels_of(sharded).get(channel);
        for listener in of_channel.into_iter().flatten() {
            to.entry(listener.worker).or_default().push((listener.connection, None));
        }
        let patterns = topics.patterns.iter().filter(|_| !sharded);
        for (name, pattern) in patterns.filter(|(_, pattern)| pattern.glob.matches(channel)) {
            let (listeners, pattern): (_, Arc<[u8]>) = (&pattern.listeners, (&**name).into());
            for listener in listeners {
                let of_worker = to.entry(listener.worker).or_default();
                of_worker.push((listener.connection, Some(Arc::clone(&pattern))));
            }
        }
        let (channel, message): (Arc<[u8]>, Arc<[u8]>) = (channel.into(), message.into());
        let deliver = |(worker, to)| {
            let (channel, message) = (Arc::clone(&channel), Arc::clone(&message));
            let delivery = Delivery {
                to,
                channel,
                message,
                sharded,
            };
            (worker, delivery)
        };
        to.into_iter().map(deliver).collect()
    }
}

/// A message that is published when its script or transaction stands.
#[derive(Debug, Clone)]
pub struct Published {
    channel: Box<[u8]>,
    message: Box<[u8]>,
    sharded: bool,
}

impl Published {
    /// Sends it.
    pub fn send(&self, node: &dyn crate::NodeView) {
        for (worker, delivery) in node.pubsub().deliveries(&self.channel, &self.message, self.sharded) {
            // Who listens was told to the publisher before; a worker that is too far behind gets nothing.
            let _ = node.deliver(worker, delivery);
        }
        node.publish_elsewhere(&self.channel, &self.message, self.sharded);
    }
}

/// `SUBSCRIBE channel [channel ...]`
pub(crate) fn subscribe(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    listen(call, Kind::Channel)
}

/// `PSUBSCRIBE pattern [pattern ...]`
pub(crate) fn psubscribe(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let patterns_max = call.node.about().pattern_bytes_max;
    if call.request.iter().skip(1).any(|pattern| pattern.len() > patterns_max) {
        return Err(CommandError::PatternTooLong(patterns_max));
    }
    listen(call, Kind::Pattern)
}

/// `SSUBSCRIBE shardchannel [shardchannel ...]`
pub(crate) fn ssubscribe(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    listen(call, Kind::Shard)
}

/// `UNSUBSCRIBE [channel [channel ...]]`
pub(crate) fn unsubscribe(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    listen_no_more(call, Kind::Channel)
}

/// `PUNSUBSCRIBE [pattern [pattern ...]]`
pub(crate) fn punsubscribe(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    listen_no_more(call, Kind::Pattern)
}

/// `SUNSUBSCRIBE [shardchannel [shardchannel ...]]`
pub(crate) fn sunsubscribe(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    listen_no_more(call, Kind::Shard)
}

fn listen(call: &mut ConnectionCall<'_>, kind: Kind) -> Result<(), CommandError> {
    let request = call.request;
    call.session.note_change();
    let most = call.node.about().subscriptions_max;
    let before = call
        .session
        .subscriptions
        .as_ref()
        .map_or(0, |subscriptions| subscriptions.topics.len());
    if before + request.len() - 1 > most {
        return Err(CommandError::TooManySubscriptions(most));
    }
    let subscriptions = call.session.subscriptions.get_or_insert_with(|| {
        Box::new(Subscriptions {
            registry: Arc::clone(call.node.pubsub()),
            listener: Listener {
                worker: call.session.worker,
                connection: call.session.id,
            },
            topics: HashSet::new(),
            sharded: 0,
        })
    });
    let mut reply = ReplyWriter::new(call.out, call.session.proto);
    for name in request.iter().skip(1) {
        if subscriptions.topics.insert((kind, name.into())) {
            subscriptions.sharded += usize::from(kind == Kind::Shard);
            subscriptions.registry.add(kind, name, subscriptions.listener);
        }
        reply.push(3);
        reply.bulk(kind.words().0.as_bytes());
        reply.bulk(name);
        reply.int(subscriptions.count(kind == Kind::Shard) as i64);
    }
    Ok(())
}

fn listen_no_more(call: &mut ConnectionCall<'_>, kind: Kind) -> Result<(), CommandError> {
    let request = call.request;
    call.session.note_change();
    let subscriptions = &mut call.session.subscriptions;
    let names: Vec<Box<[u8]>> = match (request.len(), &*subscriptions) {
        (1, Some(subscriptions)) => subscriptions.names(kind),
        (1, None) => Vec::new(),
        _ => request.iter().skip(1).map(Box::from).collect(),
    };
    let mut reply = ReplyWriter::new(call.out, call.session.proto);
    let is_none = names.is_empty();
    for name in names {
        let mut left = 0;
        if let Some(subscriptions) = subscriptions {
            if subscriptions.topics.remove(&(kind, name.clone())) {
                subscriptions.sharded -= usize::from(kind == Kind::Shard);
                subscriptions.registry.remove(kind, &name, subscriptions.listener);
            }
            left = subscriptions.count(kind == Kind::Shard);
        }
        reply.push(3);
        reply.bulk(kind.words().1.as_bytes());
        reply.bulk(&name);
        reply.int(left as i64);
    }
    if is_none {
        let left = subscriptions
            .as_ref()
            .map_or(0, |subscriptions| subscriptions.count(kind == Kind::Shard));
        reply.push(3);
        reply.bulk(kind.words().1.as_bytes());
        reply.null();
        reply.int(left as i64);
    }
    if subscriptions
        .as_ref()
        .is_some_and(|subscriptions| subscriptions.is_empty())
    {
        *subscriptions = None;
    }
    Ok(())
}

/// Bytes of messages that wait for one script or transaction to end.
const PUBLISHED_BYTES_MAX: usize = 16 << 20;

/// `PUBLISH channel message`
pub(crate) fn publish(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    send(call, false)
}

/// `SPUBLISH shardchannel message`
pub(crate) fn spublish(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    send(call, true)
}

fn send(call: &mut ConnectionCall<'_>, sharded: bool) -> Result<(), CommandError> {
    let (channel, message) = (call.request.arg(1), call.request.arg(2));
    let deliveries = call.node.pubsub().deliveries(channel, message, sharded);
    let count: usize = deliveries.iter().map(|(_, delivery)| delivery.to.len()).sum();
    if let Some(later) = &mut call.session.published {
        let waiting_bytes: usize = later.iter().map(|published| published.message.len()).sum();
        if waiting_bytes + message.len() > PUBLISHED_BYTES_MAX {
            return Err(CommandError::SubscribersBehind);
        }
        if count > 0 || call.node.has_peers() {
            later.push(Published {
                channel: channel.into(),
                message: message.into(),
                sharded,
            });
        }
    } else {
        for (worker, delivery) in deliveries {
            call.node.deliver(worker, delivery)?;
        }
    }
    call.reply().int(count as i64);
    Ok(())
}

/// `PUBSUB CHANNELS [pattern]`
pub(crate) fn channels(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    write_channels(call, false)
}

/// `PUBSUB SHARDCHANNELS [pattern]`
pub(crate) fn shard_channels(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    write_channels(call, true)
}

fn write_channels(call: &mut ConnectionCall<'_>, sharded: bool) -> Result<(), CommandError> {
    let glob = match call.request.get(2) {
        Some(pattern) if pattern.len() > call.node.about().pattern_bytes_max => {
            return Err(CommandError::PatternTooLong(call.node.about().pattern_bytes_max));
        }
        Some(pattern) => Some(Glob::new(pattern, Case::Sensitive)),
        None => None,
    };
    let registry = Arc::clone(call.node.pubsub());
    let topics = registry.topics.read().unwrap_or_else(PoisonError::into_inner);
    let matching = topics
        .channels_of(sharded)
        .keys()
        .filter(|name| glob.as_ref().is_none_or(|glob| glob.matches(name)));
    let names: Vec<_> = matching.collect();
    let mut reply = call.reply();
    reply.array(names.len());
    names.into_iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// `PUBSUB NUMSUB [channel [channel ...]]`
pub(crate) fn numsub(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    write_counts(call, false)
}

/// `PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]`
pub(crate) fn shard_numsub(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    write_counts(call, true)
}

fn write_counts(call: &mut ConnectionCall<'_>, sharded: bool) -> Result<(), CommandError> {
    let (request, registry) = (call.request, Arc::clone(call.node.pubsub()));
    let topics = registry.topics.read().unwrap_or_else(PoisonError::into_inner);
    let mut reply = call.reply();
    // A flat list in both protocols.
    reply.array(2 * (request.len() - 2));
    for name in request.iter().skip(2) {
        let listeners = topics.channels_of(sharded).get(name);
        reply.bulk(name);
        reply.int(listeners.map_or(0, Vec::len) as i64);
    }
    Ok(())
}

/// `PUBSUB NUMPAT`
pub(crate) fn numpat(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let registry = Arc::clone(call.node.pubsub());
    let count = registry
        .topics
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .patterns
        .len();
    call.reply().int(count as i64);
    Ok(())
}

/// `PUBSUB HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "PUBSUB",
        &[
            "CHANNELS [<pattern>]",
            "    Return the currently active channels matching a <pattern> (default: '*').",
            "NUMPAT",
            "    Return number of subscriptions to patterns.",
            "NUMSUB [<channel> ...]",
            "    Return the number of subscribers for the specified channels, excluding",
            "    pattern subscriptions(default: no channels).",
            "SHARDCHANNELS [<pattern>]",
            "    Return the currently active shard level channels matching a <pattern> (default: '*').",
            "SHARDNUMSUB [<shardchannel> ...]",
            "    Return the number of subscribers for the specified shard level channel(s)",
        ],
    )
}
