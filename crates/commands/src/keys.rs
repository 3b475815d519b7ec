//! What a key holds, and Redis's commands that ask no more: TYPE, EXISTS, TOUCH, DEL, UNLINK.
//!
//! A bucket that is full by now does not exist, whether or not it has been dropped yet. EXPIRE can only keep it for longer: the
//! store then has the time asked for, rounded up to its resolution, and the mark `pinned`.

use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_script::ParamsId;
use tollgate_store::{EXPIRY_UNIT_US, Entry, Expiry, Key, Place, Space};

/// A bucket or a value that exists for Redis's commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    /// Where it is.
    pub place: Place,
    /// The clock of its slot.
    pub clock_us: u64,
    /// Until when it exists, in that clock.
    pub until: Expiry,
}

/// What the stored expiry alone says of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likely {
    /// It exists.
    Present,
    /// It is full by now, or past the time that EXPIRE set.
    Gone,
    /// It is full within one unit of the store's time: the policy must say.
    Unclear,
}

impl Shard {
    /// A judgement from what is stored, without asking the policy. What is stored of a bucket that EXPIRE has not touched is when it
    /// is full, and a time to linger, rounded up.
    pub(crate) fn likely(&self, entry: &Entry<'_>, clock_us: u64) -> Likely {
        let bucket = match entry {
            Entry::Bucket(bucket) => bucket,
            Entry::Value(stored) if stored.expires > Expiry::from_us(clock_us) => return Likely::Present,
            Entry::Value(_) => return Likely::Gone,
        };
        let Some(expiry_us) = bucket.expiry.to_us() else {
            return Likely::Present;
        };
        let (latest_us, unit_us) = if bucket.pinned {
            (expiry_us, 0)
        } else {
            let linger_us = self.linger_us(ParamsId(bucket.params));
            (expiry_us.saturating_sub(linger_us), EXPIRY_UNIT_US)
        };
        if clock_us >= latest_us {
            Likely::Gone
        } else if clock_us < latest_us.saturating_sub(unit_us) {
            Likely::Present
        } else {
            Likely::Unclear
        }
    }

    /// What a key holds, if it exists. Of a bucket, where the policy fails to say when it is full, the stored expiry counts.
    pub(crate) fn present(&mut self, now_us: u64, key: &Key<'_>) -> Option<Present> {
        let clock_us = self.store.slot(key.slot()).map_or(now_us, |slot| slot.clock_us(now_us));
        let place = self.store.find(key)?;
        if let Some(stored) = self.store.value(place) {
            let until = stored.expires;
            return (until > Expiry::from_us(clock_us)).then_some(Present { place, clock_us, until });
        }
        let live = self.live(key)?;
        let expiry = self.store.bucket(place).expiry;
        let until = match live.pinned {
            Some(pinned) => pinned,
            None => self.full_at_us(&live).map_or(expiry, Expiry::from_us),
        };
        (until > Expiry::from_us(clock_us)).then_some(Present { place, clock_us, until })
    }

    /// What a key of the selected database holds. A key that the store would not take is no key of it.
    pub(crate) fn find_present(&mut self, env: &Env, key: &[u8]) -> Option<Present> {
        let key = self.bucket_key(Space::Db(env.db), key).ok()?;
        self.present(env.now_us, &key)
    }
}

/// `TYPE key`
pub(crate) fn type_of(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let name = match shard.find_present(env, request.arg(1)) {
        None => "none",
        Some(present) => shard
            .store
            .value(present.place)
            .map_or(TYPE_NAME, |stored| stored.value.type_name()),
    };
    ReplyWriter::new(out, env.proto).simple(name);
    Ok(())
}

/// What TYPE says of an entry.
pub(crate) fn type_name(entry: &Entry<'_>) -> &'static str {
    match entry {
        Entry::Bucket(_) => TYPE_NAME,
        Entry::Value(stored) => stored.value.type_name(),
    }
}

/// What TYPE says of a bucket, and what SCAN's TYPE takes.
pub(crate) const TYPE_NAME: &str = "bucket";

/// `EXISTS key [key ...]` and `TOUCH key [key ...]`, for one key
pub(crate) fn exists(shard: &mut Shard, env: &Env, key: &[u8]) -> Result<i64, CommandError> {
    Ok(i64::from(shard.find_present(env, key).is_some()))
}

/// `DEL key [key ...]` and `UNLINK key [key ...]`, for one key
pub(crate) fn delete(shard: &mut Shard, env: &Env, key: &[u8]) -> Result<i64, CommandError> {
    let Ok(key) = shard.bucket_key(Space::Db(env.db), key) else {
        return Ok(0);
    };
    let existed = shard.present(env.now_us, &key).is_some();
    shard.remove_entry(&key);
    Ok(i64::from(existed))
}

#[cfg(test)]
mod tests {
    use crate::test_shard::{TestShards, assert_gone};

    #[test]
    fn a_bucket_is_a_key_until_it_is_full() {
        let mut shards = TestShards::new(1);
        assert_gone(&mut shards);
        shards.check("k");
        assert_eq!(shards.run("PTTL k"), ":1000\r\n");
        shards.advance_ms(300);
        assert_eq!(shards.run("PTTL k"), ":700\r\n");
        assert_eq!(shards.run("TTL k"), ":1\r\n");
        assert_eq!(shards.run("TYPE k"), "+bucket\r\n");
        assert_eq!(shards.run("EXISTS k k"), ":2\r\n");
        assert_eq!(shards.run("TOUCH k"), ":1\r\n");
        assert_eq!(shards.run("OBJECT ENCODING k"), "$12\r\ntoken_bucket\r\n");
        assert_eq!(shards.run("OBJECT REFCOUNT k"), ":1\r\n");
        assert!(
            shards
                .run("OBJECT FREQ k")
                .starts_with("-ERR An LFU maxmemory policy is not selected")
        );
        assert_eq!(shards.run("OBJECT IDLETIME k"), "-ERR idle time not tracked\r\n");
        assert_eq!(shards.run("KEYS *"), "*1\r\n$1\r\nk\r\n");
        assert_eq!(shards.run("RANDOMKEY"), "$1\r\nk\r\n");
        shards.advance_ms(699);
        assert_eq!(shards.run("PTTL k"), ":1\r\n");
        assert_eq!(shards.run("KEYS *"), "*1\r\n$1\r\nk\r\n");
        // Exactly when it is full it is gone, whether or not it has been dropped.
        shards.advance_ms(1);
        assert_eq!(shards.run("DBSIZE"), ":1\r\n");
        assert_gone(&mut shards);
        assert_eq!(shards.run("DEL k"), ":0\r\n");
        assert_eq!(shards.run("DBSIZE"), ":0\r\n");
    }

    #[test]
    fn databases_are_apart() {
        let mut shards = TestShards::new(1);
        shards.check("k");
        shards.db = 3;
        assert_gone(&mut shards);
        assert_eq!(shards.run("DEL k"), ":0\r\n");
        shards.db = 0;
        assert_eq!(shards.run("EXISTS k"), ":1\r\n");
    }

    #[test]
    fn del_resets() {
        let mut shards = TestShards::new(1);
        for key in ["a", "a", "b"] {
            shards.check(key);
        }
        assert_eq!(shards.run("DEL a nothing"), ":1\r\n");
        assert_eq!(shards.run("UNLINK a b"), ":1\r\n");
        assert!(
            shards
                .run("RL.CHECK a LIMIT 10 PER 10s PEEK")
                .starts_with("*6\r\n:1\r\n:10\r\n:10\r\n")
        );
    }

    #[test]
    fn buckets_with_a_buffer_are_keys_too() {
        let mut shards = TestShards::new(1);
        let reply = shards.run("RL.CHECK k LIMIT 10 PER 10s POLICY sliding_log");
        assert!(reply.starts_with("*6\r\n:1\r\n"), "{reply}");
        assert_eq!(shards.run("PTTL k"), ":10000\r\n");
        assert_eq!(shards.run("EXPIRE k 100"), ":1\r\n");
        assert_eq!(shards.run("PERSIST k"), ":1\r\n");
        assert_eq!(shards.run("PTTL k"), ":10000\r\n");
        assert_eq!(shards.run("OBJECT ENCODING k"), "$11\r\nsliding_log\r\n");
        shards.advance_ms(10_000);
        assert_gone(&mut shards);
    }

    #[test]
    fn memory_usage() {
        let mut shards = TestShards::new(1);
        shards.check("k");
        let bytes = |reply: String| reply[1..].trim().parse::<usize>().unwrap();
        let short = bytes(shards.run("MEMORY USAGE k"));
        assert!((20..100).contains(&short), "{short}");
        let long = "k".repeat(200);
        shards.check(&long);
        assert!(bytes(shards.run(&format!("MEMORY USAGE {long} SAMPLES 0"))) > 200);
        for bad in ["samples", "samples -1", "foo 1"] {
            assert_eq!(shards.run(&format!("MEMORY USAGE k {bad}")), "-ERR syntax error\r\n");
        }
    }
}
