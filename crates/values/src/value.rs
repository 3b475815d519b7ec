//! A value of any type.

use crate::{Encoding, Hash, List, Set, SortedSet, StringValue};

/// What a key of a Redis database can hold.
///
/// Cloning one is O(elements) and happens at once: ask [`Value::elements`] first, and copy a large one in steps, by scanning it.
#[derive(Clone, Debug)]
pub enum Value {
    /// See [`StringValue`].
    String(Box<StringValue>),
    /// See [`List`].
    List(Box<List>),
    /// See [`Set`].
    Set(Box<Set>),
    /// See [`struct@Hash`].
    Hash(Box<Hash>),
    /// See [`SortedSet`].
    SortedSet(Box<SortedSet>),
}

impl Value {
    /// Bytes that it has allocated, with its own box. O(1).
    pub fn bytes(&self) -> usize {
        match self {
            Value::String(string) => string.bytes(),
            Value::List(list) => list.bytes(),
            Value::Set(set) => set.bytes(),
            Value::Hash(hash) => hash.bytes(),
            Value::SortedSet(sorted_set) => sorted_set.bytes(),
        }
    }

    /// Reads the start of what it has in its box, so that it is in the processor's caches when it is wanted; what is read means nothing.
    #[inline]
    pub fn touch_box(&self) -> u64 {
        self.encoding() as u64
    }

    /// As [`Value::touch_box`], of a string, or of the elements of what is small.
    #[inline]
    pub fn touch(&self) -> u64 {
        let first = match self {
            Value::String(string) => string.first_byte(),
            Value::Hash(hash) => hash.first_byte(),
            Value::Set(set) => set.first_byte(),
            Value::SortedSet(sorted_set) => sorted_set.first_byte(),
            Value::List(_) => None,
        };
        u64::from(first.unwrap_or_default())
    }

    /// What [TYPE](https://redis.io/docs/latest/commands/type/) answers. O(1).
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::SortedSet(_) => "zset",
        }
    }

    /// What [OBJECT ENCODING](https://redis.io/docs/latest/commands/object-encoding/) of Redis 7.2 answers. O(1).
    pub fn encoding(&self) -> Encoding {
        match self {
            Value::String(string) => string.encoding(),
            Value::List(list) => list.encoding(),
            Value::Set(set) => set.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::SortedSet(sorted_set) => sorted_set.encoding(),
        }
    }

    /// How many elements it has; 1 for a string. O(1).
    pub fn elements(&self) -> usize {
        match self {
            Value::String(_) => 1,
            Value::List(list) => list.len(),
            Value::Set(set) => set.len(),
            Value::Hash(hash) => hash.len(),
            Value::SortedSet(sorted_set) => sorted_set.len(),
        }
    }

    /// Drops about `elements` elements and says whether nothing is left to do: [`drop`] of what is then left takes no time. In
    /// between, [`Value::bytes`] says what is still allocated; nothing else may be asked of the value. O(elements).
    #[must_use = "until it says true, there is more to drop"]
    pub fn drop_some(&mut self, elements: usize) -> bool {
        match self {
            Value::String(_) => true,
            Value::List(list) => list.drop_some(elements),
            Value::Set(set) => set.drop_some(elements),
            Value::Hash(hash) => hash.drop_some(elements),
            Value::SortedSet(sorted_set) => sorted_set.drop_some(elements),
        }
    }
}
