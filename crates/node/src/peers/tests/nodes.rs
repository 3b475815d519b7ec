//! Nodes for the tests: one that answers, one that asks, and one that does as a test pleases.

use crate::metrics::Metrics;
use crate::peers::{
    Incoming, PeerConfig, PeerError, PeerEvent, PeerHandler, PeerId, Peers, Refusals, ReplyHandle, accept,
};
use std::cell::RefCell;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tollgate_cluster::Incarnation;
use tollgate_cluster::wire::{Established, Handshake, Kind, Local, Progress, Secret, Versions};

/// Only catches hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn config(name: &str) -> PeerConfig {
    PeerConfig {
        local: Local {
            id: Incarnation {
                name: name.into(),
                generation: 1,
            },
            cluster: "test".into(),
            workers: 2,
            frame_bytes_max: 1 << 20,
            versions: Versions::OURS,
        },
        secret: None,
        queue_bytes: 64 << 20,
        requests: 16_384,
        handshakes: 16,
        metrics: Arc::new(Metrics::new(name, 2, Vec::new())),
        refusals: Refusals::default(),
    }
}

pub fn with_secret(name: &str, secret: &str) -> PeerConfig {
    PeerConfig {
        secret: Some(Secret::new(secret.as_bytes())),
        ..config(name)
    }
}

/// Answers every message with itself, but for those that begin with one of these.
pub const HOLD: &[u8] = b"hold";
/// Answered with as many bytes as the number behind it says.
pub const MANY: &[u8] = b"many";

#[derive(Default)]
struct Echo {
    held: RefCell<Vec<ReplyHandle>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl PeerHandler for Echo {
    fn on_open(&self, peer: &PeerId) {
        self.log
            .lock()
            .unwrap()
            .push(format!("open {} {}", peer.id.name, peer.worker));
    }

    fn on_frame(self: Rc<Self>, from: &PeerId, kind: Kind, body: &[u8], reply: ReplyHandle) {
        assert_eq!(reply.version(), from.version);
        if body.starts_with(HOLD) {
            self.held.borrow_mut().push(reply);
        } else if let Some(bytes) = body.strip_prefix(MANY) {
            let bytes = std::str::from_utf8(bytes).unwrap().parse().unwrap();
            let _ = reply.reply_body(kind, &vec![b'.'; bytes]);
        } else {
            let _ = reply.reply_body(kind, body);
        }
    }

    fn on_close(&self, peer: &PeerId, why: PeerError) {
        self.log.lock().unwrap().push(format!("close {} {why:?}", peer.id.name));
    }
}

/// A node that answers, on a thread of its own.
pub struct Server {
    pub address: SocketAddr,
    pub config: Arc<PeerConfig>,
    pub log: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub fn start(config: PeerConfig) -> Self {
        Self::start_at(config, "127.0.0.1:0".parse().unwrap())
    }

    pub fn start_at(config: PeerConfig, address: SocketAddr) -> Self {
        let listener = crate::listen::bind(address, 128).unwrap();
        let address = listener.local_addr().unwrap();
        let config = Arc::new(config);
        let log = Arc::default();
        let (stop, stopped) = oneshot::channel();
        let thread = {
            let (config, log) = (Arc::clone(&config), Arc::clone(&log));
            std::thread::spawn(move || {
                run_local(async move {
                    let incoming: Vec<_> = (0..2)
                        .map(|worker| {
                            let handler = Rc::new(Echo {
                                log: Arc::clone(&log),
                                ..Echo::default()
                            });
                            Incoming::new(Arc::clone(&config), worker, handler)
                        })
                        .collect();
                    tokio::task::spawn_local(accept(config, listener, move |accepted| {
                        incoming[usize::from(accepted.to_worker())].serve(accepted).unwrap();
                    }));
                    let _ = stopped.await;
                });
            })
        };
        Self {
            address,
            config,
            log,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Ends it with all its connections.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

pub fn run_local<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(PATIENCE, what).await.expect("hangs")
    })
}

/// What happened to connections of an asking node.
pub type Events = Rc<RefCell<Vec<String>>>;

/// A worker that asks: it knows the server as "b".
pub fn asking(config: PeerConfig, address: SocketAddr) -> (Peers, Arc<PeerConfig>, Events) {
    let (config, events) = (Arc::new(config), Events::default());
    let noted = Rc::clone(&events);
    let peers = Peers::new(Arc::clone(&config), 1, move |name, worker, event| {
        noted.borrow_mut().push(match event {
            PeerEvent::Connected(hello) => format!("connected {name} {worker} {}", hello.id.name),
            PeerEvent::Lost(why) => format!("lost {name} {worker} {why:?}"),
            PeerEvent::Failed(why) => format!("failed {name} {worker} {why:?}"),
        });
    });
    peers.set(&"b".into(), 1, &address.to_string().into());
    (peers, config, events)
}

/// Waits until something is so.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A side of a connection that blocks, and does as the test pleases.
pub struct Raw {
    pub stream: TcpStream,
    pub established: Box<Established>,
}

impl Raw {
    /// Connects to a server as a worker of "a", sending the handshake `step` bytes at a time.
    pub fn connect(address: SocketAddr, worker: u16, step: usize) -> Self {
        let mut out = Vec::new();
        let local = config("a").local;
        let handshake = Handshake::open(local, None, 0, ("b".into(), worker), [7; 32], &mut out);
        Self::shake(TcpStream::connect(address).unwrap(), handshake, out, step)
    }

    /// Accepts a connection as "b".
    pub fn accept(listener: &TcpListener) -> Self {
        let handshake = Handshake::accept(config("b").local, None, [8; 32]);
        Self::shake(listener.accept().unwrap().0, handshake, Vec::new(), 1_000)
    }

    fn shake(mut stream: TcpStream, mut handshake: Handshake, mut out: Vec<u8>, step: usize) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        loop {
            send(&mut stream, &out, step);
            out.clear();
            let mut bytes = [0; 4_096];
            let read = stream.read(&mut bytes).unwrap();
            handshake.input().extend_from_slice(&bytes[..read]);
            match handshake.step(&mut out) {
                Progress::More => {}
                Progress::Done(established) => {
                    send(&mut stream, &out, step);
                    return Self { stream, established };
                }
                Progress::Refused(refusal) => panic!("{refusal}"),
            }
        }
    }

    pub fn send(&mut self, kind: u8, id: u64, body: &[u8], step: usize) {
        let mut out = Vec::new();
        self.established.writer.write_body(&mut out, kind, id, body).unwrap();
        send(&mut self.stream, &out, step);
    }

    pub fn receive(&mut self) -> (u8, u64, Vec<u8>) {
        loop {
            if let Some(frame) = self.established.reader.next_frame().unwrap() {
                return (frame.kind, frame.id, frame.body.to_vec());
            }
            let mut bytes = [0; 4_096];
            let read = self.stream.read(&mut bytes).unwrap();
            assert!(read > 0, "closed");
            self.established.reader.input().extend_from_slice(&bytes[..read]);
        }
    }

    /// Reads until the other side has closed.
    pub fn until_closed(&mut self) {
        let mut bytes = [0; 4_096];
        while matches!(self.stream.read(&mut bytes), Ok(1..)) {}
    }
}

pub fn send(stream: &mut TcpStream, bytes: &[u8], step: usize) {
    for piece in bytes.chunks(step) {
        stream.write_all(piece).unwrap();
    }
}
