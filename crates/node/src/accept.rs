//! Accepting clients and giving them to the workers.

use crate::limits::Bound;
use crate::node::Node;
use crate::worker::Control;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tollgate_commands::Face;

/// How long to wait after an error such as too many open files, which the next attempt would meet again.
const RETRY: Duration = Duration::from_millis(20);

/// Accepts clients of a face until the node drains. Runs on worker 0; each connection goes to the worker that has the fewest.
pub async fn run(node: Arc<Node>, listener: TcpListener, face: Face) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(event = "accept_failed", %error);
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Dropping the listener refuses those that come now.
            () = node.until_draining() => return,
        };
        match accepted {
            Ok((stream, _)) => match stream.into_std() {
                Ok(stream) => place(&node, stream, face),
                Err(error) => tracing::debug!(event = "connection_lost", %error),
            },
            Err(error) => {
                tracing::warn!(event = "accept_failed", %error);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn place(node: &Node, mut stream: std::net::TcpStream, face: Face) {
    let counters = node.metrics.worker(0);
    if node.connections() >= node.config.limits.connections {
        counters.limit_hit(Bound::Connections);
        counters.connection_rejected();
        // A new socket has room for one line; a client that is gone already does not need it.
        let _ = stream.write_all(format!("-{}\r\n", Bound::Connections.error()).as_bytes());
        return;
    }
    let worker = node.place_connection();
    if !node.order(worker, Control::Serve(stream, face)) {
        node.unplace_connection(worker);
    }
}
