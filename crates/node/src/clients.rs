//! The clients of a node, as `CLIENT LIST` and `CLIENT KILL` see them.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate_commands::{ClientInfo, Session};

/// One connection, as seen from other threads.
#[derive(Debug)]
pub struct Client {
    /// Never used twice.
    pub id: u64,
    /// The worker that has it.
    pub worker: usize,
    info: Mutex<ClientInfo>,
}

impl Client {
    /// Notes what a session has become by the end of a turn. While nothing but time passes, once in [`NOTED_EVERY_US`] is enough:
    /// what is shown of it is whole seconds.
    pub fn note(&self, session: &mut Session) {
        if !session.is_worth_noting(NOTED_EVERY_US) {
            return;
        }
        let mut info = self.info.lock();
        if session.take_changed() {
            *info = session.info();
        } else {
            info.last_active_us = session.last_active_us;
            info.last_command = session.last_command;
        }
    }

    /// What CLIENT LIST says of it.
    pub fn info(&self) -> ClientInfo {
        self.info.lock().clone()
    }
}

/// How old what is known of an active connection may be, in microseconds.
const NOTED_EVERY_US: u64 = 100_000;

/// All connections of a node.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// The number of the next connection.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a connection.
    pub fn add(&self, worker: usize, session: &Session) -> Arc<Client> {
        let client = Arc::new(Client {
            id: session.id,
            worker,
            info: Mutex::new(session.info()),
        });
        self.by_id.lock().insert(session.id, Arc::clone(&client));
        client
    }

    /// Notes what a session has become before its connection waits, which may take long.
    pub fn note(&self, session: &mut Session) {
        let client = self.by_id.lock().get(&session.id).cloned();
        if let Some(client) = client {
            client.note(session);
        }
    }

    /// Removes a connection that has ended.
    pub fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// What CLIENT LIST says of one connection.
    pub fn info(&self, id: u64) -> Option<ClientInfo> {
        let client = self.by_id.lock().get(&id).cloned();
        client.map(|client| client.info())
    }

    /// The worker that has a connection.
    pub fn worker_of(&self, id: u64) -> Option<usize> {
        self.by_id.lock().get(&id).map(|client| client.worker)
    }

    /// What CLIENT LIST says of all connections, by id.
    pub fn infos(&self) -> Vec<ClientInfo> {
        let clients: Vec<_> = self.by_id.lock().values().cloned().collect();
        clients.iter().map(|client| client.info()).collect()
    }
}
