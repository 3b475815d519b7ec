//! What a key holds, for a run of another node, and back: in the records of [`super::record`], each piece a section.

use super::apply::checked;
use super::record::{Chunk, Reader, Record, Section, SpaceName};
use crate::Shard;
use crate::holds::{Content, Loan};
use crate::undo::HeldState;
use tollgate_script::{Fields, Params, PolicyId};
use tollgate_store::{Entry, Expiry, MAX_BLOB_BYTES, Space, State, Taken};
use tollgate_values::{Export, Import};

/// How much of what a key holds is written.
#[derive(Debug, Default)]
pub struct LoanWriter {
    export: Option<Export>,
}

/// What of a loan has been read.
#[derive(Debug)]
pub struct LoanReader {
    content: Content,
    arriving: Option<(Expiry, Import)>,
    kind: Option<(PolicyId, Params)>,
}

/// Why a loan cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoanError {
    /// Its bytes are no entry of the key.
    #[error("malformed entries")]
    Malformed,
    /// Its policy does not exist here, or in another version.
    #[error("its bucket is of a policy that this node does not have in that version")]
    OtherPolicy,
}

impl Default for LoanReader {
    fn default() -> Self {
        Self {
            content: Content::Nothing,
            arriving: None,
            kind: None,
        }
    }
}

impl Shard {
    /// Writes the next piece of what a key holds to `out`, of about so many bytes, and answers whether it was the last; nothing is written
    /// of a key that holds nothing. The key has to be held from the first piece to the last.
    pub fn write_loan(
        &self,
        space: Space,
        bytes: &[u8],
        writer: &mut LoanWriter,
        piece_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Ok(key) = self.store.key(space, bytes) else {
            return true;
        };
        let Some(place) = self.store.find(&key) else {
            return true;
        };
        let mut section = Section::new(out);
        let (stored, db) = match (self.store.view(place).entry, space) {
            (Entry::Bucket(bucket), _) => {
                section.bucket(&self.policies, &self.rules, space, &bucket);
                return true;
            }
            (Entry::Value(stored), Space::Db(db)) => (stored, db),
            // No rule has values.
            (Entry::Value(_), _) => return true,
        };
        let is_first = writer.export.is_none();
        let export = writer.export.get_or_insert_with(Export::new);
        let mut part = Vec::new();
        // It stays of its kind while the key is held.
        let is_last = export.write_some(&stored.value, piece_bytes, &mut part).unwrap_or(true);
        let chunk = match (is_first, is_last) {
            (true, true) => Chunk::Whole,
            (true, false) => Chunk::First,
            (false, false) => Chunk::Middle,
            (false, true) => Chunk::Last,
        };
        section.value(chunk, db, bytes, stored.expires, &part);
        is_last
    }

    /// Reads the next piece of what a key holds.
    ///
    /// # Errors
    /// [`LoanError`]; the loan is of no use then.
    pub fn read_loan(&self, reader: &mut LoanReader, space: Space, key: &[u8], piece: &[u8]) -> Result<(), LoanError> {
        let mut records = Reader(piece);
        while let Some(record) = records.next().map_err(|_| LoanError::Malformed)? {
            match record {
                Record::Section => {}
                Record::Kind(of, parameters) => {
                    if self.space_named(of) != Some(space) {
                        return Err(LoanError::Malformed);
                    }
                    let params = checked(parameters.params).ok_or(LoanError::Malformed)?;
                    let policy = self.policies.policy(parameters.policy).ok_or(LoanError::OtherPolicy)?;
                    if u64::from(self.policies.info(policy).version) != parameters.version {
                        return Err(LoanError::OtherPolicy);
                    }
                    reader.kind = Some((policy, params));
                }
                Record::Bucket {
                    key: of,
                    expiry,
                    pinned,
                    state,
                    ..
                } if of == key => {
                    let (policy, params) = reader.kind.ok_or(LoanError::Malformed)?;
                    reader.content = Content::Bucket {
                        policy,
                        params,
                        expiry,
                        pinned,
                        state: self.state_of(policy, state).ok_or(LoanError::Malformed)?,
                    };
                }
                Record::Value {
                    chunk,
                    db,
                    key: of,
                    expires,
                    bytes,
                } => {
                    if matches!(chunk, Chunk::Whole | Chunk::First) {
                        if SpaceName::Db(db) != name_of(space) || of != key {
                            return Err(LoanError::Malformed);
                        }
                        reader.arriving = Some((expires, Import::new(self.hash_seed)));
                    }
                    let (_, import) = reader.arriving.as_mut().ok_or(LoanError::Malformed)?;
                    import.read_some(bytes).map_err(|_| LoanError::Malformed)?;
                    if matches!(chunk, Chunk::Whole | Chunk::Last)
                        && let Some((expires, import)) = reader.arriving.take()
                    {
                        let value = import.finish().map_err(|_| LoanError::Malformed)?;
                        reader.content = Content::Value(Taken { expires, value });
                    }
                }
                _ => return Err(LoanError::Malformed),
            }
        }
        Ok(())
    }

    fn state_of(&self, policy: PolicyId, state: State<'_>) -> Option<HeldState> {
        match (state, &self.policies.info(policy).fields) {
            (State::Numbers(numbers), Fields::Numbers(names)) if numbers.len() <= names.len() => {
                Some(HeldState::Numbers(numbers))
            }
            (State::Blob(blob), Fields::Buffer) if blob.len() <= MAX_BLOB_BYTES => Some(HeldState::Blob(blob.into())),
            _ => None,
        }
    }
}

impl LoanReader {
    /// The loan, after its last piece, of a key of a slot whose clock is so far ahead of the node's.
    ///
    /// # Errors
    /// [`LoanError::Malformed`]: it is not whole.
    pub fn finish(self, space: Space, key: &[u8], clock_offset_us: i64) -> Result<Loan, LoanError> {
        match self.arriving {
            Some(_) => Err(LoanError::Malformed),
            None => Ok(Loan::new(space, key, clock_offset_us, self.content)),
        }
    }
}

/// What a database is called; no value is in anything else.
fn name_of(space: Space) -> SpaceName<'static> {
    match space {
        Space::Db(db) => SpaceName::Db(db),
        Space::Rule(_) | Space::StandIn(_) => SpaceName::Rule(b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_shard::{START_US, TestShards};
    use crate::{RunId, ShardConfig, WhenFull};
    use tollgate_store::slot_of;

    /// The pieces of what a key holds.
    fn pieces(shard: &Shard, space: Space, key: &[u8]) -> Vec<Vec<u8>> {
        let (mut writer, mut pieces) = (LoanWriter::default(), Vec::new());
        loop {
            let mut piece = Vec::new();
            let is_last = shard.write_loan(space, key, &mut writer, 1_000, &mut piece);
            pieces.extend((!piece.is_empty()).then_some(piece));
            if is_last {
                return pieces;
            }
        }
    }

    fn read(shard: &Shard, space: Space, key: &[u8], pieces: &[Vec<u8>]) -> Result<Loan, LoanError> {
        let mut reader = LoanReader::default();
        for piece in pieces {
            shard.read_loan(&mut reader, space, key, piece)?;
        }
        reader.finish(space, key, 0)
    }

    /// The shard of runs with keys of other nodes.
    fn guests() -> Shard {
        let rules = TestShards::new(1).shards[0].rules.clone();
        Shard::new(ShardConfig {
            slots: 0..0,
            seed: 9,
            now_us: START_US,
            policies: tollgate_script::builtin_policies().into(),
            policy_limits: tollgate_script::PolicyLimits::default(),
            rules,
            max_memory_bytes: 0,
            when_full: WhenFull::Shed,
            idle_us: 3_600_000_000,
            string_bytes_max: 1 << 20,
            pattern_bytes_max: 512,
            random_picks_max: 10_000,
            awaited_keys_max: 100,
            undo_bytes_max: 1 << 26,
            hash_seed: tollgate_values::HashSeed::new(7),
        })
        .unwrap()
    }

    /// Lends a key to a run of another node, with what it does there, and takes back what has changed; in how many pieces it came.
    fn lend(shards: &mut TestShards, key: &str, change: impl FnOnce(&mut TestShards)) -> usize {
        let (run, there) = (RunId(1), RunId(2));
        let (space, bytes) = (Space::Db(0), key.as_bytes());
        let lender = &mut shards.shards[0];
        lender.hold(bytes, run);
        let out = pieces(lender, space, bytes);
        let mut borrower = TestShards::new(1);
        borrower.now_us = shards.now_us;
        borrower.shards[0] = guests();
        let loan = read(&borrower.shards[0], space, bytes, &out).unwrap();
        borrower.shards[0].admit(loan, there);
        borrower.shards[0].set_running(Some(there));
        change(&mut borrower);
        let lender = &mut shards.shards[0];
        if borrower.shards[0].has_changed_guest(space, bytes) {
            let back = pieces(&borrower.shards[0], space, bytes);
            let loan = read(lender, space, bytes, &back).unwrap();
            lender.replace_held(loan);
        }
        let loan = borrower.shards[0].dismiss(space, bytes, there).unwrap();
        borrower.shards[0].drop_loan(loan);
        assert!(!borrower.shards[0].has_entry(space, bytes) && borrower.shards[0].guests(there).is_empty());
        lender.release(bytes, run);
        out.len()
    }

    #[test]
    fn values_come_and_go_whole() {
        let mut shards = TestShards::new(1);
        let many: Vec<String> = (0..2_000).map(|number| format!("element:{number}")).collect();
        let many = many.join(" ");
        shards.run("SET small 1");
        shards.run(&format!("SET long {}", "x".repeat(10_000)));
        shards.run(&format!("RPUSH list {many}"));
        shards.run(&format!("SADD set {many}"));
        shards.run("HSET hash f v");
        shards.run("ZADD sorted 1 a 2 b");
        shards.run("EXPIRE hash 1000");
        for (key, change, look, reply, is_large) in [
            ("small", "INCR small", "GET small", "$1\r\n2\r\n", false),
            ("long", "SETRANGE long 0 y", "STRLEN long", ":10000\r\n", true),
            ("list", "RPUSH list last", "LLEN list", ":2001\r\n", true),
            ("set", "SADD set last", "SCARD set", ":2001\r\n", true),
            (
                "hash",
                "HSET hash g w",
                "HGETALL hash",
                "*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\ng\r\n$1\r\nw\r\n",
                false,
            ),
            ("hash", "HGET hash f", "TTL hash", ":1000\r\n", false),
            ("sorted", "ZREM sorted a b", "EXISTS sorted", ":0\r\n", false),
            (
                "sorted",
                "ZADD sorted 5 c",
                "ZRANGE sorted 0 -1",
                "*1\r\n$1\r\nc\r\n",
                false,
            ),
        ] {
            let pieces = lend(&mut shards, key, |borrower| {
                let answered = borrower.run(change);
                assert!(!answered.starts_with('-'), "{change}: {answered}");
            });
            assert_eq!(pieces > 1, is_large, "{key}: {pieces}");
            assert_eq!(shards.run(look), reply, "{look}");
        }
    }

    #[test]
    fn a_bucket_is_decided_by_the_state_that_was_lent() {
        let mut shards = TestShards::new(1);
        for _ in 0..4 {
            shards.check("bucket");
        }
        let remaining = |reply: &str| reply.split("\r\n").nth(3).map(str::to_owned);
        lend(&mut shards, "bucket", |borrower| {
            let reply = borrower.run("RL.CHECK bucket LIMIT 10 PER 10s");
            assert_eq!(remaining(&reply).as_deref(), Some(":5"), "{reply}");
        });
        let reply = shards.run("RL.CHECK bucket LIMIT 10 PER 10s");
        assert_eq!(remaining(&reply).as_deref(), Some(":4"), "{reply}");
        lend(&mut shards, "bucket", |borrower| {
            assert_eq!(borrower.run("DEL bucket"), ":1\r\n")
        });
        let reply = shards.run("RL.CHECK bucket LIMIT 10 PER 10s");
        assert_eq!(remaining(&reply).as_deref(), Some(":9"), "{reply}");
    }

    #[test]
    fn what_is_no_entry_of_the_key_is_refused() {
        let mut shards = TestShards::new(1);
        shards.run(&format!("SET key {}", "x".repeat(10_000)));
        shards.check("bucket");
        let shard = &shards.shards[0];
        for (key, whole) in [
            ("key", pieces(shard, Space::Db(0), b"key")),
            ("bucket", pieces(shard, Space::Db(0), b"bucket")),
        ] {
            let key = key.as_bytes();
            assert!(read(shard, Space::Db(0), key, &whole).is_ok());
            for (space, other) in [(Space::Db(1), key), (Space::Db(0), b"other".as_slice())] {
                assert_eq!(read(shard, space, other, &whole).unwrap_err(), LoanError::Malformed);
            }
            for cut in 1..whole.last().map_or(0, Vec::len) {
                let mut pieces = whole.clone();
                pieces.last_mut().unwrap().truncate(cut);
                // A bucket that is cut off before it begins is none.
                if let Ok(loan) = read(shard, Space::Db(0), key, &pieces) {
                    assert!(loan.is_nothing(), "{cut}");
                }
            }
        }
        // Any slot's keys are guests of a shard without slots.
        assert!(guests().store().slots().is_empty() && slot_of(b"key") > 0);
    }
}
