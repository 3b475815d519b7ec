//! The paths of the admin listener.

use super::Backend;
use super::authorization;
use super::backend::CheckError;
use super::body;
use super::cluster;
use super::readiness::Readiness;
use crate::config::{Config, Password};
use crate::limits::{Bound, KEY_BYTES_MAX};
use crate::metrics::{CONTENT_TYPE as METRICS_CONTENT_TYPE, Metrics};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What the routes need.
pub(super) struct Routes {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Whether the node serves.
    pub readiness: Arc<Readiness>,
    /// Who decides checks, and knows of the cluster.
    pub backend: Arc<dyn Backend>,
    password: Option<Password>,
    body_bytes_max: usize,
    /// How long an answer may take.
    pub patience: Duration,
}

impl Routes {
    /// Takes what a configuration says of them.
    pub(super) fn new(
        config: &Config,
        metrics: Arc<Metrics>,
        readiness: Arc<Readiness>,
        backend: Arc<dyn Backend>,
    ) -> Self {
        Self {
            metrics,
            readiness,
            backend,
            password: config.password.clone(),
            body_bytes_max: config.limits.admin_body_bytes,
            patience: Duration::from_millis(config.limits.admin_request_ms as u64),
        }
    }

    /// The router.
    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/v1/check", post(check))
            .route("/v1/cluster", get(cluster::status))
            .route("/v1/cluster/drain", post(cluster::drain))
            .fallback(async || failure(StatusCode::NOT_FOUND, None, "there is nothing at this path"))
            .method_not_allowed_fallback(async || {
                failure(
                    StatusCode::METHOD_NOT_ALLOWED,
                    None,
                    "this path does not take this method",
                )
            })
            .with_state(Arc::new(self))
    }

    pub(super) fn hit(&self, bound: Bound) {
        self.metrics.shared.limit_hit(bound);
    }
}

/// The process lives: that it answers is the proof.
async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(routes): State<Arc<Routes>>) -> Response {
    let leaving = || routes.backend.is_leaving().then_some("leaving");
    match routes.readiness.reason().or_else(leaving) {
        None => "ok\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(routes): State<Arc<Routes>>) -> Response {
    ([(CONTENT_TYPE, METRICS_CONTENT_TYPE)], routes.metrics.render()).into_response()
}

async fn check(State(routes): State<Arc<Routes>>, request: Request) -> Response {
    decide(&routes, request).await.unwrap_or_else(|failure| failure)
}

/// Decides a check; the error is the response that says why there is no decision.
async fn decide(routes: &Routes, request: Request) -> Result<Response, Response> {
    authorize(routes, request.headers())?;
    is_json(request.headers())?;
    let body = read_body(routes, request).await?;
    let request = body::parse(&body, KEY_BYTES_MAX)
        .map_err(|error| failure(StatusCode::BAD_REQUEST, error.field.as_deref(), &error.reason))?;
    match timeout(routes.patience, routes.backend.check(request)).await {
        Ok(Ok(answer)) => Ok(axum::Json(answer).into_response()),
        Ok(Err(error)) => Err(check_failure(&error)),
        Err(_) => {
            routes.hit(Bound::AdminRequestMs);
            Err(failure(
                StatusCode::SERVICE_UNAVAILABLE,
                None,
                "the node did not answer in time",
            ))
        }
    }
}

/// Whether a request carries the password, if there is one; the error is the response that says that it does not.
#[expect(clippy::result_large_err, reason = "a response, as everywhere here")]
pub(super) fn authorize(routes: &Routes, headers: &HeaderMap) -> Result<(), Response> {
    let Some(password) = &routes.password else {
        return Ok(());
    };
    if authorization::carries(headers, password) {
        return Ok(());
    }
    let mut response = failure(StatusCode::UNAUTHORIZED, None, "the password is missing or wrong");
    let realm = axum::http::HeaderValue::from_static("Basic realm=\"tollgate\", charset=\"UTF-8\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, realm);
    Err(response)
}

/// Whether a request says that its body is JSON; the error is the response that asks for it. Also what keeps web pages from asking through
/// their visitor's browser: they cannot send JSON unasked.
#[expect(clippy::result_large_err, reason = "a response, as everywhere here")]
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Response> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    match essence.trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(failure(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            None,
            "the content type must be application/json",
        )),
    }
}

pub(super) async fn read_body(routes: &Routes, request: Request) -> Result<axum::body::Bytes, Response> {
    let too_large = || {
        routes.hit(Bound::AdminBodyBytes);
        let reason = format!("the body is larger than {} bytes", routes.body_bytes_max);
        failure(StatusCode::PAYLOAD_TOO_LARGE, None, &reason)
    };
    let declared = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > routes.body_bytes_max as u64) {
        return Err(too_large());
    }
    let body: Limited<Body> = Limited::new(request.into_body(), routes.body_bytes_max);
    match timeout(routes.patience, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(failure(StatusCode::BAD_REQUEST, None, "the body is cut short")),
        Err(_) => {
            routes.hit(Bound::AdminRequestMs);
            Err(failure(
                StatusCode::REQUEST_TIMEOUT,
                None,
                "the body did not arrive in time",
            ))
        }
    }
}

fn check_failure(error: &CheckError) -> Response {
    let (status, field) = match error {
        CheckError::Invalid { field, .. } => (StatusCode::BAD_REQUEST, Some(*field)),
        CheckError::WrongType(_) => (StatusCode::CONFLICT, None),
        CheckError::Policy(_) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        CheckError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    failure(status, field, &error.to_string())
}

/// `{"error":{"field":…,"reason":…}}`; `field` is null when the failure is not of one field.
pub(super) fn failure(status: StatusCode, field: Option<&str>, reason: &str) -> Response {
    let body = json!({"error": {"field": field, "reason": reason}});
    (status, axum::Json(body)).into_response()
}
