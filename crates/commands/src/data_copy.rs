//! Copies of values, put together a bounded part at a time.

use crate::strings::grow::STEP_BYTES;
use crate::table::STEP_ELEMENTS;
use tollgate_values::{Encoding, End, Growth, Hash, HashSeed, List, Set, SortedSet, Value};

/// More elements, or bytes, than any small value has: what makes a large one of the copy from the start.
const LARGE: usize = u32::MAX as usize;

/// From this average size on, elements of a set or hash are copied by rank: a step of a scan shows a whole partition.
const LARGE_ELEMENT_BYTES: usize = 4096;

/// A copy of a value that does not change meanwhile. It has the same elements in the same encoding.
pub(crate) struct ValueCopy {
    part: Part,
    /// Elements copied in one step.
    at_once: usize,
    by_rank: bool,
}

enum Part {
    /// It is copied at once.
    Small,
    String(Growth),
    List(List),
    Set(Set, Cursor),
    Hash(Hash, Cursor),
    SortedSet(SortedSet),
}

/// Where a scan goes on.
type Cursor = u64;

impl ValueCopy {
    /// Begins to copy a value. O(1).
    pub(crate) fn of(value: &Value, seed: HashSeed) -> Self {
        let (elements, bytes) = (value.elements(), value.bytes());
        let is_small = elements <= STEP_ELEMENTS && bytes <= STEP_BYTES;
        let part = match value {
            _ if is_small => Part::Small,
            Value::String(string) => Part::String(string.start_growth(string.len())),
            Value::List(_) => {
                let mut list = List::new();
                if value.encoding() == Encoding::Quicklist {
                    list.expect(LARGE);
                }
                Part::List(list)
            }
            Value::Set(_) => Part::Set(Set::new(seed, b"", LARGE), 0),
            Value::Hash(_) => {
                let mut hash = Hash::new(seed);
                hash.expect(LARGE);
                Part::Hash(hash, 0)
            }
            Value::SortedSet(_) => {
                let mut sorted_set = SortedSet::new(seed);
                sorted_set.expect(LARGE, 0);
                Part::SortedSet(sorted_set)
            }
        };
        let bytes_of_one = bytes / elements.max(1);
        Self {
            part,
            at_once: (STEP_BYTES / bytes_of_one.max(1)).clamp(1, STEP_ELEMENTS),
            by_rank: bytes_of_one >= LARGE_ELEMENT_BYTES,
        }
    }

    /// Copies the next part; the whole copy once that was the last. O([`STEP_ELEMENTS`]), or about [`STEP_BYTES`].
    pub(crate) fn go_on(&mut self, from: &Value) -> Option<Value> {
        let count = self.at_once;
        let done = match (&mut self.part, from) {
            (Part::String(copy), Value::String(from)) => copy.copy_some(from, STEP_BYTES),
            (Part::List(copy), Value::List(from)) => {
                let end = from.len().min(copy.len() + count);
                let elements = from.range(copy.len()..end);
                elements.for_each(|element| copy.push(End::Right, element));
                end == from.len()
            }
            (Part::SortedSet(copy), Value::SortedSet(from)) => {
                let end = from.len().min(copy.len() + count);
                for (member, score) in from.range(copy.len()..end) {
                    copy.insert(member, score);
                }
                end == from.len()
            }
            (Part::Set(copy, _), Value::Set(from)) if self.by_rank => {
                let ranks = copy.len()..from.len().min(copy.len() + count);
                for member in ranks.filter_map(|rank| from.nth(rank)) {
                    copy.add(&member);
                }
                copy.len() == from.len()
            }
            (Part::Hash(copy, _), Value::Hash(from)) if self.by_rank => {
                let ranks = copy.len()..from.len().min(copy.len() + count);
                for (field, value) in ranks.filter_map(|rank| from.nth(rank)) {
                    copy.set(field, value);
                }
                copy.len() == from.len()
            }
            (Part::Set(copy, cursor), Value::Set(from)) => {
                *cursor = from.scan(*cursor, count, &mut |member| {
                    copy.add(&member);
                });
                *cursor == 0
            }
            (Part::Hash(copy, cursor), Value::Hash(from)) => {
                *cursor = from.scan(*cursor, count, &mut |field, value| {
                    copy.set(field, value);
                });
                *cursor == 0
            }
            _ => return Some(from.clone()),
        };
        if !done {
            return None;
        }
        Some(match std::mem::replace(&mut self.part, Part::Small) {
            Part::Small => from.clone(),
            Part::String(copy) => Value::String(Box::new(copy.finish())),
            Part::List(copy) => Value::List(Box::new(copy)),
            Part::Set(copy, _) => Value::Set(Box::new(copy)),
            Part::Hash(copy, _) => Value::Hash(Box::new(copy)),
            Part::SortedSet(copy) => Value::SortedSet(Box::new(copy)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_values::{Score, StringValue};

    fn assert_copied(value: &Value) {
        let mut copy = ValueCopy::of(value, HashSeed::new(7));
        let mut steps = 0;
        let copied = loop {
            steps += 1;
            if let Some(copied) = copy.go_on(value) {
                break copied;
            }
        };
        assert!(steps > 2, "{steps} steps");
        assert_eq!(
            (copied.encoding(), copied.elements()),
            (value.encoding(), value.elements())
        );
        assert_eq!(contents(&copied), contents(value));
    }

    fn contents(value: &Value) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = match value {
            Value::String(string) => vec![string.text().to_vec()],
            Value::List(list) => return list.range(0..list.len()).map(<[u8]>::to_vec).collect(),
            Value::Set(set) => set.iter().map(|member| member.to_vec()).collect(),
            Value::Hash(hash) => hash
                .iter()
                .map(|(field, value)| [field, b"=", value].concat())
                .collect(),
            Value::SortedSet(sorted) => {
                let members = sorted.range(0..sorted.len());
                members
                    .map(|(member, score)| format!("{member:?} {score:?}").into_bytes())
                    .collect()
            }
        };
        all.sort_unstable();
        all
    }

    #[test]
    fn copies_of_many_elements_are_the_same() {
        let seed = HashSeed::new(7);
        let (mut list, mut set, mut hash, mut sorted) = (
            List::new(),
            Set::new(seed, b"x", 5000),
            Hash::new(seed),
            SortedSet::new(seed),
        );
        list.expect(1 << 20);
        for number in 0..5000 {
            let text = number.to_string();
            list.push(End::Right, text.as_bytes());
            set.add(text.as_bytes());
            hash.set(text.as_bytes(), b"value");
            sorted.insert(text.as_bytes(), Score::new(f64::from(number % 100)).unwrap());
        }
        assert_copied(&Value::List(Box::new(list)));
        assert_copied(&Value::Set(Box::new(set)));
        assert_copied(&Value::Hash(Box::new(hash)));
        assert_copied(&Value::SortedSet(Box::new(sorted)));
    }

    #[test]
    fn copies_of_few_large_elements_are_the_same() {
        let seed = HashSeed::new(7);
        let (mut list, mut set, mut hash) = (List::new(), Set::new(seed, b"x", 5), Hash::new(seed));
        for byte in b'a'..b'j' {
            let large = vec![byte; 200_000];
            list.expect(large.len());
            list.push(End::Right, &large);
            set.add(&large);
            hash.set(&large, b"value");
        }
        assert_copied(&Value::List(Box::new(list)));
        assert_copied(&Value::Set(Box::new(set)));
        assert_copied(&Value::Hash(Box::new(hash)));
        assert_copied(&Value::String(Box::new(StringValue::new(&vec![b'x'; 1_000_000]))));
    }
}
