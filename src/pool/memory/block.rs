//! Blocks: ranges of memory that are in use.

/// A range of addresses that a storage or an op's workspace holds. It lies in a slab, or in a reserved range of addresses with
/// pages behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    /// Which slab, or which reserved range of addresses.
    pub(in crate::pool) slab: u32,
    pub(in crate::pool) offset: usize,
    /// The size that counts against the budget, rounded up to the alignment or to whole pages.
    pub bytes: usize,
}

impl Block {
    /// A part of it, which is not freed by itself.
    pub(in crate::pool) fn part(self, offset: usize, bytes: usize) -> Block {
        Block { offset: self.offset + offset, bytes, ..self }
    }
}
