//! Sets.

use crate::allocation::{Buffer, size_class};
use crate::encoding::{Encoding, INTSET_ENTRIES_MAX, LISTPACK_ELEMENT_BYTES_MAX, LISTPACK_ENTRIES_MAX};
use crate::listpack::Listpack;
use crate::packed::Owned;
use crate::partition::Keyed;
use crate::partitions::Partitions;
use crate::sample::{Sample, below};
use crate::seed::HashSeed;
use crate::text::Text;
use tollgate_protocol::parse_integer;

/// A [set](https://redis.io/docs/latest/develop/data-types/sets/). A small one of integers is sorted; another small one keeps its
/// members in the order in which they were added. As Redis's intsets and listpacks.
#[derive(Clone)]
pub struct Set {
    members: Members,
    seed: HashSeed,
}

#[derive(Clone)]
enum Members {
    /// Sorted, at most [`INTSET_ENTRIES_MAX`].
    Integers(Vec<i64>),
    Listpack(Listpack<1>),
    Hashtable(Box<Partitions<Member>>),
}

#[derive(Clone)]
struct Member(Owned);

impl Member {
    fn new(bytes: &[u8]) -> Member {
        Member(Owned::new(bytes))
    }
}

impl Keyed for Member {
    fn key(&self) -> &[u8] {
        &self.0
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl Set {
    /// Without members, and as Redis makes one for a command that is about to add `expected` members of which `first` is the first:
    /// their number, different or not, decides about the encoding. Redis has no set without members: add them. O(1).
    pub fn new(seed: HashSeed, first: &[u8], expected: usize) -> Set {
        let members = if parse_integer(first).is_some() && expected <= INTSET_ENTRIES_MAX {
            Members::Integers(Vec::new())
        } else if expected <= LISTPACK_ENTRIES_MAX {
            Members::Listpack(Listpack::default())
        } else {
            Members::Hashtable(Box::new(Partitions::new(seed)))
        };
        Set { members, seed }
    }

    /// How many members. O(1).
    pub fn len(&self) -> usize {
        match &self.members {
            Members::Integers(integers) => integers.len(),
            Members::Listpack(members) => members.len(),
            Members::Hashtable(members) => members.len(),
        }
    }

    /// Whether it has no member. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first byte of what is beside the struct, if that is small.
    #[inline]
    pub(crate) fn first_byte(&self) -> Option<u8> {
        match &self.members {
            Members::Integers(integers) => integers.first().map(|&first| first as u8),
            Members::Listpack(members) => members.first_byte(),
            Members::Hashtable(_) => None,
        }
    }

    /// Bytes allocated, with the box it is in. O(1).
    pub fn bytes(&self) -> usize {
        size_class(size_of::<Set>())
            + match &self.members {
                Members::Integers(integers) => integers.buffer_bytes(),
                Members::Listpack(members) => members.allocated_bytes(),
                Members::Hashtable(members) => size_class(size_of::<Partitions<Member>>()) + members.allocated_bytes(),
            }
    }

    /// An intset of up to 512 integers, a listpack up to 128 members and 64 bytes, else a hashtable, and never back, but by
    /// [`Set::compact`] and [`Set::rebuild`]. O(1).
    pub fn encoding(&self) -> Encoding {
        match &self.members {
            Members::Integers(_) => Encoding::Intset,
            Members::Listpack(_) => Encoding::Listpack,
            Members::Hashtable(_) => Encoding::Hashtable,
        }
    }

    /// Says that a command is about to add so many members: see [`Set::new`]. O(a small set).
    pub fn expect(&mut self, members: usize) {
        let most = match &self.members {
            Members::Integers(_) => INTSET_ENTRIES_MAX,
            Members::Listpack(_) => LISTPACK_ENTRIES_MAX,
            Members::Hashtable(_) => return,
        };
        if members > most {
            self.become_hashtable();
        }
    }

    /// Whether it is a member ([SISMEMBER](https://redis.io/docs/latest/commands/sismember/)). O(log members), or O(members of a
    /// listpack).
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.members {
            Members::Integers(integers) => {
                parse_integer(member).is_some_and(|integer| integers.binary_search(&integer).is_ok())
            }
            Members::Listpack(members) => members.find(member).is_some(),
            Members::Hashtable(members) => members.find(member).found(),
        }
    }

    /// Adds a member, and says whether it is new ([SADD](https://redis.io/docs/latest/commands/sadd/)). O(log members), or O(members of
    /// a small set), also once when it outgrows that.
    pub fn add(&mut self, member: &[u8]) -> bool {
        match &mut self.members {
            Members::Integers(integers) => match parse_integer(member) {
                Some(integer) => {
                    let Err(at) = integers.binary_search(&integer) else {
                        return false;
                    };
                    integers.make_room();
                    integers.insert(at, integer);
                    if integers.len() > INTSET_ENTRIES_MAX {
                        self.become_hashtable();
                    }
                    return true;
                }
                None if fits_listpack(integers.len(), member) => {
                    let mut listpack = Listpack::default();
                    integers
                        .iter()
                        .for_each(|&integer| listpack.push([&Text::integer(integer)]));
                    listpack.push([member]);
                    self.members = Members::Listpack(listpack);
                    return true;
                }
                None => self.become_hashtable(),
            },
            Members::Listpack(members) => {
                if members.find(member).is_some() {
                    return false;
                }
                if fits_listpack(members.len(), member) {
                    members.push([member]);
                    return true;
                }
                self.become_hashtable();
            }
            Members::Hashtable(_) => {}
        }
        // It is, after the lines above.
        let Members::Hashtable(members) = &mut self.members else {
            unreachable!()
        };
        let spot = members.find(member);
        if spot.found() {
            return false;
        }
        members.push(spot, Member::new(member));
        true
    }

    /// Removes a member, and says whether it was there ([SREM](https://redis.io/docs/latest/commands/srem/)). O(log members), or O(members of a
    /// listpack).
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.members {
            Members::Integers(integers) => {
                let found = parse_integer(member).map(|integer| integers.binary_search(&integer));
                let Some(Ok(at)) = found else { return false };
                integers.remove(at);
                integers.give_back();
                true
            }
            Members::Listpack(members) => {
                let Some((record, _)) = members.find(member) else {
                    return false;
                };
                members.remove(record);
                true
            }
            Members::Hashtable(members) => members.remove(members.find(member)).is_some(),
        }
    }

    /// All members. The iterator takes O(1) a step; nothing bounds how many there are.
    pub fn iter(&self) -> impl Iterator<Item = Text<'_>> {
        let (integers, listpack, hashtable) = match &self.members {
            Members::Integers(integers) => (&integers[..], None, None),
            Members::Listpack(members) => (&[][..], Some(members), None),
            Members::Hashtable(members) => (&[][..], None, Some(members)),
        };
        let integers = integers.iter().map(|&integer| Text::integer(integer));
        let listpack = listpack
            .into_iter()
            .flat_map(Listpack::iter)
            .map(|[member]| Text::bytes(member));
        let hashtable = hashtable.into_iter().flat_map(|members| members.iter());
        integers
            .chain(listpack)
            .chain(hashtable.map(|member| Text::bytes(&member.0)))
    }

    /// One step of [SSCAN](https://redis.io/docs/latest/commands/sscan/), as [`crate::Hash::scan`]; an intset comes whole too. It is
    /// also the way to walk over a large set in steps, for SINTER and its like. O(count + one partition).
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, show: &mut dyn FnMut(Text<'a>)) -> u64 {
        match &self.members {
            Members::Hashtable(members) => members.scan(cursor, count, &mut |member| show(Text::bytes(&member.0))),
            _ => {
                self.iter().for_each(show);
                0
            }
        }
    }

    /// The member of that rank in the order of [`Set::iter`]: for the ranks of a [`Sample`]. O(partitions), or O(members of a
    /// listpack).
    pub fn nth(&self, rank: usize) -> Option<Text<'_>> {
        match &self.members {
            Members::Integers(integers) => integers.get(rank).map(|&integer| Text::integer(integer)),
            Members::Listpack(members) => members.nth(rank).map(|[member]| Text::bytes(member)),
            Members::Hashtable(members) => members.nth(rank).map(|member| Text::bytes(&member.0)),
        }
    }

    /// A random member, each equally often: [SRANDMEMBER](https://redis.io/docs/latest/commands/srandmember/) with repetition.
    /// O(partitions).
    pub fn random(&self, random: u64) -> Option<Text<'_>> {
        self.nth(below(self.len(), random))
    }

    /// Distinct random ranks for [`Set::nth`]: SRANDMEMBER without repetition. O(1), and room for `count`.
    pub fn sample(&self, count: usize) -> Sample {
        Sample::new(self.len(), count)
    }

    /// Takes out a random member, each equally often: a step of [SPOP](https://redis.io/docs/latest/commands/spop/). O(partitions).
    pub fn pop(&mut self, random: u64) -> Option<Vec<u8>> {
        let rank = below(self.len(), random);
        if let Members::Hashtable(members) = &mut self.members {
            return Some(members.remove(members.spot_of_rank(rank))?.0.to_vec());
        }
        let member = self.nth(rank)?.to_vec();
        self.remove(&member);
        Some(member)
    }

    /// Makes an intset of it if all members are integers and few enough, as Redis does with the results of SINTERSTORE and its like.
    /// O(512).
    pub fn compact(&mut self) {
        if self.len() > INTSET_ENTRIES_MAX || matches!(self.members, Members::Integers(_)) {
            return;
        }
        let integers: Option<Vec<i64>> = self.iter().map(|member| parse_integer(&member)).collect();
        let Some(mut integers) = integers else { return };
        integers.sort_unstable();
        integers.shrink_to_fit();
        self.members = Members::Integers(integers);
    }

    /// Makes a listpack of a hashtable that has become small enough, as Redis does when one SPOP takes all but few members: when it
    /// leaves up to a fifth of the number that it takes. O(128).
    pub fn rebuild(&mut self) {
        let Members::Hashtable(members) = &self.members else {
            return;
        };
        let fits = |member: &Member| member.0.len() <= LISTPACK_ELEMENT_BYTES_MAX;
        if members.len() > LISTPACK_ENTRIES_MAX || !members.iter().all(fits) {
            return;
        }
        let mut listpack = Listpack::default();
        members.iter().for_each(|member| listpack.push([&member.0]));
        self.members = Members::Listpack(listpack);
    }

    /// See [`crate::Value::drop_some`].
    #[must_use = "until it says true, there is more to drop"]
    pub fn drop_some(&mut self, elements: usize) -> bool {
        let done = match &mut self.members {
            Members::Integers(_) | Members::Listpack(_) => true,
            Members::Hashtable(members) => members.drop_some(elements),
        };
        if done {
            self.members = Members::Listpack(Listpack::default());
        }
        done
    }

    fn become_hashtable(&mut self) {
        if let Members::Hashtable(_) = self.members {
            return;
        }
        let mut members = Box::new(Partitions::new(self.seed));
        for member in self.iter() {
            members.push(members.find(&member), Member::new(&member));
        }
        self.members = Members::Hashtable(members);
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        match &self.members {
            Members::Integers(integers) => assert!(integers.is_sorted() && integers.len() <= INTSET_ENTRIES_MAX),
            Members::Listpack(members) => assert!(members.len() <= LISTPACK_ENTRIES_MAX),
            Members::Hashtable(members) => members.check(),
        }
    }
}

fn fits_listpack(entries: usize, member: &[u8]) -> bool {
    entries < LISTPACK_ENTRIES_MAX && member.len() <= LISTPACK_ELEMENT_BYTES_MAX
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Set")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}
