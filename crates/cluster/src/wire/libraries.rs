//! Libraries of functions of clients, which all nodes have: of each the newest version wins.

use super::message::{Kind, Message};
use serde::{Deserialize, Serialize};

/// Tells a node of changes of the libraries, and asks it for those that the sender does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libraries<'a> {
    /// The newest flush of all libraries that the sender knows: what is older is gone.
    #[serde(borrow)]
    pub flushed: LibraryVersion<'a>,
    /// Changes.
    pub changes: Vec<LibraryChange<'a>>,
    /// What the sender knows, by name, if it wants to be told what is newer.
    pub known: Option<Vec<(&'a str, LibraryVersion<'a>)>>,
}

/// Which change: of two, the one with the higher counter is newer, then that of the greater name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LibraryVersion<'a> {
    /// One more than the highest that the node knew which made the change.
    pub counter: u64,
    /// That node's name.
    pub node: &'a str,
}

/// A library that was loaded or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryChange<'a> {
    /// Its name.
    pub name: &'a str,
    /// Which change that was.
    #[serde(borrow)]
    pub version: LibraryVersion<'a>,
    /// Its text; none if it was deleted.
    pub text: Option<&'a [u8]>,
}

impl<'a> Message<'a> for Libraries<'a> {
    const KIND: Kind = Kind::Libraries;
}

/// Answers a [`Libraries`], once the changes have taken effect: what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibrariesAnswer<'a> {
    /// The newest flush that is known.
    #[serde(borrow)]
    pub flushed: LibraryVersion<'a>,
    /// What is newer than the asker knows, or the first of that.
    pub changes: Vec<LibraryChange<'a>>,
    /// Whether there is more: ask again.
    pub more: bool,
}

impl<'a> Message<'a> for LibrariesAnswer<'a> {
    const KIND: Kind = Kind::LibrariesAnswer;
}
