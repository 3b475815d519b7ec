//! `GET /v1/cluster` and `POST /v1/cluster/drain`: how the cluster is, and that a member gives its slots away.

use super::routes::{Routes, authorize, failure, is_json, read_body};
use crate::limits::Bound;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use thiserror::Error;
use tokio::time::timeout;

/// How the cluster is, as the node that was asked sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterReport {
    /// The node that was asked.
    pub node: String,
    /// The hash of its view, in hexadecimal.
    pub view: String,
    /// Whether all members have that view and have answered, nobody is joining, and each slot is where it belongs.
    pub settled: bool,
    /// The members of its view, in the order of their names.
    pub members: Vec<MemberReport>,
    /// Who has died and is still remembered.
    pub dead: Vec<DeadReport>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its name.
    pub name: String,
    /// Wall time of its start, in Unix milliseconds.
    pub generation: u64,
    /// `joining`, `ready`, `leaving`; `suspect` if it did not answer.
    pub state: String,
    /// Its share of the slots in relation to others.
    pub weight: u32,
    /// Its worker threads.
    pub workers: u16,
    /// Where peers reach it.
    pub peer: String,
    /// Where clients reach it.
    pub listen: String,
    /// Where clients of Redis Cluster reach it, if they do.
    pub redirect_listen: Option<String>,
    /// How long gossip has heard nothing of it, in milliseconds.
    pub silent_ms: u64,
    /// The version of its program; none, like all that follows, if it did not answer.
    pub version: Option<String>,
    /// The hash of its own view; of zeros while its workers have not the same.
    pub view: Option<String>,
    /// Its slots.
    pub slots: Option<SlotsReport>,
}

/// What a member says of its slots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsReport {
    /// How many it holds.
    pub held: u32,
    /// How many its view gives it.
    pub target: u32,
    /// Of those that it holds, how many belong to another member.
    pub to_move: u32,
    /// How many are on their way now.
    pub moving: u32,
    /// Slots of which it knows no holder.
    pub unknown: u32,
    /// The highest epoch that it knows.
    pub epoch_max: u64,
    /// Of those that it holds, how many have a follower that is in step.
    pub followed: u32,
    /// Slots that it follows.
    pub replicas: u32,
    /// Of these, those in step.
    pub replicas_in_step: u32,
    /// Followers of its slots that wait for a copy.
    pub copies_waiting: u32,
    /// The age of the oldest change that a follower in step has not acknowledged, in microseconds.
    pub lag_us: u64,
    /// Buckets of which it has admitted tokens in place of others, or while others may have.
    pub journal_buckets: u64,
    /// Those tokens.
    pub journal_tokens: u64,
    /// Of the buckets, those that were sent and are not acknowledged.
    pub journal_unacknowledged: u64,
    /// Tokens that were forgotten since the journals were full.
    pub journal_dropped: u64,
    /// Whether it holds nothing and owes nothing.
    pub drained: bool,
    /// Peers that do not answer it as they should: `suspect`, `open` or `probing`.
    pub circuits: BTreeMap<String, String>,
}

/// A node that has died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadReport {
    /// Its name.
    pub name: String,
    /// Wall time of its start, in Unix milliseconds.
    pub generation: u64,
    /// How long ago it was heard last, in milliseconds.
    pub silent_ms: u64,
}

impl MemberReport {
    /// Whether it has answered, has that view, has its place in the ring or gives it up, and has nothing to give or to take.
    pub fn is_settled(&self, view: &str) -> bool {
        let slots = self.slots.as_ref();
        self.state != "joining"
            && self.view.as_deref() == Some(view)
            && slots.is_some_and(|slots| (slots.to_move, slots.moving, slots.unknown) == (0, 0, 0))
    }
}

/// Why a member does not give its slots away.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DrainError {
    /// The node that was asked is in no cluster. Status 404.
    #[error("this node is in no cluster")]
    NoCluster,
    /// No member has that name. Status 404.
    #[error("no member has the name {0:?}")]
    Unknown(String),
    /// It cannot now. Status 409.
    #[error("{0}")]
    Refused(String),
    /// It did not answer, and may have begun. Status 504.
    #[error("{0:?} does not answer; it may have heard of it all the same")]
    Silent(String),
}

impl DrainError {
    /// What to say of it.
    pub fn reason(&self) -> String {
        self.to_string()
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NoCluster | Self::Unknown(_) => StatusCode::NOT_FOUND,
            Self::Refused(_) => StatusCode::CONFLICT,
            Self::Silent(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// An answer to come.
pub type ClusterFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the admin listener needs of a node to tell about the cluster. As it stands, of one that is in none.
pub trait ClusterBackend: Send + Sync {
    /// Whether the node gives its slots away, or has, although it goes on running.
    fn is_leaving(&self) -> bool {
        false
    }

    /// How the cluster is; none if there is none.
    fn report(&self) -> ClusterFuture<Option<ClusterReport>> {
        Box::pin(async { None })
    }

    /// Has a member give its slots away, or come back.
    fn drain(&self, _name: String, _undo: bool) -> ClusterFuture<Result<(), DrainError>> {
        Box::pin(async { Err(DrainError::NoCluster) })
    }
}

pub(super) async fn status(State(routes): State<Arc<Routes>>, request: Request) -> Response {
    if let Err(refused) = authorize(&routes, request.headers()) {
        return refused;
    }
    match timeout(routes.patience, routes.backend.report()).await {
        Ok(Some(report)) => axum::Json(report).into_response(),
        Ok(None) => drain_failure(&DrainError::NoCluster),
        Err(_) => too_late(&routes),
    }
}

/// The body of `POST /v1/cluster/drain`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainRequest {
    name: String,
    #[serde(default)]
    undo: bool,
}

pub(super) async fn drain(State(routes): State<Arc<Routes>>, request: Request) -> Response {
    order_drain(&routes, request).await.unwrap_or_else(|refused| refused)
}

async fn order_drain(routes: &Routes, request: Request) -> Result<Response, Response> {
    authorize(routes, request.headers())?;
    is_json(request.headers())?;
    let body = read_body(routes, request).await?;
    let wanted: DrainRequest = serde_json::from_slice(&body).map_err(|error| {
        let reason = format!("the body is no JSON object with name and undo: {error}");
        failure(StatusCode::BAD_REQUEST, None, &reason)
    })?;
    match timeout(routes.patience, routes.backend.drain(wanted.name, wanted.undo)).await {
        Ok(Ok(())) => Ok((StatusCode::ACCEPTED, axum::Json(serde_json::json!({}))).into_response()),
        Ok(Err(error)) => Err(drain_failure(&error)),
        Err(_) => Err(too_late(routes)),
    }
}

fn drain_failure(error: &DrainError) -> Response {
    failure(error.status(), None, &error.reason())
}

fn too_late(routes: &Routes) -> Response {
    routes.hit(Bound::AdminRequestMs);
    failure(StatusCode::SERVICE_UNAVAILABLE, None, "the node did not answer in time")
}
