//! What a connection remembers between commands.

use crate::node_view::{ClientInfo, NodeView};
use crate::table::Spec;
use crate::{CommandError, Env, Face, LibraryChange, Published, Subscriptions, Transaction, Watching};
use std::net::SocketAddr;
use tollgate_protocol::Proto;

/// The longest name of a connection or of its library. Redis sets no bound of its own.
pub const CLIENT_NAME_MAX_BYTES: usize = 4096;

/// Which of its commands a connection wants answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// All but the next.
    SkipNext,
    /// All but this one.
    Skip,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    /// Number of the connection, unique while the node runs.
    pub id: u64,
    /// What the listener that it came to looks like.
    pub face: Face,
    /// The selected database.
    pub db: u8,
    /// The version of the protocol.
    pub proto: Proto,
    /// Whether the connection may run everything.
    pub authenticated: bool,
    /// Set by QUIT and by a connection that kills itself: write what is due, then close.
    pub close_after_reply: bool,
    /// CLIENT NO-EVICT ON.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH ON.
    pub no_touch: bool,
    /// What CLIENT REPLY has set.
    pub replies: ReplyMode,
    /// Whether it reads what all others do: MONITOR.
    pub is_monitor: bool,
    /// Where the client is.
    pub peer: SocketAddr,
    /// Where it connected to.
    pub local: SocketAddr,
    /// The node's clock when it connected, in microseconds.
    pub created_us: u64,
    /// The node's clock at the last command, in microseconds.
    pub last_active_us: u64,
    /// The last command.
    pub last_command: Option<&'static str>,
    /// The worker that serves it.
    pub worker: usize,
    /// What it listens to.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Messages to be published when the script or transaction stands that is under way; without one they are sent at once.
    pub published: Option<Vec<Published>>,
    /// What the transaction that is under way has changed of the libraries of functions, if that may have to be taken back.
    pub library_changes: Option<Vec<LibraryChange>>,
    /// What was queued since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// What WATCH named.
    pub watching: Option<Box<Watching>>,
    pub(crate) name: Box<[u8]>,
    pub(crate) lib_name: Box<[u8]>,
    pub(crate) lib_ver: Box<[u8]>,
    changed: bool,
    /// What [`Session::is_worth_noting`] last said yes to: the last command, and when.
    noted: (Option<&'static str>, u64),
}

impl Session {
    /// The session of a new connection. It is authenticated if the node asks for no password.
    pub fn new(id: u64, worker: usize, peer: SocketAddr, local: SocketAddr, now_us: u64, node: &dyn NodeView) -> Self {
        Self {
            id,
            face: Face::Default,
            db: 0,
            proto: Proto::Resp2,
            authenticated: !node.needs_password(),
            close_after_reply: false,
            no_evict: false,
            no_touch: false,
            replies: ReplyMode::On,
            is_monitor: false,
            peer,
            local,
            created_us: now_us,
            last_active_us: now_us,
            last_command: None,
            worker,
            subscriptions: None,
            published: None,
            library_changes: None,
            transaction: None,
            watching: None,
            name: Box::default(),
            lib_name: Box::default(),
            lib_ver: Box::default(),
            changed: true,
            noted: (None, 0),
        }
    }

    /// The session of a script's commands.
    pub(crate) fn of_script(db: u8) -> Self {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            id: 0,
            face: Face::Default,
            db,
            proto: Proto::Resp2,
            authenticated: true,
            close_after_reply: false,
            no_evict: false,
            no_touch: false,
            replies: ReplyMode::On,
            is_monitor: false,
            peer: nowhere,
            local: nowhere,
            created_us: 0,
            last_active_us: 0,
            last_command: None,
            worker: 0,
            subscriptions: None,
            published: Some(Vec::new()),
            library_changes: None,
            transaction: None,
            watching: None,
            name: Box::default(),
            lib_name: Box::default(),
            lib_ver: Box::default(),
            changed: false,
            noted: (None, 0),
        }
    }

    /// Whether a command may run before the connection has authenticated, or it has. Call it for every command, after
    /// [`CommandTable::resolve`](crate::CommandTable::resolve).
    ///
    /// # Errors
    /// `NOAUTH`.
    #[inline]
    pub fn may_run(&self, spec: &Spec) -> Result<(), CommandError> {
        if !self.authenticated && !spec.has_flag("no_auth") {
            return Err(CommandError::NoAuth);
        }
        if self.subscriptions.is_some() && self.proto == Proto::Resp2 && !may_run_subscribed(spec) {
            let name = spec.name;
            return Err(CommandError::Other(format!(
                "Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            )));
        }
        Ok(())
    }

    /// Notes that a command is about to run.
    #[inline]
    pub fn begin(&mut self, spec: &Spec, now_us: u64) {
        self.last_command = Some(spec.name);
        self.last_active_us = now_us;
    }

    /// The circumstances of the next command.
    #[inline]
    pub fn env(&self, now_us: u64, wall_offset_us: i64) -> Env {
        Env {
            db: self.db,
            proto: self.proto,
            now_us,
            wall_offset_us,
        }
    }

    /// Whether what CLIENT LIST shows has changed since this said so last: something that was set, the last command, or the time of
    /// it by `after_us` or more.
    #[inline]
    pub fn is_worth_noting(&mut self, after_us: u64) -> bool {
        let (command, at_us) = self.noted;
        if !self.changed && command == self.last_command && self.last_active_us.wrapping_sub(at_us) < after_us {
            return false;
        }
        self.noted = (self.last_command, self.last_active_us);
        true
    }

    /// Whether something that CLIENT LIST shows, other than times and the last command, has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// What CLIENT LIST says of it.
    pub fn info(&self) -> ClientInfo {
        ClientInfo {
            id: self.id,
            peer: self.peer,
            local: self.local,
            name: self.name.clone(),
            lib_name: self.lib_name.clone(),
            lib_ver: self.lib_ver.clone(),
            db: self.db,
            proto: self.proto,
            no_evict: self.no_evict,
            no_touch: self.no_touch,
            is_monitor: self.is_monitor,
            is_blocked: false,
            listens_to: self.subscriptions.as_ref().map(|listening| listening.counts()),
            queued: self.transaction.as_ref().map(|transaction| transaction.commands.len()),
            created_us: self.created_us,
            last_active_us: self.last_active_us,
            last_command: self.last_command,
        }
    }

    /// The name that CLIENT SETNAME set, or nothing.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Notes what has changed of the libraries of functions.
    pub(crate) fn note_library_change(&mut self, change: LibraryChange) {
        if let Some(changes) = &mut self.library_changes {
            changes.push(change);
        }
    }

    /// Notes that what CLIENT LIST shows has changed.
    pub fn note_change(&mut self) {
        self.changed = true;
    }

    /// What RESET does: everything but the addresses, the times and the library is as on a new connection.
    pub(crate) fn reset(&mut self, node: &dyn NodeView) {
        self.db = 0;
        self.proto = Proto::Resp2;
        self.authenticated = !node.needs_password();
        self.name = Box::default();
        self.no_evict = false;
        self.no_touch = false;
        if self.replies != ReplyMode::Skip {
            self.replies = ReplyMode::On;
        }
        if std::mem::take(&mut self.is_monitor) {
            node.end_monitor(self.id);
        }
        self.transaction = None;
        self.watching = None;
        self.subscriptions = None;
        self.note_change();
    }
}

/// Whether a command may run on a connection of RESP2 that listens: it can read nothing but messages there.
fn may_run_subscribed(spec: &Spec) -> bool {
    spec.name.ends_with("subscribe") || matches!(spec.name, "ping" | "quit" | "reset")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_node::TestNode;

    #[test]
    fn a_session_is_noted_when_it_changes_and_now_and_then() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut session = Session::new(1, 0, address, address, 1_000, &TestNode::default());
        assert!(session.is_worth_noting(100), "new");
        session.take_changed();
        assert!(!session.is_worth_noting(100));
        session.last_active_us += 99;
        assert!(!session.is_worth_noting(100));
        session.last_active_us += 1;
        assert!(session.is_worth_noting(100));
        session.last_command = Some("ping");
        assert!(session.is_worth_noting(100));
        assert!(!session.is_worth_noting(100));
        session.note_change();
        assert!(session.is_worth_noting(100));
    }
}
