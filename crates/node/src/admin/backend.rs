//! What the admin listener needs of a node: somebody who decides a check.

use serde::Serialize;
use std::future::Future;
use std::pin::Pin;
use thiserror::Error;
use tollgate_limiter::{Burst, Cost, Limit, OnFailure, Window};

/// A check that came over HTTP; every value is in its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRequest {
    /// The key.
    pub key: Vec<u8>,
    /// What it is measured against.
    pub against: Against,
    /// Tokens to take.
    pub cost: Cost,
    /// Look without taking anything.
    pub peek: bool,
}

/// What a check is measured against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// A limit in the request.
    Limit {
        /// The database of the bucket.
        database: u8,
        /// Tokens per window.
        limit: Limit,
        /// The window.
        window: Window,
        /// The capacity, if given.
        burst: Option<Burst>,
        /// The policy's name, if given. Whether there is one of that name is for the backend to say.
        policy: Option<String>,
        /// What happens when nobody who has the bucket can be asked.
        on_failure: OnFailure,
    },
    /// A rule of the node, by its id. Whether there is one is for the backend to say.
    Rule(String),
}

/// What a check came to; the fields are those of RL.CHECK.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckAnswer {
    /// Whether the cost was taken (or, for a peek, would have been).
    pub allowed: bool,
    /// The limit.
    pub limit: u64,
    /// Whole tokens left.
    pub remaining: u64,
    /// Milliseconds until the same check would be admitted: 0 when allowed, -1 when never.
    pub retry_after_ms: i64,
    /// Unix time in milliseconds at which the bucket is full again if left alone.
    pub reset_at_ms: u64,
    /// Who decided.
    pub source: &'static str,
}

/// Why a check got no decision.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckError {
    /// A field that only the node could check, for example a policy that does not exist. Status 400.
    #[error("{reason}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The key holds something else. Status 409.
    #[error("{0}")]
    WrongType(String),
    /// The policy failed. Status 500.
    #[error("{0}")]
    Policy(String),
    /// The node cannot take it now: a full mailbox, no memory, shutting down. Status 503.
    #[error("{0}")]
    Unavailable(String),
}

/// The answer to come.
pub type CheckFuture = Pin<Box<dyn Future<Output = Result<CheckAnswer, CheckError>> + Send>>;

/// Somebody who decides checks.
pub trait CheckBackend: Send + Sync {
    /// Decides one check.
    fn check(&self, request: CheckRequest) -> CheckFuture;
}
