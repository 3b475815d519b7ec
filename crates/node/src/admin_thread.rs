//! The admin listener as part of a node.

use crate::admin::{AdminServer, Readiness};
use crate::backend::Mailboxes;
use crate::config::Config;
use crate::node::Node;
use crate::server::ServeError;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// A listener that does not serve yet: its address is taken before anything else starts.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Takes the admin address.
pub fn bind(config: &Config) -> Result<Bound, ServeError> {
    let address = config.admin.address.socket();
    let listener = crate::listen::bind(address, config.listen.backlog);
    let listener = listener.map_err(|source| ServeError::Listen {
        key: "admin.address",
        address,
        source,
    })?;
    let address = listener.local_addr()?;
    Ok(Bound { listener, address })
}

impl Bound {
    /// Begins to serve.
    pub fn start(self, node: &Arc<Node>, readiness: &Arc<Readiness>) -> Result<AdminServer, ServeError> {
        let backend = Arc::new(Mailboxes(Arc::clone(node)));
        Ok(AdminServer::start(
            self.listener,
            &node.config,
            Arc::clone(&node.metrics),
            Arc::clone(readiness),
            backend,
        )?)
    }
}
