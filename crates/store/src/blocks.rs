//! What is too large for a page: one allocation each, owned by the page, named by a number.

use crate::layout::size_class;

#[derive(Default)]
pub(crate) struct Blocks {
    blocks: Vec<Box<[u8]>>,
    free: Vec<u32>,
    payload_bytes: usize,
}

impl Blocks {
    pub(crate) fn insert(&mut self, block: Box<[u8]>) -> u32 {
        self.payload_bytes += size_class(block.len());
        match self.free.pop() {
            Some(number) => {
                self.blocks[number as usize] = block;
                number
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    pub(crate) fn take(&mut self, number: u32) -> Box<[u8]> {
        let block = std::mem::take(&mut self.blocks[number as usize]);
        self.payload_bytes -= size_class(block.len());
        self.free.push(number);
        block
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        &self.blocks[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut [u8] {
        &mut self.blocks[number as usize]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.len() == self.free.len()
    }

    /// Bytes allocated for the blocks and for keeping them.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.payload_bytes
            + size_class(size_of::<Blocks>())
            + size_class(self.blocks.capacity() * size_of::<Box<[u8]>>())
            + size_class(self.free.capacity() * size_of::<u32>())
    }
}
