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
use tollgate_limiter::{QuotaError, Source, format_duration_us};
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
        Ok(Some(Reply::Error(text))) => Err(refusal_of_reply(&String::from_utf8_lossy(&text))),
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
            on_failure,
        } => {
            add("LIMIT", &limit.get().to_string());
            add("PER", &format_duration_us(window.as_us()));
            if let Some(burst) = burst {
                add("BURST", &burst.get().to_string());
            }
            if let Some(policy) = policy {
                add("POLICY", policy);
            }
            add("ON_FAILURE", on_failure.as_str());
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
            on_failure,
        } => (
            database,
            DirectAgainst::Limit {
                limit,
                window,
                burst,
                policy,
                on_failure,
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

/// Why a check got no decision here.
fn refusal(error: CommandError) -> CheckError {
    let text = error.to_string();
    let reason = reason_of(&text);
    let field = match error {
        CommandError::UnknownPolicy(_) => "policy",
        CommandError::UnknownRule(_) => "rule",
        CommandError::LimitRefused { .. } | CommandError::Quota(QuotaError::Limit { .. }) => "limit",
        CommandError::Quota(QuotaError::Burst { .. }) => "burst",
        CommandError::KeyTooLong(_) => "key",
        CommandError::OtherPolicy { .. } | CommandError::WrongType => return CheckError::WrongType(reason),
        CommandError::OutOfMemory | CommandError::TooManyLimits(_) | CommandError::TryAgain => {
            return CheckError::Unavailable(reason);
        }
        _ => return CheckError::Policy(reason),
    };
    CheckError::Invalid { field, reason }
}

/// Why a check got no decision elsewhere, by the error that came from there: as [`refusal`] of that error.
fn refusal_of_reply(text: &str) -> CheckError {
    const FIELDS: [(&str, &str, &str); 5] = [
        ("unknown policy '", "", "policy"),
        ("unknown rule '", "", "rule"),
        ("LIMIT ", "", "limit"),
        ("policy '", "' takes no BURST", "burst"),
        ("key is longer than ", "", "key"),
    ];
    let (code, message) = text.split_once(' ').unwrap_or((text, text));
    let reason = reason_of(text);
    let field = FIELDS
        .into_iter()
        .find(|&(start, end, _)| message.starts_with(start) && message.ends_with(end));
    match (code, field) {
        ("WRONGTYPE", _) => CheckError::WrongType(reason),
        ("ERR", Some((.., field))) => CheckError::Invalid { field, reason },
        ("ERR", None) => CheckError::Policy(reason),
        _ => CheckError::Unavailable(reason),
    }
}

/// An error of RL.CHECK in words that fit HTTP: without its code, and without the field, which is said beside it.
fn reason_of(text: &str) -> String {
    let (_, message) = text.split_once(' ').unwrap_or((text, text));
    let message = message.strip_prefix("LIMIT ").unwrap_or(message);
    // There is no reset here.
    message.replace(
        "; RL.RESET it first",
        ": ask with its own, or reset it with RL.RESET over the Redis protocol",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_the_same_from_here_and_from_elsewhere() {
        let policy = || "p' q".to_owned();
        let invalid = |field, reason: &str| CheckError::Invalid {
            field,
            reason: reason.to_owned(),
        };
        for (error, expected) in [
            (CommandError::UnknownPolicy(policy()), invalid("policy", "unknown policy 'p' q'")),
            (CommandError::UnknownRule(policy()), invalid("rule", "unknown rule 'p' q'")),
            (
                CommandError::Quota(QuotaError::Limit {
                    policy: policy(),
                    limit_max: 7,
                }),
                invalid("limit", "must be at most 7 for policy 'p' q'"),
            ),
            (
                CommandError::LimitRefused {
                    policy: policy(),
                    reason: "r".to_owned(),
                },
                invalid("limit", "is too large for policy 'p' q': r"),
            ),
            (
                CommandError::Quota(QuotaError::Burst { policy: policy() }),
                invalid("burst", "policy 'p' q' takes no BURST"),
            ),
            (
                CommandError::KeyTooLong(9),
                invalid("key", "key is longer than 9 bytes"),
            ),
            (
                CommandError::OtherPolicy {
                    live: "a".to_owned(),
                    asked: "b".to_owned(),
                },
                CheckError::WrongType(
                    "bucket has policy 'a', not 'b': ask with its own, or reset it with RL.RESET over the Redis protocol"
                        .to_owned(),
                ),
            ),
            (
                CommandError::PolicyFault {
                    policy: policy(),
                    reason: "boom".to_owned(),
                },
                CheckError::Policy("policy 'p' q' failed: boom".to_owned()),
            ),
            (
                CommandError::OutOfMemory,
                CheckError::Unavailable("command not allowed when used memory > 'maxmemory'.".to_owned()),
            ),
        ] {
            assert_eq!(refusal_of_reply(&error.to_string()), expected);
            assert_eq!(refusal(error), expected);
        }
        assert_eq!(
            refusal_of_reply("ERR unknown rule 'x' at node 'b'"),
            invalid("rule", "unknown rule 'x' at node 'b'")
        );
    }
}
