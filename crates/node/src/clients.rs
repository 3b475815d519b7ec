//! The clients of a node, as `CLIENT LIST`, `CLIENT KILL` and the bound on connections see them.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate_commands::ClientDetails;

/// One connection, as seen from other threads.
#[derive(Debug)]
pub struct Client {
    /// Never used twice.
    pub id: u64,
    /// The worker that has it.
    pub worker: usize,
    /// The client's address.
    pub peer: SocketAddr,
    /// The node's address.
    pub local: SocketAddr,
    /// The node's clock when it connected, in microseconds.
    pub created_us: u64,
    /// The node's clock at its last turn, in microseconds.
    pub last_turn_us: AtomicU64,
    /// What the connection says of itself; written when it changes.
    pub details: Mutex<ClientDetails>,
}

/// All connections of a node.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// Adds a connection unless there are `max` already.
    pub fn add(&self, worker: usize, peer: SocketAddr, local: SocketAddr, now_us: u64) -> Arc<Client> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            worker,
            peer,
            local,
            created_us: now_us,
            last_turn_us: AtomicU64::new(now_us),
            details: Mutex::new(ClientDetails::default()),
        });
        self.by_id.lock().insert(id, Arc::clone(&client));
        client
    }

    /// Removes a connection that has ended.
    pub fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// The connections, by id.
    pub fn snapshot(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }
}
