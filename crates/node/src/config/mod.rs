//! The configuration of a node.
//!
//! All keys are declared in one place each (`sections.rs`, and [`crate::limits`] for the bounds); everything else reads
//! those declarations. Where a key is set more than once, flags come first, then the environment, then the file, then the
//! default.

mod address;
mod error;
mod file;
pub(crate) mod key;
mod log_filter;
mod password;
mod print;
mod rules;
mod sections;
mod sources;

pub use address::{ListenAddress, PeerListen};
pub(crate) use error::did_you_mean;
pub use error::{ConfigError, Origin};
pub use key::{Key, Kind, Value};
pub use log_filter::parse_log_filter;
pub use password::{ClusterSecret, Password};
pub use sections::{
    ADMIN_PORT, Admin, Auth, Cluster, LISTEN_PORT, Listen, Log, LogFormat, Node, PEER_PORT, Policy, Script, Slowlog,
    Storage, WhenFull,
};
pub use sources::{FlagValue, Sources, VARIABLE_CONFIG, VARIABLE_PREFIX};

use crate::limits::Limits;
use key::{Raw, Section};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tollgate_limiter::RuleSet;

/// The configuration of a node, checked.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `[node]`
    pub node: Node,
    /// `[listen]`
    pub listen: Listen,
    /// `[admin]`
    pub admin: Admin,
    /// `[auth]`
    pub auth: Auth,
    /// `[cluster]`
    pub cluster: Cluster,
    /// `[storage]`
    pub storage: Storage,
    /// `[policy]`
    pub policy: Policy,
    /// `[script]`
    pub script: Script,
    /// `[limits]`
    pub limits: Limits,
    /// `[slowlog]`
    pub slowlog: Slowlog,
    /// `[log]`
    pub log: Log,
    /// `[[rules]]`
    pub rules: RuleSet,
    /// The line of each, by its number; they count from 1.
    rule_lines: Vec<usize>,
    /// What `auth.password_file` holds.
    pub password: Option<Password>,
    /// What `cluster.secret_file` holds.
    pub cluster_secret: Option<ClusterSecret>,
    /// The file it was read from, if any.
    pub file: Option<PathBuf>,
}

/// Names of sections, in the order in which they are printed.
const SECTIONS: [&str; 11] = [
    "node", "listen", "admin", "auth", "cluster", "storage", "policy", "script", "limits", "slowlog", "log",
];

impl Config {
    fn section(&self, name: &str) -> Option<&dyn Section> {
        Some(match name {
            "node" => &self.node,
            "listen" => &self.listen,
            "admin" => &self.admin,
            "auth" => &self.auth,
            "cluster" => &self.cluster,
            "storage" => &self.storage,
            "policy" => &self.policy,
            "script" => &self.script,
            "limits" => &self.limits,
            "slowlog" => &self.slowlog,
            "log" => &self.log,
            _ => return None,
        })
    }

    fn section_mut(&mut self, name: &str) -> Option<&mut dyn Section> {
        Some(match name {
            "node" => &mut self.node,
            "listen" => &mut self.listen,
            "admin" => &mut self.admin,
            "auth" => &mut self.auth,
            "cluster" => &mut self.cluster,
            "storage" => &mut self.storage,
            "policy" => &mut self.policy,
            "script" => &mut self.script,
            "limits" => &mut self.limits,
            "slowlog" => &mut self.slowlog,
            "log" => &mut self.log,
            _ => return None,
        })
    }

    /// Every key with its value, in the order in which they are printed.
    pub fn keys(&self) -> impl Iterator<Item = (&'static Key, Value)> + '_ {
        SECTIONS
            .iter()
            .filter_map(|name| self.section(name))
            .flat_map(|section| {
                let keys = section.keys().iter().enumerate();
                keys.filter_map(move |(index, key)| Some((key, section.get(index)?)))
            })
    }

    /// Sets `section.name`.
    fn set(&mut self, section: &str, name: &str, raw: Raw<'_>, at: Origin) -> Result<(), ConfigError> {
        let Some(target) = self.section_mut(section) else {
            return Err(self.unknown_section(section, at));
        };
        let keys = target.keys();
        let Some(index) = keys.iter().position(|key| key.name == name) else {
            let path = format!("{section}.{name}");
            return Err(ConfigError::Unknown {
                at,
                what: "key",
                nearest: self.nearest_key(&path),
                name: path,
            });
        };
        let key = &keys[index];
        let refuse = |reason| ConfigError::Value {
            at: at.clone(),
            key: key.path(),
            reason,
        };
        let value = key.kind.check(raw).map_err(refuse)?;
        if !target.set(index, value) {
            return Err(refuse("has a declaration that does not fit its type".to_owned()));
        }
        Ok(())
    }

    fn unknown_section(&self, section: &str, at: Origin) -> ConfigError {
        ConfigError::Unknown {
            at,
            what: "section",
            name: section.to_owned(),
            nearest: nearest(
                section,
                SECTIONS.iter().chain([&file::RULES]).map(|name| (*name).to_owned()),
            ),
        }
    }

    /// The error for a value at the top level of the file, where there are only sections.
    fn without_section(&self, name: &str, at: Origin) -> ConfigError {
        let key = self.keys().map(|(key, _)| key).find(|key| key.name == name);
        if let Some(key) = key {
            return ConfigError::TopLevel {
                at,
                name: key.name,
                section: key.section,
            };
        }
        let similar = nearest(name, self.keys().map(|(key, _)| key.name.to_owned()));
        let key = similar.and_then(|similar| self.keys().map(|(key, _)| key).find(|key| key.name == similar));
        ConfigError::Unknown {
            at,
            what: "key",
            name: name.to_owned(),
            nearest: key.map(Key::path),
        }
    }

    /// The key that is most like `path`: the same name elsewhere, or a few letters away.
    fn nearest_key(&self, path: &str) -> Option<String> {
        let (_, name) = path.split_once('.')?;
        let same_name = self.keys().find(|(key, _)| key.name == name);
        match same_name {
            Some((key, _)) => Some(key.path()),
            None => nearest(path, self.keys().map(|(key, _)| key.path())),
        }
    }

    /// Worker threads to start: `node.workers`, or one a core.
    pub fn worker_count(&self) -> usize {
        match self.node.workers {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            workers => workers,
        }
    }

    /// Where the rule of that number was written, if it comes from a file.
    pub fn rule_origin(&self, number: u32) -> Option<Origin> {
        let line = *self.rule_lines.get(number as usize)?;
        let path = self.file.clone()?;
        Some(Origin::File { path, line })
    }

    /// The name of this node: `node.name`, or the host's.
    pub fn node_name(&self) -> String {
        if !self.node.name.is_empty() {
            return self.node.name.clone();
        }
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        if host.is_empty() { "tollgate".to_owned() } else { host }
    }

    /// Reads what a key refers to and checks what no single key can tell.
    fn finish(&mut self) -> Result<(), ConfigError> {
        let (rules, rules_max) = (self.rules.len(), self.limits.rules);
        if rules > rules_max {
            // The first that is too many.
            let at = self.rule_origin(rules_max as u32);
            return Err(ConfigError::TooManyRules { at, rules, rules_max });
        }
        if let Some(path) = &self.node.lua_dir {
            // What is in it is read when the node starts; here only that it can be.
            std::fs::read_dir(path).map_err(|source| ConfigError::Unreadable {
                path: path.clone(),
                key: "node.lua_dir",
                source,
            })?;
        }
        self.password = match &self.auth.password_file {
            Some(path) => Some(Password::read(path, "auth.password_file")?),
            None => None,
        };
        self.cluster_secret = match &self.cluster.secret_file {
            Some(path) => Some(ClusterSecret::read(path, "cluster.secret_file")?),
            None => None,
        };
        self.check_peer()?;
        if self.password.is_none() && !self.auth.insecure {
            for (key, address) in [
                ("listen.default", Some(&self.listen.default)),
                ("listen.redirect", self.listen.redirect.as_ref()),
                ("admin.address", Some(&self.admin.address)),
            ] {
                if let Some(address) = address.filter(|address| !address.is_loopback()) {
                    return Err(ConfigError::Exposed {
                        key,
                        address: address.to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether the listener for peers is safe, and fit for the nodes to join.
    fn check_peer(&self) -> Result<(), ConfigError> {
        let seeds = &self.cluster.join;
        if self.cluster.peer == PeerListen::Off {
            return match seeds.first() {
                None => Ok(()),
                Some(seed) => Err(ConfigError::JoinWithoutPeer { seed: seed.clone() }),
            };
        }
        let address = self.peer_address();
        let is_elsewhere = |seed: &&String| {
            let seed: Option<SocketAddr> = seed.parse().ok();
            seed.is_some_and(|seed| !seed.ip().to_canonical().is_loopback())
        };
        match seeds.iter().find(is_elsewhere) {
            Some(seed) if address.is_loopback() => Err(ConfigError::PeerOnLoopback {
                address: address.to_string(),
                seed: seed.clone(),
            }),
            _ if !address.is_loopback() && self.cluster_secret.is_none() && !self.auth.insecure => {
                let address = address.to_string();
                Err(ConfigError::ExposedToPeers { address })
            }
            _ => Ok(()),
        }
    }

    /// Where to listen for peers, unless that is off.
    pub fn peer_address(&self) -> ListenAddress {
        match &self.cluster.peer {
            PeerListen::At(address) => address.clone(),
            PeerListen::IfFree | PeerListen::Off => SocketAddr::from((Ipv4Addr::LOCALHOST, PEER_PORT)).into(),
        }
    }
}

/// The name among `names` that is at most a third of its letters away from `name`.
pub(crate) fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    names
        .map(|candidate| (strsim::damerau_levenshtein(name, &candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 6)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
