//! Sizes: how a page divides its bytes between index and entries.

use crate::arena::block_bytes;

/// The most entries in one page.
pub const MAX_PAGE_ENTRIES: usize = 1024;

/// The most bytes in one page.
pub const MAX_PAGE_BYTES: usize = 128 * 1024;

/// What one page may hold before it is split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

impl Bounds {
    pub(crate) const DEFAULT: Bounds = Bounds {
        entries: MAX_PAGE_ENTRIES,
        bytes: MAX_PAGE_BYTES,
    };
}

/// Tags are compared eight at a time, so the first seven are repeated after the last: a group may start at any of them.
pub(crate) const GROUP: usize = 8;

/// Entries start and end at multiples of this many bytes, so that 16 bits say where.
pub(crate) const UNIT_BYTES: usize = 4;

/// The smallest index: a group must not meet itself.
const MIN_INDEX: usize = GROUP;

/// How many of `index_len` positions may be in use, tombstones included: seven eighths.
pub(crate) fn max_load(index_len: usize) -> usize {
    index_len - index_len.div_ceil(8)
}

fn index_for(entries: usize) -> usize {
    (entries * 8).div_ceil(7).max(MIN_INDEX)
}

/// Where the offsets start in a page: after the tags and the repeated first ones.
pub(crate) fn offsets_start(index_len: usize) -> usize {
    index_len + GROUP - 1
}

/// Where the entries start in a page.
pub(crate) fn entries_start(index_len: usize) -> usize {
    (offsets_start(index_len) + 2 * index_len).next_multiple_of(UNIT_BYTES)
}

/// The shape of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) bytes: usize,
    pub(crate) index_len: usize,
}

/// What part of a new page's entries, and of their bytes, it has room for besides: one in so many.
pub(crate) const SLACK_SHARE: usize = 16;

impl Layout {
    /// The smallest block that holds `entries` entries of `payload_bytes` together. What the block has over is shared
    /// between index and entries so that both fill up at the same time if later entries are as large as these on average.
    pub(crate) fn for_entries(entries: usize, payload_bytes: usize) -> Layout {
        let least = index_for(entries);
        let bytes = block_bytes(entries_start(least) + payload_bytes);
        let per_entry = payload_bytes as f64 / entries.max(1) as f64 + 3.0 * 8.0 / 7.0;
        let fits = ((bytes - GROUP) as f64 / per_entry) as usize;
        let mut index_len = index_for(fits).max(least);
        while index_len > least && entries_start(index_len) + payload_bytes > bytes {
            index_len -= 1;
        }
        Layout { bytes, index_len }
    }

    /// As [`Layout::for_entries`], with room for a sixteenth more: so many changes pay for the next rebuild.
    pub(crate) fn with_slack(entries: usize, payload_bytes: usize) -> Layout {
        Layout::for_entries(
            entries + entries / SLACK_SHARE,
            payload_bytes + payload_bytes / SLACK_SHARE,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_layout_holds_what_it_was_made_for(entries in 1usize..1200, average in 16usize..600) {
            let payload = entries * average.next_multiple_of(4);
            let layout = Layout::for_entries(entries, payload);
            prop_assert_eq!(block_bytes(layout.bytes), layout.bytes);
            prop_assert!(entries_start(layout.index_len) + payload <= layout.bytes);
            prop_assert!(max_load(layout.index_len) >= entries);
            prop_assert!(max_load(layout.index_len) < layout.index_len);
        }
    }
}
