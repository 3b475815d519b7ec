//! The connections that a worker has made to workers of peers, to ask them.

use super::error::PeerError;
use super::sending::Sending;
use super::socket::{Failed, read_frames, shake_hands};
use super::{PeerConfig, random};
use crate::limits::Bound;
use crate::metrics::WorkerCounters;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tollgate_cluster::wire::{Established, Frame, Handshake, Hello, Kind, Message, Versions, codec};

/// Time for a connection to come about, handshake included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to the first attempt after one that failed; it doubles with each.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// The longest time between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// A connection that stood for this long is tried again at once when it ends.
const STEADY: Duration = Duration::from_secs(1);

/// What happened to a connection of a worker to a worker of a peer.
#[derive(Debug)]
pub enum PeerEvent {
    /// It stands. What the peer said of itself.
    Connected(Box<Hello>),
    /// It stood, and ended. It is tried again, unless it was given up: then the peer is gone, or is another.
    Lost(PeerError),
    /// An attempt failed. There will be others.
    Failed(PeerError),
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// Which message it is.
    pub kind: Kind,
    /// The version of the protocol that it is written in.
    pub version: u16,
    /// The message.
    pub body: Vec<u8>,
}

/// Who hears of events: name and worker of the peer, and what happened.
type Listener = dyn Fn(&Arc<str>, u16, PeerEvent);

/// A worker's connections to its peers.
pub struct Peers {
    shared: Rc<Shared>,
    peers: RefCell<HashMap<Arc<str>, Peer>>,
}

struct Shared {
    config: Arc<PeerConfig>,
    worker: u16,
    listener: Box<Listener>,
}

impl Shared {
    fn counters(&self) -> &WorkerCounters {
        self.config.counters(self.worker)
    }
}

/// One peer as the view has it.
struct Peer {
    generation: u64,
    address: Arc<str>,
    links: HashMap<u16, Rc<PeerLink>>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}

impl Peers {
    /// No peers yet, for that worker. `listener` is told what happens to connections; it must not change which peers there are.
    pub fn new(config: Arc<PeerConfig>, worker: u16, listener: impl Fn(&Arc<str>, u16, PeerEvent) + 'static) -> Self {
        Self {
            shared: Rc::new(Shared {
                config,
                worker,
                listener: Box::new(listener),
            }),
            peers: RefCell::default(),
        }
    }

    /// Notes where a peer is, as `host:port`. Connections to an earlier life of it, or to where it was, are given up.
    pub fn set(&self, name: &Arc<str>, generation: u64, address: &Arc<str>) {
        let mut peers = self.peers.borrow_mut();
        if let Some(peer) = peers.get(name)
            && (peer.generation, &peer.address) == (generation, address)
        {
            return;
        }
        let peer = Peer {
            generation,
            address: Arc::clone(address),
            links: HashMap::new(),
        };
        let gone = peers.insert(Arc::clone(name), peer);
        drop(peers);
        drop(gone);
    }

    /// Forgets all peers but those: their connections are given up.
    pub fn retain(&self, mut stays: impl FnMut(&str) -> bool) {
        let gone: Vec<_> = self.peers.borrow_mut().extract_if(|name, _| !stays(name)).collect();
        // Dropped when the borrow is over: who waits there is told, and may ask others.
        drop(gone);
    }

    /// Whether a peer of that name can be asked.
    pub fn has(&self, name: &str) -> bool {
        self.peers.borrow().contains_key(name)
    }

    /// The connection to a worker of a peer, made now if there is none. It is for keeping, as long as the peer stays what it is: one that was
    /// given up answers [`PeerError::Unreached`].
    ///
    /// # Errors
    /// [`PeerError::Unknown`].
    pub fn link(&self, name: &str, worker: u16) -> Result<Rc<PeerLink>, PeerError> {
        let mut peers = self.peers.borrow_mut();
        let (name, known) = match peers.get_key_value(name) {
            Some((name, peer)) => (Arc::clone(name), peer.links.get(&worker)),
            None => return Err(PeerError::Unknown),
        };
        if let Some(link) = known {
            return Ok(Rc::clone(link));
        }
        let Some(peer) = peers.get_mut(&name) else {
            return Err(PeerError::Unknown);
        };
        let link = PeerLink::start(&self.shared, name, worker, Arc::clone(&peer.address));
        peer.links.insert(worker, Rc::clone(&link));
        Ok(link)
    }

    /// Asks a worker of a peer.
    ///
    /// # Errors
    /// [`PeerError`], if that is known at once.
    pub fn request<'a, M: Message<'a>>(&self, name: &str, worker: u16, message: &M) -> Result<Pending, PeerError> {
        self.link(name, worker)?.request(message)
    }

    /// Tells a worker of a peer something.
    ///
    /// # Errors
    /// [`PeerError`], if that is known at once.
    pub fn send<'a, M: Message<'a>>(&self, name: &str, worker: u16, message: &M) -> Result<(), PeerError> {
        self.link(name, worker)?.send(message)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.links.values().for_each(|link| link.give_up());
    }
}

/// How a connection stands.
enum State {
    /// It is being made; these frames go first.
    Connecting(Queue),
    /// It stands.
    Up(Rc<Sending>),
    /// The last attempt failed, and the next is not due.
    Down(PeerError),
    /// It is wanted no more.
    Over,
}

/// Frames for a connection that is being made.
#[derive(Default)]
struct Queue {
    frames: VecDeque<(u8, u64, Vec<u8>)>,
    bytes: usize,
}

/// A connection to a worker of a peer.
pub struct PeerLink {
    shared: Rc<Shared>,
    name: Arc<str>,
    worker: u16,
    address: Arc<str>,
    state: RefCell<State>,
    waiting: RefCell<HashMap<u64, oneshot::Sender<Result<Answer, PeerError>>>>,
    next_id: Cell<u64>,
    /// How often it has stood.
    connections: Cell<u64>,
    heard: Cell<Option<Instant>>,
    task: Cell<Option<AbortHandle>>,
}

impl fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerLink")
            .field("name", &self.name)
            .field("worker", &self.worker)
            .field("waiting", &self.waiting.borrow().len())
            .finish_non_exhaustive()
    }
}

impl PeerLink {
    fn start(shared: &Rc<Shared>, name: Arc<str>, worker: u16, address: Arc<str>) -> Rc<Self> {
        let link = Rc::new(Self {
            shared: Rc::clone(shared),
            name,
            worker,
            address,
            state: RefCell::new(State::Connecting(Queue::default())),
            waiting: RefCell::default(),
            next_id: Cell::new(1),
            connections: Cell::new(0),
            heard: Cell::new(None),
            task: Cell::new(None),
        });
        let task = tokio::task::spawn_local(Rc::clone(&link).keep_up());
        link.task.set(Some(task.abort_handle()));
        link
    }

    /// Asks. The answer is awaited for as long as the connection stands; whoever waits less drops the [`Pending`].
    ///
    /// # Errors
    /// [`PeerError`], if that is known at once.
    pub fn request<'a, M: Message<'a>>(self: &Rc<Self>, message: &M) -> Result<Pending, PeerError> {
        self.ask(|link, id| link.push(id, message))
    }

    /// Asks with a body that is written already.
    ///
    /// # Errors
    /// As [`PeerLink::request`].
    pub fn request_body(self: &Rc<Self>, kind: Kind, body: &[u8]) -> Result<Pending, PeerError> {
        self.ask(|link, id| link.push_body(kind as u8, id, body))
    }

    /// Tells it something that has no answer.
    ///
    /// # Errors
    /// As [`PeerLink::request`].
    pub fn send<'a, M: Message<'a>>(&self, message: &M) -> Result<(), PeerError> {
        self.push(0, message)
    }

    /// Tells it something that is written already.
    ///
    /// # Errors
    /// As [`PeerLink::request`].
    pub fn send_body(&self, kind: Kind, body: &[u8]) -> Result<(), PeerError> {
        self.push_body(kind as u8, 0, body)
    }

    /// When anything came over it last.
    pub fn heard_at(&self) -> Option<Instant> {
        self.heard.get()
    }

    /// Whether it stands.
    pub fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), State::Up(_))
    }

    /// Which of its connections stands, or was the last that did: what is tied to one is gone with it.
    pub fn connection(&self) -> u64 {
        self.connections.get()
    }

    /// Whether it is to that worker of that peer.
    pub fn is_to(&self, peer: &str, worker: u16) -> bool {
        *self.name == *peer && self.worker == worker
    }

    /// How many requests wait for their answers.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    fn ask(self: &Rc<Self>, push: impl FnOnce(&Self, u64) -> Result<(), PeerError>) -> Result<Pending, PeerError> {
        if self.waiting.borrow().len() >= self.shared.config.requests {
            self.shared.counters().limit_hit(Bound::PeerRequests);
            return Err(PeerError::Full(Bound::PeerRequests));
        }
        let id = self.next_id.get();
        push(self, id)?;
        // 2^64 requests are 500 years of a thousand million a second; 0 is none.
        self.next_id.set(id + 1);
        let (answered, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, answered);
        Ok(Pending {
            link: Rc::downgrade(self),
            id,
            answer,
        })
    }

    fn push<'a, M: Message<'a>>(&self, id: u64, message: &M) -> Result<(), PeerError> {
        if let State::Up(sending) = &*self.state.borrow() {
            return sending.push(id, message, self.shared.counters());
        }
        // Which version will be spoken is not known yet. A lower one has less at the end of a message, and ignores what there is more.
        let mut body = Vec::new();
        let written = codec::encode(message, &mut body);
        written
            .and_then(|()| message.write_added(Versions::OURS.highest, &mut body))
            .map_err(|_| PeerError::TooLong)?;
        self.queue(M::KIND as u8, id, body)
    }

    fn push_body(&self, kind: u8, id: u64, body: &[u8]) -> Result<(), PeerError> {
        if let State::Up(sending) = &*self.state.borrow() {
            return sending.push_body(kind, id, body, self.shared.counters());
        }
        self.queue(kind, id, body.to_vec())
    }

    fn queue(&self, kind: u8, id: u64, body: Vec<u8>) -> Result<(), PeerError> {
        match &mut *self.state.borrow_mut() {
            State::Connecting(queue) => {
                let config = &self.shared.config;
                if queue.frames.len() >= config.requests || queue.bytes >= config.queue_bytes {
                    self.shared.counters().limit_hit(Bound::PeerQueueBytes);
                    return Err(PeerError::Full(Bound::PeerQueueBytes));
                }
                if body.len() > config.local.frame_bytes_max {
                    return Err(PeerError::TooLong);
                }
                queue.bytes += body.len();
                queue.frames.push_back((kind, id, body));
                Ok(())
            }
            State::Down(why) => Err(why.of_unsent()),
            // Whoever calls this has seen that it does not stand.
            State::Over | State::Up(_) => Err(PeerError::Unreached),
        }
    }

    /// Ends it for good.
    fn give_up(&self) {
        let before = self.state.replace(State::Over);
        if let Some(task) = self.task.take() {
            task.abort();
        }
        let State::Up(sending) = before else {
            return self.fail_all(PeerError::Unreached);
        };
        let why = PeerError::GivenUp;
        sending.end(why);
        self.fail_all(why);
        self.tell(PeerEvent::Lost(why));
    }

    fn fail_all(&self, why: PeerError) {
        // Taken first: who is told may ask again.
        let waiting = self.waiting.take();
        for answered in waiting.into_values() {
            // Whoever asked may wait no more.
            let _ = answered.send(Err(why));
        }
    }

    fn tell(&self, event: PeerEvent) {
        (self.shared.listener)(&self.name, self.worker, event);
    }

    /// Makes the connection, and makes it again whenever it ends.
    async fn keep_up(self: Rc<Self>) {
        let mut failed = 0u32;
        loop {
            let made = tokio::time::timeout(CONNECT_TIMEOUT, self.connect());
            match made.await.unwrap_or(Err(PeerError::TimedOut)) {
                Ok((stream, established)) => {
                    let since = Instant::now();
                    let why = self.run(&stream, established).await;
                    drop(stream);
                    // Tried again at once, if it was not one of those that come and go.
                    failed = if since.elapsed() >= STEADY { 0 } else { failed + 1 };
                    let next = match failed {
                        0 => State::Connecting(Queue::default()),
                        _ => State::Down(why),
                    };
                    self.over(next, why, PeerEvent::Lost(why));
                    if failed == 0 {
                        continue;
                    }
                }
                Err(why) => {
                    failed += 1;
                    self.over(State::Down(why), why.of_unsent(), PeerEvent::Failed(why));
                }
            }
            tokio::time::sleep(backoff(failed)).await;
            self.state.replace(State::Connecting(Queue::default()));
        }
    }

    fn over(&self, next: State, why: PeerError, event: PeerEvent) {
        tracing::debug!(event = "peer_connection", peer = %self.name, worker = self.worker, %why);
        self.state.replace(next);
        self.fail_all(why);
        self.tell(event);
    }

    async fn connect(&self) -> Result<(TcpStream, Box<Established>), PeerError> {
        // Resolved by a thread of the runtime's, unless it is an address.
        let addresses = tokio::net::lookup_host(&*self.address)
            .await
            .map_err(|_| PeerError::Unresolved)?;
        let mut last = PeerError::Unresolved;
        let mut stream = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(connected) => {
                    stream = Some(connected);
                    break;
                }
                Err(error) => last = error.into(),
            }
        }
        let stream = stream.ok_or(last)?;
        stream.set_nodelay(true)?;
        let config = &self.shared.config;
        let mut out = Vec::new();
        let handshake = Handshake::open(
            config.local.clone(),
            config.secret.clone(),
            self.shared.worker,
            (Arc::clone(&self.name), self.worker),
            random()?,
            &mut out,
        );
        match shake_hands(&stream, handshake, out).await {
            Ok(established) => Ok((stream, established)),
            Err(Failed::Lost(why)) => Err(why),
            Err(Failed::Refused(refusal)) => {
                self.shared.counters().peer_refused(refusal.reason());
                config.refusals.log(&self.name, &refusal);
                Err(PeerError::Handshake(refusal.reason()))
            }
        }
    }

    /// Uses a connection until it ends.
    async fn run(&self, stream: &TcpStream, established: Box<Established>) -> PeerError {
        let counters = self.shared.counters();
        let Established {
            peer,
            version,
            mut reader,
            writer,
        } = *established;
        let sending = Rc::new(Sending::new(version, writer, self.shared.config.queue_bytes));
        let before = self.state.replace(State::Up(Rc::clone(&sending)));
        self.connections.set(self.connections.get() + 1);
        if let State::Connecting(queue) = before {
            for (kind, id, body) in queue.frames {
                if let Err(why) = sending.push_body(kind, id, &body, counters)
                    && let Some(answered) = self.waiting.borrow_mut().remove(&id)
                {
                    let _ = answered.send(Err(why));
                }
            }
        }
        let _open = Open::new(counters);
        self.shared.config.refusals.forget(&self.name);
        self.heard.set(Some(Instant::now()));
        self.tell(PeerEvent::Connected(Box::new(peer)));
        let why = tokio::select! {
            why = read_frames(stream, &mut reader, counters, async || {}, |frame| {
                self.take(version, &frame);
                Ok(())
            }) => why,
            why = sending.run(stream, counters) => why,
        };
        sending.end(why);
        why
    }

    fn take(&self, version: u16, frame: &Frame<'_>) {
        self.heard.set(Some(Instant::now()));
        // Answers that nobody waits for any more, and what is no answer, are of no use to anybody.
        let Some(answered) = self.waiting.borrow_mut().remove(&frame.id) else {
            return;
        };
        let answer = match Kind::of(frame.kind) {
            None | Some(Kind::NotUnderstood) => Err(PeerError::NotUnderstood),
            Some(kind) => Ok(Answer {
                kind,
                version,
                body: frame.body.to_vec(),
            }),
        };
        let _ = answered.send(answer);
    }
}

/// Counts an open connection for as long as it lives.
pub(super) struct Open<'a>(&'a WorkerCounters);

impl<'a> Open<'a> {
    pub(super) fn new(counters: &'a WorkerCounters) -> Self {
        counters.peer_connections_opened.add(1);
        Self(counters)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.peer_connections_closed.add(1);
    }
}

/// Time to the next attempt after so many that failed: it doubles, up to a second, and is then shortened by up to half, so that the
/// workers of a cluster do not all come at once.
fn backoff(failed: u32) -> Duration {
    let most = BACKOFF_MIN
        .saturating_mul(1 << failed.saturating_sub(1).min(16))
        .min(BACKOFF_MAX);
    let share = random::<1>().map_or(0, |[byte]| u32::from(byte));
    most - most / 2 * share / 255
}

/// A request that was sent. It is awaited for its answer; dropped, nobody waits for that any more.
#[derive(Debug)]
pub struct Pending {
    link: Weak<PeerLink>,
    id: u64,
    answer: oneshot::Receiver<Result<Answer, PeerError>>,
}

impl Future for Pending {
    type Output = Result<Answer, PeerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        // The link is gone with all that waited for it.
        Poll::Ready(answer.unwrap_or(Err(PeerError::GivenUp)))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(link) = self.link.upgrade() {
            link.waiting.borrow_mut().remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_less_and_less_often() {
        for (failed, most_ms) in [(1, 20), (2, 40), (3, 80), (6, 640), (7, 1_000), (u32::MAX, 1_000)] {
            for _ in 0..50 {
                let wait = backoff(failed);
                let most = Duration::from_millis(most_ms);
                assert!(most / 2 <= wait && wait <= most, "{failed}: {wait:?}");
            }
        }
    }
}
