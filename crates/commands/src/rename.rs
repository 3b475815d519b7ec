//! RENAME, RENAMENX, COPY: giving what a key holds to another.
//!
//! A bucket can be renamed: its state moves, and is in one place before and after. It cannot be copied, since two buckets with the
//! tokens of one would have let more through than the limit says.

use crate::data_copy::ValueCopy;
use crate::table::Rest;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_store::{DATABASES, Expiry, Key, Space};

/// `RENAME key newkey`
pub(crate) fn rename(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    move_key(shard, env, request, false)?;
    ReplyWriter::new(out, env.proto).ok();
    Ok(None)
}

/// `RENAMENX key newkey`
pub(crate) fn renamenx(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let moved = move_key(shard, env, request, true)?;
    ReplyWriter::new(out, env.proto).int(i64::from(moved));
    Ok(None)
}

/// Whether something was moved: not onto the same key, nor with `only_free` onto one that exists.
fn move_key(shard: &mut Shard, env: &Env, request: Request<'_>, only_free: bool) -> Result<bool, CommandError> {
    let (from, to) = (request.arg(1), request.arg(2));
    let is_same = from == to;
    let (from, to) = (shard.data_key(env, from)?, shard.data_key(env, to)?);
    if shard.settled(env, &from).is_none() {
        return Err(CommandError::Refused("no such key"));
    }
    if is_same || (shard.settled(env, &to).is_some() && only_free) {
        return Ok(false);
    }
    // Dropping what `to` held may have moved it.
    let is_value = shard
        .store
        .find(&from)
        .is_some_and(|place| shard.store.value(place).is_some());
    let ahead_us = clocks_apart_us(shard, env, &from, &to);
    if !is_value && ahead_us != 0 {
        return Err(CommandError::Refused(
            "a bucket cannot be renamed to a key whose slot has another clock",
        ));
    }
    shard.move_entry(&from, &to, ahead_us);
    Ok(true)
}

/// How far the clock of the second key's slot is ahead of the first's.
fn clocks_apart_us(shard: &Shard, env: &Env, from: &Key<'_>, to: &Key<'_>) -> i64 {
    let ((_, from_us), (_, to_us)) = (shard.slot_clock(env, from), shard.slot_clock(env, to));
    to_us.saturating_sub(from_us)
}

/// A time in a clock that is so far ahead.
pub(crate) fn in_clock_ahead(expires: Expiry, ahead_us: i64) -> Expiry {
    match expires.exact_us() {
        Some(us) if ahead_us != 0 => Expiry::from_exact_us(us.saturating_add_signed(ahead_us.into())),
        _ => expires,
    }
}

/// Options of COPY. As in Redis, one may come again, and the last time counts.
struct CopyOptions {
    db: u8,
    replace: bool,
}

impl CopyOptions {
    fn parse(env: &Env, request: Request<'_>) -> Result<Self, CommandError> {
        let mut options = Self {
            db: env.db,
            replace: false,
        };
        let mut words = request.iter().skip(3);
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"REPLACE") {
                options.replace = true;
            } else if word.eq_ignore_ascii_case(b"DB")
                && let Some(number) = words.next()
            {
                options.db = database(number)?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

fn database(text: &[u8]) -> Result<u8, CommandError> {
    let number = parse_integer(text).ok_or(CommandError::NotAnInteger)?;
    if i32::try_from(number).is_err() {
        return Err(CommandError::Refused(
            "value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let is_one = (0..i64::from(DATABASES)).contains(&number);
    let number = is_one.then_some(number as u8);
    number.ok_or(CommandError::Refused("DB index is out of range"))
}

/// The database that COPY copies to; the selected one if its options are refused anyway.
pub(crate) fn copy_db(env: &Env, request: Request<'_>) -> u8 {
    CopyOptions::parse(env, request).map_or(env.db, |options| options.db)
}

/// `COPY source destination [DB destination-db] [REPLACE]`
pub(crate) fn copy(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let options = CopyOptions::parse(env, request)?;
    if options.db == env.db && request.arg(1) == request.arg(2) {
        return Err(CommandError::Refused("source and destination objects are the same"));
    }
    let from = shard.data_key(env, request.arg(1))?;
    let to = shard.bucket_key(Space::Db(options.db), request.arg(2))?;
    if shard.settled(env, &from).is_none() || (shard.settled(env, &to).is_some() && !options.replace) {
        ReplyWriter::new(out, env.proto).int(0);
        return Ok(None);
    }
    let stored = shard.store.find(&from).and_then(|place| shard.store.value(place));
    let stored = stored.ok_or(CommandError::Refused(
        "a bucket cannot be copied: its tokens would be there twice",
    ))?;
    let mut rest = CopyRest {
        db: options.db,
        copy: ValueCopy::of(&stored.value, shard.hash_seed),
    };
    Ok((!rest.step(shard, env, request, out)).then(|| Box::new(rest) as _))
}

struct CopyRest {
    db: u8,
    copy: ValueCopy,
}

impl CopyRest {
    /// Whether it is done.
    fn go_on(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let from = shard.data_key(env, request.arg(1))?;
        let Some(stored) = shard.store.find(&from).and_then(|place| shard.store.value(place)) else {
            // It was there when this began, and is held.
            return Err(CommandError::Refused("no such key"));
        };
        let Some(value) = self.copy.go_on(&stored.value) else {
            return Ok(false);
        };
        let expires = stored.expires;
        let to = shard.bucket_key(Space::Db(self.db), request.arg(2))?;
        let expires = in_clock_ahead(expires, clocks_apart_us(shard, env, &from, &to));
        shard.set_value(env, &to, value, expires)?;
        ReplyWriter::new(out, env.proto).int(1);
        Ok(true)
    }
}

impl Rest for CopyRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        self.go_on(shard, env, request, out).unwrap_or_else(|error| {
            error.write(out, env.proto);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::UndoLog;
    use crate::test_shard::TestShards;

    #[test]
    fn a_renamed_bucket_has_its_state_and_leaves_nothing() {
        let mut shards = TestShards::new(1);
        for _ in 0..3 {
            shards.check("a");
        }
        shards.check("b");
        assert_eq!(shards.run("RENAMENX a b"), ":0\r\n");
        assert_eq!(shards.run("RENAME a b"), "+OK\r\n");
        assert_eq!(shards.run("EXISTS a"), ":0\r\n");
        assert_eq!(shards.run("PTTL b"), ":3000\r\n");
        let peek = shards.run("RL.CHECK b LIMIT 10 PER 10s PEEK");
        assert!(peek.starts_with("*6\r\n:1\r\n:10\r\n:7\r\n"), "{peek}");
        assert_eq!(shards.run("RENAME b b"), "+OK\r\n");
        assert_eq!(shards.run("RENAMENX b b"), ":0\r\n");
        // A bucket that is full again is no key.
        shards.advance_ms(3000);
        assert_eq!(shards.run("RENAME b c"), "-ERR no such key\r\n");
        assert_eq!(shards.run("RENAME b b"), "-ERR no such key\r\n");
        assert_eq!(shards.run("DBSIZE"), ":0\r\n");
    }

    #[test]
    fn a_renamed_bucket_keeps_what_expire_set() {
        let mut shards = TestShards::new(1);
        shards.check("a");
        assert_eq!(shards.run("EXPIRE a 100"), ":1\r\n");
        assert_eq!(shards.run("RENAME a b"), "+OK\r\n");
        assert_eq!(shards.run("TTL b"), ":100\r\n");
        assert_eq!(shards.run("PERSIST b"), ":1\r\n");
        assert_eq!(shards.run("PTTL b"), ":1000\r\n");
        let log = "RL.CHECK log LIMIT 10 PER 10s POLICY sliding_log";
        shards.run(log);
        assert_eq!(shards.run("RENAME log b"), "+OK\r\n");
        assert_eq!(shards.run("OBJECT ENCODING b"), "$11\r\nsliding_log\r\n");
    }

    #[test]
    fn a_bucket_is_not_copied() {
        let mut shards = TestShards::new(1);
        shards.check("a");
        let refused = "-ERR a bucket cannot be copied: its tokens would be there twice\r\n";
        assert_eq!(shards.run("COPY a b"), refused);
        assert_eq!(shards.run("COPY a a DB 1"), refused);
        assert_eq!(shards.run("EXISTS b"), ":0\r\n");
        shards.run("SET s x");
        assert_eq!(shards.run("COPY s a"), ":0\r\n");
        assert_eq!(shards.run("COPY s a REPLACE"), ":1\r\n");
        assert_eq!(shards.run("GET a"), "$1\r\nx\r\n");
    }

    #[test]
    fn times_move_with_the_clock_of_the_slot() {
        let mut shards = TestShards::new(1);
        let slot = tollgate_store::slot_of(b"b");
        assert_ne!(slot, tollgate_store::slot_of(b"a"));
        shards.shards[0].store.slot_mut(slot).unwrap().clock_offset_us = 5_000_000;
        shards.run("SET a x PX 1000");
        assert_eq!(shards.run("COPY a b"), ":1\r\n");
        assert_eq!(shards.run("PTTL b"), ":1000\r\n");
        assert_eq!(shards.run("RENAME b a"), "+OK\r\n");
        assert_eq!(shards.run("PTTL a"), ":1000\r\n");
        assert_eq!(shards.run("RENAME a b"), "+OK\r\n");
        assert_eq!(shards.run("PTTL b"), ":1000\r\n");
        // A bucket's state has times that only its policy knows.
        shards.check("a");
        let refused = "-ERR a bucket cannot be renamed to a key whose slot has another clock\r\n";
        assert_eq!(shards.run("RENAME a b"), refused);
        assert_eq!(shards.run("RENAME a {a}2"), "+OK\r\n");
    }

    #[test]
    fn renames_are_taken_back() {
        let mut shards = TestShards::new(1);
        let large = "x".repeat(20_000);
        let setup = |shards: &mut TestShards| {
            shards.run(&format!("SET large {large}"));
            shards.run("SET small 1 PX 5000");
            shards.check("bucket");
        };
        let dump = |shards: &mut TestShards| -> Vec<String> {
            let mut all = Vec::new();
            for key in ["large", "small", "bucket", "free", "other"] {
                for command in ["TYPE", "PTTL", "GET", "OBJECT ENCODING"] {
                    all.push(shards.run(&format!("{command} {key}")));
                }
                all.push(shards.run(&format!("RL.CHECK {key} LIMIT 10 PER 10s PEEK")));
            }
            all
        };
        setup(&mut shards);
        let before = dump(&mut shards);
        let runs: &[&[&str]] = &[
            &["RENAME large free"],
            &["RENAME bucket free", "RENAME free other"],
            &["RENAME bucket large", "RENAME large small", "DEL small"],
            &[
                "RENAME large small",
                "APPEND small y",
                "SET large 5",
                "INCR large",
                "RENAME small other",
            ],
            &[
                "APPEND large y",
                "RENAME large free",
                "APPEND free z",
                "RENAME free large",
                "SETRANGE large 5 abc",
            ],
            &[
                "SET small 2",
                "RENAME small free",
                "PEXPIRE free 100",
                "RENAME large small",
                "RENAME small free",
            ],
            &[
                "COPY large bucket REPLACE",
                "APPEND bucket x",
                "COPY small large REPLACE",
                "RENAME bucket small",
            ],
            &[
                "RENAME large small",
                "RENAME small large",
                "RENAME large large",
                "DEL large",
                "RENAME bucket large",
            ],
        ];
        for run in runs {
            shards.shards[0].undo = Some(UndoLog::default());
            for command in *run {
                let reply = shards.run(command);
                assert!(!reply.starts_with('-'), "{command}: {reply}");
            }
            let log = shards.shards[0].undo.take().unwrap();
            assert!(!log.is_empty());
            shards.shards[0].roll_back(log);
            assert!(dump(&mut shards) == before, "{run:?}");
        }
    }
}
