//! What it costs two nodes to forward: CPU of a round trip of 32 commands, about 1.5 KB each way, both sides together.
//!
//! `cargo bench -p tollgate-node --bench peers`

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tollgate_cluster::Incarnation;
use tollgate_cluster::wire::{Forward, Kind, Local, Replies, Run, Secret, Versions, read_message};
use tollgate_node::metrics::{Metrics, process_cpu_time_ns};
use tollgate_node::peers::{Incoming, PeerConfig, PeerHandler, PeerId, PeerLink, Peers, Refusals, ReplyHandle, accept};

const COMMANDS: u32 = 32;
const COMMAND: &[u8] = b"*6\r\n$8\r\nRL.CHECK\r\n$2\r\nu1\r\n$5\r\nLIMIT\r\n$1\r\n5\r\n$3\r\nPER\r\n$2\r\n1m\r\n";
const REPLY: &[u8] = b"*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:12000\r\n$6\r\nholder\r\n";
const ROUND_TRIPS: usize = 50_000;

fn main() {
    for sealed in [false, true] {
        let address = answering(sealed);
        run_local(async {
            let peers = Peers::new(config("a", sealed), 0, |_, _, _| {});
            peers.set(&"b".into(), 1, &address.to_string().into());
            let link = peers.link("b", 0).expect("it is set");
            for depth in [1, 8, 64] {
                round_trips(&link, depth, ROUND_TRIPS / 20).await;
                let (cpu_ns, started) = (process_cpu_time_ns(), Instant::now());
                round_trips(&link, depth, ROUND_TRIPS).await;
                println!(
                    "{}, {depth:2} at a time: {:5.2} us of CPU a round trip, {:6.2} us of time",
                    if sealed { "sealed" } else { "plain " },
                    (process_cpu_time_ns() - cpu_ns) as f64 / 1e3 / ROUND_TRIPS as f64,
                    started.elapsed().as_secs_f64() * 1e6 / ROUND_TRIPS as f64,
                );
            }
        });
    }
}

/// Sends `depth` at a time and waits for all of their answers.
async fn round_trips(link: &Rc<PeerLink>, depth: usize, count: usize) {
    let commands = COMMAND.repeat(COMMANDS as usize);
    let runs = [Run {
        commands: COMMANDS,
        db: 0,
        resp: 2,
    }];
    let mut pending = VecDeque::new();
    for lane in 0..count {
        let forward = Forward {
            lane: lane as u64,
            commands: &commands,
            runs: Cow::Borrowed(&runs),
            stand_in_for: None,
        };
        pending.push_back(link.request(&forward).expect("it fits"));
        while pending.len() == depth || lane + 1 == count && !pending.is_empty() {
            for answer in pending.drain(..) {
                let answer = answer.await.expect("an answer");
                let replies = read_message::<Replies<'_>>(answer.version, &answer.body).expect("replies");
                assert_eq!(replies.ends.len(), COMMANDS as usize);
            }
        }
    }
}

/// Starts a node that answers every forward, on a thread of its own.
fn answering(sealed: bool) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("a socket");
    std::thread::spawn(move || {
        run_local(async {
            let config = config("b", sealed);
            let handler = Answering {
                bytes: REPLY.repeat(COMMANDS as usize),
                ends: (1..=COMMANDS).map(|number| number * REPLY.len() as u32).collect(),
            };
            let incoming = Incoming::new(Arc::clone(&config), 0, Rc::new(handler));
            accept(config, listener, move |accepted| {
                incoming.serve(accepted).expect("a socket");
            })
            .await;
        });
    });
    address
}

struct Answering {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl PeerHandler for Answering {
    fn on_frame(self: Rc<Self>, from: &PeerId, kind: Kind, body: &[u8], reply: ReplyHandle) {
        assert_eq!(kind, Kind::Forward);
        let forward = read_message::<Forward<'_>>(from.version, body).expect("a forward");
        assert_eq!(forward.runs[0].commands, COMMANDS);
        let replies = Replies {
            bytes: &self.bytes,
            ends: Cow::Borrowed(&self.ends),
            not_answered: Vec::new(),
        };
        reply.reply(&replies).expect("it fits");
    }
}

fn config(name: &str, sealed: bool) -> Arc<PeerConfig> {
    Arc::new(PeerConfig {
        local: Local {
            id: Incarnation {
                name: name.into(),
                generation: 1,
            },
            cluster: "bench".into(),
            workers: 1,
            frame_bytes_max: 16 << 20,
            versions: Versions::OURS,
        },
        secret: sealed.then(|| Secret::new(b"secret")),
        queue_bytes: 64 << 20,
        requests: 16_384,
        handshakes: 16,
        metrics: Arc::new(Metrics::new(name, 1, Vec::new())),
        refusals: Refusals::default(),
    })
}

fn run_local<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, what)
}
