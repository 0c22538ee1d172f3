//! Ranges of memory that are in use.

/// A range of a slab, or of addresses that pages are behind, that a storage, or an op's scratch, holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    pub(in crate::pool) slab: u32,
    pub(in crate::pool) offset: usize,
    /// Size, rounded up to the alignment, or to whole pages: what the budget counts.
    pub bytes: usize,
}
