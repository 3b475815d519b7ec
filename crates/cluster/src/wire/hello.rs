//! What two nodes say of themselves before anything else, and why one may not want the other.

use super::frame::FrameError;
use crate::Incarnation;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Bytes of one frame of a handshake.
pub const HELLO_BYTES_MAX: usize = 2_048;
/// Bytes of a nonce, which is random and new for each connection.
pub const NONCE_BYTES: usize = 32;

/// Versions of the protocol that a node speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The lowest.
    pub lowest: u16,
    /// The highest.
    pub highest: u16,
}

impl Versions {
    /// What this build speaks.
    pub const OURS: Self = Self {
        lowest: 1,
        highest: if cfg!(feature = "next-version") { 2 } else { 1 },
    };

    /// The highest that both speak.
    pub fn common(self, other: Self) -> Option<u16> {
        let version = self.highest.min(other.highest);
        (version >= self.lowest.max(other.lowest)).then_some(version)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "{}", self.lowest),
            false => write!(f, "{} to {}", self.lowest, self.highest),
        }
    }
}

/// What a node says of itself to every peer.
#[derive(Debug, Clone)]
pub struct Local {
    /// Its name and when it started.
    pub id: Incarnation,
    /// The name of its cluster.
    pub cluster: Arc<str>,
    /// How many workers it has.
    pub workers: u16,
    /// Bytes of one frame that it takes.
    pub frame_bytes_max: usize,
    /// Which versions it speaks: [`Versions::OURS`], but for tests.
    pub versions: Versions,
}

/// The first frame of each side. All versions begin it in this way; later ones may add fields at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Versions that it speaks.
    pub versions: Versions,
    /// Whether it has a cluster secret, and so wants proof of it.
    pub has_secret: bool,
    /// The name of its cluster.
    pub cluster: Arc<str>,
    /// Its name and when it started.
    pub id: Incarnation,
    /// How many workers it has.
    pub workers: u16,
    /// The worker of it that has this connection.
    pub worker: u16,
    /// The name of the node that it means to talk to.
    pub to: Arc<str>,
    /// The worker there that it means to talk to.
    pub to_worker: u16,
    /// Bytes of one frame that it takes.
    pub frame_bytes_max: u32,
    /// New for each connection.
    pub nonce: [u8; NONCE_BYTES],
}

/// Why a connection between two nodes does not come about.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The other side does not begin as a node does.
    #[error("what came is not the protocol of Tollgate's nodes")]
    NotAPeer,
    /// It does, and goes on with something else.
    #[error("a malformed handshake")]
    Malformed,
    /// Its frames are not frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// There is no version of the protocol that both speak.
    #[error("no common version of the protocol: it speaks {theirs}, this node {ours}")]
    NoCommonVersion {
        /// What this node speaks.
        ours: Versions,
        /// What the other speaks.
        theirs: Versions,
    },
    /// It is of another cluster.
    #[error("it is of the cluster {theirs:?}, this node of {ours:?}")]
    OtherCluster {
        /// This node's.
        ours: Arc<str>,
        /// The other's.
        theirs: Arc<str>,
    },
    /// It has no cluster secret, this node has.
    #[error("it has no cluster secret, this node has one")]
    SecretMissing,
    /// It has a cluster secret, this node has not.
    #[error("it has a cluster secret, this node has none")]
    SecretUnwanted,
    /// Its proof is not that of this node's secret.
    #[error("it has another cluster secret")]
    WrongSecret,
    /// One node was meant, another has the address.
    #[error("{wanted:?} was meant, this is {found:?}")]
    OtherName {
        /// Who was meant.
        wanted: Arc<str>,
        /// Who is there.
        found: Arc<str>,
    },
    /// It has this node's own name.
    #[error("it has the name of this node, {0:?}")]
    SameName(Arc<str>),
    /// It means a worker that does not exist.
    #[error("worker {worker} was meant, there are {workers}")]
    NoSuchWorker {
        /// Which.
        worker: u16,
        /// How many there are.
        workers: u16,
    },
    /// It did not finish the handshake in time.
    #[error("it did not finish the handshake in time")]
    Silent,
    /// The other side refused.
    #[error("refused by the other side ({reason}): {text}")]
    Told {
        /// As [`Refusal::reason`] says it there; `other` if this version does not know it.
        reason: &'static str,
        /// In words.
        text: String,
    },
}

impl Refusal {
    /// All that [`Refusal::reason`] can be, for counters.
    pub const REASONS: &'static [&'static str] = &[
        "not_a_peer",
        "malformed",
        "frame",
        "version",
        "cluster",
        "secret_missing",
        "secret_unwanted",
        "secret_wrong",
        "other_name",
        "same_name",
        "worker",
        "silent",
        "other",
    ];

    /// The reason in a word. Of one that the other side gave, its own.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotAPeer => "not_a_peer",
            Self::Malformed => "malformed",
            Self::Frame(_) => "frame",
            Self::NoCommonVersion { .. } => "version",
            Self::OtherCluster { .. } => "cluster",
            Self::SecretMissing => "secret_missing",
            Self::SecretUnwanted => "secret_unwanted",
            Self::WrongSecret => "secret_wrong",
            Self::OtherName { .. } => "other_name",
            Self::SameName(_) => "same_name",
            Self::NoSuchWorker { .. } => "worker",
            Self::Silent => "silent",
            Self::Told { reason, .. } => reason,
        }
    }

    /// Made of what the other side sent.
    pub(super) fn told(told: &Refused<'_>) -> Self {
        let known = Self::REASONS.iter().find(|reason| **reason == told.reason);
        Self::Told {
            reason: known.copied().unwrap_or("other"),
            // It goes to a log: one line of text, whatever came.
            text: told
                .text
                .chars()
                .take(TEXT_CHARS_MAX)
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect(),
        }
    }
}

/// What is kept of the words of a refusal.
const TEXT_CHARS_MAX: usize = 400;

/// A refusal on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refused<'a> {
    /// In a word.
    pub reason: &'a str,
    /// In words for a log.
    pub text: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_that_both_speak() {
        let versions = |lowest, highest| Versions { lowest, highest };
        assert_eq!(versions(1, 1).common(versions(1, 2)), Some(1));
        assert_eq!(versions(1, 3).common(versions(2, 2)), Some(2));
        assert_eq!(versions(1, 1).common(versions(2, 3)), None);
        assert_eq!(versions(4, 5).common(versions(2, 3)), None);
        assert_eq!(versions(2, 3).to_string(), "2 to 3");
    }

    #[test]
    fn what_the_other_side_says_is_one_line_and_has_a_known_reason() {
        let told = Refusal::told(&Refused {
            reason: "of tomorrow",
            text: &"a\nb".repeat(1_000),
        });
        assert_eq!(told.reason(), "other");
        let text = told.to_string();
        assert!(text.chars().count() < 500 && !text.contains('\n'), "{text}");
        let told = Refusal::told(&Refused {
            reason: "version",
            text: "",
        });
        assert_eq!(told.reason(), "version");
    }
}
