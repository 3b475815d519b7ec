//! What hashes and sets have in common: all elements, random ones, and a scan, which sorted sets have too; each in steps where there are
//! many.

mod reply;
mod sample;
mod scan;
mod walk;

pub(crate) use reply::{Gathered, write_head_before};
pub(crate) use sample::{parse_count, sample};
pub(crate) use scan::{parse_cursor, scan};
pub(crate) use walk::{Parts, WalkRest, walk, write_all};

use crate::data::Typed;
use tollgate_protocol::ReplyWriter;
use tollgate_values::{Encoding, Hash, Sample, Set};

/// Elements that are answered at once, without steps: what a partition of a large value may have.
pub(crate) const AT_ONCE_MAX: usize = 1024;

/// What shows an element: a member alone, or a field with its value.
pub(crate) type Show<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// A type of value whose elements can be walked over.
pub(crate) trait Scan: Typed {
    /// Shows about `count` of them from a cursor on, and gives the next cursor; 0 after the last.
    fn show_some(&self, cursor: u64, count: usize, show: &mut Show<'_>) -> u64;
}

/// A type of value whose elements are found by a name, and have no order.
pub(crate) trait Elements: Scan {
    /// How many elements.
    fn count(&self) -> usize;
    /// Whether it is small, and in order.
    fn is_packed(&self) -> bool;
    /// Shows all of them.
    fn show_all(&self, show: &mut Show<'_>);
    /// Shows the one of that rank.
    fn show_nth(&self, rank: usize, show: &mut Show<'_>);
    /// Shows a random one.
    fn show_random(&self, random: u64, show: &mut Show<'_>);
    /// Distinct random ranks.
    fn ranks(&self, count: usize) -> Sample;
}

impl Scan for Hash {
    fn show_some(&self, cursor: u64, count: usize, show: &mut Show<'_>) -> u64 {
        self.scan(cursor, count, &mut |field, value| show(field, Some(value)))
    }
}

impl Elements for Hash {
    fn count(&self) -> usize {
        self.len()
    }

    fn is_packed(&self) -> bool {
        self.encoding() == Encoding::Listpack
    }

    fn show_all(&self, show: &mut Show<'_>) {
        self.iter().for_each(|(field, value)| show(field, Some(value)));
    }

    fn show_nth(&self, rank: usize, show: &mut Show<'_>) {
        if let Some((field, value)) = self.nth(rank) {
            show(field, Some(value));
        }
    }

    fn show_random(&self, random: u64, show: &mut Show<'_>) {
        if let Some((field, value)) = self.random(random) {
            show(field, Some(value));
        }
    }

    fn ranks(&self, count: usize) -> Sample {
        self.sample(count)
    }
}

impl Scan for Set {
    fn show_some(&self, cursor: u64, count: usize, show: &mut Show<'_>) -> u64 {
        self.scan(cursor, count, &mut |member| show(&member, None))
    }
}

impl Elements for Set {
    fn count(&self) -> usize {
        self.len()
    }

    fn is_packed(&self) -> bool {
        self.encoding() != Encoding::Hashtable
    }

    fn show_all(&self, show: &mut Show<'_>) {
        self.iter().for_each(|member| show(&member, None));
    }

    fn show_nth(&self, rank: usize, show: &mut Show<'_>) {
        if let Some(member) = self.nth(rank) {
            show(&member, None);
        }
    }

    fn show_random(&self, random: u64, show: &mut Show<'_>) {
        if let Some(member) = self.random(random) {
            show(&member, None);
        }
    }

    fn ranks(&self, count: usize) -> Sample {
        self.sample(count)
    }
}

/// How an element is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The member, or the field.
    Name,
    /// The value.
    Value,
    /// Field and value, one after the other.
    Both,
    /// Field and value, as an array in RESP3.
    Pair,
}

impl Part {
    /// How many replies are written for so many elements.
    fn replies(self, elements: usize, reply: &ReplyWriter<'_>) -> usize {
        match self {
            Part::Name | Part::Value => elements,
            Part::Pair if reply.proto() == tollgate_protocol::Proto::Resp3 => elements,
            Part::Both | Part::Pair => 2 * elements,
        }
    }

    fn write(self, reply: &mut ReplyWriter<'_>, name: &[u8], value: Option<&[u8]>) {
        if self == Part::Pair && reply.proto() == tollgate_protocol::Proto::Resp3 {
            reply.array(2);
        }
        if self != Part::Value {
            reply.bulk(name);
        }
        if let (Some(value), Part::Value | Part::Both | Part::Pair) = (value, self) {
            reply.bulk(value);
        }
    }
}
