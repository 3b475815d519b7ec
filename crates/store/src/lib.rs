//! The entries of one shard: slot maps, coarse expiry, byte accounting, scans and sweeps.
//!
//! A [`Store`] owns a contiguous range of the 16,384 slots of Redis Cluster ([`slot_of`]). It does no I/O, reads no clock
//! (every time is an argument, in microseconds), and does not know what the numbers of a bucket mean.
//!
//! # Layout
//!
//! Each [`Keyspace`] in use has one array of slot maps. A slot map is one page, or, once it outgrows a page, a directory
//! of pages split by the top bits of the keys' hashes (extendible hashing). A page is one block of memory with tags,
//! offsets and entries in it, from an arena that keeps blocks of a size packed. Growing, compacting, splitting, merging and
//! sweeping touch at most two pages, each bounded to [`MAX_PAGE_ENTRIES`] entries and [`MAX_PAGE_BYTES`] bytes, so no
//! operation stalls the shard, however many keys share a slot. State or keys that are large live in a block of their own.
//!
//! # Example
//!
//! ```
//! use tollgate_store::{Expiry, Numbers, SLOTS, Space, State, Store};
//!
//! let mut store = Store::new(0..SLOTS, 42, 0);
//! let key = store.key(Space::Db(0), b"user:1").unwrap();
//! let state = State::Numbers(Numbers::new(&[9.0, 1_000.0]).unwrap());
//! store.put(&key, 7, Expiry::from_us(60_000_000), false, state).unwrap();
//! let place = store.find(&key).unwrap();
//! assert_eq!(store.bucket(place).params, 7);
//! assert!(store.update(place, 7, Expiry::NEVER, false, &[8.0, 2_000.0]));
//! ```

mod arena;
mod blocks;
mod changes;
mod directory;
mod entry;
mod expiry;
mod grave;
mod key;
mod layout;
mod locate;
mod page;
mod rebuild;
mod scan;
mod slot;
mod slot_map;
mod slot_set;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod trash;
mod value;
mod words;

pub use changes::{CHANGES_BYTES_MAX, Change, DropFrom, Role};
pub use entry::{Bucket, Entry, EntryView, MAX_BLOB_BYTES, MAX_NUMBERS, NO_PARAMS, Numbers, State, StateError};
pub use expiry::{EXPIRY_UNIT_US, Expiry};
pub use key::{DATABASES, Key, KeyError, KeyMemo, Keyspace, MAX_KEY_BYTES, Space};
pub use layout::{MAX_PAGE_BYTES, MAX_PAGE_ENTRIES};
pub use locate::LOCATE_BATCH;
pub use scan::{Cursor, Relief, SCAN_SLOTS_PER_STEP};
pub use slot::{SLOTS, slot_of};
pub use slot_set::SlotSet;
pub use store::{NumbersAt, Place, Removed, SlotMeta, Store};
pub use sweep::SweepProgress;
pub use trash::{Flushing, Trash};
pub use value::{StoredValue, Taken};
