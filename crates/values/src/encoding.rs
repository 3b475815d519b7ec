//! Names of encodings, and where Redis's default configuration changes from one to the next.

/// What [OBJECT ENCODING](https://redis.io/docs/latest/commands/object-encoding/) of Redis 7.2 calls the way a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A string that is an integer.
    Int,
    /// A string of up to 44 bytes that was not modified in place.
    Embstr,
    /// Any other string.
    Raw,
    /// A small list, hash, set or sorted set.
    Listpack,
    /// A large list.
    Quicklist,
    /// A large hash or set.
    Hashtable,
    /// A small set of integers.
    Intset,
    /// A large sorted set.
    Skiplist,
}

impl Encoding {
    /// As OBJECT ENCODING answers it.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embstr => "embstr",
            Encoding::Raw => "raw",
            Encoding::Listpack => "listpack",
            Encoding::Quicklist => "quicklist",
            Encoding::Hashtable => "hashtable",
            Encoding::Intset => "intset",
            Encoding::Skiplist => "skiplist",
        }
    }
}

/// Most members of a listpack: `set-max-listpack-entries`, `zset-max-listpack-entries`.
pub(crate) const LISTPACK_ENTRIES_MAX: usize = 128;

/// Most fields of a listpack: `hash-max-listpack-entries`.
pub(crate) const LISTPACK_FIELDS_MAX: usize = 512;

/// Longest element of a listpack: `hash-max-listpack-value` and its like.
pub(crate) const LISTPACK_ELEMENT_BYTES_MAX: usize = 64;

/// Most integers of an intset: `set-max-intset-entries`.
pub(crate) const INTSET_ENTRIES_MAX: usize = 512;

/// Largest listpack that is a list: `list-max-listpack-size` of -2.
pub(crate) const LIST_LISTPACK_BYTES_MAX: usize = 8192;

/// Longest string that is stored with its header (`OBJ_ENCODING_EMBSTR_SIZE_LIMIT`).
pub(crate) const EMBSTR_BYTES_MAX: usize = 44;
