//! Commands on their way to another worker's shard, and their replies on the way back.

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
    /// How to get the rest, if these are not all.
    pub more: Option<Box<More>>,
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
        connection: Option<u64>,
        /// Who waits for the replies.
        reply_to: oneshot::Sender<Replies>,
    },
    /// Decide one check, in that database.
    Check(u8, DirectCheck, oneshot::Sender<CheckResult>),
}
