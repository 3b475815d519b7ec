//! Every command, declared once. Dispatch, arity, routing by key, `COMMAND`, `COMMAND DOCS` and the README's list read this table.

mod bitmap;
mod blocking;
mod cluster;
mod connection;
mod function;
mod generic;
mod hash;
mod list;
mod pubsub;
mod script;
mod server;
mod set;
mod sorted_set;
mod string;
mod tollgate;
mod transaction;

use crate::blocking::Blocking;
use crate::check::Order;
use crate::keyspace::KeyspaceCommand;
use crate::node_view::ConnectionCall;
use crate::scripts::ScriptCommand;
use crate::{CommandError, Env, Face, Shard};
use tollgate_protocol::{Request, parse_integer};

/// What a command's function is given and answers. It writes its reply, or returns an error and has changed nothing.
pub type KeyFn = fn(&mut Shard, &Env, Request<'_>, &mut Vec<u8>) -> Result<(), CommandError>;

/// As [`KeyFn`], for a command with several keys, or one that may take long: it does a bounded part and answers what is left.
pub type KeysFn = fn(&mut Shard, &Env, Request<'_>, &mut Vec<u8>) -> Result<Option<Box<dyn Rest>>, CommandError>;

/// What is left of a command that has begun. Its keys are held until it is done, so nobody sees it half done.
pub trait Rest {
    /// Goes on with about [`STEP_ELEMENTS`] elements; whether that was the last of it. All arguments are the same each time; what was
    /// written to the buffer stays there.
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool;
}

/// Elements that a command works on before others get their chance.
pub const STEP_ELEMENTS: usize = 512;

/// As [`KeyFn`], for a command that needs the connection and the node, but no shard.
pub type ConnectionFn = fn(&mut ConnectionCall<'_>) -> Result<(), CommandError>;

/// What a command does to each of its keys. Nothing, if it answers an error.
pub type EachKeyFn = fn(&mut Shard, &Env, &[u8]) -> Result<i64, CommandError>;

/// How a command is run.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// Not by itself: one of its subcommands is run.
    Container,
    /// By the connection itself: it needs no shard.
    Connection(ConnectionFn),
    /// A check: parsed, then queued in the shard of its key (argument 1).
    Check(fn(&mut Shard, Request<'_>) -> Result<Order, CommandError>),
    /// In the shard of its key, whose position [`Spec::keys`] says.
    Key(KeyFn),
    /// In a shard that has all of its keys, its own or lent; [`Spec::key_positions`] says where they are.
    Keys(KeysFn),
    /// In the shard of each of its keys (all arguments); the answers are summed.
    EachKey(EachKeyFn),
    /// Over all shards, step by step.
    Keyspace(KeyspaceCommand),
    /// In a shard that has all of its keys, as soon as one of them has something.
    Block(&'static Blocking),
    /// A run of a script or function, or of a library that is loaded.
    Script(ScriptCommand),
    /// By the connection's worker, which also waits where there is something to wait for.
    Worker(WorkerCommand),
}

/// Commands that change how a connection runs commands, or that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCommand {
    /// `MULTI`
    Multi,
    /// `EXEC`
    Exec,
    /// `DISCARD`
    Discard,
    /// `WATCH`
    Watch,
    /// `UNWATCH`
    Unwatch,
    /// `WAIT`
    Wait,
    /// `WAITAOF`
    WaitAof,
    /// `MONITOR`
    Monitor,
}

/// What a command that a node does for itself does at the other nodes of its cluster, so that all of them look like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wide {
    /// Their listeners get the message, and are counted. Whether the channel is one of a slot.
    Publish(bool),
    /// Their channels are listed. Whether those of slots are meant.
    Channels(bool),
    /// Their listeners are counted. Whether those to channels of slots are meant.
    Counts(bool),
    /// Their patterns are counted, each once.
    Patterns,
    /// They know the script.
    ScriptLoad,
    /// A script exists that one of them knows.
    ScriptExists,
    /// They forget all scripts.
    ScriptFlush,
    /// They have the same libraries afterwards.
    Libraries,
}

/// A command, as `COMMAND` describes it (<https://redis.io/docs/latest/commands/command/>).
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Name in lower case; of a subcommand `container|name`.
    pub name: &'static str,
    /// Number of arguments including the name (and the container's name); negative: at least so many.
    pub arity: i16,
    /// Flags as `COMMAND` names them.
    pub flags: &'static [&'static str],
    /// Position of the first key, the last key (negative: from the end) and the step; zeros for none.
    pub keys: (i16, i16, i16),
    /// Position of the argument that says how many keys follow it; 0 for none.
    pub counted: usize,
    /// What happens to the keys, in the words of key specifications (`RO`, `RW`, `RM`, `access`, `update`, `delete`).
    pub key_use: &'static [&'static str],
    /// The same for the keys after the first, where something else happens to them.
    pub later_key_use: &'static [&'static str],
    /// What happens to the key in one call, where that depends on the options.
    pub use_in_call: Option<fn(Request<'_>) -> &'static [&'static str]>,
    /// Where channels are that a cluster would find by their slots, as `keys`.
    pub channels: (i16, i16, i16),
    /// ACL categories that do not follow from the flags and the group.
    pub categories: &'static [&'static str],
    /// Tips for clients and proxies (<https://redis.io/docs/latest/develop/reference/command-tips/>).
    pub tips: &'static [&'static str],
    /// Group of `COMMAND DOCS`.
    pub group: &'static str,
    /// The first version that has it: Redis's for Redis's commands, ours for ours.
    pub since: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What it costs, in the terms of `COMMAND DOCS`.
    pub complexity: &'static str,
    /// Its arguments, in the notation of `syntax.rs`.
    pub syntax: &'static str,
    /// How it runs. A command with subcommands is run itself only where it is not a [`Run::Container`].
    pub run: Run,
    /// What it does at other nodes.
    pub wide: Option<Wide>,
    /// Its subcommands.
    pub subcommands: &'static [Spec],
    /// The face that it is declared for: a script of the redirecting one has no keys of other nodes.
    pub face: Face,
}

impl Spec {
    /// What declarations start from.
    const BASE: Spec = Spec {
        name: "",
        arity: 1,
        flags: &[],
        keys: (0, 0, 0),
        counted: 0,
        key_use: &[],
        later_key_use: &[],
        use_in_call: None,
        channels: (0, 0, 0),
        categories: &[],
        tips: &[],
        group: "",
        since: "",
        summary: "",
        complexity: "O(1)",
        syntax: "",
        run: Run::Container,
        wide: None,
        subcommands: &[],
        face: Face::Default,
    };

    /// Whether that many arguments, the name included, are acceptable.
    pub fn takes(&self, args: usize) -> bool {
        let bound = usize::from(self.arity.unsigned_abs());
        if self.arity >= 0 { args == bound } else { args >= bound }
    }

    /// Its name without the container's.
    pub fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, own)| own)
    }

    /// Whether `COMMAND` gives it that flag.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The position of its first key, where that is always the same.
    pub fn first_key(&self) -> Option<usize> {
        usize::try_from(self.keys.0).ok().filter(|&position| position > 0)
    }

    /// The positions of all keys of a request for it. A number of keys that is none, or too large, counts no keys: the command says what
    /// is wrong with it.
    pub fn key_positions(&self, request: Request<'_>) -> impl Iterator<Item = usize> + use<> {
        let count = match self.counted {
            0 => None,
            at => request.get(at).and_then(parse_integer),
        };
        let left = request.len().saturating_sub(self.counted + 1);
        let count = count
            .and_then(|count| usize::try_from(count).ok())
            .filter(|&count| count <= left);
        let start = self.counted + 1;
        positions(self.keys, request).chain(start..start + count.unwrap_or(0))
    }

    /// The positions of the channels of a request for it that belong to slots as keys do.
    pub fn channel_positions(&self, request: Request<'_>) -> impl Iterator<Item = usize> + use<> {
        positions(self.channels, request)
    }
}

/// Positions of arguments, from the first to the last (negative: from the end) in steps; none for zeros.
fn positions((first, last, step): (i16, i16, i16), request: Request<'_>) -> impl Iterator<Item = usize> + use<> {
    let last = match last {
        last if last < 0 => (request.len() as i64 + i64::from(last)).max(0) as usize,
        last => last as usize,
    };
    let fixed = match first {
        0 => 0..0,
        first => first as usize..last + 1,
    };
    fixed.step_by(step.max(1) as usize)
}

const FAMILIES: [&[Spec]; 16] = [
    bitmap::SPECS,
    blocking::SPECS,
    cluster::SPECS,
    connection::SPECS,
    function::SPECS,
    generic::SPECS,
    hash::SPECS,
    list::SPECS,
    pubsub::SPECS,
    script::SPECS,
    server::SPECS,
    set::SPECS,
    sorted_set::SPECS,
    string::SPECS,
    tollgate::SPECS,
    transaction::SPECS,
];

const COUNT: usize = {
    let mut count = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

/// All commands, family by family.
pub static ALL: [Spec; COUNT] = {
    let mut all = [Spec::BASE; COUNT];
    let mut at = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut index = 0;
        while index < FAMILIES[family].len() {
            all[at] = FAMILIES[family][index];
            at += 1;
            index += 1;
        }
        family += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> impl Iterator<Item = &'static Spec> {
        ALL.iter()
            .flat_map(|spec| std::iter::once(spec).chain(spec.subcommands))
    }

    #[test]
    fn names_are_lower_case_sorted_in_their_family_and_unique() {
        for family in FAMILIES {
            assert!(family.is_sorted_by(|a, b| a.name < b.name));
        }
        let mut names: Vec<_> = every().map(|spec| spec.name).collect();
        assert!(
            names
                .iter()
                .all(|name| !name.is_empty() && *name == name.to_ascii_lowercase())
        );
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn subcommands_are_named_after_their_container() {
        for spec in &ALL {
            assert!(!spec.name.contains('|'));
            assert!(spec.subcommands.is_sorted_by(|a, b| a.name < b.name), "{}", spec.name);
            for sub in spec.subcommands {
                assert_eq!(
                    sub.name.split_once('|').map(|(container, _)| container),
                    Some(spec.name)
                );
                assert!(
                    sub.subcommands.is_empty() && !matches!(sub.run, Run::Container),
                    "{}",
                    sub.name
                );
            }
            assert_eq!(
                matches!(spec.run, Run::Container),
                !spec.subcommands.is_empty() && spec.name != "command"
            );
        }
    }

    #[test]
    fn every_command_is_documented() {
        for spec in every() {
            assert!(!spec.summary.is_empty() && spec.summary.ends_with('.'), "{}", spec.name);
            assert!(
                !spec.group.is_empty() && !spec.since.is_empty() && !spec.complexity.is_empty(),
                "{}",
                spec.name
            );
            if spec.arity < 0 && !matches!(spec.run, Run::Container) && !matches!(spec.name, "command" | "quit") {
                assert!(!spec.syntax.is_empty(), "{} has options but no syntax", spec.name);
            }
        }
    }

    #[test]
    fn arities_fit_the_syntax() {
        for spec in every().filter(|spec| !spec.syntax.is_empty()) {
            let names = 1 + usize::from(spec.name.contains('|'));
            let (fewest, most) = crate::syntax::bounds(&crate::syntax::parse(spec.syntax));
            assert_eq!(usize::from(spec.arity.unsigned_abs()), names + fewest, "{}", spec.name);
            assert_eq!(spec.arity > 0, most == Some(fewest), "{}", spec.name);
        }
    }

    #[test]
    fn keys_are_where_the_run_expects_them() {
        for spec in every() {
            let at = if spec.name.contains('|') { 2 } else { 1 };
            match spec.run {
                Run::Check(_) | Run::Key(_) => assert_eq!(spec.keys, (at, at, 1), "{}", spec.name),
                Run::EachKey(_) => assert_eq!(spec.keys, (1, -1, 1), "{}", spec.name),
                Run::Keys(_) | Run::Block(_) => assert!(spec.keys.0 > 0 || spec.counted > 0, "{}", spec.name),
                Run::Container | Run::Connection(_) | Run::Keyspace(_) | Run::Script(_) => {
                    assert_eq!(spec.keys, (0, 0, 0), "{}", spec.name)
                }
                Run::Worker(command) => {
                    let keys = if command == WorkerCommand::Watch {
                        (1, -1, 1)
                    } else {
                        (0, 0, 0)
                    };
                    assert_eq!(spec.keys, keys, "{}", spec.name)
                }
            }
            let has_keys = spec.first_key().is_some() || spec.counted > 0;
            assert_eq!(has_keys, !spec.key_use.is_empty(), "{}", spec.name);
            if let Some(first) = spec.first_key() {
                assert!(
                    usize::from(spec.arity.unsigned_abs()) > first,
                    "{} may lack its key",
                    spec.name
                );
            }
            let writes = spec.has_flag("write");
            assert!(!(writes && spec.has_flag("readonly")), "{}", spec.name);
            // What a script does with its keys, its flags do not say.
            if !spec.key_use.is_empty() && !matches!(spec.run, Run::Script(_)) {
                let mut uses = spec.key_use.iter().chain(spec.later_key_use);
                assert_eq!(
                    writes,
                    uses.any(|word| matches!(*word, "RW" | "OW" | "RM")),
                    "{}",
                    spec.name
                );
            }
        }
    }
}
