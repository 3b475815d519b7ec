//! The connections that workers of peers have made to a worker, to ask it.

use super::PeerConfig;
use super::accept::Accepted;
use super::error::PeerError;
use super::outgoing::Open;
use super::sending::Sending;
use super::socket::read_frames;
use crate::metrics::WorkerCounters;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tollgate_cluster::Incarnation;
use tollgate_cluster::wire::{Established, Frame, Kind, Message};

/// Who is at the other end of a connection that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerId {
    /// Which life of which node.
    pub id: Incarnation,
    /// Which worker of it.
    pub worker: u16,
    /// How many workers it has.
    pub workers: u16,
    /// The version of the protocol that both speak.
    pub version: u16,
    /// The number of its connection, of those to this worker.
    pub connection: u64,
}

/// What a worker does with what its peers say.
pub trait PeerHandler {
    /// A peer's worker has connected.
    fn on_open(&self, _peer: &PeerId) {}

    /// It has sent a message. `reply` is where the answer goes, if it wants one.
    fn on_frame(self: Rc<Self>, from: &PeerId, kind: Kind, body: &[u8], reply: ReplyHandle);

    /// Its connection is over, and why. Answers to it go nowhere.
    fn on_close(&self, _peer: &PeerId, _why: PeerError) {}
}

/// Name and worker of a peer.
type Asker = (Arc<str>, u16);

/// A worker's connections from its peers.
pub struct Incoming<H> {
    config: Arc<PeerConfig>,
    worker: u16,
    handler: Rc<H>,
    /// By name and worker of the peer: the newest connection.
    open: RefCell<HashMap<Asker, Rc<Answering>>>,
    /// Connections so far.
    connections: Cell<u64>,
}

impl<H> fmt::Debug for Incoming<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("open", &self.open.borrow().len())
            .finish_non_exhaustive()
    }
}

/// What a connection and the answers that are due over it have in common.
#[derive(Debug)]
struct Answering {
    config: Arc<PeerConfig>,
    worker: u16,
    generation: u64,
    sending: Sending,
    /// Requests whose answers are due.
    due: Cell<usize>,
    /// Told when there is one less.
    one_answered: Notify,
}

impl Answering {
    fn counters(&self) -> &WorkerCounters {
        self.config.counters(self.worker)
    }

    /// A peer that does not take its answers is closed.
    fn sent(&self, result: Result<(), PeerError>) -> Result<(), PeerError> {
        if let Err(why @ PeerError::Full(_)) = result {
            self.sending.end(why);
        }
        result
    }
}

/// Where the answer to a request goes. Dropped without one, there is none.
#[derive(Debug)]
pub struct ReplyHandle {
    to: Rc<Answering>,
    id: u64,
}

impl ReplyHandle {
    /// Whether an answer is wanted.
    pub fn is_wanted(&self) -> bool {
        self.id != 0
    }

    /// The version of the protocol that both sides speak.
    pub fn version(&self) -> u16 {
        self.to.sending.version
    }

    /// Answers. If none is wanted, nothing happens.
    ///
    /// # Errors
    /// [`PeerError`]: the answer goes nowhere. After [`PeerError::TooLong`] the peer is told that it was not understood.
    pub fn reply<'a, M: Message<'a>>(self, message: &M) -> Result<(), PeerError> {
        match self.is_wanted() {
            true => self.finish(self.to.sending.push(self.id, message, self.to.counters())),
            false => Ok(()),
        }
    }

    /// Answers with a body that is written already.
    ///
    /// # Errors
    /// As [`ReplyHandle::reply`].
    pub fn reply_body(self, kind: Kind, body: &[u8]) -> Result<(), PeerError> {
        match self.is_wanted() {
            true => self.finish(self.to.sending.push_body(kind as u8, self.id, body, self.to.counters())),
            false => Ok(()),
        }
    }

    /// Says that the request makes no sense here.
    ///
    /// # Errors
    /// As [`ReplyHandle::reply`].
    pub fn not_understood(self) -> Result<(), PeerError> {
        self.reply_body(Kind::NotUnderstood, b"")
    }

    fn finish(&self, result: Result<(), PeerError>) -> Result<(), PeerError> {
        if let Err(PeerError::TooLong) = result {
            let to = &self.to;
            let told = to
                .sending
                .push_body(Kind::NotUnderstood as u8, self.id, b"", to.counters());
            // Of two errors the first says more.
            let _ = to.sent(told);
        }
        self.to.sent(result)
    }
}

impl Drop for ReplyHandle {
    fn drop(&mut self) {
        if self.is_wanted() {
            self.to.due.set(self.to.due.get() - 1);
            self.to.one_answered.notify_one();
        }
    }
}

impl<H: PeerHandler + 'static> Incoming<H> {
    /// None yet, for that worker.
    pub fn new(config: Arc<PeerConfig>, worker: u16, handler: Rc<H>) -> Rc<Self> {
        Rc::new(Self {
            config,
            worker,
            handler,
            open: RefCell::default(),
            connections: Cell::new(0),
        })
    }

    /// Serves a connection in a task of its own. Of several from one worker of one peer the newest counts, and of a later life.
    ///
    /// # Errors
    /// The socket's.
    pub fn serve(self: &Rc<Self>, accepted: Accepted) -> std::io::Result<()> {
        let Accepted { stream, established } = accepted;
        let stream = TcpStream::from_std(stream)?;
        let Established {
            peer,
            version,
            reader,
            writer,
        } = *established;
        self.connections.set(self.connections.get() + 1);
        let peer = PeerId {
            connection: self.connections.get(),
            id: peer.id,
            worker: peer.worker,
            workers: peer.workers,
            version,
        };
        let answering = Rc::new(Answering {
            config: Arc::clone(&self.config),
            worker: self.worker,
            generation: peer.id.generation,
            sending: Sending::new(version, writer, self.config.queue_bytes),
            due: Cell::new(0),
            one_answered: Notify::new(),
        });
        let key = (Arc::clone(&peer.id.name), peer.worker);
        let mut open = self.open.borrow_mut();
        if let Some(other) = open.get(&key) {
            if other.generation > peer.id.generation {
                return Ok(());
            }
            other.sending.end(PeerError::GivenUp);
        }
        open.insert(key.clone(), Rc::clone(&answering));
        drop(open);
        let incoming = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let counters = incoming.config.counters(incoming.worker);
            let _open = Open::new(counters);
            incoming.handler.on_open(&peer);
            let why = incoming.run(&stream, reader, &peer, &answering).await;
            tracing::debug!(event = "peer_connection", peer = %peer.id.name, worker = peer.worker, %why);
            answering.sending.end(why);
            let mut open = incoming.open.borrow_mut();
            if open.get(&key).is_some_and(|newest| Rc::ptr_eq(newest, &answering)) {
                open.remove(&key);
            }
            drop(open);
            incoming.handler.on_close(&peer, why);
        });
        Ok(())
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.open.borrow().len()
    }

    /// Ends all of them: the node stops.
    pub fn end(&self) {
        for answering in self.open.borrow().values() {
            answering.sending.end(PeerError::GivenUp);
        }
    }

    async fn run(
        &self,
        stream: &TcpStream,
        mut reader: tollgate_cluster::wire::FrameReader,
        peer: &PeerId,
        answering: &Rc<Answering>,
    ) -> PeerError {
        let counters = self.config.counters(self.worker);
        // Who asks more than it is answered waits, and nobody with it.
        let may_take = async || {
            while answering.due.get() >= self.config.requests {
                answering.one_answered.notified().await;
            }
        };
        tokio::select! {
            why = read_frames(stream, &mut reader, counters, may_take, |frame| {
                self.take(peer, &frame, answering);
                Ok(())
            }) => why,
            why = answering.sending.run(stream, counters) => why,
        }
    }

    fn take(&self, peer: &PeerId, frame: &Frame<'_>, answering: &Rc<Answering>) {
        let reply = ReplyHandle {
            to: Rc::clone(answering),
            id: frame.id,
        };
        if reply.is_wanted() {
            answering.due.set(answering.due.get() + 1);
        }
        match Kind::of(frame.kind) {
            Some(kind) => Rc::clone(&self.handler).on_frame(peer, kind, frame.body, reply),
            None => {
                self.config.counters(self.worker).peer_unknown_kinds.add(1);
                // If the connection is over, nobody waits for that.
                let _ = reply.not_understood();
            }
        }
    }
}
