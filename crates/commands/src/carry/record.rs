//! Entries as records of bytes.
//!
//! A section is what one call has written; sections may follow each other. Numbers are [`varint`]s, `bytes` are a number and bytes,
//! times are 8 bytes, little-endian.
//! ```text
//!  0 section   version u8
//!  1 kind      space, policy bytes, version, limit, window_us, burst   numbered from 0 in each section
//!  2 bucket    kind, key bytes, expiry, shape u8, state                shape: 1 pinned, 2 blob, else 4 x numbers
//!  3 value     db u8, key bytes, expiry, bytes
//!  4 begin     db u8, key bytes, expiry, bytes                         the first part of a value
//!  5 part      bytes
//!  6 end       bytes                                                   the last
//!  7 remove    space, key bytes
//!  8 keep      space, key bytes                                        it comes later; what is there stays until then
//!  9 flush     u8                                                      a database, 16 for rules, 255 for all
//! space: u8, a database; or 16 and the rule's id, bytes
//! ```

use super::Malformed;
use smallvec::SmallVec;
use tollgate_limiter::RuleSet;
use tollgate_script::{Params, ParamsId, PolicyHost};
use tollgate_store::{Bucket, DATABASES, Expiry, Keyspace, Numbers, Space, State};
use tollgate_values::varint;

const VERSION: u8 = 1;

const SECTION: u8 = 0;
const KIND: u8 = 1;
const BUCKET: u8 = 2;
const VALUE: u8 = 3;
const BEGIN: u8 = 4;
const PART: u8 = 5;
const END: u8 = 6;
const REMOVE: u8 = 7;
const KEEP: u8 = 8;
const FLUSH: u8 = 9;

const PINNED: u8 = 1;
const BLOB: u8 = 2;
const NUMBERS_SHIFT: u32 = 2;

/// In place of a database: a rule.
const RULES: u8 = DATABASES;
/// In place of a database: all of them and the rules.
const ALL: u8 = 255;

/// Kinds among which one is looked for before it is written again.
const KINDS_SEARCHED: usize = 16;

/// Where a chunk of a value belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// It is all of it.
    Whole,
    First,
    Middle,
    Last,
}

/// Writes one section.
pub(super) struct Section<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    kinds: SmallVec<[(Space, ParamsId); 4]>,
}

impl<'a> Section<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            start: out.len(),
            out,
            kinds: SmallVec::new(),
        }
    }

    /// Bytes written.
    pub(super) fn len(&self) -> usize {
        self.out.len() - self.start
    }

    fn begin(&mut self, record: u8) {
        if self.out.len() == self.start {
            self.out.extend_from_slice(&[SECTION, VERSION]);
        }
        self.out.push(record);
    }

    /// Writes a bucket, unless it is of a rule that is gone.
    pub(super) fn bucket(&mut self, policies: &PolicyHost, rules: &RuleSet, space: Space, bucket: &Bucket<'_>) {
        let params = ParamsId(bucket.params);
        let latest = self.kinds.len().saturating_sub(KINDS_SEARCHED);
        let known = self.kinds[latest..].iter().rposition(|&kind| kind == (space, params));
        let kind = match known {
            Some(at) => latest + at,
            None => {
                self.begin(KIND);
                if !put_space(self.out, rules, space) {
                    self.out.pop();
                    return;
                }
                put_parameters(self.out, policies, params);
                self.kinds.push((space, params));
                self.kinds.len() - 1
            }
        };
        self.begin(BUCKET);
        varint::put(self.out, kind as u64);
        varint::put_bytes(self.out, bucket.key);
        put_time(self.out, bucket.expiry);
        let pinned = if bucket.pinned { PINNED } else { 0 };
        match bucket.state {
            State::Numbers(numbers) => {
                // There are at most four.
                self.out.push(pinned | (numbers.len() as u8) << NUMBERS_SHIFT);
                for number in &*numbers {
                    self.out.extend_from_slice(&number.to_le_bytes());
                }
            }
            State::Blob(blob) => {
                self.out.push(pinned | BLOB);
                varint::put_bytes(self.out, blob);
            }
        }
    }

    /// Writes a chunk of the value of a key.
    pub(super) fn value(&mut self, chunk: Chunk, db: u8, key: &[u8], expires: Expiry, bytes: &[u8]) {
        self.begin(match chunk {
            Chunk::Whole => VALUE,
            Chunk::First => BEGIN,
            Chunk::Middle => PART,
            Chunk::Last => END,
        });
        if matches!(chunk, Chunk::Whole | Chunk::First) {
            self.out.push(db);
            varint::put_bytes(self.out, key);
            put_time(self.out, expires);
        }
        varint::put_bytes(self.out, bytes);
    }

    pub(super) fn remove(&mut self, rules: &RuleSet, space: Space, key: &[u8]) {
        self.about(REMOVE, rules, space, key);
    }

    pub(super) fn keep(&mut self, rules: &RuleSet, space: Space, key: &[u8]) {
        self.about(KEEP, rules, space, key);
    }

    fn about(&mut self, record: u8, rules: &RuleSet, space: Space, key: &[u8]) {
        self.begin(record);
        if put_space(self.out, rules, space) {
            varint::put_bytes(self.out, key);
        } else {
            self.out.pop();
        }
    }

    pub(super) fn flush(&mut self, keyspace: Option<Keyspace>) {
        let number = match keyspace {
            None => ALL,
            Some(Keyspace::Db(number)) => number,
            Some(Keyspace::Rules) => RULES,
            // What stands in is this node's own.
            Some(Keyspace::StandIns) => return,
        };
        self.begin(FLUSH);
        self.out.push(number);
    }
}

fn put_time(out: &mut Vec<u8>, expiry: Expiry) {
    out.extend_from_slice(&expiry.to_bits().to_le_bytes());
}

/// Writes a space; `false`, and nothing is written, if it has no name that others know.
pub(super) fn put_space(out: &mut Vec<u8>, rules: &RuleSet, space: Space) -> bool {
    match space {
        Space::Db(number) => out.push(number),
        Space::Rule(number) => {
            let Some(rule) = rules.by_number(number) else {
                return false;
            };
            out.push(RULES);
            varint::put_bytes(out, rule.id.as_bytes());
        }
        Space::StandIn(_) => return false,
    }
    true
}

/// Writes policy, version and parameters.
pub(super) fn put_parameters(out: &mut Vec<u8>, policies: &PolicyHost, params: ParamsId) {
    let (policy, params) = policies.params(params);
    let info = policies.info(policy);
    varint::put_bytes(out, info.name.as_bytes());
    for number in [u64::from(info.version), params.limit, params.window_us, params.burst] {
        varint::put(out, number);
    }
}

/// A space as others name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpaceName<'a> {
    Db(u8),
    Rule(&'a [u8]),
}

/// A policy as others name it, and parameters, which are not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameters<'a> {
    pub policy: &'a [u8],
    pub version: u64,
    pub params: Params,
}

#[derive(Debug)]
pub(super) enum Record<'a> {
    Section,
    Kind(SpaceName<'a>, Parameters<'a>),
    Bucket {
        kind: usize,
        key: &'a [u8],
        expiry: Expiry,
        pinned: bool,
        state: State<'a>,
    },
    /// Any chunk but those that are not the first have no key.
    Value {
        chunk: Chunk,
        db: u8,
        key: &'a [u8],
        expires: Expiry,
        bytes: &'a [u8],
    },
    Remove(SpaceName<'a>, &'a [u8]),
    Keep(SpaceName<'a>, &'a [u8]),
    Flush(Option<Keyspace>),
}

/// Bytes that are read from the front.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record<'a>>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let record = match self.byte()? {
            SECTION if self.byte()? == VERSION => Record::Section,
            KIND => Record::Kind(self.space()?, self.parameters()?),
            BUCKET => {
                let kind = usize::try_from(self.number()?).map_err(|_| Malformed)?;
                let (key, expiry, shape) = (self.bytes()?, self.time()?, self.byte()?);
                let state = match shape & !PINNED {
                    BLOB => State::Blob(self.bytes()?),
                    shape if shape & BLOB == 0 => State::Numbers(self.numbers(shape >> NUMBERS_SHIFT)?),
                    _ => return Err(Malformed),
                };
                Record::Bucket {
                    kind,
                    key,
                    expiry,
                    pinned: shape & PINNED != 0,
                    state,
                }
            }
            record @ (VALUE | BEGIN) => Record::Value {
                chunk: if record == VALUE { Chunk::Whole } else { Chunk::First },
                db: self.db()?,
                key: self.bytes()?,
                expires: self.time()?,
                bytes: self.bytes()?,
            },
            record @ (PART | END) => Record::Value {
                chunk: if record == PART { Chunk::Middle } else { Chunk::Last },
                db: 0,
                key: &[],
                expires: Expiry::NEVER,
                bytes: self.bytes()?,
            },
            REMOVE => Record::Remove(self.space()?, self.bytes()?),
            KEEP => Record::Keep(self.space()?, self.bytes()?),
            FLUSH => Record::Flush(match self.byte()? {
                ALL => None,
                RULES => Some(Keyspace::Rules),
                number if number < DATABASES => Some(Keyspace::Db(number)),
                _ => return Err(Malformed),
            }),
            _ => return Err(Malformed),
        };
        Ok(Some(record))
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        varint::take(&mut self.0).ok_or(Malformed)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        varint::take_bytes(&mut self.0).ok_or(Malformed)
    }

    fn eight(&mut self) -> Result<[u8; 8], Malformed> {
        let (&eight, rest) = self.0.split_first_chunk::<8>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(eight)
    }

    fn time(&mut self) -> Result<Expiry, Malformed> {
        Ok(Expiry::from_bits(u64::from_le_bytes(self.eight()?)))
    }

    fn db(&mut self) -> Result<u8, Malformed> {
        Some(self.byte()?).filter(|&db| db < DATABASES).ok_or(Malformed)
    }

    fn numbers(&mut self, count: u8) -> Result<Numbers, Malformed> {
        let mut numbers = [0.0; 4];
        let numbers = numbers.get_mut(..usize::from(count)).ok_or(Malformed)?;
        for number in &mut *numbers {
            *number = f64::from_le_bytes(self.eight()?);
            if number.is_nan() {
                return Err(Malformed);
            }
        }
        Numbers::new(numbers).map_err(|_| Malformed)
    }

    pub(super) fn space(&mut self) -> Result<SpaceName<'a>, Malformed> {
        match self.byte()? {
            RULES => Ok(SpaceName::Rule(self.bytes()?)),
            number if number < DATABASES => Ok(SpaceName::Db(number)),
            _ => Err(Malformed),
        }
    }

    pub(super) fn parameters(&mut self) -> Result<Parameters<'a>, Malformed> {
        Ok(Parameters {
            policy: self.bytes()?,
            version: self.number()?,
            params: Params {
                limit: self.number()?,
                window_us: self.number()?,
                burst: self.number()?,
            },
        })
    }
}
