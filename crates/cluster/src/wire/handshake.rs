//! The beginning of a connection between two nodes, as a state machine.
//!
//! ```text
//! opener    MAGIC Hello ──▶
//!                       ◀── MAGIC Hello        accepter
//!           Proof ──▶                          with a secret only
//!                       ◀── Proof
//! ```
//!
//! Either side may send `Refused` instead and close. The opener proves first, so that whoever merely connects learns nothing that the secret
//! went into. After the last proof both sides seal every frame; without a secret the opener goes on after the accepter's hello, the
//! accepter after its own.

use super::codec;
use super::frame::{FrameReader, FrameWriter};
use super::hello::{HELLO_BYTES_MAX, Hello, Local, NONCE_BYTES, Refusal, Refused};
use super::keys::{FrameKey, Secret, Side, is_proof, proof, transcript};
use std::sync::Arc;

/// What each side sends first.
const MAGIC: &[u8; 8] = b"TOLLPEER";

/// Kinds of frames of a handshake.
const KIND_HELLO: u8 = 1;
const KIND_PROOF: u8 = 2;
const KIND_REFUSED: u8 = 3;

/// How far a handshake is.
#[derive(Debug)]
pub enum Progress {
    /// It goes on when more has arrived.
    More,
    /// The connection stands.
    Done(Box<Established>),
    /// It does not come about. What has been written is still to be sent, since the other side wants to know why.
    Refused(Refusal),
}

/// A connection that stands.
#[derive(Debug)]
pub struct Established {
    /// What the other side said of itself.
    pub peer: Hello,
    /// The version of the protocol that both speak.
    pub version: u16,
    /// Takes the frames that come, those that came already among them.
    pub reader: FrameReader,
    /// Makes the frames that go.
    pub writer: FrameWriter,
}

/// A handshake under way.
#[derive(Debug)]
pub struct Handshake {
    side: Side,
    local: Local,
    secret: Option<Secret>,
    /// The worker of this node that asks (opener).
    worker: u16,
    to: Option<(Arc<str>, u16)>,
    nonce: [u8; NONCE_BYTES],
    reader: FrameReader,
    greeted: bool,
    /// The body of our hello, once it is sent.
    own: Vec<u8>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Hello,
    Proof {
        theirs: Box<Hello>,
        transcript: [u8; 32],
        version: u16,
    },
    Over,
}

impl Handshake {
    /// Begins a connection of worker `from` of this node to worker `worker` of the node `to`. What is to be sent is appended to `out`. The
    /// nonce is random and new.
    pub fn open(
        local: Local,
        secret: Option<Secret>,
        from: u16,
        (to, worker): (Arc<str>, u16),
        nonce: [u8; NONCE_BYTES],
        out: &mut Vec<u8>,
    ) -> Self {
        let mut handshake = Self::new(Side::Opener, local, secret, nonce);
        handshake.worker = from;
        handshake.send_hello(Arc::clone(&to), worker, out);
        handshake.to = Some((to, worker));
        handshake
    }

    /// Waits for the hello of a connection that was accepted. The nonce is random and new.
    pub fn accept(local: Local, secret: Option<Secret>, nonce: [u8; NONCE_BYTES]) -> Self {
        Self::new(Side::Accepter, local, secret, nonce)
    }

    fn new(side: Side, local: Local, secret: Option<Secret>, nonce: [u8; NONCE_BYTES]) -> Self {
        Self {
            side,
            local,
            secret,
            worker: 0,
            to: None,
            nonce,
            reader: FrameReader::new(HELLO_BYTES_MAX),
            greeted: false,
            own: Vec::new(),
            stage: Stage::Hello,
        }
    }

    /// Where bytes that have arrived are appended.
    pub fn input(&mut self) -> &mut Vec<u8> {
        self.reader.input()
    }

    /// Does what the bytes that have arrived allow; what is to be sent is appended to `out`.
    ///
    /// Once it is [`Progress::Done`] or [`Progress::Refused`], it is over and says [`Progress::More`].
    pub fn step(&mut self, out: &mut Vec<u8>) -> Progress {
        let refusal = match self.advance(out) {
            Ok(progress) => return progress,
            Err(refusal) => refusal,
        };
        self.stage = Stage::Over;
        // Who told us knows, and who does not speak our protocol would not understand.
        if !matches!(refusal, Refusal::Told { .. } | Refusal::NotAPeer) {
            if self.own.is_empty() {
                out.extend_from_slice(MAGIC);
            }
            let text = refusal.to_string();
            let refused = Refused {
                reason: refusal.reason(),
                text: text.get(..HELLO_BYTES_MAX / 2).unwrap_or(&text),
            };
            let mut body = Vec::new();
            // A body of two texts can be written. If it is too long, because of long names, the other side only sees the end.
            if codec::encode(&refused, &mut body).is_ok() {
                let _ = FrameWriter::new(HELLO_BYTES_MAX).write_body(out, KIND_REFUSED, 0, &body);
            }
        }
        Progress::Refused(refusal)
    }

    fn advance(&mut self, out: &mut Vec<u8>) -> Result<Progress, Refusal> {
        if !self.greeted && !self.greet()? {
            return Ok(Progress::More);
        }
        loop {
            if matches!(self.stage, Stage::Over) {
                return Ok(Progress::More);
            }
            let Some(frame) = self.reader.next_frame()? else {
                return Ok(Progress::More);
            };
            // The proofs are of the bodies; nothing else may differ unnoticed.
            if frame.id != 0 {
                return Err(Refusal::Malformed);
            }
            let (kind, body) = (frame.kind, frame.body.to_vec());
            if kind == KIND_REFUSED {
                let (told, _) = codec::decode::<Refused<'_>>(&body).map_err(|_| Refusal::Malformed)?;
                return Err(Refusal::told(&told));
            }
            match (std::mem::replace(&mut self.stage, Stage::Over), kind) {
                (Stage::Hello, KIND_HELLO) => {
                    let (theirs, _) = codec::decode::<Hello>(&body).map_err(|_| Refusal::Malformed)?;
                    if let Some(done) = self.on_hello(theirs, &body, out)? {
                        return Ok(done);
                    }
                }
                (
                    Stage::Proof {
                        theirs,
                        transcript,
                        version,
                    },
                    KIND_PROOF,
                ) => return self.on_proof(*theirs, &transcript, version, &body, out),
                _ => return Err(Refusal::Malformed),
            }
        }
    }

    /// Takes the magic from the front of what has arrived; whether all of it is there.
    fn greet(&mut self) -> Result<bool, Refusal> {
        let arrived = self.reader.pending();
        let len = arrived.len().min(MAGIC.len());
        if arrived[..len] != MAGIC[..len] {
            return Err(Refusal::NotAPeer);
        }
        self.greeted = len == MAGIC.len();
        if self.greeted {
            self.reader.skip(MAGIC.len());
        }
        Ok(self.greeted)
    }

    fn on_hello(&mut self, theirs: Hello, body: &[u8], out: &mut Vec<u8>) -> Result<Option<Progress>, Refusal> {
        let version = self.check(&theirs)?;
        if self.side == Side::Accepter {
            self.worker = theirs.to_worker;
            self.send_hello(Arc::clone(&theirs.id.name), theirs.worker, out);
        }
        let transcript = match self.side {
            Side::Opener => transcript(&self.own, body),
            Side::Accepter => transcript(body, &self.own),
        };
        if self.secret.is_none() {
            return Ok(Some(self.done(theirs, &transcript, version)));
        }
        if self.side == Side::Opener {
            self.send_proof(&transcript, out);
        }
        self.stage = Stage::Proof {
            theirs: Box::new(theirs),
            transcript,
            version,
        };
        Ok(None)
    }

    fn on_proof(
        &mut self,
        theirs: Hello,
        transcript: &[u8; 32],
        version: u16,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress, Refusal> {
        let (their_side, secret) = match self.side {
            Side::Opener => (Side::Accepter, &self.secret),
            Side::Accepter => (Side::Opener, &self.secret),
        };
        // Of later versions there may be more behind it.
        let right = secret
            .as_ref()
            .zip(body.get(..32))
            .is_some_and(|(secret, body)| is_proof(secret, transcript, their_side, body));
        if !right {
            return Err(Refusal::WrongSecret);
        }
        if self.side == Side::Accepter {
            self.send_proof(transcript, out);
        }
        Ok(self.done(theirs, transcript, version))
    }

    fn done(&mut self, theirs: Hello, transcript: &[u8; 32], version: u16) -> Progress {
        self.stage = Stage::Over;
        let key = |side| {
            self.secret
                .as_ref()
                .map(|secret| FrameKey::new(secret, transcript, side))
        };
        let (ours, other) = match self.side {
            Side::Opener => (key(Side::Opener), key(Side::Accepter)),
            Side::Accepter => (key(Side::Accepter), key(Side::Opener)),
        };
        let max_bytes = self.local.frame_bytes_max;
        let both_max_bytes = max_bytes.min(theirs.frame_bytes_max as usize);
        Progress::Done(Box::new(Established {
            version,
            reader: FrameReader::continued(self.reader.pending(), max_bytes, other),
            writer: FrameWriter::sealed(both_max_bytes, ours),
            peer: theirs,
        }))
    }

    /// Whether this node wants that one; the version that both speak. The version comes first: what else a hello says is only known then.
    fn check(&self, theirs: &Hello) -> Result<u16, Refusal> {
        let ours = self.local.versions;
        let Some(version) = ours.common(theirs.versions) else {
            return Err(Refusal::NoCommonVersion {
                ours,
                theirs: theirs.versions,
            });
        };
        match (self.secret.is_some(), theirs.has_secret) {
            (true, false) => return Err(Refusal::SecretMissing),
            (false, true) => return Err(Refusal::SecretUnwanted),
            _ => {}
        }
        if theirs.cluster != self.local.cluster {
            return Err(Refusal::OtherCluster {
                ours: Arc::clone(&self.local.cluster),
                theirs: Arc::clone(&theirs.cluster),
            });
        }
        let name = &self.local.id.name;
        if theirs.id.name == *name {
            return Err(Refusal::SameName(Arc::clone(name)));
        }
        let (wanted, found) = match &self.to {
            Some((to, _)) => (to, &theirs.id.name),
            None => (&theirs.to, name),
        };
        if wanted != found {
            return Err(Refusal::OtherName {
                wanted: Arc::clone(wanted),
                found: Arc::clone(found),
            });
        }
        let (worker, workers) = match &self.to {
            Some((_, worker)) => (*worker, theirs.workers),
            None => (theirs.to_worker, self.local.workers),
        };
        if worker >= workers {
            return Err(Refusal::NoSuchWorker { worker, workers });
        }
        Ok(version)
    }

    fn send_hello(&mut self, to: Arc<str>, to_worker: u16, out: &mut Vec<u8>) {
        let hello = Hello {
            versions: self.local.versions,
            has_secret: self.secret.is_some(),
            cluster: Arc::clone(&self.local.cluster),
            id: self.local.id.clone(),
            workers: self.local.workers,
            worker: self.worker,
            to,
            to_worker,
            frame_bytes_max: u32::try_from(self.local.frame_bytes_max).unwrap_or(u32::MAX),
            nonce: self.nonce,
        };
        let written = codec::encode(&hello, &mut self.own);
        debug_assert!(written.is_ok(), "a hello has a form as bytes");
        #[cfg(feature = "next-version")]
        if self.local.versions.highest >= 2 {
            self.own.extend_from_slice(b"a field of version 2");
        }
        out.extend_from_slice(MAGIC);
        self.send(KIND_HELLO, &self.own, out);
    }

    fn send_proof(&self, transcript: &[u8; 32], out: &mut Vec<u8>) {
        if let Some(secret) = &self.secret {
            self.send(KIND_PROOF, &proof(secret, transcript, self.side), out);
        }
    }

    fn send(&self, kind: u8, body: &[u8], out: &mut Vec<u8>) {
        // Names are bounded by the configuration; a frame of the other side with names that are not is not read in the first place.
        let written = FrameWriter::new(HELLO_BYTES_MAX).write_body(out, kind, 0, body);
        debug_assert!(written.is_ok(), "a frame of a handshake is small");
    }
}
