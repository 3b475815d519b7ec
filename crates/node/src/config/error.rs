//! What can be wrong with a configuration. Every text is one line that says where and what.

use std::fmt;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file; the line counts from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// In an environment variable.
    Variable(String),
    /// In a `--set`.
    Set,
    /// In a flag, for example `--workers`.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "environment variable {name}"),
            Origin::Set => f.write_str("--set"),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A configuration that is not acceptable.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file or directory cannot be read.
    #[error("cannot read {} ({key}): {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What names it: a key, a flag or a variable.
        key: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The file is no TOML.
    #[error("{at}: {reason}")]
    Syntax {
        /// Where.
        at: Origin,
        /// What the parser says.
        reason: String,
    },
    /// A key or a section that does not exist.
    #[error("{at}: there is no {what} '{name}'{}", did_you_mean(.nearest.as_deref()))]
    Unknown {
        /// Where.
        at: Origin,
        /// `key` or `section`.
        what: &'static str,
        /// What was written.
        name: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A key outside of its section.
    #[error("{at}: '{name}' must be in a section: [{section}] {name}")]
    TopLevel {
        /// Where.
        at: Origin,
        /// The key.
        name: &'static str,
        /// Its section.
        section: &'static str,
    },
    /// A value that its key does not take.
    #[error("{at}: {key} {reason}")]
    Value {
        /// Where.
        at: Origin,
        /// The key, as `section.name`.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// A `--set` that is not `section.key=value`.
    #[error("--set takes section.key=value, not {0:?}")]
    Set(String),
    /// One key set by a flag of its own and by `--set`.
    #[error("{key} is set by both {flag} and --set")]
    Twice {
        /// The key, as `section.name`.
        key: String,
        /// The flag.
        flag: &'static str,
    },
    /// A rule that is not acceptable.
    #[error("{at}: {reason}")]
    Rule {
        /// Where.
        at: Origin,
        /// What is wrong, with the rule's id and field where they are known.
        reason: String,
    },
    /// More rules than `limits.rules`.
    #[error("{}there are {rules} rules, more than limits.rules = {rules_max}", before(.at))]
    TooManyRules {
        /// Where the first is that is too many, if that is known.
        at: Option<Origin>,
        /// How many there are.
        rules: usize,
        /// How many there may be.
        rules_max: usize,
    },
    /// A listener that other machines' nodes can reach, and no cluster secret.
    #[error(
        "cluster.peer = {address} can be reached from other machines, and there is no cluster secret: give \
         --cluster-secret-file, listen on 127.0.0.1, or say --insecure"
    )]
    ExposedToPeers {
        /// The address.
        address: String,
    },
    /// A node to join on another machine, which cannot reach this one.
    #[error(
        "cluster.join names {seed}, and cluster.peer = {address} can only be reached from this machine: give --peer"
    )]
    PeerOnLoopback {
        /// The address that peers would have to reach.
        address: String,
        /// The node to join.
        seed: String,
    },
    /// A node to join, and no address for peers.
    #[error("cluster.join names {seed}, and cluster.peer is off")]
    JoinWithoutPeer {
        /// The node to join.
        seed: String,
    },
    /// The password file holds no usable password.
    #[error("{} ({key}): {reason}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// The key or flag that names it.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A listener that others can reach, and no password.
    #[error(
        "{key} = {address} can be reached from other machines, and there is no password: give --password-file, listen on \
         127.0.0.1, or say --insecure"
    )]
    Exposed {
        /// The key, as `section.name`.
        key: &'static str,
        /// The address.
        address: String,
    },
}

impl ConfigError {
    /// Whether the command line itself is wrong, rather than something it refers to.
    pub fn is_usage(&self) -> bool {
        match self {
            ConfigError::Set(_) | ConfigError::Twice { .. } => true,
            ConfigError::Unknown { at, .. } | ConfigError::Value { at, .. } => {
                matches!(at, Origin::Set | Origin::Flag(_))
            }
            _ => false,
        }
    }
}

fn before(at: &Option<Origin>) -> String {
    at.as_ref().map_or_else(String::new, |at| format!("{at}: "))
}

/// The end of a message about a name that is unknown.
pub(crate) fn did_you_mean(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("; did you mean '{name}'?"),
        None => String::new(),
    }
}
