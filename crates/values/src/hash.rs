//! Hashes: fields and their values.

use crate::allocation::size_class;
use crate::encoding::{Encoding, LISTPACK_ELEMENT_BYTES_MAX, LISTPACK_FIELDS_MAX};
use crate::packed::Owned;
use crate::partition::Keyed;
use crate::partitions::Partitions;
use crate::sample::{Sample, below};
use crate::seed::HashSeed;

/// A [hash](https://redis.io/docs/latest/develop/data-types/hashes/). A small one keeps its fields in the order in which they were
/// first set, as Redis's listpacks do.
#[derive(Clone)]
pub struct Hash {
    fields: Partitions<Field>,
    /// Whether it was ever too large for a listpack.
    hashtable: bool,
}

#[derive(Clone)]
struct Field {
    name: Owned,
    value: Owned,
}

impl Keyed for Field {
    const PARTITION_ELEMENTS: usize = if cfg!(test) {
        LISTPACK_FIELDS_MAX
    } else {
        2 * LISTPACK_FIELDS_MAX
    };

    fn key(&self) -> &[u8] {
        &self.name
    }

    fn heap_bytes(&self) -> usize {
        self.name.heap_bytes() + self.value.heap_bytes()
    }
}

impl Field {
    fn pair(&self) -> (&[u8], &[u8]) {
        (&self.name, &self.value)
    }
}

impl Hash {
    /// Without fields. Redis has no such value: give it some.
    pub fn new(seed: HashSeed) -> Hash {
        Hash {
            fields: Partitions::new(seed),
            hashtable: false,
        }
    }

    /// How many fields. O(1).
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether it has no field. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated, with the box it is in. O(1).
    pub fn bytes(&self) -> usize {
        size_class(size_of::<Hash>()) + self.fields.allocated_bytes()
    }

    /// A listpack up to 512 fields and 64 bytes, else a hashtable, and that for ever. O(1).
    pub fn encoding(&self) -> Encoding {
        if self.hashtable {
            Encoding::Hashtable
        } else {
            Encoding::Listpack
        }
    }

    /// Says that a command is about to set so many fields: Redis makes a hashtable of it beforehand if they are too many, whether or
    /// not they are different. O(1).
    pub fn expect(&mut self, fields: usize) {
        self.hashtable |= fields > LISTPACK_FIELDS_MAX;
    }

    /// The value of a field. O(log fields).
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(|field| &*field.value)
    }

    /// Sets a field, and says whether it is new. O(log fields).
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.hashtable |= field.len().max(value.len()) > LISTPACK_ELEMENT_BYTES_MAX;
        let spot = self.fields.find(field);
        let (name, value) = (field, Owned::new(value));
        if spot.found() {
            self.fields.edit(spot, |field| field.value = value);
            return false;
        }
        let name = Owned::new(name);
        self.fields.push(spot, Field { name, value });
        self.hashtable |= self.len() > LISTPACK_FIELDS_MAX;
        true
    }

    /// Removes a field, and says whether it was there. O(log fields).
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let spot = self.fields.find(field);
        self.fields.remove(spot, !self.hashtable).is_some()
    }

    /// All fields with their values. The iterator takes O(1) a step; nothing bounds how many there are.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(Field::pair)
    }

    /// One step of [HSCAN](https://redis.io/docs/latest/commands/hscan/): shows fields from `cursor` on, `count` or more (one
    /// partition of up to 1,024 at a time; a listpack whole), and gives the cursor to go on with, 0 after the last. Every field that is
    /// there from the first step to the last is shown, some perhaps twice. A cursor is below 2^48. O(count + one partition).
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, show: &mut dyn FnMut(&'a [u8], &'a [u8])) -> u64 {
        let cursor = if self.hashtable { cursor } else { 0 };
        self.fields
            .scan(cursor, count, &mut |field| show(&field.name, &field.value))
    }

    /// The field of that rank in the order of [`Hash::iter`], with its value: for the ranks of a [`Sample`]. O(partitions).
    pub fn nth(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        self.fields.nth(rank).map(Field::pair)
    }

    /// A random field with its value, each equally often: [HRANDFIELD](https://redis.io/docs/latest/commands/hrandfield/) with
    /// repetition. O(partitions).
    pub fn random(&self, random: u64) -> Option<(&[u8], &[u8])> {
        self.nth(below(self.len(), random))
    }

    /// Distinct random ranks for [`Hash::nth`]: HRANDFIELD without repetition. O(1), and room for `count`.
    pub fn sample(&self, count: usize) -> Sample {
        Sample::new(self.len(), count)
    }

    /// See [`crate::Value::drop_some`].
    #[must_use = "until it says true, there is more to drop"]
    pub fn drop_some(&mut self, elements: usize) -> bool {
        self.fields.drop_some(elements)
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.fields.check();
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Hash")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}
