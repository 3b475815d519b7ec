//! Checks over HTTP, on their way to the shards.

use crate::admin::{Against, CheckAnswer, CheckBackend, CheckError, CheckFuture, CheckRequest};
use crate::limits::Bound;
use crate::node::Node;
use crate::order::Lost;
use std::sync::Arc;
use tollgate_commands::{CommandError, DirectAgainst, DirectAnswer, DirectCheck};
use tollgate_store::slot_of;

/// Sends checks to the mailboxes of a node's shards.
#[derive(Debug)]
pub struct Mailboxes(pub Arc<Node>);

impl CheckBackend for Mailboxes {
    fn check(&self, request: CheckRequest) -> CheckFuture {
        let node = Arc::clone(&self.0);
        Box::pin(async move {
            let owner = node.owner(slot_of(&request.key));
            let (db, check) = direct(request);
            let posted = node.post_check(owner, db, check).map_err(|lost| {
                if lost == Lost::MailboxFull {
                    node.metrics.shared.limit_hit(Bound::MailboxBatches);
                }
                unavailable(lost)
            })?;
            let decided = posted.await.map_err(|_| unavailable(Lost::ShardGone))?;
            decided.map(answer).map_err(refusal)
        })
    }
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
        CommandError::OutOfMemory | CommandError::TooManyLimits(_) => CheckError::Unavailable(reason),
        _ => CheckError::Policy(reason),
    }
}
