//! The admin HTTP listener: health, readiness, metrics, and checks for those who speak no Redis protocol.
//!
//! It runs on a thread of its own, so that a scrape never takes time from a worker, and reaches the node only through
//! [`Backend`]. `/healthz`, `/readyz` and `/metrics` are open to whoever reaches the address; what is below `/v1` asks for the
//! password if there is one.

mod authorization;
mod backend;
mod body;
mod cluster;
mod readiness;
mod routes;
mod stream;
#[cfg(test)]
mod tests;

pub use backend::{Against, CheckAnswer, CheckBackend, CheckError, CheckFuture, CheckRequest};
pub use cluster::{ClusterBackend, ClusterFuture, ClusterReport, DeadReport, DrainError, MemberReport, SlotsReport};
pub use readiness::Readiness;

use crate::config::Config;
use crate::limits::Bound;
use crate::metrics::Metrics;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use routes::Routes;
use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stream::TimedStream;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// Pause after a failed accept, for example when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Longest time that a stopping listener goes on answering.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// What a connection above the bound gets.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\
    content-length: 62\r\n\r\n{\"error\":{\"field\":null,\"reason\":\"too many admin connections\"}}";

/// What the listener needs of a node.
pub trait Backend: CheckBackend + ClusterBackend {}

impl<T: CheckBackend + ClusterBackend> Backend for T {}

/// The running listener. Dropping it stops it.
#[derive(Debug)]
pub struct AdminServer {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Serves on a bound listener, on a thread of its own, until stopped.
    ///
    /// # Errors
    /// If the thread or its runtime cannot start.
    pub fn start(
        listener: TcpListener,
        config: &Config,
        metrics: Arc<Metrics>,
        readiness: Arc<Readiness>,
        backend: Arc<dyn Backend>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let acceptor = Acceptor {
            router: Routes::new(config, Arc::clone(&metrics), readiness, backend).router(),
            metrics,
            head_bytes_max: config.limits.admin_head_bytes,
            patience: Duration::from_millis(config.limits.admin_request_ms as u64),
            connections_max: config.limits.admin_connections,
            stopped,
        };
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            runtime.block_on(async {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => acceptor.run(listener).await,
                    Err(error) => tracing::error!(event = "admin_failed", %error),
                }
            });
        })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Answers what has been asked, closes all connections and waits for the thread to end, at most about a second.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic on it has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes connections on and serves them.
#[derive(Clone)]
struct Acceptor {
    router: Router,
    metrics: Arc<Metrics>,
    head_bytes_max: usize,
    patience: Duration,
    connections_max: usize,
    stopped: watch::Receiver<bool>,
}

impl Acceptor {
    async fn run(self, listener: tokio::net::TcpListener) {
        let places = Arc::new(Semaphore::new(self.connections_max));
        let mut stopped = self.stopped.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = until(&mut stopped) => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(event = "admin_accept_failed", %error);
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => {
                    let acceptor = self.clone();
                    tokio::spawn(async move {
                        acceptor.serve(stream).await;
                        drop(place);
                    });
                }
                Err(_) => {
                    self.metrics.shared.limit_hit(Bound::AdminConnections);
                    // A new connection has room for so little; if not, it is closed without a word.
                    let _ = stream.try_write(TOO_MANY);
                }
            }
        }
        drop(listener);
        // All places are free again once every connection has ended.
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let _ = timeout(STOP_PATIENCE, places.acquire_many(all)).await;
    }

    async fn serve(mut self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.patience)
            .max_buf_size(self.head_bytes_max)
            .half_close(true);
        let io = TokioIo::new(TimedStream::new(stream, self.patience));
        let service = TowerToHyperService::new(self.router);
        let mut connection = pin!(http.serve_connection(io, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = until(&mut self.stopped) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        let Err(error) = ended else { return };
        if error.is_timeout() {
            self.metrics.shared.limit_hit(Bound::AdminRequestMs);
        } else if error.is_parse_too_large() {
            self.metrics.shared.limit_hit(Bound::AdminHeadBytes);
        }
        tracing::debug!(event = "admin_connection_failed", %error);
    }
}

/// Waits until the listener is told to stop, or whoever could tell it is gone.
async fn until(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
