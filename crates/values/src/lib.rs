//! The data structures of Redis values: strings, lists, sets, hashes and sorted sets, as Redis 7.2 has them.
//!
//! Pure data: no I/O, no clock, no commands, no keys. A value has one owner; it can be sent to another thread as a whole.
//!
//! # Bounds
//!
//! No operation touches more than about two thousand elements, unless its documentation says which argument decides how many.
//! Large values are sequences of chunks; growing splits one chunk, removing joins two, and dropping goes in steps
//! ([`Value::drop_some`]). An element itself is contiguous: copying one takes as long as it is.
//!
//! | type | while small | when large | find | change |
//! |---|---|---|---|---|
//! | [`struct@Hash`], [`Set`] | one packed buffer, in order of insertion; a set of integers sorted | partitions by ranges of a seeded hash, of up to 1,024 | O(log n); O(n) while small | the same, and at times one partition |
//! | [`SortedSet`] | one packed buffer, in order | runs of up to 512 by score and member, and partitions by member | O(log n) by score, O(runs) by rank | O(runs) |
//! | [`List`] | one deque | deques of up to 512 | O(1) at the ends, O(deques) elsewhere | the same |
//! | [`StringValue`] | an integer or a buffer | one buffer | O(1) | O(bytes) |
//!
//! O(runs) and O(deques) are sums over groups of 128 chunks and over one group: about a microsecond for ten million elements.
//!
//! # Memory
//!
//! [`Value::bytes`] is what a value has allocated, in jemalloc's size classes, counted as it changes. A small hash, set or sorted set
//! takes one byte more than each string in it (and nine for a score); elsewhere strings of up to 22 bytes are kept in place, in 24.
//!
//! # Example
//!
//! ```
//! use tollgate_values::{HashSeed, Score, ScoreBound, SortedSet};
//!
//! let seed = HashSeed::new(42);
//! let mut log = SortedSet::new(seed);
//! log.insert(b"request 1", Score::new(1.5).unwrap());
//! log.insert(b"request 2", Score::new(7.0).unwrap());
//! let old = log.score_range(ScoreBound::MIN, ScoreBound::Exclusive(Score::new(5.0).unwrap()));
//! assert_eq!(log.remove_ranks(old, 1000), 1);
//! assert_eq!(log.rank(b"request 2"), Some(0));
//! ```

mod allocation;
mod carry;
mod encoding;
mod hash;
mod list;
mod listpack;
mod packed;
mod partition;
mod partitions;
mod sample;
mod seed;
mod sequence;
mod set;
mod sorted_set;
mod string;
#[cfg(test)]
mod tests;
mod text;
mod value;
pub mod varint;

pub use allocation::size_class;
pub use carry::{Export, Import, KindChanged, NotAValue};
pub use encoding::Encoding;
pub use hash::Hash;
pub use list::{End, List, PositionSearch, Removal};
pub use sample::Sample;
pub use seed::HashSeed;
pub use set::Set;
pub use sorted_set::{Inserted, LexBound, Score, ScoreBound, SortedSet};
pub use string::{Growth, StringValue, bits};
pub use text::Text;
pub use value::Value;
