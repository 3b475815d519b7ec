//! Writing into strings that may have to grow, a bounded number of bytes at a time.

use crate::data::Edit;
use crate::table::Rest;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::Request;
use tollgate_store::Key;
use tollgate_values::{Growth, StringValue};

/// Bytes that are copied, counted or put together before others get their chance: about as long as [`STEP_ELEMENTS`] elements.
///
/// [`STEP_ELEMENTS`]: crate::STEP_ELEMENTS
pub(crate) const STEP_BYTES: usize = 256 * 1024;

/// Writes into a string that has all the room it needs, and the reply. It is told how long the string was.
pub(crate) type Write = fn(&mut Shard, &Env, Request<'_>, usize, &mut Vec<u8>) -> Result<(), CommandError>;

/// Writes up to that length into the string of a key, argument 1, or into a new one. A large string is copied first, into a larger
/// buffer and in steps.
///
/// # Errors
/// WRONGTYPE; those of `write`, which must not fail where there is a string.
pub(crate) fn write_up_to(
    shard: &mut Shard,
    env: &Env,
    key: &Key<'_>,
    len: usize,
    (request, out): (Request<'_>, &mut Vec<u8>),
    write: Write,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let string = shard.read::<StringValue>(env, key)?;
    let before = string.map_or(0, StringValue::len);
    match string.filter(|string| string.growth_bytes(len) > STEP_BYTES) {
        Some(string) => Ok(Some(Box::new(Grow {
            growth: Some(string.start_growth(len)),
            before,
            write,
        }))),
        None => write(shard, env, request, before, out).map(|()| None),
    }
}

struct Grow {
    /// There until it is finished.
    growth: Option<Growth>,
    before: usize,
    write: Write,
}

impl Grow {
    fn go_on(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        if let (Some((place, string)), Some(growth)) = (shard.read_at::<StringValue>(env, &key)?, &mut self.growth) {
            if !growth.copy_some(string, STEP_BYTES) {
                return Ok(false);
            }
            let grown = self.growth.take().map(Growth::finish);
            shard.change_at(&key, place, |edit: &mut Edit<'_, StringValue>| {
                if let Some(grown) = grown {
                    edit.replace_by_grown(grown);
                }
            });
        }
        (self.write)(shard, env, request, self.before, out).map(|()| true)
    }
}

impl Rest for Grow {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        self.go_on(shard, env, request, out).unwrap_or_else(|error| {
            error.write(out, env.proto);
            true
        })
    }
}

/// Changes the string of a key, or a new one.
///
/// # Errors
/// WRONGTYPE; out of memory, if there is none yet.
pub(crate) fn change_string<R>(
    shard: &mut Shard,
    env: &Env,
    key: &Key<'_>,
    change: impl FnOnce(&mut Edit<'_, StringValue>) -> R,
) -> Result<R, CommandError> {
    match shard.read_at::<StringValue>(env, key)? {
        Some((place, _)) => shard.change_at(key, place, change).ok_or(CommandError::WrongType),
        None => shard.edit(env, key, |_| StringValue::for_modification(), change),
    }
}

impl Edit<'_, StringValue> {
    /// As [`StringValue::append`].
    pub(crate) fn append(&mut self, more: &[u8]) -> usize {
        let before = self.len();
        self.note(0, move |string| string.truncate(before));
        self.raw().append(more)
    }

    /// As [`StringValue::set_range`].
    pub(crate) fn set_range(&mut self, offset: usize, part: &[u8]) -> usize {
        if part.is_empty() {
            return self.len();
        }
        if self.notes() {
            let before = self.len();
            let text = self.text();
            let old: Box<[u8]> = text[offset.min(before)..(offset + part.len()).min(before)].into();
            self.note(old.len(), move |string| {
                string.set_range(offset, &old);
                string.truncate(before);
            });
        }
        self.raw().set_range(offset, part)
    }

    /// As [`StringValue::set_field`]. The string keeps its length.
    pub(crate) fn set_field(&mut self, offset_bits: usize, bits: u32, value: u64) {
        debug_assert!((offset_bits + bits as usize).div_ceil(8) <= self.len());
        if self.notes() {
            let old = tollgate_values::bits::field(&self.text(), offset_bits, bits);
            self.note(0, move |string| string.set_field(offset_bits, bits, old));
        }
        self.raw().set_field(offset_bits, bits, value);
    }

    /// As [`StringValue::grow`]. One that is long enough is kept as one that was modified, and counts as unchanged.
    pub(crate) fn grow(&mut self, len: usize) {
        let before = self.len();
        if before >= len {
            self.unmarked().grow(len);
            return;
        }
        self.note(0, move |string| string.truncate(before));
        self.raw().grow(len);
    }

    fn replace_by_grown(&mut self, grown: StringValue) {
        let before = self.len();
        self.note(0, move |string| string.truncate(before));
        *self.raw() = grown;
    }
}

#[cfg(test)]
mod tests {
    use crate::UndoLog;
    use crate::test_shard::TestShards;

    /// The next of some numbers that look random.
    fn next(state: &mut u64) -> usize {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize
    }

    fn command(state: &mut u64, len: usize) -> String {
        let offset = next(state) % (len + len / 4 + 10);
        match next(state) % 9 {
            0 => format!("SETRANGE k {offset} {}", "abc".repeat(1 + next(state) % 10)),
            1 => format!("APPEND k {}", "xyz".repeat(1 + next(state) % 10)),
            2 => format!("SETBIT k {} {}", offset * 8 + 3, next(state) % 2),
            3 => format!(
                "BITFIELD k INCRBY i37 {} 12345 SET u8 {} 77 GET u3 1",
                offset * 8 + 1,
                offset
            ),
            4 => format!("BITFIELD k OVERFLOW FAIL INCRBY u2 {offset} 3 INCRBY u2 {offset} 3"),
            5 => "BITOP NOT k k".into(),
            6 => format!("MSET k {} other 1", next(state)),
            7 => "EXPIRE k 100".into(),
            _ => "COPY k other REPLACE".into(),
        }
    }

    #[test]
    fn writes_into_strings_are_taken_back() {
        let mut state = 1;
        for len in [0, 10, 5_000, 20_000, 700_000] {
            for round in 0..24 {
                let mut shards = TestShards::new(1);
                let value = if len == 10 {
                    "1234567890".into()
                } else {
                    "v".repeat(len)
                };
                if len > 0 {
                    shards.run(&format!("SET k {value}"));
                }
                let dump = |shards: &mut TestShards| {
                    ["GET k", "OBJECT ENCODING k", "PTTL k", "EXISTS k other"].map(|line| shards.run_bytes(line))
                };
                let before = dump(&mut shards);
                shards.shards[0].undo = Some(UndoLog::default());
                let commands: Vec<_> = (0..1 + round % 6).map(|_| command(&mut state, len)).collect();
                for line in &commands {
                    let reply = shards.run_bytes(line);
                    assert!(!reply.starts_with(b"-"), "{line}: {}", reply.escape_ascii());
                }
                let log = shards.shards[0].undo.take().unwrap();
                shards.shards[0].roll_back(log);
                assert!(dump(&mut shards) == before, "{commands:?} on {len} bytes");
            }
        }
    }

    #[test]
    fn a_large_string_grows_in_steps() {
        let mut shards = TestShards::new(1);
        shards.run(&format!("SET k {}", "v".repeat(800_000)));
        for (line, reply) in [
            ("APPEND k xy", ":800002\r\n"),
            ("SETRANGE k 900000 ab", ":900002\r\n"),
            ("SETBIT k 7600000 1", ":0\r\n"),
            ("BITFIELD k SET u8 8000000 65 GET u8 8000000", "*2\r\n:0\r\n:65\r\n"),
            ("STRLEN k", ":1000001\r\n"),
            ("GETRANGE k 799998 800003", "$6\r\nvvxy\0\0\r\n"),
            ("GETRANGE k 899999 900002", "$4\r\n\0ab\0\r\n"),
            ("GETBIT k 7600000", ":1\r\n"),
            ("BITCOUNT k 900002 -1", ":3\r\n"),
        ] {
            assert_eq!(shards.run(line), reply, "{line}");
        }
    }
}
