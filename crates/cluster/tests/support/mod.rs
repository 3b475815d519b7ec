//! Two nodes that shake hands, for the tests of the peers' protocol.

// Each test uses a part.
#![allow(dead_code)]

use tollgate_cluster::Incarnation;
use tollgate_cluster::wire::{Established, Handshake, Local, Progress, Refusal, Secret, Versions};

pub const FRAME_BYTES_MAX: usize = 1 << 20;

pub fn local(name: &str) -> Local {
    Local {
        id: Incarnation {
            name: name.into(),
            generation: 1_800_000_000_000,
        },
        cluster: "test".into(),
        workers: 2,
        frame_bytes_max: FRAME_BYTES_MAX,
        versions: Versions { lowest: 1, highest: 1 },
    }
}

pub fn secret(text: &str) -> Option<Secret> {
    (!text.is_empty()).then(|| Secret::new(text.as_bytes()))
}

/// Where a handshake ended.
#[derive(Debug)]
pub enum End {
    Open(Box<Established>),
    Refused(Refusal),
}

impl End {
    pub fn established(self) -> Box<Established> {
        match self {
            Self::Open(established) => established,
            Self::Refused(refusal) => panic!("{refusal}"),
        }
    }

    pub fn refusal(self) -> Refusal {
        match self {
            Self::Open(established) => panic!("{established:?}"),
            Self::Refused(refusal) => refusal,
        }
    }
}

/// One side, and what is on its way to it.
pub struct Party {
    pub handshake: Handshake,
    pub end: Option<End>,
}

impl Party {
    pub fn new(handshake: Handshake) -> Self {
        Self { handshake, end: None }
    }

    /// Gives it bytes, `step` at a time; returns what it sends. What comes after its end is kept for the frames.
    pub fn feed(&mut self, mut bytes: &[u8], step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(step.min(bytes.len()));
            bytes = rest;
            match &mut self.end {
                Some(End::Open(established)) => established.reader.input().extend_from_slice(now),
                Some(End::Refused(_)) => {}
                None => {
                    self.handshake.input().extend_from_slice(now);
                    self.end = match self.handshake.step(&mut out) {
                        Progress::More => None,
                        Progress::Done(established) => Some(End::Open(established)),
                        Progress::Refused(refusal) => Some(End::Refused(refusal)),
                    };
                }
            }
        }
        out
    }
}

/// An opener's handshake with `to`, and what it sends first.
pub fn opener(local: Local, with: &str, to: (&str, u16)) -> (Handshake, Vec<u8>) {
    let mut out = Vec::new();
    let handshake = Handshake::open(local, secret(with), 1, (to.0.into(), to.1), [1; 32], &mut out);
    (handshake, out)
}

/// Lets two sides talk until neither has anything to say.
pub fn shake(opener: (Handshake, Vec<u8>), accepter: Handshake, step: usize) -> (Option<End>, Option<End>) {
    let (mut one, mut other) = (Party::new(opener.0), Party::new(accepter));
    let mut to_other = opener.1;
    while !to_other.is_empty() {
        let to_one = other.feed(&to_other, step);
        to_other = one.feed(&to_one, step);
    }
    (one.end, other.end)
}

/// Both ends of a connection that stands.
pub fn connected(with: &str) -> (Box<Established>, Box<Established>) {
    let accepter = Handshake::accept(local("b"), secret(with), [2; 32]);
    let (one, other) = shake(opener(local("a"), with, ("b", 0)), accepter, usize::MAX);
    (one.expect("over").established(), other.expect("over").established())
}
