//! Datagrams of gossip: chitchat's messages, and a question of our own; sealed if there is a cluster secret.
//!
//! A datagram is [`FORMAT`], a kind, and a body. What does not open, or is none of these, is counted and dropped.

use super::names::{Answer, Farewell, Question, Register};
use crate::metrics::{Counter, SharedCounter};
use async_trait::async_trait;
use chitchat::transport::{Socket, Transport};
use chitchat::{ChitchatMessage, Deserializable, Serializable};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

/// The longest payload of a datagram in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// What each datagram starts with: this layout of datagrams.
const FORMAT: u8 = 1;

/// How long to wait after an error of the socket, so that one which persists does not take a core.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

/// Keeps datagrams from those who do not have the cluster's secret.
pub trait Seal: Send + Sync {
    /// The datagram as it goes over the network.
    fn seal(&self, plain: &[u8]) -> Vec<u8>;
    /// What was sealed; none if it was not sealed with this secret or has been changed.
    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>>;
}

/// Says of which addresses datagrams are lost, in both directions. For tests.
pub type Lossy = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// What gossip counts.
#[derive(Debug, Default)]
pub struct GossipCounters {
    /// Members that have other rules than this node, now. The gossip thread alone writes this and the next five.
    pub other_rules: Counter,
    /// Members that have other policies, now.
    pub other_policies: Counter,
    /// Members that are joining, now.
    pub joining: Counter,
    /// Members of the ring, now.
    pub ready: Counter,
    /// Members that are leaving, now.
    pub leaving: Counter,
    /// Changes of the view.
    pub views: Counter,
    /// Datagrams sent.
    pub sent: SharedCounter,
    /// Datagrams received, of all kinds.
    pub received: SharedCounter,
    /// Datagrams that did not open or make no sense: they had no effect.
    pub refused: SharedCounter,
    /// Datagrams that the system did not take or give.
    pub errors: SharedCounter,
}

/// One datagram.
#[derive(Debug)]
pub(super) enum Datagram {
    Gossip(ChitchatMessage),
    Question(Question),
    Answer(Answer),
    Farewell(Farewell),
}

/// What a datagram carries besides chitchat's messages.
#[derive(Debug, Serialize, Deserialize)]
enum Own {
    Question(Question),
    Answer(Answer),
    Farewell(Farewell),
}

const GOSSIP: u8 = 0;
const OWN: u8 = 1;

impl Datagram {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        let own = match self {
            Self::Gossip(message) => {
                bytes.push(GOSSIP);
                message.serialize(&mut bytes);
                return bytes;
            }
            Self::Question(question) => Own::Question(question.clone()),
            Self::Answer(answer) => Own::Answer(answer.clone()),
            Self::Farewell(farewell) => Own::Farewell(farewell.clone()),
        };
        bytes.push(OWN);
        // Text and numbers only.
        bytes.extend(serde_json::to_vec(&own).unwrap_or_default());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [FORMAT, GOSSIP, body @ ..] => {
                let mut rest = body;
                ChitchatMessage::deserialize(&mut rest).ok().map(Self::Gossip)
            }
            [FORMAT, OWN, body @ ..] => Some(match serde_json::from_slice(body).ok()? {
                Own::Question(question) => Self::Question(question),
                Own::Answer(answer) => Self::Answer(answer),
                Own::Farewell(farewell) => Self::Farewell(farewell),
            }),
            _ => None,
        }
    }
}

/// A socket with its seal.
pub(super) struct Wire {
    socket: UdpSocket,
    seal: Option<Arc<dyn Seal>>,
    lossy: Option<Lossy>,
    pub(super) counters: Arc<GossipCounters>,
    refusal_logged: std::sync::atomic::AtomicBool,
}

impl Wire {
    pub(super) fn new(
        socket: UdpSocket,
        seal: Option<Arc<dyn Seal>>,
        lossy: Option<Lossy>,
        counters: Arc<GossipCounters>,
    ) -> Self {
        Self {
            socket,
            seal,
            lossy,
            counters,
            refusal_logged: false.into(),
        }
    }

    /// Sends a datagram. That it is lost is nothing special, so there is no error.
    pub(super) async fn send(&self, to: SocketAddr, datagram: &Datagram) {
        if self.loses(to) {
            return;
        }
        let plain = datagram.encode();
        let bytes = match &self.seal {
            Some(seal) => seal.seal(&plain),
            None => plain,
        };
        match self.socket.send_to(&bytes, to).await {
            Ok(_) => self.counters.sent.add(1),
            Err(error) => {
                self.counters.errors.add(1);
                tracing::debug!(event = "gossip_not_sent", %to, bytes = bytes.len(), %error);
            }
        }
    }

    /// The next datagram that makes sense. Nothing is lost if the future is dropped.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> (SocketAddr, Datagram) {
        loop {
            let (length, from) = match self.socket.recv_from(buffer).await {
                Ok(received) => received,
                Err(error) => {
                    self.counters.errors.add(1);
                    tracing::debug!(event = "gossip_not_received", %error);
                    tokio::time::sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            if self.loses(from) {
                continue;
            }
            self.counters.received.add(1);
            // The buffer is as long as any datagram.
            let bytes = buffer.get(..length).unwrap_or_default();
            let datagram = match &self.seal {
                Some(seal) => seal.open(bytes).as_deref().and_then(Datagram::decode),
                None => Datagram::decode(bytes),
            };
            match datagram {
                Some(datagram) => return (from, datagram),
                None => self.refuse(from, length),
            }
        }
    }

    fn loses(&self, peer: SocketAddr) -> bool {
        self.lossy.as_ref().is_some_and(|lossy| lossy(peer))
    }

    fn refuse(&self, from: SocketAddr, bytes: usize) {
        self.counters.refused.add(1);
        // The first says that it happens; the counter says how often.
        if !self.refusal_logged.swap(true, std::sync::atomic::Ordering::Relaxed) {
            tracing::warn!(
                event = "gossip_refused",
                %from,
                bytes,
                "a datagram does not open with this cluster's secret, or is no gossip; others will only be counted"
            );
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// Gives chitchat a socket that exists.
pub(super) struct GossipTransport {
    pub(super) wire: Arc<Wire>,
    pub(super) register: Arc<Register>,
    /// Takes answers to questions of this node.
    pub(super) answers: mpsc::Sender<(SocketAddr, Answer)>,
    /// Takes farewells.
    pub(super) farewells: mpsc::Sender<Farewell>,
}

#[async_trait]
impl Transport for GossipTransport {
    async fn open(&self, _: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        Ok(Box::new(GossipSocket {
            wire: Arc::clone(&self.wire),
            register: Arc::clone(&self.register),
            answers: self.answers.clone(),
            farewells: self.farewells.clone(),
            buffer: vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice(),
        }))
    }
}

struct GossipSocket {
    wire: Arc<Wire>,
    register: Arc<Register>,
    answers: mpsc::Sender<(SocketAddr, Answer)>,
    farewells: mpsc::Sender<Farewell>,
    buffer: Box<[u8]>,
}

#[async_trait]
impl Socket for GossipSocket {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        self.wire.send(to, &Datagram::Gossip(message)).await;
        Ok(())
    }

    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        loop {
            match self.wire.receive(&mut self.buffer).await {
                (from, Datagram::Gossip(message)) => return Ok((from, message)),
                (from, Datagram::Question(question)) => {
                    if let Some(answer) = self.register.answer(&question) {
                        self.wire.send(from, &Datagram::Answer(answer)).await;
                    }
                }
                // Nobody waits for an answer that does not fit.
                (from, Datagram::Answer(answer)) => {
                    let _ = self.answers.try_send((from, answer));
                }
                // Without it, the silence says the same a second later.
                (_, Datagram::Farewell(farewell)) => {
                    let _ = self.farewells.try_send(farewell);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a byte that must be there.
    struct Marked(u8);

    impl Seal for Marked {
        fn seal(&self, plain: &[u8]) -> Vec<u8> {
            [plain, &[self.0]].concat()
        }

        fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
            sealed.strip_suffix(&[self.0]).map(<[u8]>::to_vec)
        }
    }

    async fn wire(seal: Option<u8>) -> (Wire, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let seal = seal.map(|mark| Arc::new(Marked(mark)) as Arc<dyn Seal>);
        (Wire::new(socket, seal, None, Arc::default()), address)
    }

    fn question() -> Datagram {
        Datagram::Question(Question {
            nonce: u64::MAX,
            name: "one".into(),
            generation: 3,
        })
    }

    #[tokio::test]
    async fn what_does_not_open_is_counted_and_has_no_effect() {
        let (receiver, to) = wire(Some(1)).await;
        for mark in [None, Some(2)] {
            wire(mark).await.0.send(to, &question()).await;
        }
        let (friend, from) = wire(Some(1)).await;
        friend.send(to, &Datagram::Gossip(ChitchatMessage::BadCluster)).await;
        friend.send(to, &question()).await;
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let (sender, datagram) = receiver.receive(&mut buffer).await;
        assert_eq!(sender, from);
        assert!(matches!(datagram, Datagram::Gossip(ChitchatMessage::BadCluster)));
        let (_, datagram) = receiver.receive(&mut buffer).await;
        assert!(matches!(datagram, Datagram::Question(question) if question.nonce == u64::MAX));
        assert_eq!(
            (receiver.counters.received.get(), receiver.counters.refused.get()),
            (4, 2)
        );
    }

    #[tokio::test]
    async fn garbage_is_refused() {
        let (receiver, to) = wire(None).await;
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let garbage: [&[u8]; 8] = [
            b"",
            b"\x01",
            b"\x01\x00",
            b"\x01\x01",
            b"\x01\x01{}",
            b"\x02\x01{}",
            b"\x01\x00\x53\xb0\x00\x00",
            &[255; 60_000],
        ];
        for bytes in garbage {
            socket.send_to(bytes, to).await.unwrap();
        }
        wire(None).await.0.send(to, &question()).await;
        let (_, datagram) = receiver.receive(&mut vec![0; DATAGRAM_BYTES_MAX]).await;
        assert!(matches!(datagram, Datagram::Question(_)));
        assert_eq!(receiver.counters.refused.get(), garbage.len() as u64);
    }
}
