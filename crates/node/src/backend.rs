//! Checks over HTTP, on their way to the shards.

use crate::admin::{
    Against, CheckAnswer, CheckBackend, CheckError, CheckFuture, CheckRequest, ClusterBackend, ClusterFuture,
    ClusterReport, DrainError,
};
use crate::limits::Bound;
use crate::node::{Node, Place};
use crate::order::Lost;
use crate::remote::Batch;
use bytes::BytesMut;
use std::sync::Arc;
use tollgate_commands::{CommandError, DirectAgainst, DirectAnswer, DirectCheck, Env};
use tollgate_limiter::{Source, format_duration_us};
use tollgate_protocol::{Proto, Reply, decode_reply};
use tollgate_store::slot_of;

/// Sends checks to the mailboxes of a node's shards.
#[derive(Debug)]
pub struct Mailboxes(pub Arc<Node>);

impl CheckBackend for Mailboxes {
    fn check(&self, request: CheckRequest) -> CheckFuture {
        let node = Arc::clone(&self.0);
        Box::pin(async move {
            let slot = slot_of(&request.key);
            let owner = node.owner(slot);
            let (db, check) = direct(request);
            if node.place(slot) != Place::Of(owner) {
                return ask_elsewhere(&node, owner, db, &check).await;
            }
            let again = node.cluster.is_some().then(|| check.clone());
            let posted = node.post_check(owner, db, check).map_err(|lost| {
                if lost == Lost::MailboxFull {
                    node.metrics.shared.limit_hit(Bound::MailboxBatches);
                }
                unavailable(lost)
            })?;
            let decided = posted.await.map_err(|_| unavailable(Lost::ShardGone))?;
            match (decided, again) {
                // Its slot has gone meanwhile, or is about to.
                (Err(CommandError::TryAgain), Some(check)) => ask_elsewhere(&node, owner, db, &check).await,
                (decided, _) => decided.map(answer).map_err(refusal),
            }
        })
    }
}

impl ClusterBackend for Mailboxes {
    fn is_leaving(&self) -> bool {
        self.0.cluster.as_ref().is_some_and(|cluster| cluster.is_leaving())
    }

    fn report(&self) -> ClusterFuture<Option<ClusterReport>> {
        let node = Arc::clone(&self.0);
        Box::pin(async move { crate::cluster::report(&node).await })
    }

    fn drain(&self, name: String, undo: bool) -> ClusterFuture<Result<(), DrainError>> {
        let node = Arc::clone(&self.0);
        Box::pin(async move { crate::cluster::drain(&node, &name, undo).await })
    }
}

/// Asks through the shard that would have the key, which looks for who has it.
async fn ask_elsewhere(node: &Node, owner: usize, db: u8, check: &DirectCheck) -> Result<CheckAnswer, CheckError> {
    let unknown = || CheckError::Unavailable("nobody has answered".to_owned());
    let spec = node.commands.find(b"rl.check").ok_or_else(unknown)?;
    let args = arguments(check);
    let env = Env {
        db,
        proto: Proto::Resp2,
        // From then on it is waited for.
        now_us: node.clock.now_us(),
        wall_offset_us: 0,
    };
    let mut batch = Batch::default();
    batch.push_args(spec, &env, args.iter().map(Vec::as_slice));
    let posted = node.post_batch(owner, batch, None).map_err(unavailable)?;
    let replies = posted.await.map_err(|_| unavailable(Lost::ShardGone))?;
    let reply = replies.get(0).unwrap_or_default();
    let decoded = decode_reply(&mut BytesMut::from(reply), Proto::Resp2);
    match decoded {
        Ok(Some(Reply::Array(fields))) => answer_of(&fields).ok_or_else(unknown),
        Ok(Some(Reply::Error(text))) => {
            let text = String::from_utf8_lossy(&text);
            let (code, reason) = text.split_once(' ').unwrap_or((&text, &text));
            Err(match code {
                "WRONGTYPE" => CheckError::WrongType(reason.to_owned()),
                "ERR" => CheckError::Policy(reason.to_owned()),
                _ => CheckError::Unavailable(reason.to_owned()),
            })
        }
        _ => Err(unknown()),
    }
}

/// A check as RL.CHECK takes it.
fn arguments(check: &DirectCheck) -> Vec<Vec<u8>> {
    let mut args = vec![b"RL.CHECK".to_vec(), check.key.clone()];
    let mut add = |name: &str, value: &str| args.extend([name.as_bytes().to_vec(), value.as_bytes().to_vec()]);
    match &check.against {
        DirectAgainst::Limit {
            limit,
            window,
            burst,
            policy,
        } => {
            add("LIMIT", &limit.get().to_string());
            add("PER", &format_duration_us(window.as_us()));
            if let Some(burst) = burst {
                add("BURST", &burst.get().to_string());
            }
            if let Some(policy) = policy {
                add("POLICY", policy);
            }
        }
        DirectAgainst::Rule(id) => add("RULE", id),
    }
    add("COST", &check.cost.get().to_string());
    if check.peek {
        args.push(b"PEEK".to_vec());
    }
    args
}

/// What the reply of RL.CHECK says.
fn answer_of(fields: &[Reply]) -> Option<CheckAnswer> {
    let number = |at: usize| match fields.get(at) {
        Some(Reply::Int(number)) => Some(*number),
        _ => None,
    };
    let source = match fields.get(5)? {
        Reply::Bulk(word) => [Source::Owner, Source::Heir, Source::Local]
            .into_iter()
            .find(|source| source.as_str().as_bytes() == &**word)?,
        _ => return None,
    };
    Some(CheckAnswer {
        allowed: number(0)? == 1,
        limit: u64::try_from(number(1)?).ok()?,
        remaining: u64::try_from(number(2)?).ok()?,
        retry_after_ms: number(3)?,
        reset_at_ms: u64::try_from(number(4)?).ok()?,
        source: source.as_str(),
    })
}

fn direct(request: CheckRequest) -> (u8, DirectCheck) {
    let (db, against) = match request.against {
        Against::Limit {
            database,
            limit,
            window,
            burst,
            policy,
        } => (
            database,
            DirectAgainst::Limit {
                limit,
                window,
                burst,
                policy,
            },
        ),
        Against::Rule(id) => (0, DirectAgainst::Rule(id)),
    };
    (
        db,
        DirectCheck {
            key: request.key,
            against,
            cost: request.cost,
            peek: request.peek,
        },
    )
}

fn answer(answer: DirectAnswer) -> CheckAnswer {
    let decision = answer.decision;
    CheckAnswer {
        allowed: decision.allowed,
        limit: decision.limit,
        remaining: decision.remaining,
        // Far below 2^63.
        retry_after_ms: decision
            .retry_after_us
            .map_or(-1, |us| tollgate_limiter::us_to_ms_ceil(us) as i64),
        reset_at_ms: answer.reset_at_ms,
        source: decision.source.as_str(),
    }
}

fn unavailable(lost: Lost) -> CheckError {
    CheckError::Unavailable(match lost {
        Lost::MailboxFull => "shard mailbox is full, try again".to_owned(),
        Lost::ShardGone => "the node is shutting down".to_owned(),
    })
}

fn refusal(error: CommandError) -> CheckError {
    let text = error.to_string();
    let reason = text
        .split_once(' ')
        .map_or(text.as_str(), |(_, reason)| reason)
        .to_owned();
    match error {
        CommandError::UnknownPolicy(_) => CheckError::Invalid {
            field: "policy",
            reason,
        },
        CommandError::UnknownRule(_) => CheckError::Invalid { field: "rule", reason },
        CommandError::LimitRefused { .. } => CheckError::Invalid { field: "limit", reason },
        CommandError::Burst(_) => CheckError::Invalid { field: "burst", reason },
        CommandError::KeyTooLong(_) => CheckError::Invalid { field: "key", reason },
        CommandError::OtherPolicy { .. } | CommandError::WrongType => CheckError::WrongType(reason),
        CommandError::OutOfMemory | CommandError::TooManyLimits(_) | CommandError::TryAgain => {
            CheckError::Unavailable(reason)
        }
        _ => CheckError::Policy(reason),
    }
}
