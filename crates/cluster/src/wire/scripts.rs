//! Scripts of clients that all nodes know.

use super::message::{Kind, Message};
use serde::{Deserialize, Serialize};

/// Tells or asks a node something about scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scripts<'a> {
    /// What.
    #[serde(borrow)]
    pub what: ScriptsAsk<'a>,
}

/// What there is to tell or ask. Variants are only added at the end, and only sent to versions that know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptsAsk<'a> {
    /// Know this script.
    Load {
        /// Its text.
        text: &'a [u8],
    },
    /// Send the text of a script.
    Find {
        /// Its SHA-1 in 40 lower-case hexadecimal digits.
        sha1: &'a str,
    },
    /// Say which of these are known.
    Exist {
        /// SHA-1s, as in `Find`.
        #[serde(borrow)]
        sha1s: Vec<&'a str>,
    },
    /// Forget all scripts.
    Flush,
}

impl<'a> Message<'a> for Scripts<'a> {
    const KIND: Kind = Kind::Scripts;
}

/// Answers a [`Scripts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptsAnswer<'a> {
    /// What it came to.
    #[serde(borrow)]
    pub answer: ScriptsTold<'a>,
}

/// What it came to. Variants are only added at the end, and only sent to versions that know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptsTold<'a> {
    /// It is done.
    Done,
    /// The text, if it is known.
    Found {
        /// The text.
        text: Option<&'a [u8]>,
    },
    /// Which are known, in the order in which they were asked for.
    Known {
        /// Whether each is.
        known: Vec<bool>,
    },
    /// It cannot be done: there is no room.
    NotDone,
}

impl<'a> Message<'a> for ScriptsAnswer<'a> {
    const KIND: Kind = Kind::ScriptsAnswer;
}
