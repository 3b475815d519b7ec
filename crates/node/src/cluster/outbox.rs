//! What a step of a machine has to say to its peers: one frame to each worker of each.

use crate::peers::Peers;
use std::cell::RefCell;
use std::sync::Arc;
use tollgate_cluster::slots::Message;
use tollgate_cluster::wire::{Kind, append_slot_message};

/// A frame goes when it has so many bytes.
const FRAME_BYTES: usize = 64 << 10;
/// Frames that are kept for the next step.
const KEPT: usize = 64;

/// Messages of one step that are not sent yet.
#[derive(Debug, Default)]
pub struct Outbox {
    frames: RefCell<Vec<Body>>,
}

/// Messages to a worker of a peer.
#[derive(Debug)]
struct Body {
    peer: Arc<str>,
    worker: u16,
    bytes: Vec<u8>,
}

impl Outbox {
    /// Adds a message. Those to one worker of a peer stay in their order.
    pub(super) fn push(&self, peers: &Peers, peer: Arc<str>, worker: u16, message: &Message) {
        let mut frames = self.frames.borrow_mut();
        let is_same = |body: &Body| body.worker == worker && (Arc::ptr_eq(&body.peer, &peer) || body.peer == peer);
        let at = frames.iter().position(is_same).unwrap_or_else(|| {
            frames.push(Body {
                peer,
                worker,
                bytes: Vec::new(),
            });
            frames.len() - 1
        });
        let body = &mut frames[at];
        // What cannot be written is lost, like what is lost on its way.
        let _ = append_slot_message(message, &mut body.bytes);
        if body.bytes.len() >= FRAME_BYTES {
            body.send(peers);
        }
    }

    /// Sends all.
    pub(super) fn send(&self, peers: &Peers) {
        let mut frames = self.frames.borrow_mut();
        frames
            .iter_mut()
            .filter(|body| !body.bytes.is_empty())
            .for_each(|body| body.send(peers));
        frames.truncate(KEPT);
    }
}

impl Body {
    fn send(&mut self, peers: &Peers) {
        // The machine sends again what is lost.
        if let Ok(link) = peers.link(&self.peer, self.worker) {
            let _ = link.send_body(Kind::Slot, &self.bytes);
        }
        self.bytes.clear();
    }
}
