//! Who holds which slot, and how it gets there: the slot machine.

mod store;

pub use store::{Changes, Cursor, Debit, Forgotten, Malformed, Mark, SlotStore};
