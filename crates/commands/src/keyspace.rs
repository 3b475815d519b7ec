//! Commands over all keys: DBSIZE, FLUSHALL, FLUSHDB, KEYS, SCAN, RANDOMKEY.
//!
//! The keys are spread over the shards, which other threads own. A [`KeyspaceRun`] says which shard to ask what, takes the
//! answers, and writes the reply in the end; [`Shard::keyspace`](crate::Shard::keyspace) does one bounded step. So whoever runs
//! a command only carries operations and answers, and no shard works for long at a time.

mod run;
mod step;

pub use run::KeyspaceRun;

use std::sync::Arc;

/// Keys that KEYS answers and SCAN looks at, at most, if the node says nothing else.
pub const KEYS_MAX: usize = 1_000_000;

/// Entries that one step looks at.
pub const STEP_ENTRIES_MAX: usize = 1024;

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyspaceCommand {
    /// `DBSIZE`
    DbSize,
    /// `FLUSHALL [ASYNC|SYNC]`
    FlushAll,
    /// `FLUSHDB [ASYNC|SYNC]`
    FlushDb,
    /// `KEYS pattern`
    Keys,
    /// `RANDOMKEY`
    RandomKey,
    /// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
    Scan,
}

/// What one shard is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyspaceOp {
    /// Count the buckets of a database.
    Len {
        /// The database.
        db: u8,
    },
    /// Empty a database, or everything, rules' buckets included. The memory is freed later.
    Flush {
        /// The database.
        db: Option<u8>,
    },
    /// Free some of what has been flushed.
    Free,
    /// Look at some keys.
    Scan(ScanOp),
    /// Pick a key.
    Random {
        /// The database.
        db: u8,
    },
}

/// One step of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanOp {
    /// The database.
    pub db: u8,
    /// Where to go on.
    pub cursor: ScanCursor,
    /// How many entries to look at, about.
    pub count: usize,
    /// What the keys must match.
    pub pattern: Option<Arc<[u8]>>,
    /// Whether the type asked for is one that keys have.
    pub type_exists: bool,
}

/// Where a scan goes on: the slot in the top 14 of 53 bits, then the top 39 bits of a hash in it. The store's cursor has 48
/// bits of hash; but clients in JavaScript and Lua read cursors as doubles, which hold 53 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanCursor(u64);

/// Bits of the store's cursor that a [`ScanCursor`] lacks.
const CURSOR_BITS_LEFT_OUT: u32 = 9;

impl ScanCursor {
    /// The first key of the first shard.
    pub const START: Self = Self(0);

    /// The cursor that a client sends back, unless no cursor has that number.
    pub fn from_number(number: u64) -> Option<Self> {
        let store = number.checked_mul(1 << CURSOR_BITS_LEFT_OUT)?;
        tollgate_store::Cursor::from_u64(store).map(|_| Self(number))
    }

    /// The number that a client gets.
    pub fn to_number(self) -> u64 {
        self.0
    }

    /// The slot in which the scan goes on.
    pub fn slot(self) -> u16 {
        self.store().slot()
    }

    fn at_slot(slot: u16) -> Self {
        Self::before(tollgate_store::Cursor::at_slot(slot))
    }

    /// The last place that is not after that one.
    fn before(cursor: tollgate_store::Cursor) -> Self {
        Self(cursor.to_u64() >> CURSOR_BITS_LEFT_OUT)
    }

    fn store(self) -> tollgate_store::Cursor {
        // Made by `from_number` or from a cursor of the store, so it has a slot that exists.
        tollgate_store::Cursor::from_u64(self.0 << CURSOR_BITS_LEFT_OUT).unwrap_or(tollgate_store::Cursor::START)
    }
}

/// What a shard answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyspaceAnswer {
    /// How many buckets there are.
    Len(usize),
    /// Emptied.
    Flushed,
    /// Some memory is free; whether more waits.
    Freed {
        /// Whether more waits.
        more: bool,
    },
    /// Some keys.
    Scanned(Scanned),
    /// A key, if there is one.
    Random(Option<Box<[u8]>>),
}

/// What a step of a scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// The keys that match.
    pub keys: KeyList,
    /// How many entries were looked at.
    pub looked_at: usize,
    /// Where to go on; nothing at the end of the shard.
    pub next: Option<ScanCursor>,
}

/// Keys as the elements of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyList {
    len: usize,
    /// Bulk strings, which are the same in both protocols.
    encoded: Vec<u8>,
}

impl KeyList {
    fn push(&mut self, key: &[u8]) {
        self.len += 1;
        tollgate_protocol::ReplyWriter::new(&mut self.encoded, tollgate_protocol::Proto::Resp2).bulk(key);
    }

    fn append(&mut self, other: &KeyList) {
        self.len += other.len;
        self.encoded.extend_from_slice(&other.encoded);
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn write(&self, reply: &mut tollgate_protocol::ReplyWriter<'_>) {
        reply.array(self.len);
        reply.raw(&self.encoded);
    }
}
