//! Keys with what is computed from them once: slot and hash.

use crate::entry;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};

/// Number of databases, as in Redis's default configuration.
pub const DATABASES: u8 = 16;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// What a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// A Redis database, 0 to 15.
    Db(u8),
    /// The buckets of one rule, by the number it is interned under.
    Rule(u32),
    /// Buckets that stand in for others, by a number of the caller's: no keys of anybody, and never copied.
    StandIn(u32),
}

/// What is counted, scanned and flushed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keyspace {
    /// A Redis database, 0 to 15.
    Db(u8),
    /// The buckets of all rules.
    Rules,
    /// The buckets that stand in for others.
    StandIns,
}

/// Position of the keyspace of the rules.
const RULES: u8 = DATABASES;
/// Position of the keyspace of what stands in.
const STAND_INS: u8 = DATABASES + 1;

/// Databases, one for the rules, and one for what stands in.
pub(crate) const KEYSPACES: usize = DATABASES as usize + 2;

impl Keyspace {
    /// Every keyspace that belongs to a slot: the databases in order, then the rules.
    pub fn all() -> impl Iterator<Item = Keyspace> {
        (0..DATABASES).map(Keyspace::Db).chain([Keyspace::Rules])
    }

    /// Position in the store's tables; a database that does not exist has none.
    pub(crate) fn index(self) -> Option<usize> {
        match self {
            Keyspace::Db(number) if number < DATABASES => Some(number as usize),
            Keyspace::Db(_) => None,
            Keyspace::Rules => Some(usize::from(RULES)),
            Keyspace::StandIns => Some(usize::from(STAND_INS)),
        }
    }
}

impl From<Space> for Keyspace {
    fn from(space: Space) -> Keyspace {
        match space {
            Space::Db(number) => Keyspace::Db(number),
            Space::Rule(_) => Keyspace::Rules,
            Space::StandIn(_) => Keyspace::StandIns,
        }
    }
}

/// Why a key was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("key of {bytes} bytes is longer than {MAX_KEY_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The key's slot is not among those of this store.
    #[error("slot {slot} is not in this store")]
    SlotNotHeld {
        /// The key's slot.
        slot: u16,
    },
    /// A database beyond the last.
    #[error("database {number} is out of range")]
    NoSuchDatabase {
        /// The number given.
        number: u8,
    },
}

/// A key of one store, with its slot and hash. Made by [`crate::Store::key`]; good for that store only.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
    /// What the first word of the key's entry has in the bits that [`entry::SHAPE_MASK`] selects.
    pub(crate) shape: u32,
    pub(crate) rule: u32,
    pub(crate) slot: u16,
    pub(crate) keyspace: u8,
}

impl<'a> Key<'a> {
    pub(crate) fn new(hasher: &Hasher, space: Space, slot: u16, bytes: &'a [u8]) -> Result<Key<'a>, KeyError> {
        let len = u16::try_from(bytes.len()).map_err(|_| KeyError::TooLong { bytes: bytes.len() })?;
        let (keyspace, rule) = match space {
            Space::Db(number) if number < DATABASES => (number, None),
            Space::Db(number) => return Err(KeyError::NoSuchDatabase { number }),
            Space::Rule(rule) => (RULES, Some(rule)),
            Space::StandIn(number) => (STAND_INS, Some(number)),
        };
        Ok(Key {
            bytes,
            hash: hasher.hash(rule, bytes),
            shape: entry::shape(len, rule.is_some()),
            rule: rule.unwrap_or(0),
            slot,
            keyspace,
        })
    }

    /// The key as the client gave it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its hash, seeded; equal keys of one space have equal hashes.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Its slot.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// What it belongs to.
    pub fn space(&self) -> Space {
        space(self.keyspace, self.rule)
    }
}

/// The longest key that a [`KeyMemo`] has, in bytes.
const MEMO_BYTES_MAX: usize = 64;

/// A key of a store that was prepared, to be prepared again for less: see [`crate::Store::key_again`].
#[derive(Clone, Copy, Debug)]
pub struct KeyMemo {
    /// Without its bytes.
    key: Key<'static>,
    bytes: [u8; MEMO_BYTES_MAX],
    /// None while there is no key.
    len: Option<u8>,
}

impl Default for KeyMemo {
    fn default() -> Self {
        Self {
            key: Key {
                bytes: &[],
                hash: 0,
                shape: 0,
                rule: 0,
                slot: 0,
                keyspace: 0,
            },
            bytes: [0; MEMO_BYTES_MAX],
            len: None,
        }
    }
}

impl KeyMemo {
    /// The key, if it is this one.
    #[inline]
    pub(crate) fn recall<'a>(&self, of: Space, bytes: &'a [u8]) -> Option<Key<'a>> {
        let len = usize::from(self.len?);
        let is_it = len == bytes.len() && self.key.space() == of && self.bytes[..len] == *bytes;
        is_it.then_some(Key { bytes, ..self.key })
    }

    #[inline]
    pub(crate) fn learn(&mut self, key: &Key<'_>) {
        if let Some(bytes) = self.bytes.get_mut(..key.bytes.len()) {
            bytes.copy_from_slice(key.bytes);
            self.len = Some(key.bytes.len() as u8);
            self.key = Key { bytes: &[], ..*key };
        }
    }
}

pub(crate) fn space(keyspace: u8, rule: u32) -> Space {
    match keyspace {
        RULES => Space::Rule(rule),
        STAND_INS => Space::StandIn(rule),
        number => Space::Db(number),
    }
}

/// The keyspace at a position.
pub(crate) fn keyspace(index: u8) -> Keyspace {
    match index {
        RULES => Keyspace::Rules,
        STAND_INS => Keyspace::StandIns,
        number => Keyspace::Db(number),
    }
}

/// The seeded hash of keys. Which bits serve what: the top ones choose the page, bits 32 to 39 are the tag, and the low
/// 32 bits the position in the page.
pub(crate) struct Hasher {
    secrets: RapidSecrets,
}

impl Hasher {
    pub(crate) fn new(seed: u64) -> Hasher {
        Hasher {
            secrets: RapidSecrets::seed(seed),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, rule: Option<u32>, bytes: &[u8]) -> u64 {
        let hash = rapidhash_v3_micro_inline::<true, true>(bytes, &self.secrets);
        match rule {
            None => hash,
            Some(rule) => mix(hash ^ mix(u64::from(rule) ^ self.secrets.seed)),
        }
    }
}

/// A bijection that spreads every bit over all (the finalizer of SplitMix64).
pub(crate) fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
