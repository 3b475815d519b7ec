//! What is derived from the cluster secret.
//!
//! Everything is HMAC-SHA256 and HKDF of it (RFC 2104, RFC 5869), each purpose with a label of its own. The keys of a connection come from
//! the secret and both hellos, whose nonces make them new each time; who learns the secret later can read what was recorded.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{digest, hkdf, hmac};
use std::fmt;
use std::sync::Arc;

/// Bytes that a seal adds.
pub const TAG_BYTES: usize = 16;

/// The cluster secret: what all nodes of a cluster know, and nobody else.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// The secret of these bytes. That they are many and random is for the configuration to see to.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// A key for one purpose.
    pub(super) fn derive(&self, salt: &[u8], label: &str) -> [u8; 32] {
        let mut key = [0; 32];
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&self.0);
        let filled = extracted
            .expand(&[label.as_bytes()], hkdf::HKDF_SHA256)
            .and_then(|expanded| expanded.fill(&mut key));
        // It fails for more than 255 hashes; this is one.
        debug_assert!(filled.is_ok());
        key
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Which side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that connected.
    Opener,
    /// The one that listens.
    Accepter,
}

impl Side {
    fn proof_label(self) -> &'static str {
        match self {
            Self::Opener => "tollgate peer proof of the opener",
            Self::Accepter => "tollgate peer proof of the accepter",
        }
    }

    fn key_label(self) -> &'static str {
        match self {
            Self::Opener => "tollgate peer frames of the opener",
            Self::Accepter => "tollgate peer frames of the accepter",
        }
    }
}

/// The hash of both hellos, with their lengths so that no bytes can pass from one to the other.
pub fn transcript(opener: &[u8], accepter: &[u8]) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(2 * 8 + opener.len() + accepter.len());
    for hello in [opener, accepter] {
        bytes.extend_from_slice(&(hello.len() as u64).to_le_bytes());
        bytes.extend_from_slice(hello);
    }
    fixed(digest::digest(&digest::SHA256, &bytes).as_ref())
}

fn proof_key(secret: &Secret, side: Side) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &secret.derive(b"", side.proof_label()))
}

/// What a side shows to prove that it knows the secret.
pub fn proof(secret: &Secret, transcript: &[u8; 32], side: Side) -> [u8; 32] {
    fixed(hmac::sign(&proof_key(secret, side), transcript).as_ref())
}

/// Whether a side's proof is right, in time that does not depend on where it is wrong.
pub fn is_proof(secret: &Secret, transcript: &[u8; 32], side: Side, proof: &[u8]) -> bool {
    hmac::verify(&proof_key(secret, side), transcript, proof).is_ok()
}

/// The bytes of a slice of that length.
pub fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut copy = [0; N];
    copy.copy_from_slice(bytes);
    copy
}

/// A key for sealing.
pub fn sealing_key(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("its keys have 32 bytes"))
}

/// The nonce of that number.
pub fn numbered(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Seals or opens the frames of one direction of one connection, each with the next number as its nonce: a frame that comes again, is left
/// out or out of order does not open.
pub struct FrameKey {
    key: LessSafeKey,
    next: u64,
}

impl fmt::Debug for FrameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameKey")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl FrameKey {
    /// The key of what that side sends.
    pub fn new(secret: &Secret, transcript: &[u8; 32], side: Side) -> Self {
        Self {
            key: sealing_key(&secret.derive(transcript, side.key_label())),
            next: 0,
        }
    }

    fn next_nonce(&mut self) -> Nonce {
        let nonce = numbered(self.next);
        // 2^64 frames are 500 years of a thousand million a second.
        self.next += 1;
        nonce
    }

    /// Encrypts in place; returns the seal.
    pub fn seal(&mut self, bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = self.next_nonce();
        match self.key.seal_in_place_separate_tag(nonce, Aad::empty(), bytes) {
            Ok(tag) => fixed(tag.as_ref()),
            // Only for more than 256 GiB, which no frame has.
            Err(_) => unreachable!("a frame has a bound"),
        }
    }

    /// Decrypts in place what ends with its seal; whether that is right.
    pub fn open(&mut self, sealed: &mut [u8]) -> bool {
        let nonce = self.next_nonce();
        self.key.open_in_place(nonce, Aad::empty(), sealed).is_ok()
    }
}
