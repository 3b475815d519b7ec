//! The keys that a run has asked for.

use smallvec::SmallVec;
use std::collections::HashSet;

/// Keys that are searched one by one.
const LISTED_MAX: usize = 16;

/// Keys that a run has asked for, each once.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    bytes: SmallVec<[u8; 64]>,
    ends: SmallVec<[usize; 2]>,
    /// All of them, once they are more than are quickly searched.
    index: Option<HashSet<Box<[u8]>>>,
}

impl Touched {
    /// Adds a key; whether it was not there.
    pub(crate) fn add(&mut self, key: &[u8]) -> bool {
        // Most scripts have one key, or ask for one several times.
        if self.last() == Some(key) {
            return false;
        }
        if self.ends.len() < LISTED_MAX {
            if self.iter().any(|other| other == key) {
                return false;
            }
        } else {
            let mut index = match self.index.take() {
                Some(index) => index,
                None => self.iter().map(Box::from).collect(),
            };
            let is_new = index.insert(key.into());
            self.index = Some(index);
            if !is_new {
                return false;
            }
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        true
    }

    fn last(&self) -> Option<&[u8]> {
        let end = *self.ends.last()?;
        let start = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// The keys, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.index = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_there_once() {
        let mut touched = Touched::default();
        for round in 0..2 {
            for number in 0..100 {
                assert_eq!(touched.add(format!("key:{number}").as_bytes()), round == 0, "{number}");
            }
        }
        assert_eq!(touched.iter().count(), 100);
        assert_eq!(touched.iter().nth(17), Some(&b"key:17"[..]));
        touched.clear();
        assert!(touched.iter().next().is_none() && touched.add(b"") && !touched.add(b""));
    }
}
