//! Values as bytes, for another node: in parts, so that a large one is no long stretch of work, neither here nor there.
//!
//! The parts of a value, one after the other, are
//! ```text
//! version u8 | kind u8 | elements
//! ```
//! where the kind says the type and how it is kept ([`Encoding`]), so that it is kept in the same way there, in the same order where
//! there is one. A part may end anywhere, also within an element. Strings are a number and bytes ([`crate::varint`]); a score is a
//! double, little-endian.

use crate::varint;
use crate::{Encoding, End, Hash, HashSeed, List, Score, Set, SortedSet, StringValue, Value};

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;

/// Elements written in one part at most.
const PART_ELEMENTS_MAX: usize = 2_048;

/// More elements, or bytes, than any small value has: what makes a large one from the start.
const LARGE: usize = u32::MAX as usize;

/// The longest element that is taken, in bytes.
const ELEMENT_BYTES_MAX: u64 = 1 << 32;

/// Type and encoding of a value. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Integer = 1,
    Embstr = 2,
    Raw = 3,
    ListSmall = 4,
    ListLarge = 5,
    SetIntegers = 6,
    SetSmall = 7,
    SetLarge = 8,
    HashSmall = 9,
    HashLarge = 10,
    SortedSmall = 11,
    SortedLarge = 12,
}

const KINDS: [Kind; 12] = [
    Kind::Integer,
    Kind::Embstr,
    Kind::Raw,
    Kind::ListSmall,
    Kind::ListLarge,
    Kind::SetIntegers,
    Kind::SetSmall,
    Kind::SetLarge,
    Kind::HashSmall,
    Kind::HashLarge,
    Kind::SortedSmall,
    Kind::SortedLarge,
];

impl Kind {
    fn of(value: &Value) -> Kind {
        match (value, value.encoding()) {
            (Value::String(_), Encoding::Int) => Kind::Integer,
            (Value::String(_), Encoding::Embstr) => Kind::Embstr,
            (Value::String(_), _) => Kind::Raw,
            (Value::List(_), Encoding::Listpack) => Kind::ListSmall,
            (Value::List(_), _) => Kind::ListLarge,
            (Value::Set(_), Encoding::Intset) => Kind::SetIntegers,
            (Value::Set(_), Encoding::Listpack) => Kind::SetSmall,
            (Value::Set(_), _) => Kind::SetLarge,
            (Value::Hash(_), Encoding::Listpack) => Kind::HashSmall,
            (Value::Hash(_), _) => Kind::HashLarge,
            (Value::SortedSet(_), Encoding::Listpack) => Kind::SortedSmall,
            (Value::SortedSet(_), _) => Kind::SortedLarge,
        }
    }

    fn from_byte(byte: u8) -> Option<Kind> {
        KINDS.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// The value is of another kind than when its first part was written: begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindChanged;

/// Bytes that are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAValue;

/// Writes a value in parts. What changes in between may be missed, or come twice: it has to be written again after that.
#[derive(Clone, Debug, Default)]
pub struct Export {
    kind: Option<Kind>,
    /// Elements written.
    done: usize,
    /// Bytes written of the next one.
    within: usize,
}

/// How much one part may still have.
struct Room<'a> {
    out: &'a mut Vec<u8>,
    bytes: usize,
    elements: usize,
}

impl Room<'_> {
    fn is_used_up(&self) -> bool {
        self.bytes == 0 || self.elements == 0
    }

    /// Writes what is left of an element, which is these pieces, of which `within` bytes are written; whether that was all of it.
    fn element(&mut self, within: &mut usize, pieces: &[&[u8]]) -> bool {
        let mut start = 0;
        for piece in pieces {
            let rest = piece.get(within.saturating_sub(start)..).unwrap_or_default();
            let part = &rest[..rest.len().min(self.bytes)];
            self.out.extend_from_slice(part);
            self.bytes -= part.len();
            *within += part.len();
            if part.len() < rest.len() {
                return false;
            }
            start += piece.len();
        }
        *within = 0;
        self.elements -= 1;
        true
    }
}

impl Export {
    /// Begins. O(1).
    pub fn new() -> Export {
        Export::default()
    }

    /// Writes the next part, of about so many bytes, and says whether it was the last. A small value is written whole.
    /// O(`bytes` + `PART_ELEMENTS_MAX`).
    ///
    /// # Errors
    /// [`KindChanged`]; nothing is written.
    pub fn write_some(&mut self, value: &Value, bytes: usize, out: &mut Vec<u8>) -> Result<bool, KindChanged> {
        let kind = Kind::of(value);
        match self.kind {
            None => out.extend_from_slice(&[VERSION, kind as u8]),
            Some(before) if before == kind => {}
            Some(_) => return Err(KindChanged),
        }
        self.kind = Some(kind);
        let is_small = !matches!(
            kind,
            Kind::Raw | Kind::ListLarge | Kind::SetLarge | Kind::HashLarge | Kind::SortedLarge
        );
        let mut room = Room {
            out,
            bytes: if is_small { usize::MAX } else { bytes.max(1) },
            elements: if is_small { usize::MAX } else { PART_ELEMENTS_MAX },
        };
        Ok(match value {
            Value::String(string) => self.write_string(kind, string, &mut room),
            Value::List(list) => {
                let mut elements = list.range(self.done..list.len());
                loop {
                    let Some(element) = elements.next() else { break true };
                    if room.is_used_up() || !self.write_one(&mut room, &[&length(element), element]) {
                        break false;
                    }
                }
            }
            Value::SortedSet(set) => {
                let mut members = set.range(self.done..set.len());
                loop {
                    let Some((member, score)) = members.next() else {
                        break true;
                    };
                    let score = score.get().to_le_bytes();
                    if room.is_used_up() || !self.write_one(&mut room, &[&score, &length(member), member]) {
                        break false;
                    }
                }
            }
            Value::Set(set) if is_small => set
                .iter()
                .all(|member| self.write_one(&mut room, &[&length(&member), &member])),
            Value::Hash(hash) if is_small => hash
                .iter()
                .all(|(field, value)| self.write_one(&mut room, &[&length(field), field, &length(value), value])),
            Value::Set(set) => loop {
                let Some(member) = set.nth(self.done) else { break true };
                if room.is_used_up() || !self.write_one(&mut room, &[&length(&member), &member]) {
                    break false;
                }
            },
            Value::Hash(hash) => loop {
                let Some((field, value)) = hash.nth(self.done) else {
                    break true;
                };
                if room.is_used_up() || !self.write_one(&mut room, &[&length(field), field, &length(value), value]) {
                    break false;
                }
            },
        })
    }

    fn write_string(&mut self, kind: Kind, string: &StringValue, room: &mut Room) -> bool {
        if kind == Kind::Integer {
            let integer = string.integer().unwrap_or_default();
            return room.element(&mut self.within, &[&integer.to_le_bytes()]);
        }
        room.element(&mut self.within, &[&string.text()])
    }

    fn write_one(&mut self, room: &mut Room, pieces: &[&[u8]]) -> bool {
        let all = room.element(&mut self.within, pieces);
        self.done += usize::from(all);
        all
    }
}

/// The length of an element as it is written.
struct Length {
    bytes: [u8; 10],
    len: usize,
}

fn length(element: &[u8]) -> Length {
    let mut length = Length { bytes: [0; 10], len: 0 };
    let mut number = element.len();
    while number >= 0x80 {
        length.bytes[length.len] = number as u8 | 0x80;
        length.len += 1;
        number >>= 7;
    }
    length.bytes[length.len] = number as u8;
    length.len += 1;
    length
}

impl std::ops::Deref for Length {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Puts a value together from its parts. What it has allocated is in proportion to what it was given.
#[derive(Debug)]
pub struct Import {
    seed: HashSeed,
    made: Made,
    /// The start of an element whose end is still to come, or of the header.
    rest: Vec<u8>,
}

#[derive(Debug)]
enum Made {
    Nothing,
    Integer(Option<i64>),
    String { bytes: Vec<u8>, kind: Kind },
    List(List),
    Set(Set),
    Hash(Hash),
    SortedSet(SortedSet),
}

impl Import {
    /// Begins. `seed` is that of this node's hashes. O(1).
    pub fn new(seed: HashSeed) -> Import {
        Import {
            seed,
            made: Made::Nothing,
            rest: Vec::new(),
        }
    }

    /// Takes the next part. O(its bytes).
    ///
    /// # Errors
    /// [`NotAValue`]; nothing more can be taken then.
    pub fn read_some(&mut self, part: &[u8]) -> Result<(), NotAValue> {
        if self.rest.is_empty() {
            let left = self.read_elements(part)?;
            self.rest.extend_from_slice(left);
            return Ok(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(part);
        let left = self.read_elements(&rest)?.len();
        rest.drain(..rest.len() - left);
        self.rest = rest;
        Ok(())
    }

    /// Takes the elements that are whole; answers what is left.
    fn read_elements<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], NotAValue> {
        if matches!(self.made, Made::Nothing) {
            let Some((&[version, kind], after)) = bytes.split_first_chunk::<2>() else {
                return Ok(bytes);
            };
            let kind = Kind::from_byte(kind).filter(|_| version == VERSION).ok_or(NotAValue)?;
            self.made = self.start(kind);
            bytes = after;
        }
        match &mut self.made {
            Made::Nothing => {}
            Made::Integer(integer) => {
                if let Some((digits, after)) = bytes.split_first_chunk::<8>() {
                    if integer.replace(i64::from_le_bytes(*digits)).is_some() {
                        return Err(NotAValue);
                    }
                    bytes = after;
                }
            }
            Made::String { bytes: string, .. } => {
                string.extend_from_slice(bytes);
                bytes = &[];
            }
            Made::List(list) => {
                while let Some((element, after)) = element(bytes)? {
                    list.push(End::Right, element);
                    bytes = after;
                }
            }
            Made::Set(set) => {
                while let Some((member, after)) = element(bytes)? {
                    set.add(member);
                    bytes = after;
                }
            }
            Made::Hash(hash) => {
                while let Some((field, after)) = element(bytes)? {
                    let Some((value, after)) = element(after)? else { break };
                    hash.set(field, value);
                    bytes = after;
                }
            }
            Made::SortedSet(set) => {
                while let Some((score, after)) = bytes.split_first_chunk::<8>() {
                    let Some((member, after)) = element(after)? else { break };
                    let score = Score::new(f64::from_le_bytes(*score)).ok_or(NotAValue)?;
                    set.insert(member, score);
                    bytes = after;
                }
            }
        }
        Ok(bytes)
    }

    fn start(&self, kind: Kind) -> Made {
        let seed = self.seed;
        match kind {
            Kind::Integer => Made::Integer(None),
            Kind::Embstr | Kind::Raw => Made::String {
                bytes: Vec::new(),
                kind,
            },
            Kind::ListSmall => Made::List(List::new()),
            Kind::ListLarge => {
                let mut list = List::new();
                list.expect(LARGE);
                Made::List(list)
            }
            Kind::SetIntegers => Made::Set(Set::new(seed, b"0", 1)),
            Kind::SetSmall => Made::Set(Set::new(seed, b"", 1)),
            Kind::SetLarge => Made::Set(Set::new(seed, b"", LARGE)),
            Kind::HashSmall => Made::Hash(Hash::new(seed)),
            Kind::HashLarge => {
                let mut hash = Hash::new(seed);
                hash.expect(LARGE);
                Made::Hash(hash)
            }
            Kind::SortedSmall => Made::SortedSet(SortedSet::new(seed)),
            Kind::SortedLarge => {
                let mut set = SortedSet::new(seed);
                set.expect(LARGE, 0);
                Made::SortedSet(set)
            }
        }
    }

    /// How many elements there are so far, for whoever frees it in steps.
    pub fn elements(&self) -> usize {
        match &self.made {
            Made::Nothing | Made::Integer(_) | Made::String { .. } => 1,
            Made::List(list) => list.len(),
            Made::Set(set) => set.len(),
            Made::Hash(hash) => hash.len(),
            Made::SortedSet(set) => set.len(),
        }
    }

    /// The value, after its last part.
    ///
    /// # Errors
    /// [`NotAValue`]: it is not whole, or has no element.
    pub fn finish(self) -> Result<Value, NotAValue> {
        if !self.rest.is_empty() {
            return Err(NotAValue);
        }
        self.into_value()
    }

    /// What there is, whole or not: to be freed in steps. `None` if that is no value.
    pub fn abandon(self) -> Option<Value> {
        self.into_value().ok()
    }

    fn into_value(self) -> Result<Value, NotAValue> {
        let value = match self.made {
            Made::Nothing => return Err(NotAValue),
            Made::Integer(integer) => StringValue::from_integer(integer.ok_or(NotAValue)?).into(),
            Made::String {
                bytes,
                kind: Kind::Embstr,
            } => StringValue::from_bytes(&bytes).into(),
            Made::String { bytes, .. } => StringValue::from_buffer(bytes).into(),
            Made::List(list) => Value::List(Box::new(list)),
            Made::Set(set) => Value::Set(Box::new(set)),
            Made::Hash(hash) => Value::Hash(Box::new(hash)),
            Made::SortedSet(set) => Value::SortedSet(Box::new(set)),
        };
        if value.elements() == 0 {
            return Err(NotAValue);
        }
        Ok(value)
    }
}

impl From<StringValue> for Value {
    fn from(string: StringValue) -> Value {
        Value::String(Box::new(string))
    }
}

/// An element and what comes after it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// An element and what comes after it; `None` if it is not all there.
fn element(bytes: &[u8]) -> Result<Option<Split<'_>>, NotAValue> {
    let mut rest = bytes;
    match varint::take(&mut rest) {
        Some(len) if len > ELEMENT_BYTES_MAX => Err(NotAValue),
        Some(len) => Ok(rest.split_at_checked(len as usize)),
        // The longest number has ten bytes.
        None if bytes.len() >= 10 => Err(NotAValue),
        None => Ok(None),
    }
}
