//! Commands over several shards: carries operations to them and answers back.

use crate::cluster::Unanswered;
use crate::limits::Bound;
use crate::node::Place;
use crate::order::Lost;
use crate::remote::{Batch, Replies};
use crate::stretch::Stretch;
use crate::worker::Worker;
use std::rc::Rc;
use tollgate_commands::{
    CommandError, Env, Face, KeyspaceAnswer, KeyspaceCommand, KeyspaceOp, KeyspaceRun, NodeView, Spec,
};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_store::{SLOTS, slot_of};

/// Keys of one command that are worked on at a stretch; a command with more goes on after others had their chance.
pub const KEYS_AT_ONCE: usize = 256;

/// Whose keys a command over all keys is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those of this node, which is in no cluster, or alone in it.
    Node,
    /// Those of this node, which has others beside it.
    OwnPart,
    /// Those of all nodes.
    All,
}

impl Scope {
    fn of(worker: &Worker, command: KeyspaceCommand, face: Face) -> Self {
        // What changes keys, and cursors, must stay right when others join.
        let is_for_a_moment = matches!(command, KeyspaceCommand::DbSize | KeyspaceCommand::RandomKey);
        match worker.node.cluster {
            None => Self::Node,
            // As in Redis Cluster, whose clients ask each node.
            Some(_) if face.redirects() => Self::OwnPart,
            Some(_) if is_for_a_moment && !worker.has_peers() => Self::Node,
            Some(_) => Self::All,
        }
    }
}

/// Runs a command over all keys and writes its reply. `has_node` says whether the node is the caller's already.
pub async fn run(
    worker: &Rc<Worker>,
    env: &Env,
    (command, face): (KeyspaceCommand, Face),
    request: Request<'_>,
    out: &mut Vec<u8>,
    has_node: bool,
) {
    let node = &worker.node;
    let scope = Scope::of(worker, command, face);
    // A cluster is like one shard that has all slots, wherever those are.
    let slots = match scope {
        Scope::Node | Scope::OwnPart => node.shard_slots(),
        Scope::All => std::iter::once(0..SLOTS).collect(),
    };
    let finished = match KeyspaceRun::new(command, env, request, slots, node.keyspace_limits()) {
        Ok(run) => carry(worker, run, (scope, has_node)).await,
        Err(error) => Err(error.into()),
    };
    match finished {
        Ok(run) => run.finish(env, out),
        Err(Stopped::Error(error)) => {
            match error {
                CommandError::TooManyKeys => worker.counters().limit_hit(Bound::KeysReply),
                CommandError::PatternTooLong(_) => worker.counters().limit_hit(Bound::PatternBytes),
                _ => {}
            }
            error.write(out, env.proto);
        }
        Err(Stopped::Lost(lost)) => out.extend_from_slice(lost.reply()),
        Err(Stopped::Unanswered(unanswered)) => {
            let text = match command.empties() {
                true => format!("not everything is flushed: {unanswered}"),
                false => unanswered.to_string(),
            };
            ReplyWriter::new(out, env.proto).error("CLUSTERDOWN", &text);
        }
    }
}

/// Why a command over several shards came to no end.
enum Stopped {
    Error(CommandError),
    Lost(Lost),
    Unanswered(Unanswered),
}

impl From<CommandError> for Stopped {
    fn from(error: CommandError) -> Self {
        Self::Error(error)
    }
}

async fn carry(
    worker: &Rc<Worker>,
    mut run: KeyspaceRun,
    (scope, has_node): (Scope, bool),
) -> Result<KeyspaceRun, Stopped> {
    while let Some((shard, op)) = run.ask() {
        let answer = match (scope, op) {
            (Scope::All, op) => worker
                .keyspace_everywhere(op, has_node)
                .await
                .map_err(Stopped::Unanswered)?,
            (Scope::OwnPart, KeyspaceOp::Flush { db }) => {
                // With the first of them all are flushed.
                if shard == 0 {
                    worker.flush_node(db, has_node).await?;
                }
                KeyspaceAnswer::Flushed
            }
            (_, op) => ask(worker, shard, op).await.map_err(|lost| {
                note(worker, lost);
                Stopped::Lost(lost)
            })?,
        };
        run.take(answer)?;
    }
    Ok(run)
}

async fn ask(worker: &Rc<Worker>, shard: usize, op: KeyspaceOp) -> Result<KeyspaceAnswer, Lost> {
    if shard != worker.index {
        return worker.node.ask_keyspace(shard, op).await.map_err(|_| Lost::ShardGone);
    }
    let stretch = Stretch::long();
    let answer = worker
        .shard
        .borrow_mut()
        .keyspace(&op, worker.node.clock.at(stretch.started()));
    stretch.end(worker.counters());
    // The next step may be as long: others first.
    tokio::task::yield_now().await;
    Ok(answer)
}

fn note(worker: &Worker, lost: Lost) {
    if lost == Lost::MailboxFull {
        worker.counters().limit_hit(Bound::MailboxBatches);
    }
}

/// Runs a command that does the same to each of its keys, in the shards that have them, and answers the sum. If one shard
/// cannot take it, the answer is that error, although others have done their part.
pub async fn run_each_key(
    worker: &Rc<Worker>,
    env: &Env,
    spec: &'static Spec,
    request: Request<'_>,
    out: &mut Vec<u8>,
) {
    let keys: Vec<&[u8]> = request.iter().skip(1).collect();
    let mut sum = 0;
    for keys in keys.chunks(KEYS_AT_ONCE) {
        match run_some_keys(worker, env, spec, request.arg(0), keys).await {
            Ok(count) => sum += count,
            Err(error) => return out.extend_from_slice(&error),
        }
    }
    ReplyWriter::new(out, env.proto).int(sum);
}

/// Runs such a command for a few keys. The error is a whole reply.
async fn run_some_keys(
    worker: &Rc<Worker>,
    env: &Env,
    spec: &'static Spec,
    name: &[u8],
    keys: &[&[u8]],
) -> Result<i64, Vec<u8>> {
    let mut by_owner: Vec<Vec<&[u8]>> = vec![vec![name]; worker.node.workers()];
    for key in keys {
        let slot = slot_of(key);
        let place = match worker.node.place(slot) {
            Place::Of(place) => place,
            // The shard's mailbox waits, and looks for the slot if it goes.
            Place::Closing => worker.node.owner(slot),
        };
        if by_owner.len() <= place {
            by_owner.resize_with(place + 1, || vec![name]);
        }
        by_owner[place].push(key);
    }
    let mut waiting = Vec::new();
    for (owner, args) in by_owner.iter().enumerate().filter(|(_, args)| args.len() > 1) {
        let mut batch = Batch::default();
        batch.push_args(spec, env, args.iter().copied());
        // This worker's own shard is asked through its mailbox, too: the command runs there like the other parts.
        // It is waited for below, so nothing of this connection can overtake it.
        waiting.push(match owner < worker.node.workers() {
            true => worker.node.post_batch(owner, batch, None),
            // A lane of its own: it is waited for below.
            false => worker.post(owner, batch, worker.next_run().0),
        });
    }
    let mut sum = 0;
    let mut failed = None;
    for posted in waiting {
        let replies = match posted {
            Ok(replies) => replies.await.map_err(|_| Lost::ShardGone),
            Err(lost) => Err(lost),
        };
        match replies.as_ref().map(integer) {
            Ok(Ok(count)) => sum += count,
            Ok(Err(error)) => failed = Some(error.to_vec()),
            Err(lost) => {
                note(worker, *lost);
                failed = Some(lost.reply().to_vec());
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(sum),
    }
}

/// The integer that the only reply is, or the reply if it is something else.
fn integer(replies: &Replies) -> Result<i64, &[u8]> {
    let reply = replies.get(0).unwrap_or_default();
    let digits = reply.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b"\r\n"));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.ok_or(reply)
}
