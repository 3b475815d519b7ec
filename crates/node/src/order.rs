//! Replies in the order of requests, although some come from other shards.

use crate::remote::{Elsewhere, Replies};

/// Where the reply to one command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The next of the local replies.
    Local,
    /// In the replies of that batch, at that index.
    Batch {
        /// The number of the batch.
        batch: u32,
        /// The index in it.
        index: u32,
    },
}

/// The origins of the replies of a segment of a turn, on a node with several workers.
#[derive(Debug, Default)]
pub struct Order {
    origins: Vec<Origin>,
}

impl Order {
    /// Notes that the next `count` replies are local.
    pub fn local(&mut self, count: usize) {
        self.origins.extend(std::iter::repeat_n(Origin::Local, count));
    }

    /// Notes that the next reply comes from a batch.
    pub fn remote(&mut self, batch: usize, index: usize) {
        // Both count commands of one read.
        self.origins.push(Origin::Batch {
            batch: batch as u32,
            index: index as u32,
        });
    }

    /// Where the replies are, in their order.
    pub fn origins(&self) -> impl Iterator<Item = Origin> {
        self.origins.iter().copied()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.origins.clear();
    }

    /// Writes the replies in order: `local` are the local ones with their ends, `batches` those of each batch, which are all of it, or an
    /// error for a batch that was lost, which is the answer to all its commands.
    pub fn splice(&self, local: &[u8], local_ends: &[u32], batches: &[Result<Replies, Lost>], out: &mut Vec<u8>) {
        let mut ends = local_ends.iter().map(|&end| end as usize);
        let mut start = 0;
        for origin in &self.origins {
            match *origin {
                Origin::Local => {
                    let end = ends.next().unwrap_or(local.len());
                    out.extend_from_slice(&local[start..end]);
                    start = end;
                }
                Origin::Batch { batch, index } => match &batches[batch as usize] {
                    Ok(replies) => {
                        out.extend_from_slice(replies.get(index as usize).unwrap_or(Lost::ShardGone.reply()))
                    }
                    Err(lost) => out.extend_from_slice(lost.reply()),
                },
            }
        }
        debug_assert_eq!(start, local.len());
    }

    /// As [`Order::splice`], with where each reply ends, and which commands were not run: those that batches say were not.
    pub fn splice_all(
        &self,
        local: &[u8],
        local_ends: &[u32],
        batches: &[Result<Replies, Lost>],
        replies: &mut Replies,
    ) {
        let mut ends = local_ends.iter().map(|&end| end as usize);
        let mut start = 0;
        for (at, origin) in self.origins.iter().enumerate() {
            match *origin {
                Origin::Local => {
                    let end = ends.next().unwrap_or(local.len());
                    replies.bytes.extend_from_slice(&local[start..end]);
                    start = end;
                }
                Origin::Batch { batch, index } => match &batches[batch as usize] {
                    Ok(answered) => {
                        if let Some(slot) = answered.elsewhere(index) {
                            let index = at as u32;
                            replies.elsewhere.push(Elsewhere { index, slot });
                        }
                        let reply = answered.get(index as usize);
                        replies
                            .bytes
                            .extend_from_slice(reply.unwrap_or(Lost::ShardGone.reply()));
                    }
                    Err(lost) => replies.bytes.extend_from_slice(lost.reply()),
                },
            }
            replies.ends.push(replies.bytes.len() as u32);
        }
    }
}

/// Why a batch has no replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The shard's mailbox was full.
    MailboxFull,
    /// The shard is gone: the node is shutting down.
    ShardGone,
}

impl Lost {
    /// The reply to each command of the batch.
    pub fn reply(self) -> &'static [u8] {
        match self {
            Self::MailboxFull => b"-BUSY shard mailbox is full, try again\r\n",
            Self::ShardGone => b"-TRYAGAIN the node is shutting down\r\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splices_in_order() {
        let mut order = Order::default();
        order.local(1);
        order.remote(0, 0);
        order.remote(1, 0);
        order.local(2);
        order.remote(0, 1);
        let batches = [
            Ok(Replies {
                bytes: b"+a\r\n+bb\r\n".to_vec(),
                ends: vec![4, 9],
                more: None,
                elsewhere: Vec::new(),
            }),
            Err(Lost::MailboxFull),
        ];
        let mut out = Vec::new();
        order.splice(b":1\r\n:22\r\n:3\r\n", &[4, 9, 13], &batches, &mut out);
        assert_eq!(
            out,
            b":1\r\n+a\r\n-BUSY shard mailbox is full, try again\r\n:22\r\n:3\r\n+bb\r\n"
        );
    }
}
