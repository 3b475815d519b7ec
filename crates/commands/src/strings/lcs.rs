//! LCS: the longest common subsequence of two strings.
//!
//! Redis keeps the whole table of lengths. Only one row of it is needed to go on, and on the way back one bit a cell: which of its two
//! neighbours was longer. So a table that Redis would allow takes a thirty-second of the memory.

use crate::table::Rest;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::{StringValue, Text, Value};

/// Cells that are computed, or walked through, in one step.
const STEP_CELLS: usize = 128 * 1024;
/// Bytes of a cell in Redis's table, which is what it bounds.
const REDIS_CELL_BYTES: u64 = 4;

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]`
pub(crate) fn lcs(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let bytes_max = shard.string_bytes_max as u64;
    let texts = texts(shard, env, request)?;
    let options = Options::parse(request)?;
    let [a, b] = [0, 1].map(|at| texts[at].len() as u64);
    let cells = (a + 1).saturating_mul(b + 1);
    if cells.saturating_mul(REDIS_CELL_BYTES) > bytes_max {
        return Err(CommandError::Refused(
            "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let mut rest = LcsRest::new(options, &texts);
    Ok((!rest.step(shard, env, request, out)).then(|| Box::new(rest) as _))
}

#[derive(Debug, Clone, Copy, Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: usize,
}

impl Options {
    fn parse(request: Request<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = request.iter().skip(3);
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("IDX") {
                options.idx = true;
            } else if is("LEN") {
                options.len = true;
            } else if is("WITHMATCHLEN") {
                options.with_match_len = true;
            } else if is("MINMATCHLEN")
                && let Some(number) = words.next()
            {
                let number = parse_integer(number).ok_or(CommandError::NotAnInteger)?;
                options.min_match_len = usize::try_from(number).unwrap_or(0);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if options.idx && options.len {
            return Err(CommandError::Refused(
                "If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// Both strings. A key without one has an empty one.
fn texts<'a>(shard: &'a mut Shard, env: &Env, request: Request<'_>) -> Result<[Text<'a>; 2], CommandError> {
    let keys = [
        shard.data_key(env, request.arg(1))?,
        shard.data_key(env, request.arg(2))?,
    ];
    for key in &keys {
        shard.settled(env, key);
    }
    let text = |at: usize| match shard.store.find(&keys[at]).map(|place| shard.store.value(place)) {
        None => Ok(Text::EMPTY),
        Some(Some(stored)) if let Value::String(string) = &stored.value => Ok(StringValue::text(string)),
        Some(_) => Err(CommandError::Refused("The specified keys must contain string values")),
    };
    Ok([text(0)?, text(1)?])
}

/// A match, its first and last byte in each string, as it is found from the end on.
#[derive(Debug, Clone, Copy)]
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

struct LcsRest {
    options: Options,
    /// Whether the first string is the one whose bytes the rows are for: the longer.
    a_is_long: bool,
    short_len: usize,
    /// Bytes of the longer string whose rows are done.
    rows: usize,
    /// The last row: lengths for each prefix of the shorter string.
    row: Vec<u32>,
    /// For each cell whether, on the way back, the first string loses a byte.
    back: Vec<u64>,
    /// Where the way back is; nothing before the table is complete.
    at: Option<(usize, usize)>,
    subsequence: Vec<u8>,
    current: Option<Match>,
    matches: usize,
    matches_encoded: Vec<u8>,
}

impl LcsRest {
    fn new(options: Options, texts: &[Text<'_>; 2]) -> Self {
        let [a, b] = [texts[0].len(), texts[1].len()];
        let walks_back = options.idx || !options.len;
        let cells = if walks_back { a * b } else { 0 };
        Self {
            options,
            a_is_long: a >= b,
            short_len: a.min(b),
            rows: 0,
            row: vec![0; a.min(b) + 1],
            back: vec![0; cells.div_ceil(64)],
            at: None,
            subsequence: Vec::new(),
            current: None,
            matches: 0,
            matches_encoded: Vec::new(),
        }
    }

    /// Computes rows of the table; whether it is complete.
    fn fill(&mut self, long: &[u8], short: &[u8]) -> bool {
        let rows = STEP_CELLS / (short.len() + 1) + 1;
        let end = long.len().min(self.rows + rows);
        for &byte in &long[self.rows..end] {
            let mut diagonal = 0;
            for (at, &other) in short.iter().enumerate() {
                let (left, up) = (self.row[at], self.row[at + 1]);
                if byte == other {
                    self.row[at + 1] = diagonal + 1;
                } else {
                    self.row[at + 1] = up.max(left);
                    let first_loses = if self.a_is_long { up > left } else { left > up };
                    let cell = self.rows * short.len() + at;
                    if first_loses && let Some(word) = self.back.get_mut(cell / 64) {
                        *word |= 1 << (cell % 64);
                    }
                }
                diagonal = up;
            }
            self.rows += 1;
        }
        self.rows == long.len()
    }

    fn first_loses(&self, i: usize, j: usize) -> bool {
        let (row, column) = if self.a_is_long { (i - 1, j - 1) } else { (j - 1, i - 1) };
        let cell = row * self.short_len + column;
        self.back[cell / 64] >> (cell % 64) & 1 == 1
    }

    /// Walks back from the end of both strings; whether it has come to the start of one.
    fn walk(&mut self, a: &[u8], b: &[u8], env: &Env) -> bool {
        let (mut i, mut j) = self.at.unwrap_or((a.len(), b.len()));
        for _ in 0..STEP_CELLS {
            if i == 0 || j == 0 {
                self.end_match(env);
                return true;
            }
            if a[i - 1] == b[j - 1] {
                self.subsequence.push(a[i - 1]);
                (i, j) = (i - 1, j - 1);
                let longer = self.current.map(|found| Match {
                    a: (i, found.a.1),
                    b: (j, found.b.1),
                });
                self.current = longer.or(Some(Match { a: (i, i), b: (j, j) }));
                continue;
            }
            self.end_match(env);
            if self.first_loses(i, j) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        self.at = Some((i, j));
        false
    }

    fn end_match(&mut self, env: &Env) {
        let Some(found) = self.current.take().filter(|_| self.options.idx) else {
            return;
        };
        let len = found.a.1 - found.a.0 + 1;
        if len < self.options.min_match_len {
            return;
        }
        self.matches += 1;
        let mut reply = ReplyWriter::new(&mut self.matches_encoded, env.proto);
        reply.array(if self.options.with_match_len { 3 } else { 2 });
        for (first, last) in [found.a, found.b] {
            reply.array(2);
            reply.int(first as i64);
            reply.int(last as i64);
        }
        if self.options.with_match_len {
            reply.int(len as i64);
        }
    }

    fn go_on(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let texts = texts(shard, env, request)?;
        let (a, b): (&[u8], &[u8]) = (&texts[0], &texts[1]);
        let (long, short) = if self.a_is_long { (a, b) } else { (b, a) };
        if self.rows < long.len() && !self.fill(long, short) {
            return Ok(false);
        }
        // The last length of the last row.
        let len = i64::from(self.row[self.short_len]);
        let mut reply = ReplyWriter::new(out, env.proto);
        if self.options.len {
            reply.int(len);
            return Ok(true);
        }
        if !self.walk(a, b, env) {
            return Ok(false);
        }
        if self.options.idx {
            reply.map(2);
            reply.bulk(b"matches");
            reply.array(self.matches);
            reply.raw(&self.matches_encoded);
            reply.bulk(b"len");
            reply.int(len);
        } else {
            self.subsequence.reverse();
            reply.bulk(&self.subsequence);
        }
        Ok(true)
    }
}

impl Rest for LcsRest {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        self.go_on(shard, env, request, out).unwrap_or_else(|error| {
            error.write(out, env.proto);
            true
        })
    }
}
