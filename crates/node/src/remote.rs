//! Commands on their way to another worker's shard, and their replies on the way back.

use crate::cluster::Standing;
use tokio::sync::oneshot;
use tollgate_commands::{CommandError, DirectAnswer, DirectCheck};

pub use tollgate_commands::Batch;

/// The replies to a batch.
#[derive(Debug, Default)]
pub struct Replies {
    /// All replies, one after the other.
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<u32>,
    /// The commands, by ascending index, that were not run since their slots are elsewhere; of a batch that a peer sent.
    pub elsewhere: Vec<Elsewhere>,
    /// How to get the rest, if these are not all; only of a batch of a connection of this node ([`Lane::Client`]).
    pub more: Option<Box<More>>,
}

/// A command that was not run since its slot is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its index in the batch.
    pub index: u32,
    /// The slot.
    pub slot: u16,
}

/// The rest of the replies to a batch, which goes on when it is asked for.
#[derive(Debug)]
pub struct More {
    /// Asks for it.
    pub go_on: oneshot::Sender<()>,
    /// Its next part.
    pub replies: oneshot::Receiver<Replies>,
}

impl Replies {
    /// The replies to a batch of which nothing is known yet: all of them are its next part.
    pub fn pending(replies: oneshot::Receiver<Replies>) -> Self {
        // Nobody waits to be asked.
        let (go_on, _) = oneshot::channel();
        Self {
            more: Some(Box::new(More { go_on, replies })),
            ..Self::default()
        }
    }

    /// The slot of the command of that index, if it was not run.
    pub fn elsewhere(&self, index: u32) -> Option<u16> {
        let at = self.elsewhere.binary_search_by_key(&index, |command| command.index);
        at.ok().map(|at| self.elsewhere[at].slot)
    }

    /// The reply to the command of that index.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 {
            0
        } else {
            *self.ends.get(index - 1)? as usize
        };
        self.bytes.get(start..end)
    }
}

/// Where batches come from that are run in the order in which they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// A connection of this node.
    Client(u64),
    /// One of the connections of a peer, by the peer's and its own number.
    Peer(u32, u64),
}

impl Lane {
    /// The connection, if it is one of this node.
    pub fn client(self) -> Option<u64> {
        match self {
            Self::Client(connection) => Some(connection),
            Self::Peer(..) => None,
        }
    }
}

/// What a check that is no command came to.
pub type CheckResult = Result<DirectAnswer, CommandError>;

/// What waits in a shard's mailbox.
#[derive(Debug)]
pub enum Job {
    /// Run these commands.
    Batch {
        /// The commands.
        batch: Batch,
        /// The connection they come from, if it may send more before it has the replies: its batches are run in order.
        connection: Option<Lane>,
        /// Who waits for the replies.
        reply_to: oneshot::Sender<Replies>,
    },
    /// Decide these checks in place of their holder.
    Instead(Standing, Batch, oneshot::Sender<Replies>),
    /// Decide one check, in that database.
    Check(u8, DirectCheck, oneshot::Sender<CheckResult>),
}
