//! Commands on their way to peers.

use crate::order::Lost;
use crate::remote::{Batch, Lane, Replies};
use crate::worker::Worker;
use std::rc::Rc;
use tokio::sync::oneshot;
use tollgate_commands::{Env, Spec};
use tollgate_protocol::Request;

impl Worker {
    /// Sends commands to a place: to a worker of this node, or to a peer. Those of one connection run there in the order in which they are
    /// sent.
    ///
    /// # Errors
    /// They were not taken.
    pub fn post(
        self: &Rc<Self>,
        place: usize,
        batch: Batch,
        connection: u64,
    ) -> Result<oneshot::Receiver<Replies>, Lost> {
        if place < self.node.workers() {
            return self.node.post_batch(place, batch, Some(Lane::Client(connection)));
        }
        Err(Lost::ShardGone)
    }

    /// Runs one command where its keys are, and writes its reply.
    pub async fn forward_alone(
        self: &Rc<Self>,
        place: usize,
        env: &Env,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        let mut batch = Batch::default();
        batch.push(spec, env, request);
        // A lane of its own: whoever sends it waits for it.
        let lane = self.next_run().0;
        let replies = match self.post(place, batch, lane) {
            Ok(replies) => replies.await.map_err(|_| Lost::ShardGone),
            Err(lost) => Err(lost),
        };
        match &replies {
            Ok(replies) => out.extend_from_slice(replies.get(0).unwrap_or(Lost::ShardGone.reply())),
            Err(lost) => out.extend_from_slice(lost.reply()),
        }
    }
}
