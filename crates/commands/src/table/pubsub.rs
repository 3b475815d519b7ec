//! Publish and subscribe.

use super::{Run, Spec, Wide};
use crate::pubsub;

const BASE: Spec = Spec {
    group: "pubsub",
    categories: &["pubsub"],
    ..Spec::BASE
};

const LISTEN: Spec = Spec {
    flags: &["pubsub", "noscript", "loading", "stale"],
    ..BASE
};

const PUBLISH: Spec = Spec {
    arity: 3,
    flags: &["pubsub", "loading", "stale", "fast"],
    ..BASE
};

const ASK: Spec = Spec {
    flags: &["pubsub", "loading", "stale"],
    since: "2.8.0",
    ..BASE
};

const PUBSUB: &[Spec] = &[
    Spec {
        name: "pubsub|channels",
        arity: -2,
        syntax: "[pattern]",
        complexity: "O(N) where N is the number of channels",
        summary: "Lists the channels that somebody listens to.",
        run: Run::Connection(pubsub::channels),
        wide: Some(Wide::Channels(false)),
        ..ASK
    },
    Spec {
        name: "pubsub|help",
        arity: 2,
        flags: &["loading", "stale"],
        categories: &[],
        since: "6.2.0",
        summary: "Prints what PUBSUB can do.",
        run: Run::Connection(pubsub::help),
        ..BASE
    },
    Spec {
        name: "pubsub|numpat",
        arity: 2,
        summary: "Returns the number of patterns that somebody listens to.",
        run: Run::Connection(pubsub::numpat),
        wide: Some(Wide::Patterns),
        ..ASK
    },
    Spec {
        name: "pubsub|numsub",
        arity: -2,
        syntax: "[channel [...]]",
        complexity: "O(N) where N is the number of channels asked for",
        summary: "Returns how many listen to channels.",
        run: Run::Connection(pubsub::numsub),
        wide: Some(Wide::Counts(false)),
        ..ASK
    },
    Spec {
        name: "pubsub|shardchannels",
        arity: -2,
        since: "7.0.0",
        syntax: "[pattern]",
        complexity: "O(N) where N is the number of shard channels",
        summary: "Lists the shard channels that somebody listens to.",
        run: Run::Connection(pubsub::shard_channels),
        wide: Some(Wide::Channels(true)),
        ..ASK
    },
    Spec {
        name: "pubsub|shardnumsub",
        arity: -2,
        since: "7.0.0",
        syntax: "[shardchannel [...]]",
        complexity: "O(N) where N is the number of shard channels asked for",
        summary: "Returns how many listen to shard channels.",
        run: Run::Connection(pubsub::shard_numsub),
        wide: Some(Wide::Counts(true)),
        ..ASK
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "psubscribe",
        arity: -2,
        since: "2.0.0",
        syntax: "pattern [...]",
        complexity: "O(N) where N is the number of patterns",
        summary: "Listens to the channels that match patterns.",
        run: Run::Connection(pubsub::psubscribe),
        ..LISTEN
    },
    Spec {
        name: "publish",
        since: "2.0.0",
        syntax: "channel message",
        complexity: "O(N+M) where N is the number of listeners and M the number of patterns",
        summary: "Sends a message to those who listen to a channel.",
        run: Run::Connection(pubsub::publish),
        wide: Some(Wide::Publish(false)),
        ..PUBLISH
    },
    Spec {
        name: "pubsub",
        arity: -2,
        categories: &[],
        since: "2.8.0",
        summary: "A container for commands about who listens.",
        complexity: "Depends on subcommand.",
        subcommands: PUBSUB,
        ..BASE
    },
    Spec {
        name: "punsubscribe",
        arity: -1,
        since: "2.0.0",
        syntax: "[pattern [...]]",
        complexity: "O(N) where N is the number of patterns",
        summary: "Listens no more to the channels that match patterns.",
        run: Run::Connection(pubsub::punsubscribe),
        ..LISTEN
    },
    Spec {
        name: "spublish",
        channels: (1, 1, 1),
        since: "7.0.0",
        syntax: "shardchannel message",
        complexity: "O(N) where N is the number of listeners",
        summary: "Sends a message to those who listen to a shard channel.",
        run: Run::Connection(pubsub::spublish),
        wide: Some(Wide::Publish(true)),
        ..PUBLISH
    },
    Spec {
        name: "ssubscribe",
        arity: -2,
        channels: (1, -1, 1),
        since: "7.0.0",
        syntax: "shardchannel [...]",
        complexity: "O(N) where N is the number of shard channels",
        summary: "Listens to shard channels.",
        run: Run::Connection(pubsub::ssubscribe),
        ..LISTEN
    },
    Spec {
        name: "subscribe",
        arity: -2,
        since: "2.0.0",
        syntax: "channel [...]",
        complexity: "O(N) where N is the number of channels",
        summary: "Listens to channels.",
        run: Run::Connection(pubsub::subscribe),
        ..LISTEN
    },
    Spec {
        name: "sunsubscribe",
        arity: -1,
        channels: (1, -1, 1),
        since: "7.0.0",
        syntax: "[shardchannel [...]]",
        complexity: "O(N) where N is the number of shard channels",
        summary: "Listens no more to shard channels.",
        run: Run::Connection(pubsub::sunsubscribe),
        ..LISTEN
    },
    Spec {
        name: "unsubscribe",
        arity: -1,
        since: "2.0.0",
        syntax: "[channel [...]]",
        complexity: "O(N) where N is the number of channels",
        summary: "Listens no more to channels.",
        run: Run::Connection(pubsub::unsubscribe),
        ..LISTEN
    },
];
