//! Commands over all keys: DBSIZE, FLUSHALL, FLUSHDB, KEYS, SCAN, RANDOMKEY.
//!
//! The keys are spread over the shards, which other threads own. A [`KeyspaceRun`] says which shard to ask what, takes the
//! answers, and writes the reply in the end; [`Shard::keyspace`](crate::Shard::keyspace) does one bounded step. So whoever runs
//! a command only carries operations and answers, and no shard works for long at a time.

mod run;
mod slots;
mod step;

pub use run::KeyspaceRun;
pub use slots::{SlotPosition, SlotScan, SlotScanned};

use crate::CommandError;
use crate::glob::{Case, Glob};
use crate::keys::TYPE_NAME;
use std::sync::Arc;

/// Bytes of keys that one KEYS or SCAN collects before it fails or stops. How many keys, the node says.
pub const KEYS_BYTES_MAX: usize = 32 << 20;

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

impl KeyspaceCommand {
    /// Whether it empties a database, or all.
    pub fn empties(self) -> bool {
        matches!(self, Self::FlushAll | Self::FlushDb)
    }
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
    /// List some keys with their types.
    Names {
        /// The database.
        db: u8,
        /// Where to go on.
        cursor: ScanCursor,
    },
}

/// A key and the type of what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The key.
    pub key: Box<[u8]>,
    /// What TYPE says.
    pub type_name: &'static str,
}

/// A pattern that keys must match, ready for use by several shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    glob: Arc<Glob>,
    text: Arc<[u8]>,
}

impl Pattern {
    /// A pattern, unless it is the one that everything matches.
    ///
    /// # Errors
    /// It has more than `bytes_max`.
    pub fn new(text: &[u8], bytes_max: usize) -> Result<Option<Self>, CommandError> {
        if text.len() > bytes_max {
            return Err(CommandError::PatternTooLong(bytes_max));
        }
        Ok((text != b"*").then(|| Self {
            glob: Arc::new(Glob::new(text, Case::Sensitive)),
            text: text.into(),
        }))
    }

    /// What [`Pattern::new`] was given.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether a key matches.
    pub(crate) fn matches(&self, key: &[u8]) -> bool {
        self.glob.matches(key)
    }

    /// See [`Glob::cost`].
    pub(crate) fn cost(&self, key_len: usize) -> usize {
        self.glob.cost(key_len)
    }
}

/// Bounds of a command over all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyspaceLimits {
    /// Keys that one KEYS answers.
    pub keys_max: usize,
    /// Bytes of a pattern.
    pub pattern_bytes_max: usize,
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
    pub pattern: Option<Pattern>,
    /// The type that the keys must have.
    pub of_type: TypeFilter,
}

/// Which keys a scan wants by what TYPE says of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeFilter {
    /// All.
    Any,
    /// Those of the type of this name.
    Of(&'static str),
    /// None: no key has the type asked for.
    Nothing,
}

impl TypeFilter {
    /// The name of the type that it wants, which is none of a type if it wants no key; nothing if it wants all.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Any => None,
            Self::Of(name) => Some(name),
            Self::Nothing => Some(""),
        }
    }

    /// The filter for a name in any case.
    pub fn named(name: &[u8]) -> Self {
        let known = [TYPE_NAME, "string", "list", "set", "hash", "zset"];
        let found = known
            .into_iter()
            .find(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        found.map_or(Self::Nothing, Self::Of)
    }

    /// Whether it wants keys of that type.
    pub(crate) fn wants(self, type_name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Of(wanted) => wanted == type_name,
            Self::Nothing => false,
        }
    }
}

/// Where a scan goes on: the store's cursor without its low bits, which are 0. Clients in JavaScript and Lua read cursors as
/// doubles, which hold the 53 bits that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanCursor(u64);

/// Low bits of the store's cursor that are always 0.
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
        self.to_store().slot()
    }

    pub(crate) fn at_slot(slot: u16) -> Self {
        Self::from_store(tollgate_store::Cursor::at_slot(slot))
    }

    /// The cursor of a cluster: a place in a slot, and a mark of the order in which it is one. The number has the slot on top, then the
    /// position, then the mark.
    pub fn in_cluster(at: SlotPosition, mark: u8) -> Self {
        let place = u64::from(at.slot) << slots::POSITION_BITS | u64::from(at.position);
        Self(place << u8::BITS | u64::from(mark))
    }

    /// What [`ScanCursor::in_cluster`] was given.
    pub fn place_in_cluster(self) -> (SlotPosition, u8) {
        let place = self.0 >> u8::BITS;
        let at = SlotPosition {
            slot: (place >> slots::POSITION_BITS) as u16,
            position: (place & ((1 << slots::POSITION_BITS) - 1)) as u32,
        };
        (at, self.0 as u8)
    }

    fn from_store(cursor: tollgate_store::Cursor) -> Self {
        debug_assert!(cursor.to_u64().trailing_zeros() >= CURSOR_BITS_LEFT_OUT);
        Self(cursor.to_u64() >> CURSOR_BITS_LEFT_OUT)
    }

    fn to_store(self) -> tollgate_store::Cursor {
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
    /// Some keys, and where to go on; nothing at the end of the shard. With the first of them, by slot, how far its clock is ahead of the
    /// node's, in microseconds, where that is anything.
    Names(Vec<Name>, Option<ScanCursor>, Vec<(u16, i64)>),
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
    /// Adds a key.
    pub fn push(&mut self, key: &[u8]) {
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

    fn is_too_large(&self) -> bool {
        self.encoded.len() > KEYS_BYTES_MAX
    }

    fn write(&self, reply: &mut tollgate_protocol::ReplyWriter<'_>) {
        reply.array(self.len);
        reply.raw(&self.encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_shard::TestShards;
    use std::collections::BTreeSet;

    /// Elements of an array of bulk strings.
    fn elements(reply: &str) -> Vec<&str> {
        let mut lines = reply.split("\r\n");
        assert!(lines.next().unwrap().starts_with('*'), "{reply}");
        lines.skip(1).step_by(2).collect()
    }

    /// Cursor and keys of a SCAN reply.
    fn scanned(reply: &str) -> (u64, Vec<&str>) {
        let (cursor, keys) = reply
            .strip_prefix("*2\r\n$")
            .and_then(|rest| rest.split_once('*'))
            .unwrap();
        let cursor = cursor.split("\r\n").nth(1).unwrap().parse().unwrap();
        let start = reply.len() - keys.len() - 1;
        (cursor, elements(&reply[start..]))
    }

    fn filled(shards: u16, keys: usize) -> TestShards {
        let mut shards = TestShards::new(shards);
        for number in 0..keys {
            shards.check(&format!("key:{number}"));
        }
        shards
    }

    #[test]
    fn counts_and_lists_over_all_shards() {
        for count in [1, 3] {
            let mut shards = filled(count, 300);
            assert_eq!(shards.run("DBSIZE"), ":300\r\n");
            let reply = shards.run("KEYS *");
            let keys: BTreeSet<&str> = elements(&reply).into_iter().collect();
            assert_eq!(keys.len(), 300);
            assert_eq!(elements(&shards.run("KEYS key:1[0-4]")).len(), 5);
            assert_eq!(shards.run("KEYS nothing*"), "*0\r\n");
        }
    }

    #[test]
    fn keys_has_a_bound() {
        let mut shards = filled(2, 1001);
        assert_eq!(shards.run("KEYS *"), "-ERR too many keys match, use SCAN\r\n");
        assert_eq!(elements(&shards.run("KEYS key:1*0")).len(), 12);
    }

    #[test]
    fn scan_shows_every_key_and_ends() {
        for (shard_count, count) in [(1, 1), (1, 7), (3, 10), (4, 500), (2, 100_000)] {
            let mut shards = filled(shard_count, 400);
            let mut keys = BTreeSet::new();
            let mut cursor = 0;
            for calls in 1.. {
                let reply = shards.run(&format!("SCAN {cursor} COUNT {count}"));
                let (next, some) = scanned(&reply);
                keys.extend(some.into_iter().map(str::to_owned));
                assert!(next < 1 << 53 && (next == 0 || next > cursor), "{next} after {cursor}");
                cursor = next;
                if next == 0 {
                    break;
                }
                assert!(calls < 1000);
            }
            assert_eq!(keys.len(), 400, "{shard_count} shards, COUNT {count}");
        }
    }

    #[test]
    fn scan_takes_its_options_in_any_order() {
        let mut shards = filled(2, 20);
        let (next, keys) = (0, 11);
        for options in [
            "COUNT 100 MATCH key:1*",
            "MATCH key:1* TYPE bucket COUNT 100",
            "type BUCKET match key:1* count 1000",
        ] {
            let reply = shards.run(&format!("SCAN 0 {options}"));
            let found = scanned(&reply);
            assert_eq!((found.0, found.1.len()), (next, keys), "{options}");
        }
        assert_eq!(shards.run("SCAN 0 TYPE string COUNT 100"), "*2\r\n$1\r\n0\r\n*0\r\n");
        for bad in ["COUNT 0", "COUNT -1", "MATCH", "FOO bar"] {
            assert_eq!(shards.run(&format!("SCAN 0 {bad}")), "-ERR syntax error\r\n", "{bad}");
        }
        assert_eq!(
            shards.run("SCAN 0 COUNT x"),
            "-ERR value is not an integer or out of range\r\n"
        );
        for bad in ["x", "1x", "18446744073709551616"] {
            assert_eq!(shards.run(&format!("SCAN {bad}")), "-ERR invalid cursor\r\n", "{bad}");
        }
        assert_eq!(shards.run("SCAN +0 COUNT 100"), shards.run("SCAN 0 COUNT 100"));
        // Cursors that no call has answered.
        assert_eq!(shards.run("SCAN -1"), "*2\r\n$1\r\n0\r\n*0\r\n");
        for end in [u64::MAX, 1 << 53, (1 << 53) - 1] {
            assert_eq!(shards.run(&format!("SCAN {end}")), "*2\r\n$1\r\n0\r\n*0\r\n", "{end}");
        }
    }

    #[test]
    fn flushdb_leaves_other_databases_and_rules() {
        let mut shards = filled(2, 50);
        shards.db = 1;
        shards.check("other");
        shards.run("RL.CHECK k RULE free");
        shards.db = 0;
        assert_eq!(shards.run("FLUSHDB"), "+OK\r\n");
        assert_eq!(shards.run("DBSIZE"), ":0\r\n");
        assert_eq!(shards.run("KEYS *"), "*0\r\n");
        shards.db = 1;
        assert_eq!(shards.run("DBSIZE"), ":1\r\n");
        assert!(
            shards
                .run("RL.CHECK k RULE free PEEK")
                .starts_with("*6\r\n:1\r\n:50\r\n:49\r\n")
        );
        assert_eq!(shards.run("FLUSHALL"), "+OK\r\n");
        assert_eq!(shards.run("DBSIZE"), ":0\r\n");
        assert!(
            shards
                .run("RL.CHECK k RULE free PEEK")
                .starts_with("*6\r\n:1\r\n:50\r\n:50\r\n")
        );
        for bad in ["FLUSHALL foo", "FLUSHDB SYNC ASYNC"] {
            assert_eq!(shards.run(bad), "-ERR syntax error\r\n");
        }
    }

    #[test]
    fn a_flush_is_freed_later_or_with_sync_at_once() {
        let mut shards = filled(2, 500);
        assert_eq!(shards.run("FLUSHALL ASYNC"), "+OK\r\n");
        assert!(shards.shards.iter().all(|shard| !shard.trash.is_empty()));
        for shard in &mut shards.shards {
            while !shard.trash.is_empty() {
                assert!(shard.tidy(shards.now_us, 100));
            }
        }
        let mut shards = filled(2, 500);
        assert_eq!(shards.run("FLUSHALL SYNC"), "+OK\r\n");
        assert!(shards.shards.iter().all(|shard| shard.trash.is_empty()));
    }

    #[test]
    fn random_keys_come_from_every_shard() {
        let mut shards = filled(3, 60);
        let mut seen = BTreeSet::new();
        for _ in 0..300 {
            let reply = shards.run("RANDOMKEY");
            seen.insert(reply.split("\r\n").nth(1).unwrap().to_owned());
            shards.advance_ms(1);
        }
        assert!(seen.len() > 30, "{} different keys of 60", seen.len());
    }

    #[test]
    fn a_random_key_is_found_among_full_buckets() {
        let mut shards = filled(1, 500);
        shards.advance_ms(5_000);
        shards.check("live");
        assert_eq!(shards.run("DBSIZE"), ":501\r\n");
        for _ in 0..20 {
            assert_eq!(shards.run("RANDOMKEY"), "$4\r\nlive\r\n");
        }
    }

    #[test]
    fn cursors_fit_doubles() {
        let last = ScanCursor::from_store(tollgate_store::Cursor::at_slot(tollgate_store::SLOTS - 1));
        assert!(last.to_number() < 1 << 53);
        assert_eq!(last.slot(), tollgate_store::SLOTS - 1);
        assert_eq!(ScanCursor::from_number(last.to_number()), Some(last));
        assert_eq!(ScanCursor::from_number(1 << 53), None);
        let last = SlotPosition {
            slot: tollgate_store::SLOTS - 1,
            position: (1 << slots::POSITION_BITS) - 1,
        };
        let cursor = ScanCursor::in_cluster(last, 255);
        assert_eq!(cursor.to_number(), (1 << 53) - 1);
        assert_eq!((cursor.slot(), cursor.place_in_cluster()), (last.slot, (last, 255)));
        let start = SlotPosition::start_of(0);
        assert_eq!(ScanCursor::in_cluster(start, 0), ScanCursor::START);
    }
}
