//! Hashes: fields and their values.

use crate::allocation::size_class;
use crate::encoding::{Encoding, LISTPACK_ELEMENT_BYTES_MAX, LISTPACK_FIELDS_MAX};
use crate::listpack::Listpack;
use crate::packed::Owned;
use crate::partition::Keyed;
use crate::partitions::Partitions;
use crate::sample::{Sample, below};
use crate::seed::HashSeed;

/// A [hash](https://redis.io/docs/latest/develop/data-types/hashes/). A small one keeps its fields in the order in which they were
/// first set, as Redis's listpacks do.
#[derive(Clone)]
pub struct Hash {
    fields: Fields,
    seed: HashSeed,
}

#[derive(Clone)]
enum Fields {
    Listpack(Listpack<2>),
    Hashtable(Box<Partitions<Field>>),
}

#[derive(Clone)]
struct Field {
    name: Owned,
    value: Owned,
}

impl Keyed for Field {
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
            fields: Fields::Listpack(Listpack::default()),
            seed,
        }
    }

    /// How many fields. O(1).
    pub fn len(&self) -> usize {
        match &self.fields {
            Fields::Listpack(fields) => fields.len(),
            Fields::Hashtable(fields) => fields.len(),
        }
    }

    /// Whether it has no field. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first byte of what is beside the struct, if that is small.
    #[inline]
    pub(crate) fn first_byte(&self) -> Option<u8> {
        match &self.fields {
            Fields::Listpack(fields) => fields.first_byte(),
            Fields::Hashtable(_) => None,
        }
    }

    /// Bytes allocated, with the box it is in. O(1).
    pub fn bytes(&self) -> usize {
        size_class(size_of::<Hash>())
            + match &self.fields {
                Fields::Listpack(fields) => fields.allocated_bytes(),
                Fields::Hashtable(fields) => size_class(size_of::<Partitions<Field>>()) + fields.allocated_bytes(),
            }
    }

    /// A listpack up to 512 fields and 64 bytes, else a hashtable, and that for ever. O(1).
    pub fn encoding(&self) -> Encoding {
        match &self.fields {
            Fields::Listpack(_) => Encoding::Listpack,
            Fields::Hashtable(_) => Encoding::Hashtable,
        }
    }

    /// Says that a command is about to set so many fields: Redis makes a hashtable of it beforehand if they are too many, whether or
    /// not they are different. O(fields of a listpack).
    pub fn expect(&mut self, fields: usize) {
        if fields > LISTPACK_FIELDS_MAX {
            self.become_hashtable();
        }
    }

    /// The value of a field. O(log fields), or O(fields of a listpack).
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.fields {
            Fields::Listpack(fields) => fields.find(field).map(|(_, [_, value])| value),
            Fields::Hashtable(fields) => fields.get(field).map(|field| &*field.value),
        }
    }

    /// Sets a field, and says whether it is new. O(log fields), or O(fields of a listpack).
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        if let Fields::Listpack(fields) = &mut self.fields {
            let fits = field.len().max(value.len()) <= LISTPACK_ELEMENT_BYTES_MAX;
            match fields.find(field) {
                Some((record, _)) if fits => {
                    fields.replace_last(record, value);
                    return false;
                }
                None if fits && fields.len() < LISTPACK_FIELDS_MAX => {
                    fields.push([field, value]);
                    return true;
                }
                _ => self.become_hashtable(),
            }
        }
        // It is, after the lines above.
        let Fields::Hashtable(fields) = &mut self.fields else {
            unreachable!()
        };
        let spot = fields.find(field);
        let (name, value) = (field, Owned::new(value));
        if spot.found() {
            fields.edit(spot, |field| field.value = value);
            return false;
        }
        let name = Owned::new(name);
        fields.push(spot, Field { name, value });
        true
    }

    /// Removes a field, and says whether it was there. O(log fields), or O(fields of a listpack).
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.fields {
            Fields::Listpack(fields) => {
                let Some((record, _)) = fields.find(field) else {
                    return false;
                };
                fields.remove(record);
                true
            }
            Fields::Hashtable(fields) => fields.remove(fields.find(field)).is_some(),
        }
    }

    fn become_hashtable(&mut self) {
        let Fields::Listpack(listpack) = &self.fields else {
            return;
        };
        let mut fields = Box::new(Partitions::new(self.seed));
        for [name, value] in listpack.iter() {
            let (name, value) = (Owned::new(name), Owned::new(value));
            fields.push(fields.find(&name), Field { name, value });
        }
        self.fields = Fields::Hashtable(fields);
    }

    /// All fields with their values. The iterator takes O(1) a step; nothing bounds how many there are.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (small, large) = match &self.fields {
            Fields::Listpack(fields) => (Some(fields), None),
            Fields::Hashtable(fields) => (None, Some(fields)),
        };
        let small = small
            .into_iter()
            .flat_map(Listpack::iter)
            .map(|[name, value]| (name, value));
        small.chain(large.into_iter().flat_map(|fields| fields.iter()).map(Field::pair))
    }

    /// One step of [HSCAN](https://redis.io/docs/latest/commands/hscan/): shows fields from `cursor` on, `count` or more (one
    /// partition of up to 1,024 at a time; a listpack whole), and gives the cursor to go on with, 0 after the last. Every field that is
    /// there from the first step to the last is shown, some perhaps twice. A cursor is below 2^48. O(count + one partition).
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, show: &mut dyn FnMut(&'a [u8], &'a [u8])) -> u64 {
        match &self.fields {
            Fields::Listpack(fields) => {
                fields.iter().for_each(|[name, value]| show(name, value));
                0
            }
            Fields::Hashtable(fields) => fields.scan(cursor, count, &mut |field| show(&field.name, &field.value)),
        }
    }

    /// The field of that rank in the order of [`Hash::iter`], with its value: for the ranks of a [`Sample`]. O(partitions), or O(fields
    /// of a listpack).
    pub fn nth(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        match &self.fields {
            Fields::Listpack(fields) => fields.nth(rank).map(|[name, value]| (name, value)),
            Fields::Hashtable(fields) => fields.nth(rank).map(Field::pair),
        }
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
        let done = match &mut self.fields {
            Fields::Listpack(_) => true,
            Fields::Hashtable(fields) => fields.drop_some(elements),
        };
        if done {
            self.fields = Fields::Listpack(Listpack::default());
        }
        done
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        match &self.fields {
            Fields::Listpack(fields) => assert!(fields.len() <= LISTPACK_FIELDS_MAX),
            Fields::Hashtable(fields) => fields.check(),
        }
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
