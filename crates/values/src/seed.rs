//! The seeded hash of fields and members.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};

/// Bits of a [`HashSeed::position`]: positions, and so cursors, are whole numbers that a double holds, as which JavaScript and Lua
/// read them.
const POSITION_BITS: u32 = 48;

/// The secret that the elements of large values are hashed with, so that nobody can make elements that collide.
///
/// It takes 64 bytes that are never freed: a node makes one, of its own random number, for all its values.
#[derive(Clone, Copy)]
pub struct HashSeed(&'static RapidSecrets);

impl HashSeed {
    /// Derives the secrets from a random number.
    pub fn new(random: u64) -> HashSeed {
        HashSeed(Box::leak(Box::new(RapidSecrets::seed(random))))
    }

    #[inline]
    pub(crate) fn hash(self, bytes: &[u8]) -> u64 {
        rapidhash_v3_micro_inline::<true, true>(bytes, self.0)
    }

    /// Where in hash space an element is.
    #[inline]
    pub(crate) fn position_of(self, bytes: &[u8]) -> u64 {
        HashSeed::position(self.hash(bytes))
    }

    /// Where in hash space an element of that hash is: its low 48 bits. The table inside a partition tells elements apart by the
    /// top seven bits, which must differ between the elements of one partition.
    #[inline]
    pub(crate) const fn position(hash: u64) -> u64 {
        hash & ((1 << POSITION_BITS) - 1)
    }
}

impl std::fmt::Debug for HashSeed {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("HashSeed")
    }
}
