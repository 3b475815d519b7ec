//! What is not in a page itself: large states and Redis values, owned by the page, named by a number.

use crate::value::StoredValue;
use tollgate_values::size_class;

/// One of them.
pub(crate) enum Content {
    /// The body of an entry that is too large for a page.
    Bytes(Box<[u8]>),
    /// A Redis value.
    Value(Box<StoredValue>),
}

impl Content {
    /// Bytes that it has allocated, besides its place here.
    fn allocated_bytes(&self) -> usize {
        match self {
            Content::Bytes(bytes) => size_class(bytes.len()),
            Content::Value(value) => value.allocated_bytes(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Blocks {
    blocks: Vec<Option<Content>>,
    free: Vec<u32>,
    payload_bytes: usize,
}

impl Blocks {
    pub(crate) fn insert(&mut self, block: Content) -> u32 {
        self.payload_bytes += block.allocated_bytes();
        match self.free.pop() {
            Some(number) => {
                self.blocks[number as usize] = Some(block);
                number
            }
            None => {
                self.blocks.push(Some(block));
                (self.blocks.len() - 1) as u32
            }
        }
    }

    /// Takes a block out. `None` if there is none of that number.
    pub(crate) fn take(&mut self, number: u32) -> Option<Content> {
        let block = self.blocks.get_mut(number as usize)?.take()?;
        self.payload_bytes -= block.allocated_bytes();
        self.free.push(number);
        Some(block)
    }

    /// The bytes of a block; nothing if it is a value.
    pub(crate) fn bytes(&self, number: u32) -> &[u8] {
        match self.blocks.get(number as usize) {
            Some(Some(Content::Bytes(bytes))) => bytes,
            _ => &[],
        }
    }

    /// As [`Blocks::bytes`], to change them.
    pub(crate) fn bytes_mut(&mut self, number: u32) -> &mut [u8] {
        match self.blocks.get_mut(number as usize) {
            Some(Some(Content::Bytes(bytes))) => bytes,
            _ => &mut [],
        }
    }

    /// Reads where a block is.
    pub(crate) fn touch(&self, number: u32) -> u64 {
        u64::from(self.blocks.get(number as usize).is_some_and(Option::is_some))
    }

    /// The value in a block.
    pub(crate) fn value(&self, number: u32) -> Option<&StoredValue> {
        match self.blocks.get(number as usize) {
            Some(Some(Content::Value(value))) => Some(value),
            _ => None,
        }
    }

    /// The value in a block, to change what it allocates nothing for.
    pub(crate) fn value_mut(&mut self, number: u32) -> Option<&mut StoredValue> {
        match self.blocks.get_mut(number as usize) {
            Some(Some(Content::Value(value))) => Some(value),
            _ => None,
        }
    }

    /// Changes the value in a block.
    pub(crate) fn change_value<T>(&mut self, number: u32, change: impl FnOnce(&mut StoredValue) -> T) -> Option<T> {
        let Some(Some(Content::Value(value))) = self.blocks.get_mut(number as usize) else {
            return None;
        };
        let before = value.allocated_bytes();
        let changed = change(value);
        self.payload_bytes = self.payload_bytes - before + value.allocated_bytes();
        Some(changed)
    }

    /// All blocks.
    pub(crate) fn into_each(self) -> impl Iterator<Item = Content> {
        self.blocks.into_iter().flatten()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.len() == self.free.len()
    }

    /// Bytes allocated for the blocks and for keeping them.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.payload_bytes
            + size_class(size_of::<Blocks>())
            + size_class(self.blocks.capacity() * size_of::<Option<Content>>())
            + size_class(self.free.capacity() * size_of::<u32>())
    }

    pub(crate) fn block_bytes(&self, number: u32) -> usize {
        let block = self.blocks.get(number as usize).and_then(Option::as_ref);
        block.map_or(0, Content::allocated_bytes)
    }
}
