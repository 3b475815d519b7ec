//! What is derived from the cluster secret.
//!
//! Everything is HMAC-SHA256 and HKDF of it (RFC 2104, RFC 5869), each purpose with a label of its own. The keys of a connection come from
//! the secret and both hellos, whose nonces make them new each time; who learns the secret later can read what was recorded.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Tag};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
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
        // Expanding fails only for more than 255 hashes; this is one.
        let expanded = Hkdf::<Sha256>::new(Some(salt), &self.0).expand(label.as_bytes(), &mut key);
        debug_assert!(expanded.is_ok());
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
    let mut hash = Sha256::new();
    for hello in [opener, accepter] {
        hash.update((hello.len() as u64).to_le_bytes());
        hash.update(hello);
    }
    hash.finalize().into()
}

fn proof_mac(secret: &Secret, transcript: &[u8; 32], side: Side) -> Hmac<Sha256> {
    let key = secret.derive(b"", side.proof_label());
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(transcript);
    mac
}

/// What a side shows to prove that it knows the secret.
pub fn proof(secret: &Secret, transcript: &[u8; 32], side: Side) -> [u8; 32] {
    proof_mac(secret, transcript, side).finalize().into_bytes().into()
}

/// Whether a side's proof is right, in time that does not depend on where it is wrong.
pub fn is_proof(secret: &Secret, transcript: &[u8; 32], side: Side, proof: &[u8]) -> bool {
    proof_mac(secret, transcript, side).verify_slice(proof).is_ok()
}

/// Seals or opens the frames of one direction of one connection, each with the next number as its nonce: a frame that comes again, is left
/// out or out of order does not open.
pub struct FrameKey {
    cipher: ChaCha20Poly1305,
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
        let key = secret.derive(transcript, side.key_label());
        Self {
            cipher: ChaCha20Poly1305::new((&key).into()),
            next: 0,
        }
    }

    fn next_nonce(&mut self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.next.to_le_bytes());
        // 2^64 frames are 500 years of a thousand million a second.
        self.next += 1;
        nonce
    }

    /// Encrypts in place; returns the seal.
    pub fn seal(&mut self, bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = self.next_nonce();
        match self.cipher.encrypt_inout_detached((&nonce).into(), b"", bytes.into()) {
            Ok(tag) => tag.into(),
            // Only for more than 256 GiB, which no frame has.
            Err(_) => unreachable!("a frame has a bound"),
        }
    }

    /// Decrypts in place; whether the seal is right.
    pub fn open(&mut self, bytes: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        let nonce = self.next_nonce();
        let tag = Tag::from(*tag);
        self.cipher
            .decrypt_inout_detached((&nonce).into(), b"", bytes.into(), &tag)
            .is_ok()
    }
}
