//! A peer that answers as a test wants it.

use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::node::Place;
use crate::peers::{Incoming, PeerConfig, PeerHandler, PeerId, Refusals, ReplyHandle, accept};
use crate::worker::Worker;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tollgate_cluster::Epoch;
use tollgate_cluster::slots::{Machine, Message, Run};
use tollgate_cluster::wire::{
    Forward, Holder, Kind, Local, NotAnswered, Replies, SlotMessages, Versions, Why, read_message,
};

/// How a peer answers commands.
#[derive(Debug, Clone, Copy)]
pub enum Manner {
    /// It has none of the slots, and knows nothing better.
    NotHere,
    /// All slots are at that peer.
    MovedTo(&'static str),
    /// It does not understand.
    NotUnderstood,
    /// Replies that are none.
    Nonsense,
    /// It has done them.
    Done,
    /// It has done them, for one key each.
    One,
    /// Never.
    Silent,
}

/// What a peer has been asked.
#[derive(Debug)]
pub struct Peer {
    /// How it answers from now on.
    pub manner: Cell<Manner>,
    /// How many times.
    pub asked: Cell<u32>,
    /// How many of these in place of a holder.
    pub asked_as_heir: Cell<u32>,
    /// What the worker's slot machine has sent, and was not looked at yet.
    pub told: RefCell<Vec<Message>>,
}

/// The reply of a peer that does commands.
pub const DONE: &str = "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1\r\n$5\r\nowner\r\n";

impl Peer {
    /// Starts one, of which the worker knows the address.
    pub fn start(worker: &Rc<Worker>, name: &'static str, manner: Manner) -> Rc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let limits = Limits::default();
        let config = Arc::new(PeerConfig {
            local: Local {
                id: super::peer_id(name),
                cluster: "tollgate".into(),
                workers: 1,
                frame_bytes_max: limits.peer_frame_bytes,
                versions: Versions::OURS,
            },
            secret: None,
            queue_bytes: limits.peer_queue_bytes,
            requests: limits.peer_requests,
            handshakes: limits.peer_handshakes,
            metrics: Arc::new(Metrics::new(name, 1, Vec::new())),
            refusals: Refusals::default(),
        });
        let peer = Rc::new(Self {
            manner: Cell::new(manner),
            asked: Cell::default(),
            asked_as_heir: Cell::default(),
            told: RefCell::default(),
        });
        let incoming = Incoming::new(Arc::clone(&config), 0, Rc::clone(&peer));
        tokio::task::spawn_local(accept(config, listener, move |accepted| {
            incoming.serve(accepted).unwrap();
        }));
        let links = worker.links.as_ref().unwrap();
        links.peers.set(&name.into(), 1, &address.into());
        peer
    }

    /// Makes the ring give that slot, and no other, to this peer, and says that it has all that it is sent, until the slot is to be frozen.
    pub async fn follow(&self, worker: &Rc<Worker>, name: &str, slot: u16) {
        super::see_target(worker, name, slot);
        let id = super::peer_id(name);
        worker.step_slots(|machine, step| machine.link_up(&id, 0, 0..tollgate_cluster::SLOTS, step));
        for _ in 0..1_000 {
            if worker.node.place(slot) == Place::Closing {
                return;
            }
            worker.step_slots(Machine::tick);
            tokio::time::sleep(Duration::from_millis(5)).await;
            for message in self.told.take() {
                if let Message::Batch(batch) = message {
                    let (slot, stream, number) = (batch.slot, batch.stream, batch.number);
                    let ack = Message::Ack { slot, stream, number };
                    worker.step_slots(|machine, step| machine.receive(&id, 0, ack, step));
                }
            }
        }
        panic!("the slot is not frozen");
    }

    /// Whether it has been offered a slot since that was last asked.
    pub fn was_offered(&self) -> bool {
        let told = self.told.take();
        told.iter().any(|message| matches!(message, Message::Handover(_)))
    }

    /// Makes the worker believe that this peer holds all slots.
    pub fn holds_all(worker: &Rc<Worker>, name: &str) {
        Self::holds_slots(worker, name, 0, tollgate_cluster::SLOTS - 1);
    }

    /// Makes the worker believe that this peer holds that slot.
    pub fn holds(worker: &Rc<Worker>, name: &str, slot: u16) {
        Self::holds_slots(worker, name, slot, slot);
    }

    fn holds_slots(worker: &Rc<Worker>, name: &str, first: u16, last: u16) {
        let epoch = Epoch(9);
        let runs = vec![Run { first, last, epoch }];
        let holdings = Message::Holdings { runs, all: true };
        worker.step_slots(|machine, step| machine.receive(&super::peer_id(name), 0, holdings, step));
    }
}

impl PeerHandler for Peer {
    fn on_frame(self: Rc<Self>, from: &PeerId, kind: Kind, body: &[u8], reply: ReplyHandle) {
        if kind == Kind::Slot {
            self.told
                .borrow_mut()
                .extend(SlotMessages::of(body).map(Result::unwrap));
        }
        if kind != Kind::Forward {
            return;
        }
        let forward = read_message::<Forward<'_>>(from.version, body).unwrap();
        self.asked.set(self.asked.get() + 1);
        if forward.stand_in_for.is_some() {
            self.asked_as_heir.set(self.asked_as_heir.get() + 1);
        }
        let count = forward.runs.iter().map(|run| run.commands).sum::<u32>();
        let none = |why: Why<'static>| Replies {
            bytes: b"",
            ends: Cow::Owned(vec![0; count as usize]),
            not_answered: (0..count)
                .map(|index| NotAnswered {
                    index,
                    why: why.clone(),
                })
                .collect(),
        };
        let one = match self.manner.get() {
            Manner::One => ":1\r\n",
            _ => DONE,
        };
        let bytes = one.repeat(count as usize);
        let done = |ends: Vec<u32>| Replies {
            bytes: bytes.as_bytes(),
            ends: Cow::Owned(ends),
            not_answered: Vec::new(),
        };
        let answered = match self.manner.get() {
            Manner::Silent => {
                // For as long as the connection stands.
                std::mem::forget(reply);
                return;
            }
            Manner::NotUnderstood => reply.not_understood(),
            Manner::NotHere => reply.reply(&none(Why::NotHere { slot: 0 })),
            Manner::MovedTo(name) => {
                let slot = tollgate_store::slot_of(b"k");
                let holder = Holder { epoch: Epoch(10), name };
                reply.reply(&none(Why::Moved { slot, holder }))
            }
            Manner::Nonsense => reply.reply(&done(vec![1])),
            Manner::Done | Manner::One => {
                reply.reply(&done((1..=count).map(|number| number * one.len() as u32).collect()))
            }
        };
        answered.unwrap();
    }
}
