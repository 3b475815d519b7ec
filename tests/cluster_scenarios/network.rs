//! A network between nodes that can be cut, in one direction or both, and loses what it carries.
//!
//! Each node has a place in it: it listens on 127.0.0.1, and tells others to reach it at [`HOST`] on the same port, where this network
//! takes what they send, TCP and UDP, and passes it on. A datagram from one node to another leaves here from the place of its sender, so
//! that answers come the same way back. Who opens a stream is told by its first frame.
//!
//! What a cut holds back of a stream goes on when it heals, as TCP sends again what was lost. What is lost of a stream comes late.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{mpsc, watch};
use tollgate_cluster::wire::{FrameReader, HELLO_BYTES_MAX, Hello, codec};
use tollgate_suite::Draw;

/// Where nodes are told to reach each other.
pub const HOST: &str = "127.77.0.1";
/// What a node's stream begins with, before its first frame.
const MAGIC: &[u8] = b"TOLLPEER";
/// After that long a sender of TCP tries again, on a network as fast as this.
const SENT_AGAIN: Duration = Duration::from_millis(200);
/// How often a place is looked for whose port is free for all that need it.
const ATTEMPTS_MAX: usize = 64;

/// What happens to what goes from one node to another.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Way {
    is_cut: bool,
    /// The part that is lost.
    loss: f64,
}

/// By ports of nodes: from, to.
type Ways = HashMap<(u16, u16), Way>;

/// What went from one node to another: the beginning of a stream, and the last datagrams.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    pub stream: Vec<u8>,
    pub datagrams: VecDeque<Vec<u8>>,
}

/// How much of a stream is kept, in bytes.
const STREAM_BYTES: usize = 1 << 16;
/// How many datagrams are kept.
const DATAGRAMS: usize = 20;

/// The network. It ends when this is dropped.
pub struct Network {
    ways: watch::Sender<Ways>,
    heard: Arc<Mutex<HashMap<(u16, u16), Heard>>>,
    by_name: Mutex<HashMap<String, u16>>,
    places: mpsc::UnboundedSender<Place>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Sockets of a node's place.
struct Place {
    name: String,
    port: u16,
    listener: std::net::TcpListener,
    gossip: std::net::UdpSocket,
}

impl Network {
    /// A network that carries everything, and nobody in it.
    pub fn new() -> Self {
        let (ways, ways_seen) = watch::channel(Ways::new());
        let (places, places_taken) = mpsc::unbounded_channel();
        let heard = Arc::<Mutex<_>>::default();
        let shared = Shared {
            ways: ways_seen,
            heard: Arc::clone(&heard),
            gossip: Mutex::default(),
            names: Mutex::default(),
            draw: Mutex::new(Draw::new(1)),
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .expect("a runtime")
                .block_on(carry(places_taken, Arc::new(shared)));
        });
        Self {
            ways,
            heard,
            by_name: Mutex::default(),
            places,
            thread: Some(thread),
        }
    }

    /// A place for a node: the port on which it has to listen for peers.
    pub fn place(&self, name: &str) -> u16 {
        if let Some(port) = self.by_name.lock().get(name) {
            return *port;
        }
        let place = (0..ATTEMPTS_MAX).find_map(|_| Place::take(name)).expect("a free port");
        let port = place.port;
        self.by_name.lock().insert(name.to_owned(), port);
        assert!(self.places.send(place).is_ok(), "the network runs");
        port
    }

    /// From now on nothing gets from one to the other; what goes the other way does.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        self.change(from, to, |way| way.is_cut = true);
    }

    /// From now on nothing gets from one to the other, nor back.
    pub fn cut(&self, one: &str, other: &str) {
        self.cut_one_way(one, other);
        self.cut_one_way(other, one);
    }

    /// From now on a part of all that goes from one to the other is lost.
    pub fn lose(&self, from: &str, to: &str, loss: f64) {
        self.change(from, to, |way| way.loss = loss);
    }

    /// From now on everything gets everywhere.
    pub fn heal(&self) {
        self.ways.send_modify(Ways::clear);
    }

    /// What went from one to the other.
    pub fn heard(&self, from: &str, to: &str) -> Heard {
        let way = (self.port(from), self.port(to));
        self.heard.lock().get(&way).cloned().unwrap_or_default()
    }

    fn port(&self, name: &str) -> u16 {
        *self
            .by_name
            .lock()
            .get(name)
            .unwrap_or_else(|| panic!("{name} has no place"))
    }

    fn change(&self, from: &str, to: &str, change: impl FnOnce(&mut Way)) {
        let way = (self.port(from), self.port(to));
        self.ways.send_modify(|ways| change(ways.entry(way).or_default()));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Who takes places ends when there will be no more of them.
        self.places = mpsc::unbounded_channel().0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Place {
    /// Tries some port.
    fn take(name: &str) -> Option<Self> {
        let listener = std::net::TcpListener::bind((HOST, 0)).ok()?;
        let at = listener.local_addr().ok()?;
        let gossip = std::net::UdpSocket::bind(at).ok()?;
        // The node itself needs the same port. Who has taken it meanwhile is seen when it starts.
        std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, at.port())).ok()?;
        std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, at.port())).ok()?;
        listener.set_nonblocking(true).ok()?;
        gossip.set_nonblocking(true).ok()?;
        Some(Self {
            name: name.to_owned(),
            port: at.port(),
            listener,
            gossip,
        })
    }
}

/// What all parts of the network know.
struct Shared {
    ways: watch::Receiver<Ways>,
    heard: Arc<Mutex<HashMap<(u16, u16), Heard>>>,
    /// By port, the socket from which a node's datagrams leave.
    gossip: Mutex<HashMap<u16, Arc<UdpSocket>>>,
    names: Mutex<HashMap<String, u16>>,
    draw: Mutex<Draw>,
}

impl Shared {
    fn loses(&self, from: u16, to: u16) -> bool {
        let way = self.way(from, to);
        way.is_cut || self.happens(way.loss)
    }

    fn way(&self, from: u16, to: u16) -> Way {
        self.ways.borrow().get(&(from, to)).copied().unwrap_or_default()
    }

    fn happens(&self, part: f64) -> bool {
        const OF: usize = 1 << 20;
        part > 0.0 && (self.draw.lock().below(OF) as f64) < part * OF as f64
    }
}

async fn carry(mut places: mpsc::UnboundedReceiver<Place>, shared: Arc<Shared>) {
    while let Some(place) = places.recv().await {
        let listener = TcpListener::from_std(place.listener).expect("a listener");
        let gossip = Arc::new(UdpSocket::from_std(place.gossip).expect("a socket"));
        shared.gossip.lock().insert(place.port, Arc::clone(&gossip));
        shared.names.lock().insert(place.name, place.port);
        tokio::spawn(carry_gossip(Arc::clone(&shared), gossip, place.port));
        tokio::spawn(carry_streams(Arc::clone(&shared), listener, place.port));
    }
}

fn node_at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

async fn carry_gossip(shared: Arc<Shared>, here: Arc<UdpSocket>, to: u16) {
    let mut buffer = vec![0; 65_536];
    loop {
        // A node that is not there answers with an error to an earlier datagram.
        let Ok((length, from)) = here.recv_from(&mut buffer).await else {
            continue;
        };
        let sender = shared.gossip.lock().get(&from.port()).cloned();
        if let Some(sender) = sender
            && !shared.loses(from.port(), to)
        {
            let _ = sender.send_to(&buffer[..length], node_at(to)).await;
            let mut heard = shared.heard.lock();
            let datagrams = &mut heard.entry((from.port(), to)).or_default().datagrams;
            datagrams.push_back(buffer[..length].to_vec());
            if datagrams.len() > DATAGRAMS {
                datagrams.pop_front();
            }
        }
    }
}

async fn carry_streams(shared: Arc<Shared>, listener: TcpListener, to: u16) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // However it ends, both sides see that it has ended.
            let _ = carry_stream(&shared, stream, to).await;
        });
    }
}

async fn carry_stream(shared: &Arc<Shared>, mut opener: TcpStream, to: u16) -> io::Result<()> {
    let (name, first) = read_hello(&mut opener).await?;
    let from = shared.names.lock().get(&name).copied();
    let from = from.ok_or_else(|| io::Error::other(format!("{name} is not of this network")))?;
    opener.set_nodelay(true)?;
    shared.until_open(from, to).await;
    let mut accepter = TcpStream::connect(node_at(to)).await?;
    shared
        .heard
        .lock()
        .entry((from, to))
        .or_default()
        .stream
        .clone_from(&first);
    accepter.set_nodelay(true)?;
    accepter.write_all(&first).await?;
    let (opener_reads, opener_writes) = opener.into_split();
    let (accepter_reads, accepter_writes) = accepter.into_split();
    tokio::select! {
        ended = shared.pass(opener_reads, accepter_writes, (from, to), true) => ended,
        ended = shared.pass(accepter_reads, opener_writes, (to, from), false) => ended,
    }
}

/// The name of who opens a stream, and all that was read to find it.
async fn read_hello(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut first = vec![0; MAGIC.len()];
    stream.read_exact(&mut first).await?;
    let mut reader = FrameReader::new(HELLO_BYTES_MAX);
    loop {
        if let Some(frame) = reader.next_frame().map_err(io::Error::other)? {
            let (hello, _) = codec::decode::<Hello>(frame.body).map_err(io::Error::other)?;
            return Ok((hello.id.name.to_string(), first));
        }
        let mut more = [0; 2_048];
        let length = stream.read(&mut more).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        first.extend_from_slice(&more[..length]);
        reader.input().extend_from_slice(&more[..length]);
    }
}

impl Shared {
    /// Waits while that way is cut.
    async fn until_open(&self, from: u16, to: u16) {
        let mut ways = self.ways.clone();
        // An error means that the network ends.
        let _ = ways
            .wait_for(|ways| ways.get(&(from, to)).is_none_or(|way| !way.is_cut))
            .await;
    }

    /// Passes on what comes, until it ends.
    async fn pass(
        &self,
        mut reads: OwnedReadHalf,
        mut writes: OwnedWriteHalf,
        (from, to): (u16, u16),
        is_kept: bool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 65_536];
        loop {
            let read = reads.read(&mut buffer).await;
            while self.happens(self.way(from, to).loss) {
                tokio::time::sleep(SENT_AGAIN).await;
            }
            // That it has ended gets no further than anything else.
            self.until_open(from, to).await;
            let length = read?;
            if length == 0 {
                return writes.shutdown().await;
            }
            writes.write_all(&buffer[..length]).await?;
            if is_kept {
                let mut heard = self.heard.lock();
                let stream = &mut heard.entry((from, to)).or_default().stream;
                stream.extend(buffer[..length].iter().take(STREAM_BYTES.saturating_sub(stream.len())));
            }
        }
    }
}
